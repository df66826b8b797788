//===- AttentionKernel.cpp - Attention with online softmax --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionSpec.h"
#include "KernelEmission.h"
#include "VectorMath.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

//===----------------------------------------------------------------------===//
// Where keys are
//===----------------------------------------------------------------------===//

AttentionSpec::KvHead AttentionSpec::kvHeadOf(KernelBuilder &b,
                                              Value head) const {
  if (!kvHeads)
    return {b.idiv(head, h / g), Value()};
  Value entry = b.tableEntry(kvHeads, head);
  Value present = b.icmp(arith::CmpIPredicate::sge, entry, b.i32(0));
  return {b.toIndex(b.select(present, entry, b.i32(0))), present};
}

Value AttentionSpec::lengthOf(KernelBuilder &b, Value sequence,
                              Value present) const {
  Value n = b.index(capacity);
  if (lengths) {
    Value given = b.loadScalar(b.bufferOf(lengths), sequence);
    given = b.select(b.icmp(arith::CmpIPredicate::sgt, given, b.i32(0)), given,
                     b.i32(0));
    n = arith::MinUIOp::create(b, n, b.toIndex(given));
  }
  return present ? b.select(present, n, b.index(0)) : n;
}

AttentionSpec::KeyRow AttentionSpec::keyRowOf(KernelBuilder &b, Value sequence,
                                              Value j) const {
  KeyRow key;
  if (blocks) {
    int64_t perSequence = tensorShape(blocks)[1];
    Value at = b.iadd(b.imul(sequence, perSequence), b.idiv(j, slots));
    Value block = b.loadScalar(b.bufferOf(blocks), at);
    key.exists = b.inRange(block, pools);
    block = b.toIndex(b.select(key.exists, block, b.i32(0)));
    key.row = b.iadd(b.imul(block, slots), b.irem(j, slots));
  } else {
    key.row = b.iadd(b.imul(sequence, slots), j);
  }
  key.position = b.loadScalar(b.bufferOf(keyPositions), key.row);
  return key;
}

//===----------------------------------------------------------------------===//
// One query at a time
//===----------------------------------------------------------------------===//

namespace {

/// One query of one head at a time, lanes along the head's width. Memory is one
/// block of scores, whatever the length.
class QueryEmitter {
public:
  QueryEmitter(KernelBuilder &b, const AttentionSpec &spec)
      : b(b), spec(spec), query(b.scratch(padded(spec.e), b.getF32Type())),
        sums(b.scratch(padded(spec.e), b.getF32Type())),
        scores(b.scratch(kKeys, b.getF32Type())),
        rows(b.scratch(kKeys, b.getI32Type())),
        minusInfinity(b.f32(-std::numeric_limits<double>::infinity())) {}

  void emit() {
    int64_t units = spec.b * spec.h * spec.t;
    Value from = b.tileBegin(b.tile, units);
    Value to = b.tileBegin(b.iadd(b.tile, 1), units);
    b.loop(from, to, 1, [&](Value unit) {
      sequence = b.idiv(unit, spec.h * spec.t);
      Value rest = b.irem(unit, spec.h * spec.t);
      Value head = b.idiv(rest, spec.t), token = b.irem(rest, spec.t);
      Value row = b.iadd(b.imul(sequence, spec.t), token);
      emitQuery(row, head);
    });
  }

private:
  /// Keys of a block: scores of one fit the first-level cache many times over.
  static constexpr int64_t kKeys = 64;

  KernelBuilder &b;
  const AttentionSpec &spec;
  Buffer query, sums, scores, rows;
  Value minusInfinity;
  // Of the current query.
  Value sequence, kvHead, queryPosition;

  int64_t padded(int64_t extent) {
    return (extent + b.lanes() - 1) / b.lanes() * b.lanes();
  }

