//===- MergeAttention.cpp - Caches that lie over ranks --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MergeAttention.h"

#include "heddle/Dialect/Comm/IR/CommDialect.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;

/// The parts of all ranks, one after the other along the first dimension.
static SmallVector<Value> gatherParts(OpBuilder &builder, Value part,
                                      const LocalAttention &local,
                                      int64_t ranks, int64_t &collectives) {
  Location loc = local.op.getLoc();
  auto type = cast<RankedTensorType>(part.getType());
  SmallVector<int64_t> shape(type.getShape());
  int64_t extent = shape[0];
  shape[0] *= ranks;
  Value all = comm::AllGatherOp::create(
      builder, loc, RankedTensorType::get(shape, type.getElementType()), part,
      builder.getI64IntegerAttr(0), local.group(),
      builder.getStringAttr("parts of a spread cache are merged"));
  ++collectives;
  SmallVector<Value> parts;
  for (int64_t i = 0; i < ranks; ++i)
    parts.push_back(TakeUnitsOp::create(
        builder, loc, type, all, builder.getI64IntegerAttr(0),
        RankTableAttr::get(builder.getContext(), {}, 1, 1, {i}),
        builder.getI64IntegerAttr(extent)));
  return parts;
}

/// The sinks on the first rank; none (-inf) on the others.
static Value sinksOnce(OpBuilder &builder, const LocalAttention &local,
                       int64_t ranks) {
  int64_t heads = cast<RankedTensorType>(local.sinks.getType()).getDimSize(0);
  SmallVector<int64_t> units(ranks, -1);
  units[0] = 0;
  auto table = RankTableAttr::get(
      builder.getContext(), local.op.getKeysAttr().getAxes(), ranks, 1, units);
  return MaskPadOp::create(
      builder, local.op.getLoc(), local.sinks.getType(), local.sinks,
      builder.getI64IntegerAttr(0), table, builder.getI64IntegerAttr(heads),
      builder.getI64IntegerAttr(heads),
      builder.getF64FloatAttr(-std::numeric_limits<double>::infinity()));
}

Value mlir::heddle::emitMergeAttention(OpBuilder &builder,
                                       const LocalAttention &local,
                                       int64_t ranks, int64_t &collectives) {
  if (ranks == 1)
    return local.whole(builder);
  Location loc = local.op.getLoc();
  LocalAttention mine = local;
  if (mine.sinks)
    mine.sinks = sinksOnce(builder, local, ranks);
  AttentionPartialOp part = mine.part(builder);
  SmallVector<Value> outs =
      gatherParts(builder, part.getResult(), local, ranks, collectives);
  SmallVector<Value> lses =
      gatherParts(builder, part.getLse(), local, ranks, collectives);
  Value out = outs[0], lse = lses[0];
  for (int64_t i = 1; i < ranks; ++i) {
    auto merged = MergePartialsOp::create(
        builder, loc, TypeRange{local.resultType, local.lseType()}, out, lse,
        outs[i], lses[i]);
    out = merged.getResult();
    lse = merged.getLse();
  }
  return out;
}
