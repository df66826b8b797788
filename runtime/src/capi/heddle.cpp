//===- heddle.cpp - The runtime's C interface -----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle_rt/heddle.h"

#include "bundle/validate_plan.h"
#include "heddle_rt/communicator.h"
#include "heddle_rt/plan_generated.h"
#include "heddle_rt/session.h"

#include <algorithm>
#include <cstring>
#include <new>

using namespace heddle::rt;

struct heddle_status_t {
  Status status;
};
struct heddle_bundle {
  std::shared_ptr<const Bundle> bundle;
};
struct heddle_weights {
  std::unique_ptr<WeightSource> source;
};
struct heddle_session {
  std::unique_ptr<Communicator> comm;
  std::unique_ptr<Session> session; // ends before the communicator
};
struct heddle_tensor {
  HostTensor tensor;
};

namespace {

static_assert(static_cast<int>(Code::internal) == HEDDLE_INTERNAL &&
                  static_cast<int>(Code::aborted) == HEDDLE_ABORTED &&
                  static_cast<int>(Code::data_loss) == HEDDLE_DATA_LOSS,
              "the codes are the same on both sides");

heddle_status give(Status status) {
  if (status.ok())
    return nullptr;
  return new (std::nothrow) heddle_status_t{std::move(status)};
}

heddle_status missing(const char *what) {
  return give(Status(Code::invalid_argument,
                     std::string("expected ") + what + ", got null"));
}

/// Nothing is thrown across the border.
template <typename Function> heddle_status guarded(Function function) {
  try {
    return give(function());
  } catch (const std::bad_alloc &) {
    return give(Status(Code::resource_exhausted, "out of memory"));
  } catch (const std::exception &error) {
    return give(Status(Code::internal, error.what()));
  }
}

Status keepTensor(Result<HostTensor> tensor, heddle_tensor **out) {
  if (!tensor)
    return tensor.status();
  *out = new heddle_tensor{tensor.take()};
  return {};
}

Status keepBundle(Result<std::shared_ptr<const Bundle>> bundle,
                  heddle_bundle **out) {
  if (!bundle)
    return bundle.status();
  *out = new heddle_bundle{bundle.take()};
  return {};
}

} // namespace

int heddle_status_code(heddle_status status) {
  return status ? static_cast<int>(status->status.code()) : HEDDLE_OK;
}

const char *heddle_status_message(heddle_status status) {
  return status ? status->status.message().c_str() : "";
}

void heddle_status_free(heddle_status status) { delete status; }

heddle_status heddle_bundle_open(const char *path, heddle_bundle **out_bundle) {
  if (!path || !out_bundle)
    return missing("a path and a place for the bundle");
  return guarded([&] { return keepBundle(Bundle::open(path), out_bundle); });
}

heddle_status heddle_bundle_parse(const void *bytes, size_t length,
                                  heddle_bundle **out_bundle) {
  if (!bytes || !out_bundle)
    return missing("bytes and a place for the bundle");
  return guarded([&] {
    const uint8_t *begin = static_cast<const uint8_t *>(bytes);
    return keepBundle(
        Bundle::parse(std::vector<uint8_t>(begin, begin + length)), out_bundle);
  });
}

void heddle_bundle_free(heddle_bundle *bundle) { delete bundle; }

int64_t heddle_bundle_world_size(const heddle_bundle *bundle) {
  return bundle->bundle->worldSize();
}

void heddle_bundle_section(const heddle_bundle *bundle, const char *id,
                           const char **out_bytes, size_t *out_length) {
  std::string_view section = bundle->bundle->section(id);
  *out_bytes = section.data();
  *out_length = section.size();
}

const char *heddle_bundle_interface(const heddle_bundle *bundle) {
  const flatbuffers::String *text = bundle->bundle->plan().interface();
  return text ? text->c_str() : "";
}

heddle_status heddle_weights_open(const char *path,
                                  heddle_weights **out_weights) {
  if (!path || !out_weights)
    return missing("a path and a place for the weights");
  return guarded([&]() -> Status {
    Result<std::unique_ptr<WeightSource>> source = WeightSource::open(path);
    if (!source)
      return source.status();
    *out_weights = new heddle_weights{source.take()};
    return {};
  });
}

void heddle_weights_free(heddle_weights *weights) { delete weights; }

