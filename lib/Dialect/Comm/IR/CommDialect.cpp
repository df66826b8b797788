//===- CommDialect.cpp - Collectives on local tensors ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Comm/IR/CommDialect.h"

using namespace mlir;
using namespace mlir::comm;
using heddle::AxisRefAttr;

#include "heddle/Dialect/Comm/IR/CommDialect.cpp.inc"
#define GET_OP_CLASSES
#include "heddle/Dialect/Comm/IR/CommOps.cpp.inc"

void CommDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "heddle/Dialect/Comm/IR/CommOps.cpp.inc"
      >();
}

static LogicalResult verifyGroup(Operation *op, ArrayAttr group) {
  if (group.empty())
    return op->emitOpError("expected at least one axis in the group");
  for (size_t i = 0; i < group.size(); ++i)
    for (size_t j = i + 1; j < group.size(); ++j)
      if (group[i] == group[j])
        return op->emitOpError("expected each axis at most once, got '")
               << cast<AxisRefAttr>(group[i]).getName() << "' twice";
  return success();
}

static LogicalResult verifySameType(Operation *op) {
  if (op->getOperand(0).getType() != op->getResult(0).getType())
    return op->emitOpError("expected result type ")
           << op->getOperand(0).getType() << ", got "
           << op->getResult(0).getType();
  return success();
}

/// `longer` equals `shorter` but for dimension dim, a multiple there.
static LogicalResult verifyMultiple(Operation *op, Value longer, Value shorter,
                                    int64_t dim) {
  auto a = cast<RankedTensorType>(longer.getType());
  auto b = cast<RankedTensorType>(shorter.getType());
  if (dim < 0 || dim >= a.getRank() || a.getRank() != b.getRank() ||
      a.getElementType() != b.getElementType())
    return op->emitOpError("expected types of one rank and element type with "
                           "dimension ")
           << dim << ", got " << a << " and " << b;
  for (int64_t i = 0; i < a.getRank(); ++i)
    if (i == dim ? b.getDimSize(i) == 0 || a.getDimSize(i) % b.getDimSize(i)
                 : a.getDimSize(i) != b.getDimSize(i))
      return op->emitOpError("expected equal extents but a multiple in "
                             "dimension ")
             << dim << ", got " << a << " and " << b;
  return success();
}

LogicalResult AllReduceOp::verify() {
  if (failed(verifyGroup(*this, getGroup()))) // all_reduce_c1
    return failure();
  return verifySameType(*this); // all_reduce_c2
}

LogicalResult ReduceScatterOp::verify() {
  if (failed(verifyGroup(*this, getGroup()))) // reduce_scatter_c1
    return failure();
  // reduce_scatter_c2
  return verifyMultiple(*this, getInput(), getResult(), getDim());
}

LogicalResult AllGatherOp::verify() {
  if (failed(verifyGroup(*this, getGroup()))) // all_gather_c1
    return failure();
  // all_gather_c2
  return verifyMultiple(*this, getResult(), getInput(), getDim());
}

LogicalResult AllToAllOp::verify() {
  if (failed(verifyGroup(*this, getGroup()))) // all_to_all_c1
    return failure();
  // all_to_all_c2
  auto in = cast<RankedTensorType>(getInput().getType());
  auto out = cast<RankedTensorType>(getResult().getType());
  int64_t split = getSplitDim(), concat = getConcatDim();
  bool ok = in.getRank() == out.getRank() &&
            in.getElementType() == out.getElementType() && split >= 0 &&
            split < in.getRank() && concat >= 0 && concat < in.getRank() &&
            out.getDimSize(split) > 0 &&
            in.getDimSize(split) % out.getDimSize(split) == 0;
  if (ok && split == concat) {
    ok = in == out;
  } else if (ok) {
    int64_t n = in.getDimSize(split) / out.getDimSize(split);
    for (int64_t i = 0; i < in.getRank(); ++i) {
      if (i == split)
        continue;
      ok &= out.getDimSize(i) == in.getDimSize(i) * (i == concat ? n : 1);
    }
  }
  if (!ok)
    return emitOpError("expected one dimension divided and another multiplied "
                       "by the group's size, got ")
           << in << " and " << out;
  return success();
}

LogicalResult PermuteOp::verify() {
  if (failed(verifyGroup(*this, getGroup()))) // permute_c1
    return failure();
  return verifySameType(*this); // permute_c2
}

LogicalResult PermuteStartOp::verify() {
  if (failed(verifyGroup(*this, getGroup()))) // permute_start_c1
    return failure();
  return verifySameType(*this); // permute_start_c2
}

LogicalResult WaitOp::verify() {
  // wait_c1
  auto start = getStarted().getDefiningOp<PermuteStartOp>();
  if (!start || start.getInput() != getSource())
    return emitOpError("expected the result of a comm.permute_start of ")
           << getSource().getType() << " and its input";
  return verifySameType(*this); // wait_c2
}
