//===- DecodeAttentionKernel.cpp - Attention of few queries ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Online softmax as in AttentionKernel.cpp, for a tile of so few queries (those
// of one decoded token that share a key head) that they would leave most lanes
// empty. Lanes are the width of a head: a key is read once for all queries, as
// whole vectors, and as many keys are taken together as a vector has lanes, so
// that their scores are summed up in one tree and lie in the lanes of one
// vector.
//
//===----------------------------------------------------------------------===//

#include "Attention.h"
#include "VectorMath.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

namespace {

class WidthLanesEmitter {
public:
  WidthLanesEmitter(KernelBuilder &b, const AttentionSpec &spec)
      : b(b), spec(spec), keys(b.lanes()), vectors(spec.e / b.lanes()),
        queries(spec.queries()),
        block(b, spec, keys, /*step=*/keys, /*prefetch=*/true),
        weights(b.scratch(queries * keys, b.getF32Type())),
        minusInfinity(b.constant(b.lanesOf(b.getF32Type()),
                                 -std::numeric_limits<double>::infinity())),
        zero(b.constant(b.lanesOf(b.getF32Type()), 0.0)) {}

  void emit(Value from, Value to);

private:
  using Vectors = SmallVector<Value>;

  KernelBuilder &b;
  const AttentionSpec &spec;
  /// Keys of a block, vectors of a head, queries.
  const int64_t keys, vectors, queries;
  KeyBlock block;
  Buffer weights; // [query][key]
  Value minusInfinity, zero;
  // Of the current unit: query vectors, scaled, positions and documents.
  Value firstHead;
  Vectors query, positions, documents;

  // What is carried from block to block: of each query its maximum (on all
  // lanes), the sums of its lanes, and its weighted values.
  Value &top(MutableArrayRef<Value> state, int64_t q) { return state[q]; }
  Value &total(MutableArrayRef<Value> state, int64_t q) {
    return state[queries + q];
  }
  MutableArrayRef<Value> sums(MutableArrayRef<Value> state) {
    return state.drop_front(2 * queries);
  }

  /// B x T x H.
  Value rowOf(int64_t q) {
    Value token = b.iadd(b.imul(block.sequence, spec.t), q / spec.group());
    return b.iadd(b.imul(token, spec.h), headOf(q));
  }
  Value headOf(int64_t q) { return b.iadd(firstHead, q % spec.group()); }
  void loadQueries();
  Vectors emitBlock(Value firstKey, Value count, ValueRange state);
  Vectors emitScores();
  Value sumOfEach(ArrayRef<Value> rows);
  Value maskOf(int64_t q, Value keyPositions);
  Vectors addValues(ArrayRef<Value> sums, bool masked);
  void storeResults(MutableArrayRef<Value> state);
};

} // namespace

void WidthLanesEmitter::emit(Value from, Value to) {
  int64_t groups = spec.h / spec.group();
  b.loop(from, to, 1, [&](Value unit) {
    block.sequence = b.idiv(unit, groups);
    firstHead = b.imul(b.irem(unit, groups), spec.group());
    AttentionSpec::KvHead head = spec.kvHeadOf(b, firstHead);
    block.kvHead = head.index;
    loadQueries();
    Vectors state(queries, minusInfinity);
    state.append(queries * (1 + vectors), zero);
    if (spec.sinks) {
      // A key that every query sees, and whose value is zero. Totals are summed
      // over lanes in the end.
      Value one =
          vector::InsertOp::create(b, b.f32(1.0), zero, ArrayRef<int64_t>{0});
      for (int64_t q = 0; q < queries; ++q) {
        Value sink = b.splat(spec.sinkOf(b, headOf(q), head.present));
        Value none = b.fcmp(arith::CmpFPredicate::OEQ, sink, minusInfinity);
        top(state, q) = sink;
        total(state, q) = b.select(none, zero, one);
      }
    }
    Value length = spec.lengthOf(b, block.sequence, head.present);
    state = b.loop(b.index(0), length, keys, state,
                   [&](Value firstKey, ValueRange carry) {
                     Value count = arith::MinUIOp::create(
                         b, b.isub(length, firstKey), b.index(keys));
                     return emitBlock(firstKey, count, carry);
                   });
    storeResults(state);
  });
}

