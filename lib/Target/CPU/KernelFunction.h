//===- KernelFunction.h - A group of model ops, understood ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TARGET_CPU_KERNELFUNCTION_H
#define HEDDLE_LIB_TARGET_CPU_KERNELFUNCTION_H

#include "heddle/Target/CPU/Kernels.h"

#include "llvm/ADT/DenseMap.h"

namespace mlir::heddle::cpu {

inline RankedTensorType tensorType(Value v) {
  return cast<RankedTensorType>(v.getType());
}
inline ArrayRef<int64_t> tensorShape(Value v) {
  return tensorType(v).getShape();
}
inline int64_t product(ArrayRef<int64_t> extents) {
  int64_t n = 1;
  for (int64_t extent : extents)
    n *= extent;
  return n;
}

/// A kernel function with its views resolved: values that differ only in shape
/// (split_heads, merge_heads) have one *root*, and memory is known by roots.
struct KernelFunction {
  /// Mutable: ops are handles, and their accessors are not const.
  mutable func::FuncOp func;
  /// Ops that compute, in order.
  SmallVector<Operation *> ops;
  /// Types of the machine-code operands, in order.
  SmallVector<RankedTensorType> operands;
  /// Operand of each argument; operand of each result.
  SmallVector<int64_t> argumentOperand, resultOperand;
  /// Root of each returned value.
  SmallVector<Value> returned;
  /// Axes of the rank tables that differ by rank, in order of appearance.
  SmallVector<SmallVector<AxisRefAttr>> coordinates;
  /// Rows of which a launch may ask for the leading ones only; 0: it may not.
  int64_t extent = 0;

  /// Fails, with a message, on what no kernel may contain.
  static FailureOr<KernelFunction> get(func::FuncOp func);

  Value root(Value v) const;
  /// The operand that holds an argument, or a pool updated in place; -1 for
  /// values that ops compute.
  int64_t operandOf(Value v) const;
  /// Operands that receive a computed value.
  SmallVector<int64_t> resultsOf(Value v) const;
  /// True for operands that the kernel writes.
  bool isWritten(int64_t operand) const;
  /// Which scalar is the row of this table; -1 if all rows are equal.
  int64_t coordinateOf(RankTableAttr table) const;

private:
  llvm::DenseMap<Value, Value> roots;
  LogicalResult readAliases();
  LogicalResult readBody();
};

} // namespace mlir::heddle::cpu

#endif // HEDDLE_LIB_TARGET_CPU_KERNELFUNCTION_H
