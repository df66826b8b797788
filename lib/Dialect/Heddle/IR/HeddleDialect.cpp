//===- HeddleDialect.cpp - The model dialect ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/IR/HeddleDialect.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::heddle;

#include "heddle/Dialect/Heddle/IR/HeddleDialect.cpp.inc"
#include "heddle/Dialect/Heddle/IR/HeddleInterfaces.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "heddle/Dialect/Heddle/IR/HeddleTypes.cpp.inc"
#define GET_OP_CLASSES
#include "heddle/Dialect/Heddle/IR/HeddleOps.cpp.inc"

void HeddleDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "heddle/Dialect/Heddle/IR/HeddleTypes.cpp.inc"
      >();
}

void HeddleDialect::initialize() {
  registerTypes();
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "heddle/Dialect/Heddle/IR/HeddleOps.cpp.inc"
      >();
}

LogicalResult HeddleDialect::verifyOperationAttribute(Operation *op,
                                                      NamedAttribute attr) {
  if (attr.getName() == kLocalAttr && !isa<func::FuncOp>(op))
    return op->emitOpError()
           << "expected '" << kLocalAttr << "' on a func.func only";
  if (attr.getName() == kMeshAttr) {
    auto symbol = dyn_cast<FlatSymbolRefAttr>(attr.getValue());
    if (!symbol || !SymbolTable::lookupNearestSymbolFrom<MeshOp>(op, symbol))
      return op->emitOpError()
             << "expected '" << kMeshAttr << "' to name a heddle.mesh, got "
             << attr.getValue();
  }
  if (attr.getName() == kExtentAttr) {
    auto rows = dyn_cast<IntegerAttr>(attr.getValue());
    if (!isa<func::FuncOp>(op) || !rows || !rows.getType().isInteger(64) ||
        rows.getInt() < 1)
      return op->emitOpError() << "expected '" << kExtentAttr
                               << "' to be a positive i64 on a func.func, got "
                               << attr.getValue();
  }
  if (attr.getName() == kConsecutiveAttr &&
      !isa<ConsecutiveAttr>(attr.getValue()))
    return op->emitOpError()
           << "expected '" << kConsecutiveAttr
           << "' to be a #heddle.consecutive, got " << attr.getValue();
  return success();
}

LogicalResult HeddleDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                      unsigned argument,
                                                      NamedAttribute attr) {
  if (attr.getName() != kConsecutiveAttr)
    return success();
  auto func = dyn_cast<func::FuncOp>(op);
  auto binding =
      func ? func.getArgAttrOfType<BindingAttr>(argument, kBindingAttr)
           : BindingAttr();
  if (!binding || binding.getKind() != BindingKind::Input ||
      !isa<ConsecutiveAttr>(attr.getValue()))
    return op->emitOpError()
           << "expected '" << kConsecutiveAttr
           << "' to be a #heddle.consecutive on an input, got "
           << attr.getValue() << " on argument " << argument;
  return success();
}

namespace {
struct BlockFormat {
  int64_t elements;
  int64_t bytes;
};
} // namespace

static BlockFormat getBlockFormat(Type type) {
  return TypeSwitch<Type, BlockFormat>(type)
      .Case<Q4_0Type>([](auto) { return BlockFormat{32, 18}; })
      .Case<Q4_1Type>([](auto) { return BlockFormat{32, 20}; })
      .Case<Q5_0Type>([](auto) { return BlockFormat{32, 22}; })
      .Case<Q5_1Type>([](auto) { return BlockFormat{32, 24}; })
      .Case<Q8_0Type>([](auto) { return BlockFormat{32, 34}; })
      .Case<Q6_KType>([](auto) { return BlockFormat{256, 210}; })
      .Case<Q8Type>([](auto) { return BlockFormat{32, 48}; })
      .Default([](Type t) {
        unsigned bits = t.isIntOrFloat() ? t.getIntOrFloatBitWidth() : 64;
        return BlockFormat{1, static_cast<int64_t>((bits + 7) / 8)};
      });
}

int64_t mlir::heddle::getBlockElements(Type type) {
  return getBlockFormat(type).elements;
}

