//===- session.cpp - Running a bundle -------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle_rt/session.h"

#include "base/arena.h"
#include "base/text.h"
#include "bundle/validate_plan.h"
#include "executor/executor.h"
#include "session/layout.h"
#include "session/load_weights.h"
#include "session/promises.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <sys/sysinfo.h>

namespace heddle::rt {

Session::~Session() = default;

namespace {

/// A tensor of the plan: an input, an output or a state.
struct PlanTensor {
  const fb::Operand *operand = nullptr;
  const DimShards *dims = nullptr;
  DType dtype = DType::f32;

  template <typename T> static PlanTensor of(const T &tensor) {
    return {tensor.operand(), tensor.dims(),
            static_cast<DType>(tensor.dtype())};
  }
  std::vector<int64_t> shape() const {
    std::vector<int64_t> shape;
    if (dims)
      for (const fb::DimShard *dim : *dims)
        shape.push_back(dim->size());
    return shape;
  }
};

template <typename T> std::string namesOf(const T *items) {
  std::vector<std::string> names;
  if (items)
    for (const auto *item : *items)
      names.push_back(item->name()->str());
  return names.empty() ? "none" : joined(names);
}

template <typename T>
auto findByName(const T *items, const std::string &name)
    -> decltype(items->Get(0)) {
  if (items)
    for (const auto *item : *items)
      if (item->name()->string_view() == name)
        return item;
  return nullptr;
}

class SessionImpl final : public Session {
public:
  SessionImpl(std::shared_ptr<const Bundle> bundle, Communicator &comm,
              const SessionOptions &options)
      : bundle_(std::move(bundle)), plan_(bundle_->plan()), comm_(comm),
        options_(options), promises_(plan_) {}

  ~SessionImpl() override {
    if (!traced_)
      (void)writeTrace();
  }

  Status build() {
    if (comm_.worldSize() != bundle_->worldSize())
      return Status(Code::incompatible,
                    concat("the bundle is for ", bundle_->worldSize(),
                           " ranks, the ", comm_.name(),
                           " communicator connects ", comm_.worldSize()));
    HEDDLE_RT_RETURN_IF_ERROR(checkMemory());
    for (int32_t rank : comm_.localRanks()) {
      ranks_.push_back({rank, {}});
      const fb::RankClass &cls = classOf(rank);
      if (!cls.spaces())
        continue;
      for (const fb::Space *space : *cls.spaces()) {
        Result<Arena> arena = Arena::allocate(space->bytes());
        if (!arena)
          return Status(arena.status().code(),
                        concat("rank ", rank, ", space '",
                               space->name()->string_view(),
                               "': ", arena.status().message()));
        if (options_.poison)
          fillPattern(arena->data(), arena->bytes(), *options_.poison);
        ranks_.back().spaces.push_back(arena->data());
        arenas_.push_back(arena.take());
      }
    }
    ExecutorOptions options;
    options.workers = options_.workers;
    options.scheduleSeed = options_.scheduleSeed;
    options.trace = !options_.tracePath.empty();
    options.fault = options_.fault;
    Result<std::unique_ptr<Executor>> executor =
        Executor::create(*bundle_, comm_, ranks_, options);
    if (!executor)
      return executor.status();
    executor_ = executor.take();
    comm_.attach(executor_->pool());
    return resetStates();
  }

  Status
  loadWeights(const WeightSource &source,
              const std::function<void(int64_t, int64_t)> &progress) override {
    return heddle::rt::loadWeights(plan_, ranks_, source, executor_->pool(),
                                   progress);
  }

  Status resetStates() override {
    for (const RankMemory &rank : ranks_) {
      const fb::RankClass &cls = classOf(rank.rank);
      if (!cls.states())
        continue;
      for (const fb::State *state : *cls.states())
        fillPattern(place(rank, *state->operand()), state->operand()->bytes(),
                    state->fill());
    }
    return {};
  }

  Status setParam(const std::string &program, const std::string &name,
                  int64_t value) override {
    return executor_->setParam(program, name, value);
  }

  Status setInput(const std::string &program, const std::string &name,
                  const HostTensor &value) override {
    bool found = false;
    for (const RankMemory &rank : ranks_) {
      const fb::Program *source =
          findByName(classOf(rank.rank).programs(), program);
      const fb::IO *io = source ? findByName(source->inputs(), name) : nullptr;
      if (!io)
        continue;
      PlanTensor tensor = PlanTensor::of(*io);
      if (!found)
        HEDDLE_RT_RETURN_IF_ERROR(
            checkInput(concat("input '", name, "' of program '", program, "'"),
                       tensor, value));
      found = true;
      scatter(rank, tensor, value);
    }
    if (!found)
      return notFound("input", program, name, &fb::Program::inputs);
    if (promises_.concerns(program, name))
      promises_.keep(program, name, value);
    return {};
  }

