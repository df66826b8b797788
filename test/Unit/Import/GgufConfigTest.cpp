//===- GgufConfigTest.cpp - Reading GGUF metadata -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "gtest/gtest.h"

#include <cmath>
#include <map>

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::test;
using ::heddle::rt::test::bytesOf;
using ::heddle::rt::test::GgufBuilder;
using ::heddle::rt::test::TempFolder;
using Lines = std::vector<std::string>;

namespace {

/// A tiny model of hidden 32, 4 heads, 2 kv heads, 64 intermediate, 2 layers,
/// 96 rows of vocabulary; tests change it before it is built.
struct TinyGguf {
  std::string architecture = "llama";
  std::map<std::string, uint32_t> integers = {
      {"embedding_length", 32},
      {"feed_forward_length", 64},
      {"block_count", 2},
      {"attention.head_count", 4},
      {"attention.head_count_kv", 2},
      {"context_length", 512},
  };
  std::map<std::string, float> floats = {
      {"attention.layer_norm_rms_epsilon", 1e-5f}};
  std::map<std::string, std::string> strings;
  /// Name to (shape outermost first, type: 0 f32, 1 f16, 2 q4_0, 8 q8_0).
  struct Tensor {
    std::vector<uint64_t> shape;
    uint32_t type = 0;
    std::string data;
  };
  std::map<std::string, Tensor> tensors;

  TinyGguf() {
    tensors["token_embd.weight"] = {{96, 32}, 8, ""};
    tensors["output.weight"] = {{96, 32}, 8, ""};
    tensors["output_norm.weight"] = {{32}, 0, ""};
    for (int i = 0; i < 2; ++i) {
      std::string blk = "blk." + std::to_string(i) + ".";
      tensors[blk + "attn_norm.weight"] = {{32}, 0, ""};
      tensors[blk + "ffn_norm.weight"] = {{32}, 0, ""};
      tensors[blk + "attn_q.weight"] = {{32, 32}, 2, ""};
      tensors[blk + "attn_k.weight"] = {{16, 32}, 2, ""};
      tensors[blk + "attn_v.weight"] = {{16, 32}, 2, ""};
      tensors[blk + "attn_output.weight"] = {{32, 32}, 2, ""};
      tensors[blk + "ffn_gate.weight"] = {{64, 32}, 2, ""};
      tensors[blk + "ffn_up.weight"] = {{64, 32}, 2, ""};
      tensors[blk + "ffn_down.weight"] = {{32, 64}, 2, ""};
    }
  }

  ReadResult read() const {
    GgufBuilder builder;
    builder.string("general.architecture", architecture);
    for (const auto &[key, value] : integers)
      builder.u32(architecture + "." + key, value);
    for (const auto &[key, value] : floats)
      builder.value(architecture + "." + key, 6, bytesOf(value));
    for (const auto &[key, value] : strings)
      builder.string(architecture + "." + key, value);
    for (const auto &[name, tensor] : tensors) {
      uint64_t elements = 1;
      for (uint64_t extent : tensor.shape)
        elements *= extent;
      uint64_t bytes = tensor.type == 0   ? elements * 4
                       : tensor.type == 1 ? elements * 2
                       : tensor.type == 2 ? elements / 32 * 18
                                          : elements / 32 * 34;
      std::string data = tensor.data;
      data.resize(bytes);
      builder.tensor(name, {tensor.shape.rbegin(), tensor.shape.rend()},
                     tensor.type, data);
    }
    TempFolder folder;
    return readPath(folder.write("model.gguf", builder.build()));
  }
};

/// What llama.cpp's converter stores for Llama 3.1's scaling.
std::string frequencyFactors(double theta, int64_t dim, double factor,
                             double original) {
  std::vector<float> factors;
  for (int64_t i = 0; i < dim / 2; ++i) {
    double wavelength = 2 * M_PI * std::pow(theta, 2.0 * i / dim);
    if (wavelength < original / 4) {
      factors.push_back(1);
    } else if (wavelength > original) {
      factors.push_back(static_cast<float>(factor));
    } else {
      double smooth = (original / wavelength - 1) / 3;
      factors.push_back(
          static_cast<float>(1 / ((1 - smooth) / factor + smooth)));
    }
  }
  return bytesOf(factors);
}

} // namespace

// P8: no tokenizer, no general.name: a compiler needs neither.
TEST(GgufConfig, Llama) {
  ReadResult result = TinyGguf().read();
  ASSERT_TRUE(result.config) << result.errors.front();
  const ModelConfig &c = *result.config;
  EXPECT_EQ(c.modelType, "llama");
  EXPECT_EQ(c.hidden, 32);
  EXPECT_EQ(c.intermediate, 64);
  EXPECT_EQ(c.layers, 2);
  EXPECT_EQ(c.heads, 4);
  EXPECT_EQ(c.kvHeads, 2);
  EXPECT_EQ(c.headDim, 8);
  EXPECT_EQ(c.rotaryDim, 8);
  EXPECT_EQ(c.vocabulary, 96);
  EXPECT_EQ(c.maxPositions, 512);
  EXPECT_EQ(c.normEps, 1e-5); // Not 9.99999975e-6.
  EXPECT_EQ(c.ropeTheta, 10000);
  EXPECT_FALSE(c.tiedEmbeddings || c.qkvBias || c.outputBias || c.mlpBias ||
               c.qkNorm);
  EXPECT_EQ(c.defaultWeight, "q4_0");
  EXPECT_EQ(c.storedTypes.size(), 21u);
  EXPECT_TRUE(llvm::is_contained(
      c.storedTypes, std::make_pair(std::string("model.embed_tokens.weight"),
                                    std::string("q8_0"))));
  EXPECT_TRUE(llvm::is_contained(
      c.storedTypes,
      std::make_pair(std::string("model.layers.1.mlp.down_proj.weight"),
                     std::string("q4_0"))));
}

