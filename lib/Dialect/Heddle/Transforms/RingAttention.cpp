//===- RingAttention.cpp - Attention whose keys go round ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RingAttention.h"

#include "heddle/Dialect/Comm/IR/CommDialect.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;

namespace {

/// What goes from hop to hop.
struct Hop {
  Value out, lse;                 // of the blocks so far
  Value key, value, keyPositions; // the block at hand

  SmallVector<Value> values() const {
    return {out, lse, key, value, keyPositions};
  }
  static Hop of(ValueRange v) { return {v[0], v[1], v[2], v[3], v[4]}; }
};

class RingEmitter {
public:
  RingEmitter(const RingAttention &ring)
      : ring(ring), op(ring.op), loc(op.getLoc()),
        lseType(RankedTensorType::get(ring.resultType.getShape().drop_back(),
                                      ring.resultType.getElementType())) {}

  Value emit(OpBuilder &builder, int64_t &collectives);

private:
  const RingAttention &ring;
  AttentionOp op;
  Location loc;
  RankedTensorType lseType;

  Value fill(OpBuilder &builder, RankedTensorType type, double value) {
    return FillOp::create(builder, loc, type, builder.getF64FloatAttr(value));
  }
  /// The hop's out and lse with its block added.
  std::pair<Value, Value> attend(OpBuilder &builder, const Hop &hop);
};

} // namespace

std::pair<Value, Value> RingEmitter::attend(OpBuilder &builder,
                                            const Hop &hop) {
  auto part = AttentionPartialOp::create(
      builder, loc, TypeRange{ring.resultType, lseType}, ring.query, hop.key,
      hop.value, ring.queryPositions, hop.keyPositions, /*blocks=*/Value(),
      /*lengths=*/Value(), op.getScaleAttr(), op.getCausalAttr(),
      op.getWindowAttr(), ring.kvHeads);
  auto merged = MergePartialsOp::create(
      builder, loc, TypeRange{ring.resultType, lseType}, hop.out, hop.lse,
      part.getResult(), part.getLse());
  return {merged.getResult(), merged.getLse()};
}

Value RingEmitter::emit(OpBuilder &builder, int64_t &collectives) {
  Hop hop = {fill(builder, ring.resultType, 0),
             fill(builder, lseType, -std::numeric_limits<double>::infinity()),
             ring.key, ring.value, ring.keyPositions};
  SmallVector<Value> first = hop.values();
  auto loop = RepeatOp::create(
      builder, loc, TypeRange(ValueRange(first)), first, ValueRange(),
      ValueRange(),
      builder.getDenseI64ArrayAttr(SmallVector<int64_t>(ring.ranks - 1, 0)),
      builder.getDenseI64ArrayAttr({}), builder.getDenseI64ArrayAttr({}),
      UnitAttr(), 1u);
  auto *body = new Block();
  loop.getKinds()[0].push_back(body);
  for (Value v : first)
    body->addArgument(v.getType(), loc);
  OpBuilder inner = OpBuilder::atBlockEnd(body);
  Hop now = Hop::of(body->getArguments());
  ArrayRef<AxisRefAttr> axes = op.getKeysAttr().getAxes();
  ArrayAttr group =
      inner.getArrayAttr(SmallVector<Attribute>(axes.begin(), axes.end()));
  StringAttr reason = inner.getStringAttr("keys and values go round");
  SmallVector<Value> started;
  for (Value v : {now.key, now.value, now.keyPositions}) {
    started.push_back(comm::PermuteStartOp::create(
        inner, loc, v.getType(), v, inner.getI64IntegerAttr(1), group, reason));
    ++collectives;
  }
  auto [out, lse] = attend(inner, now);
  SmallVector<Value> next = {out, lse};
  for (auto [begun, source] :
       llvm::zip(started, ValueRange(body->getArguments()).drop_front(2)))
    next.push_back(
        comm::WaitOp::create(inner, loc, begun.getType(), begun, source));
  YieldOp::create(inner, loc, next, ValueRange(), ValueRange());
  return attend(builder, Hop::of(loop.getResults())).first;
}

Value mlir::heddle::emitRingAttention(OpBuilder &builder,
                                      const RingAttention &ring,
                                      int64_t &collectives) {
  return RingEmitter(ring).emit(builder, collectives);
}
