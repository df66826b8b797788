//===- Compile.h - From a model description to a bundle -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===--------------------------------------------------------------------*- C++
//-*-===//

// The phases, each a pipeline of `heddle-opt` under its name:
//
//   import     a description to the global program (importModel)
//   annotate   heddle-annotate, heddle-verify-global
//   partition  heddle-partition, heddle-verify-local
//   schedule   heddle-schedule
//   plan       convert-heddle-to-plan
//   codegen    kernels to a shared object
//   bundle     one file
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PIPELINES_COMPILE_H
#define HEDDLE_PIPELINES_COMPILE_H

#include "heddle/Import/Import.h"
#include "heddle/Target/CPU/Kernels.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/JSON.h"

namespace mlir::heddle {

enum class Phase {
  Import,
  Annotate,
  Partition,
  Schedule,
  Plan,
  Codegen,
  Bundle,
};

/// The phase of this name, or none.
std::optional<Phase> parsePhase(StringRef name);
StringRef phaseName(Phase phase);

struct CompileOptions {
  /// Strategies in order; empty = the defaults of the axis names.
  std::string strategy, layout;
  /// A topology file; empty: none.
  std::string topology;
  bool strictDivisibility = false;
  /// Bytes per rank; 0 = no limit.
  int64_t memoryBudget = 0;
  std::string target = "host";
  /// "keep", or "q8": int8 inputs of products with quantised weights.
  std::string activations = "keep";
};

/// Appends the passes of one phase (Annotate to Plan).
void populatePhase(OpPassManager &manager, Phase phase,
                   const CompileOptions &options);

/// The part of annotate that changes what a program computes (`activations`),
/// by itself, for a reference to compare with. Running it twice changes
/// nothing.
LogicalResult runActivations(ModuleOp module, const CompileOptions &options);

/// Runs the phases after `from` up to `to` (at most Plan) on a module.
LogicalResult runPhases(ModuleOp module, Phase from, Phase to,
                        const CompileOptions &options);

/// Codegen and bundle: the file's bytes. `interface` is for hosts,
/// `provenance` records options.
FailureOr<std::vector<uint8_t>> makeBundle(ModuleOp module,
                                           const CompileOptions &options,
                                           const llvm::json::Object &report,
                                           StringRef interface,
                                           StringRef provenance);

/// Dialects that compilation needs.
void registerCompileDialects(DialectRegistry &registry);

} // namespace mlir::heddle

#endif // HEDDLE_PIPELINES_COMPILE_H
