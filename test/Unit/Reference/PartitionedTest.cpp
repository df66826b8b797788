//===- PartitionedTest.cpp - Partitioned layers, and bugs planted in them
//---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Local programs as `partition` should make them, written by hand for uneven
// sizes, against their global twins; then the same with one mistake each, which
// the comparison must find.
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

using namespace heddle_test;
using namespace mlir;
using namespace mlir::heddle;
using reference::EquivalenceOptions;
using reference::EquivalenceReport;
using reference::ProgramInputs;

namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

std::string rows(const std::vector<std::vector<int64_t>> &table) {
  std::string text = "[";
  for (size_t r = 0; r < table.size(); ++r) {
    text += r ? ", [" : "[";
    for (size_t c = 0; c < table[r].size(); ++c)
      text += (c ? ", " : "") + std::to_string(table[r][c]);
    text += "]";
  }
  return text + "]";
}

class PartitionedTest : public ReferenceTest {
protected:
  /// Compares @global and @local of the module.
  FailureOr<EquivalenceReport> check(const std::string &text,
                                     ProgramInputs inputs = {},
                                     EquivalenceOptions options = {}) {
    parse(text, "local");
    return reference::checkEquivalence(
        {{function("global"), function("local"), std::move(inputs)}}, options);
  }
  /// Expects an error whose text holds `message`.
  void expectFound(const std::string &text, StringRef message,
                   ProgramInputs inputs = {}, EquivalenceOptions options = {}) {
    EXPECT_TRUE(failed(check(text, std::move(inputs), options)));
    EXPECT_NE(diagnostics.find(message.str()), std::string::npos)
        << diagnostics;
    diagnostics.clear();
  }
};

//===----------------------------------------------------------------------===//
// Column- and row-split gated unit
//===----------------------------------------------------------------------===//

