//===- LocalKernelTest.cpp - Ops that differ by rank --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRun.h"

#include <cmath>

using namespace ::heddle::test;

namespace {

using Table = std::vector<std::vector<int64_t>>;

/// "<{tp}, [[0, 1], [2, -1]]>"
std::string attribute(const Table &table) {
  std::string text = "<{tp}, [";
  for (size_t r = 0; r < table.size(); ++r) {
    text += r ? ", [" : "[";
    for (size_t c = 0; c < table[r].size(); ++c)
      text += (c ? ", " : "") + std::to_string(table[r][c]);
    text += "]";
  }
  return text + "]>";
}

bool isUniform(const Table &table) {
  for (const std::vector<int64_t> &row : table)
    if (row != table[0])
      return false;
  return true;
}

struct MaskCase {
  std::vector<int64_t> shape;
  int64_t dim, unit, size;
  Table units;
};

} // namespace

// Padding at the end, in the middle, in a short unit, in each dimension; what
// it held was NaN.
TEST(LocalKernel, MaskPad) {
  std::vector<MaskCase> cases = {
      {{1, 3, 8}, 2, 4, 13, {{0, 1}, {2, 3}, {-1, -1}}},
      {{1, 3, 20},
       2,
       1,
       33,
       {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19},
        {20, 21, 22, 23, 24, 25, 26, 27, 28, 29,
         30, 31, 32, 33, 34, 35, 36, -1, -1, -1}}},
      {{1, 2, 18}, 2, 3, 100, {{0, -1, 2, -1, 4, 5}, {-1, 6, 7, 8, -1, -1}}},
      {{1, 2, 3, 5}, 2, 1, 4, {{0, 1, -1}, {2, 3, 4}}},
      {{2, 2, 4, 10}, 3, 5, 12, {{0, 1}, {2, -1}}},
      {{2, 6, 7}, 1, 2, 9, {{0, 1, 2}, {3, 4, -1}}},
      {{2, 3, 7}, 0, 1, 3, {{0, 1}, {2, -1}}},
      {{1, 3, 8}, 2, 4, 7, {{0, 1}, {0, 1}}},
  };
  for (const std::string &target : runnableTargets())
    for (std::string element : {"f32", "bf16"})
      for (const MaskCase &c : cases)
        for (int64_t rank = 0; rank < static_cast<int64_t>(c.units.size());
             ++rank) {
          std::string x = tensor(c.shape, element);
          KernelRun k(
              kernel({x},
                     "%r = heddle.mask_pad %0 dim " + std::to_string(c.dim) +
                         " units " + attribute(c.units) + " of " +
                         std::to_string(c.unit) + " size " +
                         std::to_string(c.size) + " identity -1.5 : " + x +
                         " -> " + x + "\n return %r : " + x,
                     {x}),
              target);
          Numbers values = randomNumbers(k.sizeOf(0), 4), want;
          int64_t inner = 1;
          for (size_t d = c.dim + 1; d < c.shape.size(); ++d)
            inner *= c.shape[d];
          std::vector<bool> exists;
          for (size_t i = 0; i < values.size(); ++i) {
            int64_t at = static_cast<int64_t>(i) / inner % c.shape[c.dim];
            int64_t u = c.units[rank][at / c.unit];
            exists.push_back(u >= 0 && u * c.unit + at % c.unit < c.size);
            if (!exists.back())
              values[i] = NAN;
          }
          values = k.set(0, values);
          for (size_t i = 0; i < values.size(); ++i)
            want.push_back(exists[i] ? values[i] : -1.5);
          k.run(isUniform(c.units) ? std::vector<int64_t>()
                                   : std::vector<int64_t>{rank});
          expectNear(k.get(1), want, 0, 0, target + " " + attribute(c.units));
        }
}

namespace {
struct TakeCase {
  std::vector<int64_t> shape;
  int64_t dim, unit, size;
  Table slots;
};
} // namespace

