//===- CasesTest.cpp - Cases with numbers that are known exactly ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Small programs go all the way to a bundle, which runs on in-process ranks
// with poisoned memory. Tests are named after the case (README.md).
//
//===----------------------------------------------------------------------===//

#include "CasesSupport.h"

#include "heddle/Import/Import.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace heddle_test;

// Values in blocks of 32 that lie over key/value heads of 8 columns: those are
// held in units of four, whichever query heads need them. On five ranks some
// are held twice, and must not be added twice.
TEST(Cases, A10_KeyValueHeadsInWholeBlocks) {
  const char *text = R"(
    heddle.mesh @m ["tp" = TP]
    func.func @f(%q: tensor<1x2x16x8xf32> {heddle.binding = #heddle.binding<input "q">},
                 %k: tensor<1x2x8x8xf32> {heddle.binding = #heddle.binding<input "k">},
                 %v: tensor<1x2x8x8xf32> {heddle.binding = #heddle.binding<input "v">},
                 %p: tensor<1x2xi32> {heddle.binding = #heddle.binding<input "positions">},
                 %wo: tensor<4x128x!heddle.q8_0> {heddle.binding = #heddle.binding<param "o" scale 1.0>},
                 %wv: tensor<4x64x!heddle.q8_0> {heddle.binding = #heddle.binding<param "v" scale 1.0>})
        -> (tensor<1x2x4xf32> {heddle.binding = #heddle.binding<output "y">})
        attributes {heddle.mesh = @m, heddle.program = "f"} {
      %a = heddle.attention %q, %k, %v pos(%p, %p) scale 0.5 causal
        : (tensor<1x2x16x8xf32>, tensor<1x2x8x8xf32>, tensor<1x2x8x8xf32>, tensor<1x2xi32>, tensor<1x2xi32>) -> tensor<1x2x16x8xf32>
      %am = heddle.merge_heads %a : tensor<1x2x16x8xf32> -> tensor<1x2x128xf32>
      %vm = heddle.merge_heads %v : tensor<1x2x8x8xf32> -> tensor<1x2x64xf32>
      %ao = heddle.linear %am, %wo : (tensor<1x2x128xf32>, tensor<4x128x!heddle.q8_0>) -> tensor<1x2x4xf32>
      %vo = heddle.linear %vm, %wv : (tensor<1x2x64xf32>, tensor<4x64x!heddle.q8_0>) -> tensor<1x2x4xf32>
      %y = heddle.add %ao, %vo : (tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
      return %y : tensor<1x2x4xf32>
    })";
  auto numbers = [](int64_t count, int64_t step) {
    Floats result;
    for (int64_t i = 0; i < count; ++i)
      result.push_back(static_cast<float>(i * step % 23 - 11) / 16);
    return result;
  };
  Floats want;
  for (const char *tp : {"1", "2", "3", "5"}) {
    SCOPED_TRACE(tp);
    std::string annotated = annotate(replaced(text, "TP", tp));
    ASSERT_FALSE(annotated.empty());
    bool cut = annotated.find("tensor<4x64x!heddle.q8_0, #heddle.sharding<@m, "
                              "[{}, {tp") != std::string::npos;
    EXPECT_EQ(cut, *tp == '2' || *tp == '3') << annotated;
    Floats got = run(annotated, {{"q", host({1, 2, 16, 8}, numbers(256, 7))},
                                 {"k", host({1, 2, 8, 8}, numbers(128, 5))},
                                 {"v", host({1, 2, 8, 8}, numbers(128, 3))},
                                 {"positions", hostIntegers({1, 2}, {0, 1})}});
    if (want.empty())
      want = got;
    ASSERT_EQ(got.size(), 8u);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], want[i], 1e-5) << i;
  }
}

// A row-parallel product and its bias, as annotate writes them. The bias once:
// 130; once per rank it would be 230 on two ranks.
TEST(Cases, D1_RowParallelBiasIsAddedOnce) {
  const char *text = R"(
    heddle.mesh @m ["tp" = TP]
    func.func @f(%x: tensor<1x2x4xf32, #heddle.sharding<@m, [{}, {}, {tp}]>> {heddle.binding = #heddle.binding<input "x">},
                 %w: tensor<3x4xf32, #heddle.sharding<@m, [{}, {tp}]>> {heddle.binding = #heddle.binding<input "w">},
                 %b: tensor<3xf32, #heddle.sharding<@m, [{}]>> {heddle.binding = #heddle.binding<input "b">})
        -> (tensor<1x2x3xf32, #heddle.sharding<@m, [{}, {}, {}]>> {heddle.binding = #heddle.binding<output "y">})
        attributes {heddle.mesh = @m, heddle.program = "f"} {
      %p = heddle.linear %x, %w : (tensor<1x2x4xf32, #heddle.sharding<@m, [{}, {}, {tp}]>>, tensor<3x4xf32, #heddle.sharding<@m, [{}, {tp}]>>) -> tensor<1x2x3xf32, #heddle.sharding<@m, [{}, {}, {}], partial = sum{tp}>>
      %s = heddle.reshard %p because "test" : tensor<1x2x3xf32, #heddle.sharding<@m, [{}, {}, {}], partial = sum{tp}>> -> tensor<1x2x3xf32, #heddle.sharding<@m, [{}, {}, {}]>>
      %y = heddle.bias_add %s, %b : (tensor<1x2x3xf32, #heddle.sharding<@m, [{}, {}, {}]>>, tensor<3xf32, #heddle.sharding<@m, [{}]>>) -> tensor<1x2x3xf32, #heddle.sharding<@m, [{}, {}, {}]>>
      return %y : tensor<1x2x3xf32, #heddle.sharding<@m, [{}, {}, {}]>>
    })";
  for (const char *tp : {"1", "2", "3", "4"}) {
    SCOPED_TRACE(tp);
    EXPECT_EQ(run(replaced(text, "TP", tp),
                  {{"x", host({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})},
                   {"w", host({3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})},
                   {"b", host({3}, {100, 200, 300})}}),
              (Floats{130, 270, 410, 170, 374, 578}));
  }
}

// The same, with the bias a part of the product: annotate must split it off.
TEST(Cases, D1_AnnotateSplitsTheBiasOff) {
  const char *text = R"(
    heddle.mesh @m ["tp" = TP]
    func.func @f(%x: tensor<1x2x4xf32> {heddle.binding = #heddle.binding<input "x">},
                 %u: tensor<1x2x4xf32> {heddle.binding = #heddle.binding<input "u">},
                 %w: tensor<3x4xf32> {heddle.binding = #heddle.binding<input "w">},
                 %b: tensor<3xf32> {heddle.binding = #heddle.binding<input "b">})
        -> (tensor<1x2x3xf32> {heddle.binding = #heddle.binding<output "y">})
        attributes {heddle.mesh = @m, heddle.program = "f"} {
      %a = heddle.glu relu %x, %u : (tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
      %y = heddle.linear %a, %w bias %b : (tensor<1x2x4xf32>, tensor<3x4xf32>, tensor<3xf32>) -> tensor<1x2x3xf32>
      return %y : tensor<1x2x3xf32>
    })";
  for (const char *tp : {"1", "2", "3", "4"}) {
    SCOPED_TRACE(tp);
    std::string annotated = annotate(replaced(text, "TP", tp));
    EXPECT_EQ(run(annotated,
                  {{"x", host({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})},
                   {"u", host({1, 2, 4}, Floats(8, 1))},
                   {"w", host({3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})},
                   {"b", host({3}, {100, 200, 300})}}),
              (Floats{130, 270, 410, 170, 374, 578}));
  }
}

// Addends 1e4, 1, -1e4, 1 of four ranks: 2 exactly, in fp32 and in order.
TEST(Cases, T2_SumOfWideAddendsIsExact) {
  const char *text = R"(
    heddle.mesh @m ["tp" = 4]
    func.func @f(%x: tensor<1x1x4xf32, #heddle.sharding<@m, [{}, {}, {tp}]>> {heddle.binding = #heddle.binding<input "x">},
                 %w: tensor<2x4xf32, #heddle.sharding<@m, [{}, {tp}]>> {heddle.binding = #heddle.binding<input "w">})
        -> (tensor<1x1x2xf32, #heddle.sharding<@m, [{}, {}, {}]>> {heddle.binding = #heddle.binding<output "y">})
        attributes {heddle.mesh = @m, heddle.program = "f"} {
      %p = heddle.linear %x, %w : (tensor<1x1x4xf32, #heddle.sharding<@m, [{}, {}, {tp}]>>, tensor<2x4xf32, #heddle.sharding<@m, [{}, {tp}]>>) -> tensor<1x1x2xf32, #heddle.sharding<@m, [{}, {}, {}], partial = sum{tp}>>
      %y = heddle.reshard %p because "test" : tensor<1x1x2xf32, #heddle.sharding<@m, [{}, {}, {}], partial = sum{tp}>> -> tensor<1x1x2xf32, #heddle.sharding<@m, [{}, {}, {}]>>
      return %y : tensor<1x1x2xf32, #heddle.sharding<@m, [{}, {}, {}]>>
    })";
  EXPECT_EQ(run(text, {{"x", host({1, 1, 4}, {1e4, 1, -1e4, 1})},
                       {"w", host({2, 4}, {1, 1, 1, 1, 2, 2, 2, 2})}}),
            (Floats{2, 4}));
}

// No state of one compilation reaches the next: models of 3 and of 12 key/value
// heads, and the first again, in one process, give the bytes that each gives in
// a context of its own.
TEST(Cases, B7_CompilationsShareNothing) {
  auto compile = [](MLIRContext &context, int64_t kvHeads) {
    ModelConfig config;
    config.modelType = "llama";
    config.hidden = 96;
    config.intermediate = 64;
    config.layers = 2;
    config.heads = 12;
    config.kvHeads = kvHeads;
    config.headDim = config.rotaryDim = 8;
    config.vocabulary = 96;
    config.maxPositions = 64;
    ImportOptions options;
    options.sequence = 16;
    options.chunk = 4;
    options.mesh = {{"tp", 4}};
    FailureOr<OwningOpRef<ModuleOp>> module =
        importModel(&context, config, options);
    EXPECT_TRUE(succeeded(module));
    return succeeded(module) ? bundleOf(**module, Phase::Import)
                             : std::vector<uint8_t>();
  };
  std::unique_ptr<MLIRContext> shared = makeContext();
  std::vector<uint8_t> x = compile(*shared, 3), y = compile(*shared, 12),
                       again = compile(*shared, 3);
  ASSERT_FALSE(x.empty());
  EXPECT_NE(x, y);
  EXPECT_EQ(x, again);
  EXPECT_EQ(x, compile(*makeContext(), 3));
  EXPECT_EQ(y, compile(*makeContext(), 12));
}
