//===- GgufConfig.cpp - Descriptions in GGUF metadata ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// GGUF says less in its keys than config.json does: ties, biases and q/k norms
// follow from which tensors there are. All tensors are checked against the
// table of parameters, so that a misread key cannot pass. The keys of
// tokenizers and general.* (but for the architecture) are not needed.
//
//===----------------------------------------------------------------------===//

#include "ConfigReader.h"
#include "ParamTable.h"
#include "heddle_rt/gguf.h"
#include "heddle_rt/weights.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace mlir;
using namespace mlir::heddle;
namespace rt = ::heddle::rt;

namespace {

class GgufReader {
public:
  GgufReader(const rt::WeightSource &source, const rt::GgufMetadata &metadata,
             ModelConfig &config, Problems &problems)
      : source(source), metadata(metadata), config(config), problems(problems) {
  }

  void read();

private:
  bool readArchitecture();
  void readSizes();
  void readHeads();
  void readRope();
  void readFrequencyFactors();
  void refuseOthers();
  void readTensorKinds();
  void checkTensors();

  /// "llama.block_count" for "block_count".
  std::string keyOf(StringRef name) const {
    return architecture + "." + name.str();
  }
  bool has(StringRef name) const { return metadata.contains(keyOf(name)); }
  /// One number, or an array that repeats it for every layer.
  int64_t integer(StringRef name, int64_t low, int64_t high,
                  std::optional<int64_t> fallback = std::nullopt);
  double positive(StringRef name, std::optional<double> fallback);
  const rt::TensorInfo *find(StringRef name) const {
    return source.find(std::string_view(name.data(), name.size()));
  }

