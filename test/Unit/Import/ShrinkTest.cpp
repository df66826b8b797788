//===- ShrinkTest.cpp - Small models of the same make ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::test;

// What divides the large model divides the small one.
TEST(Shrink, KeepsWhatDivides) {
  struct Case {
    const char *name;
    int64_t hidden, intermediate, vocabulary;
  };
  const Case cases[] = {
      {"llama-2-7b", 256, 32 * 43, 96},      {"llama-3.1-8b", 256, 32 * 7, 96},
      {"llama-3.1-405b", 1024, 32 * 13, 96}, {"llama-3.2-1b", 256, 32, 96},
      {"qwen2-0.5b", 112, 32 * 19, 96},      {"qwen2-7b", 224, 32 * 37, 96},
      {"qwen3-0.6b", 64, 32 * 3, 96},        {"qwen3-32b", 320, 32 * 25, 96},
  };
  for (const Case &entry : cases) {
    ModelConfig large =
        *readPath(golden("configs/") + entry.name + ".json").config;
    ModelConfig small = shrink(large);
    EXPECT_EQ(small.hidden, entry.hidden) << entry.name;
    EXPECT_EQ(small.intermediate, entry.intermediate) << entry.name;
    EXPECT_EQ(small.vocabulary, entry.vocabulary) << entry.name;
    EXPECT_EQ(small.layers, 2);
    EXPECT_EQ(small.headDim, 8);
    EXPECT_EQ(small.rotaryDim, 8);
    EXPECT_EQ(small.heads, large.heads);
    EXPECT_EQ(small.kvHeads, large.kvHeads);
    EXPECT_EQ(small.tiedEmbeddings, large.tiedEmbeddings);
    EXPECT_EQ(small.qkvBias, large.qkvBias);
    EXPECT_EQ(small.qkNorm, large.qkNorm);
    EXPECT_EQ(small.heads * small.headDim == small.hidden,
              large.heads * large.headDim == large.hidden);
    EXPECT_LT(small.parameterCount(), 20000000);
  }
}

TEST(Shrink, OddSizes) {
  ModelConfig config =
      *readLlama({{"vocab_size", "50257"}, {"intermediate_size", "20018"}})
           .config;
  // 20018 = 2 * 10009, a prime.
  EXPECT_EQ(shrink(config).intermediate, 2 * 37);
  EXPECT_EQ(shrink(config).vocabulary, 96 + 17);
  // 2 * 3 * 5 * 7 * 11 = 2310.
  config.intermediate = 2310;
  EXPECT_EQ(shrink(config).intermediate, 2 * 15);
}

TEST(Shrink, KeepsEachKindTwice) {
  ModelConfig config = *readLlama({{"model_type", "\"qwen2\""},
                                   {"num_hidden_layers", "8"},
                                   {"sliding_window", "4096"},
                                   {"use_sliding_window", "true"},
                                   {"max_window_layers", "5"}})
                            .config;
  ModelConfig small = shrink(config);
  EXPECT_EQ(small.layers, 4);
  EXPECT_EQ(small.windowLayers, std::vector<bool>({0, 0, 1, 1}));
  EXPECT_EQ(small.window, 5);
}

TEST(Shrink, IsIdempotent) {
  for (const char *name : {"llama-2-7b", "qwen3-32b", "mistral-7b-v0.1"}) {
    ModelConfig once =
        shrink(*readPath(golden("configs/") + name + ".json").config);
    ModelConfig twice = shrink(once);
    EXPECT_EQ(twice.parameterCount(), once.parameterCount());
    EXPECT_EQ(twice.window, once.window);
  }
}
