//===- LayerOpsTest.cpp - Layer ops against their formulas ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"
#include "heddle/Reference/Philox.h"

#include <cmath>
#include <complex>

using namespace heddle_test;

namespace {

class LayerOpsTest : public ReferenceTest {};

TEST_F(LayerOpsTest, EmbeddingTakesRowsAndGivesZerosForNegativeIds) {
  Tensor table = randomTensor({7, 5}, 1);
  Tensor ids = tensor({2, 3}, {6, 0, -1, 3, -7, 6});
  const char *text = R"(
    func.func @f(%ids: tensor<2x3xi32>, %t: tensor<7x5xf32>) -> tensor<2x3x5xf32> {
      %r = heddle.embedding %ids, %t : (tensor<2x3xi32>, tensor<7x5xf32>) -> tensor<2x3x5xf32>
      return %r : tensor<2x3x5xf32>
    })";
  Tensor want = Tensor::filled({2, 3, 5}, 0);
  for (int b = 0; b < 2; ++b)
    for (int t = 0; t < 3; ++t)
      if (ids.at(b, t) >= 0)
        for (int d = 0; d < 5; ++d)
          want.at(b, t, d) = table.at(ids.at(b, t), d);
  EXPECT_CLOSE(evaluate(text, {ids, table})[0], want, 0);

  ids.at(1, 1) = 7;
  EXPECT_EQ(failure(text, {ids, table}),
            "error: 'heddle.embedding' op expected token id below 7, got 7\n");
  ids.at(1, 1) = kNaN;
  EXPECT_EQ(failure(text, {ids, table}),
            "error: 'heddle.embedding' op expected an integer as token id, got "
            "nan\n");
  ids.at(1, 1) = 0.5;
  EXPECT_NE(failure(text, {ids, table}).find("expected an integer"),
            std::string::npos);
}

TEST_F(LayerOpsTest, LinearMultipliesByTheTransposedWeight) {
  Tensor x = randomTensor({2, 3, 5}, 2), w = randomTensor({4, 5}, 3),
         bias = randomTensor({4}, 4);
  Tensor want = Tensor::filled({2, 3, 4}, 0), withBias = want;
  for (int b = 0; b < 2; ++b)
    for (int t = 0; t < 3; ++t)
      for (int n = 0; n < 4; ++n) {
        long double sum = 0;
        for (int k = 4; k >= 0; --k)
          sum += static_cast<long double>(w.at(n, k)) * x.at(b, t, k);
        want.at(b, t, n) = sum;
        withBias.at(b, t, n) = sum + bias.at(n);
      }
  std::vector<Tensor> got = evaluate(R"(
    func.func @f(%x: tensor<2x3x5xf32>, %w: tensor<4x5xbf16>, %b: tensor<4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
      %0 = heddle.linear %x, %w : (tensor<2x3x5xf32>, tensor<4x5xbf16>) -> tensor<2x3x4xf32>
      %1 = heddle.linear %x, %w bias %b : (tensor<2x3x5xf32>, tensor<4x5xbf16>, tensor<4xf32>) -> tensor<2x3x4xf32>
      return %0, %1 : tensor<2x3x4xf32>, tensor<2x3x4xf32>
    })",
                                     {x, w, bias});
  EXPECT_CLOSE(got[0], want);
  EXPECT_CLOSE(got[1], withBias);
}

TEST_F(LayerOpsTest, BiasAddAndAdd) {
  Tensor x = randomTensor({3, 1, 7}, 5), y = randomTensor({3, 1, 7}, 6),
         bias = randomTensor({7}, 7);
  std::vector<Tensor> got = evaluate(R"(
    func.func @f(%x: tensor<3x1x7xf32>, %y: tensor<3x1x7xf32>, %b: tensor<7xf32>) -> (tensor<3x1x7xf32>, tensor<3x1x7xf32>) {
      %0 = heddle.bias_add %x, %b : (tensor<3x1x7xf32>, tensor<7xf32>) -> tensor<3x1x7xf32>
      %1 = heddle.add %x, %y : (tensor<3x1x7xf32>, tensor<3x1x7xf32>) -> tensor<3x1x7xf32>
      return %0, %1 : tensor<3x1x7xf32>, tensor<3x1x7xf32>
    })",
                                     {x, y, bias});
  for (int r = 0; r < 3; ++r)
    for (int n = 0; n < 7; ++n) {
      EXPECT_EQ(got[0].at(r, 0, n), x.at(r, 0, n) + bias.at(n));
      EXPECT_EQ(got[1].at(r, 0, n), x.at(r, 0, n) + y.at(r, 0, n));
    }
}