  const rt::WeightSource &source;
  const rt::GgufMetadata &metadata;
  ModelConfig &config;
  Problems &problems;
  std::string architecture;
};

std::string shapeText(ArrayRef<int64_t> shape) {
  std::string text;
  for (int64_t extent : shape)
    text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

/// The shortest decimal that reads back as the same float: files hold 1e-5 as
/// 9.99999975e-6.
double asWritten(double value) {
  float stored = static_cast<float>(value);
  if (static_cast<double>(stored) != value)
    return value;
  char text[32];
  for (int digits = 1; digits <= 9; ++digits) {
    std::snprintf(text, sizeof(text), "%.*g", digits, value);
    if (std::strtof(text, nullptr) == stored)
      return std::strtod(text, nullptr);
  }
  return value;
}

std::string numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

} // namespace

void GgufReader::read() {
  if (!readArchitecture())
    return;
  config.keys = {keyOf("attention.head_count"),
                 keyOf("attention.head_count_kv"), keyOf("feed_forward_length"),
                 "token_embd.weight"};
  readSizes();
  readHeads();
  readRope();
  refuseOthers();
  // Shapes follow from sizes: wrong sizes would only repeat themselves.
  if (!problems.empty())
    return;
  readTensorKinds();
  checkTensors();
}

bool GgufReader::readArchitecture() {
  constexpr StringLiteral want = "llama, qwen2 or qwen3";
  if (!metadata.contains("general.architecture")) {
    problems.add("general.architecture", "expected " + want + ", got nothing");
    return false;
  }
  auto name = metadata.getString("general.architecture");
  if (!name) {
    problems.add(name.status().message());
    return false;
  }
  architecture = *name;
  if (architecture != "llama" && architecture != "qwen2" &&
      architecture != "qwen3") {
    problems.add("general.architecture",
                 "expected " + want + ", got \"" +
                     StringRef(architecture).take_front(60) + "\"");
    return false;
  }
  config.modelType = architecture;
  return true;
}

int64_t GgufReader::integer(StringRef name, int64_t low, int64_t high,
                            std::optional<int64_t> fallback) {
  std::string key = keyOf(name);
  if (!metadata.contains(key)) {
    if (!fallback)
      problems.add(key, "expected a whole number from " + Twine(low) + " to " +
                            Twine(high) + ", got nothing");
    return fallback.value_or(0);
  }
  int64_t value = 0;
  if (metadata.type(key) == rt::GgufMetadata::Type::array) {
    auto values = metadata.getIntegers(key);
    if (!values || values->empty()) {
      problems.add(key, "expected a number or an array of numbers, got an "
                        "array of something else");
      return 0;
    }
    value = values->front();
    for (int64_t other : *values)
      if (other != value) {
        problems.add(key, "expected the same number for every layer, got " +
                              Twine(value) + " and " + Twine(other));
        return 0;
      }
  } else {
    auto number = metadata.getInteger(key);
    if (!number) {
      problems.add(number.status().message());
      return 0;
    }
    value = *number;
  }
  if (value >= low && value <= high)
    return value;
  problems.add(key, "expected a whole number from " + Twine(low) + " to " +
                        Twine(high) + ", got " + Twine(value));
  return 0;
}

double GgufReader::positive(StringRef name, std::optional<double> fallback) {
  std::string key = keyOf(name);
  if (!metadata.contains(key)) {
    if (!fallback)
      problems.add(key, "expected a positive number, got nothing");
    return fallback.value_or(1);
  }
  auto number = metadata.getFloat(key);
  if (!number)
    problems.add(number.status().message());
  else if (*number > 0 && std::isfinite(*number))
    return asWritten(*number);
  else
    problems.add(key, "expected a positive number, got " + numberText(*number));
  return 1;
}

void GgufReader::readSizes() {
  config.hidden = integer("embedding_length", 1, kMaxWidth);
  config.intermediate = integer("feed_forward_length", 1, kMaxWidth);
  config.layers = integer("block_count", 1, kMaxLayers);
  config.maxPositions = integer("context_length", 1, kMaxPositions, 2048);
  config.normEps = positive("attention.layer_norm_rms_epsilon", std::nullopt);
  config.window = integer("attention.sliding_window", 0, kMaxPositions, 0);
  // Rows of the table, which may be more than the tokenizer has tokens.
  const rt::TensorInfo *table = find("token_embd.weight");
  if (!table || table->shape.size() != 2 || table->shape[0] < 1 ||
      table->shape[0] > kMaxVocabulary)
    problems.add("token_embd.weight",
                 table
                     ? "expected a matrix of at most " + Twine(kMaxVocabulary) +
                           " rows, got shape " + shapeText(table->shape)
                     : Twine("expected a tensor of this name, got none"));
  else
    config.vocabulary = table->shape[0];
  config.tiedEmbeddings = !find("output.weight");
}

void GgufReader::readHeads() {
  config.heads = integer("attention.head_count", 1, kMaxHeads);
  config.kvHeads =
      integer("attention.head_count_kv", 1, kMaxHeads, config.heads);
  if (has("attention.key_length")) {
    config.headDim = integer("attention.key_length", 1, kMaxHeadDim);
  } else if (config.heads > 0 && config.hidden > 0) {
    if (config.hidden % config.heads != 0)
      problems.add(keyOf("embedding_length"),
                   "expected a multiple of '" + keyOf("attention.head_count") +
                       "' (" + Twine(config.heads) + ") or an explicit '" +
                       keyOf("attention.key_length") + "', got " +
                       Twine(config.hidden));
    else
      config.headDim = config.hidden / config.heads;
  }
  int64_t value =
      integer("attention.value_length", 1, kMaxHeadDim, config.headDim);
  if (value != config.headDim && value != 0)
    problems.add(keyOf("attention.value_length"), "expected the head width " +
                                                      Twine(config.headDim) +
                                                      ", got " + Twine(value));
  config.rotaryDim =
      integer("rope.dimension_count", 1, kMaxHeadDim, config.headDim);
  if (config.rotaryDim != config.headDim && config.rotaryDim != 0)
    problems.add(keyOf("rope.dimension_count"),
                 "expected the head width " + Twine(config.headDim) + ", got " +
                     Twine(config.rotaryDim));
  std::string hidden = keyOf("embedding_length");
  std::string heads = keyOf("attention.head_count");
  std::string kvHeads = keyOf("attention.head_count_kv");
  std::string headDim = keyOf("attention.key_length");
  checkHeads(config, {hidden, heads, kvHeads, headDim}, problems);
}

void GgufReader::readRope() {
  config.ropeTheta = positive("rope.freq_base", 10000);
  std::string typeKey = keyOf("rope.scaling.type");
  std::string type;
  if (metadata.contains(typeKey)) {
    auto value = metadata.getString(typeKey);
    if (!value) {
      problems.add(value.status().message());
      return;
    }
    type = *value;
  } else if (has("rope.scaling.factor") || has("rope.scale_linear")) {
    type = "linear";
  }
  if (type == "linear") {
    StringRef key = has("rope.scaling.factor") || !has("rope.scale_linear")
                        ? "rope.scaling.factor"
                        : "rope.scale_linear";
    config.ropeFactor = positive(key, std::nullopt);
    if (config.ropeFactor != 1)
      config.ropeScaling = RopeScaling::Linear;
  } else if (!type.empty() && type != "none") {
    problems.add(typeKey, "expected \"none\" or \"linear\", got \"" +
                              StringRef(type).take_front(60) + "\"");
  }
  if (find("rope_freqs.weight"))
    readFrequencyFactors();
}

/// Llama 3.1 files carry no parameters of their scaling but its result: what
/// each frequency is divided by. Accepted if it is the rule with the published
/// bounds, which is what the dialect can say.
void GgufReader::readFrequencyFactors() {
  constexpr StringLiteral name = "rope_freqs.weight";
  const rt::TensorInfo &tensor = *find(name);
  int64_t count = config.headDim / 2;
  if (config.headDim < 2 || config.ropeTheta <= 0)
    return; // Reported already.
  if (tensor.dtype != rt::DType::f32 || tensor.shape.size() != 1 ||
      tensor.shape[0] != count) {
    problems.add(name, "expected f32 of shape " + Twine(count) + ", got " +
                           rt::dtypeName(tensor.dtype) + " of shape " +
                           shapeText(tensor.shape));
    return;
  }
  auto data = source.data(tensor);
  if (!data) {
    problems.add(data.status().message());
    return;
  }
  SmallVector<float> factors(count);
  std::memcpy(factors.data(), *data, count * sizeof(float));
  auto isSane = [](float f) { return f > 0 && std::isfinite(f); };
  if (!llvm::all_of(factors, isSane)) {
    problems.add(name, "expected positive factors, got others");
    return;
  }
  if (llvm::all_of(factors, [](float f) { return f == 1; }))
    return;
  constexpr double low = 1, high = 4;
  int64_t original =
      integer("rope.scaling.original_context_length", 1, kMaxPositions, 8192);
  double factor = *llvm::max_element(factors);
  for (int64_t i = 0; i < count; ++i) {
    double frequency = std::pow(config.ropeTheta, -2.0 * i / config.headDim);
    double wavelength = 2 * M_PI / frequency;
    double smooth = (original / wavelength - low) / (high - low);
    smooth = std::min(std::max(smooth, 0.0), 1.0);
    double want = 1 / ((1 - smooth) / factor + smooth);
    if (std::abs(factors[i] - want) <= 1e-4 * want)
      continue;
    problems.add(name, "expected the factors of llama3 scaling (low 1, high 4, "
                       "original " +
                           Twine(original) +
                           "), the only ones supported, got " +
                           numberText(factors[i]) + " for " + numberText(want) +
                           " at " + Twine(i));
    return;
  }
  if (config.ropeScaling != RopeScaling::None)
    problems.add(name, "expected no factors beside linear scaling, got some");
  config.ropeScaling = RopeScaling::Llama3;
  config.ropeFactor = asWritten(factor);
  config.ropeLow = low;
  config.ropeHigh = high;
  config.ropeOriginal = original;
}

/// Keys that change the computation unless they have this value.
void GgufReader::refuseOthers() {
  struct Neutral {
    StringRef name;
    double value;
  };
  constexpr Neutral kNeutral[] = {
      {"attention.causal", 1},
      {"attention.clamp_kqv", 0},
      {"attention.max_alibi_bias", 0},
      {"attention.scale", 0},
      {"attn_logit_softcapping", 0},
      {"embedding_scale", 0},
      {"expert_count", 0},
      {"expert_shared_count", 0},
      {"expert_used_count", 0},
      {"final_logit_softcapping", 0},
      {"logit_scale", 0},
      {"residual_scale", 0},
      {"use_parallel_residual", 0},
  };
  for (const Neutral &entry : kNeutral) {
    std::string key = keyOf(entry.name);
    if (!metadata.contains(key))
      continue;
    double value = std::nan("");
    if (metadata.type(key) == rt::GgufMetadata::Type::boolean) {
      if (auto flag = metadata.getBool(key))
        value = *flag ? 1 : 0;
    } else if (auto number = metadata.getFloat(key)) {
      value = *number;
    }
    if (value != entry.value)
      problems.add(key, "expected " + numberText(entry.value) +
                            " or no such key, got " + numberText(value));
  }
}

void GgufReader::readTensorKinds() {
  config.qkvBias = find("blk.0.attn_q.bias");
  config.outputBias = find("blk.0.attn_output.bias");
  config.mlpBias = find("blk.0.ffn_gate.bias");
  config.qkNorm = find("blk.0.attn_q_norm.weight");
}

void GgufReader::checkTensors() {
  llvm::StringSet<> expected;
  // The most common type of the matrices names what the file "is".
  llvm::StringMap<int64_t> elementsOf;
  for (const ParamSpec &param : listParams(config)) {
    for (int64_t i = 0, e = param.isLayered() ? config.layers : 1; i < e; ++i) {
      std::string name = nameOfLayer(param.ggufName, i);
      expected.insert(name);
      const rt::TensorInfo *tensor = find(name);
      if (!tensor) {
        problems.add(name, "expected a tensor of shape " +
                               shapeText(param.shape) + ", got none");
        continue;
      }
      if (ArrayRef<int64_t>(tensor->shape) != ArrayRef<int64_t>(param.shape)) {
        problems.add(name, "expected shape " + shapeText(param.shape) +
                               ", got " + shapeText(tensor->shape));
        continue;
      }
      const char *type = rt::dtypeName(tensor->dtype);
      config.storedTypes.emplace_back(nameOfLayer(param.name, i), type);
      if (param.role == ParamRole::Matrix)
        elementsOf[type] += param.elements();
    }
  }
  int64_t most = 0;
  for (const auto &entry : config.storedTypes)
    if (auto it = elementsOf.find(entry.second);
        it != elementsOf.end() && it->second > most) {
      most = it->second;
      config.defaultWeight = entry.second;
    }
  for (const rt::TensorInfo &tensor : source.tensors()) {
    StringRef name = tensor.name;
    // Old files list the rotary frequencies that llama.cpp never reads.
    if (expected.contains(name) || name == "rope_freqs.weight" ||
        name.ends_with(".attn_rot_embd"))
      continue;
    problems.add(name, "expected no such tensor in a " + architecture +
                           " model, got one of shape " +
                           shapeText(tensor.shape));
  }
}

void mlir::heddle::readGgufConfig(const rt::WeightSource &source,
                                  ModelConfig &config, Problems &problems) {
  const rt::GgufMetadata *metadata = rt::ggufMetadata(source);
  if (!metadata) {
    problems.add("expected a GGUF model, got " +
                 StringRef(source.format().data(), source.format().size()));
    return;
  }
  GgufReader(source, *metadata, config, problems).read();
}
