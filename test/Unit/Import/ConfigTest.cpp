//===- ConfigTest.cpp - Reading config.json -------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "gtest/gtest.h"
#include <sys/stat.h>

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::test;
using Lines = std::vector<std::string>;

// Counts worked out from the config files alone, by another program.
TEST(Config, ParameterCountsAreGolden) {
  const std::pair<const char *, int64_t> counts[] = {
      {"llama-2-7b", 6738415616},      {"llama-2-70b", 68976648192},
      {"llama-3.1-8b", 8030261248},    {"llama-3.1-405b", 405853388800},
      {"llama-3.2-1b", 1235814400},    {"mistral-7b-v0.1", 7241732096},
      {"mistral-7b-v0.3", 7248023552}, {"qwen2-0.5b", 494032768},
      {"qwen2-7b", 7615616512},        {"qwen3-0.6b", 596049920},
      {"qwen3-32b", 32762123264},
  };
  for (const auto &[name, count] : counts) {
    ReadResult result = readPath(golden("configs/") + name + ".json");
    ASSERT_TRUE(result.config) << name << ": " << result.errors.front();
    EXPECT_EQ(result.config->parameterCount(), count) << name;
    EXPECT_EQ(result.warnings, Lines()) << name;
  }
}

// A normalised reading of each family, key by key.
TEST(Config, Llama31) {
  ModelConfig c = *readPath(golden("configs/llama-3.1-8b.json")).config;
  EXPECT_EQ(c.modelType, "llama");
  EXPECT_EQ(c.hidden, 4096);
  EXPECT_EQ(c.intermediate, 14336);
  EXPECT_EQ(c.layers, 32);
  EXPECT_EQ(c.heads, 32);
  EXPECT_EQ(c.kvHeads, 8);
  EXPECT_EQ(c.headDim, 128);
  EXPECT_EQ(c.rotaryDim, 128);
  EXPECT_EQ(c.vocabulary, 128256);
  EXPECT_EQ(c.maxPositions, 131072);
  EXPECT_EQ(c.normEps, 1e-5);
  EXPECT_FALSE(c.tiedEmbeddings || c.qkvBias || c.outputBias || c.mlpBias ||
               c.qkNorm);
  EXPECT_EQ(c.window, 0);
  EXPECT_EQ(c.activation, GluKind::Silu);
  EXPECT_EQ(c.ropeTheta, 500000);
  EXPECT_EQ(c.ropeScaling, RopeScaling::Llama3);
  EXPECT_EQ(c.ropeFactor, 8);
  EXPECT_EQ(c.ropeLow, 1);
  EXPECT_EQ(c.ropeHigh, 4);
  EXPECT_EQ(c.ropeOriginal, 8192);
  EXPECT_EQ(c.defaultWeight, "bf16");
}

TEST(Config, OthersDifferWhereTheyShould) {
  ModelConfig llama2 = *readPath(golden("configs/llama-2-7b.json")).config;
  EXPECT_EQ(llama2.ropeTheta, 10000);
  EXPECT_EQ(llama2.ropeScaling, RopeScaling::None);
  EXPECT_EQ(llama2.defaultWeight, "f16");
  EXPECT_TRUE(
      readPath(golden("configs/llama-3.2-1b.json")).config->tiedEmbeddings);
  EXPECT_EQ(readPath(golden("configs/mistral-7b-v0.1.json")).config->window,
            4096);
  EXPECT_EQ(readPath(golden("configs/mistral-7b-v0.3.json")).config->window, 0);
  // Biases that no key names; a window that is switched off.
  ModelConfig qwen2 = *readPath(golden("configs/qwen2-7b.json")).config;
  EXPECT_TRUE(qwen2.qkvBias && !qwen2.outputBias && !qwen2.qkNorm);
  EXPECT_EQ(qwen2.window, 0);
  ModelConfig qwen3 = *readPath(golden("configs/qwen3-0.6b.json")).config;
  EXPECT_TRUE(qwen3.qkNorm && !qwen3.qkvBias);
  EXPECT_EQ(qwen3.headDim, 128);
  EXPECT_EQ(qwen3.hidden, 1024);
}

