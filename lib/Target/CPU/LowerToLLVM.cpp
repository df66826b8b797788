//===- LowerToLLVM.cpp - From scf and vector to LLVM's dialect ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LowerToLLVM.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

void cpu::populateKernelLowering(OpPassManager &pm) {
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createSCFToControlFlowPass());
  ConvertVectorToLLVMPassOptions vector;
  pm.addPass(createConvertVectorToLLVMPass(vector));
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertIndexToLLVMPass());
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  // Static memory as plain pointers: kernels are C functions.
  ConvertFuncToLLVMPassOptions func;
  func.useBarePtrCallConv = true;
  pm.addPass(createConvertFuncToLLVMPass(func));
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createUBToLLVMConversionPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
}

/// The exported function: reads operand addresses and scalars and calls the
/// body, which LLVM inlines.
static void addEntry(LLVM::LLVMFuncOp body, StringRef name) {
  OpBuilder b(body);
  Location loc = body.getLoc();
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  Type i64 = b.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(b.getContext()), {pointer, pointer, i64, i64});
  auto entry = LLVM::LLVMFuncOp::create(b, loc, name, type);
  Block *block = entry.addEntryBlock(b);
  b.setInsertionPointToStart(block);
  auto loadEntry = [&](Type what, Value list, int64_t i) -> Value {
    Value at =
        LLVM::GEPOp::create(b, loc, pointer, what, list,
                            ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    return LLVM::LoadOp::create(b, loc, what, at);
  };
  SmallVector<Value> arguments;
  int64_t memories = 0, scalars = 0;
  for (Type argument : ArrayRef(body.getArgumentTypes()).drop_back(2)) {
    if (isa<LLVM::LLVMPointerType>(argument))
      arguments.push_back(
          loadEntry(pointer, block->getArgument(0), memories++));
    else
      arguments.push_back(loadEntry(i64, block->getArgument(1), scalars++));
  }
  arguments.push_back(block->getArgument(2));
  arguments.push_back(block->getArgument(3));
  LLVM::CallOp::create(b, loc, body, arguments);
  LLVM::ReturnOp::create(b, loc, ValueRange());
}

LogicalResult cpu::lowerKernels(ModuleOp module) {
  PassManager pm(module.getContext(), module.getOperationName());
  populateKernelLowering(pm);
  if (failed(pm.run(module)))
    return failure();
  SmallVector<LLVM::LLVMFuncOp> bodies(module.getOps<LLVM::LLVMFuncOp>());
  for (LLVM::LLVMFuncOp body : bodies) {
    std::string name = body.getSymName().str();
    body->removeAttr(HeddleDialect::kKernelAttr);
    body.setSymName(name + ".body");
    body.setLinkage(LLVM::Linkage::Internal);
    addEntry(body, name);
  }
  WalkResult left = module.walk([](Operation *op) {
    if (isa<LLVM::LLVMDialect, BuiltinDialect>(op->getDialect()))
      return WalkResult::advance();
    op->emitError("expected LLVM dialect only after lowering, got '")
        << op->getName() << "'";
    return WalkResult::interrupt();
  });
  return failure(left.wasInterrupted());
}
