//===- Sharding.cpp - Global tensors to ranks and back --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Reference/Reference.h"

#include <cmath>
#include <tuple>

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::reference;

namespace {

/// The layouts of all dimensions of a global tensor.
struct TensorLayout {
  SmallVector<Layout> dims;
  SmallVector<AxisRefAttr> partialAxes;
  PartialKind partialKind = PartialKind::Sum;
  std::vector<int64_t> localShape;

  static FailureOr<TensorLayout>
  get(RankedTensorType type, MeshOp mesh,
      function_ref<InFlightDiagnostic()> emitError);

  /// The rank's coordinate in each dimension.
  SmallVector<int64_t> coordinates(MeshOp mesh, int64_t rank) const {
    SmallVector<int64_t> result;
    for (const Layout &dim : dims)
      result.push_back(getCoordinate(mesh, dim.axes, rank));
    return result;
  }

  /// Global index of a local element of the rank with these coordinates; false
  /// for padding.
  bool globalIndex(ArrayRef<int64_t> coordinates, ArrayRef<int64_t> local,
                   SmallVectorImpl<int64_t> &global) const {
    global.clear();
    for (size_t d = 0; d < dims.size(); ++d) {
      const Layout &dim = dims[d];
      int64_t unit = dim.unitAt(coordinates[d], local[d] / dim.unit);
      int64_t index = unit * dim.unit + local[d] % dim.unit;
      if (unit < 0 || index >= dim.size)
        return false;
      global.push_back(index);
    }
    return true;
  }
};

} // namespace

FailureOr<TensorLayout>
TensorLayout::get(RankedTensorType type, MeshOp mesh,
                  function_ref<InFlightDiagnostic()> emitError) {
  TensorLayout layout;
  ShardingAttr sharding = getSharding(type);
  if (!type.hasStaticShape())
    return emitError() << "expected a tensor of static shape, got " << type;
  for (auto [i, extent] : llvm::enumerate(type.getShape())) {
    DimShardingAttr dim = sharding ? sharding.getDims()[i]
                                   : DimShardingAttr::get(type.getContext());
    FailureOr<Layout> resolved = Layout::get(mesh, dim, extent, emitError);
    if (failed(resolved))
      return failure();
    layout.localShape.push_back(resolved->localExtent());
    layout.dims.push_back(std::move(*resolved));
  }
  if (sharding) {
    layout.partialAxes.append(sharding.getPartialAxes().begin(),
                              sharding.getPartialAxes().end());
    layout.partialKind = sharding.getPartialKind();
  }
  if (failed(getAxesSize(mesh, layout.partialAxes, emitError)))
    return failure();
  return layout;
}

/// Calls `function` with every index of a shape, in row-major order.
static void forEachIndex(ArrayRef<int64_t> shape,
                         function_ref<void(ArrayRef<int64_t>)> function) {
  if (llvm::is_contained(shape, 0))
    return;
  SmallVector<int64_t> index(shape.size(), 0);
  while (true) {
    function(index);
    size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1])
      index[--d] = 0;
    if (d == 0)
      return;
  }
}

FailureOr<Tensor> reference::shard(const Tensor &global,
                                   RankedTensorType globalType, MeshOp mesh,
                                   int64_t rank, double pad) {
  auto emitError = [&] { return mesh.emitOpError(); };
  if (ArrayRef<int64_t>(global.shape) != globalType.getShape())
    return emitError() << "expected a tensor of type " << globalType
                       << ", got another shape";
  FailureOr<TensorLayout> layout =
      TensorLayout::get(globalType, mesh, emitError);
  if (failed(layout))
    return failure();
  bool isFirst = getCoordinate(mesh, layout->partialAxes, rank) == 0;
  double nothing = layout->partialKind == PartialKind::Sum
                       ? 0
                       : -std::numeric_limits<double>::infinity();
  Tensor local = Tensor::filled(layout->localShape, pad);
  SmallVector<int64_t> coordinates = layout->coordinates(mesh, rank), index;
  int64_t next = 0;
  forEachIndex(local.shape, [&](ArrayRef<int64_t> at) {
    int64_t position = next++;
    if (layout->globalIndex(coordinates, at, index))
      local.data[position] =
          isFirst ? global.data[global.offset(index)] : nothing;
  });
  return local;
}

