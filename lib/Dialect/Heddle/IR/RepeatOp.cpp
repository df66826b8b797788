//===- RepeatOp.cpp - The layer stack ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpHelpers.h"

using namespace mlir;
using namespace mlir::heddle;

//===----------------------------------------------------------------------===//
// Text form
//===----------------------------------------------------------------------===//

namespace {
using Operands = SmallVector<OpAsmParser::UnresolvedOperand>;
} // namespace

/// (%a : type, …) or (%a in K : type, …)
static ParseResult parseValues(OpAsmParser &parser, Operands &operands,
                               SmallVectorImpl<Type> &types,
                               SmallVectorImpl<int64_t> *kinds) {
  auto parseOne = [&]() -> ParseResult {
    if (parser.parseOperand(operands.emplace_back()))
      return failure();
    if (kinds && (parser.parseKeyword("in") ||
                  parser.parseInteger(kinds->emplace_back())))
      return failure();
    return parser.parseColonType(types.emplace_back());
  };
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOne);
}

ParseResult RepeatOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<int64_t> order, paramKinds, inoutKinds;
  Operands carries, params, inouts;
  SmallVector<Type> carryTypes, paramTypes, inoutTypes, emitTypes;
  if (parser.parseKeyword("order") ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() {
        return parser.parseInteger(order.emplace_back());
      }))
    return failure();
  Builder &b = parser.getBuilder();
  if (succeeded(parser.parseOptionalKeyword("reverse")))
    result.addAttribute("reverse", b.getUnitAttr());
  if (parser.parseKeyword("carry") ||
      parseValues(parser, carries, carryTypes, nullptr))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("params")) &&
      parseValues(parser, params, paramTypes, &paramKinds))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("inout")) &&
      parseValues(parser, inouts, inoutTypes, &inoutKinds))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("emits")) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, [&]() {
        return parser.parseType(emitTypes.emplace_back());
      }))
    return failure();
  result.addAttribute("order", b.getDenseI64ArrayAttr(order));
  result.addAttribute("paramKinds", b.getDenseI64ArrayAttr(paramKinds));
  result.addAttribute("inoutKinds", b.getDenseI64ArrayAttr(inoutKinds));
  result.addAttribute(
      "operandSegmentSizes",
      b.getDenseI32ArrayAttr({static_cast<int32_t>(carries.size()),
                              static_cast<int32_t>(params.size()),
                              static_cast<int32_t>(inouts.size())}));
  if (parser.parseLBrace())
    return failure();
  int64_t next = 0;
  while (succeeded(parser.parseOptionalKeyword("kind"))) {
    int64_t kind;
    SMLoc loc = parser.getCurrentLocation();
    SmallVector<OpAsmParser::Argument> arguments;
    if (parser.parseInteger(kind))
      return failure();
    if (kind != next++)
      return parser.emitError(loc)
             << "expected kind " << next - 1 << ", got " << kind;
    Region *region = result.addRegion();
    if (parser.parseArgumentList(arguments, AsmParser::Delimiter::Paren,
                                 /*allowType=*/true) ||
        parser.parseRegion(*region, arguments))
      return failure();
  }
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseRBrace() || parser.parseOptionalAttrDict(result.attributes) ||
      parser.resolveOperands(carries, carryTypes, loc, result.operands) ||
      parser.resolveOperands(params, paramTypes, loc, result.operands) ||
      parser.resolveOperands(inouts, inoutTypes, loc, result.operands))
    return failure();
  result.addTypes(carryTypes);
  result.addTypes(inoutTypes);
  result.addTypes(emitTypes);
  return success();
}