void WidthLanesEmitter::loadQueries() {
  query.clear();
  positions.clear();
  documents.clear();
  Value scale = b.splat(b.f32(spec.scale));
  for (int64_t q = 0; q < queries; ++q) {
    Value base = b.imul(rowOf(q), spec.e);
    for (int64_t v = 0; v < vectors; ++v)
      query.push_back(b.fmul(
          b.loadLanes(b.bufferOf(spec.query), b.iadd(base, v * b.lanes())),
          scale));
    Value token = b.iadd(b.imul(block.sequence, spec.t), q / spec.group());
    Value position = b.loadScalar(b.bufferOf(spec.queryPositions), token);
    positions.push_back(position);
    block.lowest =
        q ? arith::MinSIOp::create(b, block.lowest, position) : position;
    block.highest =
        q ? arith::MaxSIOp::create(b, block.highest, position) : position;
    if (!spec.queryDocuments)
      continue;
    Value document = b.loadScalar(b.bufferOf(spec.queryDocuments), token);
    documents.push_back(document);
    block.lowestDocument =
        q ? arith::MinSIOp::create(b, block.lowestDocument, document)
          : document;
    block.highestDocument =
        q ? arith::MaxSIOp::create(b, block.highestDocument, document)
          : document;
  }
}

WidthLanesEmitter::Vectors
WidthLanesEmitter::emitBlock(Value firstKey, Value count, ValueRange carry) {
  KeyBlock::Range range = block.find(firstKey, count);
  return b.ifElse(
      b.icmp(arith::CmpIPredicate::ugt, range.seen, b.index(0)),
      carry.getTypes(),
      [&] {
        Vectors state(carry), scores = emitScores();
        Value keyPositions = b.loadLanes(block.positions, b.index(0));
        for (int64_t q = 0; q < queries; ++q) {
          Value score = scores[q];
          if (spec.bendsScores())
            score = spec.bend(b, score,
                              spec.slopes ? b.splat(spec.slopeOf(b, headOf(q)))
                                          : Value(),
                              b.isub(keyPositions, b.splat(positions[q])));
          score = b.select(maskOf(q, keyPositions), score, minusInfinity);
          Value most = b.splat(b.reduce(
              score, [&](Value x, Value y) { return largerScore(b, x, y); }));
          Value before = top(state, q), next = largerScore(b, before, most);
          // Nothing seen yet: weights of zero, not NaN.
          Value none = b.fcmp(arith::CmpFPredicate::OEQ, next, minusInfinity);
          Value safe = b.select(none, zero, next);
          Value correction = buildExp(b, b.fsub(before, safe));
          Value weight = buildExp(b, b.fsub(score, safe));
          b.storeLanes(weights, b.index(q * keys), weight);
          top(state, q) = next;
          total(state, q) = b.fma(total(state, q), correction, weight);
          for (int64_t v = 0; v < vectors; ++v) {
            Value &sum = sums(state)[q * vectors + v];
            sum = b.fmul(sum, correction);
          }
        }
        Vectors before(sums(state));
        Vectors after = b.ifElse(
            b.icmp(arith::CmpIPredicate::eq, range.shared, b.index(keys)),
            ValueRange(before).getTypes(),
            [&] { return addValues(before, /*masked=*/false); },
            [&] { return addValues(before, /*masked=*/true); });
        llvm::copy(after, sums(state).begin());
        return state;
      },
      [&] { return Vectors(carry); });
}

/// The products of each query with the block's keys, a key in each lane.
WidthLanesEmitter::Vectors WidthLanesEmitter::emitScores() {
  const Buffer &pool = b.bufferOf(spec.key);
  SmallVector<Vectors> parts(queries);
  for (int64_t k = 0; k < keys; ++k) {
    Value base = block.elementsAt(b.index(k));
    Vectors key;
    for (int64_t v = 0; v < vectors; ++v)
      key.push_back(b.loadLanes(pool, b.iadd(base, v * b.lanes())));
    for (int64_t q = 0; q < queries; ++q) {
      Value sum = b.fmul(query[q * vectors], key[0]);
      for (int64_t v = 1; v < vectors; ++v)
        sum = b.fma(query[q * vectors + v], key[v], sum);
      parts[q].push_back(sum);
    }
  }
  Vectors scores;
  for (const Vectors &rows : parts)
    scores.push_back(sumOfEach(rows));
  return scores;
}

