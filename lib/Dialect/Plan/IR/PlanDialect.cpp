//===- PlanDialect.cpp - What each rank does, as data ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Plan/IR/PlanDialect.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::plan;

#include "heddle/Dialect/Plan/IR/PlanDialect.cpp.inc"
#include "heddle/Dialect/Plan/IR/PlanEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "heddle/Dialect/Plan/IR/PlanAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "heddle/Dialect/Plan/IR/PlanOps.cpp.inc"

void PlanDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "heddle/Dialect/Plan/IR/PlanAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "heddle/Dialect/Plan/IR/PlanOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// ref
//===----------------------------------------------------------------------===//

Attribute RefAttr::parse(AsmParser &parser, Type) {
  StringRef keyword;
  StringAttr region;
  int64_t base = 0, bytes = 0;
  SmallVector<int64_t> strides, scalars, moduli;
  SMLoc loc;
  if (parser.parseLess() || parser.getCurrentLocation(&loc) ||
      parser.parseKeyword(&keyword) || parser.parseSymbolName(region) ||
      parser.parseLSquare() || parser.parseInteger(base))
    return {};
  std::optional<Access> access = symbolizeAccess(keyword);
  if (!access) {
    parser.emitError(loc) << "expected r, w or rw, got '" << keyword << "'";
    return {};
  }
  while (succeeded(parser.parseOptionalPlus())) {
    int64_t stride = 0, scalar = 0, modulus = 0;
    StringRef name;
    if (parser.parseInteger(stride) || parser.parseStar() ||
        parser.getCurrentLocation(&loc) || parser.parseKeyword(&name))
      return {};
    if (!name.consume_front("s") || name.getAsInteger(10, scalar)) {
      parser.emitError(loc)
          << "expected a scalar s0, s1, …, got '" << name << "'";
      return {};
    }
    if (succeeded(parser.parseOptionalKeyword("mod")) &&
        parser.parseInteger(modulus))
      return {};
    strides.push_back(stride);
    scalars.push_back(scalar);
    moduli.push_back(modulus);
  }
  if (parser.parseColon() || parser.parseInteger(bytes) ||
      parser.parseRSquare() || parser.parseGreater())
    return {};
  return get(parser.getContext(), *access, FlatSymbolRefAttr::get(region), base,
             strides, scalars, moduli, bytes);
}

void RefAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyAccess(getAccess()) << " ";
  printer.printSymbolName(getRegion().getValue());
  printer << "[" << getBase();
  for (size_t i = 0; i < getStrides().size(); ++i) {
    printer << " + " << getStrides()[i] << " * s" << getScalars()[i];
    if (getModuli()[i])
      printer << " mod " << getModuli()[i];
  }
  printer << " : " << getBytes() << "]>";
}

static LogicalResult verifyRef(Operation *op, RefAttr ref, size_t scalars) {
  if (ref.getBase() < 0 || ref.getBytes() < 0)
    return op->emitOpError("expected a range that is not negative, got ")
           << ref;
  for (auto [stride, scalar, modulus] :
       llvm::zip(ref.getStrides(), ref.getScalars(), ref.getModuli()))
    if (stride < 0 || modulus < 0 || scalar < 0 ||
        scalar >= static_cast<int64_t>(scalars))
      return op->emitOpError("expected scalar operands below ")
             << scalars << ", got " << ref;
  return success();
}

//===----------------------------------------------------------------------===//
// Constraints
//===----------------------------------------------------------------------===//

LogicalResult RegionOp::verify() {
  // region_c1
  int64_t offset = getOffset(), size = getSize();
  if (offset < 0 || size < 0 || offset % 64 != 0)
    return emitOpError(
               "expected an offset that is a multiple of 64 and a size, "
               "got ")
           << offset << " and " << size;
  return success();
}

LogicalResult TensorOp::verify() {
  // tensor_c1
  if (getBinding().getLayers().empty() != (getStride() == 0))
    return emitOpError("expected a stride exactly on stacked parameters, got ")
           << getStride();
  return success();
}

LogicalResult ExtentOp::verify() {
  // extent_c1
  if (static_cast<int64_t>(getMax()) < 1)
    return emitOpError("expected at least one row, got ") << getMax();
  return success();
}

LogicalResult LaunchOp::verify() {
  // launch_c1
  if (static_cast<int64_t>(getTiles()) < 1)
    return emitOpError("expected at least one tile, got ") << getTiles();
  // launch_c2
  for (Attribute ref : getRefs())
    if (failed(verifyRef(*this, cast<RefAttr>(ref), getScalars().size())))
      return failure();
  return success();
}

LogicalResult GemmOp::verify() {
  // gemm_c1
  for (int64_t size : {getM(), getN(), getK(), getPanels()})
    if (size < 1)
      return emitOpError("expected positive sizes, got ") << size;
  // gemm_c2
  for (RefAttr ref : {getA(), getB(), getC()})
    if (failed(verifyRef(*this, ref, getScalars().size())))
      return failure();
  return success();
}

LogicalResult CollectiveOp::verify() {
  // collective_c1
  if (static_cast<int64_t>(getElements()) < 1)
    return emitOpError("expected at least one element, got ") << getElements();
  // collective_c2
  for (RefAttr ref : {getSource(), getDestination()})
    if (failed(verifyRef(*this, ref, getScalars().size())))
      return failure();
  return success();
}

LogicalResult WaitOp::verify() {
  // wait_c1
  bool found = false;
  auto program = (*this)->getParentOfType<ProgramOp>();
  if (program)
    program.walk([&](CollectiveOp collective) {
      found |= collective.getId() == getId() && collective.getAsync();
    });
  if (!found)
    return emitOpError("expected an async collective with id ")
           << getId() << " in the program, got none";
  return success();
}

LogicalResult CopyOp::verify() {
  // copy_c1
  if (getSource().getBytes() != getDestination().getBytes())
    return emitOpError("expected ranges of one size, got ")
           << getSource() << " and " << getDestination();
  // copy_c2
  for (RefAttr ref : {getSource(), getDestination()})
    if (failed(verifyRef(*this, ref, getScalars().size())))
      return failure();
  return success();
}

LogicalResult ForOp::verify() {
  // for_c1
  if (static_cast<int64_t>(getTrips()) < 1)
    return emitOpError("expected at least one trip, got ") << getTrips();
  // for_c2
  if (getBody().getNumArguments() != 1 ||
      !getBody().getArgument(0).getType().isInteger(64))
    return emitOpError("expected a body with one i64 argument");
  return success();
}

LogicalResult CaseOp::verify() {
  // case_c1
  if (getBlocks().empty())
    return emitOpError("expected at least one block");
  return success();
}
