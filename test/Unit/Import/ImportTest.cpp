//===- ImportTest.cpp - Building programs ---------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

#include <chrono>
#include <set>

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::test;
using Lines = std::vector<std::string>;

namespace {

class Import : public ::testing::Test {
protected:
  ImportResult build(const ModelConfig &config, const ImportOptions &options) {
    ImportResult result = import(context, config, options);
    EXPECT_EQ(result.errors, Lines());
    return result;
  }
  /// The module's text is the same after parsing it.
  void expectRoundTrip(ModuleOp module, const std::string &what) {
    for (bool locations : {false, true}) {
      std::string text = textOf(module, locations);
      OwningOpRef<ModuleOp> parsed =
          parseSourceString<ModuleOp>(text, ParserConfig(&context));
      ASSERT_TRUE(parsed) << what;
      EXPECT_EQ(textOf(*parsed, locations), text) << what;
    }
  }
  BindingAttr binding(func::FuncOp function, StringRef name) {
    StringRef attr = HeddleDialect::kBindingAttr;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto b = function.getArgAttrOfType<BindingAttr>(i, attr))
        if (b.getName() == name)
          return b;
    return {};
  }
  Type elementOf(func::FuncOp function, StringRef name) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto b = function.getArgAttrOfType<BindingAttr>(
              i, HeddleDialect::kBindingAttr))
        if (b.getName() == name)
          return cast<RankedTensorType>(function.getArgumentTypes()[i])
              .getElementType();
    return {};
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
};

ModelConfig smallLlama(const Changes &changes = {}) {
  ReadResult result = readLlama(changes);
  EXPECT_TRUE(result.config);
  return *result.config;
}

ImportOptions forward(const std::string &output = "logits") {
  ImportOptions options;
  options.program = "forward";
  options.sequence = 6;
  options.batch = 2;
  options.output = output;
  return options;
}

ImportOptions generate() {
  ImportOptions options;
  options.batch = 3;
  options.sequence = 20;
  options.chunk = 5;
  options.blockSize = 8;
  return options;
}

} // namespace

// Every family, program, output and weight type gives a module that verifies
// and survives its text form, with locations and without.
TEST_F(Import, EveryModuleRoundTrips) {
  for (const char *name :
       {"llama-2-7b", "llama-2-70b", "llama-3.1-8b", "llama-3.1-405b",
        "llama-3.2-1b", "mistral-7b-v0.1", "mistral-7b-v0.3", "qwen2-0.5b",
        "qwen2-7b", "qwen3-0.6b", "qwen3-32b"}) {
    ModelConfig config = *readPath(golden("configs/") + name + ".json").config;
    for (const ModelConfig &model : {config, shrink(config)})
      for (const char *weights : {"keep", "f32", "bf16", "q8_0"})
        for (const char *output : {"logits", "last", "hidden", ""}) {
          ImportOptions options = forward(output);
          if (options.output.empty())
            options = generate();
          options.weights = weights;
          options.mesh = {{"dp", 2}, {"tp", 3}};
          ImportResult result = build(model, options);
          ASSERT_TRUE(result.module);
          EXPECT_TRUE(succeeded(verify(*result.module)));
          expectRoundTrip(*result.module, name);
        }
  }
}

