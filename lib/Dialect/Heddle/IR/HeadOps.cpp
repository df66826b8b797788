//===- HeadOps.cpp - Heads and rotary positions ---===//
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
// split_heads, merge_heads
//===----------------------------------------------------------------------===//

static LogicalResult verifyHeads(Operation *op, Value merged, Value split) {
  if (failed(expectRank(op, "merged heads", merged, 3)) ||
      failed(expectRank(op, "split heads", split, 4)))
    return failure();
  ArrayRef<int64_t> s = shapeOf(split);
  return expectShape(op, "merged heads", merged, {s[0], s[1], s[2] * s[3]});
}

/// [b, t, h*e] on the merged side, [b, t, h, e] on the split side.
static FactorRule headsRule(Value split, bool splitIsResult) {
  FactorRule rule;
  ArrayRef<int64_t> s = shapeOf(split);
  int b = rule.add("b", FactorKind::Parallel, s[0]);
  int t = rule.add("t", FactorKind::Parallel, s[1]);
  int h = rule.add("h", FactorKind::Parallel, s[2]);
  int e = rule.add("e", FactorKind::Parallel, s[3]);
  TensorFactors merged = {{b}, {t}, {h, e}};
  TensorFactors apart = {{b}, {t}, {h}, {e}};
  rule.operands = {splitIsResult ? merged : apart};
  rule.results = {splitIsResult ? apart : merged};
  return rule;
}

LogicalResult SplitHeadsOp::verify() {
  return verifyHeads(*this, getInput(), getResult()); // split_heads_c1
}
FactorRule SplitHeadsOp::getFactorRule() {
  return headsRule(getResult(), true);
}
bool SplitHeadsOp::preservesZeroPadding() { return true; }
bool SplitHeadsOp::acceptsPartialSum(unsigned) { return true; }
int64_t SplitHeadsOp::getFlops() { return 0; }

LogicalResult MergeHeadsOp::verify() {
  return verifyHeads(*this, getResult(), getInput()); // merge_heads_c1
}
FactorRule MergeHeadsOp::getFactorRule() {
  return headsRule(getInput(), false);
}
bool MergeHeadsOp::preservesZeroPadding() { return true; }
bool MergeHeadsOp::acceptsPartialSum(unsigned) { return true; }
int64_t MergeHeadsOp::getFlops() { return 0; }

//===----------------------------------------------------------------------===//
// rotary_table, rotary
//===----------------------------------------------------------------------===//

LogicalResult RotaryTableOp::verify() {
  // rotary_table_c1
  if (failed(expectRank(*this, "positions", getPositions(), 2)))
    return failure();
  ArrayRef<int64_t> p = shapeOf(getPositions());
  return expectShape(*this, "result", getResult(),
                     {p[0], p[1], getRope().getDim()});
}

FactorRule RotaryTableOp::getFactorRule() {
  FactorRule rule;
  TensorFactors rows = addLeading(rule, shapeOf(getPositions()), 2);
  TensorFactors out = rows;
  out.push_back({rule.add("r", FactorKind::Whole, getRope().getDim())});
  rule.operands = {rows};
  rule.results = {out};
  return rule;
}

int64_t RotaryTableOp::getFlops() { return 20 * product(shapeOf(getResult())); }

LogicalResult RotaryOp::verify() {
  // rotary_c1
  if (failed(expectRank(*this, "input", getInput(), 4)) ||
      failed(expectRank(*this, "table", getTable(), 3)))
    return failure();
  ArrayRef<int64_t> in = shapeOf(getInput()), table = shapeOf(getTable());
  if (failed(
          expectShape(*this, "table", getTable(), {in[0], in[1], table[2]})) ||
      failed(expectShape(*this, "result", getResult(), in)))
    return failure();
  // rotary_c2
  if (table[2] % 2 || table[2] > in[3])
    return emitOpError("expected an even table width of at most ")
           << in[3] << ", got " << table[2];
  return success();
}

FactorRule RotaryOp::getFactorRule() {
  FactorRule rule;
  ArrayRef<int64_t> in = shapeOf(getInput());
  int b = rule.add("b", FactorKind::Parallel, in[0]);
  int t = rule.add("t", FactorKind::Parallel, in[1]);
  int h = rule.add("h", FactorKind::Parallel, in[2]);
  int e = rule.add("e", FactorKind::Whole, in[3]);
  int r = rule.add("r", FactorKind::Whole, shapeOf(getTable())[2]);
  rule.operands = {{{b}, {t}, {h}, {e}}, {{b}, {t}, {r}}};
  rule.results = {{{b}, {t}, {h}, {e}}};
  return rule;
}

bool RotaryOp::preservesZeroPadding() { return true; }
int64_t RotaryOp::getFlops() { return 3 * product(shapeOf(getResult())); }