TEST(GgufConfig, TensorsDecideTiesBiasesAndNorms) {
  TinyGguf file;
  file.architecture = "qwen3";
  file.tensors.erase("output.weight");
  file.floats["rope.freq_base"] = 1e6f;
  file.integers["attention.key_length"] = 16;
  for (const char *blk : {"blk.0.", "blk.1."}) {
    std::string prefix = blk;
    file.tensors[prefix + "attn_q_norm.weight"] = {{16}, 0, ""};
    file.tensors[prefix + "attn_k_norm.weight"] = {{16}, 0, ""};
    file.tensors[prefix + "attn_q.weight"].shape = {64, 32};
    file.tensors[prefix + "attn_k.weight"].shape = {32, 32};
    file.tensors[prefix + "attn_v.weight"].shape = {32, 32};
    file.tensors[prefix + "attn_output.weight"].shape = {32, 64};
    file.tensors[prefix + "attn_q.bias"] = {{64}, 0, ""};
    file.tensors[prefix + "attn_k.bias"] = {{32}, 0, ""};
    file.tensors[prefix + "attn_v.bias"] = {{32}, 0, ""};
  }
  ReadResult result = file.read();
  ASSERT_TRUE(result.config) << result.errors.front();
  EXPECT_TRUE(result.config->tiedEmbeddings && result.config->qkvBias &&
              result.config->qkNorm && !result.config->outputBias);
  EXPECT_EQ(result.config->headDim, 16);
  EXPECT_EQ(result.config->ropeTheta, 1e6);
}

TEST(GgufConfig, KeysAreChecked) {
  TinyGguf file;
  file.architecture = "phi3";
  EXPECT_EQ(file.read().errors,
            Lines({"'general.architecture': expected llama, qwen2 or qwen3, "
                   "got \"phi3\""}));
  file = TinyGguf();
  file.integers["block_count"] = 100000;
  file.integers["expert_count"] = 8;
  file.integers["rope.dimension_count"] = 4;
  file.integers["attention.value_length"] = 6;
  file.integers.erase("feed_forward_length");
  file.strings["rope.scaling.type"] = "yarn";
  EXPECT_EQ(
      file.read().errors,
      Lines({"'llama.feed_forward_length': expected a whole number from 1 to "
             "1048576, got nothing",
             "'llama.block_count': expected a whole number from 1 to 4096, got "
             "100000",
             "'llama.attention.value_length': expected the head width 8, got 6",
             "'llama.rope.dimension_count': expected the head width 8, got 4",
             "'llama.rope.scaling.type': expected \"none\" or \"linear\", got "
             "\"yarn\"",
             "'llama.expert_count': expected 0 or no such key, got 8"}));
}

TEST(GgufConfig, TensorsAreChecked) {
  TinyGguf file;
  file.tensors["blk.1.attn_k.weight"].shape = {32, 32};
  file.tensors["blk.0.ffn_gate_inp.weight"] = {{8, 32}, 0, ""};
  file.tensors.erase("blk.0.ffn_up.weight");
  EXPECT_EQ(file.read().errors,
            Lines({"'blk.1.attn_k.weight': expected shape 16x32, got 32x32",
                   "'blk.0.ffn_up.weight': expected a tensor of shape 64x32, "
                   "got none",
                   "'blk.0.ffn_gate_inp.weight': expected no such tensor in a "
                   "llama model, got one of shape 8x32"}));
}

TEST(GgufConfig, LinearScaling) {
  TinyGguf file;
  file.floats["rope.scaling.factor"] = 4;
  file.strings["rope.scaling.type"] = "linear";
  ReadResult result = file.read();
  ASSERT_TRUE(result.config);
  EXPECT_EQ(result.config->ropeScaling, RopeScaling::Linear);
  EXPECT_EQ(result.config->ropeFactor, 4);
}

// F7 in GGUF: the rule is recognised by its result.
TEST(GgufConfig, Llama3Scaling) {
  TinyGguf file;
  file.floats["rope.freq_base"] = 500000;
  file.tensors["rope_freqs.weight"] = {
      {4}, 0, frequencyFactors(500000, 8, 32, 8192)};
  ReadResult result = file.read();
  ASSERT_TRUE(result.config) << result.errors.front();
  EXPECT_EQ(result.config->ropeScaling, RopeScaling::Llama3);
  EXPECT_EQ(result.config->ropeFactor, 32);
  EXPECT_EQ(result.config->ropeLow, 1);
  EXPECT_EQ(result.config->ropeHigh, 4);
  EXPECT_EQ(result.config->ropeOriginal, 8192);
  file.tensors["rope_freqs.weight"].data =
      bytesOf(std::vector<float>{1, 1, 1, 1});
  EXPECT_EQ(file.read().config->ropeScaling, RopeScaling::None);
  file.tensors["rope_freqs.weight"].data =
      bytesOf(std::vector<float>{1, 2, 4, 8});
  EXPECT_EQ(file.read().errors,
            Lines({"'rope_freqs.weight': expected the factors of llama3 "
                   "scaling (low 1, high 4, original 8192), the only ones "
                   "supported, got 2 for 1 at 1"}));
  file.tensors["rope_freqs.weight"].data =
      bytesOf(std::vector<float>{1, NAN, 4, 8});
  EXPECT_EQ(file.read().errors,
            Lines({"'rope_freqs.weight': expected positive factors, got "
                   "others"}));
}

TEST(GgufConfig, BrokenFile) {
  TempFolder folder;
  ReadResult result = readPath(folder.write("model.gguf", "GGUF"));
  EXPECT_EQ(result.errors.size(), 1u);
}
