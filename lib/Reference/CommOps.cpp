//===- CommOps.cpp - Collectives over groups of simulated ranks -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"

#include "llvm/ADT/DenseMap.h"

#include <cmath>

using namespace mlir;
using namespace mlir::comm;
using namespace mlir::heddle;
using namespace mlir::heddle::reference;

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// How far apart in world rank two neighbours over `axis` are.
static int64_t strideOf(MeshOp mesh, AxisRefAttr axis) {
  int64_t stride = 1;
  ArrayRef<int64_t> sizes = mesh.getSizes();
  for (size_t i = sizes.size(); i-- > 0; stride *= sizes[i])
    if (cast<StringAttr>(mesh.getNames()[i]).getValue() == axis.getName())
      return axis.isFull() ? stride
                           : stride * (sizes[i] /
                                       (axis.getPreSize() * axis.getSubSize()));
  llvm_unreachable("expected an axis of the mesh");
}

FailureOr<std::vector<std::vector<int64_t>>>
reference::getGroups(MeshOp mesh, ArrayRef<AxisRefAttr> axes,
                     function_ref<InFlightDiagnostic()> emitError) {
  FailureOr<int64_t> size = getAxesSize(mesh, axes, emitError);
  if (failed(size))
    return failure();
  // A group is known by its member whose coordinates over `axes` are all 0.
  llvm::DenseMap<int64_t, size_t> groupOf;
  std::vector<std::vector<int64_t>> groups;
  for (int64_t rank = 0; rank < mesh.getWorldSize(); ++rank) {
    int64_t first = rank;
    for (AxisRefAttr axis : axes)
      first -= getCoordinate(mesh, axis, rank) * strideOf(mesh, axis);
    auto [it, isNew] = groupOf.try_emplace(first, groups.size());
    if (isNew)
      groups.emplace_back(*size, -1);
    int64_t &member = groups[it->second][getCoordinate(mesh, axes, rank)];
    if (member != -1)
      return emitError() << "expected axes that do not overlap in a group, but "
                            "ranks "
                         << member << " and " << rank
                         << " have the same coordinate";
    member = rank;
  }
  for (const std::vector<int64_t> &group : groups)
    if (llvm::is_contained(group, -1))
      return emitError() << "expected axes that do not overlap in a group";
  return groups;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// Checks that dimension `dim` of the longer extent is one chunk per member.
static LogicalResult expectChunks(Operation *op, int64_t longer,
                                  int64_t shorter, int64_t members) {
  if (longer == shorter * members)
    return success();
  return op->emitOpError("expected ")
         << members << " chunks, one per rank of the group, got an extent of "
         << longer << " for chunks of " << shorter;
}

/// The reduction of element `i` over the group, in ascending coordinate.
static double reduce(PartialKind kind, ArrayRef<const Tensor *> inputs,
                     int64_t i) {
  double result = inputs.front()->data[i];
  for (const Tensor *input : inputs.drop_front()) {
    double value = input->data[i];
    if (kind == PartialKind::Sum)
      result += value;
    else if (value > result || std::isnan(value))
      result = value;
  }
  return result;
}

static LogicalResult allReduce(AllReduceOp op, GroupCall &call) {
  for (Tensor *result : call.results)
    for (int64_t i = 0; i < result->size(); ++i)
      result->data[i] = reduce(op.getKind(), call.inputs, i);
  return success();
}

static LogicalResult reduceScatter(ReduceScatterOp op, GroupCall &call) {
  DimView from(*call.inputs[0], op.getDim());
  DimView to(*call.results[0], op.getDim());
  if (failed(expectChunks(op, from.extent, to.extent, call.size())))
    return failure();
  for (auto [member, result] : llvm::enumerate(call.results))
    for (int64_t o = 0; o < to.outer; ++o)
      for (int64_t i = 0; i < to.extent; ++i)
        for (int64_t r = 0; r < to.inner; ++r)
          result->data[to.offset(o, i, r)] =
              reduce(op.getKind(), call.inputs,
                     from.offset(o, member * to.extent + i, r));
  return success();
}

static LogicalResult allGather(AllGatherOp op, GroupCall &call) {
  DimView from(*call.inputs[0], op.getDim());
  DimView to(*call.results[0], op.getDim());
  if (failed(expectChunks(op, to.extent, from.extent, call.size())))
    return failure();
  for (Tensor *result : call.results)
    for (auto [member, input] : llvm::enumerate(call.inputs))
      for (int64_t o = 0; o < from.outer; ++o)
        for (int64_t i = 0; i < from.extent; ++i)
          for (int64_t r = 0; r < from.inner; ++r)
            result->data[to.offset(o, member * from.extent + i, r)] =
                input->data[from.offset(o, i, r)];
  return success();
}

/// Chunk j of member i's input, along split, is chunk i of member j's result,
/// along concat.
static LogicalResult allToAll(AllToAllOp op, GroupCall &call) {
  int64_t split = op.getSplitDim(), concat = op.getConcatDim();
  const std::vector<int64_t> &in = call.inputs[0]->shape;
  const std::vector<int64_t> &out = call.results[0]->shape;
  int64_t chunk = split == concat ? in[split] / call.size() : out[split];
  if (failed(expectChunks(op, in[split], chunk, call.size())))
    return failure();
  int64_t part = split == concat ? chunk : in[concat];
  if (failed(expectChunks(op, out[concat], part, call.size())))
    return failure();
  for (auto [member, result] : llvm::enumerate(call.results))
    for (int64_t flat = 0; flat < result->size(); ++flat) {
      std::vector<int64_t> index(out.size());
      for (int64_t rest = flat, d = out.size(); d-- > 0; rest /= out[d])
        index[d] = rest % out[d];
      int64_t sender = index[concat] / part;
      index[concat] %= part;
      index[split] += member * chunk;
      const Tensor &input = *call.inputs[sender];
      result->data[flat] = input.data[input.offset(index)];
    }
  return success();
}

template <typename OpTy>
static LogicalResult permute(OpTy op, GroupCall &call) {
  int64_t n = call.size();
  int64_t shift = static_cast<int64_t>(op.getShift()) % n;
  for (int64_t member = 0; member < n; ++member)
    call.results[member]->data = call.inputs[(member - shift + n) % n]->data;
  return success();
}

static LogicalResult wait(WaitOp op, OpCall &call) {
  call.result() = call[op.getStarted()];
  return success();
}

void reference::registerCommOps(Registry &registry) {
  registry.addCollective<AllReduceOp>(allReduce);
  registry.addCollective<ReduceScatterOp>(reduceScatter);
  registry.addCollective<AllGatherOp>(allGather);
  registry.addCollective<AllToAllOp>(allToAll);
  registry.addCollective<PermuteOp>(permute<PermuteOp>);
  registry.addCollective<PermuteStartOp>(permute<PermuteStartOp>);
  registry.add<WaitOp>(wait);
}
