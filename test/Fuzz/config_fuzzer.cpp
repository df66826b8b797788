//===- config_fuzzer.cpp - Fuzzes the reader of config.json ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whatever is accepted is a model: its parameters can be counted, and a small
// one of its make can be imported.
//
//===----------------------------------------------------------------------===//

#include "../../lib/Import/ConfigReader.h"

#include <cstdlib>

using namespace mlir;
using namespace mlir::heddle;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ModelConfig config;
  Problems problems("input");
  readHfConfig(StringRef(reinterpret_cast<const char *>(data), size), config,
               problems);
  if (!problems.empty())
    return 0;
  if (config.parameterCount() < 1)
    std::abort();
  ModelConfig small = shrink(config);
  // Shrinking keeps head counts and kinds of layers, which may be thousands.
  if (small.heads > 64 || small.layers > 8)
    return 0;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  ImportOptions options;
  options.sequence = 8;
  options.chunk = 4;
  options.mesh = {{"tp", 2}};
  if (failed(importModel(&context, small, options)))
    std::abort();
  return 0;
}