namespace {

/// Ranks whose terms together are one copy of a part (one rank where nothing is
/// pending). Copies in the order of `Layout::owners`.
struct Owner {
  SmallVector<int64_t> coordinates;
  std::vector<int64_t> ranks;

  bool operator<(const Owner &other) const {
    return std::tie(coordinates, ranks) <
           std::tie(other.coordinates, other.ranks);
  }
};

} // namespace

FailureOr<Tensor> reference::unshard(ArrayRef<Tensor> parts,
                                     RankedTensorType globalType, MeshOp mesh,
                                     double tolerance, Location loc,
                                     StringRef name) {
  auto emitError = [&] { return mlir::emitError(loc); };
  FailureOr<TensorLayout> layout =
      TensorLayout::get(globalType, mesh, emitError);
  if (failed(layout))
    return failure();
  if (static_cast<int64_t>(parts.size()) != mesh.getWorldSize())
    return emitError() << "expected parts of " << name << " from "
                       << mesh.getWorldSize() << " ranks, got " << parts.size();
  for (auto [rank, part] : llvm::enumerate(parts))
    if (part.shape != layout->localShape) {
      InFlightDiagnostic diag = emitError();
      diag << "expected a part of " << name << " of shape ";
      llvm::interleave(layout->localShape, diag, "x");
      diag << " on rank " << rank << ", got ";
      llvm::interleave(part.shape, diag, "x");
      return diag;
    }

  FailureOr<std::vector<std::vector<int64_t>>> groups =
      getGroups(mesh, layout->partialAxes, emitError);
  if (failed(groups))
    return failure();
  std::vector<Owner> owners;
  for (const std::vector<int64_t> &group : *groups)
    owners.push_back({layout->coordinates(mesh, group.front()), group});
  llvm::sort(owners);

  Tensor global = Tensor::filled(globalType.getShape(), 0);
  std::vector<int64_t> source(global.size(), -1); // rank of the first owner
  for (const Owner &owner : owners) {
    SmallVector<int64_t> index;
    int64_t next = 0;
    LogicalResult agree = success();
    forEachIndex(layout->localShape, [&](ArrayRef<int64_t> at) {
      int64_t position = next++;
      if (failed(agree) || !layout->globalIndex(owner.coordinates, at, index))
        return;
      double value = parts[owner.ranks.front()].data[position];
      for (int64_t rank : ArrayRef<int64_t>(owner.ranks).drop_front()) {
        double term = parts[rank].data[position];
        if (layout->partialKind == PartialKind::Sum)
          value += term;
        else if (term > value || std::isnan(term))
          value = term;
      }
      int64_t to = global.offset(index);
      if (source[to] == -1) {
        source[to] = owner.ranks.front();
        global.data[to] = value;
        return;
      }
      double first = global.data[to];
      if (first == value || std::abs(first - value) <= tolerance ||
          (std::isnan(first) && std::isnan(value)))
        return;
      InFlightDiagnostic diag = emitError();
      diag << "expected replicas of " << name << " to agree, got "
           << formatNumber(first) << " on rank " << source[to] << " and "
           << formatNumber(value) << " on rank " << owner.ranks.front()
           << " at [";
      llvm::interleaveComma(index, diag);
      diag << "], unit [";
      SmallVector<int64_t> units;
      for (auto [dim, i] : llvm::zip(layout->dims, index))
        units.push_back(i / dim.unit);
      llvm::interleaveComma(units, diag);
      diag << "]";
      agree = diag;
    });
    if (failed(agree))
      return failure();
  }
  return global;
}
