//===- Passes.td - Passes over plans -*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===--------------------------------------------------------------------*- tablegen -*-===//

#ifndef HEDDLE_DIALECT_PLAN_TRANSFORMS_PASSES_TD
#define HEDDLE_DIALECT_PLAN_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def VerifyInFlightPass : Pass<"plan-verify-in-flight", "ProgramOp"> {
  let summary = "nothing touches the buffers of a collective in flight";
  let description = [{
    Before and after: plans (`convert-heddle-to-plan`).

    From an async `plan.collective` to its `plan.wait` no instruction may write
    its source, or read or write its destination; every collective that is begun
    is waited for, and none is begun again before. Programs are followed in
    order, loops for as many turns as rotating slots need to come round, plus
    one; the blocks of a `plan.case` one by one. A scalar that depends on the
    rank or the host stands for all of its values.
  }];
}

#endif // HEDDLE_DIALECT_PLAN_TRANSFORMS_PASSES_TD
