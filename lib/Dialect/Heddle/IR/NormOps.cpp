//===- NormOps.cpp - Normalisations ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpHelpers.h"

using namespace mlir;
using namespace mlir::heddle;

LogicalResult RmsNormOp::verify() {
  // rms_norm_c1
  ArrayRef<int64_t> in = shapeOf(getInput());
  if (in.empty())
    return emitOpError("expected input of rank 1 or more, got ")
           << getInput().getType();
  if (failed(expectShape(*this, "weight", getWeight(), {in.back()})) ||
      failed(expectShape(*this, "result", getResult(), in)))
    return failure();
  // rms_norm_c2
  if (!(getEps().convertToDouble() >= 0))
    return emitOpError("expected eps of 0 or more, got ")
           << getEps().convertToDouble();
  return success();
}

FactorRule RmsNormOp::getFactorRule() {
  FactorRule rule;
  ArrayRef<int64_t> in = shapeOf(getInput());
  TensorFactors all = addLeading(rule, in, in.size() - 1);
  int d = rule.add("d", FactorKind::Whole, in.back());
  all.push_back({d});
  rule.operands = {all, {{d}}};
  rule.results = {all};
  return rule;
}

bool RmsNormOp::preservesZeroPadding() { return true; }
int64_t RmsNormOp::getFlops() { return 4 * product(shapeOf(getResult())); }
