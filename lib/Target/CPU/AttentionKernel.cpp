//===- AttentionKernel.cpp - Attention with online softmax --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Online softmax over blocks of keys (Milakov and Gimelshein, arXiv:1805.02867;
// Dao et al., arXiv:2205.14135), for a tile of queries: tokens of the query
// heads that share a key head. Lanes are queries: a score, a maximum, a weight
// of each query is a lane, so that the softmax needs no horizontal operations,
// and both products are register tiles of query vectors times broadcast keys or
// values. Memory of a call is that of
// one tile and one block, whatever the length.
//
//===----------------------------------------------------------------------===//

#include "Attention.h"
#include "VectorMath.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

/// Query vectors of a tile.
static int64_t vectorsOf(const AttentionSpec &spec,
                         const TargetRecord &target) {
  int64_t most = target.registers >= 32 ? 3 : 2;
  return std::min<int64_t>(most,
                           llvm::divideCeil(spec.queries(), target.lanes));
}

static int64_t tilesOfGroup(const AttentionSpec &spec,
                            const TargetRecord &target) {
  return llvm::divideCeil(spec.queries(),
                          vectorsOf(spec, target) * target.lanes);
}

namespace {

class AttentionEmitter {
public:
  AttentionEmitter(KernelBuilder &b, const AttentionSpec &spec)
      : b(b), spec(spec), vectors(vectorsOf(spec, b.target)),
        queries(vectors * b.lanes()), step(b.target.registers >= 32 ? 8 : 6),
        keysOfBlock((64 + step - 1) / step * step),
        query(b.scratch(spec.e * queries, b.getF32Type())),
        sums(b.scratch(spec.e * queries, b.getF32Type())),
        scores(b.scratch(keysOfBlock * queries, b.getF32Type())),
        packed(b.scratch(keysOfBlock * spec.e, b.getF32Type())),
        // With many queries, all tiles but the first find keys in a cache.
        block(b, spec, keysOfBlock, step, /*prefetch=*/vectors == 1),
        minusInfinity(b.constant(b.lanesOf(b.getF32Type()),
                                 -std::numeric_limits<double>::infinity())),
        zero(b.constant(b.lanesOf(b.getF32Type()), 0.0)) {}

  void emit(Value from, Value to);

private:
  using Vectors = SmallVector<Value>; // one value for each query vector

  KernelBuilder &b;
  const AttentionSpec &spec;
  /// Query vectors and queries of a tile; keys of a register tile, and of a
  /// block.
  const int64_t vectors, queries, step, keysOfBlock;
  // [e][query], [e][query], [key][query], [key or value][e]
  Buffer query, sums, scores, packed;
  KeyBlock block;
  Value minusInfinity, zero;
  // Of the current tile.
  Value sequence, firstHead, firstQuery, live;
  Vectors queryPositions, queryDocuments, slopes;

  void emitTile();
  void loadQueries();
  /// The least or largest of some integers on lanes.
  Value extreme(ArrayRef<Value> vectors, bool largest);
  Vectors loadSinks(Value present);
  SmallVector<Value> emitBlock(Value firstKey, Value keys, ValueRange state);
  void pack(const Buffer &from, Value count);
  Vectors emitScores(const KeyBlock::Range &keys);
  SmallVector<Value> emitScoresOf(Value from, Value to, ValueRange top,
                                  ArrayRef<Value> windowEnd, bool masked);
  Value seesKey(Value key, int64_t v, ArrayRef<Value> windowEnd);
  Vectors emitWeights(Value steps, ArrayRef<Value> top);
  void addValues(const KeyBlock::Range &keys, ArrayRef<Value> correction);
  SmallVector<Value> addValuesOf(Value from, Value to, Value firstColumn,
                                 int64_t columns, ValueRange tile, bool masked);
  void storeResults(ArrayRef<Value> top, ArrayRef<Value> total);