  Status run(const std::string &program) override {
    HEDDLE_RT_RETURN_IF_ERROR(promises_.check(program));
    return executor_->run(program);
  }

  Result<HostTensor> output(const std::string &program,
                            const std::string &name) override {
    Result<HostTensor> tensor =
        gather(concat("output '", name, "' of program '", program, "'"),
               [&](const fb::RankClass &cls) -> std::optional<PlanTensor> {
                 const fb::Program *source =
                     findByName(cls.programs(), program);
                 const fb::IO *io =
                     source ? findByName(source->outputs(), name) : nullptr;
                 if (!io)
                   return std::nullopt;
                 return PlanTensor::of(*io);
               });
    if (!tensor && tensor.status().code() == Code::not_found)
      return notFound("output", program, name, &fb::Program::outputs);
    return tensor;
  }

  Result<HostTensor> state(const std::string &name) override {
    return gather(concat("state '", name, "'"),
                  [&](const fb::RankClass &cls) -> std::optional<PlanTensor> {
                    const fb::State *state = findByName(cls.states(), name);
                    if (!state)
                      return std::nullopt;
                    return PlanTensor::of(*state);
                  });
  }

  Status writeTrace() override {
    if (options_.tracePath.empty() || !executor_)
      return {};
    traced_ = true;
    return executor_->writeTrace(options_.tracePath);
  }

private:
  /// Arenas are mapped without a reservation: asking for more than there is
  /// would end with a signal much later.
  Status checkMemory() const {
    struct sysinfo info = {};
    if (sysinfo(&info) != 0)
      return {};
    __int128 available =
        (__int128{info.totalram} + info.totalswap) * info.mem_unit;
    std::vector<int64_t> perRank;
    for (const fb::RankClass *cls : *plan_.classes()) {
      int64_t bytes = 0, scalars = 0;
      if (cls->spaces())
        for (const fb::Space *space : *cls->spaces())
          bytes += space->bytes(); // at most 16 x 2^46
      if (cls->programs())
        for (const fb::Program *program : *cls->programs())
          scalars = std::max<int64_t>(scalars, program->scalars());
      perRank.push_back(bytes + scalars * 8);
    }
    __int128 needed = 0;
    for (int32_t rank : comm_.localRanks())
      needed += perRank[static_cast<size_t>(classNumber(rank))];
    if (needed <= available)
      return {};
    return Status(Code::resource_exhausted,
                  concat("the bundle's ", comm_.localRanks().size(),
                         " ranks in this process need ",
                         static_cast<int64_t>(needed >> 20),
                         " MiB, this machine has ",
                         static_cast<int64_t>(available >> 20), " MiB"));
  }

  const fb::RankClass &classOf(int64_t rank) const {
    uint32_t index =
        plan_.rank_class()->size() == 1 ? 0 : static_cast<uint32_t>(rank);
    return *plan_.classes()->Get(
        static_cast<uint32_t>(plan_.rank_class()->Get(index)));
  }

  uint8_t *place(const RankMemory &rank, const fb::Operand &operand) const {
    const fb::Region *region = classOf(rank.rank).regions()->Get(
        static_cast<uint32_t>(operand.region()));
    return rank.spaces[static_cast<size_t>(region->space())] +
           region->offset() + operand.base();
  }

  using Ios = flatbuffers::Vector<flatbuffers::Offset<fb::IO>>;

  Status notFound(const char *what, const std::string &program,
                  const std::string &name,
                  const Ios *(fb::Program::*list)() const) const {
    for (const fb::RankClass *cls : *plan_.classes())
      if (const fb::Program *source = findByName(cls->programs(), program))
        return Status(Code::not_found,
                      concat("program '", program, "' has no ", what, " '",
                             name, "'; it has: ", namesOf((source->*list)())));
    return Status(Code::not_found,
                  concat("the bundle has no program '", program, "'; it has: ",
                         namesOf(plan_.classes()->Get(0)->programs())));
  }

