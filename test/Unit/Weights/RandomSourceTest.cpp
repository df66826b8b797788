//===- RandomSourceTest.cpp - Weights drawn at random ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The generator is a published function of seed, name and index: its values are
// constants worked out by a separate implementation.
//
//===----------------------------------------------------------------------===//

#include "FileBuilders.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

TEST(RandomSource, OpensWithASeed) {
  auto source = WeightSource::open("random:7");
  ASSERT_TRUE(source.ok());
  EXPECT_EQ((*source)->format(), "random");
  EXPECT_EQ((*source)->description(), "random:7");
  EXPECT_EQ((*source)->seed(), std::optional<uint64_t>(7));
  EXPECT_TRUE((*source)->tensors().empty());
  EXPECT_EQ((*source)->find("w"), nullptr);
  TensorInfo info;
  info.name = "w";
  auto data = (*source)->data(info);
  ASSERT_FALSE(data.ok());
  EXPECT_EQ(data.status().code(), Code::not_found);
  EXPECT_EQ(data.status().message(),
            "random:7: tensor 'w': expected a stored tensor, got a random "
            "source");
}

TEST(RandomSource, RejectsOtherSeeds) {
  for (const char *path : {"random:", "random:x", "random:-1", "random:7x",
                           "random:18446744073709551616"})
    EXPECT_EQ(openError(path),
              std::string("random source: expected random:SEED with a decimal "
                          "seed from 0 to 2^64 - 1, got '") +
                  path + "'");
  EXPECT_EQ(openError("random:18446744073709551615"), "");
}

// From an implementation in another language that passes Philox's known-answer
// tests; the last two need 64-bit counters and keys.
TEST(DrawRandom, KnownValues) {
  struct Expected {
    uint64_t seed;
    const char *name;
    int64_t index;
    float value;
  };
  const Expected all[] = {
      {0, "", 0, -0.21122470498085022f},
      {7, "model.embed_tokens.weight", 0, -0.3045811057090759f},
      {7, "model.embed_tokens.weight", 1, 0.6926441192626953f},
      {7, "model.embed_tokens.weight", 2, 0.6674841642379761f},
      {0x123456789ABCDEF0, "w", 8589934593, -0.15138889849185944f},
      {0xFFFFFFFFFFFFFFFF, "w", 5, 0.15857826173305511f},
  };
  for (const Expected &expected : all) {
    float value;
    drawRandom(expected.seed, expected.name, expected.index, 1, 1, 0, &value);
    EXPECT_FLOAT_EQ(value, expected.value) << expected.name;
  }
}

// Every mesh sees the same model: any slicing gives the same bits.
TEST(DrawRandom, SlicesAgreeWithTheWhole) {
  std::vector<float> whole(101), slices(101);
  drawRandom(3, "w", 1000, 101, 0.02f, 1, whole.data());
  for (int64_t step : {1, 2, 3, 7, 50})
    for (int64_t begin = 0; begin < 101; begin += step) {
      int64_t count = std::min<int64_t>(step, 101 - begin);
      drawRandom(3, "w", 1000 + begin, count, 0.02f, 1, slices.data() + begin);
      for (int64_t i = begin; i < begin + count; ++i)
        ASSERT_EQ(slices[size_t(i)], whole[size_t(i)]) << step << " " << i;
    }
}

TEST(DrawRandom, SeedAndNameMatter) {
  float a[4], b[4], c[4];
  drawRandom(1, "w", 0, 4, 1, 0, a);
  drawRandom(2, "w", 0, 4, 1, 0, b);
  drawRandom(1, "v", 0, 4, 1, 0, c);
  for (int i = 0; i < 4; ++i) {
    EXPECT_NE(a[i], b[i]);
    EXPECT_NE(a[i], c[i]);
  }
}

// Moments of 100,000 draws; the bounds are six standard errors.
TEST(DrawRandom, IsNormal) {
  const int64_t n = 100'000;
  std::vector<float> x(n);
  drawRandom(42, "w", 0, n, 2, 5, x.data());
  double mean = 0, variance = 0, fourth = 0, product = 0;
  for (float value : x)
    mean += value / double(n);
  for (int64_t i = 0; i < n; ++i) {
    double z = (x[size_t(i)] - 5) / 2;
    variance += z * z / double(n);
    fourth += z * z * z * z / double(n);
    product += z * (x[size_t((i + 1) % n)] - 5) / 2 / double(n);
  }
  EXPECT_NEAR(mean, 5, 6 * 2 / std::sqrt(n));
  EXPECT_NEAR(variance, 1, 6 * std::sqrt(2.0 / n));
  EXPECT_NEAR(fourth, 3, 6 * std::sqrt(96.0 / n));
  EXPECT_NEAR(product, 0, 6 / std::sqrt(n));
}

} // namespace
