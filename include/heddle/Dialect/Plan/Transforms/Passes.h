//===- Passes.h - Passes over plans -----------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_PLAN_TRANSFORMS_PASSES_H
#define HEDDLE_DIALECT_PLAN_TRANSFORMS_PASSES_H

#include "heddle/Dialect/Plan/IR/PlanDialect.h"
#include "mlir/Pass/Pass.h"

namespace mlir::plan {

#define GEN_PASS_DECL
#include "heddle/Dialect/Plan/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "heddle/Dialect/Plan/Transforms/Passes.h.inc"

} // namespace mlir::plan

#endif // HEDDLE_DIALECT_PLAN_TRANSFORMS_PASSES_H
