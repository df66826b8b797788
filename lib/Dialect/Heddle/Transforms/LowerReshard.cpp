//===- LowerReshard.cpp - A change of layout as collectives ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The rules of docs/semantics.md, in this order:
//
//   1. a pending sum: reduce_scatter if the target shards a dimension by that
//      axis, else all_reduce;
//   2. an axis that moves from one dimension to another: all_to_all;
//   3. axes that disappear: all_gather, then padding is removed;
//   4. axes that appear: each rank takes its units, nothing is sent.
//
//===----------------------------------------------------------------------===//

#include "LowerReshard.h"

using namespace mlir;
using namespace mlir::heddle;

namespace {

class Lowering {
public:
  Lowering(OpBuilder &builder, Location loc, Value value, MeshOp mesh,
           StringRef reason, int64_t &collectives)
      : builder(builder), loc(loc), value(value), mesh(mesh), reason(reason),
        collectives(collectives) {}

  LogicalResult run(RankedTensorType from, RankedTensorType to);

private:
  ArrayAttr group(ArrayRef<AxisRefAttr> axes) {
    return builder.getArrayAttr(
        SmallVector<Attribute>(axes.begin(), axes.end()));
  }
  RankedTensorType withExtent(int64_t dim, int64_t extent) {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[dim] = extent;
    return RankedTensorType::get(shape, type.getElementType());
  }
  FailureOr<Layout> layout(DimShardingAttr dim, int64_t size) {
    return Layout::get(mesh, dim, size, [&]() { return emitError(loc); });
  }
  void take(int64_t dim, RankTableAttr slots, int64_t unit, int64_t extent) {
    value = TakeUnitsOp::create(builder, loc, withExtent(dim, extent), value,
                                builder.getI64IntegerAttr(dim), slots,
                                builder.getI64IntegerAttr(unit));
  }

  LogicalResult reduce(ShardingAttr from, ShardingAttr to,
                       ArrayRef<int64_t> shape,
                       SmallVectorImpl<DimShardingAttr> &now);
  LogicalResult gather(int64_t dim, const Layout &source);
  void slice(int64_t dim, const Layout &layout);

  OpBuilder &builder;
  Location loc;
  Value value;
  MeshOp mesh;
  StringRef reason;
  int64_t &collectives;

public:
  Value result() const { return value; }
};

} // namespace

/// Pending sums that the target does not have any more.
LogicalResult Lowering::reduce(ShardingAttr from, ShardingAttr to,
                               ArrayRef<int64_t> shape,
                               SmallVectorImpl<DimShardingAttr> &now) {
  SmallVector<AxisRefAttr> axes;
  for (AxisRefAttr axis : from.getPartialAxes())
    if (!llvm::is_contained(to.getPartialAxes(), axis))
      axes.push_back(axis);
  if (axes.empty())
    return success();
  FailureOr<int64_t> ranks =
      getAxesSize(mesh, axes, [&]() { return emitError(loc); });
  if (failed(ranks))
    return failure();
  auto kind = PartialKindAttr::get(builder.getContext(), from.getPartialKind());
  for (auto [i, dim] : llvm::enumerate(to.getDims())) {
    if (ArrayRef<AxisRefAttr>(axes) != dim.getAxes() || !now[i].isReplicated())
      continue;
    FailureOr<Layout> target = layout(dim, shape[i]);
    if (failed(target))
      return failure();
    // Chunks of the scatter must lie in rank order with their padding.
    if (!target->blocked || target->hasPadding()) {
      auto all =
          RankTableAttr::get(builder.getContext(), {}, 1,
                             target->ranks * target->slots, target->table);
      take(i, all, target->unit, target->ranks * target->localExtent());
    }
    now[i] = dim;
    if (*ranks == 1)
      return success();
    value = comm::ReduceScatterOp::create(
        builder, loc, withExtent(i, target->localExtent()), value, kind,
        builder.getI64IntegerAttr(i), group(axes),
        builder.getStringAttr(reason));
    ++collectives;
    return success();
  }
  // A rank by itself holds the sum.
  if (*ranks == 1)
    return success();
  value = comm::AllReduceOp::create(builder, loc, value.getType(), value, kind,
                                    group(axes), builder.getStringAttr(reason));
  ++collectives;
  return success();
}

