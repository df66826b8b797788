//===- Import.h - Model descriptions to MLIR --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads a model's description (a Hugging Face config.json or folder, or the
// metadata of a GGUF file) and builds the global program in the heddle dialect.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_IMPORT_IMPORT_H
#define HEDDLE_IMPORT_IMPORT_H

#include "heddle/Dialect/Heddle/IR/HeddleDialect.h"

#include <string>
#include <utility>
#include <vector>

namespace mlir::heddle {

/// A decoder of the Llama family (Llama, Mistral, Qwen2, Qwen3).
struct ModelConfig {
  std::string modelType;
  int64_t hidden = 0, intermediate = 0, layers = 0;
  int64_t heads = 0, kvHeads = 0, headDim = 0;
  int64_t vocabulary = 0, maxPositions = 0;
  double normEps = 1e-6;
  bool tiedEmbeddings = false;
  bool qkvBias = false, outputBias = false, mlpBias = false, qkNorm = false;
  /// 0 = none; otherwise on layers that `windowLayers` marks (all if empty).
  int64_t window = 0;
  std::vector<bool> windowLayers;
  /// What else attention does (see AttentionOp): no key of a model that is read
  /// says so yet, but `--attention` does. Linear biases take the place of
  /// rotary embeddings.
  double softCap = 0;
  bool sinks = false, alibi = false;
  GluKind activation = GluKind::Silu;
  /// Rotary dimension and frequencies (see RopeAttr).
  int64_t rotaryDim = 0;
  double ropeTheta = 10000;
  RopeScaling ropeScaling = RopeScaling::None;
  double ropeFactor = 1, ropeLow = 1, ropeHigh = 1;
  int64_t ropeOriginal = 0;
  /// Type that `--weights keep` gives each stored parameter ("bf16", "q4_k"),
  /// by its Hugging Face name with the layer's number, for GGUF files too;
  /// `defaultWeight` where the file is not there to ask.
  std::vector<std::pair<std::string, std::string>> storedTypes;
  std::string defaultWeight = "f32";
  /// Where keys came from, for messages.
  std::string source;
  /// What the source calls the sizes that a mesh cuts.
  struct {
    std::string heads = "num_attention_heads", kvHeads = "num_key_value_heads";
    std::string intermediate = "intermediate_size", vocabulary = "vocab_size";
  } keys;

  /// Parameters, tied ones once.
  int64_t parameterCount() const;
};

/// Reads PATH (config.json, a folder that holds one, or .gguf). All problems
/// are reported together as errors at `loc`, each with its key and value. Keys
/// without a known meaning give one warning that lists them.
FailureOr<ModelConfig> readModelConfig(StringRef path, Location loc);

/// Keeps head counts, ratios and divisibility; makes layers and widths small
/// (rules: lib/Import/Shrink.cpp).
ModelConfig shrink(const ModelConfig &config);

struct ImportOptions {
  /// "forward" or "generate".
  std::string program = "generate";
  int64_t batch = 1;
  /// Tokens of a forward; capacity of the cache for generate.
  int64_t sequence = 512;
  /// Most rows of a prefill chunk (generate), a multiple of nothing; see
  /// prefillPrograms.
  int64_t chunk = 128;
  /// Tokens in a cache block.
  int64_t blockSize = 16;
  /// forward: "logits", "last" or "hidden".
  std::string output = "logits";
  /// forward: sequences are documents of at most this many tokens, packed one
  /// after the other; 0: each is one document.
  int64_t packed = 0;
  /// forward: positions may be any; otherwise they promise to follow one
  /// another within a document (see ConsecutiveAttr).
  bool anyPositions = false;
  /// "keep", "f32", "bf16" or "q8_0".
  std::string weights = "f32";
  /// Mesh axes in rank order.
  std::vector<std::pair<std::string, int64_t>> mesh;
};

/// A program that takes `rows` tokens of each sequence.
struct PrefillProgram {
  std::string name;
  int64_t rows;
};
/// The prefill programs of a model: @prefill takes `chunk` rows, and, so that a
/// short prompt does not pay for a long one, @prefill_R a quarter of those, and
/// so on, down to no fewer than 8. The largest comes first.
std::vector<PrefillProgram> prefillPrograms(int64_t chunk);

/// On the module, an array of strings: what the import decided that a person
/// may want to know, such as a stack whose layers are stored in several types
/// and compiled in one. Not there if there is nothing.
inline constexpr llvm::StringLiteral kNotesAttr = "heddle.notes";

/// Builds the module: a `heddle.mesh @mesh` and one function per program
/// variant (@forward, or prefillPrograms and @decode). Arguments are inputs,
/// parameters, states; results are outputs, then the states in the same order.
/// Wrong options are reported together, as errors without a location.
FailureOr<OwningOpRef<ModuleOp>> importModel(MLIRContext *context,
                                             const ModelConfig &config,
                                             const ImportOptions &options);

} // namespace mlir::heddle

#endif // HEDDLE_IMPORT_IMPORT_H
