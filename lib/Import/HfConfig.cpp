//===- HfConfig.cpp - Hugging Face config.json ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Defaults are those of the transformers classes LlamaConfig, MistralConfig,
// Qwen2Config and Qwen3Config. A key that changes what a model computes is
// read, or refused unless its value changes nothing; a key that is neither that
// nor known to be harmless gives a warning.
//
//===----------------------------------------------------------------------===//

#include "ConfigReader.h"
#include "JsonObject.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::heddle;

namespace {

/// What one model_type allows and takes for granted.
struct Family {
  StringRef modelType;
  StringRef architecture;
  int64_t maxPositions;
  /// Attention biases that need no key.
  bool qkvBias = false;
  bool qkNorm = false;
  /// Has the key attention_bias, and mlp_bias.
  bool attentionBiasKey = false, mlpBiasKey = false;
};

constexpr Family kFamilies[] = {
    {"llama", "LlamaForCausalLM", 2048, false, false, true, true},
    {"mistral", "MistralForCausalLM", 131072, false, false, false, false},
    {"qwen2", "Qwen2ForCausalLM", 32768, true, false, false, false},
    {"qwen3", "Qwen3ForCausalLM", 32768, false, true, true, false},
};

/// Keys that say nothing about what the model computes.
constexpr StringRef kHarmless[] = {
    "attention_dropout",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chat_template",
    "chunk_size_feed_forward",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "id2label",
    "initializer_range",
    "is_decoder",
    "label2id",
    "length_penalty",
    "max_length",
    "max_window_layers",
    "min_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
};

/// Keys of other models that change the computation, and the one value that
/// does not.
struct Neutral {
  StringRef key;
  /// JSON text.
  StringRef value;
};
constexpr Neutral kNeutral[] = {
    {"add_cross_attention", "false"},
    {"alibi", "false"},
    {"attention_chunk_size", "0"},
    {"attention_multiplier", "1"},
    {"attn_logit_softcapping", "0"},
    {"bias", "false"},
    {"clip_qkv", "0"},
    {"cross_attention_hidden_size", "0"},
    {"embedding_multiplier", "1"},
    {"final_logit_softcapping", "0"},
    {"is_encoder_decoder", "false"},
    {"kv_lora_rank", "0"},
    {"logit_scale", "1"},
    {"logits_scaling", "1"},
    {"moe_intermediate_size", "0"},
    {"multi_query", "false"},
    {"n_routed_experts", "0"},
    {"n_shared_experts", "0"},
    {"no_rope_layers", "0"},
    {"num_experts", "0"},
    {"num_local_experts", "0"},
    {"num_nextn_predict_layers", "0"},
    {"parallel_attn", "false"},
    {"partial_rotary_factor", "1"},
    {"pruned_heads", "{}"},
    {"q_lora_rank", "0"},
    {"qk_layernorm", "false"},
    {"quantization_config", "0"},
    {"query_pre_attn_scalar", "0"},
    {"residual_multiplier", "1"},
    {"rope_interleave", "false"},
    {"rope_interleaved", "false"},
    {"rotary_pct", "1"},
    {"scale_depth", "0"},
    {"scale_emb", "1"},
    {"text_config", "{}"},
    {"use_mrope", "false"},
    {"use_parallel_residual", "false"},
    {"use_qk_norm", "false"},
    {"vision_config", "{}"},
};

class HfReader {
public:
  HfReader(const Json &root, ModelConfig &config, Problems &problems)
      : root(root, "", problems), config(config), problems(problems) {}

  void read();

private:
  bool readFamily();
  void readSizes();
  void readHeads();
  void readRope();
  void readRopeObject(StringRef key, const Json &value);
  void readActivation();
  void readBiases();
  void readWindow();
  void readLayerTypes(int64_t firstWindowLayer);
  void readWeightType();
  void refuseOthers();
  void noteUnknown();

  JsonObject root;
  ModelConfig &config;
  Problems &problems;
  const Family *family = nullptr;
};

} // namespace

void HfReader::read() {
  // Keys mean different things in other families: nothing else is looked at.
  if (!readFamily())
    return;
  readSizes();
  readHeads();
  readRope();
  readActivation();
  readBiases();
  readWindow();
  readWeightType();
  refuseOthers();
  noteUnknown();
}

bool HfReader::readFamily() {
  constexpr StringLiteral want = "llama, mistral, qwen2 or qwen3";
  const Json *type = root.find("model_type");
  if (!type) {
    root.missing("model_type", want);
    return false;
  }
  for (const Family &candidate : kFamilies)
    if (type->is_string() && *type == candidate.modelType.str())
      family = &candidate;
  if (!family) {
    root.expected("model_type", want, *type);
    return false;
  }
  config.modelType = family->modelType.str();
  // A classifier, a reward model or a bare trunk has another head.
  if (const Json *names = root.find("architectures")) {
    bool ok = names->is_array();
    for (const Json &name : *names)
      ok &= name.is_string() && StringRef(*name.get_ptr<const std::string *>())
                                    .equals_insensitive(family->architecture);
    if (!ok)
      root.expected("architectures",
                    "[\"" + family->architecture + "\"] for model_type \"" +
                        family->modelType + "\"",
                    *names);
  }
  return true;
}

