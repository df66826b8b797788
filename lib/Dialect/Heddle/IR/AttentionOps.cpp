//===- AttentionOps.cpp - Attention and its partial forms ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpHelpers.h"

using namespace mlir;
using namespace mlir::heddle;

/// What bends the scores: documents, sinks, soft caps and linear biases.
template <typename OpTy> static LogicalResult verifyVariants(OpTy op) {
  ArrayRef<int64_t> q = shapeOf(op.getQuery()), k = shapeOf(op.getKey());
  // attention_c7, attention_partial_c7
  Value ofQueries = op.getQueryDocuments(), ofKeys = op.getKeyDocuments();
  if (!ofQueries != !ofKeys)
    return op.emitOpError("expected documents of queries and of keys, got "
                          "those of one");
  if (ofQueries &&
      (failed(expectShape(op, "query documents", ofQueries, {q[0], q[1]})) ||
       failed(expectShape(op, "key documents", ofKeys, {k[0], k[1]}))))
    return failure();
  // attention_c8, attention_partial_c8
  if (op.getSinks() && failed(expectShape(op, "sinks", op.getSinks(), {q[2]})))
    return failure();
  // attention_c9, attention_partial_c9
  APFloat cap = op.getSoftCap();
  if (!cap.isFinite() || (cap.isNegative() && !cap.isZero()))
    return op.emitOpError("expected a soft cap of 0 (none) or more, got ")
           << cap.convertToDouble();
  // attention_c10, attention_partial_c10
  AlibiAttr alibi = op.getAlibiAttr();
  RankTableAttr heads = op.getAlibiHeadsAttr();
  if (!heads) {
    if (alibi && alibi.getHeads() != q[2])
      return op.emitOpError("expected linear biases of ")
             << q[2] << " heads, got " << alibi;
    return success();
  }
  if (!alibi || !isLocal(op))
    return op.emitOpError("expected alibi_heads beside alibi, in a local "
                          "function");
  if (heads.getCols() != q[2])
    return op.emitOpError("expected alibi_heads with one column per query "
                          "head (")
           << q[2] << "), got " << heads.getCols();
  for (int64_t head : heads.getValues())
    if (head < -1 || head >= alibi.getHeads())
      return op.emitOpError("expected alibi_heads between -1 and ")
             << alibi.getHeads() - 1 << ", got " << head;
  return success();
}

/// The constraints that attention and attention_partial share.
template <typename OpTy> static LogicalResult verifyAttention(OpTy op) {
  // attention_c1, attention_partial_c1
  if (failed(expectRank(op, "query", op.getQuery(), 4)) ||
      failed(expectRank(op, "key", op.getKey(), 4)))
    return failure();
  ArrayRef<int64_t> q = shapeOf(op.getQuery()), k = shapeOf(op.getKey());
  if (failed(expectShape(op, "result", op.getResult(), q)) ||
      failed(expectShape(op, "query positions", op.getQueryPositions(),
                         {q[0], q[1]})))
    return failure();
  // attention_c2, attention_partial_c2
  if (failed(expectShape(op, "value", op.getValue(), k)))
    return failure();
  if (k[3] != q[3])
    return op.emitOpError("expected keys with the query's head width ")
           << q[3] << ", got " << k[3];
  if (RankTableAttr table = op.getKvHeadsAttr()) {
    if (table.getCols() != q[2])
      return op.emitOpError(
                 "expected kv_heads with one column per query head (")
             << q[2] << "), got " << table.getCols();
    for (int64_t head : table.getValues())
      if (head < -1 || head >= k[2])
        return op.emitOpError("expected kv_heads between -1 and ")
               << k[2] - 1 << ", got " << head;
  } else if (k[2] == 0 || q[2] % k[2] != 0) {
    return op.emitOpError("expected a number of key/value heads that divides ")
           << q[2] << " query heads, got " << k[2];
  }
  // attention_c3, attention_partial_c3
  if (!op.getBlocks() && k[0] != q[0])
    return op.emitOpError("expected keys for ")
           << q[0] << " sequences, got " << k[0];
  if (failed(
          expectShape(op, "key positions", op.getKeyPositions(), {k[0], k[1]})))
    return failure();
  // attention_c4, attention_partial_c4
  if (op.getBlocks()) {
    if (failed(expectRank(op, "blocks", op.getBlocks(), 2)) ||
        failed(expectShape(op, "blocks", op.getBlocks(),
                           {q[0], shapeOf(op.getBlocks())[1]})))
      return failure();
  }
  if (op.getLengths() &&
      failed(expectShape(op, "lengths", op.getLengths(), {q[0]})))
    return failure();
  // attention_c5, attention_partial_c5
  if (static_cast<int64_t>(op.getWindow()) < 0)
    return op.emitOpError("expected a window of 0 (none) or more, got ")
           << static_cast<int64_t>(op.getWindow());
  return verifyVariants(op);
}

