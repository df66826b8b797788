//===- CodegenCPU.cpp - Kernel functions to loops over vectors ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Target/CPU/Kernels.h"
#include "heddle/Target/CPU/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_CODEGENCPUPASS
#include "heddle/Target/CPU/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;

namespace {

struct CodegenCPUPass : mlir::heddle::impl::CodegenCPUPassBase<CodegenCPUPass> {
  using CodegenCPUPassBase::CodegenCPUPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<cpu::TargetRecord> record = cpu::TargetRecord::get(target);
    if (failed(record)) {
      module.emitError("expected target host (x86-64-v3 or better), x86-64-v3 "
                       "or x86-64-v4, got '")
          << target << "'";
      return signalPassFailure();
    }
    FailureOr<OwningOpRef<ModuleOp>> emitted =
        cpu::emitKernels(module, *record);
    if (failed(emitted))
      return signalPassFailure();
    numKernels += llvm::range_size((*emitted)->getOps<func::FuncOp>());
    Block *body = module.getBody();
    body->clear();
    body->getOperations().splice(body->end(),
                                 (*emitted)->getBody()->getOperations());
  }
};

} // namespace