TEST_F(Import, ForwardSignatures) {
  ModelConfig config = smallLlama();
  ImportResult logits = build(config, forward());
  EXPECT_EQ(
      signature(function(*logits.module, "forward")),
      Lines({
          "input tokens: tensor<2x6xi32>",
          "input positions: tensor<2x6xi32>",
          "param model.embed_tokens.weight: tensor<96x32xf32>",
          "param model.layers.{i}.input_layernorm.weight: tensor<2x32xf32>",
          "param model.layers.{i}.self_attn.q_proj.weight: tensor<2x32x32xf32>",
          "param model.layers.{i}.self_attn.k_proj.weight: tensor<2x16x32xf32>",
          "param model.layers.{i}.self_attn.v_proj.weight: tensor<2x16x32xf32>",
          "param model.layers.{i}.self_attn.o_proj.weight: tensor<2x32x32xf32>",
          "param model.layers.{i}.post_attention_layernorm.weight: "
          "tensor<2x32xf32>",
          "param model.layers.{i}.mlp.gate_proj.weight: tensor<2x64x32xf32>",
          "param model.layers.{i}.mlp.up_proj.weight: tensor<2x64x32xf32>",
          "param model.layers.{i}.mlp.down_proj.weight: tensor<2x32x64xf32>",
          "param model.norm.weight: tensor<32xf32>",
          "param lm_head.weight: tensor<96x32xf32>",
          "output logits: tensor<2x6x96xf32>",
      }));
  ImportResult last = build(config, forward("last"));
  Lines lines = signature(function(*last.module, "forward"));
  EXPECT_EQ(lines[2], "input last: tensor<2x1xi32>");
  EXPECT_EQ(lines.back(), "output logits: tensor<2x1x96xf32>");
  ImportResult hidden = build(config, forward("hidden"));
  lines = signature(function(*hidden.module, "forward"));
  EXPECT_EQ(lines.back(), "output hidden: tensor<2x6x32xf32>");
  EXPECT_EQ(lines[lines.size() - 2], "param model.norm.weight: tensor<32xf32>");
}

// A quarter of the rows each, none below 8.
TEST(PrefillPrograms, Rows) {
  auto rowsOf = [](int64_t chunk) {
    Lines lines;
    for (const PrefillProgram &program : prefillPrograms(chunk))
      lines.push_back(program.name + " " + std::to_string(program.rows));
    return lines;
  };
  EXPECT_EQ(rowsOf(1), Lines({"prefill 1"}));
  EXPECT_EQ(rowsOf(31), Lines({"prefill 31"}));
  EXPECT_EQ(rowsOf(130),
            Lines({"prefill 130", "prefill_32 32", "prefill_8 8"}));
}

TEST_F(Import, GenerateSignatures) {
  ImportResult result = build(smallLlama(), generate());
  for (const auto &[name, tokens] :
       {std::make_pair("prefill", "5"), std::make_pair("decode", "1")}) {
    func::FuncOp program = function(*result.module, name);
    ASSERT_TRUE(program);
    EXPECT_EQ(program->getAttr("heddle.program"),
              StringAttr::get(&context, name));
    EXPECT_EQ(program->getAttr("heddle.mesh"),
              FlatSymbolRefAttr::get(&context, "mesh"));
    Lines lines = signature(program);
    std::string rows = std::string("3x") + tokens;
    EXPECT_EQ(
        Lines(lines.begin(), lines.begin() + 10),
        Lines({"input tokens: tensor<" + rows + "xi32>",
               "input positions: tensor<" + rows + "xi32>",
               "input blocks: tensor<3x3xi32>", "input lengths: tensor<3xi32>",
               "input last: tensor<3x1xi32>",
               "input temperature: tensor<3xf32>", "input top_k: tensor<3xi32>",
               "input top_p: tensor<3xf32>", "input min_p: tensor<3xf32>",
               "input seed: tensor<3xi32>"}));
    EXPECT_EQ(Lines(lines.end() - 8, lines.end()),
              Lines({"state k_cache: tensor<2x9x8x2x8xf32>",
                     "state v_cache: tensor<2x9x8x2x8xf32>",
                     "state key_positions: tensor<9x8xi32>",
                     "output logits: tensor<3x1x96xf32>",
                     "output next: tensor<3x1xi32>",
                     "state k_cache: tensor<2x9x8x2x8xf32>",
                     "state v_cache: tensor<2x9x8x2x8xf32>",
                     "state key_positions: tensor<9x8xi32>"}));
    EXPECT_EQ(binding(program, "key_positions").getFill(), 4294967295);
  }
}

// What is the same for all layers is computed once, outside the repeat.
TEST_F(Import, SharedValuesStandOutsideTheLayers) {
  ImportResult result = build(smallLlama(), generate());
  func::FuncOp decode = function(*result.module, "decode");
  std::multiset<std::string> outside;
  for (Operation &op : decode.getBody().front())
    outside.insert(op.getName().getStringRef().str());
  EXPECT_EQ(
      outside,
      (std::multiset<std::string>{
          "heddle.embedding", "heddle.rotary_table", "heddle.cache_slots",
          "heddle.cache_append", "heddle.repeat", "heddle.gather_rows",
          "heddle.rms_norm", "heddle.linear", "heddle.sample", "func.return"}));
}