  /// Keys and values in fp32 are read where they are; others are widened once.
  bool inPlace = b.bufferOf(spec.key).element.isF32() &&
                 b.bufferOf(spec.value).element.isF32();
  /// Where a key of the block, or its value, is read: any, if nobody sees it.
  Value keyAt(Value key) {
    return inPlace ? block.elementsAt(key) : b.imul(key, spec.e);
  }
  struct Query {
    Value row, head; // B x T, H
  };
  /// Query i of the tile: the last one again past the end.
  Query queryOf(int64_t i) {
    Value q = arith::MinUIOp::create(b, b.iadd(firstQuery, i),
                                     b.index(spec.queries() - 1));
    Value token = b.idiv(q, spec.group());
    return {b.iadd(b.imul(sequence, spec.t), token),
            b.iadd(firstHead, b.irem(q, spec.group()))};
  }
  /// As KernelBuilder::sweep, not unrolled: these bodies are long.
  void sweepWidth(function_ref<void(Value e, Value mask)> body) {
    int64_t whole = spec.e / b.lanes();
    b.staticLoop(whole, 1, ValueRange(), [&](Value i, ValueRange) {
      body(b.imul(i, b.lanes()), Value());
      return SmallVector<Value>();
    });
    if (int64_t tail = spec.e % b.lanes())
      body(b.index(whole * b.lanes()), b.tailMask(tail));
  }
  Value at(Value row, int64_t vector) {
    return b.iadd(b.imul(row, queries), vector * b.lanes());
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// A tile
//===----------------------------------------------------------------------===//

void AttentionEmitter::emit(Value from, Value to) {
  int64_t tiles = tilesOfGroup(spec, b.target);
  int64_t groups = spec.h / spec.group();
  b.loop(from, to, 1, [&](Value unit) {
    sequence = block.sequence = b.idiv(unit, groups * tiles);
    // Heads of the same queries one after the other: rows stay with a worker.
    Value rest = b.irem(unit, groups * tiles);
    firstQuery = b.imul(b.idiv(rest, groups), queries);
    firstHead = b.imul(b.irem(rest, groups), spec.group());
    live = arith::MinUIOp::create(
        b, b.isub(b.index(spec.queries()), firstQuery), b.index(queries));
    emitTile();
  });
}

void AttentionEmitter::emitTile() {
  loadQueries();
  AttentionSpec::KvHead key = spec.kvHeadOf(b, firstHead);
  block.kvHead = key.index;
  b.staticLoop(spec.e, 1, ValueRange(), [&](Value e, ValueRange) {
    for (int64_t v = 0; v < vectors; ++v)
      b.storeLanes(sums, at(e, v), zero);
    return SmallVector<Value>();
  });
  // The maximum and the sum of each query.
  SmallVector<Value> state(vectors, minusInfinity);
  state.append(vectors, zero);
  if (spec.sinks) {
    // A sink is a key that every query sees, and whose value is zero.
    Vectors sinks = loadSinks(key.present);
    Value one = b.constant(zero.getType(), 1.0);
    for (int64_t v = 0; v < vectors; ++v) {
      Value none = b.fcmp(arith::CmpFPredicate::OEQ, sinks[v], minusInfinity);
      state[v] = sinks[v];
      state[vectors + v] = b.select(none, zero, one);
    }
  }
  Value keys = spec.lengthOf(b, sequence, key.present);
  state = b.loop(b.index(0), keys, keysOfBlock, state,
                 [&](Value firstKey, ValueRange carry) {
                   return emitBlock(firstKey, keys, carry);
                 });
  storeResults(ArrayRef(state).take_front(vectors),
               ArrayRef(state).drop_front(vectors));
}

/// Queries, scaled, with a lane for each; their positions.
void AttentionEmitter::loadQueries() {
  Value scale = b.splat(b.f32(spec.scale));
  for (int64_t v = 0; v < vectors; ++v) {
    SmallVector<Value> base;
    for (int64_t i = 0; i < b.lanes(); ++i) {
      auto [row, head] = queryOf(v * b.lanes() + i);
      base.push_back(b.imul(b.iadd(b.imul(row, spec.h), head), spec.e));
      b.storeScalar(block.rows, b.index(i),
                    b.loadScalar(b.bufferOf(spec.queryPositions), row));
    }
    if (v == 0) {
      queryPositions.clear();
      queryDocuments.clear();
      slopes.clear();
    }
    queryPositions.push_back(b.loadLanes(block.rows, b.index(0)));
    if (spec.queryDocuments) {
      for (int64_t i = 0; i < b.lanes(); ++i)
        b.storeScalar(block.rows, b.index(i),
                      b.loadScalar(b.bufferOf(spec.queryDocuments),
                                   queryOf(v * b.lanes() + i).row));
      queryDocuments.push_back(b.loadLanes(block.rows, b.index(0)));
    }
    if (spec.slopes) {
      for (int64_t i = 0; i < b.lanes(); ++i)
        b.storeScalar(scores, b.index(i),
                      spec.slopeOf(b, queryOf(v * b.lanes() + i).head));
      slopes.push_back(b.loadLanes(scores, b.index(0)));
    }
    sweepWidth([&](Value e, Value mask) {
      SmallVector<Value> matrix;
      for (Value row : base)
        matrix.push_back(b.fmul(
            b.loadLanes(b.bufferOf(spec.query), b.iadd(row, e), mask), scale));
      b.transpose(matrix);
      int64_t width = mask ? spec.e % b.lanes() : b.lanes();
      for (int64_t i = 0; i < width; ++i)
        b.storeLanes(query, at(b.iadd(e, i), v), matrix[i]);
    });
  }
  block.lowest = extreme(queryPositions, /*largest=*/false);
  block.highest = extreme(queryPositions, /*largest=*/true);
  if (spec.queryDocuments) {
    block.lowestDocument = extreme(queryDocuments, /*largest=*/false);
    block.highestDocument = extreme(queryDocuments, /*largest=*/true);
  }
}

Value AttentionEmitter::extreme(ArrayRef<Value> vectors, bool largest) {
  auto combine = [&](Value x, Value y) -> Value {
    if (largest)
      return arith::MaxSIOp::create(b, x, y);
    return arith::MinSIOp::create(b, x, y);
  };
  Value all = vectors[0];
  for (Value more : vectors.drop_front())
    all = combine(all, more);
  return b.reduce(all, combine);
}

/// The sink of each query's head.
AttentionEmitter::Vectors AttentionEmitter::loadSinks(Value present) {
  Vectors sinks;
  for (int64_t v = 0; v < vectors; ++v) {
    for (int64_t i = 0; i < b.lanes(); ++i)
      b.storeScalar(scores, b.index(i),
                    spec.sinkOf(b, queryOf(v * b.lanes() + i).head, present));
    sinks.push_back(b.loadLanes(scores, b.index(0)));
  }
  return sinks;
}

/// Up to keysOfBlock keys from `firstKey` on: the new maxima and sums.
SmallVector<Value> AttentionEmitter::emitBlock(Value firstKey, Value keys,
                                               ValueRange state) {
  Value count =
      arith::MinUIOp::create(b, b.isub(keys, firstKey), b.index(keysOfBlock));
  KeyBlock::Range range = block.find(firstKey, count);
  return b.ifElse(
      b.icmp(arith::CmpIPredicate::ugt, range.seen, b.index(0)),
      state.getTypes(),
      [&] {
        Value steps = b.idiv(b.iadd(range.seen, step - 1), step);
        if (!inPlace)
          pack(b.bufferOf(spec.key), b.imul(steps, step));
        Vectors top = emitScores(range), correction, safe;
        for (int64_t v = 0; v < vectors; ++v) {
          top[v] = largerScore(b, state[v], top[v]);
          // Nothing seen yet: weights of zero, not NaN.
          Value none = b.fcmp(arith::CmpFPredicate::OEQ, top[v], minusInfinity);
          safe.push_back(b.select(none, zero, top[v]));
          correction.push_back(buildExp(b, b.fsub(state[v], safe[v])));
        }
        Vectors added = emitWeights(steps, safe);
        if (!inPlace)
          pack(b.bufferOf(spec.value), range.seen);
        addValues(range, correction);
        SmallVector<Value> next(top);
        for (int64_t v = 0; v < vectors; ++v)
          next.push_back(b.fma(state[vectors + v], correction[v], added[v]));
        return next;
      },
      [&] { return SmallVector<Value>(state); });
}

/// Keys or values of a block, side by side; zeros for those that nobody sees,
/// which may be anything where they are.
void AttentionEmitter::pack(const Buffer &from, Value count) {
  b.loop(b.index(0), count, 1, [&](Value j) {
    Value row = b.loadScalar(block.rows, j), to = b.imul(j, spec.e);
    Value seen = b.icmp(arith::CmpIPredicate::sge, row, b.i32(0));
    b.ifElse(
        seen, {},
        [&] {
          Value base = block.elementsOf(b.toIndex(row));
          b.sweep(spec.e, [&](Value e, Value mask) {
            b.storeLanes(packed, b.iadd(to, e),
                         b.loadLanes(from, b.iadd(base, e), mask), mask);
          });
          return SmallVector<Value>();
        },
        [&] {
          b.sweep(spec.e, [&](Value e, Value mask) {
            b.storeLanes(packed, b.iadd(to, e), zero, mask);
          });
          return SmallVector<Value>();
        });
  });
}

/// scores[key][query] of the block, -inf where a query does not see a key; the
/// maxima.
AttentionEmitter::Vectors
AttentionEmitter::emitScores(const KeyBlock::Range &keys) {
  SmallVector<Value> windowEnd; // positions that a query sees are above it
  if (spec.window > 0)
    for (Value position : queryPositions) {
      // Far below zero is as good as anything.
      Value low = arith::MaxSIOp::create(b, position, b.splat(b.i32(-1)));
      int64_t window = std::min<int64_t>(spec.window, INT32_MAX);
      windowEnd.push_back(b.isub(low, b.splat(b.i32(window))));
    }
  Value shared = b.idiv(keys.shared, step);
  Value steps = b.idiv(b.iadd(keys.seen, step - 1), step);
  Vectors top(vectors, minusInfinity);
  top = emitScoresOf(b.index(0), shared, top, windowEnd, /*masked=*/false);
  return emitScoresOf(shared, steps, top, windowEnd, /*masked=*/true);
}

SmallVector<Value> AttentionEmitter::emitScoresOf(Value from, Value to,
                                                  ValueRange top,
                                                  ArrayRef<Value> windowEnd,
                                                  bool masked) {
  return b.loop(from, to, 1, top, [&](Value s, ValueRange carry) {
    Value firstKey = b.imul(s, step);
    const Buffer &keys = inPlace ? b.bufferOf(spec.key) : packed;
    SmallVector<Value> base;
    for (int64_t k = 0; k < step; ++k)
      base.push_back(keyAt(b.iadd(firstKey, k)));
    SmallVector<Value> tile = b.staticLoop(
        spec.e, 1, SmallVector<Value>(step * vectors, zero),
        [&](Value e, ValueRange sum) {
          SmallVector<Value> next(sum);
          Vectors q;
          for (int64_t v = 0; v < vectors; ++v)
            q.push_back(b.loadLanes(query, at(e, v)));
          for (int64_t k = 0; k < step; ++k) {
            Value key = b.splat(b.loadScalar(keys, b.iadd(base[k], e)));
            for (int64_t v = 0; v < vectors; ++v)
              next[k * vectors + v] = b.fma(q[v], key, next[k * vectors + v]);
          }
          return next;
        });
    SmallVector<Value> next(carry);
    for (int64_t k = 0; k < step; ++k) {
      Value key = b.iadd(firstKey, k);
      for (int64_t v = 0; v < vectors; ++v) {
        Value score = tile[k * vectors + v];
        if (spec.bendsScores()) {
          Value position = b.splat(b.loadScalar(block.positions, key));
          score = spec.bend(b, score, spec.slopes ? slopes[v] : Value(),
                            b.isub(position, queryPositions[v]));
        }
        if (masked)
          score = b.select(seesKey(key, v, windowEnd), score, minusInfinity);
        b.storeLanes(scores, at(key, v), score);
        next[v] = largerScore(b, score, next[v]);
      }
    }
    return next;
  });
}

/// Which queries of a vector see a key of the block.
Value AttentionEmitter::seesKey(Value key, int64_t v,
                                ArrayRef<Value> windowEnd) {
  Value position = b.splat(b.loadScalar(block.positions, key));
  Value seen = b.icmp(arith::CmpIPredicate::sge, position, b.splat(b.i32(0)));
  if (spec.causal)
    seen = b.both(
        seen, b.icmp(arith::CmpIPredicate::sle, position, queryPositions[v]));
  if (spec.window > 0)
    seen =
        b.both(seen, b.icmp(arith::CmpIPredicate::sgt, position, windowEnd[v]));
  if (spec.queryDocuments)
    seen = b.both(seen, b.icmp(arith::CmpIPredicate::eq, queryDocuments[v],
                               b.splat(b.loadScalar(block.documents, key))));
  return seen;
}

/// scores become e^(score - top); their sums.
AttentionEmitter::Vectors AttentionEmitter::emitWeights(Value steps,
                                                        ArrayRef<Value> top) {
  return b.loop(b.index(0), b.imul(steps, step), 1,
                SmallVector<Value>(vectors, zero),
                [&](Value key, ValueRange carry) {
                  SmallVector<Value> sum(carry);
                  for (int64_t v = 0; v < vectors; ++v) {
                    Value score = b.loadLanes(scores, at(key, v));
                    Value weight = buildExp(b, b.fsub(score, top[v]));
                    b.storeLanes(scores, at(key, v), weight);
                    sum[v] = b.fadd(sum[v], weight);
                  }
                  return sum;
                });
}

/// sums = sums * correction + weights * values.
void AttentionEmitter::addValues(const KeyBlock::Range &keys,
                                 ArrayRef<Value> correction) {
  auto emitColumns = [&](Value first, int64_t columns) {
    SmallVector<Value> tile;
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t v = 0; v < vectors; ++v)
        tile.push_back(
            b.fmul(b.loadLanes(sums, at(b.iadd(first, c), v)), correction[v]));
    tile = addValuesOf(b.index(0), keys.shared, first, columns, tile,
                       /*masked=*/false);
    tile = addValuesOf(keys.shared, keys.seen, first, columns, tile,
                       /*masked=*/true);
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t v = 0; v < vectors; ++v)
        b.storeLanes(sums, at(b.iadd(first, c), v), tile[c * vectors + v]);
  };
  int64_t whole = spec.e / step;
  b.staticLoop(whole, 1, ValueRange(), [&](Value i, ValueRange) {
    emitColumns(b.imul(i, step), step);
    return SmallVector<Value>();
  });
  if (int64_t rest = spec.e % step)
    emitColumns(b.index(whole * step), rest);
}

/// Adds to a register tile of columns. `masked` keeps the value of a key from
/// queries that do not see it: zero times infinity is not zero.
SmallVector<Value> AttentionEmitter::addValuesOf(Value from, Value to,
                                                 Value firstColumn,
                                                 int64_t columns,
                                                 ValueRange tile, bool masked) {
  const Buffer &values = inPlace ? b.bufferOf(spec.value) : packed;
  return b.loop(from, to, 1, tile, [&](Value key, ValueRange carry) {
    SmallVector<Value> next(carry);
    Vectors weight, seen;
    for (int64_t v = 0; v < vectors; ++v) {
      weight.push_back(b.loadLanes(scores, at(key, v)));
      if (masked)
        seen.push_back(b.fcmp(arith::CmpFPredicate::UNE, weight[v], zero));
    }
    Value base = b.iadd(keyAt(key), firstColumn);
    for (int64_t c = 0; c < columns; ++c) {
      Value value = b.splat(b.loadScalar(values, b.iadd(base, c)));
      for (int64_t v = 0; v < vectors; ++v) {
        Value &sum = next[c * vectors + v];
        Value more = b.fma(weight[v], value, sum);
        sum = masked ? b.select(seen[v], more, sum) : more;
      }
    }
    return next;
  });
}

void AttentionEmitter::storeResults(ArrayRef<Value> top,
                                    ArrayRef<Value> total) {
  Value one = b.constant(b.lanesOf(b.getF32Type()), 1.0);
  bool partial = spec.isPartial();
  for (int64_t v = 0; v < vectors; ++v) {
    // Nothing seen: zeros.
    Value empty = b.fcmp(arith::CmpFPredicate::OEQ, total[v], zero);
    Value divisor = b.select(empty, one, total[v]);
    Value inverse = b.fdiv(one, divisor);
    if (partial)
      b.storeLanes(
          scores, b.index(0),
          b.select(empty, minusInfinity, b.fadd(top[v], buildLog(b, divisor))));
    SmallVector<Value> outs, present;
    for (int64_t i = 0; i < b.lanes(); ++i) {
      auto [row, head] = queryOf(v * b.lanes() + i);
      outs.push_back(b.iadd(b.imul(row, spec.h), head));
      present.push_back(
          b.icmp(arith::CmpIPredicate::ult, b.index(v * b.lanes() + i), live));
      if (partial)
        b.ifThen(present[i], [&] {
          b.storeScalar(b.resultOf(spec.op->getResult(1)), outs[i],
                        b.loadScalar(scores, b.index(i)));
        });
    }
    sweepWidth([&](Value e, Value mask) {
      SmallVector<Value> matrix;
      int64_t width = mask ? spec.e % b.lanes() : b.lanes();
      for (int64_t i = 0; i < b.lanes(); ++i)
        matrix.push_back(
            i < width ? b.fmul(b.loadLanes(sums, at(b.iadd(e, i), v)), inverse)
                      : zero);
      b.transpose(matrix);
      for (int64_t i = 0; i < b.lanes(); ++i)
        b.ifThen(present[i], [&] {
          b.storeLanes(b.resultOf(spec.op->getResult(0)),
                       b.iadd(b.imul(outs[i], spec.e), e), matrix[i], mask);
        });
    });
  }
}

int64_t cpu::queryLanesUnits(const AttentionSpec &spec,
                             const TargetRecord &target) {
  return spec.b * (spec.h / spec.group()) * tilesOfGroup(spec, target);
}

Value cpu::queryLanesUnitsToCompute(KernelBuilder &b,
                                    const AttentionSpec &spec) {
  // Tiles of queries stand in order of their tokens, and a kernel with an
  // extent has one sequence.
  int64_t queries = vectorsOf(spec, b.target) * b.lanes();
  Value live = b.imul(b.rowsToCompute(spec.t), spec.group());
  return b.imul(b.idiv(b.iadd(live, queries - 1), queries),
                spec.b * (spec.h / spec.group()));
}

void cpu::emitQueryLanes(KernelBuilder &b, const AttentionSpec &spec,
                         Value from, Value to) {
  AttentionEmitter(b, spec).emit(from, to);
}
