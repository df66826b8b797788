//===- AttentionTest.cpp - Attention against a dense formula --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include <cmath>

using namespace heddle_test;

namespace {

/// What decides a mask; -1 and 0 switch a part off.
struct Mask {
  bool causal = false;
  int64_t window = 0;
  std::vector<double> lengths;
};

struct Attended {
  Tensor out, lse;
};

/// Dense attention in long double, without any trick against overflow. Keys are
/// B x S x G x E, already gathered; `headOf` maps query to key/value heads.
Attended dense(const Tensor &q, const Tensor &k, const Tensor &v,
               const Tensor &qpos, const Tensor &kpos, double scale,
               const Mask &mask, std::vector<int64_t> headOf) {
  int64_t heads = q.shape[2], width = q.shape[3], keys = k.shape[1];
  Attended result{Tensor::filled(q.shape, 0),
                  Tensor::filled({q.shape[0], q.shape[1], heads}, -kInf)};
  for (int64_t b = 0; b < q.shape[0]; ++b)
    for (int64_t t = 0; t < q.shape[1]; ++t)
      for (int64_t h = 0; h < heads; ++h) {
        if (headOf[h] < 0)
          continue;
        std::vector<long double> weight(keys, 0);
        long double total = 0;
        for (int64_t j = 0; j < keys; ++j) {
          bool hidden = kpos.at(b, j) < 0;
          hidden |= !mask.lengths.empty() && j >= mask.lengths[b];
          hidden |= mask.causal && kpos.at(b, j) > qpos.at(b, t);
          hidden |=
              mask.window > 0 && kpos.at(b, j) <= qpos.at(b, t) - mask.window;
          if (hidden)
            continue;
          long double dot = 0;
          for (int64_t e = 0; e < width; ++e)
            dot += static_cast<long double>(q.at(b, t, h, e)) *
                   k.at(b, j, headOf[h], e);
          total += weight[j] = std::exp(scale * dot);
        }
        if (total == 0)
          continue;
        result.lse.at(b, t, h) = std::log(total);
        for (int64_t e = 0; e < width; ++e) {
          long double sum = 0;
          for (int64_t j = 0; j < keys; ++j)
            if (weight[j] != 0)
              sum += weight[j] * v.at(b, j, headOf[h], e);
          result.out.at(b, t, h, e) = sum / total;
        }
      }
  return result;
}

const std::vector<int64_t> kGrouped = {0, 0, 1, 1, 2, 2};

class AttentionTest : public ReferenceTest {
protected:
  // B = 2, T = 3, H = 6, G = 3, E = 5, S = 7.
  Tensor q = randomTensor({2, 3, 6, 5}, 1), k = randomTensor({2, 7, 3, 5}, 2),
         v = randomTensor({2, 7, 3, 5}, 3);
  Tensor qpos = tensor({2, 3}, {3, 4, -1, 0, 9, 5});
  Tensor kpos = tensor({2, 7}, {0, 1, 2, 3, 4, -1, -1, 1, 0, 9, 8, -1, 4, 5});

