//===- heddle-compile.cpp - Ahead-of-time compiler of model descriptions
//---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelInput.h"
#include "heddle/Target/Bundle/Bundle.h"
#include "heddle_rt/bundle.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::heddle;

static int run(const CommandLine &cl) {
  DialectRegistry registry;
  registerCompileDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  // Messages name what is wrong; whole operations are for heddle-opt.
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context, llvm::errs());

  std::optional<Phase> from = parsePhase(cl.from), to = parsePhase(cl.to);
  OwningOpRef<ModuleOp> module;
  ModelConfig config;
  bool isMlir = StringRef(cl.model).ends_with(".mlir");
  if (!isMlir && *from != Phase::Import) {
    llvm::errs() << "error: expected MLIR text with --compile-from, got '"
                 << cl.model << "'\n";
    return 1;
  }
  if (isMlir) {
    module = parseSourceFile<ModuleOp>(cl.model, sources, &context);
    if (!module)
      return 1;
  } else {
    Location loc = FileLineColLoc::get(&context, cl.model, 1, 1);
    FailureOr<ModelConfig> read = readModelConfig(cl.model, loc);
    if (failed(read))
      return 1;
    config = cl.shrink ? shrink(*read) : *read;
    applyAttention(config, cl);
    FailureOr<OwningOpRef<ModuleOp>> imported =
        importModel(&context, config, importOptions(cl));
    if (failed(imported))
      return 1;
    module = std::move(*imported);
  }

  CompileOptions options = compileOptions(cl);
  Phase last = std::min(*to, Phase::Plan);
  if (*from < last && failed(runPhases(*module, *from, last, options)))
    return 1;
  if (*to < Phase::Codegen) {
    module->print(llvm::outs());
    llvm::outs() << "\n";
    return 0;
  }
  if (*to == Phase::Codegen) {
    FailureOr<cpu::TargetRecord> target =
        cpu::TargetRecord::get(options.target);
    if (failed(target))
      return 1;
    FailureOr<OwningOpRef<ModuleOp>> kernels =
        cpu::emitKernels(*module, *target);
    if (failed(kernels))
      return 1;
    (*kernels)->print(llvm::outs());
    llvm::outs() << "\n";
    return 0;
  }
  FailureOr<llvm::json::Object> report =
      makeReport(*module, isMlir ? 0 : config.parameterCount());
  if (failed(report))
    return 1;
  if (!cl.output.empty()) {
    std::string provenance;
    llvm::raw_string_ostream stream(provenance);
    stream << llvm::json::Value(
        llvm::json::Object{{"heddle", "0.1.0"},
                           {"strategy", cl.strategy},
                           {"layout", cl.layout},
                           {"weights", cl.weights},
                           {"activations", cl.activations},
                           {"cpu", cl.cpu}});
    FailureOr<std::vector<uint8_t>> bytes = makeBundle(
        *module, options, *report, interfaceJson(config, cl), provenance);
    if (failed(bytes))
      return 1;
    ::heddle::rt::Status written =
        ::heddle::rt::writeFileAtomically(cl.output, *bytes);
    if (!written.ok()) {
      llvm::errs() << "error: " << written.message() << "\n";
      return 1;
    }
  }
  if (cl.report == "json")
    llvm::outs() << llvm::formatv("{0:2}",
                                  llvm::json::Value(std::move(*report)))
                 << "\n";
  else if (cl.report == "text" || cl.output.empty())
    llvm::outs() << formatReport(*report);
  return 0;
}

int main(int argc, char **argv) {
  CommandLine options;
  int status = parseCommandLine(argc, argv, "heddle-compile", options);
  return status >= 0 ? status : run(options);
}
