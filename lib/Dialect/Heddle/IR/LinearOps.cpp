//===- LinearOps.cpp - Products, biases, sums, gated units ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpHelpers.h"

using namespace mlir;
using namespace mlir::heddle;

//===----------------------------------------------------------------------===//
// linear
//===----------------------------------------------------------------------===//

LogicalResult LinearOp::verify() {
  // linear_c1
  if (failed(expectRank(*this, "weight", getWeight(), 2)))
    return failure();
  ArrayRef<int64_t> in = shapeOf(getInput()), w = shapeOf(getWeight());
  if (in.empty() || in.back() != w[1])
    return emitOpError("expected input to end in the weight's ")
           << w[1] << " columns, got " << getInput().getType();
  SmallVector<int64_t> want(in);
  want.back() = w[0];
  if (failed(expectShape(*this, "result", getResult(), want)))
    return failure();
  // linear_c2
  if (getBias() && failed(expectShape(*this, "bias", getBias(), {w[0]})))
    return failure();
  // linear_c3
  if (failed(expectFloat(*this, "result", getResult())))
    return failure();
  // linear_c4
  if (isa<Q8Type>(typeOf(getInput()).getElementType()) &&
      !takesQ8(typeOf(getWeight()).getElementType()))
    return emitOpError("expected a weight in q4_0, q4_1 or q8_0 for quantised "
                       "input, got ")
           << getWeight().getType();
  return success();
}

FactorRule LinearOp::getFactorRule() {
  FactorRule rule;
  ArrayRef<int64_t> in = shapeOf(getInput()), w = shapeOf(getWeight());
  TensorFactors rows = addLeading(rule, in, in.size() - 1);
  int k = rule.add("k", FactorKind::Sum, w[1]);
  int n = rule.add("n", FactorKind::Parallel, w[0]);
  TensorFactors input = rows, result = rows;
  input.push_back({k});
  result.push_back({n});
  rule.operands = {input, {{n}, {k}}};
  if (getBias())
    rule.operands.push_back({{n}});
  rule.results = {result};
  return rule;
}

/// Zero rows of the weight (and zero bias) give zero columns.
bool LinearOp::preservesZeroPadding() { return true; }

bool LinearOp::acceptsPartialSum(unsigned index) {
  return index == 0 && !getBias();
}

int64_t LinearOp::getFlops() {
  return 2 * product(shapeOf(getResult())) * shapeOf(getWeight())[1];
}

//===----------------------------------------------------------------------===//
// quantize
//===----------------------------------------------------------------------===//

LogicalResult QuantizeOp::verify() {
  // quantize_c1
  ArrayRef<int64_t> in = shapeOf(getInput());
  if (failed(expectFloat(*this, "input", getInput())))
    return failure();
  Type q8 = Q8Type::get(getContext());
  int64_t block = getBlockElements(q8);
  if (in.empty() || in.back() % block != 0)
    return emitOpError("expected a last dimension of whole blocks of ")
           << block << ", got " << getInput().getType();
  // quantize_c2
  if (typeOf(getResult()).getElementType() != q8)
    return emitOpError("expected a result of ")
           << q8 << ", got " << getResult().getType();
  return expectShape(*this, "result", getResult(), in);
}

FactorRule QuantizeOp::getFactorRule() { return elementwiseRule(*this); }
bool QuantizeOp::preservesZeroPadding() { return true; }
int64_t QuantizeOp::getFlops() { return 3 * product(shapeOf(getResult())); }

//===----------------------------------------------------------------------===//
// bias_add
//===----------------------------------------------------------------------===//

LogicalResult BiasAddOp::verify() {
  // bias_add_c1
  ArrayRef<int64_t> in = shapeOf(getInput());
  if (in.empty())
    return emitOpError("expected input of rank 1 or more, got ")
           << getInput().getType();
  if (failed(expectShape(*this, "bias", getBias(), {in.back()})))
    return failure();
  return expectShape(*this, "result", getResult(), in);
}

FactorRule BiasAddOp::getFactorRule() {
  FactorRule rule;
  ArrayRef<int64_t> in = shapeOf(getInput());
  TensorFactors all = addLeading(rule, in, in.size());
  rule.operands = {all, {all.back()}};
  rule.results = {all};
  return rule;
}

bool BiasAddOp::preservesZeroPadding() { return true; }
int64_t BiasAddOp::getFlops() { return product(shapeOf(getResult())); }

//===----------------------------------------------------------------------===//
// add
//===----------------------------------------------------------------------===//

LogicalResult AddOp::verify() {
  // add_c1
  if (failed(expectShape(*this, "rhs", getRhs(), shapeOf(getLhs()))))
    return failure();
  return expectShape(*this, "result", getResult(), shapeOf(getLhs()));
}

FactorRule AddOp::getFactorRule() { return elementwiseRule(*this); }
bool AddOp::preservesZeroPadding() { return true; }
/// Two sums pending over the same axes add up; a complete value does not join.
bool AddOp::acceptsPartialSum(unsigned index) {
  ShardingAttr lhs = getSharding(getLhs().getType());
  ShardingAttr rhs = getSharding(getRhs().getType());
  return lhs && rhs && lhs.getPartialAxes() == rhs.getPartialAxes();
}
int64_t AddOp::getFlops() { return product(shapeOf(getResult())); }

//===----------------------------------------------------------------------===//
// glu
//===----------------------------------------------------------------------===//

LogicalResult GluOp::verify() {
  // glu_c1
  if (failed(expectShape(*this, "up", getUp(), shapeOf(getGate()))))
    return failure();
  return expectShape(*this, "result", getResult(), shapeOf(getGate()));
}

FactorRule GluOp::getFactorRule() { return elementwiseRule(*this); }
bool GluOp::preservesZeroPadding() { return true; }
int64_t GluOp::getFlops() { return 8 * product(shapeOf(getResult())); }
