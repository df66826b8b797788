//===- Layout.cpp - Where the elements of a dimension lie ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/IR/Layout.h"

#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace mlir::heddle;

FailureOr<int64_t>
mlir::heddle::getAxesSize(MeshOp mesh, ArrayRef<AxisRefAttr> axes,
                          function_ref<InFlightDiagnostic()> emitError) {
  int64_t size = 1;
  for (AxisRefAttr axis : axes) {
    int64_t full = mesh.getAxisSize(axis.getName());
    if (full == 0) {
      InFlightDiagnostic diag = emitError();
      diag << "expected an axis of mesh @" << mesh.getSymName() << ", got '"
           << axis.getName() << "'";
      diag.attachNote(mesh.getLoc()) << "the mesh is defined here";
      return diag;
    }
    if (axis.isFull()) {
      size *= full;
      continue;
    }
    // Compared with the axis first: the product must not overflow.
    if (axis.getPreSize() > full || axis.getSubSize() > full ||
        full % (axis.getPreSize() * axis.getSubSize()) != 0) {
      InFlightDiagnostic diag = emitError();
      diag << "expected a sub-axis that divides axis '" << axis.getName()
           << "' of size " << full << ", got (" << axis.getPreSize() << ")"
           << axis.getSubSize();
      diag.attachNote(mesh.getLoc()) << "the mesh is defined here";
      return diag;
    }
    size *= axis.getSubSize();
  }
  return size;
}

int64_t mlir::heddle::getCoordinate(MeshOp mesh, ArrayRef<AxisRefAttr> axes,
                                    int64_t rank) {
  ArrayRef<int64_t> sizes = mesh.getSizes();
  int64_t result = 0;
  for (AxisRefAttr axis : axes) {
    int64_t stride = 1, coordinate = 0, full = 1;
    for (int64_t i = static_cast<int64_t>(sizes.size()) - 1; i >= 0; --i) {
      if (cast<StringAttr>(mesh.getNames()[i]).getValue() == axis.getName()) {
        coordinate = rank / stride % sizes[i];
        full = sizes[i];
      }
      stride *= sizes[i];
    }
    if (axis.isFull()) {
      result = result * full + coordinate;
    } else {
      int64_t minor = full / (axis.getPreSize() * axis.getSubSize());
      result =
          result * axis.getSubSize() + coordinate / minor % axis.getSubSize();
    }
  }
  return result;
}