LogicalResult Lowering::gather(int64_t dim, const Layout &source) {
  if (source.ranks > 1) {
    value = comm::AllGatherOp::create(
        builder, loc, withExtent(dim, source.ranks * source.localExtent()),
        value, builder.getI64IntegerAttr(dim), group(source.axes),
        builder.getStringAttr(reason));
    ++collectives;
  }
  if (source.blocked) {
    // Blocks lie in global order: padding, if any, is at the end.
    int64_t extent = source.ranks * source.localExtent();
    if (extent != source.size)
      take(dim, RankTableAttr::get(builder.getContext(), {}, 1, 1, {0}), extent,
           source.size);
    return success();
  }
  // Back to global order: the first owner's copy of each unit, no padding.
  SmallVector<int64_t> slots(source.units);
  for (int64_t slot = source.table.size() - 1; slot >= 0; --slot)
    if (int64_t unit = source.table[slot]; unit >= 0)
      slots[unit] = slot;
  auto table =
      RankTableAttr::get(builder.getContext(), {}, 1, slots.size(), slots);
  take(dim, table, source.unit, source.size);
  return success();
}

void Lowering::slice(int64_t dim, const Layout &layout) {
  Layout target = layout.compact();
  take(dim, target.rankTable(builder.getContext()), target.unit,
       target.localExtent());
}

LogicalResult Lowering::run(RankedTensorType from, RankedTensorType to) {
  ShardingAttr source = getSharding(from), target = getSharding(to);
  SmallVector<DimShardingAttr> now(source.getDims());
  if (failed(reduce(source, target, from.getShape(), now)))
    return failure();
  ArrayRef<DimShardingAttr> want = target.getDims();
  auto differs = [&](size_t i) {
    return now[i] != want[i] &&
           !(now[i].isReplicated() && want[i].isReplicated());
  };
  // An axis that moves between two dimensions, both cut evenly.
  for (size_t i = 0; i < now.size(); ++i)
    for (size_t j = 0; j < now.size(); ++j) {
      if (i == j || now[i].isReplicated() || !want[i].isReplicated() ||
          !now[j].isReplicated() || now[i].getAxes() != want[j].getAxes())
        continue;
      FailureOr<Layout> a = layout(now[i], from.getDimSize(i));
      FailureOr<Layout> b = layout(want[j], from.getDimSize(j));
      if (failed(a) || failed(b))
        return failure();
      if (!a->blocked || a->hasPadding() || !b->blocked || b->hasPadding() ||
          a->ranks == 1)
        continue;
      auto type = cast<RankedTensorType>(value.getType());
      SmallVector<int64_t> shape(type.getShape());
      shape[i] *= a->ranks;
      shape[j] /= a->ranks;
      value = comm::AllToAllOp::create(
          builder, loc, RankedTensorType::get(shape, type.getElementType()),
          value, builder.getI64IntegerAttr(j), builder.getI64IntegerAttr(i),
          group(now[i].getAxes()), builder.getStringAttr(reason));
      ++collectives;
      now[j] = want[j];
      now[i] = want[i];
    }
  for (size_t i = 0; i < now.size(); ++i)
    if (differs(i) && !now[i].isReplicated()) {
      FailureOr<Layout> layoutNow = layout(now[i], from.getDimSize(i));
      if (failed(layoutNow) || failed(gather(i, *layoutNow)))
        return failure();
      now[i] = DimShardingAttr::get(builder.getContext());
    }
  for (size_t i = 0; i < now.size(); ++i)
    if (differs(i)) {
      FailureOr<Layout> layoutWant = layout(want[i], from.getDimSize(i));
      if (failed(layoutWant))
        return failure();
      slice(i, *layoutWant);
    }
  return success();
}

FailureOr<Value> mlir::heddle::lowerReshard(OpBuilder &builder, Location loc,
                                            Value local, RankedTensorType from,
                                            RankedTensorType to, MeshOp mesh,
                                            StringRef reason,
                                            int64_t &collectives) {
  Lowering lowering(builder, loc, local, mesh, reason, collectives);
  if (failed(lowering.run(from, to)))
    return failure();
  return lowering.result();
}
