//===- Passes.h - Code generation for CPUs ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TARGET_CPU_PASSES_H
#define HEDDLE_TARGET_CPU_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::heddle {

#define GEN_PASS_DECL
#include "heddle/Target/CPU/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "heddle/Target/CPU/Passes.h.inc"

} // namespace mlir::heddle

#endif // HEDDLE_TARGET_CPU_PASSES_H