void HfReader::readSizes() {
  config.hidden =
      root.requiredInteger("hidden_size", 1, kMaxWidth, {"n_embd", "d_model"});
  config.intermediate =
      root.requiredInteger("intermediate_size", 1, kMaxWidth, {"n_inner"});
  config.layers = root.requiredInteger("num_hidden_layers", 1, kMaxLayers,
                                       {"n_layer", "num_layers"});
  config.vocabulary = root.requiredInteger("vocab_size", 1, kMaxVocabulary);
  config.maxPositions =
      root.integer("max_position_embeddings", 1, kMaxPositions, {"n_positions"})
          .value_or(family->maxPositions);
  config.normEps = root.positive("rms_norm_eps").value_or(1e-6);
  config.tiedEmbeddings = root.boolean("tie_word_embeddings").value_or(false);
}

void HfReader::readHeads() {
  config.heads =
      root.requiredInteger("num_attention_heads", 1, kMaxHeads, {"n_head"});
  config.kvHeads = root.integer("num_key_value_heads", 1, kMaxHeads,
                                {"num_kv_heads", "n_head_kv"})
                       .value_or(config.heads);
  std::optional<int64_t> headDim = root.integer("head_dim", 1, kMaxHeadDim);
  bool written = root.find("head_dim") != nullptr;
  if (headDim) {
    config.headDim = *headDim;
  } else if (!written && config.hidden > 0 && config.heads > 0) {
    int64_t quotient = config.hidden / config.heads;
    if (config.hidden % config.heads != 0)
      problems.add("hidden_size", "expected a multiple of "
                                  "'num_attention_heads' (" +
                                      Twine(config.heads) +
                                      ") or an explicit 'head_dim', got " +
                                      Twine(config.hidden));
    else if (family->modelType == "qwen3" && quotient != 128)
      // The class has a default of its own; weights may follow either.
      root.missing("head_dim",
                   "a value, since Qwen3's default of 128 is not hidden_size "
                   "/ num_attention_heads (" +
                       Twine(quotient) + ")");
    else
      config.headDim = quotient;
  }
  config.rotaryDim = config.headDim;
  checkHeads(
      config,
      {"hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim"},
      problems);
}

void HfReader::readRope() {
  std::optional<double> theta = root.positive("rope_theta");
  config.ropeTheta = theta.value_or(10000);
  const Json *old = root.find("rope_scaling");
  const Json *current = root.find("rope_parameters");
  auto read = [&](StringRef key, const Json &value) {
    readRopeObject(key, value);
    // Only an object with a rope_theta of its own has changed it.
    if (!theta || *theta == config.ropeTheta)
      return;
    root.expected("rope_theta",
                  "the value of '" + key + ".rope_theta', " +
                      describeJson(value.at("rope_theta")),
                  *root.find("rope_theta"));
    config.ropeTheta = *theta;
  };
  if (old)
    read("rope_scaling", *old);
  if (!current)
    return;
  ModelConfig before = config;
  read("rope_parameters", *current);
  if (old &&
      (before.ropeScaling != config.ropeScaling ||
       before.ropeFactor != config.ropeFactor ||
       before.ropeLow != config.ropeLow || before.ropeHigh != config.ropeHigh ||
       before.ropeOriginal != config.ropeOriginal ||
       (old->contains("rope_theta") && before.ropeTheta != config.ropeTheta)))
    root.expected("rope_parameters",
                  "what 'rope_scaling' says, " + describeJson(*old), *current);
}