// P1: q by heads and k by kv heads, for llama's architecture only.
TEST_F(Import, Bindings) {
  ImportResult result =
      build(smallLlama({{"attention_bias", "true"}}), forward());
  func::FuncOp program = function(*result.module, "forward");
  BindingAttr q = binding(program, "model.layers.{i}.self_attn.q_proj.weight");
  EXPECT_EQ(q.getGgufName(), "blk.{i}.attn_q.weight");
  EXPECT_EQ(q.getRotaryHeads(), 4);
  EXPECT_EQ(q.getLayers(), ArrayRef<int64_t>({0, 1}));
  EXPECT_EQ(q.getScale().convertToDouble(), 0.1768); // 1 / sqrt(32)
  BindingAttr k = binding(program, "model.layers.{i}.self_attn.k_proj.bias");
  EXPECT_EQ(k.getGgufName(), "blk.{i}.attn_k.bias");
  EXPECT_EQ(k.getRotaryHeads(), 2);
  EXPECT_EQ(k.getScale().convertToDouble(), 0.1);
  EXPECT_EQ(k.getOffset().convertToDouble(), 0);
  BindingAttr norm = binding(program, "model.norm.weight");
  EXPECT_EQ(norm.getGgufName(), "output_norm.weight");
  EXPECT_EQ(norm.getScale().convertToDouble(), 0.1);
  EXPECT_EQ(norm.getOffset().convertToDouble(), 1);
  EXPECT_EQ(binding(program, "model.embed_tokens.weight").getGgufName(),
            "token_embd.weight");
  EXPECT_EQ(binding(program, "lm_head.weight").getGgufName(), "output.weight");
  EXPECT_EQ(binding(program, "model.layers.{i}.post_attention_layernorm.weight")
                .getGgufName(),
            "blk.{i}.ffn_norm.weight");

  ImportResult qwen = build(*readPath(golden("tiny-qwen2")).config, forward());
  program = function(*qwen.module, "forward");
  EXPECT_EQ(binding(program, "model.layers.{i}.self_attn.q_proj.weight")
                .getRotaryHeads(),
            0);
  EXPECT_TRUE(binding(program, "model.layers.{i}.self_attn.v_proj.bias"));
  EXPECT_FALSE(binding(program, "model.layers.{i}.self_attn.o_proj.bias"));
}

// C1: one argument at both ends.
TEST_F(Import, TiedEmbeddings) {
  ImportResult result =
      build(smallLlama({{"tie_word_embeddings", "true"}}), forward());
  func::FuncOp program = function(*result.module, "forward");
  EXPECT_FALSE(binding(program, "lm_head.weight"));
  SmallVector<StringRef> users;
  for (Operation *user : program.getArgument(2).getUsers())
    users.push_back(user->getName().getStringRef());
  llvm::sort(users);
  EXPECT_EQ(users,
            SmallVector<StringRef>({"heddle.embedding", "heddle.linear"}));
}

TEST_F(Import, QkNormStandsBetweenSplitAndRotary) {
  ImportResult result =
      build(*readPath(golden("tiny-qwen3")).config, forward());
  int64_t norms = 0;
  result.module->walk([&](RotaryOp op) {
    auto norm = op.getInput().getDefiningOp<RmsNormOp>();
    ASSERT_TRUE(norm);
    EXPECT_TRUE(norm.getInput().getDefiningOp<SplitHeadsOp>());
    ++norms;
  });
  EXPECT_EQ(norms, 2);
}