template <typename OpTy> static FactorRule attentionRule(OpTy op) {
  FactorRule rule;
  ArrayRef<int64_t> q = shapeOf(op.getQuery()), k = shapeOf(op.getKey());
  int b = rule.add("b", FactorKind::Parallel, q[0]);
  int t = rule.add("t", FactorKind::Parallel, q[1]);
  int h = rule.add("h", FactorKind::Parallel, q[2]);
  int e = rule.add("e", FactorKind::Whole, q[3]);
  int g = rule.add("g", FactorKind::Parallel, k[2]);
  rule.factors[g].follows = h;
  rule.factors[g].groupSize = k[2] ? q[2] / k[2] : 1;
  TensorFactors keys;
  int p = -1;
  if (op.getBlocks()) {
    p = rule.add("p", FactorKind::Parallel, k[0]);
    rule.factors[p].alignedWith = b;
    keys = {{p}, {rule.add("s", FactorKind::Whole, k[1])}, {g}, {e}};
  } else {
    keys = {{b}, {rule.add("s", FactorKind::Softmax, k[1])}, {g}, {e}};
  }
  rule.operands = {
      {{b}, {t}, {h}, {e}}, keys, keys, {{b}, {t}}, {keys[0], keys[1]}};
  if (op.getBlocks()) {
    rule.indices.push_back({static_cast<unsigned>(rule.operands.size()), p, 1});
    int m = rule.add("m", FactorKind::Whole, shapeOf(op.getBlocks())[1]);
    rule.operands.push_back({{b}, {m}});
  }
  if (op.getLengths())
    rule.operands.push_back({{b}});
  if (op.getQueryDocuments()) {
    rule.operands.push_back({{b}, {t}});
    rule.operands.push_back({keys[0], keys[1]});
  }
  if (op.getSinks())
    rule.operands.push_back({{h}});
  rule.results = {{{b}, {t}, {h}, {e}}};
  return rule;
}

/// Multiply-adds of both products over the logical keys; masks not counted.
template <typename OpTy> static int64_t attentionFlops(OpTy op) {
  ArrayRef<int64_t> k = shapeOf(op.getKey());
  int64_t keys = op.getBlocks() ? shapeOf(op.getBlocks())[1] * k[1] : k[1];
  return 4 * product(shapeOf(op.getQuery())) * keys;
}

//===----------------------------------------------------------------------===//
// attention, attention_partial
//===----------------------------------------------------------------------===//

LogicalResult AttentionOp::verify() {
  if (failed(verifyAttention(*this)))
    return failure();
  // attention_c6
  if (!getKeys())
    return success();
  if (getKeys()->getMethod() == KeyMethod::Merge) {
    if (!getBlocks())
      return emitOpError("expected blocks of a cache whose parts are merged, "
                         "got keys of ")
             << getKey().getType();
    return success();
  }
  if (getBlocks() || getLengths() ||
      shapeOf(getKey())[1] != shapeOf(getQuery())[1])
    return emitOpError(
               "expected keys that are spread over ranks to be those of "
               "the queries' tokens, without blocks and lengths, got ")
           << getKey().getType() << " for " << getQuery().getType();
  return success();
}

FactorRule AttentionOp::getFactorRule() {
  FactorRule rule = attentionRule(*this);
  if (!getKeys())
    return rule;
  int t = rule.operands[0][1][0], s = rule.operands[1][1][0];
  rule.factors[s].kind = FactorKind::Parallel;
  if (getKeys()->getMethod() == KeyMethod::Ring) {
    // Keys lie as the queries do.
    rule.factors[s].alignedWith = t;
  } else if (getLengths()) {
    // The keys below a length are this rank's below another one.
    unsigned lengths = 6;
    rule.indices.push_back({lengths, s, 1, shapeOf(getKey())[1], true});
  }
  return rule;
}
int64_t AttentionOp::getFlops() { return attentionFlops(*this); }

LogicalResult AttentionPartialOp::verify() {
  if (failed(verifyAttention(*this)))
    return failure();
  // attention_partial_c6
  if (!typeOf(getResult()).getElementType().isF32() ||
      !typeOf(getLse()).getElementType().isF32())
    return emitOpError("expected f32 results, got ")
           << getResult().getType() << " and " << getLse().getType();
  return expectShape(*this, "lse", getLse(), shapeOf(getQuery()).drop_back());
}

FactorRule AttentionPartialOp::getFactorRule() {
  FactorRule rule = attentionRule(*this);
  TensorFactors lse = rule.results[0];
  lse.pop_back();
  rule.results.push_back(lse);
  return rule;
}
int64_t AttentionPartialOp::getFlops() { return attentionFlops(*this); }

//===----------------------------------------------------------------------===//
// merge_partials
//===----------------------------------------------------------------------===//

LogicalResult MergePartialsOp::verify() {
  // merge_partials_c1
  if (failed(expectRank(*this, "out1", getOut1(), 4)))
    return failure();
  ArrayRef<int64_t> out = shapeOf(getOut1());
  if (failed(expectShape(*this, "out2", getOut2(), out)) ||
      failed(expectShape(*this, "lse1", getLse1(), out.drop_back())) ||
      failed(expectShape(*this, "lse2", getLse2(), out.drop_back())) ||
      failed(expectShape(*this, "result", getResult(), out)) ||
      failed(expectShape(*this, "lse", getLse(), out.drop_back())))
    return failure();
  for (Value v :
       {getOut1(), getLse1(), getOut2(), getLse2(), getResult(), getLse()})
    if (!typeOf(v).getElementType().isF32())
      return emitOpError("expected f32, got ") << v.getType();
  return success();
}

FactorRule MergePartialsOp::getFactorRule() {
  FactorRule rule;
  ArrayRef<int64_t> out = shapeOf(getOut1());
  TensorFactors all = addLeading(rule, out, 4);
  TensorFactors lse(all.begin(), all.end() - 1);
  rule.operands = {all, lse, all, lse};
  rule.results = {all, lse};
  return rule;
}

int64_t MergePartialsOp::getFlops() { return 3 * product(shapeOf(getOut1())); }