  /// Row of logical key j in the pool (i32), -1 if the query does not see it.
  Value visibleRow(Value j) {
    auto [row, position, exists] = spec.keyRowOf(b, sequence, j);
    Value seen = b.icmp(arith::CmpIPredicate::sge, position, b.i32(0));
    if (exists)
      seen = b.both(seen, exists);
    if (spec.causal)
      seen = b.both(seen,
                    b.icmp(arith::CmpIPredicate::sle, position, queryPosition));
    if (spec.window > 0) {
      // In 64 bits: positions may be anything.
      Value distance = b.isub(b.toIndex(queryPosition), b.toIndex(position));
      seen = b.both(seen, b.icmp(arith::CmpIPredicate::slt, distance,
                                 b.index(spec.window)));
    }
    return b.select(seen, b.toI32(row), b.i32(-1));
  }

  /// First element of a key or value.
  Value elementsOf(Value row) {
    return b.imul(b.iadd(b.imul(b.toIndex(row), spec.g), kvHead), spec.e);
  }

  Value dot(Value row) {
    Value base = elementsOf(row);
    Value zero = b.constant(b.lanesOf(b.getF32Type()), 0.0);
    return b.reduceAdd(b.sweep(
        spec.e, 4, zero,
        [&](Value at, Value mask, MutableArrayRef<Value> sum) {
          Value k = b.loadLanes(b.bufferOf(spec.key), b.iadd(base, at), mask);
          sum[0] = b.fma(b.loadLanes(query, at), k, sum[0]);
        },
        [&](MutableArrayRef<Value> sum, ArrayRef<Value> later) {
          sum[0] = b.fadd(sum[0], later[0]);
        })[0]);
  }

  void emitQuery(Value row, Value head) {
    queryPosition = b.loadScalar(b.bufferOf(spec.queryPositions), row);
    AttentionSpec::KvHead key = spec.kvHeadOf(b, head);
    kvHead = key.index;
    Value out = b.iadd(b.imul(row, spec.h), head);
    Value first = b.imul(out, spec.e);
    Value zero = b.constant(b.lanesOf(b.getF32Type()), 0.0);
    Value scale = b.splat(b.f32(spec.scale));
    b.sweep(spec.e, [&](Value at, Value mask) {
      Value q = b.loadLanes(b.bufferOf(spec.query), b.iadd(first, at), mask);
      b.storeLanes(query, at, b.fmul(q, scale));
      b.storeLanes(sums, at, zero);
    });

    Value keys = spec.lengthOf(b, sequence, key.present);
    SmallVector<Value> state =
        b.loop(b.index(0), keys, kKeys, ValueRange{minusInfinity, b.f32(0.0)},
               [&](Value firstKey, ValueRange carry) {
                 return emitKeys(firstKey, keys, carry[0], carry[1]);
               });
    Value top = state[0], total = state[1];

    // Nothing seen: zeros.
    Value empty = b.fcmp(arith::CmpFPredicate::OEQ, total, b.f32(0.0));
    Value divisor = b.select(empty, b.f32(1.0), total);
    Value inverse = b.splat(b.fdiv(b.f32(1.0), divisor));
    b.sweep(spec.e, [&](Value at, Value mask) {
      Value v = b.fmul(b.loadLanes(sums, at), inverse);
      b.storeLanes(b.resultOf(spec.op->getResult(0)), b.iadd(first, at), v,
                   mask);
    });
    if (isa<AttentionPartialOp>(spec.op)) {
      Value lse =
          b.select(empty, minusInfinity, b.fadd(top, buildLog(b, divisor)));
      b.storeScalar(b.resultOf(spec.op->getResult(1)), out, lse);
    }
  }

