//===- SampleOps.cpp - From logits to tokens ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpHelpers.h"

using namespace mlir;
using namespace mlir::heddle;

LogicalResult ArgmaxOp::verify() {
  // argmax_c1
  if (typeOf(getLogits()).getRank() < 1)
    return emitOpError("expected logits of rank 1 or more, got ")
           << getLogits().getType();
  return expectShape(*this, "result", getResult(),
                     shapeOf(getLogits()).drop_back());
}

FactorRule ArgmaxOp::getFactorRule() {
  FactorRule rule;
  ArrayRef<int64_t> in = shapeOf(getLogits());
  TensorFactors rows = addLeading(rule, in, in.size() - 1);
  TensorFactors all = rows;
  all.push_back({rule.add("v", FactorKind::Whole, in.back())});
  rule.operands = {all};
  rule.results = {rows};
  return rule;
}

int64_t ArgmaxOp::getFlops() { return product(shapeOf(getLogits())); }
