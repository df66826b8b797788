//===- AttentionCasesTest.cpp - Cases of attention over ranks -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention alone, whose inputs make the right answer known, as bundles on
// every mesh and layout. Tests are named after the case (README.md).
//
//===----------------------------------------------------------------------===//

#include "CasesSupport.h"

#include "gtest/gtest.h"

#include <cmath>
#include <numeric>

using namespace mlir::heddle;
using namespace heddle_test;

namespace {

/// Attention of B sequences of T tokens with H heads (as many of keys) of width
/// E; "q", "k", "v" are its inputs.
struct Attention {
  int64_t b = 1, t = 7, h = 1, e = 8;
  double scale = 1 / std::sqrt(8.0);
  std::string attributes;
  bool sinks = false;
  Inputs inputs;

  std::string tensor(std::vector<int64_t> shape, const char *element) const {
    std::string text = "tensor<";
    for (int64_t extent : shape)
      text += std::to_string(extent) + "x";
    return text + element + ">";
  }
  std::string text(const std::string &mesh) const {
    std::string x = tensor({b, t, h, e}, "f32"), p = tensor({b, t}, "i32");
    std::string s = tensor({h}, "f32"), flat = tensor({b, t, h * e}, "f32");
    auto argument = [](const std::string &name, const std::string &type) {
      return "%" + name + ": " + type +
             " {heddle.binding = #heddle.binding<input \"" + name + "\">}";
    };
    char scaleText[32];
    snprintf(scaleText, sizeof(scaleText), "%.17e", scale);
    return "heddle.mesh @m [" + mesh + "]\nfunc.func @f(" + argument("q", x) +
           ", " + argument("k", x) + ", " + argument("v", x) + ", " +
           argument("p", p) + (sinks ? ", " + argument("s", s) : "") +
           ") -> (" + flat +
           " {heddle.binding = #heddle.binding<output \"y\">}) " +
           "attributes {heddle.mesh = @m, heddle.program = \"f\"} {\n" +
           "%a = heddle.attention %q, %k, %v pos(%p, %p)" +
           (sinks ? " sinks(%s)" : "") + " scale " + scaleText + " " +
           attributes + " : (" + x + ", " + x + ", " + x + ", " + p + ", " + p +
           (sinks ? ", " + s : "") + ") -> " + x +
           "\n%y = heddle.merge_heads %a : " + x + " -> " + flat +
           "\nreturn %y : " + flat + "\n}";
  }
  /// B x T x (H E) on this mesh.
  Floats run(const std::string &mesh, const std::string &strategy,
             const std::string &layout = "") const {
    CompileOptions options;
    options.strategy = strategy;
    options.layout = layout;
    Inputs all = inputs;
    if (!all.count("p")) {
      std::vector<int32_t> positions;
      for (int64_t i = 0; i < b * t; ++i)
        positions.push_back(static_cast<int32_t>(i % t));
      all["p"] = hostIntegers({b, t}, positions);
    }
    return heddle_test::run(text(mesh), all, Phase::Import, options);
  }
};

struct Ranks {
  const char *mesh, *strategy, *layout;
};
const Ranks kRanks[] = {
    {"\"tp\" = 1", "", ""},
    {"\"cp\" = 2", "ring(cp)", "zigzag"},
    {"\"cp\" = 2", "ring(cp)", "contiguous"},
    {"\"cp\" = 3", "ring(cp)", "striped"},
    {"\"cp\" = 4", "ring(cp)", "zigzag"},
    {"\"cp\" = 4", "ring(cp)", "contiguous"},
    {"\"cp\" = 4", "ring(cp)", "cyclic"},
    {"\"sp\" = 2", "ulysses(sp)", ""},
};

std::string nameOf(const Ranks &ranks) {
  return std::string(ranks.mesh) + " " + ranks.strategy + " " + ranks.layout;
}

Floats randomFloats(int64_t count, uint32_t seed) {
  Floats values;
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values.push_back(static_cast<float>(seed >> 8) / 8388608.0f - 1.0f);
  }
  return values;
}

/// Infinite if an element is no number.
double largestDifference(const Floats &got, const std::vector<double> &want) {
  EXPECT_EQ(got.size(), want.size());
  double largest = 0;
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    if (std::isnan(got[i]))
      return INFINITY;
    largest = std::max(largest, std::fabs(got[i] - want[i]));
  }
  return largest;
}

} // namespace