  void SetUp() override {
    for (Tensor *x : {&q, &k})
      for (double &value : x->data)
        value *= 3;
    // Keys that nobody may see hold anything.
    for (int b = 0; b < 2; ++b)
      for (int j = 0; j < 7; ++j)
        if (kpos.at(b, j) < 0)
          for (int g = 0; g < 3; ++g)
            for (int e = 0; e < 5; ++e)
              k.at(b, j, g, e) = v.at(b, j, g, e) = kNaN;
  }
};

TEST_F(AttentionTest, MasksByPositionLengthCausalityAndWindow) {
  struct Case {
    const char *name, *attributes;
    Mask mask;
  } cases[] = {
      {"no mask", "", {}},
      {"causal", "causal", {true, 0, {}}},
      {"window", "window 4", {false, 4, {}}},
      {"causal window of the query alone", "causal window 1", {true, 1, {}}},
      {"lengths", "", {false, 0, {4, 0}}},
      {"all", "causal window 3", {true, 3, {4, 7}}}};
  for (const Case &c : cases) {
    SCOPED_TRACE(c.name);
    bool lengths = !c.mask.lengths.empty();
    std::vector<Tensor> arguments = {
        q,
        k,
        v,
        qpos,
        kpos,
        scalarStack(lengths ? c.mask.lengths : std::vector<double>{0, 0})};
    std::vector<Tensor> got =
        evaluate(substitute(R"(
      func.func @f(%q: tensor<2x3x6x5xf32>, %k: tensor<2x7x3x5xf32>, %v: tensor<2x7x3x5xf32>,
                   %qp: tensor<2x3xi32>, %kp: tensor<2x7xi32>, %len: tensor<2xi32>)
          -> (tensor<2x3x6x5xf32>, tensor<2x3x6x5xf32>, tensor<2x3x6xf32>) {
        %0 = heddle.attention %q, %k, %v pos(%qp, %kp) $lengths scale 0.4 $attributes
          : (tensor<2x3x6x5xf32>, tensor<2x7x3x5xf32>, tensor<2x7x3x5xf32>, tensor<2x3xi32>, tensor<2x7xi32>$type) -> tensor<2x3x6x5xf32>
        %1, %lse = heddle.attention_partial %q, %k, %v pos(%qp, %kp) $lengths scale 0.4 $attributes
          : (tensor<2x3x6x5xf32>, tensor<2x7x3x5xf32>, tensor<2x7x3x5xf32>, tensor<2x3xi32>, tensor<2x7xi32>$type) -> (tensor<2x3x6x5xf32>, tensor<2x3x6xf32>)
        return %0, %1, %lse : tensor<2x3x6x5xf32>, tensor<2x3x6x5xf32>, tensor<2x3x6xf32>
      })",
                            {{"lengths", lengths ? "lengths(%len)" : ""},
                             {"attributes", c.attributes},
                             {"type", lengths ? ", tensor<2xi32>" : ""}}),
                 arguments);
    Attended want = dense(q, k, v, qpos, kpos, 0.4, c.mask, kGrouped);
    EXPECT_CLOSE(got[0], want.out, 1e-12);
    EXPECT_CLOSE(got[1], want.out, 1e-12);
    EXPECT_CLOSE(got[2], want.lse, 1e-12);
  }
}

// Numbers of BLOOM's code for 8, 12 and 112 heads (case F9).
TEST_F(AttentionTest, AlibiSlopes) {
  auto slopes = [&](int64_t heads) {
    return mlir::heddle::AlibiAttr::get(&context, heads, llvm::APFloat(8.0))
        .slopes();
  };
  for (int i = 0; i < 8; ++i) {
    EXPECT_DOUBLE_EQ(slopes(8)[i], std::exp2(-1 - i));
    EXPECT_DOUBLE_EQ(slopes(12)[i], std::exp2(-1 - i));
  }
  const double rest[] = {0.70710678, 0.35355339, 0.17677670, 0.08838835};
  for (int i = 0; i < 4; ++i)
    EXPECT_NEAR(slopes(12)[8 + i], rest[i], 1e-8);
  EXPECT_DOUBLE_EQ(slopes(112)[63], 0.00390625);
  EXPECT_NEAR(slopes(112)[64], 0.95760328, 1e-8);
  EXPECT_EQ(slopes(1).size(), 1u);
  EXPECT_DOUBLE_EQ(slopes(1)[0], std::exp2(-8));
}

