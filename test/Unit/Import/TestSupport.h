//===- TestSupport.h - Shared by the importer's tests -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_IMPORT_TESTSUPPORT_H
#define HEDDLE_TEST_UNIT_IMPORT_TESTSUPPORT_H

#include "heddle/Import/Import.h"

#include "../Weights/FileBuilders.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::heddle::test {

/// What a reader said: the description, or errors and warnings, with the path
/// taken off their front.
struct ReadResult {
  std::optional<ModelConfig> config;
  std::vector<std::string> errors, warnings;
};
ReadResult readPath(const std::string &path);

/// Reads TEXT as a config.json.
ReadResult readText(const std::string &text);

/// A small Llama's config.json. Each change sets a key to a JSON text, or
/// takes it out if the text is empty.
using Changes = std::vector<std::pair<std::string, std::string>>;
std::string llamaText(const Changes &changes = {});
ReadResult readLlama(const Changes &changes = {});

/// The path of test/Golden/NAME.
std::string golden(const std::string &name);

/// A module and what was said while it was made.
struct ImportResult {
  OwningOpRef<ModuleOp> module;
  std::vector<std::string> errors, warnings;
};
ImportResult import(MLIRContext &context, const ModelConfig &config,
                    const ImportOptions &options);

/// The module's text, with locations or without.
std::string textOf(ModuleOp module, bool locations = false);

func::FuncOp function(ModuleOp module, StringRef name);

/// "kind name: type", one for each argument, then one for each result.
std::vector<std::string> signature(func::FuncOp function);

} // namespace mlir::heddle::test

#endif // HEDDLE_TEST_UNIT_IMPORT_TESTSUPPORT_H
