//===- MergeAttention.cpp - Caches that lie over ranks --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MergeAttention.h"

#include "heddle/Dialect/Comm/IR/CommDialect.h"

using namespace mlir;
using namespace mlir::heddle;

/// The parts of all ranks, one after the other along the first dimension.
static SmallVector<Value> gatherParts(OpBuilder &builder, Value part,
                                      const MergeAttention &merge,
                                      int64_t &collectives) {
  AttentionOp op = merge.op;
  Location loc = op.getLoc();
  auto type = cast<RankedTensorType>(part.getType());
  SmallVector<int64_t> shape(type.getShape());
  int64_t extent = shape[0];
  shape[0] *= merge.ranks;
  ArrayRef<AxisRefAttr> axes = op.getKeysAttr().getAxes();
  Value all = comm::AllGatherOp::create(
      builder, loc, RankedTensorType::get(shape, type.getElementType()), part,
      builder.getI64IntegerAttr(0),
      builder.getArrayAttr(SmallVector<Attribute>(axes.begin(), axes.end())),
      builder.getStringAttr("parts of a spread cache are merged"));
  ++collectives;
  SmallVector<Value> parts;
  for (int64_t i = 0; i < merge.ranks; ++i)
    parts.push_back(TakeUnitsOp::create(
        builder, loc, type, all, builder.getI64IntegerAttr(0),
        RankTableAttr::get(builder.getContext(), {}, 1, 1, {i}),
        builder.getI64IntegerAttr(extent)));
  return parts;
}

Value mlir::heddle::emitMergeAttention(OpBuilder &builder,
                                       const MergeAttention &merge,
                                       int64_t &collectives) {
  AttentionOp op = merge.op;
  Location loc = op.getLoc();
  Value query = merge.operands[0], key = merge.operands[1];
  Value value = merge.operands[2], queryPositions = merge.operands[3];
  Value keyPositions = merge.operands[4], blocks = merge.operands[5];
  Value lengths = op.getLengths() ? merge.operands[6] : Value();
  if (merge.ranks == 1)
    return AttentionOp::create(builder, loc, merge.resultType, query, key,
                               value, queryPositions, keyPositions, blocks,
                               lengths, op.getScaleAttr(), op.getCausalAttr(),
                               op.getWindowAttr(), merge.kvHeads, KeysAttr());
  auto lseType = RankedTensorType::get(merge.resultType.getShape().drop_back(),
                                       merge.resultType.getElementType());
  SmallVector<Type> types = {merge.resultType, lseType};
  auto mine = AttentionPartialOp::create(
      builder, loc, types, query, key, value, queryPositions, keyPositions,
      blocks, lengths, op.getScaleAttr(), op.getCausalAttr(),
      op.getWindowAttr(), merge.kvHeads);
  SmallVector<Value> outs =
      gatherParts(builder, mine.getResult(), merge, collectives);
  SmallVector<Value> lses =
      gatherParts(builder, mine.getLse(), merge, collectives);
  Value out = outs[0], lse = lses[0];
  for (int64_t i = 1; i < merge.ranks; ++i) {
    auto merged = MergePartialsOp::create(builder, loc, types, out, lse,
                                          outs[i], lses[i]);
    out = merged.getResult();
    lse = merged.getLse();
  }
  return out;
}
