//===- Attention.cpp - What the attention kernels share -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Attention.h"
#include "VectorMath.h"

#include "llvm/ADT/bit.h"

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
  if (keyDocuments)
    key.document = b.loadScalar(b.bufferOf(keyDocuments), key.row);
  return key;
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

RankTableAttr AttentionSpec::slopeTable(AlibiAttr alibi, RankTableAttr heads) {
  SmallVector<double> slopes = alibi.slopes();
  auto bits = [&](int64_t head) -> int64_t {
    float slope = head < 0 ? 0.0f : static_cast<float>(slopes[head]);
    return llvm::bit_cast<int32_t>(slope);
  };
  if (heads)
    return RankTableAttr::get(alibi.getContext(), heads.getAxes(),
                              heads.getRows(), heads.getCols(),
                              llvm::map_to_vector(heads.getValues(), bits));
  return RankTableAttr::get(
      alibi.getContext(), {}, 1, alibi.getHeads(),
      llvm::map_to_vector(llvm::seq(alibi.getHeads()), bits));
}

Value AttentionSpec::sinkOf(KernelBuilder &b, Value head, Value present) const {
  Value sink = b.loadScalar(b.bufferOf(sinks), head);
  return present ? b.select(present, sink,
                            b.f32(-std::numeric_limits<double>::infinity()))
                 : sink;
}

Value AttentionSpec::bend(KernelBuilder &b, Value score, Value slope,
                          Value distance) const {
  Type type = score.getType();
  if (softCap > 0)
    score = b.fmul(buildTanh(b, b.fmul(score, b.constant(type, 1 / softCap))),
                   b.constant(type, softCap));
  if (slope)
    score = b.fma(slope, arith::SIToFPOp::create(b, type, distance), score);
  return score;
}

KeyBlock::Range KeyBlock::find(Value firstKey, Value count) {
  Value no = b.i32(-1);
  Value padding = b.imul(b.idiv(b.iadd(count, step - 1), step), step);
  b.loop(count, padding, 1, [&](Value j) {
    b.storeScalar(rows, j, no);
    b.storeScalar(positions, j, no);
  });
  SmallVector<Value> found = b.loop(
      b.index(0), count, 1, ValueRange{b.index(0), b.index(0)},
      [&](Value j, ValueRange carry) {
        auto [row, position, document, exists] =
            spec.keyRowOf(b, sequence, b.iadd(firstKey, j));
        Value some = b.icmp(arith::CmpIPredicate::sge, position, b.i32(0));
        if (exists)
          some = b.both(some, exists);
        Value every = some;
        if (spec.causal) {
          auto notAfter = [&](Value query) {
            return b.icmp(arith::CmpIPredicate::sle, position, query);
          };
          some = b.both(some, notAfter(highest));
          every = b.both(every, notAfter(lowest));
        }
        if (spec.window > 0) {
          // In 64 bits: positions may be anything.
          auto isNear = [&](Value query) {
            Value distance = b.isub(b.toIndex(query), b.toIndex(position));
            return b.icmp(arith::CmpIPredicate::slt, distance,
                          b.index(spec.window));
          };
          some = b.both(some, isNear(lowest));
          every = b.both(every, isNear(highest));
        }
        if (document) {
          using arith::CmpIPredicate;
          Value first = b.icmp(CmpIPredicate::sle, lowestDocument, document);
          Value last = b.icmp(CmpIPredicate::sge, highestDocument, document);
          some = b.both(some, b.both(first, last));
          Value one =
              b.icmp(CmpIPredicate::eq, lowestDocument, highestDocument);
          every = b.both(every, b.both(one, b.both(first, last)));
          b.storeScalar(documents, j, document);
        }
        if (prefetch)
          for (Value pool : {spec.key, spec.value}) {
            const Buffer &memory = b.bufferOf(pool);
            b.prefetch(memory, elementsOf(row),
                       spec.e * getBlockBytes(memory.element));
          }
        b.storeScalar(rows, j, b.select(some, b.toI32(row), no));
        b.storeScalar(positions, j, b.select(some, position, no));
        Value next = b.iadd(j, 1);
        Value leading = b.icmp(arith::CmpIPredicate::eq, carry[1], j);
        return SmallVector<Value>{
            b.select(some, next, carry[0]),
            b.select(b.both(every, leading), next, carry[1])};
      });
  return {found[0], found[1]};
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

static int64_t unitsOf(const AttentionSpec &spec, const TargetRecord &target) {
  return hasFewQueries(spec, target) ? widthLanesUnits(spec)
                                     : queryLanesUnits(spec, target);
}

int64_t cpu::attentionTiles(Operation *op, const TargetRecord &target) {
  return std::min<int64_t>(unitsOf(AttentionSpec(op), target), 64);
}

void cpu::emitAttention(KernelBuilder &b, Operation *op) {
  AttentionSpec spec(op);
  bool few = hasFewQueries(spec, b.target);
  Value units = few ? b.index(unitsOf(spec, b.target))
                    : queryLanesUnitsToCompute(b, spec);
  Value from = b.tileBegin(b.tile, units);
  Value to = b.tileBegin(b.iadd(b.tile, 1), units);
  if (few)
    emitWidthLanes(b, spec, from, to);
  else
    emitQueryLanes(b, spec, from, to);
}
