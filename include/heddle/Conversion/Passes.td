//===- Passes.td - From one dialect to another -*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===--------------------------------------------------------------------*- tablegen -*-===//

#ifndef HEDDLE_CONVERSION_PASSES_TD
#define HEDDLE_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertHeddleToPlanPass : Pass<"convert-heddle-to-plan", "::mlir::ModuleOp"> {
  let summary = "scheduled programs to plans over one static arena";
  let description = [{
    Before: scheduled programs (`heddle-schedule`).

    Gives every value a place. Parameters, states, inputs and outputs have fixed
    offsets, the same in all programs. Everything else shares the work region:
    the lifetime of a value is an interval of the instruction order, and
    intervals are placed largest first at the lowest free offset. Carries of a
    repeat alternate between two slots (`iv mod 2`), so that an iteration never
    overwrites what it reads and nothing is copied. All-reduces are in place
    where the operand dies. Then emits the programs in the plan dialect.

    After: `plan.region`, `plan.tensor` and `plan.program` ops, and the kernel
    functions for code generation; no program function is left. The module's
    attribute `plan.peak` holds the composition of the work region at its
    fullest instant.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"host\"",
           "Processor that the kernels are for: host, x86-64-v3, x86-64-v4">,
    Option<"memoryBudget", "memory-budget", "int64_t", /*default=*/"0",
           "Largest arena per rank in bytes; 0 = no limit">,
  ];
  let statistics = [
    Statistic<"numInstructions", "instructions", "Number of plan instructions">,
    Statistic<"numCopies", "copies", "Number of copies within the arena">,
  ];
  let dependentDialects = ["::mlir::plan::PlanDialect"];
}

#endif // HEDDLE_CONVERSION_PASSES_TD