  /// Up to kKeys keys from `firstKey` on: the new maximum and sum.
  SmallVector<Value> emitKeys(Value firstKey, Value keys, Value top,
                              Value total) {
    Value count =
        arith::MinUIOp::create(b, b.isub(keys, firstKey), b.index(kKeys));
    b.sweep(kKeys, [&](Value at, Value) {
      b.storeLanes(scores, at, b.splat(minusInfinity));
    });
    Value blockTop =
        b.loop(b.index(0), count, 1, ValueRange{minusInfinity},
               [&](Value j, ValueRange carry) {
                 Value row = visibleRow(b.iadd(firstKey, j));
                 b.storeScalar(rows, j, row);
                 Value seen = b.icmp(arith::CmpIPredicate::sge, row, b.i32(0));
                 Value score = b.ifElse(
                     seen, {b.getF32Type()},
                     [&] { return SmallVector<Value>{dot(row)}; },
                     [&] { return SmallVector<Value>{minusInfinity}; })[0];
                 b.storeScalar(scores, j, score);
                 return SmallVector<Value>{b.fmax(carry[0], score)};
               })[0];
    // UNE: a NaN score is seen, and spreads.
    Value any = b.fcmp(arith::CmpFPredicate::UNE, blockTop, minusInfinity);
    Type f32 = b.getF32Type();
    return b.ifElse(
        any, {f32, f32},
        [&] { return emitUpdate(count, blockTop, top, total); },
        [&] { return SmallVector<Value>{top, total}; });
  }

  SmallVector<Value> emitUpdate(Value count, Value blockTop, Value top,
                                Value total) {
    Value newTop = b.fmax(top, blockTop);
    Value correction = buildExp(b, b.fsub(top, newTop));
    Value wideTop = b.splat(newTop), wideCorrection = b.splat(correction);
    Value zero = b.constant(b.lanesOf(b.getF32Type()), 0.0);
    Value added = b.reduceAdd(b.sweep(
        kKeys, 2, zero,
        [&](Value at, Value, MutableArrayRef<Value> sum) {
          Value p = buildExp(b, b.fsub(b.loadLanes(scores, at), wideTop));
          b.storeLanes(scores, at, p);
          sum[0] = b.fadd(sum[0], p);
        },
        [&](MutableArrayRef<Value> sum, ArrayRef<Value> later) {
          sum[0] = b.fadd(sum[0], later[0]);
        })[0]);
    b.sweep(spec.e, [&](Value at, Value) {
      b.storeLanes(sums, at, b.fmul(b.loadLanes(sums, at), wideCorrection));
    });
    b.loop(b.index(0), count, 1, [&](Value j) {
      Value row = b.loadScalar(rows, j);
      // An unseen value may be anything, NaN too.
      b.ifThen(b.icmp(arith::CmpIPredicate::sge, row, b.i32(0)), [&] {
        Value weight = b.splat(b.loadScalar(scores, j));
        Value base = elementsOf(row);
        b.sweep(spec.e, [&](Value at, Value mask) {
          Value v = b.loadLanes(b.bufferOf(spec.value), b.iadd(base, at), mask);
          b.storeLanes(sums, at, b.fma(weight, v, b.loadLanes(sums, at)));
        });
      });
    });
    return {newTop, b.fma(total, correction, added)};
  }
};

} // namespace

void cpu::emitQueryAttention(KernelBuilder &b, const AttentionSpec &spec) {
  QueryEmitter(b, spec).emit();
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

LogicalResult cpu::checkAttention(const KernelFunction &kernel, Operation *op) {
  AttentionSpec spec(op);
  for (Value v : {spec.query, spec.key, spec.value})
    if (!isa<FloatType>(tensorType(v).getElementType()))
      return op->emitOpError("expected floating point operands in a kernel, "
                             "got ")
             << v.getType();
  return success();
}

int64_t cpu::attentionTiles(Operation *op, const TargetRecord &target) {
  AttentionSpec spec(op);
  int64_t units = isBlocked(spec, target) ? blockedAttentionUnits(spec, target)
                                          : spec.b * spec.h * spec.t;
  return std::min<int64_t>(units, 64);
}

void cpu::emitAttention(KernelBuilder &b, Operation *op) {
  AttentionSpec spec(op);
  if (isBlocked(spec, b.target))
    emitBlockedAttention(b, spec);
  else
    emitQueryAttention(b, spec);
}