TEST_F(AttentionTest, EmptyRowsGiveZerosAndMinusInfinity) {
  std::vector<Tensor> got =
      evaluate(R"(
    func.func @f(%q: tensor<1x1x1x2xf32>, %k: tensor<1x3x1x2xf32>, %qp: tensor<1x1xi32>, %kp: tensor<1x3xi32>)
        -> (tensor<1x1x1x2xf32>, tensor<1x1x1xf32>) {
      %0, %lse = heddle.attention_partial %q, %k, %k pos(%qp, %kp) scale 1.0 causal
        : (tensor<1x1x1x2xf32>, tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32>, tensor<1x1xi32>, tensor<1x3xi32>) -> (tensor<1x1x1x2xf32>, tensor<1x1x1xf32>)
      return %0, %lse : tensor<1x1x1x2xf32>, tensor<1x1x1xf32>
    })",
               {randomTensor({1, 1, 1, 2}, 1), randomTensor({1, 3, 1, 2}, 2),
                tensor({1, 1}, {4}), tensor({1, 3}, {5, 6, -1})});
  EXPECT_CLOSE(got[0], tensor({1, 1, 1, 2}, {0, 0}), 0);
  EXPECT_CLOSE(got[1], tensor({1, 1, 1}, {-kInf}), 0);
}

TEST_F(AttentionTest, LargeScoresDoNotOverflow) {
  Tensor got =
      evaluate(R"(
    func.func @f(%q: tensor<1x1x1x1xf32>, %k: tensor<1x2x1x1xf32>, %v: tensor<1x2x1x1xf32>, %qp: tensor<1x1xi32>, %kp: tensor<1x2xi32>) -> tensor<1x1x1x1xf32> {
      %0 = heddle.attention %q, %k, %v pos(%qp, %kp) scale 1.0
        : (tensor<1x1x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x1xi32>, tensor<1x2xi32>) -> tensor<1x1x1x1xf32>
      return %0 : tensor<1x1x1x1xf32>
    })",
               {tensor({1, 1, 1, 1}, {1}), tensor({1, 2, 1, 1}, {5000, 5001}),
                tensor({1, 2, 1, 1}, {2, 4}), tensor({1, 1}, {0}),
                tensor({1, 2}, {0, 1})})[0];
  EXPECT_NEAR(got.data[0], 2 + 2 / (1 + std::exp(-1.0)), 1e-14);
}

TEST_F(AttentionTest, PagedKeysAreFoundThroughTheBlockTable) {
  // P = 5 blocks of 3 slots; sequences use blocks (4, 1) and (2, none).
  Tensor pool = randomTensor({5, 3, 3, 5}, 4),
         values = randomTensor({5, 3, 3, 5}, 5);
  Tensor poolPositions =
      tensor({5, 3}, {7, 7, 7, 3, 4, -1, 0, 1, 2, 7, 7, 7, 0, 1, 2});
  Tensor blocks = tensor({2, 2}, {4, 1, 2, -1});
  Tensor lengths = scalarStack({5, 2});
  Tensor queryPositions = tensor({2, 3}, {2, 3, 4, 0, 1, -1});

  // The same keys, gathered by hand.
  Tensor keys = Tensor::filled({2, 6, 3, 5}, kNaN), vals = keys;
  Tensor positions = Tensor::filled({2, 6}, -1);
  auto gather = [&](int b, int j, int block, int slot) {
    positions.at(b, j) = poolPositions.at(block, slot);
    for (int g = 0; g < 3; ++g)
      for (int e = 0; e < 5; ++e) {
        keys.at(b, j, g, e) = pool.at(block, slot, g, e);
        vals.at(b, j, g, e) = values.at(block, slot, g, e);
      }
  };
  for (int slot = 0; slot < 3; ++slot) {
    gather(0, slot, 4, slot);
    gather(0, 3 + slot, 1, slot);
    gather(1, slot, 2, slot);
  }
  const char *text = R"(
    func.func @f(%q: tensor<2x3x6x5xf32>, %k: tensor<5x3x3x5xf32>, %v: tensor<5x3x3x5xf32>, %qp: tensor<2x3xi32>, %kp: tensor<5x3xi32>,
                 %b: tensor<2x2xi32>, %len: tensor<2xi32>) -> tensor<2x3x6x5xf32> {
      %0 = heddle.attention %q, %k, %v pos(%qp, %kp) blocks(%b) lengths(%len) scale 0.4 causal
        : (tensor<2x3x6x5xf32>, tensor<5x3x3x5xf32>, tensor<5x3x3x5xf32>, tensor<2x3xi32>, tensor<5x3xi32>, tensor<2x2xi32>, tensor<2xi32>) -> tensor<2x3x6x5xf32>
      return %0 : tensor<2x3x6x5xf32>
    })";
  std::vector<Tensor> arguments = {
      q, pool, values, queryPositions, poolPositions, blocks, lengths};
  EXPECT_CLOSE(evaluate(text, arguments)[0],
               dense(q, keys, vals, queryPositions, positions, 0.4,
                     {true, 0, lengths.data}, kGrouped)
                   .out,
               1e-12);
  arguments[5].at(0, 1) = 5;
  EXPECT_EQ(failure(text, arguments),
            "error: 'heddle.attention' op expected block below 5, got 5\n");
}

