//===- GoldenLogitsTest.cpp - Imported programs against transformers ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The imported programs, executed by the reference on the tiny models' weights,
// give the logits that Hugging Face transformers computed (test/Golden/
// make_tiny_models.py): all at once, and through the cache.
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "heddle/Reference/Reference.h"
#include "heddle_rt/weights.h"
#include "mlir/IR/MLIRContext.h"

#include "gtest/gtest.h"

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::test;
using mlir::heddle::reference::Tensor;

namespace {

using Named = std::map<std::string, Tensor>;

nlohmann::json readJson(const std::string &path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
}

class GoldenLogits : public ::testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    std::string folder = golden(GetParam());
    ReadResult read = readPath(folder);
    ASSERT_TRUE(read.config);
    config = *read.config;
    auto opened = ::heddle::rt::WeightSource::open(folder);
    ASSERT_TRUE(opened.ok());
    weights = opened.take();
    tokens = readJson(folder + "/tokens.json");
    logits = readJson(folder + "/logits.json");
    ASSERT_FALSE(tokens.is_discarded() || logits.is_discarded());
    batch = static_cast<int64_t>(tokens.size());
    length = static_cast<int64_t>(tokens[0].size());
    for (const auto &sequence : logits)
      for (const auto &row : sequence)
        for (const auto &value : row)
          largest = std::max(largest, std::abs(value.get<double>()));
  }

  /// A parameter's values, over its layers.
  Tensor parameter(BindingAttr binding, RankedTensorType type) {
    Tensor tensor = Tensor::filled(type.getShape(), NAN);
    std::vector<int64_t> ofLayers(binding.getLayers());
    if (ofLayers.empty())
      ofLayers.push_back(0);
    size_t next = 0;
    for (int64_t layer : ofLayers) {
      std::string name = binding.getName().str();
      if (size_t at = name.find("{i}"); at != std::string::npos)
        name.replace(at, 3, std::to_string(layer));
      const auto *info = weights->find(name);
      EXPECT_TRUE(info) << name;
      if (!info)
        return tensor;
      std::vector<float> values(info->elements());
      ::heddle::rt::decodeToFloat(info->dtype, *weights->data(*info), 0,
                                  info->elements(), values.data());
      for (float value : values)
        tensor.data[next++] = value;
    }
    EXPECT_EQ(next, tensor.data.size());
    return tensor;
  }

  /// Runs a program; states are taken from and put back into STATES.
  Named run(func::FuncOp program, const Named &inputs, Named &states) {
    StringRef name = HeddleDialect::kBindingAttr;
    std::vector<Tensor> arguments;
    for (unsigned i = 0; i < program.getNumArguments(); ++i) {
      auto binding = program.getArgAttrOfType<BindingAttr>(i, name);
      auto type = cast<RankedTensorType>(program.getArgumentTypes()[i]);
      std::string key = binding.getName().str();
      if (binding.getKind() == BindingKind::Param) {
        arguments.push_back(parameter(binding, type));
      } else if (binding.getKind() == BindingKind::Input) {
        // As at run time, inputs that nobody sets are zeros: greedy sampling.
        auto given = inputs.find(key);
        arguments.push_back(given == inputs.end()
                                ? Tensor::filled(type.getShape(), 0)
                                : given->second);
      } else {
        // Only key positions start from a pattern other than zero.
        double fill = binding.getFill() ? -1 : 0;
        arguments.push_back(
            states.try_emplace(key, Tensor::filled(type.getShape(), fill))
                .first->second);
      }
    }
    auto results = reference::evaluate(program, arguments);
    EXPECT_TRUE(succeeded(results));
    Named outputs;
    if (failed(results))
      return outputs;
    for (unsigned i = 0; i < program.getNumResults(); ++i) {
      auto binding = cast<BindingAttr>(program.getResultAttr(i, name));
      bool state = binding.getKind() == BindingKind::State;
      (state ? states : outputs)[binding.getName().str()] = (*results)[i];
    }
    return outputs;
  }

  /// Row ROW of [B, rows, V] logits is that of TOKEN in the golden ones.
  void expectRow(const Tensor &got, int64_t sequence, int64_t row,
                 int64_t token) {
    int64_t rows = got.shape[1], width = got.shape[2];
    ASSERT_EQ(width, config.vocabulary);
    for (int64_t v = 0; v < width; ++v)
      ASSERT_NEAR(got.data[(sequence * rows + row) * width + v],
                  logits[sequence][token][v].get<double>(), 1e-5 * largest)
          << "sequence " << sequence << " token " << token << " entry " << v;
  }

  ModelConfig config;
  std::unique_ptr<::heddle::rt::WeightSource> weights;
  nlohmann::json tokens, logits;
  int64_t batch = 0, length = 0;
  double largest = 0;
  MLIRContext context{MLIRContext::Threading::DISABLED};
};

} // namespace