  static Status checkInput(const std::string &what, const PlanTensor &tensor,
                           const HostTensor &value) {
    std::vector<int64_t> shape = tensor.shape();
    if (value.dtype != tensor.dtype || blockElements(value.dtype) != 1)
      return Status(Code::invalid_argument,
                    concat(what, ": expected ", dtypeName(tensor.dtype),
                           " elements, got ", dtypeName(value.dtype)));
    bool fits = value.shape.size() == shape.size();
    int64_t elements = 1;
    for (size_t d = 0; fits && d < shape.size(); ++d) {
      fits = value.shape[d] >= 0 && value.shape[d] <= shape[d];
      fits =
          fits && !__builtin_mul_overflow(elements, value.shape[d], &elements);
    }
    if (!fits)
      return Status(Code::invalid_argument,
                    concat(what, ": expected shape ", shapeString(shape),
                           " or less, got ", shapeString(value.shape)));
    int64_t bytes = 0;
    if (__builtin_mul_overflow(elements, blockBytes(value.dtype), &bytes) ||
        bytes != static_cast<int64_t>(value.bytes.size()))
      return Status(Code::invalid_argument,
                    concat(what, ": expected ", bytes, " bytes for shape ",
                           shapeString(value.shape), ", got ",
                           value.bytes.size()));
    return {};
  }

  /// Puts a rank's part of `value` into its memory.
  void scatter(const RankMemory &rank, const PlanTensor &tensor,
               const HostTensor &value) const {
    TensorLayout layout =
        layoutOf(plan_, tensor.dims, coordinatesOf(plan_, rank.rank));
    layout.clip(value.shape);
    uint8_t *out = place(rank, *tensor.operand);
    int64_t element = blockBytes(tensor.dtype);
    int64_t cols = layout.localCols();
    int64_t globalCols = value.shape.empty() ? 1 : value.shape.back();
    if (layout.hasPadding())
      fillPattern(out, layout.localRows() * cols * element,
                  options_.poison.value_or(0));
    forEachRow(layout, value.shape, [&](int64_t localRow, int64_t globalRow) {
      for (const Run &run : lastRuns(layout))
        std::memcpy(out + (localRow * cols + run.local) * element,
                    value.bytes.data() +
                        (globalRow * globalCols + run.global) * element,
                    static_cast<size_t>(run.count * element));
    });
  }

  /// Joins a tensor that `find` finds in the classes that have it.
  template <typename Find>
  Result<HostTensor> gather(const std::string &what, Find find) const {
    std::optional<PlanTensor> first;
    std::vector<std::optional<PlanTensor>> tensors;
    for (const fb::RankClass *cls : *plan_.classes()) {
      tensors.push_back(find(*cls));
      if (!tensors.back())
        continue;
      if (!first)
        first = tensors.back();
      if (tensors.back()->shape() != first->shape() ||
          tensors.back()->dtype != first->dtype)
        return Status(Code::invalid_argument,
                      concat(what, " has several shapes"));
    }
    if (!first)
      return Status(Code::not_found, concat("the bundle has no ", what));
    if (blockElements(first->dtype) != 1)
      return Status(Code::invalid_argument,
                    concat(what, ": expected plain elements, got ",
                           dtypeName(first->dtype)));
    HostTensor result;
    result.dtype = first->dtype;
    result.shape = first->shape();
    int64_t bytes = blockBytes(first->dtype);
    for (int64_t extent : result.shape)
      if (__builtin_mul_overflow(bytes, extent, &bytes))
        return Status(Code::invalid_argument, concat(what, " is too large"));
    try {
      result.bytes.resize(static_cast<size_t>(bytes));
    } catch (const std::exception &) {
      return Status(Code::resource_exhausted,
                    concat(what, ": no memory for ", bytes, " bytes"));
    }

    // With ranks elsewhere, parts that not every rank has are sent round; every
    // process finds the same answer to whether they are.
    bool everywhere = tensors.size() == 1 && isReplicated(first->dims);
    bool exchanges = !everywhere &&
                     static_cast<int64_t>(ranks_.size()) < bundle_->worldSize();
    // Backwards, so that the first owner of an element has the last word.
    auto local = ranks_.rbegin();
    for (int64_t rank = bundle_->worldSize(); rank-- > 0;) {
      const std::optional<PlanTensor> &tensor =
          tensors[static_cast<size_t>(classNumber(rank))];
      bool here = local != ranks_.rend() && local->rank == rank;
      if (tensor) {
        std::vector<int64_t> coordinates = coordinatesOf(plan_, rank);
        if (exchanges &&
            (isFirstReplica(tensor->dims, coordinates) || tensors.size() > 1)) {
          std::vector<uint8_t> part;
          HEDDLE_RT_RETURN_IF_ERROR(
              broadcastFrom(rank, *tensor->operand, part));
          collect(part.data(), *tensor, coordinates, result);
        } else if (here && (everywhere || tensors.size() > 1 ||
                            isFirstReplica(tensor->dims, coordinates))) {
          collect(place(*local, *tensor->operand), *tensor, coordinates,
                  result);
        }
      }
      if (here)
        ++local;
    }
    return result;
  }