// Batch 3 over dp = 2; hidden width 7 in units of 2 over tp: padded on both.
const char *kMlp = R"(
  heddle.mesh @m ["dp" = 2, "tp" = $tp]
  func.func @global(%x: tensor<3x2x5xf32> {heddle.binding = #heddle.binding<input "x" scale 1.0>},
                    %wg: tensor<7x5xf32> {heddle.binding = #heddle.binding<param "gate" scale 1.0>},
                    %wu: tensor<7x5xf32> {heddle.binding = #heddle.binding<param "up" scale 1.0>},
                    %wd: tensor<5x7xf32> {heddle.binding = #heddle.binding<param "down" scale 1.0>},
                    %b: tensor<5xf32> {heddle.binding = #heddle.binding<param "bias" scale 1.0>})
      -> (tensor<3x2x5xf32> {heddle.binding = #heddle.binding<output "y">}) {
    %g = heddle.linear %x, %wg : (tensor<3x2x5xf32>, tensor<7x5xf32>) -> tensor<3x2x7xf32>
    %u = heddle.linear %x, %wu : (tensor<3x2x5xf32>, tensor<7x5xf32>) -> tensor<3x2x7xf32>
    %a = heddle.glu silu %g, %u : (tensor<3x2x7xf32>, tensor<3x2x7xf32>) -> tensor<3x2x7xf32>
    %y = heddle.linear %a, %wd bias %b : (tensor<3x2x7xf32>, tensor<5x7xf32>, tensor<5xf32>) -> tensor<3x2x5xf32>
    return %y : tensor<3x2x5xf32>
  }
  func.func @local(%b: tensor<5xf32> {heddle.binding = #heddle.binding<param "bias" scale 1.0>, heddle.global = tensor<5xf32>},
                   %x: tensor<2x2x5xf32> {heddle.binding = #heddle.binding<input "x" scale 1.0>, heddle.global = tensor<3x2x5xf32, #heddle.sharding<@m, [{dp}, {}, {}]>>},
                   %wg: tensor<4x5xf32> {heddle.binding = #heddle.binding<param "gate" scale 1.0>, heddle.global = tensor<7x5xf32, #heddle.sharding<@m, [{tp, unit = 2}, {}]>>},
                   %wu: tensor<4x5xf32> {heddle.binding = #heddle.binding<param "up" scale 1.0>, heddle.global = tensor<7x5xf32, #heddle.sharding<@m, [{tp, unit = 2}, {}]>>},
                   %wd: tensor<5x4xf32> {heddle.binding = #heddle.binding<param "down" scale 1.0>, heddle.global = tensor<5x7xf32, #heddle.sharding<@m, [{}, {tp, unit = 2}]>>})
      -> (tensor<2x2x5xf32> {heddle.binding = #heddle.binding<output "y">, heddle.global = tensor<3x2x5xf32, #heddle.sharding<@m, [{dp}, {}, {}]>>})
      attributes {heddle.local, heddle.mesh = @m} {
    %g = heddle.linear %x, %wg : (tensor<2x2x5xf32>, tensor<4x5xf32>) -> tensor<2x2x4xf32>
    %u = heddle.linear %x, %wu : (tensor<2x2x5xf32>, tensor<4x5xf32>) -> tensor<2x2x4xf32>
    %h = heddle.glu silu %g, %u : (tensor<2x2x4xf32>, tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
    %a = heddle.mask_pad %h dim 2 units <{tp}, $units> of 2 size $hidden identity 0.0 : tensor<2x2x4xf32> -> tensor<2x2x4xf32>
    $down
    return %y : tensor<2x2x5xf32>
  })";

const char *kDown = R"(
    %p = heddle.linear %a, %wd : (tensor<2x2x4xf32>, tensor<5x4xf32>) -> tensor<2x2x5xf32>
    %s = comm.all_reduce sum %p group [#heddle.axis<tp>] because "test" : tensor<2x2x5xf32> -> tensor<2x2x5xf32>
    %y = heddle.bias_add %s, %b : (tensor<2x2x5xf32>, tensor<5xf32>) -> tensor<2x2x5xf32>)";

std::string mlp(int64_t tp, const char *down = kDown, int64_t hidden = 7) {
  std::vector<std::vector<int64_t>> units = {{0, 1}, {2, 3}, {-1, -1}};
  units.resize(tp);
  return substitute(kMlp, {{"tp", std::to_string(tp)},
                           {"units", rows(units)},
                           {"hidden", std::to_string(hidden)},
                           {"down", down}});
}

TEST_F(PartitionedTest, GatedUnit) {
  for (int64_t tp : {2, 3}) {
    SCOPED_TRACE(tp);
    FailureOr<EquivalenceReport> report = check(mlp(tp));
    ASSERT_TRUE(succeeded(report)) << diagnostics;
    EXPECT_EQ(report->runs, 1);
    EXPECT_EQ(report->results, 1);
    EXPECT_EQ(report->elements, 30);
    EXPECT_LT(report->worst, 1e-14);
  }
}

TEST_F(PartitionedTest, ParametersArePaddedWithZeros) {
  // The hidden layer's padding is zero because the parameters' is: no mask.
  for (int64_t tp : {2, 3}) {
    std::string text = mlp(tp);
    size_t at = text.find("linear %a, %wd : (tensor<2x2x4xf32>");
    ASSERT_NE(at, std::string::npos);
    text.replace(at, 9, "linear %h");
    EXPECT_TRUE(succeeded(check(text))) << diagnostics;
  }
}

TEST_F(PartitionedTest, FindsMissingReduce) {
  for (int64_t tp : {2, 3})
    expectFound(
        mlp(tp, R"(
    %p = heddle.linear %a, %wd : (tensor<2x2x4xf32>, tensor<5x4xf32>) -> tensor<2x2x5xf32>
    %y = heddle.bias_add %p, %b : (tensor<2x2x5xf32>, tensor<5xf32>) -> tensor<2x2x5xf32>)"),
        "expected replicas of output \"y\" of @local in run 0 to agree");
}

TEST_F(PartitionedTest, FindsReduceOverTheWrongAxis) {
  std::string text = mlp(2);
  size_t at = text.find("axis<tp>");
  text.replace(at, 8, "axis<dp>");
  expectFound(text, "output \"y\" of @local");
}

TEST_F(PartitionedTest, FindsBiasAddedOnEveryRank) {
  for (int64_t tp : {2, 3})
    expectFound(mlp(tp, R"(
    %p = heddle.linear %a, %wd bias %b : (tensor<2x2x4xf32>, tensor<5x4xf32>, tensor<5xf32>) -> tensor<2x2x5xf32>
    %y = comm.all_reduce sum %p group [#heddle.axis<tp>] because "test" : tensor<2x2x5xf32> -> tensor<2x2x5xf32>)"),
                "at [0, 0, 0] of output \"y\" of @local in run 0, got ");
}

TEST_F(PartitionedTest, FindsDroppedTailUnit) {
  for (int64_t tp : {2, 3})
    expectFound(mlp(tp, kDown, /*hidden=*/6),
                "at [0, 0, 0] of output \"y\" of @local in run 0, got ");
}

TEST_F(PartitionedTest, FindsCollectiveThatOneRankSkips) {
  EquivalenceOptions options;
  options.local.afterOp = [](Operation *op, int64_t rank,
                             ArrayRef<const Tensor *> operands,
                             MutableArrayRef<Tensor> results) {
    if (isa<comm::AllReduceOp>(op) && rank == 3)
      results[0] = *operands[0];
  };
  // Rank 3 is dp 1, tp 1: the third sequence.
  expectFound(mlp(2), "on rank 3 at [2, 0, 0], unit [2, 0, 0]", {}, options);
}

TEST_F(PartitionedTest, FindsTheFirstElementThatDiffers) {
  EquivalenceOptions options;
  options.local.afterOp = [](Operation *op, int64_t rank,
                             ArrayRef<const Tensor *>,
                             MutableArrayRef<Tensor> results) {
    // The same on all replicas of the second sequence, dp 0.
    if (isa<BiasAddOp>(op) && rank < 3)
      for (auto [t, d] : {std::pair(1, 4), std::pair(1, 2)})
        results[0].at(1, t, d) += 1e-6;
  };
  expectFound(mlp(3), "at [1, 1, 2] of output \"y\" of @local in run 0, got ",
              {}, options);
  options.tolerance = 1e-3;
  EXPECT_TRUE(succeeded(check(mlp(3), {}, options))) << diagnostics;
}

TEST_F(PartitionedTest, PoisonedPaddingReachesASumUnlessMasked) {
  // The row-split product alone: its input comes padded with NaN.
  const char *text = R"(
    heddle.mesh @m ["tp" = 2]
    func.func @global(%h: tensor<1x2x7xf32> {heddle.binding = #heddle.binding<input "h" scale 1.0>},
                      %w: tensor<5x7xf32> {heddle.binding = #heddle.binding<param "w" scale 1.0>})
        -> (tensor<1x2x5xf32> {heddle.binding = #heddle.binding<output "y">}) {
      %y = heddle.linear %h, %w : (tensor<1x2x7xf32>, tensor<5x7xf32>) -> tensor<1x2x5xf32>
      return %y : tensor<1x2x5xf32>
    }
    func.func @local(%h: tensor<1x2x4xf32> {heddle.binding = #heddle.binding<input "h" scale 1.0>, heddle.global = tensor<1x2x7xf32, #heddle.sharding<@m, [{}, {}, {tp}]>>},
                     %w: tensor<5x4xf32> {heddle.binding = #heddle.binding<param "w" scale 1.0>, heddle.global = tensor<5x7xf32, #heddle.sharding<@m, [{}, {tp}]>>})
        -> (tensor<1x2x5xf32> {heddle.binding = #heddle.binding<output "y">, heddle.global = tensor<1x2x5xf32, #heddle.sharding<@m, [{}, {}, {}], partial = sum{tp}>>})
        attributes {heddle.local, heddle.mesh = @m} {
      %m = heddle.mask_pad %h dim 2 units <{tp}, [[0, 1, 2, 3], [4, 5, 6, -1]]> of 1 size 7 identity 0.0 : tensor<1x2x4xf32> -> tensor<1x2x4xf32>
      %y = heddle.linear $input, %w : (tensor<1x2x4xf32>, tensor<5x4xf32>) -> tensor<1x2x5xf32>
      return %y : tensor<1x2x5xf32>
    })";
  EXPECT_TRUE(succeeded(check(substitute(text, {{"input", "%m"}}))))
      << diagnostics;
  expectFound(substitute(text, {{"input", "%h"}}), "got nan");
}

//===----------------------------------------------------------------------===//
// Attention with heads over ranks
//===----------------------------------------------------------------------===//

/// H query heads dealt in blocks to tp ranks, with the key/value heads (of G)
/// that each rank needs.
struct Heads {
  int64_t query, kv, tp, localQuery, localKv = 1;
  std::vector<std::vector<int64_t>> held, kvOf;

  Heads(int64_t query, int64_t kv, int64_t tp)
      : query(query), kv(kv), tp(tp), localQuery((query + tp - 1) / tp) {
    for (int64_t rank = 0; rank < tp; ++rank) {
      std::vector<int64_t> heads, index;
      for (int64_t h = rank * localQuery; h < (rank + 1) * localQuery; ++h) {
        int64_t g = h / (query / kv);
        if (h < query && !llvm::is_contained(heads, g))
          heads.push_back(g);
        index.push_back(h < query ? static_cast<int64_t>(heads.size()) - 1
                                  : -1);
      }
      localKv = std::max<int64_t>(localKv, heads.size());
      held.push_back(heads);
      kvOf.push_back(index);
    }
    for (std::vector<int64_t> &heads : held)
      heads.resize(localKv, -1);
  }
};

// Batch 3 over dp = 2, head width 4, model width 5.
const char *kAttention = R"(
  heddle.mesh @m ["dp" = 2, "tp" = $tp]
  heddle.table @kv $kvTable
  func.func @global(%x: tensor<3x4x5xf32> {heddle.binding = #heddle.binding<input "x" scale 1.0>},
                    %p: tensor<3x4xi32> {heddle.binding = #heddle.binding<input "positions">},
                    %wq: tensor<$HEx5xf32> {heddle.binding = #heddle.binding<param "q" scale 1.0>},
                    %wk: tensor<$GEx5xf32> {heddle.binding = #heddle.binding<param "k" scale 1.0>},
                    %wv: tensor<$GEx5xf32> {heddle.binding = #heddle.binding<param "v" scale 1.0>},
                    %wo: tensor<5x$HExf32> {heddle.binding = #heddle.binding<param "o" scale 1.0>})
      -> (tensor<3x4x5xf32> {heddle.binding = #heddle.binding<output "y">}) {
    %cs = heddle.rotary_table %p <dim 4 theta 1.0e+4> : (tensor<3x4xi32>) -> tensor<3x4x4xf32>
    %q = heddle.linear %x, %wq : (tensor<3x4x5xf32>, tensor<$HEx5xf32>) -> tensor<3x4x$HExf32>
    %k = heddle.linear %x, %wk : (tensor<3x4x5xf32>, tensor<$GEx5xf32>) -> tensor<3x4x$GExf32>
    %v = heddle.linear %x, %wv : (tensor<3x4x5xf32>, tensor<$GEx5xf32>) -> tensor<3x4x$GExf32>
    %qh = heddle.split_heads %q : tensor<3x4x$HExf32> -> tensor<3x4x$Hx4xf32>
    %kh = heddle.split_heads %k : tensor<3x4x$GExf32> -> tensor<3x4x$Gx4xf32>
    %vh = heddle.split_heads %v : tensor<3x4x$GExf32> -> tensor<3x4x$Gx4xf32>
    %qr = heddle.rotary %qh, %cs : (tensor<3x4x$Hx4xf32>, tensor<3x4x4xf32>) -> tensor<3x4x$Hx4xf32>
    %kr = heddle.rotary %kh, %cs : (tensor<3x4x$Gx4xf32>, tensor<3x4x4xf32>) -> tensor<3x4x$Gx4xf32>
    %a = heddle.attention %qr, %kr, %vh pos(%p, %p) scale 0.5 causal
      : (tensor<3x4x$Hx4xf32>, tensor<3x4x$Gx4xf32>, tensor<3x4x$Gx4xf32>, tensor<3x4xi32>, tensor<3x4xi32>) -> tensor<3x4x$Hx4xf32>
    %m = heddle.merge_heads %a : tensor<3x4x$Hx4xf32> -> tensor<3x4x$HExf32>
    %y = heddle.linear %m, %wo : (tensor<3x4x$HExf32>, tensor<5x$HExf32>) -> tensor<3x4x5xf32>
    return %y : tensor<3x4x5xf32>
  }
  func.func @local(%x: tensor<2x4x5xf32> {heddle.binding = #heddle.binding<input "x" scale 1.0>, heddle.global = tensor<3x4x5xf32, #heddle.sharding<@m, [{dp}, {}, {}]>>},
                   %p: tensor<2x4xi32> {heddle.binding = #heddle.binding<input "positions">, heddle.global = tensor<3x4xi32, #heddle.sharding<@m, [{dp}, {}]>>},
                   %wq: tensor<$hEx5xf32> {heddle.binding = #heddle.binding<param "q" scale 1.0>, heddle.global = tensor<$HEx5xf32, #heddle.sharding<@m, [{tp, unit = 4}, {}]>>},
                   %wk: tensor<$gEx5xf32> {heddle.binding = #heddle.binding<param "k" scale 1.0>, heddle.global = tensor<$GEx5xf32, #heddle.sharding<@m, [{tp, unit = 4, map = table @kv}, {}]>>},
                   %wv: tensor<$gEx5xf32> {heddle.binding = #heddle.binding<param "v" scale 1.0>, heddle.global = tensor<$GEx5xf32, #heddle.sharding<@m, [{tp, unit = 4, map = table @kv}, {}]>>},
                   %wo: tensor<5x$hExf32> {heddle.binding = #heddle.binding<param "o" scale 1.0>, heddle.global = tensor<5x$HExf32, #heddle.sharding<@m, [{}, {tp, unit = 4}]>>})
      -> (tensor<2x4x5xf32> {heddle.binding = #heddle.binding<output "y">, heddle.global = tensor<3x4x5xf32, #heddle.sharding<@m, [{dp}, {}, {}]>>})
      attributes {heddle.local, heddle.mesh = @m} {
    %cs = heddle.rotary_table %p <dim 4 theta 1.0e+4> : (tensor<2x4xi32>) -> tensor<2x4x4xf32>
    %q = heddle.linear %x, %wq : (tensor<2x4x5xf32>, tensor<$hEx5xf32>) -> tensor<2x4x$hExf32>
    %k = heddle.linear %x, %wk : (tensor<2x4x5xf32>, tensor<$gEx5xf32>) -> tensor<2x4x$gExf32>
    %v = heddle.linear %x, %wv : (tensor<2x4x5xf32>, tensor<$gEx5xf32>) -> tensor<2x4x$gExf32>
    %qh = heddle.split_heads %q : tensor<2x4x$hExf32> -> tensor<2x4x$hx4xf32>
    %kh = heddle.split_heads %k : tensor<2x4x$gExf32> -> tensor<2x4x$gx4xf32>
    %vh = heddle.split_heads %v : tensor<2x4x$gExf32> -> tensor<2x4x$gx4xf32>
    %qr = heddle.rotary %qh, %cs : (tensor<2x4x$hx4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x$hx4xf32>
    %kr = heddle.rotary %kh, %cs : (tensor<2x4x$gx4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x$gx4xf32>
    %a = heddle.attention %qr, %kr, %vh pos(%p, %p) scale 0.5 causal kv_heads <{tp}, $kvOf>
      : (tensor<2x4x$hx4xf32>, tensor<2x4x$gx4xf32>, tensor<2x4x$gx4xf32>, tensor<2x4xi32>, tensor<2x4xi32>) -> tensor<2x4x$hx4xf32>
    %m = heddle.merge_heads %a : tensor<2x4x$hx4xf32> -> tensor<2x4x$hExf32>
    %s = heddle.linear %m, %wo : (tensor<2x4x$hExf32>, tensor<5x$hExf32>) -> tensor<2x4x5xf32>
    %y = comm.all_reduce sum %s group [#heddle.axis<tp>] because "test" : tensor<2x4x5xf32> -> tensor<2x4x5xf32>
    return %y : tensor<2x4x5xf32>
  })";

std::string attentionText(const Heads &heads) {
  auto text = [](int64_t value) { return std::to_string(value); };
  return substitute(kAttention, {{"kvTable", rows(heads.held)},
                                 {"kvOf", rows(heads.kvOf)},
                                 {"tp", text(heads.tp)},
                                 {"HE", text(heads.query * 4)},
                                 {"GE", text(heads.kv * 4)},
                                 {"hE", text(heads.localQuery * 4)},
                                 {"gE", text(heads.localKv * 4)},
                                 {"H", text(heads.query)},
                                 {"G", text(heads.kv)},
                                 {"h", text(heads.localQuery)},
                                 {"g", text(heads.localKv)}});
}

/// Sequences of 4, 2 and 3 tokens that start at different positions.
ProgramInputs attentionInputs() {
  return {
      {"positions", tensor({3, 4}, {0, 1, 2, 3, 7, 8, -1, -1, 2, 3, 4, -1})}};
}

TEST_F(PartitionedTest, AttentionWithHeadsOverRanks) {
  for (auto [query, kv, tp] :
       {std::tuple(9, 3, 2), std::tuple(9, 3, 3), std::tuple(8, 2, 3),
        std::tuple(5, 5, 3), std::tuple(4, 1, 3)}) {
    SCOPED_TRACE(testing::Message()
                 << query << " query heads, " << kv << " kv heads, tp " << tp);
    FailureOr<EquivalenceReport> report =
        check(attentionText(Heads(query, kv, tp)), attentionInputs());
    ASSERT_TRUE(succeeded(report)) << diagnostics;
    EXPECT_LT(report->worst, 1e-13);
  }
}

TEST_F(PartitionedTest, FindsDroppedTailHead) {
  Heads heads(9, 3, 2);
  EXPECT_EQ(rows(heads.kvOf), "[[0, 0, 0, 1, 1], [0, 1, 1, 1, -1]]");
  heads.kvOf[1][3] = -1;
  expectFound(attentionText(heads), "output \"y\" of @local",
              attentionInputs());
}

TEST_F(PartitionedTest, FindsWrongKvHead) {
  Heads heads(8, 2, 3);
  EXPECT_EQ(rows(heads.kvOf), "[[0, 0, 0], [0, 1, 1], [0, 0, -1]]");
  heads.kvOf[1][0] = 1;
  expectFound(attentionText(heads), "output \"y\" of @local",
              attentionInputs());
}

//===----------------------------------------------------------------------===//
// Attention with keys over ranks
//===----------------------------------------------------------------------===//

// 7 tokens over cp; keys and values go round, partial results are merged.
const char *kRing = R"(
  heddle.mesh @m ["cp" = $cp]
  func.func @global(%q: tensor<1x7x2x3xf32> {heddle.binding = #heddle.binding<input "q" scale 1.0>},
                    %k: tensor<1x7x1x3xf32> {heddle.binding = #heddle.binding<input "k" scale 1.0>},
                    %v: tensor<1x7x1x3xf32> {heddle.binding = #heddle.binding<input "v" scale 1.0>},
                    %p: tensor<1x7xi32> {heddle.binding = #heddle.binding<input "positions">})
      -> (tensor<1x7x2x3xf32> {heddle.binding = #heddle.binding<output "o">}) {
    %o = heddle.attention %q, %k, %v pos(%p, %p) scale 0.7 causal window 5
      : (tensor<1x7x2x3xf32>, tensor<1x7x1x3xf32>, tensor<1x7x1x3xf32>, tensor<1x7xi32>, tensor<1x7xi32>) -> tensor<1x7x2x3xf32>
    return %o : tensor<1x7x2x3xf32>
  }
  func.func @local(%q: tensor<1x$sx2x3xf32> {heddle.binding = #heddle.binding<input "q" scale 1.0>, heddle.global = tensor<1x7x2x3xf32, #heddle.sharding<@m, [{}, $dim, {}, {}]>>},
                   %k: tensor<1x$sx1x3xf32> {heddle.binding = #heddle.binding<input "k" scale 1.0>, heddle.global = tensor<1x7x1x3xf32, #heddle.sharding<@m, [{}, $dim, {}, {}]>>},
                   %v: tensor<1x$sx1x3xf32> {heddle.binding = #heddle.binding<input "v" scale 1.0>, heddle.global = tensor<1x7x1x3xf32, #heddle.sharding<@m, [{}, $dim, {}, {}]>>},
                   %p: tensor<1x$sxi32> {heddle.binding = #heddle.binding<input "positions">, heddle.global = tensor<1x7xi32, #heddle.sharding<@m, [{}, $dim]>>})
      -> (tensor<1x$sx2x3xf32> {heddle.binding = #heddle.binding<output "o">, heddle.global = tensor<1x7x2x3xf32, #heddle.sharding<@m, [{}, $dim, {}, {}]>>})
      attributes {heddle.local, heddle.mesh = @m} {
    %o0, %l0 = heddle.attention_partial %q, %k, %v pos(%p, %p) scale 0.7 causal window 5
      : (tensor<1x$sx2x3xf32>, tensor<1x$sx1x3xf32>, tensor<1x$sx1x3xf32>, tensor<1x$sxi32>, tensor<1x$sxi32>) -> (tensor<1x$sx2x3xf32>, tensor<1x$sx2xf32>)
    %r:5 = heddle.repeat order $order carry(%o0 : tensor<1x$sx2x3xf32>, %l0 : tensor<1x$sx2xf32>, %k : tensor<1x$sx1x3xf32>, %v : tensor<1x$sx1x3xf32>, %p : tensor<1x$sxi32>) {
      kind 0 (%o1: tensor<1x$sx2x3xf32>, %l1: tensor<1x$sx2xf32>, %k1: tensor<1x$sx1x3xf32>, %v1: tensor<1x$sx1x3xf32>, %p1: tensor<1x$sxi32>) {
        %k2 = comm.permute %k1 shift 1 group [#heddle.axis<cp>] because "ring" : tensor<1x$sx1x3xf32> -> tensor<1x$sx1x3xf32>
        %v2 = comm.permute %v1 shift 1 group [#heddle.axis<cp>] because "ring" : tensor<1x$sx1x3xf32> -> tensor<1x$sx1x3xf32>
        %p2 = comm.permute %p1 shift 1 group [#heddle.axis<cp>] because "ring" : tensor<1x$sxi32> -> tensor<1x$sxi32>
        %o2, %l2 = heddle.attention_partial %q, %k2, %v2 pos(%p, $keyPositions) scale 0.7 causal window 5
          : (tensor<1x$sx2x3xf32>, tensor<1x$sx1x3xf32>, tensor<1x$sx1x3xf32>, tensor<1x$sxi32>, tensor<1x$sxi32>) -> (tensor<1x$sx2x3xf32>, tensor<1x$sx2xf32>)
        %o3, %l3 = heddle.merge_partials %o1, %l1, %o2, %l2
          : (tensor<1x$sx2x3xf32>, tensor<1x$sx2xf32>, tensor<1x$sx2x3xf32>, tensor<1x$sx2xf32>) -> (tensor<1x$sx2x3xf32>, tensor<1x$sx2xf32>)
        heddle.yield carry(%o3, %l3, %k2, %v2, %p2 : tensor<1x$sx2x3xf32>, tensor<1x$sx2xf32>, tensor<1x$sx1x3xf32>, tensor<1x$sx1x3xf32>, tensor<1x$sxi32>)
      }
    }
    return %r#0 : tensor<1x$sx2x3xf32>
  })";

struct Ring {
  int64_t cp, slots;
  const char *dim;
};
const Ring kRings[] = {{2, 4, "{cp}"},
                       {2, 4, "{cp, map = zigzag}"},
                       {3, 3, "{cp}"},
                       {3, 4, "{cp, map = zigzag}"},
                       {3, 4, "{cp, map = cyclic(2)}"}};

std::string ringText(const Ring &ring, const char *keyPositions = "%p2") {
  return substitute(kRing, {{"cp", std::to_string(ring.cp)},
                            {"keyPositions", keyPositions},
                            {"dim", ring.dim},
                            {"order", ring.cp == 2 ? "[0]" : "[0, 0]"},
                            {"s", std::to_string(ring.slots)}});
}

ProgramInputs ringInputs() {
  return {{"positions", tensor({1, 7}, {0, 1, 2, 3, 4, 5, 6})}};
}

TEST_F(PartitionedTest, RingAttention) {
  for (const Ring &ring : kRings) {
    SCOPED_TRACE(testing::Message() << "cp " << ring.cp << " " << ring.dim);
    FailureOr<EquivalenceReport> report = check(ringText(ring), ringInputs());
    EXPECT_TRUE(succeeded(report)) << diagnostics;
  }
}

TEST_F(PartitionedTest, FindsMaskPerBlock) {
  // Keys that came from another rank, masked as if they were this rank's.
  for (const Ring &ring : kRings)
    expectFound(ringText(ring, "%p"), "output \"o\" of @local", ringInputs());
}

} // namespace
