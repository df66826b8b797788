//===- Bundle.h - Plans to bundles and reports -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===--------------------------------------------------------------------*- C++
//-*-===//

#ifndef HEDDLE_TARGET_BUNDLE_BUNDLE_H
#define HEDDLE_TARGET_BUNDLE_BUNDLE_H

#include "heddle/Dialect/Plan/IR/PlanDialect.h"
#include "heddle/Target/CPU/Kernels.h"
#include "llvm/Support/JSON.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mlir::heddle {

/// The module's plan as FlatBuffers bytes (runtime/schema/plan.fbs).
/// `interface` is the JSON that hosts read.
FailureOr<std::vector<uint8_t>> serializePlan(ModuleOp module,
                                              const cpu::TargetRecord &target,
                                              StringRef interface);

/// What each rank will hold and send: the JSON of `--report json`. Byte parts
/// are the composition of the arena at its fullest instant; counts and bytes of
/// collectives are per execution of the program and per rank.
FailureOr<llvm::json::Object> makeReport(ModuleOp module, int64_t parameters);

/// The same for people.
std::string formatReport(const llvm::json::Object &report);

} // namespace mlir::heddle

#endif // HEDDLE_TARGET_BUNDLE_BUNDLE_H