// Seven tokens on two ranks that hold four each: four of ones, three of twos.
// Without the mask every query sees all seven; one token lost to padding gives
// 1.9441928.
TEST(Cases, G2_OddLengthKeepsItsLastToken) {
  Attention attention;
  Floats x;
  for (int t = 0; t < 7; ++t)
    x.insert(x.end(), 8, t < 4 ? 1.0f : 2.0f);
  for (const char *name : {"q", "k", "v"})
    attention.inputs[name] = host({1, 7, 1, 8}, x);
  const double whole[] = {1.92694929, 1.92694929, 1.92694929, 1.92694929,
                          1.99536361, 1.99536361, 1.99536361};
  const double causal[] = {1, 1, 1, 1, 1.986219, 1.993062, 1.995364};
  for (bool isCausal : {false, true})
    for (const Ranks &ranks : kRanks) {
      SCOPED_TRACE(nameOf(ranks) + (isCausal ? " causal" : ""));
      attention.attributes = isCausal ? "causal" : "";
      Floats got = attention.run(ranks.mesh, ranks.strategy, ranks.layout);
      ASSERT_EQ(got.size(), 56u);
      for (int t = 0; t < 7; ++t)
        EXPECT_NEAR(got[t * 8 + 3], isCausal ? causal[t] : whole[t], 1e-6) << t;
    }
}

// Queries of zeros give every visible key the same weight, and values are the
// rows of the identity: an output row lists what its token sees.
TEST(Cases, G7_WindowCountsTheQuery) {
  Attention attention;
  attention.t = 10;
  attention.e = 16;
  attention.attributes = "causal window 4";
  Floats identity(10 * 16, 0.0f);
  for (int t = 0; t < 10; ++t)
    identity[t * 16 + t] = 1;
  attention.inputs["q"] = host({1, 10, 1, 16}, Floats(160, 0.0f));
  attention.inputs["k"] = host({1, 10, 1, 16}, randomFloats(160, 3));
  attention.inputs["v"] = host({1, 10, 1, 16}, identity);
  for (const Ranks &ranks : kRanks) {
    SCOPED_TRACE(nameOf(ranks));
    Floats got = attention.run(ranks.mesh, ranks.strategy, ranks.layout);
    ASSERT_EQ(got.size(), 160u);
    for (int t = 0; t < 10; ++t)
      for (int j = 0; j < 16; ++j) {
        bool visible = j <= t && t - j < 4;
        EXPECT_NEAR(got[t * 16 + j], visible ? 1.0 / std::min(t + 1, 4) : 0,
                    1e-6)
            << t << " sees " << j;
      }
  }
}

// e^sink is added once a row, whichever rank has the block, and each head has
// its own, whichever rank has the head.
TEST(Cases, G9_SinksOnceARowAndByHead) {
  Attention attention;
  attention.t = 9;
  attention.h = 4;
  attention.sinks = true;
  attention.attributes = "causal";
  const float sinks[] = {-2, 0, 3, 6};
  int64_t elements = 9 * 4 * 8;
  Floats q = randomFloats(elements, 1), k = randomFloats(elements, 2),
         v = randomFloats(elements, 3);
  attention.inputs = {{"q", host({1, 9, 4, 8}, q)},
                      {"k", host({1, 9, 4, 8}, k)},
                      {"v", host({1, 9, 4, 8}, v)},
                      {"s", host({4}, Floats(sinks, sinks + 4))}};
  std::vector<double> want(elements, 0.0), plain(elements, 0.0);
  for (int t = 0; t < 9; ++t)
    for (int h = 0; h < 4; ++h) {
      double total = 0;
      std::vector<double> weights;
      for (int j = 0; j <= t; ++j) {
        double dot = 0;
        for (int e = 0; e < 8; ++e)
          dot += double{q[(t * 4 + h) * 8 + e]} * k[(j * 4 + h) * 8 + e];
        weights.push_back(std::exp(dot * attention.scale));
        total += weights.back();
      }
      for (int j = 0; j <= t; ++j)
        for (int e = 0; e < 8; ++e) {
          double value = weights[j] * v[(j * 4 + h) * 8 + e];
          want[(t * 4 + h) * 8 + e] += value / (total + std::exp(sinks[h]));
          plain[(t * 4 + h) * 8 + e] += value / total;
        }
    }
  std::vector<Ranks> meshes(std::begin(kRanks), std::end(kRanks));
  meshes.push_back({"\"tp\" = 2", "tensor(tp)", ""});
  meshes.push_back({"\"tp\" = 3", "tensor(tp)", ""});
  meshes.push_back({"\"tp\" = 2, \"cp\" = 2", "tensor(tp);ring(cp)", ""});
  for (const Ranks &ranks : meshes) {
    SCOPED_TRACE(nameOf(ranks));
    Floats got = attention.run(ranks.mesh, ranks.strategy, ranks.layout);
    EXPECT_LT(largestDifference(got, want), 2e-6);
    EXPECT_GT(largestDifference(got, plain), 0.1);
  }
}