TEST_F(AttentionTest, KvHeadsPickTheRowOfTheRank) {
  // Two ranks of three query heads each; the last one of rank 1 is padding.
  const char *text = R"(
    heddle.mesh @m ["tp" = 2]
    func.func @f(%q: tensor<2x3x3x5xf32>, %k: tensor<2x7x3x5xf32>, %v: tensor<2x7x3x5xf32>, %qp: tensor<2x3xi32>, %kp: tensor<2x7xi32>)
        -> (tensor<2x3x3x5xf32>, tensor<2x3x3xf32>) attributes {heddle.local, heddle.mesh = @m} {
      %0, %lse = heddle.attention_partial %q, %k, %v pos(%qp, %kp) scale 0.4 causal kv_heads <{tp}, [[0, 2, 2], [1, 0, -1]]>
        : (tensor<2x3x3x5xf32>, tensor<2x7x3x5xf32>, tensor<2x7x3x5xf32>, tensor<2x3xi32>, tensor<2x7xi32>) -> (tensor<2x3x3x5xf32>, tensor<2x3x3xf32>)
      return %0, %lse : tensor<2x3x3x5xf32>, tensor<2x3x3xf32>
    })";
  Tensor queries = randomTensor({2, 3, 3, 5}, 6);
  std::vector<Tensor> arguments = {queries, k, v, qpos, kpos};
  std::vector<std::vector<Tensor>> got =
      evaluateRanks(text, {arguments, arguments});
  std::vector<int64_t> rows[] = {{0, 2, 2}, {1, 0, -1}};
  for (int rank = 0; rank < 2; ++rank) {
    Attended want =
        dense(queries, k, v, qpos, kpos, 0.4, {true, 0, {}}, rows[rank]);
    EXPECT_CLOSE(got[rank][0], want.out, 1e-12);
    EXPECT_CLOSE(got[rank][1], want.lse, 1e-12);
  }
}