void RepeatOp::print(OpAsmPrinter &printer) {
  auto values = [&](OperandRange range, ArrayRef<int64_t> kinds) {
    printer << "(";
    for (auto [i, v] : llvm::enumerate(range)) {
      printer << (i ? ", " : "") << v;
      if (!kinds.empty())
        printer << " in " << kinds[i];
      printer << " : " << v.getType();
    }
    printer << ")";
  };
  printer << " order [";
  llvm::interleaveComma(getOrder(), printer);
  printer << "]";
  if (getReverse())
    printer << " reverse";
  printer << " carry";
  values(getCarries(), {});
  if (!getParams().empty()) {
    printer << " params";
    values(getParams(), getParamKinds());
  }
  if (!getInouts().empty()) {
    printer << " inout";
    values(getInouts(), getInoutKinds());
  }
  TypeRange emits = TypeRange(getResultTypes())
                        .drop_front(getCarries().size() + getInouts().size());
  if (!emits.empty())
    printer << " emits(" << emits << ")";
  printer << " {";
  printer.increaseIndent();
  for (auto [kind, region] : llvm::enumerate(getKinds())) {
    printer.printNewline();
    printer << "kind " << kind << " (";
    llvm::interleaveComma(region.getArguments(), printer, [&](BlockArgument a) {
      printer.printRegionArgument(a);
    });
    printer << ") ";
    printer.printRegion(region, /*printEntryBlockArgs=*/false);
  }
  printer.decreaseIndent();
  printer.printNewline();
  printer << "}";
  printer.printOptionalAttrDict(
      (*this)->getAttrs(),
      {"order", "paramKinds", "inoutKinds", "reverse", "operandSegmentSizes"});
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

int64_t RepeatOp::getTrips(int64_t kind) {
  return llvm::count(getOrder(), kind);
}

int64_t RepeatOp::getOrdinal(int64_t i) {
  return llvm::count(getOrder().take_front(i), getOrder()[i]);
}

static SmallVector<int64_t> indicesOf(ArrayRef<int64_t> kinds, int64_t kind) {
  SmallVector<int64_t> result;
  for (auto [i, k] : llvm::enumerate(kinds))
    if (k == kind)
      result.push_back(i);
  return result;
}

SmallVector<int64_t> RepeatOp::getParamsOf(int64_t kind) {
  return indicesOf(getParamKinds(), kind);
}

SmallVector<int64_t> RepeatOp::getInoutsOf(int64_t kind) {
  return indicesOf(getInoutKinds(), kind);
}

//===----------------------------------------------------------------------===//
// Constraints
//===----------------------------------------------------------------------===//

/// The type of one slice of a stack: without dimension 0.
static RankedTensorType sliceType(RankedTensorType stack) {
  Attribute encoding = stack.getEncoding();
  if (ShardingAttr sharding = getSharding(stack))
    encoding = sharding.withDims(sharding.getDims().drop_front());
  return RankedTensorType::get(stack.getShape().drop_front(),
                               stack.getElementType(), encoding);
}

static LogicalResult verifyStack(RepeatOp op, StringRef what, Value stack,
                                 int64_t kind) {
  // repeat_c3
  RankedTensorType type = typeOf(stack);
  if (kind < 0 || kind >= static_cast<int64_t>(op.getKinds().size()))
    return op.emitOpError("expected ")
           << what << " of a kind below " << op.getKinds().size() << ", got "
           << kind;
  if (type.getRank() < 1 || type.getDimSize(0) != op.getTrips(kind))
    return op.emitOpError("expected ")
           << what << " of kind " << kind << " to be a stack of "
           << op.getTrips(kind) << ", got " << type;
  if (ShardingAttr sharding = getSharding(type);
      sharding && !sharding.getDims()[0].isReplicated())
    return op.emitOpError("expected dimension 0 of ")
           << what << " not to be sharded, got " << type;
  return success();
}

LogicalResult RepeatOp::verifyRegions() {
  int64_t kinds = getKinds().size();
  // repeat_c1
  if (getOrder().empty())
    return emitOpError("expected an order with at least one iteration");
  for (int64_t kind : getOrder())
    if (kind < 0 || kind >= kinds)
      return emitOpError("expected kinds below ")
             << kinds << " in order, got " << kind;
  for (int64_t kind = 0; kind < kinds; ++kind)
    if (getTrips(kind) == 0)
      return emitOpError("expected kind ") << kind << " to be in order";
  if (getParamKinds().size() != getParams().size() ||
      getInoutKinds().size() != getInouts().size())
    return emitOpError("expected a kind for every param and inout");
  for (auto [v, kind] : llvm::zip(getParams(), getParamKinds()))
    if (failed(verifyStack(*this, "param", v, kind)))
      return failure();
  for (auto [v, kind] : llvm::zip(getInouts(), getInoutKinds()))
    if (failed(verifyStack(*this, "inout", v, kind)))
      return failure();

  SmallVector<Type> results(getCarries().getTypes());
  llvm::append_range(results, getInouts().getTypes());
  for (int64_t kind = 0; kind < kinds; ++kind) {
    Region &region = getKinds()[kind];
    // repeat_c2
    SmallVector<Type> want(getCarries().getTypes());
    for (int64_t i : getParamsOf(kind))
      want.push_back(sliceType(typeOf(getParams()[i])));
    SmallVector<Type> slices;
    for (int64_t i : getInoutsOf(kind))
      slices.push_back(sliceType(typeOf(getInouts()[i])));
    llvm::append_range(want, slices);
    if (TypeRange(region.getArgumentTypes()) != TypeRange(want))
      return emitOpError("expected arguments ")
             << want << " of kind " << kind << ", got "
             << region.getArgumentTypes();
    // repeat_c4
    auto yield = dyn_cast<YieldOp>(region.front().getTerminator());
    if (!yield)
      return emitOpError("expected kind ") << kind << " to end in heddle.yield";
    if (yield.getCarries().getTypes() != getCarries().getTypes()) {
      InFlightDiagnostic diag = emitOpError("expected kind ");
      diag << kind << " to yield carries " << getCarries().getTypes()
           << ", got " << yield.getCarries().getTypes();
      diag.attachNote(yield.getLoc()) << "yielded here";
      return diag;
    }
    if (TypeRange(yield.getInouts().getTypes()) != TypeRange(slices)) {
      InFlightDiagnostic diag = emitOpError("expected kind ");
      diag << kind << " to yield inouts " << slices << ", got "
           << yield.getInouts().getTypes();
      diag.attachNote(yield.getLoc()) << "yielded here";
      return diag;
    }
    for (Value emit : yield.getEmits()) {
      RankedTensorType type = typeOf(emit);
      SmallVector<int64_t> shape = {getTrips(kind)};
      llvm::append_range(shape, type.getShape());
      ShardingAttr sharding = getSharding(type);
      if (sharding) {
        SmallVector<DimShardingAttr> dims = {
            DimShardingAttr::get(getContext())};
        llvm::append_range(dims, sharding.getDims());
        sharding = sharding.withDims(dims);
      }
      results.push_back(
          RankedTensorType::get(shape, type.getElementType(), sharding));
    }
    // repeat_c5
    for (BlockArgument slice : region.getArguments().take_back(slices.size()))
      if (!slice.use_empty() && !slice.hasOneUse()) {
        bool updated = llvm::any_of(slice.getUsers(), [](Operation *user) {
          return isa<CacheAppendOp, YieldOp>(user);
        });
        if (updated)
          return emitOpError("expected one live version of inout slice ")
                 << slice.getArgNumber() << " of kind " << kind
                 << ", but its old value is used beside its update";
      }
  }
  if (TypeRange(getResultTypes()) != TypeRange(results))
    return emitOpError("expected results ")
           << results << ", got " << getResultTypes();
  return success();
}
