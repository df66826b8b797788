//===- TestSupport.cpp - Shared by the importer's tests -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "mlir/IR/MLIRContext.h"

#include <map>

using namespace mlir;
using namespace mlir::heddle;

namespace mlir::heddle::test {

/// Sorts diagnostics into RESULT while it lives.
template <typename Result> static auto collect(Result &result, StringRef path) {
  return [&result, path](Diagnostic &diagnostic) {
    std::string text = diagnostic.str();
    StringRef rest = text;
    rest.consume_front((path + ": ").str());
    bool isError = diagnostic.getSeverity() == DiagnosticSeverity::Error;
    (isError ? result.errors : result.warnings).push_back(rest.str());
    return success();
  };
}

ReadResult readPath(const std::string &path) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  ReadResult result;
  ScopedDiagnosticHandler handler(&context, collect(result, path));
  FailureOr<ModelConfig> config =
      readModelConfig(path, UnknownLoc::get(&context));
  if (succeeded(config))
    result.config = *config;
  return result;
}

ReadResult readText(const std::string &text) {
  ::heddle::rt::test::TempFolder folder;
  return readPath(folder.write("config.json", text));
}

std::string llamaText(const Changes &changes) {
  std::map<std::string, std::string> keys = {
      {"model_type", "\"llama\""},  {"hidden_size", "32"},
      {"intermediate_size", "64"},  {"num_hidden_layers", "2"},
      {"num_attention_heads", "4"}, {"num_key_value_heads", "2"},
      {"vocab_size", "96"},         {"rms_norm_eps", "1e-5"},
  };
  for (const auto &[key, value] : changes) {
    if (value.empty())
      keys.erase(key);
    else
      keys[key] = value;
  }
  std::string text;
  for (const auto &[key, value] : keys)
    text += (text.empty() ? "{\"" : ", \"") + key + "\": " + value;
  return text + "}";
}

ReadResult readLlama(const Changes &changes) {
  return readText(llamaText(changes));
}

std::string golden(const std::string &name) {
  return std::string(HEDDLE_TEST_GOLDEN) + "/" + name;
}

ImportResult import(MLIRContext &context, const ModelConfig &config,
                    const ImportOptions &options) {
  ImportResult result;
  ScopedDiagnosticHandler handler(&context, collect(result, ""));
  FailureOr<OwningOpRef<ModuleOp>> module =
      importModel(&context, config, options);
  if (succeeded(module))
    result.module = std::move(*module);
  return result;
}

std::string textOf(ModuleOp module, bool locations) {
  std::string text;
  llvm::raw_string_ostream os(text);
  OpPrintingFlags flags;
  if (locations)
    flags.enableDebugInfo();
  module.print(os, flags);
  return text;
}

func::FuncOp function(ModuleOp module, StringRef name) {
  return module.lookupSymbol<func::FuncOp>(name);
}

std::vector<std::string> signature(func::FuncOp function) {
  std::vector<std::string> lines;
  auto add = [&](Attribute attribute, Type type) {
    std::string line;
    llvm::raw_string_ostream os(line);
    if (auto binding = dyn_cast_or_null<BindingAttr>(attribute))
      os << stringifyBindingKind(binding.getKind()) << " " << binding.getName();
    os << ": " << type;
    lines.push_back(line);
  };
  StringRef name = HeddleDialect::kBindingAttr;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
    add(function.getArgAttr(i, name), type);
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    add(function.getResultAttr(i, name), type);
  return lines;
}

} // namespace mlir::heddle::test
