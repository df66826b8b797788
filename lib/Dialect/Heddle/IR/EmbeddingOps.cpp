//===- EmbeddingOps.cpp - Token rows: embedding, gather_rows ---===//
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
// embedding
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::verify() {
  // embedding_c1
  if (failed(expectRank(*this, "table", getTable(), 2)))
    return failure();
  SmallVector<int64_t> want(shapeOf(getIds()));
  want.push_back(shapeOf(getTable())[1]);
  if (failed(expectShape(*this, "result", getResult(), want)))
    return failure();
  return expectFloat(*this, "result", getResult()); // embedding_c2
}

FactorRule EmbeddingOp::getFactorRule() {
  FactorRule rule;
  TensorFactors ids =
      addLeading(rule, shapeOf(getIds()), shapeOf(getIds()).size());
  int v = rule.add("v", FactorKind::Sum, shapeOf(getTable())[0]);
  int d = rule.add("d", FactorKind::Parallel, shapeOf(getTable())[1]);
  TensorFactors out = ids;
  out.push_back({d});
  rule.operands = {ids, {{v}, {d}}};
  rule.results = {out};
  rule.indices.push_back({0, v, 1});
  return rule;
}

int64_t EmbeddingOp::getFlops() { return 0; }

//===----------------------------------------------------------------------===//
// gather_rows
//===----------------------------------------------------------------------===//

LogicalResult GatherRowsOp::verify() {
  // gather_rows_c1
  if (failed(expectRank(*this, "input", getInput(), 3)) ||
      failed(expectRank(*this, "rows", getRows(), 2)))
    return failure();
  ArrayRef<int64_t> in = shapeOf(getInput()), rows = shapeOf(getRows());
  if (failed(expectShape(*this, "rows", getRows(), {in[0], rows[1]})))
    return failure();
  return expectShape(*this, "result", getResult(), {in[0], rows[1], in[2]});
}

FactorRule GatherRowsOp::getFactorRule() {
  FactorRule rule;
  ArrayRef<int64_t> in = shapeOf(getInput());
  int b = rule.add("b", FactorKind::Parallel, in[0]);
  int t = rule.add("t", FactorKind::Sum, in[1]);
  int d = rule.add("d", FactorKind::Parallel, in[2]);
  int r = rule.add("r", FactorKind::Parallel, shapeOf(getRows())[1]);
  rule.operands = {{{b}, {t}, {d}}, {{b}, {r}}};
  rule.results = {{{b}, {r}, {d}}};
  rule.indices.push_back({1, t, 1});
  return rule;
}

bool GatherRowsOp::preservesZeroPadding() { return true; }
bool GatherRowsOp::acceptsPartialSum(unsigned index) { return index == 0; }
int64_t GatherRowsOp::getFlops() { return 0; }
