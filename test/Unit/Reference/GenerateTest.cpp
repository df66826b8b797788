//===- GenerateTest.cpp - Programs that share states, inputs, parameters
//---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "heddle_rt/weights.h"

using namespace heddle_test;
using namespace mlir;
using namespace mlir::heddle;
using reference::checkEquivalence;
using reference::drawInputs;
using reference::EquivalenceOptions;
using reference::EquivalenceReport;
using reference::EquivalenceRun;
using reference::ProgramInputs;

namespace {

// A decoder of two layers (attention only): 3 sequences over dp = 2 with 2
// blocks of 3 tokens each, 3 heads of width 2 and a vocabulary of 11 over
// tp = 2. Nothing divides.
const char *kGlobal = R"(
  func.func @$name(%tokens: tensor<3x$Txi32> {heddle.binding = #heddle.binding<input "tokens">},
      %positions: tensor<3x$Txi32> {heddle.binding = #heddle.binding<input "positions">},
      %blocks: tensor<3x2xi32> {heddle.binding = #heddle.binding<input "blocks">},
      %lengths: tensor<3xi32> {heddle.binding = #heddle.binding<input "lengths">},
      %last: tensor<3x1xi32> {heddle.binding = #heddle.binding<input "last">},
      %emb: tensor<11x5xf32> {heddle.binding = #heddle.binding<param "embed" scale 1.0>},
      %norm: tensor<5xf32> {heddle.binding = #heddle.binding<param "norm" offset 1.0>},
      %wq: tensor<2x6x5xf32> {heddle.binding = #heddle.binding<param "layers.{i}.q" layers [0, 1] scale 1.0>},
      %wk: tensor<2x6x5xf32> {heddle.binding = #heddle.binding<param "layers.{i}.k" layers [0, 1] scale 1.0>},
      %wv: tensor<2x6x5xf32> {heddle.binding = #heddle.binding<param "layers.{i}.v" layers [0, 1] scale 1.0>},
      %wo: tensor<2x5x6xf32> {heddle.binding = #heddle.binding<param "layers.{i}.o" layers [0, 1] scale 1.0>},
      %kc: tensor<2x6x3x3x2xf32> {heddle.binding = #heddle.binding<state "keys">},
      %vc: tensor<2x6x3x3x2xf32> {heddle.binding = #heddle.binding<state "values">},
      %kp: tensor<6x3xi32> {heddle.binding = #heddle.binding<state "key_positions" fill -1>})
      -> (tensor<3x1xi32> {heddle.binding = #heddle.binding<output "next">}, tensor<3x1x11xf32> {heddle.binding = #heddle.binding<output "logits">},
          tensor<2x6x3x3x2xf32> {heddle.binding = #heddle.binding<state "keys">}, tensor<2x6x3x3x2xf32> {heddle.binding = #heddle.binding<state "values">},
          tensor<6x3xi32> {heddle.binding = #heddle.binding<state "key_positions">}) {
    %x0 = heddle.embedding %tokens, %emb : (tensor<3x$Txi32>, tensor<11x5xf32>) -> tensor<3x$Tx5xf32>
    %slots = heddle.cache_slots %positions, %blocks size 3 : (tensor<3x$Txi32>, tensor<3x2xi32>) -> tensor<3x$Txi32>
    %kp1 = heddle.cache_append %kp, %positions at %slots : (tensor<6x3xi32>, tensor<3x$Txi32>, tensor<3x$Txi32>) -> tensor<6x3xi32>
    %x, %kc1, %vc1 = heddle.repeat order [0, 0] carry(%x0 : tensor<3x$Tx5xf32>)
        params(%wq in 0 : tensor<2x6x5xf32>, %wk in 0 : tensor<2x6x5xf32>, %wv in 0 : tensor<2x6x5xf32>, %wo in 0 : tensor<2x5x6xf32>)
        inout(%kc in 0 : tensor<2x6x3x3x2xf32>, %vc in 0 : tensor<2x6x3x3x2xf32>) {
      kind 0 (%c: tensor<3x$Tx5xf32>, %q: tensor<6x5xf32>, %k: tensor<6x5xf32>, %v: tensor<6x5xf32>, %o: tensor<5x6xf32>, %ck: tensor<6x3x3x2xf32>, %cv: tensor<6x3x3x2xf32>) {
        %h = heddle.rms_norm %c, %norm eps 1.0e-5 : (tensor<3x$Tx5xf32>, tensor<5xf32>) -> tensor<3x$Tx5xf32>
        %q1 = heddle.linear %h, %q : (tensor<3x$Tx5xf32>, tensor<6x5xf32>) -> tensor<3x$Tx6xf32>
        %k1 = heddle.linear %h, %k : (tensor<3x$Tx5xf32>, tensor<6x5xf32>) -> tensor<3x$Tx6xf32>
        %v1 = heddle.linear %h, %v : (tensor<3x$Tx5xf32>, tensor<6x5xf32>) -> tensor<3x$Tx6xf32>
        %q2 = heddle.split_heads %q1 : tensor<3x$Tx6xf32> -> tensor<3x$Tx3x2xf32>
        %k2 = heddle.split_heads %k1 : tensor<3x$Tx6xf32> -> tensor<3x$Tx3x2xf32>
        %v2 = heddle.split_heads %v1 : tensor<3x$Tx6xf32> -> tensor<3x$Tx3x2xf32>
        %ck1 = heddle.cache_append %ck, %k2 at %slots : (tensor<6x3x3x2xf32>, tensor<3x$Tx3x2xf32>, tensor<3x$Txi32>) -> tensor<6x3x3x2xf32>
        %cv1 = heddle.cache_append %cv, %v2 at %slots : (tensor<6x3x3x2xf32>, tensor<3x$Tx3x2xf32>, tensor<3x$Txi32>) -> tensor<6x3x3x2xf32>
        %a = heddle.attention %q2, %ck1, %cv1 pos(%positions, %kp1) blocks(%blocks) lengths(%lengths) scale 0.7 causal
          : (tensor<3x$Tx3x2xf32>, tensor<6x3x3x2xf32>, tensor<6x3x3x2xf32>, tensor<3x$Txi32>, tensor<6x3xi32>, tensor<3x2xi32>, tensor<3xi32>) -> tensor<3x$Tx3x2xf32>
        %a1 = heddle.merge_heads %a : tensor<3x$Tx3x2xf32> -> tensor<3x$Tx6xf32>
        %y = heddle.linear %a1, %o : (tensor<3x$Tx6xf32>, tensor<5x6xf32>) -> tensor<3x$Tx5xf32>
        %c1 = heddle.add %c, %y : (tensor<3x$Tx5xf32>, tensor<3x$Tx5xf32>) -> tensor<3x$Tx5xf32>
        heddle.yield carry(%c1 : tensor<3x$Tx5xf32>) inout(%ck1, %cv1 : tensor<6x3x3x2xf32>, tensor<6x3x3x2xf32>)
      }
    }
    %xl = heddle.gather_rows %x, %last : (tensor<3x$Tx5xf32>, tensor<3x1xi32>) -> tensor<3x1x5xf32>
    %l = heddle.linear %xl, %emb : (tensor<3x1x5xf32>, tensor<11x5xf32>) -> tensor<3x1x11xf32>
    %t = heddle.argmax %l : (tensor<3x1x11xf32>) -> tensor<3x1xi32>
    return %t, %l, %kc1, %vc1, %kp1 : tensor<3x1xi32>, tensor<3x1x11xf32>, tensor<2x6x3x3x2xf32>, tensor<2x6x3x3x2xf32>, tensor<6x3xi32>
  })";

const char *kLocal = R"(
  func.func @$name_local(%tokens: tensor<2x$Txi32> {heddle.binding = #heddle.binding<input "tokens">, heddle.global = tensor<3x$Txi32, #heddle.sharding<@m, [{dp}, {}]>>},
      %positions: tensor<2x$Txi32> {heddle.binding = #heddle.binding<input "positions">, heddle.global = tensor<3x$Txi32, #heddle.sharding<@m, [{dp}, {}]>>},
      %blocks: tensor<2x2xi32> {heddle.binding = #heddle.binding<input "blocks">, heddle.global = tensor<3x2xi32, #heddle.sharding<@m, [{dp}, {}]>>},
      %lengths: tensor<2xi32> {heddle.binding = #heddle.binding<input "lengths">, heddle.global = tensor<3xi32, #heddle.sharding<@m, [{dp}]>>},
      %last: tensor<2x1xi32> {heddle.binding = #heddle.binding<input "last">, heddle.global = tensor<3x1xi32, #heddle.sharding<@m, [{dp}, {}]>>},
      %emb: tensor<6x5xf32> {heddle.binding = #heddle.binding<param "embed" scale 1.0>, heddle.global = tensor<11x5xf32, #heddle.sharding<@m, [{tp}, {}]>>},
      %norm: tensor<5xf32> {heddle.binding = #heddle.binding<param "norm" offset 1.0>, heddle.global = tensor<5xf32>},
      %wq: tensor<2x4x5xf32> {heddle.binding = #heddle.binding<param "layers.{i}.q" layers [0, 1] scale 1.0>, heddle.global = tensor<2x6x5xf32, #heddle.sharding<@m, [{}, {tp, unit = 2}, {}]>>},
      %wk: tensor<2x4x5xf32> {heddle.binding = #heddle.binding<param "layers.{i}.k" layers [0, 1] scale 1.0>, heddle.global = tensor<2x6x5xf32, #heddle.sharding<@m, [{}, {tp, unit = 2}, {}]>>},
      %wv: tensor<2x4x5xf32> {heddle.binding = #heddle.binding<param "layers.{i}.v" layers [0, 1] scale 1.0>, heddle.global = tensor<2x6x5xf32, #heddle.sharding<@m, [{}, {tp, unit = 2}, {}]>>},
      %wo: tensor<2x5x4xf32> {heddle.binding = #heddle.binding<param "layers.{i}.o" layers [0, 1] scale 1.0>, heddle.global = tensor<2x5x6xf32, #heddle.sharding<@m, [{}, {}, {tp, unit = 2}]>>},
      %kc: tensor<2x4x3x2x2xf32> {heddle.binding = #heddle.binding<state "keys">, heddle.global = $cache},
      %vc: tensor<2x4x3x2x2xf32> {heddle.binding = #heddle.binding<state "values">, heddle.global = $cache},
      %kp: tensor<4x3xi32> {heddle.binding = #heddle.binding<state "key_positions" fill -1>, heddle.global = tensor<6x3xi32, #heddle.sharding<@m, [{dp, unit = 2}, {}]>>})
      -> (tensor<2x1xi32> {heddle.binding = #heddle.binding<output "next">, heddle.global = tensor<3x1xi32, #heddle.sharding<@m, [{dp}, {}]>>},
          tensor<2x1x11xf32> {heddle.binding = #heddle.binding<output "logits">, heddle.global = tensor<3x1x11xf32, #heddle.sharding<@m, [{dp}, {}, {}]>>},
          tensor<2x4x3x2x2xf32> {heddle.binding = #heddle.binding<state "keys">, heddle.global = $cache}, tensor<2x4x3x2x2xf32> {heddle.binding = #heddle.binding<state "values">, heddle.global = $cache},
          tensor<4x3xi32> {heddle.binding = #heddle.binding<state "key_positions">, heddle.global = tensor<6x3xi32, #heddle.sharding<@m, [{dp, unit = 2}, {}]>>})
      attributes {heddle.local, heddle.mesh = @m} {
    %ids = heddle.local_index %tokens units <{tp}, [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, -1]]> of 1 : tensor<2x$Txi32> -> tensor<2x$Txi32>
    %e = heddle.embedding %ids, %emb : (tensor<2x$Txi32>, tensor<6x5xf32>) -> tensor<2x$Tx5xf32>
    %x0 = comm.all_reduce sum %e group [#heddle.axis<tp>] because "test" : tensor<2x$Tx5xf32> -> tensor<2x$Tx5xf32>
    %mine = heddle.local_index %blocks units <{dp}, [[0, 1], [2, -1]]> of 2 : tensor<2x2xi32> -> tensor<2x2xi32>
    %slots = heddle.cache_slots %positions, %mine size 3 : (tensor<2x$Txi32>, tensor<2x2xi32>) -> tensor<2x$Txi32>
    %kp1 = heddle.cache_append %kp, %positions at %slots : (tensor<4x3xi32>, tensor<2x$Txi32>, tensor<2x$Txi32>) -> tensor<4x3xi32>
    %x, %kc1, %vc1 = heddle.repeat order [0, 0] carry(%x0 : tensor<2x$Tx5xf32>)
        params(%wq in 0 : tensor<2x4x5xf32>, %wk in 0 : tensor<2x4x5xf32>, %wv in 0 : tensor<2x4x5xf32>, %wo in 0 : tensor<2x5x4xf32>)
        inout(%kc in 0 : tensor<2x4x3x2x2xf32>, %vc in 0 : tensor<2x4x3x2x2xf32>) {
      kind 0 (%c: tensor<2x$Tx5xf32>, %q: tensor<4x5xf32>, %k: tensor<4x5xf32>, %v: tensor<4x5xf32>, %o: tensor<5x4xf32>, %ck: tensor<4x3x2x2xf32>, %cv: tensor<4x3x2x2xf32>) {
        %h = heddle.rms_norm %c, %norm eps 1.0e-5 : (tensor<2x$Tx5xf32>, tensor<5xf32>) -> tensor<2x$Tx5xf32>
        %q1 = heddle.linear %h, %q : (tensor<2x$Tx5xf32>, tensor<4x5xf32>) -> tensor<2x$Tx4xf32>
        %k1 = heddle.linear %h, %k : (tensor<2x$Tx5xf32>, tensor<4x5xf32>) -> tensor<2x$Tx4xf32>
        %v1 = heddle.linear %h, %v : (tensor<2x$Tx5xf32>, tensor<4x5xf32>) -> tensor<2x$Tx4xf32>
        %q2 = heddle.split_heads %q1 : tensor<2x$Tx4xf32> -> tensor<2x$Tx2x2xf32>
        %k2 = heddle.split_heads %k1 : tensor<2x$Tx4xf32> -> tensor<2x$Tx2x2xf32>
        %v2 = heddle.split_heads %v1 : tensor<2x$Tx4xf32> -> tensor<2x$Tx2x2xf32>
        %ck1 = heddle.cache_append %ck, %k2 at %slots : (tensor<4x3x2x2xf32>, tensor<2x$Tx2x2xf32>, tensor<2x$Txi32>) -> tensor<4x3x2x2xf32>
        %cv1 = heddle.cache_append %cv, %v2 at %slots : (tensor<4x3x2x2xf32>, tensor<2x$Tx2x2xf32>, tensor<2x$Txi32>) -> tensor<4x3x2x2xf32>
        %a = heddle.attention %q2, %ck1, %cv1 pos(%positions, %kp1) blocks(%mine) lengths(%lengths) scale 0.7 causal kv_heads <{tp}, [[0, 1], [0, -1]]>
          : (tensor<2x$Tx2x2xf32>, tensor<4x3x2x2xf32>, tensor<4x3x2x2xf32>, tensor<2x$Txi32>, tensor<4x3xi32>, tensor<2x2xi32>, tensor<2xi32>) -> tensor<2x$Tx2x2xf32>
        %a1 = heddle.merge_heads %a : tensor<2x$Tx2x2xf32> -> tensor<2x$Tx4xf32>
        %y1 = heddle.linear %a1, %o : (tensor<2x$Tx4xf32>, tensor<5x4xf32>) -> tensor<2x$Tx5xf32>
        %y = comm.all_reduce sum %y1 group [#heddle.axis<tp>] because "test" : tensor<2x$Tx5xf32> -> tensor<2x$Tx5xf32>
        %c1 = heddle.add %c, %y : (tensor<2x$Tx5xf32>, tensor<2x$Tx5xf32>) -> tensor<2x$Tx5xf32>
        heddle.yield carry(%c1 : tensor<2x$Tx5xf32>) inout(%ck1, %cv1 : tensor<4x3x2x2xf32>, tensor<4x3x2x2xf32>)
      }
    }
    %xl = heddle.gather_rows %x, %last : (tensor<2x$Tx5xf32>, tensor<2x1xi32>) -> tensor<2x1x5xf32>
    %l1 = heddle.linear %xl, %emb : (tensor<2x1x5xf32>, tensor<6x5xf32>) -> tensor<2x1x6xf32>
    %l2 = comm.all_gather %l1 dim 2 group [#heddle.axis<tp>] because "test" : tensor<2x1x6xf32> -> tensor<2x1x12xf32>
    %l = heddle.take_units %l2 dim 2 slots <{}, [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]]> of 1 : tensor<2x1x12xf32> -> tensor<2x1x11xf32>
    %t = heddle.argmax %l : (tensor<2x1x11xf32>) -> tensor<2x1xi32>
    return %t, %l, %kc1, %vc1, %kp1 : tensor<2x1xi32>, tensor<2x1x11xf32>, tensor<2x4x3x2x2xf32>, tensor<2x4x3x2x2xf32>, tensor<4x3xi32>
  })";

class GenerateTest : public ReferenceTest {
protected:
  void SetUp() override {
    std::string text = "heddle.mesh @m [\"dp\" = 2, \"tp\" = 2]\n";
    for (auto [name, rows] :
         {std::pair("prefill", "4"), std::pair("decode", "1")})
      text += substitute(
          std::string(kGlobal) + kLocal,
          {{"name", name},
           {"T", rows},
           {"cache", "tensor<2x6x3x3x2xf32, #heddle.sharding<@m, [{}, {dp, "
                     "unit = 2}, {}, {tp}, {}]>>"}});
    parse(text, "decode");
  }

  EquivalenceRun run(StringRef name, ArrayRef<int64_t> past,
                     ArrayRef<int64_t> valid, uint64_t seed) {
    FailureOr<ProgramInputs> inputs =
        drawInputs(function(name), past, valid, /*vocabulary=*/11, seed);
    EXPECT_TRUE(succeeded(inputs)) << diagnostics;
    return {function(name), function(name.str() + "_local"), *inputs};
  }

  /// Prompts of 4, 2 and 3 tokens, then two steps; the second sequence stands
  /// still in the last one.
  std::vector<EquivalenceRun> runs() {
    return {run("prefill", {0, 0, 0}, {4, 2, 3}, 1),
            run("decode", {4, 2, 3}, {1, 1, 1}, 2),
            run("decode", {5, 3, 4}, {1, 0, 1}, 3)};
  }
};

TEST_F(GenerateTest, DrawsInputsByName) {
  ProgramInputs inputs = run("prefill", {0, 1, 2}, {4, 2, 3}, 1).inputs;
  EXPECT_EQ(inputs.size(), 5u);
  for (double token : inputs["tokens"].data)
    EXPECT_TRUE(token >= 0 && token < 11 && token == static_cast<int>(token));
  EXPECT_CLOSE(inputs["positions"],
               tensor({3, 4}, {0, 1, 2, 3, 1, 2, -1, -1, 2, 3, 4, -1}), 0);
  EXPECT_CLOSE(inputs["blocks"], tensor({3, 2}, {0, 1, 2, 3, 4, 5}), 0);
  EXPECT_CLOSE(inputs["lengths"], scalarStack({4, 3, 5}), 0);
  EXPECT_CLOSE(inputs["last"], tensor({3, 1}, {3, 1, 2}), 0);
  EXPECT_NE(inputs["tokens"].data,
            run("prefill", {0, 1, 2}, {4, 2, 3}, 2).inputs["tokens"].data);

  EXPECT_TRUE(
      failed(drawInputs(function("decode"), {0, 0, 0}, {2, 1, 1}, 11, 1)));
  EXPECT_EQ(std::exchange(diagnostics, ""),
            "error: 'func.func' op expected at most 1 new tokens, got 2\n");
  EXPECT_TRUE(failed(drawInputs(function("decode"), {0}, {1}, 11, 1)));
}

TEST_F(GenerateTest, PrefillThenDecode) {
  FailureOr<EquivalenceReport> report = checkEquivalence(runs());
  ASSERT_TRUE(succeeded(report)) << diagnostics;
  EXPECT_EQ(report->runs, 3);
  EXPECT_EQ(report->results, 15);
  EXPECT_LT(report->worst, 1e-12);
}

TEST_F(GenerateTest, FindsStaleSlot) {
  // One rank does not write one layer's keys of the last step.
  int64_t appends = 0;
  EquivalenceOptions options;
  options.local.afterOp = [&](Operation *op, int64_t rank,
                              ArrayRef<const Tensor *> operands,
                              MutableArrayRef<Tensor> results) {
    // Five appends a run: positions, then keys and values of two layers.
    if (isa<CacheAppendOp>(op) && rank == 1 && ++appends == 2 * 5 + 2)
      results[0] = *operands[0];
  };
  EXPECT_TRUE(failed(checkEquivalence(runs(), options)));
  EXPECT_EQ(appends, 15);
  EXPECT_NE(diagnostics.find("of @decode_local in run 2"), std::string::npos)
      << diagnostics;
}

TEST_F(GenerateTest, StatesLiveOnFromRunToRun) {
  // Without the prompt the step gives other logits: the runs do share states.
  std::vector<Tensor> logits;
  EquivalenceOptions options;
  options.local.afterOp = [&](Operation *op, int64_t rank,
                              ArrayRef<const Tensor *> operands,
                              MutableArrayRef<Tensor>) {
    if (isa<ArgmaxOp>(op) && rank == 0)
      logits.push_back(*operands[0]);
  };
  std::vector<EquivalenceRun> all = runs();
  ASSERT_TRUE(succeeded(checkEquivalence(all, options))) << diagnostics;
  ASSERT_TRUE(succeeded(checkEquivalence(all[1], options))) << diagnostics;
  ASSERT_EQ(logits.size(), 4u);
  EXPECT_FALSE(close(logits[1], logits[3], 1e-3));
}

//===----------------------------------------------------------------------===//
// Matching and drawing
//===----------------------------------------------------------------------===//

class MatchTest : public ReferenceTest {
protected:
  std::string message(StringRef argument, StringRef result,
                      ProgramInputs inputs = {}) {
    parse(substitute(kText,
                     {{"argument", argument.str()}, {"result", result.str()}}),
          "global");
    EXPECT_TRUE(failed(checkEquivalence(EquivalenceRun{
        function("global"), function("local"), std::move(inputs)})));
    return std::exchange(diagnostics, "");
  }
  static constexpr const char *kText = R"(
    heddle.mesh @m ["tp" = 2]
    func.func @global(%x: tensor<3xi32> {heddle.binding = #heddle.binding<input "x">}) -> (tensor<3xi32> {heddle.binding = #heddle.binding<output "y">}) {
      return %x : tensor<3xi32>
    }
    func.func @local(%x: tensor<2xi32> {$argument}) -> (tensor<2xi32> {$result}) attributes {heddle.local, heddle.mesh = @m} {
      return %x : tensor<2xi32>
    })";
  static constexpr const char *kX =
      "heddle.binding = #heddle.binding<input \"x\">, heddle.global = "
      "tensor<3xi32, #heddle.sharding<@m, [{tp}]>>";
  static constexpr const char *kY =
      "heddle.binding = #heddle.binding<output \"y\">, heddle.global = "
      "tensor<3xi32, #heddle.sharding<@m, [{tp}]>>";
};

TEST_F(MatchTest, WhatDoesNotMatchIsNamed) {
  EXPECT_EQ(message("heddle.binding = #heddle.binding<input \"z\">", kY),
            "error: 'func.func' op expected input \"x\" among the arguments\n");
  EXPECT_EQ(message("heddle.unused", kY),
            "error: 'func.func' op expected 'heddle.binding' on argument 0\n");
  EXPECT_NE(
      message(kX, "heddle.binding = #heddle.binding<output \"y\">")
          .find("expected 'heddle.global' of result 0 to be 'tensor<3xi32>' "
                "with a sharding, got none"),
      std::string::npos);
  EXPECT_EQ(
      message(kX, kY),
      "error: 'func.func' op expected a value for input \"x\", got none\n");
  EXPECT_NE(
      message(kX, kY, {{"x", scalarStack({1})}}).find("got another shape"),
      std::string::npos);
  // The part that @local takes is not the one that its type says.
  EXPECT_NE(
      message("heddle.binding = #heddle.binding<input \"x\">, "
              "heddle.global = tensor<3xi32>",
              kY, {{"x", scalarStack({1, 2, 3})}})
          .find("expected argument 0 of type 'tensor<2xi32>', got a tensor "
                "of shape 3"),
      std::string::npos);
}

TEST_F(MatchTest, ParametersAreTheRuntimesRandomWeights) {
  parse(R"(
    heddle.mesh @m ["tp" = 1]
    func.func @global(%w: tensor<2x3x5xf32> {heddle.binding = #heddle.binding<param "a.{i}.w" layers [3, 7] scale 0.5 offset 2.0>})
        -> (tensor<2x3x5xf32> {heddle.binding = #heddle.binding<output "y">}) {
      %y = heddle.add %w, %w : (tensor<2x3x5xf32>, tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
      return %y : tensor<2x3x5xf32>
    }
    func.func @local(%w: tensor<2x3x5xf32> {heddle.binding = #heddle.binding<param "a.{i}.w" layers [3, 7] scale 0.5 offset 2.0>, heddle.global = tensor<2x3x5xf32>})
        -> (tensor<2x3x5xf32> {heddle.binding = #heddle.binding<output "y">, heddle.global = tensor<2x3x5xf32>}) attributes {heddle.local, heddle.mesh = @m} {
      %y = heddle.add %w, %w : (tensor<2x3x5xf32>, tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
      return %y : tensor<2x3x5xf32>
    })",
        "global");
  EquivalenceOptions options;
  options.seed = 42;
  Tensor seen;
  options.local.afterOp = [&](Operation *, int64_t,
                              ArrayRef<const Tensor *> operands,
                              MutableArrayRef<Tensor>) { seen = *operands[0]; };
  ASSERT_TRUE(succeeded(checkEquivalence(
      EquivalenceRun{function("global"), function("local"), {}}, options)))
      << diagnostics;
  for (int layer : {0, 1}) {
    std::vector<float> want(15);
    ::heddle::rt::drawRandom(42, layer == 0 ? "a.3.w" : "a.7.w", 0, 15, 0.5f,
                             2.0f, want.data());
    for (int i = 0; i < 15; ++i)
      EXPECT_EQ(seen.data[layer * 15 + i], want[i]);
  }
}

} // namespace
