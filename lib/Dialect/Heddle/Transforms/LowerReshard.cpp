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

#include <numeric>

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

  // Between layouts of which one divides the parts of the other; false, and
  // nothing done, if they are not.
  FailureOr<bool> widen(int64_t dim, const Layout &from, const Layout &to);
  bool narrow(int64_t dim, const Layout &from, const Layout &to);
  FailureOr<bool> scatter(int64_t dim, const Layout &from, const Layout &to,
                          PartialKindAttr kind, ArrayRef<AxisRefAttr> axes);
  FailureOr<bool> exchange(ArrayRef<int64_t> shape,
                           ArrayRef<DimShardingAttr> want,
                           MutableArrayRef<DimShardingAttr> now, size_t i,
                           size_t j);
  /// Takes the chosen units, where that is not all of them in their order.
  void takeChosen(int64_t dim, ArrayRef<AxisRefAttr> axes, int64_t rows,
                  ArrayRef<int64_t> chosen, int64_t unit, int64_t extent);

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

static ArrayRef<AxisRefAttr> suffixOf(ArrayRef<AxisRefAttr> axes,
                                      ArrayRef<AxisRefAttr> prefix);

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
    if (suffixOf(dim.getAxes(), now[i].getAxes()) == ArrayRef(axes) &&
        !now[i].isReplicated()) {
      FailureOr<Layout> have = layout(now[i], shape[i]);
      FailureOr<Layout> target = layout(dim, shape[i]);
      if (failed(have) || failed(target))
        return failure();
      FailureOr<bool> done = scatter(i, *have, *target, kind, axes);
      if (failed(done))
        return failure();
      if (!*done)
        continue;
      now[i] = dim;
      return success();
    }
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

//===----------------------------------------------------------------------===//
// Layouts that divide the parts of another
//===----------------------------------------------------------------------===//

/// The axes after `prefix`; none if that is no prefix.
static ArrayRef<AxisRefAttr> suffixOf(ArrayRef<AxisRefAttr> axes,
                                      ArrayRef<AxisRefAttr> prefix) {
  if (axes.size() < prefix.size() || axes.take_front(prefix.size()) != prefix)
    return {};
  return axes.drop_front(prefix.size());
}

/// The same layout in smaller units. A dimension that is not cut is one row of
/// all units.
static Layout inUnits(const Layout &layout, int64_t unit) {
  if (layout.axes.empty()) {
    Layout result = layout;
    result.unit = unit;
    result.units = result.slots = llvm::divideCeil(layout.size, unit);
    result.table.clear();
    for (int64_t u = 0; u < result.units; ++u)
      result.table.push_back(u);
    return result;
  }
  Layout result = layout;
  int64_t parts = layout.unit / unit;
  result.unit = unit;
  result.units = llvm::divideCeil(layout.size, unit);
  result.slots = layout.slots * parts;
  result.table.clear();
  for (int64_t u : layout.table)
    for (int64_t i = 0; i < parts; ++i)
      result.table.push_back(
          u < 0 || u * parts + i >= result.units ? -1 : u * parts + i);
  return result;
}

namespace {
/// Two layouts of a dimension in one unit.
struct InOneUnit {
  Layout a, b;

  InOneUnit(const Layout &first, const Layout &second)
      : a(first.compact()), b(second.compact()) {
    int64_t unit = a.axes.empty()   ? b.unit
                   : b.axes.empty() ? a.unit
                                    : std::gcd(a.unit, b.unit);
    a = inUnits(a, unit);
    b = inUnits(b, unit);
  }
};
} // namespace

static ArrayRef<int64_t> rowsOf(const Layout &layout, int64_t first,
                                int64_t count) {
  return ArrayRef<int64_t>(layout.table)
      .slice(first * layout.slots, count * layout.slots);
}