TEST_F(LayerOpsTest, GluActivations) {
  auto silu = [](double x) { return x * 0.5 * (1 + std::tanh(x / 2)); };
  auto gelu = [](double x) { return 0.5 * x * std::erfc(-x * M_SQRT1_2); };
  auto geluTanh = [](double x) {
    double u = std::sqrt(2 / M_PI) * (x + 0.044715 * std::pow(x, 3));
    return x / (1 + std::exp(-2 * u));
  };
  auto relu = [](double x) { return std::max(x, 0.0); };
  std::pair<const char *, double (*)(double)> kinds[] = {
      {"silu", silu}, {"gelu", gelu}, {"gelu_tanh", geluTanh}, {"relu", relu}};
  Tensor gate = randomTensor({3, 11}, 8), up = randomTensor({3, 11}, 9);
  for (double &g : gate.data)
    g *= 6;
  for (auto [name, activation] : kinds) {
    SCOPED_TRACE(name);
    Tensor want = gate;
    for (int64_t i = 0; i < want.size(); ++i)
      want.data[i] = activation(gate.data[i]) * up.data[i];
    EXPECT_CLOSE(evaluate(substitute(R"(
      func.func @f(%g: tensor<3x11xf32>, %u: tensor<3x11xf32>) -> tensor<3x11xf32> {
        %0 = heddle.glu $kind %g, %u : (tensor<3x11xf32>, tensor<3x11xf32>) -> tensor<3x11xf32>
        return %0 : tensor<3x11xf32>
      })",
                                     {{"kind", name}}),
                          {gate, up})[0],
                 want);
  }
}

TEST_F(LayerOpsTest, RmsNormOverRowsAndHeads) {
  Tensor x = randomTensor({2, 3, 5}, 10), w = randomTensor({5}, 11);
  Tensor heads = randomTensor({1, 2, 3, 5}, 12);
  std::vector<Tensor> got = evaluate(R"(
    func.func @f(%x: tensor<2x3x5xf32>, %h: tensor<1x2x3x5xf32>, %w: tensor<5xf32>) -> (tensor<2x3x5xf32>, tensor<1x2x3x5xf32>) {
      %0 = heddle.rms_norm %x, %w eps 1.0e-2 : (tensor<2x3x5xf32>, tensor<5xf32>) -> tensor<2x3x5xf32>
      %1 = heddle.rms_norm %h, %w eps 0.0 : (tensor<1x2x3x5xf32>, tensor<5xf32>) -> tensor<1x2x3x5xf32>
      return %0, %1 : tensor<2x3x5xf32>, tensor<1x2x3x5xf32>
    })",
                                     {x, heads, w});
  auto want = [&](const Tensor &in, double eps) {
    Tensor out = in;
    for (int row = 0; row < 6; ++row) {
      double norm = 0; // Euclidean
      for (int d = 0; d < 5; ++d)
        norm = std::hypot(norm, in.data[row * 5 + d]);
      double inverse = std::pow(norm * norm / 5 + eps, -0.5);
      for (int d = 0; d < 5; ++d)
        out.data[row * 5 + d] *= inverse * w.at(d);
    }
    return out;
  };
  EXPECT_CLOSE(got[0], want(x, 1e-2));
  EXPECT_CLOSE(got[1], want(heads, 0));
}

