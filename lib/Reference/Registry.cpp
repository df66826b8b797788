//===- Registry.cpp - References by op name, one call of an op ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"

#include <cmath>

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::reference;

//===----------------------------------------------------------------------===//
// Registry
//===----------------------------------------------------------------------===//

const Registry &Registry::get() {
  static const Registry registry = [] {
    Registry r;
    registerAttentionOps(r);
    registerCacheOps(r);
    registerCommOps(r);
    registerEmbeddingOps(r);
    registerHeadOps(r);
    registerLinearOps(r);
    registerLocalOps(r);
    registerNormOps(r);
    registerSampleOps(r);
    registerStructureOps(r);
    return r;
  }();
  return registry;
}

const Registry::Entry *Registry::find(StringRef name) const {
  auto it = entries.find(name);
  return it == entries.end() ? nullptr : &it->second;
}

//===----------------------------------------------------------------------===//
// OpCall
//===----------------------------------------------------------------------===//

const Tensor *OpCall::find(Value operand) const {
  if (!operand)
    return nullptr;
  for (auto [value, tensor] : llvm::zip(op->getOperands(), operands))
    if (value == operand)
      return tensor;
  return nullptr;
}

const Tensor &OpCall::operator[](Value operand) const {
  const Tensor *tensor = find(operand);
  assert(tensor && "expected an operand of the op");
  return *tensor;
}

InFlightDiagnostic OpCall::emitError() const {
  InFlightDiagnostic diag = op->emitOpError();
  if (mesh)
    diag << "on rank " << rank << ": ";
  return diag;
}

FailureOr<int64_t> OpCall::index(double value, int64_t limit,
                                 StringRef what) const {
  // NaN, which padding may hold, fails the first comparison.
  if (!(std::abs(value) < 0x1p53) || value != std::floor(value)) {
    std::string text = std::to_string(value);
    return emitError() << "expected an integer as " << what << ", got " << text;
  }
  int64_t result = static_cast<int64_t>(value);
  if (result >= limit)
    return emitError() << "expected " << what << " below " << limit << ", got "
                       << result;
  return result;
}

FailureOr<ArrayRef<int64_t>> OpCall::row(RankTableAttr table) const {
  int64_t row = 0;
  if (!table.getAxes().empty()) {
    if (!mesh)
      return emitError() << "expected a rank table without axes in a global "
                            "function, got "
                         << table;
    FailureOr<int64_t> rows =
        getAxesSize(mesh, table.getAxes(), [&] { return emitError(); });
    if (failed(rows))
      return failure();
    if (*rows != table.getRows())
      return emitError() << "expected a rank table of " << *rows
                         << " rows, got " << table.getRows();
    row = getCoordinate(mesh, table.getAxes(), rank);
  }
  return table.getValues().slice(row * table.getCols(), table.getCols());
}