int64_t mlir::heddle::getBlockBytes(Type type) {
  return getBlockFormat(type).bytes;
}

int64_t mlir::heddle::getTensorBytes(RankedTensorType type) {
  BlockFormat format = getBlockFormat(type.getElementType());
  if (type.getRank() == 0)
    return format.bytes;
  ArrayRef<int64_t> outer = type.getShape().drop_back();
  int64_t rows = 1;
  if (getPacking(type)) { // whole panels of every matrix
    rows = llvm::alignTo(outer.back(), PackingAttr::kPanelRows);
    outer = outer.drop_back();
  }
  for (int64_t extent : outer)
    rows *= extent;
  int64_t blocks =
      (type.getShape().back() + format.elements - 1) / format.elements;
  return rows * blocks * format.bytes;
}

static LogicalResult checkTensors(Operation *op, TypeRange types) {
  constexpr int64_t kMaxElements = int64_t(1) << 48;
  for (Type type : types) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return op->emitError("expected tensors of static shape, got ") << type;
    int64_t elements = 1;
    for (int64_t extent : tensor.getShape()) {
      if (extent == 0)
        return op->emitError("expected tensors that are not empty, got ")
               << type;
      if (elements > kMaxElements / extent)
        return op->emitError("expected tensors of at most ")
               << kMaxElements << " elements, got " << type;
      elements *= extent;
    }
  }
  return success();
}

LogicalResult mlir::heddle::checkTensors(func::FuncOp func) {
  if (failed(::checkTensors(func, func.getArgumentTypes())) ||
      failed(::checkTensors(func, func.getResultTypes())))
    return failure();
  WalkResult result = func.walk([&](Operation *op) {
    bool ok = succeeded(::checkTensors(op, op->getResultTypes()));
    for (Region &region : op->getRegions())
      for (Block &block : region)
        ok = ok && succeeded(::checkTensors(op, block.getArgumentTypes()));
    return ok ? WalkResult::advance() : WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

ShardingAttr mlir::heddle::getSharding(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_or_null<ShardingAttr>(tensor.getEncoding())
                : ShardingAttr();
}

PackingAttr mlir::heddle::getPacking(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_or_null<PackingAttr>(tensor.getEncoding())
                : PackingAttr();
}

RankedTensorType mlir::heddle::withSharding(RankedTensorType type,
                                            ShardingAttr sharding) {
  return RankedTensorType::get(type.getShape(), type.getElementType(),
                               sharding);
}

bool mlir::heddle::isLocal(Operation *op) {
  auto func = dyn_cast<func::FuncOp>(op);
  if (!func)
    func = op->getParentOfType<func::FuncOp>();
  return func && func->hasAttr(HeddleDialect::kLocalAttr);
}

bool mlir::heddle::hasRowsOfTokens(ArrayRef<int64_t> shape,
                                   IntegerAttr extent) {
  return extent && shape.size() >= 2 && shape[0] == 1 &&
         shape[1] == extent.getInt();
}

FailureOr<SmallVector<int64_t>>
mlir::heddle::getKernelAliases(func::FuncOp kernel) {
  StringRef name = HeddleDialect::kAliasesAttr;
  FunctionType type = kernel.getFunctionType();
  SmallVector<int64_t> alias(type.getNumResults(), -1);
  auto aliases = kernel->getAttrOfType<ArrayAttr>(name);
  if (!aliases)
    return alias;
  for (Attribute attr : aliases) {
    auto pair = dyn_cast<DenseI64ArrayAttr>(attr);
    if (!pair || pair.size() != 2 || pair[0] < 0 ||
        pair[0] >= type.getNumResults() || pair[1] < 0 ||
        pair[1] >= type.getNumInputs())
      return kernel.emitError("expected ")
             << name << " to hold (result, argument) pairs, got " << attr;
    if (type.getResult(pair[0]) != type.getInput(pair[1]))
      return kernel.emitError("expected result ")
             << pair[0] << " to have the type of argument " << pair[1]
             << " that it updates, got " << type.getResult(pair[0]);
    alias[pair[0]] = pair[1];
  }
  return alias;
}