void HfReader::readRopeObject(StringRef key, const Json &value) {
  constexpr StringLiteral want = "\"default\", \"linear\" or \"llama3\"";
  if (!value.is_object()) {
    root.expected(key, "an object or null", value);
    return;
  }
  JsonObject rope(value, (key + ".").str(), problems);
  const Json *type = rope.find("rope_type");
  const Json *legacy = rope.find("type");
  if (type && legacy && *type != *legacy)
    rope.expected(
        "type", "the value of '" + key + ".rope_type', " + describeJson(*type),
        *legacy);
  StringRef typeKey = type || !legacy ? "rope_type" : "type";
  if (!type)
    type = legacy;
  config.ropeTheta = rope.positive("rope_theta").value_or(config.ropeTheta);
  if (std::optional<double> part = rope.positive("partial_rotary_factor"))
    if (*part != 1)
      rope.expected("partial_rotary_factor",
                    "1 (rotary positions on whole "
                    "heads)",
                    *rope.find("partial_rotary_factor"));
  auto required = [&](StringRef name) {
    std::optional<double> number = rope.positive(name);
    if (!number && !rope.find(name))
      rope.missing(name, "a positive number");
    return number.value_or(1);
  };
  std::string name = "default";
  if (type && type->is_string())
    name = *type->get_ptr<const std::string *>();
  else if (type)
    name.clear();
  else if (rope.isWritten("factor"))
    name.clear();
  config.ropeScaling = RopeScaling::None;
  config.ropeFactor = config.ropeLow = config.ropeHigh = 1;
  config.ropeOriginal = 0;
  if (name == "linear") {
    config.ropeScaling = RopeScaling::Linear;
    config.ropeFactor = required("factor");
  } else if (name == "llama3") {
    config.ropeScaling = RopeScaling::Llama3;
    config.ropeFactor = required("factor");
    config.ropeLow = required("low_freq_factor");
    config.ropeHigh = required("high_freq_factor");
    config.ropeOriginal = rope.requiredInteger(
        "original_max_position_embeddings", 1, kMaxPositions);
    if (config.ropeHigh <= config.ropeLow && rope.find("low_freq_factor") &&
        rope.find("high_freq_factor"))
      rope.expected("high_freq_factor",
                    "more than low_freq_factor " +
                        describeJson(*rope.find("low_freq_factor")),
                    *rope.find("high_freq_factor"));
  } else if (name != "default") {
    if (type)
      rope.expected(typeKey, want, *type);
    else
      rope.missing(typeKey, want);
    return;
  }
  // Harmless wherever it stands; so is a factor of 1.
  rope.know("original_max_position_embeddings");
  if (auto factor = value.find("factor"); factor != value.end() && *factor == 1)
    rope.know("factor");
  for (const std::string &other : rope.unknownKeys())
    rope.expected(other, "no such key for rotary type \"" + name + "\"",
                  value.find(other).value());
}

void HfReader::readActivation() {
  const Json *first = root.find("hidden_act");
  const Json *alias = root.find("hidden_activation");
  if (first && alias && *first != *alias)
    root.expected("hidden_activation",
                  "the value of 'hidden_act', " + describeJson(*first), *alias);
  StringRef key = first || !alias ? "hidden_act" : "hidden_activation";
  const Json *value = first ? first : alias;
  if (!value)
    return; // Silu.
  const auto *text = value->get_ptr<const std::string *>();
  auto kind =
      llvm::StringSwitch<std::optional<GluKind>>(text ? *text : std::string())
          .Cases({"silu", "swish"}, GluKind::Silu)
          .Case("gelu", GluKind::Gelu)
          .Cases({"gelu_pytorch_tanh", "gelu_new", "gelu_fast"},
                 GluKind::GeluTanh)
          .Case("relu", GluKind::Relu)
          .Default(std::nullopt);
  if (kind)
    config.activation = *kind;
  else
    root.expected(key,
                  "silu, swish, gelu, gelu_pytorch_tanh, gelu_new, "
                  "gelu_fast or relu",
                  *value);
}

void HfReader::readBiases() {
  bool attention = root.boolean("attention_bias").value_or(false);
  bool mlp = root.boolean("mlp_bias").value_or(false);
  config.qkvBias = family->qkvBias || (family->attentionBiasKey && attention);
  config.outputBias = family->attentionBiasKey && attention;
  config.mlpBias = family->mlpBiasKey && mlp;
  config.qkNorm = family->qkNorm;
  const Json *attentionKey = root.find("attention_bias");
  if (attentionKey && !family->attentionBiasKey && attention != family->qkvBias)
    root.expected("attention_bias",
                  Twine(family->qkvBias ? "true" : "false") + " for " +
                      family->modelType,
                  *attentionKey);
  if (mlp && !family->mlpBiasKey)
    root.expected("mlp_bias", "false for " + family->modelType,
                  *root.find("mlp_bias"));
}

void HfReader::readWindow() {
  std::optional<int64_t> window =
      root.integer("sliding_window", 1, kMaxPositions);
  std::optional<bool> use = root.boolean("use_sliding_window");
  int64_t firstWindowLayer = config.layers;
  if (family->modelType == "mistral") {
    // The one class whose default is a window.
    if (!root.isWritten("sliding_window") && !use)
      window = 4096;
    if (use && *use != window.has_value())
      root.expected("use_sliding_window",
                    window ? "true with a 'sliding_window'"
                           : "false without a 'sliding_window'",
                    *root.find("use_sliding_window"));
    config.window = window.value_or(0);
    firstWindowLayer = 0;
  } else if (family->modelType == "llama") {
    if (window && use.value_or(true))
      root.expected("sliding_window",
                    "null for llama (mistral is the model_type with windows)",
                    *root.find("sliding_window"));
  } else if (use.value_or(false)) {
    // Windows start after this many layers.
    firstWindowLayer =
        root.integer("max_window_layers", 0, kMaxLayers).value_or(28);
    if (!root.find("sliding_window"))
      root.missing("sliding_window",
                   "a whole number, since 'use_sliding_window' is true");
    config.window = window.value_or(0);
  }
  readLayerTypes(firstWindowLayer);
}

