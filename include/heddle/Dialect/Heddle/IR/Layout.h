//===- Layout.h - Where the elements of a dimension lie ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A `#heddle.dim` resolved against a mesh and a dimension's size. Everything
// that depends on where data lies asks `unitAt`: padding, replication, uneven
// splits and expert placement are nothing else.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_LAYOUT_H
#define HEDDLE_DIALECT_HEDDLE_IR_LAYOUT_H

#include "heddle/Dialect/Heddle/IR/HeddleDialect.h"

namespace mlir::heddle {

/// Most elements of a dimension that a layout describes, and most units that it
/// deals out: its table has an entry for each.
inline constexpr int64_t kMaxExtent = int64_t(1) << 31;
inline constexpr int64_t kMaxUnits = int64_t(1) << 24;

/// Number of ranks along the axes together.
FailureOr<int64_t> getAxesSize(MeshOp mesh, ArrayRef<AxisRefAttr> axes,
                               function_ref<InFlightDiagnostic()> emitError);

/// Coordinate of world rank `rank` over `axes`, row major. The axes exist.
int64_t getCoordinate(MeshOp mesh, ArrayRef<AxisRefAttr> axes, int64_t rank);

struct Layout {
  /// Elements of the dimension, elements in a unit.
  int64_t size = 0, unit = 1;
  /// Ranks that share it; units in all; unit slots on each rank.
  int64_t ranks = 1, units = 0, slots = 0;
  SmallVector<AxisRefAttr> axes;
  /// ranks x slots entries: the unit, or -1 for padding.
  SmallVector<int64_t> table;
  /// Rank r holds units [r * slots, (r + 1) * slots): no table is needed.
  bool blocked = true;

  /// Resolves `dim` for a dimension of `size` elements. Fails, with a message,
  /// if an axis or table does not exist or does not fit.
  static FailureOr<Layout> get(MeshOp mesh, DimShardingAttr dim, int64_t size,
                               function_ref<InFlightDiagnostic()> emitError);

  /// Elements of the dimension on one rank, padding included.
  int64_t localExtent() const { return slots * unit; }
  /// The unit in `slot` of the rank at `coordinate`; -1 is padding.
  int64_t unitAt(int64_t coordinate, int64_t slot) const {
    return table[coordinate * slots + slot];
  }
  /// The element at a place in the rank's part; -1 is padding.
  int64_t elementAt(int64_t coordinate, int64_t place) const {
    int64_t u = unitAt(coordinate, place / unit);
    int64_t element = u * unit + place % unit;
    return u < 0 || element >= size ? -1 : element;
  }
  /// Some slot holds no unit, or the last unit is short.
  bool hasPadding() const;
  /// Some unit is in several slots.
  bool hasCopies() const;
  /// The same layout in the largest units: a blocked one has one unit a rank,
  /// so that tables do not grow with the dimension.
  Layout compact() const;
  /// The table as an attribute for local ops.
  RankTableAttr rankTable(MLIRContext *context) const;
};

/// Shape of one rank's part of a global tensor.
FailureOr<SmallVector<int64_t>>
getLocalShape(MeshOp mesh, RankedTensorType type,
              function_ref<InFlightDiagnostic()> emitError);

} // namespace mlir::heddle

#endif // HEDDLE_DIALECT_HEDDLE_IR_LAYOUT_H