FailureOr<Layout> Layout::get(MeshOp mesh, DimShardingAttr dim, int64_t size,
                              function_ref<InFlightDiagnostic()> emitError) {
  // Products of two of these fit into 64 bits.
  if (size < 1 || size > kMaxExtent || dim.getUnit() > kMaxExtent) {
    InFlightDiagnostic diag = emitError();
    diag << "expected a dimension and its unit to be of 1 to " << kMaxExtent
         << " elements, got ";
    if (ShapedType::isDynamic(size))
      diag << "?";
    else
      diag << size;
    diag << " and " << dim.getUnit();
    return diag;
  }
  Layout layout;
  layout.size = size;
  layout.unit = dim.getUnit();
  layout.units = (size + layout.unit - 1) / layout.unit;
  layout.axes.assign(dim.getAxes().begin(), dim.getAxes().end());
  if (dim.isReplicated()) {
    // One rank holds it all; the extent is the size itself, no unit matters.
    layout.unit = size;
    layout.units = layout.slots = 1;
    layout.table = {0};
    return layout;
  }
  FailureOr<int64_t> ranks = getAxesSize(mesh, dim.getAxes(), emitError);
  if (failed(ranks))
    return failure();
  layout.ranks = *ranks;
  int64_t p = layout.ranks, n = layout.units;
  if (n > kMaxUnits || dim.getBlock() > kMaxUnits / p) {
    InFlightDiagnostic diag = emitError();
    diag << "expected at most " << kMaxUnits
         << " units to deal out and to fill a round of all ranks, got " << n
         << " units, and blocks of " << dim.getBlock() << " for " << p
         << " ranks";
    return diag;
  }
  layout.slots = (n + p - 1) / p;
  layout.blocked = dim.getMap() == MapKind::Block;

  auto fillFrom = [&](auto unitsOfRank) {
    for (int64_t r = 0; r < p; ++r) {
      SmallVector<int64_t> row = unitsOfRank(r);
      row.resize(layout.slots, -1);
      for (int64_t &u : row)
        u = u < n ? u : -1;
      layout.table.append(row);
    }
  };
  switch (dim.getMap()) {
  case MapKind::Block:
    fillFrom([&](int64_t r) {
      SmallVector<int64_t> row;
      for (int64_t s = 0; s < layout.slots; ++s)
        row.push_back(r * layout.slots + s);
      return row;
    });
    break;
  case MapKind::Balanced:
    fillFrom([&](int64_t r) {
      SmallVector<int64_t> row;
      int64_t begin = r * (n / p) + std::min(r, n % p);
      for (int64_t s = 0; s < n / p + (r < n % p ? 1 : 0); ++s)
        row.push_back(begin + s);
      return row;
    });
    break;
  case MapKind::Cyclic: {
    int64_t b = dim.getBlock();
    int64_t rounds = (n + b * p - 1) / (b * p);
    layout.slots = rounds * b;
    fillFrom([&](int64_t r) {
      SmallVector<int64_t> row;
      for (int64_t k = 0; k < rounds; ++k)
        for (int64_t j = 0; j < b; ++j)
          row.push_back((k * p + r) * b + j);
      return row;
    });
    break;
  }
  case MapKind::Zigzag: {
    int64_t b = (n + 2 * p - 1) / (2 * p);
    layout.slots = 2 * b;
    fillFrom([&](int64_t r) {
      SmallVector<int64_t> row;
      for (int64_t j = 0; j < b; ++j)
        row.push_back(r * b + j);
      for (int64_t j = 0; j < b; ++j)
        row.push_back((2 * p - 1 - r) * b + j);
      return row;
    });
    break;
  }
  case MapKind::Table:
  case MapKind::Data: {
    auto table =
        SymbolTable::lookupNearestSymbolFrom<TableOp>(mesh, dim.getTable());
    if (!table) {
      emitError() << "expected a heddle.table named " << dim.getTable();
      return failure();
    }
    if (static_cast<int64_t>(table.getRows()) != p) {
      InFlightDiagnostic diag = emitError();
      diag << "expected a table of " << p << " rows, one per coordinate, got "
           << table.getRows();
      diag.attachNote(table.getLoc()) << "the table is defined here";
      return diag;
    }
    layout.slots = table.getCols();
    layout.table.assign(table.getValues().begin(), table.getValues().end());
    for (int64_t u : layout.table)
      if (u >= n) {
        InFlightDiagnostic diag = emitError();
        diag << "expected units below " << n << ", got " << u;
        diag.attachNote(table.getLoc()) << "the table is defined here";
        return diag;
      }
    llvm::BitVector held(static_cast<unsigned>(n));
    for (int64_t u : layout.table)
      if (u >= 0)
        held.set(static_cast<unsigned>(u));
    for (int64_t u = 0; u < n; ++u)
      if (!held.test(static_cast<unsigned>(u))) {
        InFlightDiagnostic diag = emitError();
        diag << "expected every unit on some rank, but unit " << u
             << " is on none";
        diag.attachNote(table.getLoc()) << "the table is defined here";
        return diag;
      }
    break;
  }
  }
  return layout;
}

bool Layout::hasPadding() const {
  return size % unit != 0 ||
         llvm::any_of(table, [](int64_t u) { return u < 0; });
}

bool Layout::hasCopies() const {
  return llvm::count_if(table, [](int64_t u) { return u >= 0; }) > units;
}

Layout Layout::compact() const {
  if (!blocked || axes.empty())
    return *this;
  Layout result = *this;
  result.unit = localExtent();
  result.units = (size + result.unit - 1) / result.unit;
  result.slots = 1;
  result.table.clear();
  for (int64_t r = 0; r < ranks; ++r)
    result.table.push_back(r < result.units ? r : -1);
  return result;
}

RankTableAttr Layout::rankTable(MLIRContext *context) const {
  return RankTableAttr::get(context, axes, ranks, slots, table);
}

FailureOr<SmallVector<int64_t>>
mlir::heddle::getLocalShape(MeshOp mesh, RankedTensorType type,
                            function_ref<InFlightDiagnostic()> emitError) {
  SmallVector<int64_t> shape(type.getShape());
  ShardingAttr sharding = getSharding(type);
  if (!sharding)
    return shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    FailureOr<Layout> layout =
        Layout::get(mesh, sharding.getDims()[i], shape[i], emitError);
    if (failed(layout))
      return failure();
    shape[i] = layout->localExtent();
  }
  return shape;
}