TEST_P(GoldenLogits, Forward) {
  ImportOptions options;
  options.program = "forward";
  options.batch = batch;
  options.sequence = length;
  options.weights = "keep";
  ImportResult result = import(context, config, options);
  ASSERT_TRUE(result.module);
  Named inputs, states;
  Tensor ids = Tensor::filled({batch, length}, 0), positions = ids;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t t = 0; t < length; ++t) {
      ids.data[b * length + t] = tokens[b][t].get<double>();
      positions.data[b * length + t] = static_cast<double>(t);
    }
  inputs = {{"tokens", ids}, {"positions", positions}};
  Named outputs = run(function(*result.module, "forward"), inputs, states);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t t = 0; t < length; ++t)
      expectRow(outputs["logits"], b, t, t);
}

// Chunks of 4 with invalid rows in the last of them, then one token at a time.
// The two sequences have prompts of different lengths and never march in step.
TEST_P(GoldenLogits, Generate) {
  constexpr int64_t kChunk = 4;
  ImportOptions options;
  options.batch = batch;
  options.sequence = length;
  options.chunk = kChunk;
  options.blockSize = 3;
  options.weights = "keep";
  ImportResult result = import(context, config, options);
  ASSERT_TRUE(result.module);
  int64_t perSequence = (length + 2) / 3;
  Named states;
  std::vector<int64_t> done(batch, 0), prompt(batch);
  for (int64_t b = 0; b < batch; ++b)
    prompt[b] = 6 - b;
  while (llvm::any_of(done, [&](int64_t n) { return n < length; })) {
    bool prefill = false;
    for (int64_t b = 0; b < batch; ++b)
      prefill |= done[b] < prompt[b];
    int64_t rows = prefill ? kChunk : 1;
    Tensor ids = Tensor::filled({batch, rows}, 0);
    Tensor positions = Tensor::filled({batch, rows}, -1);
    Tensor blocks = Tensor::filled({batch, perSequence}, 0);
    Tensor lengths = Tensor::filled({batch}, 0);
    Tensor last = Tensor::filled({batch, 1}, 0);
    std::vector<int64_t> added(batch, 0);
    for (int64_t b = 0; b < batch; ++b) {
      int64_t end = prefill ? prompt[b] : length;
      added[b] = std::min(rows, std::max<int64_t>(end - done[b], 0));
      for (int64_t t = 0; t < added[b]; ++t) {
        ids.data[b * rows + t] = tokens[b][done[b] + t].get<double>();
        positions.data[b * rows + t] = static_cast<double>(done[b] + t);
      }
      // Blocks in an order that is not the identity.
      for (int64_t m = 0; m < perSequence; ++m)
        blocks.data[b * perSequence + m] =
            static_cast<double>(batch * perSequence - 1 - (b + m * batch));
      done[b] += added[b];
      lengths.data[b] = static_cast<double>(done[b]);
      last.data[b] = static_cast<double>(std::max<int64_t>(added[b] - 1, 0));
    }
    Named outputs =
        run(function(*result.module, prefill ? "prefill" : "decode"),
            {{"tokens", ids},
             {"positions", positions},
             {"blocks", blocks},
             {"lengths", lengths},
             {"last", last}},
            states);
    for (int64_t b = 0; b < batch; ++b) {
      if (added[b] == 0)
        continue;
      expectRow(outputs["logits"], b, 0, done[b] - 1);
      const auto &row = logits[b][done[b] - 1];
      int64_t best = 0;
      for (int64_t v = 0; v < config.vocabulary; ++v)
        if (row[v].get<double>() > row[best].get<double>())
          best = v;
      EXPECT_EQ(outputs["next"].data[b], static_cast<double>(best));
    }
    if (HasFailure())
      return;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenLogits,
                         ::testing::Values("tiny-llama", "tiny-qwen2",
                                           "tiny-qwen3", "tiny-mistral"),
                         [](const auto &info) {
                           std::string name = info.param;
                           return name.substr(name.find('-') + 1);
                         });
