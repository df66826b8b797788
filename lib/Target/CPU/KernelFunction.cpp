//===- KernelFunction.cpp - A group of model ops, understood --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelFunction.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

Value KernelFunction::root(Value v) const {
  auto it = roots.find(v);
  return it == roots.end() ? v : it->second;
}

int64_t KernelFunction::operandOf(Value v) const {
  v = root(v);
  while (auto append = v.getDefiningOp<CacheAppendOp>())
    v = root(append.getPool());
  auto argument = dyn_cast<BlockArgument>(v);
  return argument ? argumentOperand[argument.getArgNumber()] : -1;
}

SmallVector<int64_t> KernelFunction::resultsOf(Value v) const {
  SmallVector<int64_t> operands;
  for (auto [value, operand] : llvm::zip(returned, resultOperand))
    if (value == root(v))
      operands.push_back(operand);
  return operands;
}

bool KernelFunction::isWritten(int64_t operand) const {
  return llvm::is_contained(resultOperand, operand);
}

int64_t KernelFunction::coordinateOf(RankTableAttr table) const {
  if (table.isUniform())
    return -1;
  SmallVector<AxisRefAttr> axes(table.getAxes());
  return llvm::find(coordinates, axes) - coordinates.begin();
}

/// Every tensor is static, local and stored in whole blocks.
static LogicalResult checkTypes(Operation *op, TypeRange types) {
  for (Type type : types) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape() || getSharding(tensor))
      return op->emitError("expected static local tensors in a kernel, got ")
             << type;
    int64_t block = getBlockElements(tensor.getElementType());
    if (block == 1 && !isa<FloatType, IntegerType>(tensor.getElementType()))
      return op->emitError("expected numbers of known width in a kernel, got ")
             << type;
    if (block > 1 &&
        (tensor.getRank() == 0 || tensor.getShape().back() % block != 0))
      return op->emitError("expected whole blocks of ")
             << block << " elements, got " << type;
  }
  return success();
}

LogicalResult KernelFunction::readAliases() {
  FunctionType type = func.getFunctionType();
  FailureOr<SmallVector<int64_t>> alias = getKernelAliases(func);
  if (failed(alias))
    return failure();
  for (Type input : type.getInputs()) {
    argumentOperand.push_back(operands.size());
    operands.push_back(cast<RankedTensorType>(input));
  }
  for (auto [i, result] : llvm::enumerate(type.getResults())) {
    if ((*alias)[i] >= 0) {
      resultOperand.push_back(argumentOperand[(*alias)[i]]);
      continue;
    }
    resultOperand.push_back(operands.size());
    operands.push_back(cast<RankedTensorType>(result));
  }
  return success();
}

LogicalResult KernelFunction::readBody() {
  for (Operation &op : func.getBody().front()) {
    if (failed(checkTypes(&op, op.getOperandTypes())) ||
        failed(checkTypes(&op, op.getResultTypes())))
      return failure();
    if (isa<SplitHeadsOp, MergeHeadsOp>(op)) {
      if (tensorType(op.getOperand(0)).getElementType() !=
          tensorType(op.getResult(0)).getElementType())
        return op.emitError("expected one element type, got ")
               << op.getOperand(0).getType() << " and "
               << op.getResult(0).getType();
      roots[op.getResult(0)] = root(op.getOperand(0));
      continue;
    }
    if (auto ret = dyn_cast<func::ReturnOp>(op)) {
      for (Value v : ret.getOperands())
        returned.push_back(root(v));
      continue;
    }
    for (NamedAttribute attr : op.getAttrs())
      if (auto table = dyn_cast<RankTableAttr>(attr.getValue()))
        if (!table.isUniform()) {
          SmallVector<AxisRefAttr> axes(table.getAxes());
          if (!llvm::is_contained(coordinates, axes))
            coordinates.push_back(axes);
        }
    ops.push_back(&op);
  }
  // Pools are updated in place and nothing else is.
  int64_t arguments = func.getNumArguments();
  for (auto [i, value] : llvm::enumerate(returned)) {
    bool inPlace = resultOperand[i] < arguments;
    if (inPlace != static_cast<bool>(value.getDefiningOp<CacheAppendOp>()))
      return func.emitError("expected ")
             << HeddleDialect::kAliasesAttr
             << " to name the results of cache_append and no "
             << "others, got result " << i;
    if (inPlace && operandOf(value) != resultOperand[i])
      return func.emitError("expected result ")
             << i << " to update argument " << resultOperand[i]
             << ", got another pool";
  }
  for (Operation *op : ops) {
    auto append = dyn_cast<CacheAppendOp>(op);
    if (!append)
      continue;
    int64_t pool = operandOf(append.getPool());
    if (pool < 0 || !isWritten(pool))
      return op->emitError("expected a pool that the kernel updates in place, "
                           "listed in ")
             << HeddleDialect::kAliasesAttr;
  }
  return success();
}

FailureOr<KernelFunction> KernelFunction::get(func::FuncOp func) {
  if (func.isExternal() || !llvm::hasSingleElement(func.getBody()))
    return func.emitError("expected a kernel function with one block"),
           failure();
  KernelFunction kernel;
  kernel.func = func;
  if (auto extent =
          func->getAttrOfType<IntegerAttr>(HeddleDialect::kExtentAttr))
    kernel.extent = extent.getInt();
  if (failed(checkTypes(func, func.getArgumentTypes())) ||
      failed(checkTypes(func, func.getResultTypes())) ||
      failed(checkTensors(func)) || failed(kernel.readAliases()) ||
      failed(kernel.readBody()))
    return failure();
  return kernel;
}