// Written by transformers 5, with rope_parameters and layer_types.
TEST(Config, TinyModels) {
  ModelConfig llama = *readPath(golden("tiny-llama")).config;
  EXPECT_EQ(llama.ropeTheta, 500);
  EXPECT_EQ(llama.ropeScaling, RopeScaling::Llama3);
  EXPECT_EQ(llama.ropeOriginal, 128);
  EXPECT_EQ(llama.storedTypes.size(), 21u);
  EXPECT_EQ(llama.storedTypes.front(),
            std::make_pair(std::string("lm_head.weight"), std::string("f32")));
  EXPECT_EQ(readPath(golden("tiny-mistral")).config->window, 5);
  EXPECT_EQ(readPath(golden("tiny-qwen2")).config->window, 0);
  EXPECT_EQ(readPath(golden("tiny-qwen3")).config->headDim, 10);
}

// A12 and U1.
TEST(Config, HeadDim) {
  EXPECT_EQ(readLlama({{"hidden_size", "64"},
                       {"num_attention_heads", "12"},
                       {"num_key_value_heads", "null"}})
                .errors,
            Lines({"'hidden_size': expected a multiple of "
                   "'num_attention_heads' (12) or an explicit 'head_dim', got "
                   "64"}));
  ReadResult explicitDim = readLlama({{"hidden_size", "64"},
                                      {"num_attention_heads", "12"},
                                      {"num_key_value_heads", ""},
                                      {"head_dim", "6"}});
  ASSERT_TRUE(explicitDim.config);
  EXPECT_EQ(explicitDim.config->heads * explicitDim.config->headDim, 72);
  EXPECT_EQ(explicitDim.config->kvHeads, 12);
  EXPECT_EQ(readLlama({{"head_dim", "7"}}).errors,
            Lines({"'head_dim': expected an even number for rotary positions, "
                   "got 7"}));
  EXPECT_EQ(readLlama({{"head_dim", "null"}}).config->headDim, 8);
  EXPECT_EQ(readLlama({{"model_type", "\"qwen3\""}}).errors,
            Lines({"'head_dim': expected a value, since Qwen3's default of 128 "
                   "is not hidden_size / num_attention_heads (8), got "
                   "nothing"}));
}

TEST(Config, HeadCounts) {
  EXPECT_EQ(readLlama({{"num_key_value_heads", "3"}}).errors,
            Lines({"'num_attention_heads': expected a multiple of "
                   "'num_key_value_heads' (3), got 4"}));
  EXPECT_EQ(readLlama({{"num_kv_heads", "4"}}).errors,
            Lines({"'num_kv_heads': expected the value of "
                   "'num_key_value_heads', 2, got 4"}));
}

TEST(Config, ModelTypes) {
  EXPECT_EQ(
      readLlama({{"model_type", "\"gpt2\""}, {"vocab_size", "-1"}}).errors,
      Lines({"'model_type': expected llama, mistral, qwen2 or qwen3, got "
             "\"gpt2\""}));
  EXPECT_EQ(readLlama({{"model_type", ""}}).errors,
            Lines({"'model_type': expected llama, mistral, qwen2 or qwen3, got "
                   "nothing"}));
  EXPECT_EQ(
      readLlama({{"architectures", "[\"LlamaForSequenceClassification\"]"}})
          .errors,
      Lines({"'architectures': expected [\"LlamaForCausalLM\"] for model_type "
             "\"llama\", got [\"LlamaForSequenceClassification\"]"}));
}

// All problems come at once, each with its key and value.
TEST(Config, ProblemsAreReportedTogether) {
  EXPECT_EQ(readLlama({{"hidden_size", "\"big\""},
                       {"num_hidden_layers", "5000"},
                       {"vocab_size", ""},
                       {"rms_norm_eps", "-1"},
                       {"tie_word_embeddings", "\"yes\""},
                       {"hidden_act", "\"mish\""},
                       {"torch_dtype", "\"float8\""},
                       {"num_local_experts", "8"},
                       {"partial_rotary_factor", "0.5"}})
                .errors,
            Lines({
                "'hidden_size': expected a whole number from 1 to 1048576, got "
                "\"big\"",
                "'num_hidden_layers': expected a whole number from 1 to 4096, "
                "got 5000",
                "'vocab_size': expected a whole number from 1 to 16777216, got "
                "nothing",
                "'rms_norm_eps': expected a positive number, got -1",
                "'tie_word_embeddings': expected true or false, got \"yes\"",
                "'hidden_act': expected silu, swish, gelu, gelu_pytorch_tanh, "
                "gelu_new, gelu_fast or relu, got \"mish\"",
                "'torch_dtype': expected float32, float16 or bfloat16, got "
                "\"float8\"",
                "'num_local_experts': expected no such key for llama, got 8",
                "'partial_rotary_factor': expected 1 or no such key for llama, "
                "got 0.5",
            }));
}

