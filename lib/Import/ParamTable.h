//===- ParamTable.h - The parameters of a decoder ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One table says which parameters a model has, what files call them, their
// shapes, and how random ones are drawn. Counting, building and checking files
// all read it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_PARAMTABLE_H
#define HEDDLE_LIB_IMPORT_PARAMTABLE_H

#include "heddle/Import/Import.h"

namespace mlir::heddle {

enum class ParamId {
  Embedding,
  AttentionNorm,
  Query,
  QueryBias,
  QueryNorm,
  Key,
  KeyBias,
  KeyNorm,
  Value,
  ValueBias,
  Output,
  OutputBias,
  Sinks,
  MlpNorm,
  Gate,
  GateBias,
  Up,
  UpBias,
  Down,
  DownBias,
  FinalNorm,
  Head,
};
constexpr size_t kParamIds = static_cast<size_t>(ParamId::Head) + 1;

enum class ParamRole { Matrix, Norm, Bias };

struct ParamSpec {
  ParamId id;
  ParamRole role;
  /// Hugging Face and GGUF names; "{i}" stands for the layer.
  std::string name, ggufName;
  /// Of one layer.
  SmallVector<int64_t, 2> shape;
  /// GGUF files store the rows interleaved per rotary pair, for this many
  /// heads; 0 if they do not.
  int64_t rotaryHeads = 0;
  /// How random values are drawn.
  double scale = 1, offset = 0;

  bool isLayered() const;
  int64_t elements() const;
};

/// The parameters in the order in which programs take them; a tied head is not
/// one.
std::vector<ParamSpec> listParams(const ModelConfig &config);

/// NAME with "{i}" replaced.
std::string nameOfLayer(StringRef name, int64_t layer);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_IMPORT_PARAMTABLE_H