TEST_F(LayerOpsTest, SplitAndMergeHeads) {
  Tensor x = randomTensor({2, 3, 15}, 13);
  std::vector<Tensor> got = evaluate(R"(
    func.func @f(%x: tensor<2x3x15xf32>) -> (tensor<2x3x3x5xf32>, tensor<2x3x15xf32>) {
      %0 = heddle.split_heads %x : tensor<2x3x15xf32> -> tensor<2x3x3x5xf32>
      %1 = heddle.merge_heads %0 : tensor<2x3x3x5xf32> -> tensor<2x3x15xf32>
      return %0, %1 : tensor<2x3x3x5xf32>, tensor<2x3x15xf32>
    })",
                                     {x});
  for (int b = 0; b < 2; ++b)
    for (int t = 0; t < 3; ++t)
      for (int h = 0; h < 3; ++h)
        for (int e = 0; e < 5; ++e)
          EXPECT_EQ(got[0].at(b, t, h, e), x.at(b, t, h * 5 + e));
  EXPECT_CLOSE(got[1], x, 0);
}

/// Llama 3.1's rule as its model code states it.
double llama3(double f, double factor, double low, double high,
              double original) {
  double wavelength = 2 * M_PI / f;
  double lowWavelength = original / low, highWavelength = original / high;
  if (wavelength < highWavelength)
    return f;
  if (wavelength > lowWavelength)
    return f / factor;
  double smooth = (original / wavelength - low) / (high - low);
  return (1 - smooth) * f / factor + smooth * f;
}

TEST_F(LayerOpsTest, RotaryTableAngles) {
  Tensor positions = tensor({2, 3}, {0, 1, -1, 17, 1000003, 64});
  struct Case {
    const char *rope;
    std::function<double(double)> scale;
  } cases[] = {
      {"<dim 16 theta 1.0e+4>", [](double f) { return f; }},
      {"<dim 16 theta 1.0e+4 linear 4.0>", [](double f) { return f / 4; }},
      {"<dim 16 theta 1.0e+4 llama3 8.0 low 1.0 high 4.0 original 64>",
       [](double f) { return llama3(f, 8, 1, 4, 64); }}};
  for (const Case &c : cases) {
    SCOPED_TRACE(c.rope);
    Tensor got = evaluate(substitute(R"(
      func.func @f(%p: tensor<2x3xi32>) -> tensor<2x3x16xf32> {
        %0 = heddle.rotary_table %p $rope : (tensor<2x3xi32>) -> tensor<2x3x16xf32>
        return %0 : tensor<2x3x16xf32>
      })",
                                     {{"rope", c.rope}}),
                          {positions})[0];
    for (int row = 0; row < 6; ++row)
      for (int i = 0; i < 8; ++i) {
        double position = std::max(positions.data[row], 0.0);
        double f = c.scale(std::exp(-std::log(1e4) * i / 8));
        std::complex<double> turn = std::polar(1.0, position * f);
        // The angle itself is only known to 2^-53 of its size.
        double bound = 1e-14 + position * 1e-15;
        EXPECT_NEAR(got.data[row * 16 + i], turn.real(), bound);
        EXPECT_NEAR(got.data[row * 16 + 8 + i], turn.imag(), bound);
      }
  }
}

TEST_F(LayerOpsTest, RotaryTurnsPairsAndCopiesTheRest) {
  Tensor x = randomTensor({2, 3, 2, 7}, 14),
         table = randomTensor({2, 3, 4}, 15);
  Tensor got = evaluate(R"(
    func.func @f(%x: tensor<2x3x2x7xf32>, %t: tensor<2x3x4xf32>) -> tensor<2x3x2x7xf32> {
      %0 = heddle.rotary %x, %t : (tensor<2x3x2x7xf32>, tensor<2x3x4xf32>) -> tensor<2x3x2x7xf32>
      return %0 : tensor<2x3x2x7xf32>
    })",
                        {x, table})[0];
  Tensor want = x;
  for (int b = 0; b < 2; ++b)
    for (int t = 0; t < 3; ++t)
      for (int h = 0; h < 2; ++h)
        for (int i = 0; i < 2; ++i) {
          std::complex<double> pair(x.at(b, t, h, i), x.at(b, t, h, i + 2));
          std::complex<double> turn(table.at(b, t, i), table.at(b, t, i + 2));
          want.at(b, t, h, i) = (pair * turn).real();
          want.at(b, t, h, i + 2) = (pair * turn).imag();
        }
  EXPECT_CLOSE(got, want);
}

