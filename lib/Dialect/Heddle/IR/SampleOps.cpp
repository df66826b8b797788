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

//===----------------------------------------------------------------------===//
// argmax
//===----------------------------------------------------------------------===//

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

//===----------------------------------------------------------------------===//
// sample
//===----------------------------------------------------------------------===//

LogicalResult SampleOp::verify() {
  auto expectF32 = [&](StringRef what, Value v) -> LogicalResult {
    if (typeOf(v).getElementType().isF32())
      return success();
    return emitOpError("expected ")
           << what << " of element type f32, got " << v.getType();
  };
  // sample_c1
  if (failed(expectRank(*this, "logits", getLogits(), 3)) ||
      failed(expectF32("logits", getLogits())) ||
      failed(expectShape(*this, "result", getResult(),
                         shapeOf(getLogits()).drop_back())))
    return failure();
  int64_t sequences = shapeOf(getLogits())[0];
  // sample_c2
  for (auto [what, v] :
       {std::pair<StringRef, Value>("temperature", getTemperature()),
        {"top_p", getTopP()},
        {"min_p", getMinP()}})
    if (failed(expectShape(*this, what, v, {sequences})) ||
        failed(expectF32(what, v)))
      return failure();
  // sample_c3
  for (auto [what, v] : {std::pair<StringRef, Value>("top_k", getTopK()),
                         {"seed", getSeed()},
                         {"position", getPosition()}})
    if (failed(expectShape(*this, what, v, {sequences})))
      return failure();
  // sample_c4
  if (RankTableAttr table = getSequencesAttr()) {
    if (!isLocal(*this))
      return emitOpError("expected 'sequences' in a function marked '")
             << HeddleDialect::kLocalAttr << "' only";
    if (table.getCols() != sequences)
      return emitOpError("expected 'sequences' of ")
             << sequences << " columns, got " << table.getCols();
  }
  return success();
}

FactorRule SampleOp::getFactorRule() {
  FactorRule rule;
  ArrayRef<int64_t> in = shapeOf(getLogits());
  int b = rule.add("b", FactorKind::Parallel, in[0]);
  // Rows are numbered within the sequence, and a draw needs all of a row.
  int r = rule.add("r", FactorKind::Whole, in[1]);
  int v = rule.add("v", FactorKind::Whole, in[2]);
  rule.operands.assign(getNumOperands(), {{b}});
  rule.operands[0] = {{b}, {r}, {v}};
  rule.results = {{{b}, {r}}};
  return rule;
}

/// Subtract, divide, exponential and sum of every logit.
int64_t SampleOp::getFlops() { return 4 * product(shapeOf(getLogits())); }