heddle_status heddle_session_create(const heddle_bundle *bundle,
                                    const heddle_session_options *options,
                                    heddle_session **out_session) {
  if (!bundle || !out_session)
    return missing("a bundle and a place for the session");
  return guarded([&]() -> Status {
    // An older caller's struct is shorter; what it lacks is zero.
    heddle_session_options given = {};
    if (options)
      std::memcpy(&given, options,
                  std::min(options->struct_size, sizeof(given)));
    SessionOptions made;
    made.workers = given.workers;
    if (given.poisoned)
      made.poison = given.poison;
    made.scheduleSeed = given.schedule_seed;
    made.tracePath = given.trace_path ? given.trace_path : "";
    auto session = std::make_unique<heddle_session>();
    session->comm = createInProcessCommunicator(bundle->bundle->worldSize());
    Result<std::unique_ptr<Session>> created =
        Session::create(bundle->bundle, *session->comm, made);
    if (!created)
      return created.status();
    session->session = created.take();
    *out_session = session.release();
    return {};
  });
}

void heddle_session_free(heddle_session *session) { delete session; }

heddle_status heddle_session_load_weights(
    heddle_session *session, const heddle_weights *weights,
    void (*progress)(void *user, int64_t done, int64_t total), void *user) {
  if (!session || !weights)
    return missing("a session and weights");
  return guarded([&] {
    std::function<void(int64_t, int64_t)> report;
    if (progress)
      report = [=](int64_t done, int64_t total) {
        progress(user, done, total);
      };
    return session->session->loadWeights(*weights->source, report);
  });
}

heddle_status heddle_session_reset_states(heddle_session *session) {
  if (!session)
    return missing("a session");
  return guarded([&] { return session->session->resetStates(); });
}

heddle_status heddle_session_set_param(heddle_session *session,
                                       const char *program, const char *name,
                                       int64_t value) {
  if (!session || !program || !name)
    return missing("a session, a program and a name");
  return guarded(
      [&] { return session->session->setParam(program, name, value); });
}

heddle_status heddle_session_set_input(heddle_session *session,
                                       const char *program, const char *name,
                                       int32_t dtype, const int64_t *shape,
                                       size_t rank, const void *data,
                                       size_t bytes) {
  if (!session || !program || !name || (!shape && rank) || (!data && bytes))
    return missing("a session, a program, a name, a shape and data");
  return guarded([&]() -> Status {
    std::optional<DType> type = knownDType(
        static_cast<fb::DType>(dtype >= 0 && dtype <= 255 ? dtype : 255));
    if (!type)
      return Status(Code::invalid_argument,
                    "expected an element type, got " + std::to_string(dtype));
    HostTensor tensor;
    tensor.dtype = *type;
    tensor.shape.assign(shape, shape + rank);
    const uint8_t *begin = static_cast<const uint8_t *>(data);
    tensor.bytes.assign(begin, begin + bytes);
    return session->session->setInput(program, name, tensor);
  });
}

heddle_status heddle_session_run(heddle_session *session, const char *program) {
  if (!session || !program)
    return missing("a session and a program");
  return guarded([&] { return session->session->run(program); });
}

heddle_status heddle_session_output(heddle_session *session,
                                    const char *program, const char *name,
                                    heddle_tensor **out_tensor) {
  if (!session || !program || !name || !out_tensor)
    return missing("a session, a program, a name and a place for the tensor");
  return guarded([&] {
    return keepTensor(session->session->output(program, name), out_tensor);
  });
}

heddle_status heddle_session_state(heddle_session *session, const char *name,
                                   heddle_tensor **out_tensor) {
  if (!session || !name || !out_tensor)
    return missing("a session, a name and a place for the tensor");
  return guarded(
      [&] { return keepTensor(session->session->state(name), out_tensor); });
}

heddle_status heddle_session_write_trace(heddle_session *session) {
  if (!session)
    return missing("a session");
  return guarded([&] { return session->session->writeTrace(); });
}

int32_t heddle_tensor_dtype(const heddle_tensor *tensor) {
  return static_cast<int32_t>(tensor->tensor.dtype);
}

size_t heddle_tensor_rank(const heddle_tensor *tensor) {
  return tensor->tensor.shape.size();
}

const int64_t *heddle_tensor_shape(const heddle_tensor *tensor) {
  return tensor->tensor.shape.data();
}

const void *heddle_tensor_data(const heddle_tensor *tensor) {
  return tensor->tensor.bytes.data();
}

size_t heddle_tensor_bytes(const heddle_tensor *tensor) {
  return tensor->tensor.bytes.size();
}

void heddle_tensor_free(heddle_tensor *tensor) { delete tensor; }
