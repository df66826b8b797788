//===- ConfigReader.h - Readers of model descriptions -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The readers behind readModelConfig. Each fills what it can of a ModelConfig
// and adds every problem that it finds.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_CONFIGREADER_H
#define HEDDLE_LIB_IMPORT_CONFIGREADER_H

#include "Problems.h"
#include "heddle/Import/Import.h"

#include "llvm/ADT/StringRef.h"

namespace heddle::rt {
class WeightSource;
} // namespace heddle::rt

namespace mlir::heddle {

/// Bounds on what a description may say. Products of any three stay far below
/// 2^63, and so does the parameter count.
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHeads = 1 << 14;
constexpr int64_t kMaxHeadDim = 1 << 14;
constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxVocabulary = 1 << 24;
constexpr int64_t kMaxPositions = int64_t(1) << 31;

/// Reads the text of a Hugging Face config.json.
void readHfConfig(StringRef text, ModelConfig &config, Problems &problems);

/// Reads a GGUF model's metadata and tensor list.
void readGgufConfig(const ::heddle::rt::WeightSource &source,
                    ModelConfig &config, Problems &problems);

/// Checks that head counts and widths agree, naming them as the file does.
struct HeadKeys {
  StringRef hidden, heads, kvHeads, headDim;
};
void checkHeads(const ModelConfig &config, const HeadKeys &keys,
                Problems &problems);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_IMPORT_CONFIGREADER_H