// Slices, gathers, removal of padding, replicas and zeros, in each dimension.
TEST(LocalKernel, TakeUnits) {
  Table scattered(2);
  for (int64_t s = 0; s < 40; ++s) {
    scattered[0].push_back(s % 3 ? (s * 7) % 30 : -1);
    scattered[1].push_back((s * 11) % 30);
  }
  std::vector<TakeCase> cases = {
      {{1, 3, 24}, 2, 4, 8, {{0, 1}, {2, 3}, {4, 5}}},
      {{1, 3, 27}, 2, 4, 15, {{0, 1, 2, 3}, {3, 4, 5, 6}}},
      {{1, 3, 27}, 2, 4, 20, {{6, 1, -1, -1, 2}, {-1, 4, 5, 6, 6}}},
      {{1, 2, 4, 17}, 2, 1, 3, {{3, -1, 0}, {1, 2, 3}}},
      {{1, 2, 4, 18}, 3, 3, 9, {{5, 4, 3}, {0, 1, -1}}},
      {{1, 2, 90}, 2, 3, 120, scattered},
      {{2, 8, 5}, 1, 2, 5, {{3, -1, 0}, {1, 2, 3}}},
      {{3, 2, 5}, 0, 1, 2, {{2, -1}, {0, 1}}},
      {{1, 2, 20}, 2, 5, 15, {{3, 0, 1}, {3, 0, 1}}},
  };
  for (const std::string &target : runnableTargets())
    for (std::string element : {"f32", "f16"})
      for (const TakeCase &c : cases)
        for (int64_t rank = 0; rank < static_cast<int64_t>(c.slots.size());
             ++rank) {
          std::vector<int64_t> shape = c.shape;
          shape[c.dim] = c.size;
          std::string x = tensor(c.shape, element), y = tensor(shape, element);
          KernelRun k(kernel({x},
                             "%r = heddle.take_units %0 dim " +
                                 std::to_string(c.dim) + " slots " +
                                 attribute(c.slots) + " of " +
                                 std::to_string(c.unit) + " : " + x + " -> " +
                                 y + "\n return %r : " + y,
                             {y}),
                      target);
          Numbers values = k.setRandom(0), want;
          k.run(isUniform(c.slots) ? std::vector<int64_t>()
                                   : std::vector<int64_t>{rank});
          int64_t inner = 1, in = c.shape[c.dim];
          for (size_t d = c.dim + 1; d < shape.size(); ++d)
            inner *= shape[d];
          for (int64_t i = 0; i < sizeOf(shape); ++i) {
            int64_t at = i / inner % c.size, outer = i / inner / c.size;
            int64_t u = c.slots[rank][at / c.unit];
            int64_t from = u * c.unit + at % c.unit;
            want.push_back(
                u < 0 || from >= in
                    ? 0
                    : values[(outer * in + from) * inner + i % inner]);
          }
          expectNear(k.get(1), want, 0, 0, target + " " + attribute(c.slots));
        }
}

// Rows of int8 blocks move as they are; what does not exist becomes zeros.
TEST(LocalKernel, TakeRowsOfBlocks) {
  Table slots = {{2, -1, 0}, {1, 3, 3}};
  std::string x = tensor({2, 7, 64}, "!heddle.q8"),
              y = tensor({2, 6, 64}, "!heddle.q8");
  for (const std::string &target : runnableTargets())
    for (int64_t rank : {0, 1}) {
      KernelRun k(kernel({x},
                         "%r = heddle.take_units %0 dim 1 slots " +
                             attribute(slots) + " of 2 : " + x + " -> " + y +
                             "\n return %r : " + y,
                         {y}),
                  target);
      constexpr size_t kRowBytes = 2 * 48;
      std::vector<uint8_t> bytes(14 * kRowBytes), want;
      for (size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<uint8_t>(i * 37 + i / 251 + 1);
      k.setBytes(0, bytes);
      k.run({rank});
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t i = 0; i < 6; ++i) {
          int64_t u = slots[rank][i / 2], from = u * 2 + i % 2;
          bool exists = u >= 0 && from < 7;
          for (size_t j = 0; j < kRowBytes; ++j)
            want.push_back(
                exists
                    ? bytes[static_cast<size_t>(b * 7 + from) * kRowBytes + j]
                    : 0);
        }
      EXPECT_EQ(k.bytes(1), want) << target << " rank " << rank;
    }
}

// Positions of one rank's tokens, and their mask.
TEST(LocalKernel, IntegersOfTokens) {
  Table slots = {{0, 3}, {1, 2}, {4, -1}};
  std::string x = tensor({2, 9}, "i32"), y = tensor({2, 4}, "i32");
  for (int64_t rank : {0, 1, 2}) {
    KernelRun k(kernel({x},
                       "%a = heddle.take_units %0 dim 1 slots " +
                           attribute(slots) + " of 2 : " + x + " -> " + y +
                           "\n%b = heddle.mask_pad %a dim 1 units " +
                           attribute(slots) + " of 2 size 9 identity -1.0 : " +
                           y + " -> " + y + "\n return %b : " + y,
                       {y}),
                "x86-64-v3");
    Numbers ids = randomNumbers(18, 8, 1000), want;
    ids = k.set(0, ids);
    k.run({rank});
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t i = 0; i < 4; ++i) {
        int64_t u = slots[rank][i / 2], from = u * 2 + i % 2;
        want.push_back(u >= 0 && from < 9 ? ids[b * 9 + from] : -1);
      }
    expectNear(k.get(1), want, 0, 0, "rank " + std::to_string(rank));
  }
}