TEST(Config, NumbersAreBounded) {
  for (const char *value : {"0", "-4", "1e3", "18446744073709551615",
                            "99999999999999999999", "4.0", "true", "[4]"}) {
    ReadResult result = readLlama({{"num_hidden_layers", value}});
    ASSERT_EQ(result.errors.size(), 1u) << value;
    EXPECT_EQ(result.errors[0].find("'num_hidden_layers': expected a whole "
                                    "number from 1 to 4096, got "),
              0u)
        << result.errors[0];
  }
  EXPECT_EQ(readLlama({{"head_dim", "16384"},
                       {"num_attention_heads", "16384"},
                       {"num_key_value_heads", "2"}})
                .errors,
            Lines({"'head_dim': expected at most 1048576 / "
                   "'num_attention_heads' (16384), got 16384"}));
  // The largest that passes does not overflow.
  ReadResult largest = readLlama({{"hidden_size", "1048576"},
                                  {"intermediate_size", "1048576"},
                                  {"num_hidden_layers", "4096"},
                                  {"num_attention_heads", "64"},
                                  {"num_key_value_heads", "64"},
                                  {"vocab_size", "16777216"}});
  ASSERT_TRUE(largest.config);
  EXPECT_GT(largest.config->parameterCount(), int64_t(1) << 54);
}

// F7: both spellings and the newer object; never ignored.
TEST(Config, RotaryScaling) {
  const char *llama3 =
      "{\"factor\": 8.0, \"low_freq_factor\": 1, \"high_freq_factor\": 4.0, "
      "\"original_max_position_embeddings\": 8192, ";
  for (const char *key : {"type", "rope_type"}) {
    std::string text = llama3 + ("\"" + std::string(key)) + "\": \"llama3\"}";
    ReadResult result = readLlama({{"rope_scaling", text}});
    ASSERT_TRUE(result.config);
    EXPECT_EQ(result.config->ropeScaling, RopeScaling::Llama3);
    EXPECT_EQ(result.config->ropeOriginal, 8192);
  }
  ReadResult linear = readLlama(
      {{"rope_parameters", "{\"rope_type\": \"linear\", \"factor\": 2, "
                           "\"rope_theta\": 77}"}});
  ASSERT_TRUE(linear.config);
  EXPECT_EQ(linear.config->ropeScaling, RopeScaling::Linear);
  EXPECT_EQ(linear.config->ropeFactor, 2);
  EXPECT_EQ(linear.config->ropeTheta, 77);
  EXPECT_EQ(readLlama({{"rope_scaling", "{\"type\": \"default\"}"}})
                .config->ropeScaling,
            RopeScaling::None);
}