/// Lane i is the sum of the lanes of row i. In each step two vectors of
/// segments become one of segments of half the length.
Value WidthLanesEmitter::sumOfEach(ArrayRef<Value> rows) {
  Vectors left(rows);
  for (int64_t half = b.lanes() / 2; half >= 1; half /= 2) {
    size_t count = left.size() / 2;
    SmallVector<int64_t> low, high;
    for (int64_t segment = 0; segment < b.lanes(); segment += 2 * half)
      for (int64_t from : {segment, b.lanes() + segment})
        for (int64_t i = 0; i < half; ++i) {
          low.push_back(from + i);
          high.push_back(from + half + i);
        }
    for (size_t i = 0; i < count; ++i) {
      auto pick = [&](ArrayRef<int64_t> lanes) -> Value {
        return vector::ShuffleOp::create(b, left[i], left[i + count], lanes);
      };
      left[i] = b.fadd(pick(low), pick(high));
    }
    left.resize(count);
  }
  return left[0];
}

/// Which keys of the block a query sees.
Value WidthLanesEmitter::maskOf(int64_t q, Value keyPositions) {
  Value seen =
      b.icmp(arith::CmpIPredicate::sge, keyPositions, b.splat(b.i32(0)));
  if (spec.causal)
    seen = b.both(seen, b.icmp(arith::CmpIPredicate::sle, keyPositions,
                               b.splat(positions[q])));
  if (spec.window > 0) {
    // Positions that it sees are above this; far below zero is as good as any.
    Value low = arith::MaxSIOp::create(b, positions[q], b.i32(-1));
    int64_t window = std::min<int64_t>(spec.window, INT32_MAX);
    seen = b.both(seen, b.icmp(arith::CmpIPredicate::sgt, keyPositions,
                               b.splat(b.isub(low, b.i32(window)))));
  }
  if (spec.queryDocuments)
    seen = b.both(seen, b.icmp(arith::CmpIPredicate::eq,
                               b.loadLanes(block.documents, b.index(0)),
                               b.splat(documents[q])));
  return seen;
}

/// Adds weights * values. `masked` keeps the value of a key from queries that
/// do not see it: zero times infinity is not zero.
WidthLanesEmitter::Vectors WidthLanesEmitter::addValues(ArrayRef<Value> sums,
                                                        bool masked) {
  const Buffer &pool = b.bufferOf(spec.value);
  return b.staticLoop(keys, 1, sums, [&](Value key, ValueRange carry) {
    Vectors next(carry), value;
    Value base = block.elementsAt(key);
    for (int64_t v = 0; v < vectors; ++v)
      value.push_back(b.loadLanes(pool, b.iadd(base, v * b.lanes())));
    for (int64_t q = 0; q < queries; ++q) {
      Value weight = b.loadScalar(weights, b.iadd(key, q * keys));
      Value seen = b.fcmp(arith::CmpFPredicate::UNE, weight, b.f32(0.0));
      for (int64_t v = 0; v < vectors; ++v) {
        Value &sum = next[q * vectors + v];
        Value more = b.fma(b.splat(weight), value[v], sum);
        sum = masked ? b.select(seen, more, sum) : more;
      }
    }
    return next;
  });
}

void WidthLanesEmitter::storeResults(MutableArrayRef<Value> state) {
  Value one = b.constant(zero.getType(), 1.0);
  for (int64_t q = 0; q < queries; ++q) {
    // Nothing seen: zeros.
    Value all = b.splat(b.reduceAdd(total(state, q)));
    Value empty = b.fcmp(arith::CmpFPredicate::OEQ, all, zero);
    Value divisor = b.select(empty, one, all);
    Value inverse = b.fdiv(one, divisor), row = rowOf(q);
    for (int64_t v = 0; v < vectors; ++v)
      b.storeLanes(b.resultOf(spec.op->getResult(0)),
                   b.iadd(b.imul(row, spec.e), v * b.lanes()),
                   b.fmul(sums(state)[q * vectors + v], inverse));
    if (!spec.isPartial())
      continue;
    Value lse = b.select(empty, minusInfinity,
                         b.fadd(top(state, q), buildLog(b, divisor)));
    b.storeScalar(b.resultOf(spec.op->getResult(1)), row,
                  vector::ExtractOp::create(b, lse, ArrayRef<int64_t>{0}));
  }
}

bool cpu::hasFewQueries(const AttentionSpec &spec, const TargetRecord &target) {
  // Fewer than half of the lanes would be queries, and the weighted values of
  // all queries stay in registers.
  return spec.e % target.lanes == 0 && spec.queries() * 2 <= target.lanes &&
         spec.queries() * (spec.e / target.lanes) <= target.registers;
}

int64_t cpu::widthLanesUnits(const AttentionSpec &spec) {
  return spec.b * (spec.h / spec.group());
}

void cpu::emitWidthLanes(KernelBuilder &b, const AttentionSpec &spec,
                         Value from, Value to) {
  WidthLanesEmitter(b, spec).emit(from, to);
}