// Rows of 5 and of 70 elements, which no vector divides; three dimensions of
// rows.
TEST(LocalKernel, ChunksAreSplitAndJoined) {
  for (int64_t width : {5, 70}) {
    std::string whole = tensor({2, 6, width}, "f32");
    std::string cut = tensor({3, 2, 2, width}, "f32");
    for (bool splits : {true, false}) {
      KernelRun k(
          kernel({splits ? whole : cut},
                 std::string("%r = heddle.") + (splits ? "split" : "join") +
                     "_chunks %0 dim 1 : " +
                     (splits ? whole + " -> " + cut : cut + " -> " + whole) +
                     "\n return %r : " + (splits ? cut : whole),
                 {splits ? cut : whole}),
          "x86-64-v3");
      std::vector<double> in, want(static_cast<size_t>(12 * width));
      for (int64_t i = 0; i < 12 * width; ++i)
        in.push_back(static_cast<double>(i));
      for (int64_t a = 0; a < 2; ++a)
        for (int64_t b = 0; b < 6; ++b)
          for (int64_t c = 0; c < width; ++c) {
            auto beside = static_cast<size_t>((a * 6 + b) * width + c);
            auto apart =
                static_cast<size_t>(((b / 2 * 2 + a) * 2 + b % 2) * width + c);
            want[splits ? apart : beside] = in[splits ? beside : apart];
          }
      k.set(0, in);
      k.run();
      expectNear(k.get(1), want, 0, 0, splits ? "split" : "join");
    }
  }
}

// Blocks of 5 over two ranks of 3, as the reference's test has it.
TEST(LocalKernel, IndexWithinABlock) {
  std::string x = tensor({2, 4}, "i32");
  std::string units = "%0 units <{cp}, [[0], [1]]> of 3 within 5";
  KernelRun k(kernel({x},
                     "%a = heddle.local_index " + units + " : " + x + " -> " +
                         x + "\n%b = heddle.local_index " + units +
                         " count : " + x + " -> " + x +
                         "\n return %a, %b : " + x + ", " + x,
                     {x, x}),
              "x86-64-v3");
  k.set(0, {0, 2, 3, 4, 5, 8, 14, -1});
  k.run({0});
  expectNear(k.get(1), {0, 2, -1, -1, 3, -1, -1, -1}, 0, 0, "rank 0");
  expectNear(k.get(2), {0, 2, 3, 3, 3, 6, 9, -1}, 0, 0, "rank 0, count");
  k.run({1});
  expectNear(k.get(1), {-1, -1, 0, 1, -1, 3, 7, -1}, 0, 0, "rank 1");
  expectNear(k.get(2), {0, 0, 0, 1, 3, 3, 7, -1}, 0, 0, "rank 1, count");
}

// Two tables over different axes need two scalars, in order of appearance.
TEST(LocalKernel, CoordinatesOfSeveralAxes) {
  std::string x = tensor({1, 2}, "i32");
  KernelRun k(
      kernel(
          {x},
          "%a = heddle.local_index %0 units <{tp}, [[0], [1]]> of 10 : " + x +
              " -> " + x +
              "\n%b = heddle.local_index %0 units <{dp, tp}, [[0], [1], [2], "
              "[3]]> of 5 : " +
              x + " -> " + x +
              "\n%c = heddle.local_index %0 units <{tp}, [[1], [0]]> of 10 : " +
              x + " -> " + x + "\n return %a, %b, %c : " + x + ", " + x + ", " +
              x,
          {x, x, x}),
      "x86-64-v3");
  ASSERT_EQ(k.interface().coordinates.size(), 2u);
  EXPECT_EQ(k.interface().coordinates[0].size(), 1u);
  EXPECT_EQ(k.interface().coordinates[1].size(), 2u);
  k.set(0, {12, 17});
  k.run({1, 3});
  expectNear(k.get(1), {2, 7}, 0, 0, "tp");
  expectNear(k.get(2), {-1, 2}, 0, 0, "dp, tp");
  expectNear(k.get(3), {-1, -1}, 0, 0, "tp, other table");
}