TEST(Config, RotaryScalingRefused) {
  EXPECT_EQ(
      readLlama({{"rope_scaling", "{\"rope_type\": \"foo\", \"factor\": 2}"}})
          .errors,
      Lines({"'rope_scaling.rope_type': expected \"default\", \"linear\" or "
             "\"llama3\", got \"foo\""}));
  EXPECT_EQ(readLlama({{"rope_scaling", "{\"type\": \"yarn\"}"}}).errors,
            Lines({"'rope_scaling.type': expected \"default\", \"linear\" or "
                   "\"llama3\", got \"yarn\""}));
  EXPECT_EQ(readLlama({{"rope_scaling", "{\"factor\": 2}"}}).errors,
            Lines({"'rope_scaling.rope_type': expected \"default\", "
                   "\"linear\" or \"llama3\", got nothing"}));
  EXPECT_EQ(readLlama({{"rope_scaling", "{\"rope_type\": \"llama3\", "
                                        "\"low_freq_factor\": 4, "
                                        "\"high_freq_factor\": 1}"}})
                .errors,
            Lines({"'rope_scaling.factor': expected a positive number, got "
                   "nothing",
                   "'rope_scaling.original_max_position_embeddings': expected "
                   "a whole number from 1 to 2147483648, got nothing",
                   "'rope_scaling.high_freq_factor': expected more than "
                   "low_freq_factor 4, got 1"}));
  EXPECT_EQ(readLlama({{"rope_scaling", "{\"rope_type\": \"linear\", "
                                        "\"factor\": 2, \"beta_fast\": 32}"}})
                .errors,
            Lines({"'rope_scaling.beta_fast': expected no such key for rotary "
                   "type \"linear\", got 32"}));
  EXPECT_EQ(readLlama({{"rope_scaling", "{\"rope_type\": \"default\", "
                                        "\"factor\": 8}"}})
                .errors,
            Lines({"'rope_scaling.factor': expected no such key for rotary "
                   "type \"default\", got 8"}));
  EXPECT_EQ(readLlama({{"rope_theta", "5"},
                       {"rope_parameters", "{\"rope_theta\": 6}"}})
                .errors,
            Lines({"'rope_theta': expected the value of "
                   "'rope_parameters.rope_theta', 6, got 5"}));
  // Both objects, of which only the older has a base.
  EXPECT_EQ(readLlama({{"rope_theta", "5"},
                       {"rope_scaling", "{\"rope_theta\": 7}"},
                       {"rope_parameters", "{\"rope_type\": \"default\"}"}})
                .errors,
            Lines({"'rope_theta': expected the value of "
                   "'rope_scaling.rope_theta', 7, got 5"}));
  EXPECT_EQ(readLlama({{"rope_theta", "5"},
                       {"rope_scaling", "{\"rope_theta\": 7}"},
                       {"rope_parameters", "3"}})
                .errors,
            Lines({"'rope_theta': expected the value of "
                   "'rope_scaling.rope_theta', 7, got 5",
                   "'rope_parameters': expected an object or null, got 3"}));
  EXPECT_EQ(readLlama({{"rope_scaling", "{\"rope_theta\": 7}"},
                       {"rope_parameters", "{\"rope_theta\": 8}"}})
                .errors,
            Lines({"'rope_parameters': expected what 'rope_scaling' says, "
                   "{\"rope_theta\":7}, got {\"rope_theta\":8}"}));
}

TEST(Config, Windows) {
  auto qwen2 = [](Changes changes) {
    changes.insert(changes.end(),
                   {{"model_type", "\"qwen2\""}, {"num_hidden_layers", "4"}});
    return readLlama(changes);
  };
  // Present, and off.
  EXPECT_EQ(qwen2({{"sliding_window", "8"}}).config->window, 0);
  // On from a layer.
  ModelConfig mixed = *qwen2({{"sliding_window", "8"},
                              {"use_sliding_window", "true"},
                              {"max_window_layers", "3"}})
                           .config;
  EXPECT_EQ(mixed.window, 8);
  EXPECT_EQ(mixed.windowLayers, std::vector<bool>({0, 0, 0, 1}));
  // The default of max_window_layers leaves none.
  EXPECT_EQ(qwen2({{"sliding_window", "8"}, {"use_sliding_window", "true"}})
                .config->window,
            0);
  // layer_types decides.
  ModelConfig listed =
      *qwen2({{"sliding_window", "8"},
              {"use_sliding_window", "true"},
              {"layer_types", "[\"sliding_attention\", \"full_attention\", "
                              "\"sliding_attention\", \"full_attention\"]"}})
           .config;
  EXPECT_EQ(listed.windowLayers, std::vector<bool>({1, 0, 1, 0}));
  EXPECT_EQ(qwen2({{"layer_types", "[\"full_attention\"]"}}).errors,
            Lines({"'layer_types': expected an array of 4 entries, one per "
                   "layer, got [\"full_attention\"]"}));
  EXPECT_EQ(qwen2({{"use_sliding_window", "true"}}).errors,
            Lines({"'sliding_window': expected a whole number, since "
                   "'use_sliding_window' is true, got nothing"}));
  EXPECT_EQ(readLlama({{"sliding_window", "8"}}).errors,
            Lines({"'sliding_window': expected null for llama (mistral is the "
                   "model_type with windows), got 8"}));
  auto mistral = [](const char *window) {
    return readLlama(
        {{"model_type", "\"mistral\""}, {"sliding_window", window}});
  };
  EXPECT_EQ(mistral("null").config->window, 0);
  EXPECT_EQ(mistral("7").config->window, 7);
  EXPECT_TRUE(mistral("7").config->windowLayers.empty());
  // The class's default, unlike null.
  EXPECT_EQ(mistral("").config->window, 4096);
}

