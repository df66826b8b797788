//===- OpHelpers.h - Shapes and factors, shared by the op files ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_DIALECT_HEDDLE_IR_OPHELPERS_H
#define HEDDLE_LIB_DIALECT_HEDDLE_IR_OPHELPERS_H

#include "heddle/Dialect/Heddle/IR/HeddleDialect.h"

namespace mlir::heddle {

inline RankedTensorType typeOf(Value v) {
  return cast<RankedTensorType>(v.getType());
}
inline ArrayRef<int64_t> shapeOf(Value v) { return typeOf(v).getShape(); }

/// Checks a shape against what the op wants; `what` names the value.
inline LogicalResult expectShape(Operation *op, StringRef what, Value v,
                                 ArrayRef<int64_t> want) {
  if (shapeOf(v) == want)
    return success();
  InFlightDiagnostic diag = op->emitOpError("expected ")
                            << what << " of shape ";
  llvm::interleave(want, diag, "x");
  diag << ", got " << v.getType();
  return diag;
}

inline LogicalResult expectRank(Operation *op, StringRef what, Value v,
                                int64_t rank) {
  if (typeOf(v).getRank() == rank)
    return success();
  return op->emitOpError("expected ")
         << what << " of rank " << rank << ", got " << v.getType();
}

inline LogicalResult expectFloat(Operation *op, StringRef what, Value v) {
  if (isa<FloatType>(typeOf(v).getElementType()))
    return success();
  return op->emitOpError("expected floating point ")
         << what << ", got " << v.getType();
}

inline int64_t product(ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  return n;
}

/// One parallel factor for each of the first `count` dimensions.
inline TensorFactors addLeading(FactorRule &rule, ArrayRef<int64_t> shape,
                                size_t count) {
  static constexpr const char *names[] = {"b", "t", "u", "w", "y", "z"};
  TensorFactors factors;
  for (size_t i = 0; i < count; ++i)
    factors.push_back(
        {rule.add(i < 6 ? names[i] : "x", FactorKind::Parallel, shape[i])});
  return factors;
}

/// All operands and the result have one shape and share every factor.
inline FactorRule elementwiseRule(Operation *op) {
  FactorRule rule;
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  TensorFactors all = addLeading(rule, shape, shape.size());
  rule.operands.assign(op->getNumOperands(), all);
  rule.results.push_back(all);
  return rule;
}

} // namespace mlir::heddle

#endif // HEDDLE_LIB_DIALECT_HEDDLE_IR_OPHELPERS_H