TEST_F(LayerOpsTest, GatherRowsTakesTokensOfEachSequence) {
  Tensor x = randomTensor({2, 3, 5}, 16), rows = tensor({2, 2}, {2, 0, -1, 1});
  const char *text = R"(
    func.func @f(%x: tensor<2x3x5xf32>, %r: tensor<2x2xi32>) -> tensor<2x2x5xf32> {
      %0 = heddle.gather_rows %x, %r : (tensor<2x3x5xf32>, tensor<2x2xi32>) -> tensor<2x2x5xf32>
      return %0 : tensor<2x2x5xf32>
    })";
  Tensor got = evaluate(text, {x, rows})[0];
  for (int d = 0; d < 5; ++d) {
    EXPECT_EQ(got.at(0, 0, d), x.at(0, 2, d));
    EXPECT_EQ(got.at(0, 1, d), x.at(0, 0, d));
    EXPECT_EQ(got.at(1, 0, d), 0);
    EXPECT_EQ(got.at(1, 1, d), x.at(1, 1, d));
  }
  rows.at(0, 0) = 3;
  EXPECT_EQ(failure(text, {x, rows}),
            "error: 'heddle.gather_rows' op expected row below 3, got 3\n");
}

TEST_F(LayerOpsTest, ArgmaxPrefersTheLowestIndexAndNoNaN) {
  Tensor logits = tensor({5, 3}, {1, 3, 2,          //
                                  -5, -1, -1,       //
                                  kNaN, -kInf, -2,  //
                                  kNaN, kNaN, kNaN, //
                                  -kInf, kNaN, -kInf});
  EXPECT_CLOSE(evaluate(R"(
    func.func @f(%x: tensor<5x3xf32>) -> tensor<5xi32> {
      %0 = heddle.argmax %x : (tensor<5x3xf32>) -> tensor<5xi32>
      return %0 : tensor<5xi32>
    })",
                        {logits})[0],
               scalarStack({1, 1, 2, 0, 0}), 0);
}