TEST_F(AttentionTest, MergedPartialsAreTheWhole) {
  // Keys 0 to 2 and 3 to 6; sequence 1 sees none of the first three at t = 0
  // but for key 1.
  auto slice = [](const Tensor &x, int64_t begin, int64_t end) {
    std::vector<int64_t> shape = x.shape;
    shape[1] = end - begin;
    Tensor out = Tensor::filled(shape, 0);
    int64_t inner = x.size() / (x.shape[0] * x.shape[1]);
    for (int64_t b = 0; b < x.shape[0]; ++b)
      for (int64_t i = 0; i < (end - begin) * inner; ++i)
        out.data[b * (end - begin) * inner + i] =
            x.data[(b * x.shape[1] + begin) * inner + i];
    return out;
  };
  std::vector<Tensor> got =
      evaluate(R"(
    func.func @f(%q: tensor<2x3x6x5xf32>, %k1: tensor<2x3x3x5xf32>, %v1: tensor<2x3x3x5xf32>, %k2: tensor<2x4x3x5xf32>, %v2: tensor<2x4x3x5xf32>,
                 %qp: tensor<2x3xi32>, %kp1: tensor<2x3xi32>, %kp2: tensor<2x4xi32>) -> (tensor<2x3x6x5xf32>, tensor<2x3x6xf32>) {
      %o1, %l1 = heddle.attention_partial %q, %k1, %v1 pos(%qp, %kp1) scale 0.4 causal
        : (tensor<2x3x6x5xf32>, tensor<2x3x3x5xf32>, tensor<2x3x3x5xf32>, tensor<2x3xi32>, tensor<2x3xi32>) -> (tensor<2x3x6x5xf32>, tensor<2x3x6xf32>)
      %o2, %l2 = heddle.attention_partial %q, %k2, %v2 pos(%qp, %kp2) scale 0.4 causal
        : (tensor<2x3x6x5xf32>, tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>, tensor<2x3xi32>, tensor<2x4xi32>) -> (tensor<2x3x6x5xf32>, tensor<2x3x6xf32>)
      %o, %l = heddle.merge_partials %o1, %l1, %o2, %l2
        : (tensor<2x3x6x5xf32>, tensor<2x3x6xf32>, tensor<2x3x6x5xf32>, tensor<2x3x6xf32>) -> (tensor<2x3x6x5xf32>, tensor<2x3x6xf32>)
      return %o, %l : tensor<2x3x6x5xf32>, tensor<2x3x6xf32>
    })",
               {q, slice(k, 0, 3), slice(v, 0, 3), slice(k, 3, 7),
                slice(v, 3, 7), qpos, slice(kpos, 0, 3), slice(kpos, 3, 7)});
  Attended want = dense(q, k, v, qpos, kpos, 0.4, {true, 0, {}}, kGrouped);
  EXPECT_CLOSE(got[0], want.out, 1e-12);
  EXPECT_CLOSE(got[1], want.lse, 1e-12);
}

TEST_F(AttentionTest, MergeOfEmptyAndHugeParts) {
  // Rows: both empty, first empty, second empty, far apart, both huge.
  Tensor out1 = tensor({1, 5, 1, 1}, {0, 0, 3, 1, 2});
  Tensor lse1 = tensor({1, 5, 1}, {-kInf, -kInf, 1, 2000, 5000});
  Tensor out2 = tensor({1, 5, 1, 1}, {0, 4, 0, 9, 6});
  Tensor lse2 = tensor({1, 5, 1}, {-kInf, 2, -kInf, -2000, 5000});
  std::vector<Tensor> got = evaluate(R"(
    func.func @f(%o1: tensor<1x5x1x1xf32>, %l1: tensor<1x5x1xf32>, %o2: tensor<1x5x1x1xf32>, %l2: tensor<1x5x1xf32>) -> (tensor<1x5x1x1xf32>, tensor<1x5x1xf32>) {
      %o, %l = heddle.merge_partials %o1, %l1, %o2, %l2
        : (tensor<1x5x1x1xf32>, tensor<1x5x1xf32>, tensor<1x5x1x1xf32>, tensor<1x5x1xf32>) -> (tensor<1x5x1x1xf32>, tensor<1x5x1xf32>)
      return %o, %l : tensor<1x5x1x1xf32>, tensor<1x5x1xf32>
    })",
                                     {out1, lse1, out2, lse2});
  EXPECT_CLOSE(got[0], tensor({1, 5, 1, 1}, {0, 4, 3, 1, 4}), 1e-11);
  EXPECT_CLOSE(got[1],
               tensor({1, 5, 1}, {-kInf, 2, 1, 2000, 5000 + std::log(2.0)}), 0);
}

} // namespace