/// Appends where `wanted` units are among the units `there`, -1 for padding;
/// false if one is not there.
static bool findUnits(ArrayRef<int64_t> there, ArrayRef<int64_t> wanted,
                      SmallVectorImpl<int64_t> &places) {
  DenseMap<int64_t, int64_t> placeOf;
  for (auto [place, unit] : llvm::enumerate(there))
    if (unit >= 0)
      placeOf.try_emplace(unit, place);
  for (int64_t unit : wanted) {
    auto found = placeOf.find(unit);
    if (unit >= 0 && found == placeOf.end())
      return false;
    places.push_back(unit < 0 ? -1 : found->second);
  }
  return true;
}

void Lowering::takeChosen(int64_t dim, ArrayRef<AxisRefAttr> axes, int64_t rows,
                          ArrayRef<int64_t> chosen, int64_t unit,
                          int64_t extent) {
  int64_t cols = static_cast<int64_t>(chosen.size()) / rows;
  bool same = cast<RankedTensorType>(value.getType()).getDimSize(dim) == extent;
  for (auto [i, place] : llvm::enumerate(chosen))
    same &= place == static_cast<int64_t>(i) % cols;
  if (!same)
    take(dim,
         RankTableAttr::get(builder.getContext(), axes, rows, cols, chosen),
         unit, extent);
}

/// Gathers over the axes that `from` has more.
FailureOr<bool> Lowering::widen(int64_t dim, const Layout &from,
                                const Layout &to) {
  ArrayRef<AxisRefAttr> axes = suffixOf(from.axes, to.axes);
  if (axes.empty())
    return false;
  InOneUnit l(from, to);
  int64_t parts = l.a.ranks / l.b.ranks;
  SmallVector<int64_t> chosen;
  for (int64_t c = 0; c < l.b.ranks; ++c)
    if (!findUnits(rowsOf(l.a, c * parts, parts), rowsOf(l.b, c, 1), chosen))
      return false;
  if (parts > 1) {
    value = comm::AllGatherOp::create(
        builder, loc, withExtent(dim, parts * from.localExtent()), value,
        builder.getI64IntegerAttr(dim), group(axes),
        builder.getStringAttr(reason));
    ++collectives;
  }
  takeChosen(dim, to.axes, l.b.ranks, chosen, l.b.unit, to.localExtent());
  return true;
}

/// Keeps what is this rank's over the axes that `to` has more.
bool Lowering::narrow(int64_t dim, const Layout &from, const Layout &to) {
  if (suffixOf(to.axes, from.axes).empty())
    return false;
  InOneUnit l(from, to);
  int64_t parts = l.b.ranks / l.a.ranks;
  SmallVector<int64_t> chosen;
  for (int64_t c = 0; c < l.b.ranks; ++c)
    if (!findUnits(rowsOf(l.a, c / parts, 1), rowsOf(l.b, c, 1), chosen))
      return false;
  takeChosen(dim, to.axes, l.b.ranks, chosen, l.b.unit, to.localExtent());
  return true;
}

/// Sums over the axes that `to` has more, to each rank its part.
FailureOr<bool> Lowering::scatter(int64_t dim, const Layout &from,
                                  const Layout &to, PartialKindAttr kind,
                                  ArrayRef<AxisRefAttr> axes) {
  InOneUnit l(from, to);
  int64_t parts = l.b.ranks / l.a.ranks;
  SmallVector<int64_t> chosen;
  for (int64_t c = 0; c < l.a.ranks; ++c)
    if (!findUnits(rowsOf(l.a, c, 1), rowsOf(l.b, c * parts, parts), chosen))
      return false;
  takeChosen(dim, from.axes, l.a.ranks, chosen, l.a.unit,
             parts * to.localExtent());
  if (parts > 1) {
    value = comm::ReduceScatterOp::create(
        builder, loc, withExtent(dim, to.localExtent()), value, kind,
        builder.getI64IntegerAttr(dim), group(axes),
        builder.getStringAttr(reason));
    ++collectives;
  }
  return true;
}