// The published answers: counter and key of zeros, of ones, and digits of pi.
TEST(Philox, GivesThePublishedWords) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(mlir::heddle::reference::philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  uint32_t ones = 0xffffffff;
  EXPECT_EQ(mlir::heddle::reference::philox4x32({ones, ones, ones, ones},
                                                {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(mlir::heddle::reference::philox4x32(
                {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// One row for each rule; u is 0.3990 for key 0 and counter 0, and others are
// given by its words.
TEST_F(LayerOpsTest, SampleFiltersInOrderAndDrawsInIndexOrder) {
  // Weights 1, 2, 4, 1, 8 at temperature 1; of 16 in all.
  auto rowOf = [](double temperature) {
    std::vector<double> row;
    for (double w : {1.0, 2.0, 4.0, 1.0, 8.0})
      row.push_back(std::log(w) * temperature);
    return row;
  };
  struct Case {
    double temperature, topK, topP, minP, want;
  };
  // u * 16 = 6.38: after 1 + 2 comes 2. Of 12, 4.79: 4. Ties at 1 are cut after
  // index 0: of 15, 5.99: 2. Of the 12 that top_k left, 0.7 needs 8 + 4 but 0.6
  // only 8. min_p 0.25 keeps 2, 4, 8: of 14, 5.59: 2; and 0.6 keeps 8.
  const Case cases[] = {
      {1, 0, 0, 0, 2},    {0, 0, 0, 0, 4},      {2, 2, 0, 0, 4},
      {1, 4, 0, 0, 2},    {1, 2, 0.7, 0, 4},    {1, 2, 0.6, 0, 4},
      {1, 0, 0, 0.25, 2}, {1, 0, 0, 0.6, 4},    {1, 0, 1, 0, 2},
      {1, 9, 2, -1, 2},   {1, 0, 0.74, 0.5, 4}, {kNaN, 0, kNaN, kNaN, 4}};
  for (const Case &c : cases) {
    Tensor logits =
        tensor({1, 1, 5}, rowOf(c.temperature > 0 ? c.temperature : 1));
    EXPECT_CLOSE(evaluate(R"(
    func.func @f(%l: tensor<1x1x5xf32>, %t: tensor<1xf32>, %k: tensor<1xi32>, %p: tensor<1xf32>, %m: tensor<1xf32>, %s: tensor<1xi32>) -> tensor<1x1xi32> {
      %0 = heddle.sample %l temperature %t top_k %k top_p %p min_p %m seed %s position %s : (tensor<1x1x5xf32>, tensor<1xf32>, tensor<1xi32>, tensor<1xf32>, tensor<1xf32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x1xi32>
      return %0 : tensor<1x1xi32>
    })",
                          {logits, tensor({1}, {c.temperature}),
                           tensor({1}, {c.topK}), tensor({1}, {c.topP}),
                           tensor({1}, {c.minP}), tensor({1}, {0})})[0],
                 tensor({1, 1}, {c.want}), 0);
  }
}

TEST_F(LayerOpsTest, ReshardIsTheIdentity) {
  Tensor x = randomTensor({4, 3}, 17);
  EXPECT_CLOSE(evaluate(R"(
    heddle.mesh @m ["tp" = 2]
    func.func @f(%x: tensor<4x3xf32, #heddle.sharding<@m, [{tp}, {}]>>) -> tensor<4x3xf32, #heddle.sharding<@m, [{}, {tp}]>> {
      %0 = heddle.reshard %x because "test" : tensor<4x3xf32, #heddle.sharding<@m, [{tp}, {}]>> -> tensor<4x3xf32, #heddle.sharding<@m, [{}, {tp}]>>
      return %0 : tensor<4x3xf32, #heddle.sharding<@m, [{}, {tp}]>>
    })",
                        {x})[0],
               x, 0);
}

TEST_F(LayerOpsTest, RefusesWhatItCannotExecute) {
  EXPECT_EQ(failure(R"(
    func.func private @g()
    func.func @f() { call @g() : () -> () return })",
                    {}),
            "error: no reference for func.call\n");
  EXPECT_EQ(failure("func.func private @f()", {}),
            "error: 'func.func' op expected a body of one block, got 0\n");
  const char *text = "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> { "
                     "return %x : tensor<2xf32> }";
  EXPECT_EQ(failure(text, {}),
            "error: 'func.func' op expected 1 arguments, got 0\n");
  EXPECT_EQ(
      failure(text, {scalarStack({1, 2, 3})}),
      "error: 'func.func' op expected argument 0 of type 'tensor<2xf32>', "
      "got a tensor of shape 3\n");
  EXPECT_EQ(rankFailure(text, {}), "error: 'func.func' op expected a function "
                                   "marked 'heddle.local'\n");
  EXPECT_EQ(failure("func.func @f() attributes {heddle.local} { return }", {}),
            "error: 'func.func' op expected a global function, got one marked "
            "'heddle.local'\n");
  // 2^20 x 2^20 elements from nothing.
  EXPECT_NE(failure(R"(
    func.func @f(%x: tensor<1048576x0xf32>, %w: tensor<1048576x0xf32>) -> tensor<1048576x1048576xf32> {
      %0 = heddle.linear %x, %w : (tensor<1048576x0xf32>, tensor<1048576x0xf32>) -> tensor<1048576x1048576xf32>
      return %0 : tensor<1048576x1048576xf32>
    })",
                    {Tensor::filled({1048576, 0}, 0),
                     Tensor::filled({1048576, 0}, 0)})
                .find("expected results of at most"),
            std::string::npos);
}

} // namespace
