//===- Interpreter.h - What op files need of the interpreter ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_REFERENCE_INTERPRETER_H
#define HEDDLE_LIB_REFERENCE_INTERPRETER_H

#include "heddle/Reference/Reference.h"

#include "llvm/ADT/StringMap.h"

#include <limits>

namespace mlir::heddle::reference {

/// For indices that may be any non-negative integer.
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

/// One execution of an op: on one rank of a local function, or once in a global
/// one. Results have their type's shape and are filled with zeros.
class OpCall {
public:
  OpCall(Operation *op, MeshOp mesh, int64_t rank,
         ArrayRef<const Tensor *> operands, MutableArrayRef<Tensor> results)
      : op(op), mesh(mesh), rank(rank), operands(operands), results(results) {}

  const Tensor &operator[](Value operand) const;
  /// The operand, or null where an optional one is not there.
  const Tensor *find(Value operand) const;
  Tensor &result(unsigned index = 0) { return results[index]; }

  /// An error at the op that names the rank in local functions.
  InFlightDiagnostic emitError() const;

  /// The integer that `value` is, at most `limit - 1`; negative ones pass. An
  /// error names `what`.
  FailureOr<int64_t> index(double value, int64_t limit, StringRef what) const;
  /// This rank's row of a table.
  FailureOr<ArrayRef<int64_t>> row(RankTableAttr table) const;

private:
  Operation *op;
  MeshOp mesh; // null in global functions
  int64_t rank;
  ArrayRef<const Tensor *> operands;
  MutableArrayRef<Tensor> results;
};

/// One execution of a collective by one group, members in order.
struct GroupCall {
  ArrayRef<const Tensor *> inputs;
  ArrayRef<Tensor *> results;

  int64_t size() const { return static_cast<int64_t>(inputs.size()); }
};

/// The references of all ops, by op name.
class Registry {
public:
  struct Entry {
    std::function<LogicalResult(Operation *, OpCall &)> execute;
    std::function<LogicalResult(Operation *, GroupCall &)> communicate;
    std::function<ArrayAttr(Operation *)> group;
  };

  /// All references of this library.
  static const Registry &get();
  const Entry *find(StringRef name) const;

  /// An op that each rank executes by itself.
  template <typename OpTy>
  void add(LogicalResult (*function)(OpTy op, OpCall &call)) {
    entries[OpTy::getOperationName()].execute = [function](Operation *op,
                                                           OpCall &call) {
      return function(cast<OpTy>(op), call);
    };
  }

  /// A collective: one operand, one result, a group of axes.
  template <typename OpTy>
  void addCollective(LogicalResult (*function)(OpTy op, GroupCall &call)) {
    Entry &entry = entries[OpTy::getOperationName()];
    entry.communicate = [function](Operation *op, GroupCall &call) {
      return function(cast<OpTy>(op), call);
    };
    entry.group = [](Operation *op) { return cast<OpTy>(op).getGroup(); };
  }

private:
  llvm::StringMap<Entry> entries;
};

void registerAttentionOps(Registry &registry);
void registerCacheOps(Registry &registry);
void registerCommOps(Registry &registry);
void registerEmbeddingOps(Registry &registry);
void registerHeadOps(Registry &registry);
void registerLinearOps(Registry &registry);
void registerLocalOps(Registry &registry);
void registerNormOps(Registry &registry);
void registerSampleOps(Registry &registry);
void registerStructureOps(Registry &registry);

/// Extents left of, at and right of a dimension, in elements of a row-major
/// tensor: element (o, i, r) is at (o * extent + i) * inner + r.
struct DimView {
  int64_t outer = 1, extent = 1, inner = 1;

  DimView(const Tensor &tensor, int64_t dim) {
    for (int64_t i = 0; i < tensor.rank(); ++i)
      (i < dim ? outer : i == dim ? extent : inner) *= tensor.shape[i];
  }
  int64_t offset(int64_t o, int64_t i, int64_t r) const {
    return (o * extent + i) * inner + r;
  }
};

} // namespace mlir::heddle::reference

#endif // HEDDLE_LIB_REFERENCE_INTERPRETER_H
