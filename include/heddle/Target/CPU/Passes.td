//===- Passes.td - Code generation for CPUs -*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TARGET_CPU_PASSES_TD
#define HEDDLE_TARGET_CPU_PASSES_TD

include "mlir/Pass/PassBase.td"

def CodegenCPUPass : Pass<"heddle-codegen-cpu", "::mlir::ModuleOp"> {
  let summary = "kernel functions to loops over vectors";
  let description = [{
    Before: functions marked `heddle.kernel` (and `heddle.local`) hold a straight
    line of model ops on static local tensors, as `schedule` outlines them.

    After: the module holds the kernels and nothing else. Each is a function of
    the same name on one-dimensional memory, with scf loops, 1-D vectors, arith,
    math.fma and math.sqrt: operands in machine order, the rank coordinates that
    its tables need, then the tile's number and the number of tiles. Instruction
    selection and linking are left to `heddle::cpu::compileKernels`.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"host\"",
           "processor: host, x86-64-v3 or x86-64-v4">,
  ];
  let statistics = [
    Statistic<"numKernels", "num-kernels", "Kernel functions emitted">,
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect",
  ];
}

#endif // HEDDLE_TARGET_CPU_PASSES_TD