// Contiguous shards of a causal mask: the first rank sees nothing in three of
// its four blocks. The second sequence is padding throughout.
TEST(Cases, G10_EmptyBlocksAndRowsGiveZeros) {
  Attention attention;
  attention.b = 2;
  attention.t = 8;
  attention.attributes = "causal";
  Floats x = randomFloats(2 * 8 * 8, 5);
  for (const char *name : {"q", "k", "v"})
    attention.inputs[name] = host({2, 8, 1, 8}, x);
  std::vector<int32_t> positions(16, -1);
  std::iota(positions.begin(), positions.begin() + 8, 0);
  attention.inputs["p"] = hostIntegers({2, 8}, positions);
  Floats want = attention.run("\"tp\" = 1", "");
  for (const Ranks &ranks : kRanks) {
    SCOPED_TRACE(nameOf(ranks));
    Floats got = attention.run(ranks.mesh, ranks.strategy, ranks.layout);
    ASSERT_EQ(got.size(), 128u);
    for (int i = 0; i < 128; ++i) {
      EXPECT_TRUE(std::isfinite(got[i])) << i;
      EXPECT_NEAR(got[i], i < 64 ? want[i] : 0.0f, 1e-6) << i;
    }
    for (int e = 0; e < 8; ++e)
      EXPECT_EQ(got[e], x[e]) << "the first token sees itself alone";
  }
}

// Scores of several hundred: parts are merged without e^900 being formed.
TEST(Cases, G12_HugeScoresAreMerged) {
  Attention attention;
  attention.t = 4;
  attention.scale = 1;
  attention.attributes = "";
  // Scores of every query: 0, 900, -900, 900.
  Floats q(32, 0.0f), k(32, 0.0f), v(32, 0.0f);
  const float scores[] = {0, 900, -900, 900};
  for (int t = 0; t < 4; ++t) {
    q[t * 8] = 1;
    k[t * 8] = scores[t];
    v[t * 8] = static_cast<float>(t + 1);
  }
  attention.inputs = {{"q", host({1, 4, 1, 8}, q)},
                      {"k", host({1, 4, 1, 8}, k)},
                      {"v", host({1, 4, 1, 8}, v)}};
  for (const Ranks &ranks : kRanks) {
    SCOPED_TRACE(nameOf(ranks));
    Floats got = attention.run(ranks.mesh, ranks.strategy, ranks.layout);
    ASSERT_EQ(got.size(), 32u);
    for (int t = 0; t < 4; ++t)
      EXPECT_FLOAT_EQ(got[t * 8], 3.0f); // (2 + 4) / 2
  }
}

// Equal scores over 4096 keys: the mean of the values, and no worse on eight
// ranks than on one.
TEST(Cases, G13_ErrorDoesNotGrowWithTheRing) {
  Attention attention;
  attention.t = 4096;
  attention.attributes = "";
  int64_t elements = 4096 * 8;
  Floats v = randomFloats(elements, 9);
  for (float &value : v)
    value += 2; // a mean that sums of one sign make
  attention.inputs = {{"q", host({1, 4096, 1, 8}, Floats(elements, 0.0f))},
                      {"k", host({1, 4096, 1, 8}, randomFloats(elements, 8))},
                      {"v", host({1, 4096, 1, 8}, v)}};
  std::vector<double> mean(8, 0.0), want;
  for (int64_t i = 0; i < elements; ++i)
    mean[i % 8] += v[i] / 4096.0;
  for (int t = 0; t < 4096; ++t)
    want.insert(want.end(), mean.begin(), mean.end());
  double one = largestDifference(attention.run("\"tp\" = 1", ""), want);
  // The sum of 4096 in fp32, in order: a fraction of what one rounding of the
  // result to f16 would be (2^-10); a counter in bf16 would stop at 256.
  EXPECT_LT(one, 0x1p-17);
  for (const char *mesh : {"\"cp\" = 2", "\"cp\" = 8"}) {
    SCOPED_TRACE(mesh);
    EXPECT_LE(largestDifference(attention.run(mesh, "ring(cp)"), want),
              2 * one);
  }
}
