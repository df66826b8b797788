//===- DTypeTest.cpp - Element formats ------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes, and decoding against values worked out apart from the decoder:
// formulas by element for plain types, constants from another implementation of
// the block formats.
//
//===----------------------------------------------------------------------===//

#include "FileBuilders.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>

using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

template <typename T>
std::vector<float> decoded(DType type, const std::vector<T> &values) {
  std::string bytes = bytesOf(values);
  std::vector<float> out(values.size());
  decodeToFloat(type, reinterpret_cast<const uint8_t *>(bytes.data()), 0,
                int64_t(out.size()), out.data());
  return out;
}

// Names and sizes are what reports, bundles and offsets are computed from.
TEST(DType, NamesAndBlocks) {
  struct Expected {
    DType type;
    const char *name;
    int64_t elements, bytes;
  };
  const Expected all[] = {
      {DType::f32, "f32", 1, 4},       {DType::f16, "f16", 1, 2},
      {DType::bf16, "bf16", 1, 2},     {DType::i8, "i8", 1, 1},
      {DType::i16, "i16", 1, 2},       {DType::i32, "i32", 1, 4},
      {DType::i64, "i64", 1, 8},       {DType::u8, "u8", 1, 1},
      {DType::f64, "f64", 1, 8},       {DType::boolean, "bool", 1, 1},
      {DType::q4_0, "q4_0", 32, 18},   {DType::q4_1, "q4_1", 32, 20},
      {DType::q5_0, "q5_0", 32, 22},   {DType::q5_1, "q5_1", 32, 24},
      {DType::q8_0, "q8_0", 32, 34},   {DType::q2_k, "q2_k", 256, 84},
      {DType::q3_k, "q3_k", 256, 110}, {DType::q4_k, "q4_k", 256, 144},
      {DType::q5_k, "q5_k", 256, 176}, {DType::q6_k, "q6_k", 256, 210},
  };
  for (const Expected &expected : all) {
    EXPECT_STREQ(dtypeName(expected.type), expected.name);
    EXPECT_EQ(blockElements(expected.type), expected.elements);
    EXPECT_EQ(blockBytes(expected.type), expected.bytes);
  }
}

// All 65536 half codes against the definition by ldexp; subnormals and signed
// zeros are the usual victims.
TEST(DType, HalfIsExactForEveryCode) {
  std::vector<uint16_t> codes;
  for (uint32_t code = 0; code < 65536; ++code)
    codes.push_back(uint16_t(code));
  std::vector<float> values = decoded(DType::f16, codes);
  for (uint32_t code = 0; code < 65536; ++code) {
    int exponent = code >> 10 & 31, fraction = code & 1023;
    if (exponent == 31 && fraction) {
      ASSERT_TRUE(std::isnan(values[code])) << code;
      continue;
    }
    double magnitude = exponent == 31 ? std::numeric_limits<double>::infinity()
                       : exponent == 0
                           ? std::ldexp(fraction, -24)
                           : std::ldexp(1024 + fraction, exponent - 25);
    float expected = float(code & 0x8000 ? -magnitude : magnitude);
    ASSERT_EQ(bitsOf(values[code]), bitsOf(expected)) << code;
  }
}

TEST(DType, Bf16IsTheUpperHalfOfAFloat) {
  std::vector<uint16_t> codes;
  for (uint32_t code = 0; code < 65536; ++code)
    codes.push_back(uint16_t(code));
  std::vector<float> values = decoded(DType::bf16, codes);
  for (uint32_t code = 0; code < 65536; ++code)
    ASSERT_EQ(bitsOf(values[code]), code << 16);
}

TEST(DType, PlainTypes) {
  using Floats = std::vector<float>;
  EXPECT_EQ(decoded<float>(DType::f32, {1.5f, -0.0f}), (Floats{1.5f, 0.0f}));
  EXPECT_EQ(decoded<double>(DType::f64, {0.1, -2}), (Floats{0.1f, -2}));
  EXPECT_EQ(decoded<int8_t>(DType::i8, {-128, 127}), (Floats{-128, 127}));
  EXPECT_EQ(decoded<uint8_t>(DType::u8, {0, 255}), (Floats{0, 255}));
  EXPECT_EQ(decoded<int16_t>(DType::i16, {-32768, 1}), (Floats{-32768, 1}));
  EXPECT_EQ(decoded<int32_t>(DType::i32, {-5, 1 << 24}),
            (Floats{-5, 16777216}));
  EXPECT_EQ(decoded<int64_t>(DType::i64, {-1, int64_t(1) << 40}),
            (Floats{-1, 1099511627776.0f}));
  EXPECT_EQ(decoded<uint8_t>(DType::boolean, {0, 1, 1}), (Floats{0, 1, 1}));
}

/// Three blocks of the bytes ((j * 167 + 13) * 29 / 7) % 256, with 0.5 as the
/// first half of each block and `second` as the other.
struct BlockCase {
  DType type;
  std::vector<int> halves;
  uint16_t second;
  double weightedSum;         // sum of (i + 1) * x[i], exact in double
  std::vector<float> samples; // x[0], x[1], x[17], last of block 0, x[n + 5]
};

