//===- LowerToLLVM.h - From scf and vector to LLVM's dialect ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TARGET_CPU_LOWERTOLLVM_H
#define HEDDLE_LIB_TARGET_CPU_LOWERTOLLVM_H

#include "heddle/Target/CPU/Kernels.h"

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace mlir::heddle::cpu {

/// From what emitKernels gives to functions of LLVM's dialect.
void populateKernelLowering(OpPassManager &pm);

/// Runs it, and gives every kernel an entry of the signature
/// heddle::rt::KernelFn under its own name. Fails, with a message, if an op of
/// another dialect is left.
LogicalResult lowerKernels(ModuleOp module);

} // namespace mlir::heddle::cpu

#endif // HEDDLE_LIB_TARGET_CPU_LOWERTOLLVM_H