void HfReader::readLayerTypes(int64_t firstWindowLayer) {
  int64_t layers = config.layers;
  if (config.window != 0)
    for (int64_t i = 0; i < layers; ++i)
      config.windowLayers.push_back(i >= firstWindowLayer);
  const Json *types = root.find("layer_types");
  if (types) {
    if (!types->is_array() || static_cast<int64_t>(types->size()) != layers) {
      root.expected("layer_types",
                    "an array of " + Twine(layers) + " entries, one per layer",
                    *types);
      return;
    }
    std::vector<bool> windows;
    for (const Json &type : *types) {
      bool slides = type == "sliding_attention";
      if (!slides && type != "full_attention") {
        root.expected("layer_types",
                      "\"full_attention\" or \"sliding_attention\"", type);
        return;
      }
      windows.push_back(slides);
    }
    bool any = llvm::is_contained(windows, true);
    if (any && config.window == 0) {
      problems.add("layer_types",
                   "expected \"full_attention\" only without a window in use, "
                   "got \"sliding_attention\"");
      return;
    }
    // Mistral's class looks at sliding_window alone.
    if (family->modelType == "mistral" && config.window != 0 &&
        llvm::is_contained(windows, false)) {
      problems.add("layer_types",
                   "expected \"sliding_attention\" on all layers of a mistral "
                   "with 'sliding_window' " +
                       Twine(config.window) + ", got \"full_attention\"");
      return;
    }
    if (config.window != 0)
      config.windowLayers = windows;
  }
  // One form each for "no layer" and "all layers".
  if (!llvm::is_contained(config.windowLayers, true)) {
    config.window = 0;
    config.windowLayers.clear();
  } else if (!llvm::is_contained(config.windowLayers, false)) {
    config.windowLayers.clear();
  }
}

void HfReader::readWeightType() {
  const Json *old = root.find("torch_dtype");
  const Json *current = root.find("dtype");
  if (old && current && *old != *current)
    root.expected("dtype", "the value of 'torch_dtype', " + describeJson(*old),
                  *current);
  StringRef key = current || !old ? "dtype" : "torch_dtype";
  const Json *value = current ? current : old;
  if (!value)
    return; // f32, as in transformers.
  StringRef text;
  if (const auto *string = value->get_ptr<const std::string *>())
    text = *string;
  text.consume_front("torch.");
  std::string type = llvm::StringSwitch<std::string>(text)
                         .Case("float32", "f32")
                         .Case("float16", "f16")
                         .Case("bfloat16", "bf16")
                         .Default("");
  if (type.empty())
    root.expected(key, "float32, float16 or bfloat16", *value);
  else
    config.defaultWeight = type;
}

/// True if VALUE is what NEUTRAL's text says; "0" stands for any number that
/// is zero, "{}" for anything empty, and false for every kind of no.
static bool isNeutral(const Json &value, StringRef neutral) {
  if (neutral == "{}")
    return value.empty();
  if (neutral == "1")
    return value.is_number() && value.get<double>() == 1;
  if (value.is_boolean())
    return !value.get<bool>();
  if (value.is_array() || value.is_object())
    return value.empty();
  return neutral == "0" && value.is_number() && value.get<double>() == 0;
}

void HfReader::refuseOthers() {
  for (const Neutral &entry : kNeutral) {
    const Json *value = root.find(entry.key);
    if (!value || isNeutral(*value, entry.value))
      continue;
    if (entry.value == "1")
      root.expected(entry.key, "1 or no such key for " + family->modelType,
                    *value);
    else
      root.expected(entry.key, "no such key for " + family->modelType, *value);
  }
}

void HfReader::noteUnknown() {
  for (StringRef key : kHarmless)
    root.know(key);
  std::string list;
  for (const std::string &key : root.unknownKeys()) {
    if (StringRef(key).starts_with("_"))
      continue;
    // Text of the file's own, at most a line of it.
    if (list.size() > 200) {
      list += ", …";
      break;
    }
    list += (list.empty() ? "'" : ", '") + key + "'";
  }
  if (!list.empty())
    problems.warn("keys without a known meaning are ignored: " + list);
}

void mlir::heddle::readHfConfig(StringRef text, ModelConfig &config,
                                Problems &problems) {
  if (std::optional<Json> root = parseJsonObject(text, problems))
    HfReader(*root, config, problems).read();
}
