//===- ParamTable.cpp - The parameters of a decoder -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ParamTable.h"

#include <cmath>

using namespace mlir;
using namespace mlir::heddle;

bool ParamSpec::isLayered() const { return StringRef(name).contains("{i}"); }

int64_t ParamSpec::elements() const {
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  return n;
}

std::string mlir::heddle::nameOfLayer(StringRef name, int64_t layer) {
  auto [head, tail] = name.split("{i}");
  if (head.size() == name.size())
    return name.str();
  return (head + Twine(layer) + tail).str();
}

namespace {

/// 1 / sqrt(fan in), in four significant digits: outputs of random linear
/// layers are about as large as their inputs, and the text form stays short.
double scaleForFanIn(int64_t fanIn) {
  double exact = 1 / std::sqrt(static_cast<double>(fanIn));
  double unit = std::pow(10.0, 3 - std::floor(std::log10(exact)));
  return std::round(exact * unit) / unit;
}

class TableBuilder {
public:
  explicit TableBuilder(const ModelConfig &config) : config(config) {}

  void matrix(ParamId id, StringRef name, StringRef gguf, int64_t rows,
              int64_t cols, int64_t rotaryHeads = 0) {
    params.push_back({id,
                      ParamRole::Matrix,
                      (name + ".weight").str(),
                      (gguf + ".weight").str(),
                      {rows, cols},
                      rotaryHeads,
                      scaleForFanIn(cols),
                      0});
  }
  void bias(bool present, ParamId id, StringRef name, StringRef gguf,
            int64_t rows, int64_t rotaryHeads = 0) {
    if (present)
      params.push_back({id,
                        ParamRole::Bias,
                        (name + ".bias").str(),
                        (gguf + ".bias").str(),
                        {rows},
                        rotaryHeads,
                        0.1,
                        0});
  }
  void norm(ParamId id, StringRef name, StringRef gguf, int64_t width) {
    params.push_back({id,
                      ParamRole::Norm,
                      (name + ".weight").str(),
                      (gguf + ".weight").str(),
                      {width},
                      0,
                      0.1,
                      1});
  }

  void attention();
  void mlp();

  const ModelConfig &config;
  std::vector<ParamSpec> params;
};

} // namespace

void TableBuilder::attention() {
  const ModelConfig &c = config;
  std::string hf = "model.layers.{i}.self_attn.", gguf = "blk.{i}.attn_";
  int64_t q = c.heads * c.headDim, kv = c.kvHeads * c.headDim;
  // llama.cpp's converter interleaves q and k, weights and biases, for its
  // llama architecture (which Mistral uses too) and for no other of these.
  bool interleaved = c.modelType == "llama" || c.modelType == "mistral";
  int64_t qRows = interleaved ? c.heads : 0,
          kRows = interleaved ? c.kvHeads : 0;
  norm(ParamId::AttentionNorm, "model.layers.{i}.input_layernorm",
       "blk.{i}.attn_norm", c.hidden);
  matrix(ParamId::Query, hf + "q_proj", gguf + "q", q, c.hidden, qRows);
  bias(c.qkvBias, ParamId::QueryBias, hf + "q_proj", gguf + "q", q, qRows);
  if (c.qkNorm)
    norm(ParamId::QueryNorm, hf + "q_norm", gguf + "q_norm", c.headDim);
  matrix(ParamId::Key, hf + "k_proj", gguf + "k", kv, c.hidden, kRows);
  bias(c.qkvBias, ParamId::KeyBias, hf + "k_proj", gguf + "k", kv, kRows);
  if (c.qkNorm)
    norm(ParamId::KeyNorm, hf + "k_norm", gguf + "k_norm", c.headDim);
  matrix(ParamId::Value, hf + "v_proj", gguf + "v", kv, c.hidden);
  bias(c.qkvBias, ParamId::ValueBias, hf + "v_proj", gguf + "v", kv);
  matrix(ParamId::Output, hf + "o_proj", gguf + "output", c.hidden, q);
  bias(c.outputBias, ParamId::OutputBias, hf + "o_proj", gguf + "output",
       c.hidden);
  // The names that gpt-oss has for them.
  if (c.sinks)
    params.push_back({ParamId::Sinks,
                      ParamRole::Bias,
                      hf + "sinks",
                      gguf + "sinks.weight",
                      {c.heads},
                      0,
                      1,
                      0});
}

void TableBuilder::mlp() {
  const ModelConfig &c = config;
  std::string hf = "model.layers.{i}.mlp.", gguf = "blk.{i}.ffn_";
  norm(ParamId::MlpNorm, "model.layers.{i}.post_attention_layernorm",
       "blk.{i}.ffn_norm", c.hidden);
  matrix(ParamId::Gate, hf + "gate_proj", gguf + "gate", c.intermediate,
         c.hidden);
  bias(c.mlpBias, ParamId::GateBias, hf + "gate_proj", gguf + "gate",
       c.intermediate);
  matrix(ParamId::Up, hf + "up_proj", gguf + "up", c.intermediate, c.hidden);
  bias(c.mlpBias, ParamId::UpBias, hf + "up_proj", gguf + "up", c.intermediate);
  matrix(ParamId::Down, hf + "down_proj", gguf + "down", c.hidden,
         c.intermediate);
  bias(c.mlpBias, ParamId::DownBias, hf + "down_proj", gguf + "down", c.hidden);
}

std::vector<ParamSpec> mlir::heddle::listParams(const ModelConfig &config) {
  TableBuilder table(config);
  table.matrix(ParamId::Embedding, "model.embed_tokens", "token_embd",
               config.vocabulary, config.hidden);
  // A tied table is the head as well and is scaled as one.
  if (!config.tiedEmbeddings)
    table.params.back().scale = 1;
  table.attention();
  table.mlp();
  table.norm(ParamId::FinalNorm, "model.norm", "output_norm", config.hidden);
  if (!config.tiedEmbeddings)
    table.matrix(ParamId::Head, "lm_head", "output", config.vocabulary,
                 config.hidden);
  return std::move(table.params);
}

int64_t ModelConfig::parameterCount() const {
  int64_t total = 0;
  for (const ParamSpec &param : listParams(*this))
    total += param.elements() * (param.isLayered() ? layers : 1);
  return total;
}