TEST(Config, BiasesActivationsTies) {
  ModelConfig c = *readLlama({{"attention_bias", "true"},
                              {"mlp_bias", "true"},
                              {"hidden_act", "\"gelu_pytorch_tanh\""},
                              {"tie_word_embeddings", "true"}})
                       .config;
  EXPECT_TRUE(c.qkvBias && c.outputBias && c.mlpBias && c.tiedEmbeddings);
  EXPECT_EQ(c.activation, GluKind::GeluTanh);
  EXPECT_FALSE(readLlama().config->tiedEmbeddings);
  EXPECT_EQ(
      readLlama({{"model_type", "\"qwen2\""}, {"mlp_bias", "true"}}).errors,
      Lines({"'mlp_bias': expected false for qwen2, got true"}));
  EXPECT_EQ(
      readLlama({{"hidden_activation", "\"gelu\""}, {"hidden_act", "\"silu\""}})
          .errors,
      Lines({"'hidden_activation': expected the value of 'hidden_act', "
             "\"silu\", got \"gelu\""}));
}

TEST(Config, UnknownKeysAreNamed) {
  ReadResult result = readLlama({{"flux_capacitor", "3"},
                                 {"_attn", "1"},
                                 {"use_cache", "true"},
                                 {"nothing", "null"}});
  EXPECT_TRUE(result.config);
  EXPECT_EQ(result.warnings, Lines({"keys without a known meaning are ignored: "
                                    "'flux_capacitor'"}));
}

TEST(Config, MalformedFiles) {
  EXPECT_EQ(readText("{").errors,
            Lines({"expected a JSON object, got malformed JSON"}));
  EXPECT_EQ(readText("").errors,
            Lines({"expected a JSON object, got malformed JSON"}));
  EXPECT_EQ(readText("[1]").errors, Lines({"expected a JSON object, got [1]"}));
  EXPECT_EQ(readText("{\"a\": \"\xff\"}").errors,
            Lines({"expected a JSON object, got malformed JSON"}));
  EXPECT_EQ(readText("{\"a\": 1e999}").errors,
            Lines({"expected a JSON object, got malformed JSON"}));
  std::string deep(100000, '[');
  EXPECT_EQ(readText("{\"a\": " + deep + std::string(100000, ']') + "}").errors,
            Lines({"expected JSON nested at most 32 deep, got more"}));
  EXPECT_EQ(readText("{\"vocab_size\": 1, \"vocab_size\": 2}").errors,
            Lines({"'vocab_size': expected the key once, got it twice"}));
  EXPECT_EQ(readText(std::string((16 << 20) + 1, ' ')).errors,
            Lines({"expected a config.json of at most 16777216 bytes, got "
                   "16777217"}));
}

TEST(Config, Paths) {
  EXPECT_EQ(readPath("/nonexistent/config.json").errors,
            Lines({"cannot be read: No such file or directory"}));
  ::heddle::rt::test::TempFolder folder;
  EXPECT_EQ(readPath(folder.path()).errors,
            Lines({"expected a config.json or one .gguf model in this folder, "
                   "got neither"}));
  folder.write("config.json", llamaText());
  EXPECT_TRUE(readPath(folder.path()).config);
  std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(readPath(pipe).errors,
            Lines({"expected a file, a folder with a config.json, or a .gguf "
                   "file, got something else"}));
}

// C2: a head that is not there is no head of zeros.
TEST(Config, UntiedNeedsAHead) {
  ::heddle::rt::test::TempFolder folder;
  folder.write("model.safetensors",
               ::heddle::rt::test::safetensors({{"other", {1}}}));
  folder.write("config.json", llamaText());
  EXPECT_EQ(readPath(folder.path()).errors,
            Lines({"'tie_word_embeddings': expected true for weights without "
                   "lm_head.weight, got false"}));
  folder.write("config.json", llamaText({{"tie_word_embeddings", "true"}}));
  EXPECT_TRUE(readPath(folder.path()).config);
}