// Layers with and without a window are two kinds with stacks of their own.
TEST_F(Import, AlternatingWindows) {
  ModelConfig config = smallLlama();
  config.layers = 5;
  config.window = 4;
  config.windowLayers = {true, false, true, false, true};
  ImportResult result = build(config, generate());
  expectRoundTrip(*result.module, "windows");
  func::FuncOp decode = function(*result.module, "decode");
  RepeatOp repeat = *decode.getOps<RepeatOp>().begin();
  EXPECT_EQ(repeat.getOrder(), ArrayRef<int64_t>({0, 1, 0, 1, 0}));
  SmallVector<int64_t> windows;
  repeat->walk([&](AttentionOp op) { windows.push_back(op.getWindow()); });
  EXPECT_EQ(windows, SmallVector<int64_t>({4, 0}));
  Lines lines = signature(decode);
  EXPECT_EQ(Lines(lines.end() - 5, lines.end()),
            Lines({"state k_cache.window: tensor<3x9x8x2x8xf32>",
                   "state v_cache.window: tensor<3x9x8x2x8xf32>",
                   "state k_cache.full: tensor<2x9x8x2x8xf32>",
                   "state v_cache.full: tensor<2x9x8x2x8xf32>",
                   "state key_positions: tensor<9x8xi32>"}));
  EXPECT_EQ(binding(decode, "model.layers.{i}.mlp.up_proj.weight").getLayers(),
            ArrayRef<int64_t>({0, 2, 4}));
  // On all layers: one kind.
  config.windowLayers.clear();
  result = build(config, forward());
  repeat = *function(*result.module, "forward").getOps<RepeatOp>().begin();
  EXPECT_EQ(repeat.getKinds().size(), 1u);
}

TEST_F(Import, ElementTypes) {
  ModelConfig config = smallLlama({{"intermediate_size", "40"}});
  ImportOptions options = forward();
  auto elements = [&](StringRef name) {
    ImportResult result = build(config, options);
    std::string text;
    llvm::raw_string_ostream(text)
        << elementOf(function(*result.module, "forward"), name);
    return text;
  };
  const char *up = "model.layers.{i}.mlp.up_proj.weight";
  const char *down = "model.layers.{i}.mlp.down_proj.weight";
  const char *norm = "model.norm.weight";
  EXPECT_EQ(elements(up), "f32");
  options.weights = "bf16";
  EXPECT_EQ(elements(up), "bf16");
  EXPECT_EQ(elements(norm), "f32");
  options.weights = "q8_0";
  EXPECT_EQ(elements(up), "!heddle.q8_0");
  EXPECT_EQ(elements("model.embed_tokens.weight"), "!heddle.q8_0");
  EXPECT_EQ(elements(norm), "f32");
  // Rows of 40 are no whole number of blocks.
  EXPECT_EQ(elements(down), "bf16");
  options.weights = "keep";
  config.defaultWeight = "f16";
  EXPECT_EQ(elements(down), "f16");
  config.storedTypes = {{"model.norm.weight", "bf16"},
                        {"model.layers.1.mlp.up_proj.weight", "q6_k"},
                        {"model.layers.0.mlp.up_proj.weight", "q6_k"}};
  // Blocks of 256 do not fit rows of 32.
  EXPECT_EQ(elements(up), "bf16");
  config.storedTypes[1].second = config.storedTypes[2].second = "q4_0";
  EXPECT_EQ(elements(up), "!heddle.q4_0");
  EXPECT_EQ(elements(norm), "f32");
}

// A stack has one type; the note says what became of the others.
TEST_F(Import, MixedStoredTypes) {
  const char *name = "model.layers.{i}.mlp.up_proj.weight";
  const std::vector<std::array<std::string, 3>> cases = {
      {"f32", "q4_0", "f32"},           {"f16", "q4_0", "f16"},
      {"f16", "bf16", "f32"},           {"q6_k", "q4_k", "!heddle.q8_0"},
      {"q4_k", "q4_k", "!heddle.q8_0"}, {"f64", "f64", "f32"},
  };
  for (const auto &[first, second, want] : cases) {
    ModelConfig config = smallLlama();
    config.storedTypes = {{"model.layers.1.mlp.up_proj.weight", second},
                          {"model.layers.0.mlp.up_proj.weight", first}};
    ImportOptions options = forward();
    options.weights = "keep";
    ImportResult result = build(config, options);
    std::string text;
    llvm::raw_string_ostream(text)
        << elementOf(function(*result.module, "forward"), name);
    EXPECT_EQ(text, want) << first << " " << second;
    auto notes = (*result.module)->getAttrOfType<ArrayAttr>("heddle.notes");
    ASSERT_TRUE(notes);
    ASSERT_EQ(notes.size(), 1u);
    std::string both = std::min(first, second);
    if (first != second)
      both += ", " + std::max(first, second);
    EXPECT_EQ(cast<StringAttr>(notes[0]).getValue().str(),
              std::string(name) + ": stored as " + both + ", compiled as " +
                  want);
  }
}

