//===- Passes.h - From one dialect to another -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===--------------------------------------------------------------------*- C++
//-*-===//

#ifndef HEDDLE_CONVERSION_PASSES_H
#define HEDDLE_CONVERSION_PASSES_H

#include "heddle/Dialect/Comm/IR/CommDialect.h"
#include "heddle/Dialect/Plan/IR/PlanDialect.h"
#include "mlir/Pass/Pass.h"

namespace mlir::heddle {

#define GEN_PASS_DECL
#include "heddle/Conversion/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "heddle/Conversion/Passes.h.inc"

} // namespace mlir::heddle

#endif // HEDDLE_CONVERSION_PASSES_H