/// Moves the last axes of dimension i to dimension j, which may use a part of
/// them only (replicated key/value heads), as an all-to-all. Uneven parts and
/// copies are picked before, padding is dropped behind.
FailureOr<bool> Lowering::exchange(ArrayRef<int64_t> shape,
                                   ArrayRef<DimShardingAttr> want,
                                   MutableArrayRef<DimShardingAttr> now,
                                   size_t i, size_t j) {
  ArrayRef<AxisRefAttr> axes = suffixOf(now[i].getAxes(), want[i].getAxes());
  ArrayRef<AxisRefAttr> moved = suffixOf(want[j].getAxes(), now[j].getAxes());
  if (axes.empty() || moved.empty())
    return false;
  bool partly = axes.size() == 1 && moved.size() == 1 && axes[0].isFull() &&
                axes[0].getName() == moved[0].getName();
  if (axes != moved && !partly)
    return false;
  FailureOr<Layout> iNow = layout(now[i], shape[i]);
  FailureOr<Layout> iWant = layout(want[i], shape[i]);
  FailureOr<Layout> jNow = layout(now[j], shape[j]);
  FailureOr<Layout> jWant = layout(want[j], shape[j]);
  FailureOr<int64_t> parts =
      getAxesSize(mesh, axes, [&]() { return emitError(loc); });
  if (failed(iNow) || failed(iWant) || failed(jNow) || failed(jWant) ||
      failed(parts))
    return failure();
  if (*parts == 1)
    return false;
  // What each peer needs of dimension j.
  InOneUnit to(*jNow, *jWant);
  int64_t few = to.b.ranks / to.a.ranks;
  int64_t minor =
      moved[0].isFull()
          ? 1
          : *parts / (moved[0].getPreSize() * moved[0].getSubSize());
  SmallVector<int64_t> packed;
  for (int64_t c = 0; c < to.a.ranks; ++c)
    for (int64_t peer = 0; peer < *parts; ++peer)
      if (!findUnits(rowsOf(to.a, c, 1),
                     rowsOf(to.b, c * few + peer / minor % few, 1), packed))
        return false;
  // Where what arrives belongs in dimension i.
  InOneUnit back(*iNow, *iWant);
  SmallVector<int64_t> unpacked;
  for (int64_t c = 0; c < back.b.ranks; ++c)
    if (!findUnits(rowsOf(back.a, c * *parts, *parts), rowsOf(back.b, c, 1),
                   unpacked))
      return false;
  takeChosen(j, jNow->axes, to.a.ranks, packed, to.b.unit,
             *parts * jWant->localExtent());
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> moving(type.getShape());
  moving[i] *= *parts;
  moving[j] = jWant->localExtent();
  value = comm::AllToAllOp::create(
      builder, loc, RankedTensorType::get(moving, type.getElementType()), value,
      builder.getI64IntegerAttr(j), builder.getI64IntegerAttr(i), group(axes),
      builder.getStringAttr(reason));
  ++collectives;
  takeChosen(i, iWant->axes, back.b.ranks, unpacked, back.b.unit,
             iWant->localExtent());
  now[i] = want[i];
  now[j] = want[j];
  return true;
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
  // Axes that move from one dimension to another.
  for (size_t i = 0; i < now.size(); ++i)
    for (size_t j = 0; j < now.size(); ++j)
      if (i != j && failed(exchange(from.getShape(), want, now, i, j)))
        return failure();
  for (size_t i = 0; i < now.size(); ++i)
    if (differs(i) && !now[i].isReplicated()) {
      FailureOr<Layout> layoutNow = layout(now[i], from.getDimSize(i));
      FailureOr<Layout> layoutWant = layout(want[i], from.getDimSize(i));
      if (failed(layoutNow) || failed(layoutWant))
        return failure();
      if (!want[i].isReplicated()) {
        FailureOr<bool> done = widen(i, *layoutNow, *layoutWant);
        if (failed(done))
          return failure();
        if (*done || narrow(i, *layoutNow, *layoutWant)) {
          now[i] = want[i];
          continue;
        }
      }
      if (failed(gather(i, *layoutNow)))
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
