//===- Compile.cpp - From a model description to a bundle ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Pipelines/Compile.h"

#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Heddle/Transforms/Passes.h"
#include "heddle/Dialect/Plan/Transforms/Passes.h"
#include "heddle/Target/Bundle/Bundle.h"
#include "heddle_rt/bundle.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::heddle;

static constexpr StringLiteral phaseNames[] = {
    "import", "annotate", "partition", "schedule", "plan", "codegen", "bundle"};

std::optional<Phase> mlir::heddle::parsePhase(StringRef name) {
  for (auto [i, known] : llvm::enumerate(phaseNames))
    if (known == name)
      return static_cast<Phase>(i);
  return std::nullopt;
}

StringRef mlir::heddle::phaseName(Phase phase) {
  return phaseNames[static_cast<int>(phase)];
}

static void populateActivations(OpPassManager &manager,
                                const CompileOptions &options) {
  if (options.activations == "q8")
    manager.addPass(createQuantizeActivationsPass());
}

LogicalResult mlir::heddle::runActivations(ModuleOp module,
                                           const CompileOptions &options) {
  PassManager manager(module.getContext());
  populateActivations(manager, options);
  return manager.run(module);
}

void mlir::heddle::populatePhase(OpPassManager &manager, Phase phase,
                                 const CompileOptions &options) {
  switch (phase) {
  case Phase::Annotate: {
    // Says what is computed; before shardings are chosen.
    populateActivations(manager, options);
    AnnotatePassOptions annotate;
    annotate.strategy = options.strategy;
    annotate.layout = options.layout;
    annotate.topology = options.topology;
    annotate.strictDivisibility = options.strictDivisibility;
    manager.addPass(createAnnotatePass(annotate));
    manager.addPass(createVerifyGlobalPass());
    return;
  }
  case Phase::Partition:
    manager.addPass(createPartitionPass());
    manager.addNestedPass<func::FuncOp>(createChunkPass());
    manager.addPass(createVerifyLocalPass());
    return;
  case Phase::Schedule:
    // Before kernels are outlined: their arguments carry the formats.
    manager.addPass(createPackWeightsPass());
    manager.addPass(createSchedulePass());
    return;
  case Phase::Plan: {
    ConvertHeddleToPlanPassOptions plan;
    plan.target = options.target;
    plan.memoryBudget = options.memoryBudget;
    manager.addPass(createConvertHeddleToPlanPass(plan));
    manager.addNestedPass<plan::ProgramOp>(plan::createVerifyInFlightPass());
    return;
  }
  case Phase::Import:
  case Phase::Codegen:
  case Phase::Bundle:
    return;
  }
}

LogicalResult mlir::heddle::runPhases(ModuleOp module, Phase from, Phase to,
                                      const CompileOptions &options) {
  PassManager manager(module.getContext());
  for (int p = static_cast<int>(from) + 1; p <= static_cast<int>(to); ++p)
    populatePhase(manager, static_cast<Phase>(p), options);
  return manager.run(module);
}

FailureOr<std::vector<uint8_t>>
mlir::heddle::makeBundle(ModuleOp module, const CompileOptions &options,
                         const llvm::json::Object &report, StringRef interface,
                         StringRef provenance) {
  FailureOr<cpu::TargetRecord> target = cpu::TargetRecord::get(options.target);
  if (failed(target))
    return failure();
  FailureOr<std::vector<uint8_t>> plan =
      serializePlan(module, *target, interface);
  if (failed(plan))
    return failure();
  FailureOr<OwningOpRef<ModuleOp>> kernels = cpu::emitKernels(module, *target);
  if (failed(kernels))
    return failure();
  FailureOr<std::vector<char>> object = cpu::compileKernels(**kernels, *target);
  if (failed(object))
    return failure();
  std::string contract;
  llvm::raw_string_ostream stream(contract);
  llvm::json::Object copy(report);
  stream << llvm::json::Value(std::move(copy));
  auto view = [](const auto &bytes) {
    return std::string_view(reinterpret_cast<const char *>(bytes.data()),
                            bytes.size());
  };
  return ::heddle::rt::serializeBundle(
      {{"plan", view(*plan)},
       {"kernels/x86_64", view(*object)},
       {"contract", contract},
       {"provenance", std::string_view(provenance.data(), provenance.size())}});
}

void mlir::heddle::registerCompileDialects(DialectRegistry &registry) {
  registry.insert<HeddleDialect, comm::CommDialect, plan::PlanDialect,
                  func::FuncDialect>();
}