std::string blockBytesOf(const BlockCase &blocks) {
  size_t bytes = size_t(blockBytes(blocks.type));
  std::string raw(3 * bytes, '\0');
  for (size_t j = 0; j < raw.size(); ++j)
    raw[j] = char((j * 167 + 13) * 29 / 7 % 256);
  for (size_t block = 0; block < 3; ++block)
    for (size_t i = 0; i < blocks.halves.size(); ++i) {
      std::string half = bytesOf<uint16_t>(i == 0 ? 0x3800 : blocks.second);
      raw.replace(block * bytes + size_t(blocks.halves[i]), 2, half);
    }
  return raw;
}

// The constants come from an independent implementation of the formats. The
// sum is weighted by position, so that a swap of two elements changes it.
class BlockFormat : public testing::TestWithParam<BlockCase> {};

TEST_P(BlockFormat, DecodesLikeGgml) {
  const BlockCase &blocks = GetParam();
  std::string raw = blockBytesOf(blocks);
  int64_t n = blockElements(blocks.type);
  std::vector<float> x(size_t(3 * n));
  decodeToFloat(blocks.type, reinterpret_cast<const uint8_t *>(raw.data()), 0,
                3 * n, x.data());
  EXPECT_EQ((std::vector<float>{x[0], x[1], x[17], x[size_t(n) - 1],
                                x[size_t(n) + 5]}),
            blocks.samples);
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i)
    sum += double(i + 1) * x[i];
  EXPECT_EQ(sum, blocks.weightedSum);
}

// Ranks decode from a block border to anywhere; nothing past `count` is
// written.
TEST_P(BlockFormat, DecodesPartsOfARow) {
  const BlockCase &blocks = GetParam();
  std::string raw = blockBytesOf(blocks);
  auto *row = reinterpret_cast<const uint8_t *>(raw.data());
  int64_t n = blockElements(blocks.type);
  std::vector<float> whole(size_t(3 * n)), part(size_t(3 * n), -12345.0f);
  decodeToFloat(blocks.type, row, 0, 3 * n, whole.data());
  decodeToFloat(blocks.type, row, n, n + 3, part.data());
  for (int64_t i = 0; i < n + 3; ++i)
    ASSERT_EQ(part[size_t(i)], whole[size_t(n + i)]) << i;
  EXPECT_EQ(part[size_t(n + 3)], -12345.0f);
  decodeToFloat(blocks.type, row, n, 0, part.data() + n + 3);
  EXPECT_EQ(part[size_t(n + 3)], -12345.0f);
}

INSTANTIATE_TEST_SUITE_P(
    All, BlockFormat,
    testing::Values(
        BlockCase{DType::q4_0, {0}, 0, -982.5, {2.5, -3.5, -1.5, -3, -1}},
        BlockCase{
            DType::q4_1, {0, 2}, 0xB400, 16909, {2.25, 4.25, 5.25, 3.75, 2.25}},
        BlockCase{DType::q5_0, {0}, 0, -175, {6.5, -8, -7, 7.5, -5.5}},
        BlockCase{DType::q5_1,
                  {0, 2},
                  0xB400,
                  35856.5,
                  {9.75, 3.75, 3.75, 2.25, 9.75}},
        BlockCase{DType::q8_0, {0}, 0, 8284, {-49.5, 40.5, -56.5, 50.5, 2}},
        BlockCase{DType::q2_k,
                  {80, 82},
                  0x3400,
                  992518.5,
                  {6.75, 6.75, 1, 12.25, 8.25}},
        BlockCase{DType::q3_k, {108}, 0, -577475, {12, 12, 12, -10.5, 0}},
        BlockCase{DType::q4_k,
                  {0, 2},
                  0x3400,
                  28969177.5,
                  {2.5, 12.5, 7.5, 60.25, 48}},
        BlockCase{DType::q5_k,
                  {0, 2},
                  0x3400,
                  61479190.5,
                  {72.5, 40, 35, 0.25, 535.25}},
        BlockCase{DType::q6_k, {208}, 0, 2849673, {273, 325, 225, 460, 1334}}),
    [](const testing::TestParamInfo<BlockCase> &info) {
      return std::string(dtypeName(info.param.type));
    });

// One q4_1 block by hand: 2 * code + 1, codes 0-15 in the low nibbles and 15-0
// in the high ones.
TEST(DType, Q4_1ByHand) {
  std::string block = bytesOf<uint16_t>(0x4000) + bytesOf<uint16_t>(0x3C00);
  for (int i = 0; i < 16; ++i)
    block += char(i | (15 - i) << 4);
  float out[32];
  decodeToFloat(DType::q4_1, reinterpret_cast<const uint8_t *>(block.data()), 0,
                32, out);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(out[i], 2.0f * i + 1);
    EXPECT_EQ(out[i + 16], 2.0f * (15 - i) + 1);
  }
}

TEST(TensorInfo, ElementsOfScalarsEmptyAndHugeShapes) {
  TensorInfo info;
  EXPECT_EQ(info.elements(), 1);
  info.shape = {3, 4};
  EXPECT_EQ(info.elements(), 12);
  info.shape = {INT64_MAX, 4, 0};
  EXPECT_EQ(info.elements(), 0);
}

} // namespace