  static bool isReplicated(const DimShards *dims) {
    if (dims)
      for (const fb::DimShard *dim : *dims)
        if (dim->axes() && dim->axes()->size() > 0)
          return false;
    return true;
  }

  /// Copies `owner`'s bytes of the operand to `bytes` in every process.
  Status broadcastFrom(int64_t owner, const fb::Operand &operand,
                       std::vector<uint8_t> &bytes) const {
    std::vector<int32_t> world;
    for (int64_t rank = 0; rank < bundle_->worldSize(); ++rank)
      world.push_back(static_cast<int32_t>(rank));
    std::vector<std::vector<uint8_t>> parts(
        ranks_.size(),
        std::vector<uint8_t>(static_cast<size_t>(operand.bytes())));
    struct {
      std::mutex mutex;
      std::condition_variable done;
      size_t open;
      Status status;
    } shared;
    shared.open = ranks_.size();
    for (size_t i = 0; i < ranks_.size(); ++i) {
      CollectiveCall call;
      call.op = CollectiveOp::broadcast;
      call.dtype = DType::u8;
      call.group = &world;
      call.self = ranks_[i].rank;
      call.id = -1; // none of the plan's
      call.root = static_cast<int32_t>(owner);
      call.destination = parts[i].data();
      call.source =
          ranks_[i].rank == owner ? place(ranks_[i], operand) : parts[i].data();
      call.elements = operand.bytes();
      comm_.start(ranks_[i].rank, call, [&shared](Status status) {
        std::lock_guard<std::mutex> lock(shared.mutex);
        if (!status.ok())
          shared.status = std::move(status);
        if (--shared.open == 0)
          shared.done.notify_all();
      });
    }
    std::unique_lock<std::mutex> lock(shared.mutex);
    shared.done.wait(lock, [&] { return shared.open == 0; });
    bytes = std::move(parts.front());
    return shared.status;
  }

  int64_t classNumber(int64_t rank) const {
    return plan_.rank_class()->Get(
        plan_.rank_class()->size() == 1 ? 0 : static_cast<uint32_t>(rank));
  }

  /// Puts one rank's part, which begins at `from`, into `result`.
  void collect(const uint8_t *from, const PlanTensor &tensor,
               const std::vector<int64_t> &coordinates,
               HostTensor &result) const {
    TensorLayout layout = layoutOf(plan_, tensor.dims, coordinates);
    int64_t element = blockBytes(tensor.dtype);
    int64_t cols = layout.localCols(), globalCols = layout.globalCols();
    forEachRow(layout, layout.global, [&](int64_t localRow, int64_t globalRow) {
      for (const Run &run : lastRuns(layout))
        std::memcpy(result.bytes.data() +
                        (globalRow * globalCols + run.global) * element,
                    from + (localRow * cols + run.local) * element,
                    static_cast<size_t>(run.count * element));
    });
  }

  std::shared_ptr<const Bundle> bundle_;
  const fb::Plan &plan_;
  Communicator &comm_;
  SessionOptions options_;
  Promises promises_;
  std::vector<Arena> arenas_;
  std::vector<RankMemory> ranks_;
  bool traced_ = false;
  std::unique_ptr<Executor> executor_; // last: its threads use the above
};

} // namespace

Result<std::unique_ptr<Session>>
Session::create(std::shared_ptr<const Bundle> bundle, Communicator &comm,
                const SessionOptions &options) {
  try {
    auto session =
        std::make_unique<SessionImpl>(std::move(bundle), comm, options);
    HEDDLE_RT_RETURN_IF_ERROR(session->build());
    return std::unique_ptr<Session>(std::move(session));
  } catch (const std::exception &error) { // no memory, no more threads
    return Status(Code::resource_exhausted,
                  concat("cannot start a session: ", error.what()));
  }
}

} // namespace heddle::rt
