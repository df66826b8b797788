//===- LocalOps.cpp - Ops that partition introduces -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::reference;

static LogicalResult fill(FillOp op, OpCall &call) {
  for (double &value : call.result().data)
    value = op.getValue().convertToDouble();
  return success();
}

static LogicalResult localIndex(LocalIndexOp op, OpCall &call) {
  const Tensor &in = call[op.getInput()];
  Tensor &out = call.result();
  FailureOr<ArrayRef<int64_t>> units = call.row(op.getUnits());
  if (failed(units))
    return failure();
  int64_t unit = op.getUnit(), within = op.getWithin();
  int64_t extent = op.getUnits().getCols() * unit;
  for (int64_t i = 0; i < in.size(); ++i) {
    FailureOr<int64_t> index = call.index(in.data[i], kNoLimit, "index");
    if (failed(index))
      return failure();
    out.data[i] = -1;
    if (*index < 0)
      continue;
    if (within > 0) {
      // By the definition, one element after the other.
      auto elementOf = [&](int64_t offset) -> int64_t {
        const int64_t *slot = llvm::find(*units, offset / unit);
        return slot == units->end()
                   ? -1
                   : (slot - units->begin()) * unit + offset % unit;
      };
      int64_t inner = elementOf(*index % within);
      if (op.getCount()) {
        inner = 0;
        for (int64_t offset = 0; offset < *index % within; ++offset)
          inner += elementOf(offset) >= 0;
      }
      if (inner >= 0)
        out.data[i] = static_cast<double>(*index / within * extent + inner);
      continue;
    }
    const int64_t *slot = llvm::find(*units, *index / unit);
    if (slot != units->end())
      out.data[i] = static_cast<double>(slot - units->begin()) *
                        static_cast<double>(unit) +
                    static_cast<double>(*index % unit);
  }
  return success();
}

/// Chunk i of dimension `dim`: element [i, before, c, after] of `chunks` is
/// [before, i * C + c, after] of `whole`.
static void moveChunks(const Tensor &from, Tensor &to, bool splits,
                       int64_t dim) {
  const std::vector<int64_t> &whole = splits ? from.shape : to.shape;
  int64_t n = splits ? to.shape[0] : from.shape[0];
  int64_t before = 1, after = 1, extent = whole[dim] / n;
  for (int64_t d = 0; d < static_cast<int64_t>(whole.size()); ++d)
    (d < dim ? before : after) *= d == dim ? 1 : whole[d];
  for (int64_t i = 0; i < n; ++i)
    for (int64_t o = 0; o < before; ++o)
      for (int64_t c = 0; c < extent; ++c)
        for (int64_t r = 0; r < after; ++r) {
          int64_t apart = ((i * before + o) * extent + c) * after + r;
          int64_t beside = ((o * n + i) * extent + c) * after + r;
          to.data[splits ? apart : beside] = from.data[splits ? beside : apart];
        }
}

static LogicalResult splitChunks(SplitChunksOp op, OpCall &call) {
  moveChunks(call[op.getInput()], call.result(), true, op.getDim());
  return success();
}

static LogicalResult joinChunks(JoinChunksOp op, OpCall &call) {
  moveChunks(call[op.getInput()], call.result(), false, op.getDim());
  return success();
}

static LogicalResult maskPad(MaskPadOp op, OpCall &call) {
  const Tensor &in = call[op.getInput()];
  Tensor &out = call.result();
  FailureOr<ArrayRef<int64_t>> units = call.row(op.getUnits());
  if (failed(units))
    return failure();
  int64_t unit = op.getUnit(), size = op.getGlobalSize();
  double identity = op.getIdentity().convertToDouble();
  DimView view(out, op.getDim());
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.extent; ++i) {
      int64_t u = (*units)[i / unit];
      bool padding = u < 0 || u > size / unit || u * unit + i % unit >= size;
      for (int64_t r = 0; r < view.inner; ++r)
        out.data[view.offset(o, i, r)] =
            padding ? identity : in.data[view.offset(o, i, r)];
    }
  return success();
}

static LogicalResult takeUnits(TakeUnitsOp op, OpCall &call) {
  const Tensor &in = call[op.getInput()];
  Tensor &out = call.result();
  FailureOr<ArrayRef<int64_t>> slots = call.row(op.getSlots());
  if (failed(slots))
    return failure();
  int64_t unit = op.getUnit();
  DimView from(in, op.getDim()), to(out, op.getDim());
  for (int64_t o = 0; o < to.outer; ++o)
    for (int64_t i = 0; i < to.extent; ++i) {
      int64_t u = (*slots)[i / unit];
      int64_t source = u * unit + i % unit;
      if (u < 0 || source >= from.extent)
        continue; // zeros: no unit, or past the end of a short one
      for (int64_t r = 0; r < to.inner; ++r)
        out.data[to.offset(o, i, r)] = in.data[from.offset(o, source, r)];
    }
  return success();
}

void reference::registerLocalOps(Registry &registry) {
  registry.add<LocalIndexOp>(localIndex);
  registry.add<FillOp>(fill);
  registry.add<MaskPadOp>(maskPad);
  registry.add<TakeUnitsOp>(takeUnits);
  registry.add<SplitChunksOp>(splitChunks);
  registry.add<JoinChunksOp>(joinChunks);
}
