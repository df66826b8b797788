//===- LocalOps.cpp - Ops that partition introduces ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpHelpers.h"

using namespace mlir;
using namespace mlir::heddle;

static LogicalResult verifyLocal(Operation *op) {
  if (isLocal(op))
    return success();
  return op->emitOpError("expected to be in a function marked '")
         << HeddleDialect::kLocalAttr << "'";
}

static LogicalResult verifyDim(Operation *op, Value v, int64_t dim) {
  if (dim >= 0 && dim < typeOf(v).getRank())
    return success();
  return op->emitOpError("expected a dimension below ")
         << typeOf(v).getRank() << ", got " << dim;
}

static LogicalResult verifyUnit(Operation *op, int64_t unit) {
  if (unit > 0)
    return success();
  return op->emitOpError("expected a positive unit, got ") << unit;
}

//===----------------------------------------------------------------------===//
// local_index
//===----------------------------------------------------------------------===//

LogicalResult LocalIndexOp::verify() {
  if (failed(verifyLocal(*this)))
    return failure();
  // local_index_c1
  if (getInput().getType() != getResult().getType())
    return emitOpError("expected result type ")
           << getInput().getType() << ", got " << getResult().getType();
  // local_index_c2
  if (failed(verifyUnit(*this, getUnit())))
    return failure();
  // local_index_c3
  int64_t within = getWithin();
  if (within < 0 || (getCount() && within == 0))
    return emitOpError("expected within to be positive with count, and 0 or "
                       "more without, got ")
           << within;
  return success();
}

SmallVector<int64_t> LocalIndexOp::elementsWithin(int64_t row) {
  int64_t within = getWithin(), unit = getUnit();
  SmallVector<int64_t> result(within, -1);
  for (int64_t s = getUnits().getCols() - 1; s >= 0; --s)
    if (int64_t u = getUnits().at(row, s); u >= 0)
      for (int64_t i = u * unit; i < std::min(within, (u + 1) * unit); ++i)
        result[i] = s * unit + i - u * unit;
  if (!getCount())
    return result;
  int64_t below = 0;
  for (int64_t &element : result) {
    int64_t mine = element >= 0;
    element = below;
    below += mine;
  }
  return result;
}

int64_t LocalIndexOp::getFlops() { return 0; }

//===----------------------------------------------------------------------===//
// mask_pad
//===----------------------------------------------------------------------===//

LogicalResult MaskPadOp::verify() {
  if (failed(verifyLocal(*this)))
    return failure();
  // mask_pad_c1
  if (getInput().getType() != getResult().getType())
    return emitOpError("expected result type ")
           << getInput().getType() << ", got " << getResult().getType();
  if (failed(verifyDim(*this, getInput(), getDim())) ||
      failed(verifyUnit(*this, getUnit())))
    return failure();
  // mask_pad_c2
  int64_t want = getUnits().getCols() * static_cast<int64_t>(getUnit());
  if (shapeOf(getInput())[getDim()] != want)
    return emitOpError("expected an extent of ")
           << want << " in dimension " << getDim() << ", got "
           << getInput().getType();
  return success();
}

int64_t MaskPadOp::getFlops() { return 0; }

//===----------------------------------------------------------------------===//
// take_units
//===----------------------------------------------------------------------===//

LogicalResult TakeUnitsOp::verify() {
  if (failed(verifyLocal(*this)) ||
      failed(verifyDim(*this, getInput(), getDim())) ||
      failed(verifyUnit(*this, getUnit())))
    return failure();
  // take_units_c1
  SmallVector<int64_t> want(shapeOf(getInput()));
  int64_t dim = getDim(), unit = getUnit();
  int64_t in = want[dim], out = shapeOf(getResult()).size() == want.size()
                                    ? shapeOf(getResult())[dim]
                                    : -1;
  want[dim] = out;
  if (failed(expectShape(*this, "result", getResult(), want)))
    return failure();
  // take_units_c3
  int64_t cols = getSlots().getCols();
  if (out > cols * unit || out <= (cols - 1) * unit)
    return emitOpError("expected a result extent of more than ")
           << (cols - 1) * unit << " and at most " << cols * unit << ", got "
           << out;
  // take_units_c2, take_units_c4
  int64_t units = (in + unit - 1) / unit;
  for (int64_t u : getSlots().getValues())
    if (u < -1 || u >= units)
      return emitOpError("expected units between -1 and ")
             << units - 1 << ", got " << u;
  return success();
}

int64_t TakeUnitsOp::getFlops() { return 0; }

std::optional<int64_t> TakeUnitsOp::getViewOffset() {
  RankTableAttr slots = getSlots();
  if (!slots.getAxes().empty() ||
      product(shapeOf(getInput()).take_front(getDim())) != 1)
    return std::nullopt;
  int64_t first = slots.at(0, 0);
  for (int64_t s = 0; s < static_cast<int64_t>(slots.getCols()); ++s)
    if (first < 0 || slots.at(0, s) != first + s)
      return std::nullopt;
  // The last unit may be short in the input, and padded in the result.
  if (first * static_cast<int64_t>(getUnit()) + shapeOf(getResult())[getDim()] >
      shapeOf(getInput())[getDim()])
    return std::nullopt;
  return first * getUnit() *
         product(shapeOf(getInput()).drop_front(getDim() + 1));
}

//===----------------------------------------------------------------------===//
// split_chunks, join_chunks
//===----------------------------------------------------------------------===//

/// `chunks` is `whole` with dimension `dim` cut and moved to the front.
static LogicalResult verifyChunks(Operation *op, Value whole, Value chunks,
                                  int64_t dim) {
  if (failed(verifyLocal(op)))
    return failure();
  ArrayRef<int64_t> w = shapeOf(whole), c = shapeOf(chunks);
  bool ok = dim >= 0 && dim < static_cast<int64_t>(w.size()) &&
            c.size() == w.size() + 1 && c[0] > 0 && w[dim] % c[0] == 0 &&
            typeOf(whole).getElementType() == typeOf(chunks).getElementType();
  if (ok) {
    SmallVector<int64_t> want(w);
    want[dim] /= c[0];
    ok = c.drop_front() == ArrayRef<int64_t>(want);
  }
  if (ok)
    return success();
  return op->emitOpError("expected chunks of dimension ")
         << dim << " of " << whole.getType() << ", got " << chunks.getType();
}

LogicalResult SplitChunksOp::verify() {
  // split_chunks_c1
  return verifyChunks(*this, getInput(), getResult(), getDim());
}
int64_t SplitChunksOp::getFlops() { return 0; }
bool SplitChunksOp::isView() {
  return product(shapeOf(getInput()).take_front(getDim())) == 1;
}

LogicalResult JoinChunksOp::verify() {
  // join_chunks_c1
  return verifyChunks(*this, getResult(), getInput(), getDim());
}
int64_t JoinChunksOp::getFlops() { return 0; }
bool JoinChunksOp::isView() {
  return product(shapeOf(getResult()).take_front(getDim())) == 1;
}

//===----------------------------------------------------------------------===//
// fill
//===----------------------------------------------------------------------===//

LogicalResult FillOp::verify() {
  if (failed(verifyLocal(*this)))
    return failure();
  // fill_c1
  if (!typeOf(getResult()).getElementType().isF32())
    return emitOpError("expected an f32 result, got ") << getResult().getType();
  return success();
}

int64_t FillOp::getFlops() { return 0; }