// F7's frequencies, through the attribute that the importer makes.
TEST_F(Import, RotaryFrequencies) {
  auto frequencies = [&](const char *name) {
    ModelConfig config = *readPath(golden("configs/") + name + ".json").config;
    ImportResult result = build(config, forward());
    SmallVector<double> values;
    result.module->walk(
        [&](RotaryTableOp op) { values = op.getRope().inverseFrequencies(); });
    return values;
  };
  auto near = [](double got, double want) {
    EXPECT_NEAR(got / want, 1, 1e-7) << want;
  };
  SmallVector<double> llama31 = frequencies("llama-3.1-8b");
  ASSERT_EQ(llama31.size(), 64u);
  near(llama31[0], 1);
  near(llama31[1], 0.8146172339);
  near(llama31[29], 0.0021665708);
  near(llama31[34], 1.7850781e-4);
  near(llama31[36], 7.7846553e-5);
  near(llama31[63], 3.0689260e-07);
  SmallVector<double> llama32 = frequencies("llama-3.2-1b");
  ASSERT_EQ(llama32.size(), 32u);
  near(llama32[15], 0.0012905479);
  near(llama32[16], 4.2955680e-4);
  near(llama32[31], 9.4183067e-08);
}

TEST_F(Import, OpsSayWhereTheyComeFrom) {
  ImportResult result = build(smallLlama(), generate());
  std::set<std::string> names;
  result.module->walk([&](Operation *op) {
    if (auto name = dyn_cast<NameLoc>(op->getLoc()))
      names.insert(name.getName().str());
    else
      EXPECT_TRUE((isa<ModuleOp, MeshOp>(op)));
  });
  for (const char *want :
       {"model.embed_tokens", "model.layers.self_attn.q_proj",
        "model.layers.self_attn", "model.layers.mlp.up_proj",
        "model.layers.post_attention_layernorm", "model.norm", "lm_head"})
    EXPECT_TRUE(names.count(want)) << want;
}

TEST_F(Import, OptionsAreChecked) {
  ImportOptions options;
  options.program = "train";
  options.output = "loss";
  options.weights = "q4_0";
  options.batch = 0;
  options.mesh = {{"tp", 2}, {"tp", 0}};
  EXPECT_EQ(import(context, smallLlama(), options).errors,
            Lines({"'program': expected forward, generate, got \"train\"",
                   "'output': expected logits, last, hidden, got \"loss\"",
                   "'weights': expected keep, f32, bf16, q8_0, got \"q4_0\"",
                   "'batch': expected a whole number from 1 to 1048576, got 0",
                   "'mesh': expected unique axis names that are not empty, got "
                   "\"tp\"",
                   "'mesh': expected positive sizes and at most 1048576 "
                   "ranks, got axis tp = 0"}));
  options = generate();
  options.batch = 1 << 12;
  options.sequence = 1 << 20;
  EXPECT_EQ(import(context, smallLlama(), options).errors,
            Lines({"'batch': expected at most 2047 for sequences of 1048576 "
                   "slots, got 4096"}));
  options = generate();
  options.sequence = 5000;
  EXPECT_EQ(import(context, smallLlama(), options).warnings,
            Lines({"sequence 5000 is longer than the model's 2048 positions"}));
}

// The time does not depend on the size of the model.
TEST_F(Import, LargestModelTakesNoTime) {
  auto start = std::chrono::steady_clock::now();
  ModelConfig config = *readPath(golden("configs/llama-3.1-405b.json")).config;
  ImportOptions options;
  options.sequence = 131072;
  options.mesh = {{"dp", 16}, {"pp", 128}, {"tp", 8}};
  ImportResult result = build(config, options);
  ASSERT_TRUE(result.module);
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 1.0);
}
