//===- SharedObject.cpp - Machine code and link, in process -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LowerToLLVM.h"

#include "lld/Common/Driver.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

static constexpr const char *kTriple = "x86_64-unknown-linux-gnu";

/// What LLVM may call of its own accord; the C library has them.
static bool isAllowedUndefined(StringRef symbol) {
  return symbol == "memset" || symbol == "memcpy" || symbol == "memmove";
}

static std::unique_ptr<llvm::TargetMachine>
createTargetMachine(const TargetRecord &record, Location loc) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  llvm::Triple triple(kTriple);
  std::string message;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target) {
    emitError(loc) << "cannot generate code for " << kTriple << ": " << message;
    return nullptr;
  }
  llvm::TargetOptions options;
  // What is fused is written as fma: results do not depend on the optimiser.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, record.cpu, record.features, options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Aggressive));
  if (!machine)
    emitError(loc) << "cannot generate code for processor '" << record.cpu
                   << "'";
  return machine;
}

static void setFunctionAttributes(llvm::Module &module,
                                  const TargetRecord &record) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", record.cpu);
    function.addFnAttr("tune-cpu", record.tune);
    if (!record.features.empty())
      function.addFnAttr("target-features", record.features);
    function.addFnAttr("prefer-vector-width",
                       std::to_string(record.lanes * 32));
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
}

static void optimise(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3)
      .run(module, modules);
}

static FailureOr<SmallVector<char, 0>>
emitObject(llvm::Module &module, llvm::TargetMachine &machine, Location loc) {
  SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr,
                                  llvm::CodeGenFileType::ObjectFile))
    return emitError(loc) << "cannot emit object files for " << kTriple;
  passes.run(module);
  return object;
}

static LogicalResult checkUndefined(ArrayRef<char> object, Location loc) {
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(
      StringRef(object.data(), object.size()), "kernels"));
  if (!file)
    return emitError(loc) << "cannot read the kernels' object file: "
                          << llvm::toString(file.takeError());
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (!flags || !name) {
      llvm::consumeError(flags ? name.takeError() : flags.takeError());
      if (!flags && !name)
        llvm::consumeError(name.takeError());
      return emitError(loc) << "cannot read the kernels' symbols";
    }
    if ((*flags & llvm::object::SymbolRef::SF_Undefined) && !name->empty() &&
        !isAllowedUndefined(*name))
      return emitError(loc)
             << "expected kernels that call nothing, got a call of '" << *name
             << "'";
  }
  return success();
}

/// A name in the system's folder for temporary files; the file is removed when
/// `remover` goes.
static FailureOr<std::string>
createTemporary(StringRef suffix, llvm::FileRemover &remover, Location loc) {
  SmallString<128> path;
  if (std::error_code error =
          llvm::sys::fs::createTemporaryFile("heddle-kernels", suffix, path))
    return emitError(loc) << "cannot create a temporary file: "
                          << error.message();
  remover.setFile(path);
  return path.str().str();
}

static FailureOr<std::vector<char>> linkObject(ArrayRef<char> object,
                                               Location loc) {
  // lld keeps state in globals.
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  llvm::FileRemover removeInput, removeOutput;
  FailureOr<std::string> input = createTemporary("o", removeInput, loc);
  FailureOr<std::string> output = createTemporary("so", removeOutput, loc);
  if (failed(input) || failed(output))
    return failure();
  std::error_code error;
  llvm::raw_fd_ostream stream(*input, error);
  stream.write(object.data(), object.size());
  stream.close();
  if (error || stream.has_error()) {
    std::string reason = (error ? error : stream.error()).message();
    stream.clear_error();
    return emitError(loc) << "cannot write '" << *input << "': " << reason;
  }

  std::string messages;
  llvm::raw_string_ostream log(messages);
  const char *args[] = {"ld.lld",
                        "-shared",
                        "--build-id=none",
                        "--threads=1",
                        "--soname=heddle-kernels",
                        input->c_str(),
                        "-o",
                        output->c_str()};
  lld::Result result =
      lld::lldMain(args, log, log, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0)
    return emitError(loc) << "cannot link the kernels: " << messages;
  auto linked = llvm::MemoryBuffer::getFile(*output, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!linked)
    return emitError(loc) << "cannot read '" << *output
                          << "': " << linked.getError().message();
  return std::vector<char>((*linked)->getBufferStart(),
                           (*linked)->getBufferEnd());
}

FailureOr<std::vector<char>> cpu::compileKernels(ModuleOp emitted,
                                                 const TargetRecord &target) {
  Location loc = emitted.getLoc();
  OwningOpRef<ModuleOp> lowered(emitted.clone());
  if (failed(lowerKernels(*lowered)))
    return failure();
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  emitted.getContext()->appendDialectRegistry(registry);

  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(*lowered, context, "heddle-kernels");
  std::unique_ptr<llvm::TargetMachine> machine =
      createTargetMachine(target, loc);
  if (!module || !machine)
    return failure();
  module->setTargetTriple(machine->getTargetTriple());
  module->setDataLayout(machine->createDataLayout());
  setFunctionAttributes(*module, target);
  optimise(*module, *machine);
  FailureOr<SmallVector<char, 0>> object = emitObject(*module, *machine, loc);
  if (failed(object) || failed(checkUndefined(*object, loc)))
    return failure();
  return linkObject(*object, loc);
}
