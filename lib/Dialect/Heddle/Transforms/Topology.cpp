//===- Topology.cpp - Links and devices of a mesh -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/Transforms/Topology.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cmath>

using namespace mlir;
using namespace mlir::heddle;

namespace {

class Reader {
public:
  Reader(StringRef path, function_ref<InFlightDiagnostic()> emitError)
      : path(path), emitError(emitError) {}

  FailureOr<Topology> read(MeshOp mesh);

private:
  InFlightDiagnostic problem() {
    ok = false;
    return emitError() << "topology " << path << ": ";
  }
  /// The object at KEY, whose keys are all among KNOWN (any, if empty).
  const llvm::json::Object *object(const llvm::json::Object &in, StringRef key,
                                   ArrayRef<StringRef> known);
  void checkKeys(const llvm::json::Object &in, const Twine &where,
                 ArrayRef<StringRef> known);
  /// A number above LEAST times UNIT.
  double number(const llvm::json::Object &in, const Twine &where, StringRef key,
                double unit, bool mayBeZero = false);

  StringRef path;
  function_ref<InFlightDiagnostic()> emitError;
  bool ok = true;
};

} // namespace

void Reader::checkKeys(const llvm::json::Object &in, const Twine &where,
                       ArrayRef<StringRef> known) {
  for (const auto &[key, value] : in)
    if (!llvm::is_contained(known, StringRef(key))) {
      InFlightDiagnostic diag = problem();
      diag << "expected keys ";
      llvm::interleaveComma(known, diag);
      diag << " in " << where << ", got '" << StringRef(key) << "'";
    }
}

const llvm::json::Object *Reader::object(const llvm::json::Object &in,
                                         StringRef key,
                                         ArrayRef<StringRef> known) {
  const llvm::json::Object *found = in.getObject(key);
  if (!found) {
    problem() << "expected an object '" << key << "', got "
              << (in.get(key) ? "another value" : "none");
    return nullptr;
  }
  if (!known.empty())
    checkKeys(*found, "'" + key + "'", known);
  return found;
}

double Reader::number(const llvm::json::Object &in, const Twine &where,
                      StringRef key, double unit, bool mayBeZero) {
  std::optional<double> value = in.getNumber(key);
  if (value && std::isfinite(*value) &&
      (*value > 0 || (mayBeZero && *value == 0)))
    return *value * unit;
  problem() << "expected a " << (mayBeZero ? "" : "positive ") << "number '"
            << key << "' in " << where.str() << ", got "
            << (in.get(key) ? "another value" : "none");
  return 0;
}

FailureOr<Topology> Reader::read(MeshOp mesh) {
  constexpr int64_t kMostBytes = 1 << 20;
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    problem() << buffer.getError().message();
    return failure();
  }
  if (static_cast<int64_t>((*buffer)->getBufferSize()) > kMostBytes) {
    problem() << "expected at most " << kMostBytes << " bytes, got "
              << (*buffer)->getBufferSize();
    return failure();
  }
  llvm::Expected<llvm::json::Value> parsed =
      llvm::json::parse((*buffer)->getBuffer());
  if (!parsed) {
    problem() << llvm::toString(parsed.takeError());
    return failure();
  }
  const llvm::json::Object *root = parsed->getAsObject();
  if (!root) {
    problem() << "expected an object with 'device' and 'axes'";
    return failure();
  }
  Topology topology;
  checkKeys(*root, "the file", {"device", "axes"});
  if (const auto *device =
          object(*root, "device", {"tflops", "memory_gb_per_s"})) {
    topology.flopsPerSecond = number(*device, "'device'", "tflops", 1e12);
    topology.memoryBytesPerSecond =
        number(*device, "'device'", "memory_gb_per_s", 1e9);
  }
  if (const auto *axes = object(*root, "axes", {}))
    for (Attribute attr : mesh.getNames()) {
      StringRef name = cast<StringAttr>(attr).getValue();
      const auto *axis = object(*axes, name, {"gb_per_s", "latency_us"});
      if (!axis)
        continue;
      Topology::Link &link = topology.axes[name];
      link.bytesPerSecond = number(*axis, "'" + name + "'", "gb_per_s", 1e9);
      link.latencySeconds =
          number(*axis, "'" + name + "'", "latency_us", 1e-6, true);
    }
  if (!ok)
    return failure();
  return topology;
}

FailureOr<Topology>
Topology::read(StringRef path, MeshOp mesh,
               function_ref<InFlightDiagnostic()> emitError) {
  return Reader(path, emitError).read(mesh);
}
