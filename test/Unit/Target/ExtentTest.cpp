//===- ExtentTest.cpp - Kernels that compute the leading rows only --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows that a launch asks for have the bits that they have in a launch of all
// rows, whatever the others hold; of the others, those that share no tile with
// them are not touched.
//
//===----------------------------------------------------------------------===//

#include "KernelRun.h"

#include <functional>

using namespace ::heddle::test;

namespace {

constexpr int64_t kRows = 75;
const std::string kAttributes =
    "heddle.extent = " + std::to_string(kRows) + " : i64";

/// Operands whose rows are the kernel's, and how to fill the others.
struct Extents {
  std::string text;
  std::vector<size_t> byRow;
  size_t result;
  std::function<void(KernelRun &)> set;
  /// Rows that a tile may hold.
  int64_t tileRows;
};

std::vector<std::string> targets() {
  std::vector<std::string> all = runnableTargets();
  if (std::string name = targetWithoutTiles(); !name.empty())
    all.push_back(name);
  return all;
}

void check(const Extents &kernel, const std::string &target) {
  KernelRun run(kernel.text, target);
  ASSERT_TRUE(run.valid());
  ASSERT_TRUE(run.interface().hasExtent);
  std::vector<uint8_t> fresh = run.bytes(kernel.result);
  std::vector<std::vector<uint8_t>> poison, inputs;
  for (size_t operand : kernel.byRow)
    poison.push_back(run.bytes(operand));
  kernel.set(run);
  for (size_t operand : kernel.byRow)
    inputs.push_back(run.bytes(operand));
  run.run({kRows});
  std::vector<uint8_t> want = run.bytes(kernel.result);
  size_t rowBytes = want.size() / kRows;
  for (int64_t rows : {1, 7, 16, 17, 33, 64, 74, 75}) {
    SCOPED_TRACE(target + ", " + std::to_string(rows) + " rows");
    run.setBytes(kernel.result, fresh);
    for (size_t i = 0; i < kernel.byRow.size(); ++i) {
      std::vector<uint8_t> bytes = inputs[i];
      auto end = static_cast<ptrdiff_t>(bytes.size() / kRows *
                                        static_cast<size_t>(rows));
      std::copy(poison[i].begin() + end, poison[i].end(), bytes.begin() + end);
      run.setBytes(kernel.byRow[i], bytes);
    }
    run.run({rows});
    std::vector<uint8_t> got = run.bytes(kernel.result);
    for (int64_t row = 0; row < kRows; ++row) {
      auto at = static_cast<ptrdiff_t>(rowBytes) * row;
      auto next = at + static_cast<ptrdiff_t>(rowBytes);
      auto equals = [&](const std::vector<uint8_t> &other) {
        return std::equal(got.begin() + at, got.begin() + next,
                          other.begin() + at);
      };
      if (row < rows)
        ASSERT_TRUE(equals(want)) << "row " << row;
      else if (row >= rows + kernel.tileRows)
        ASSERT_TRUE(equals(fresh)) << "row " << row << " was computed";
    }
  }
}

TEST(Extent, RowPrograms) {
  std::string x = tensor({1, kRows, 37}, "f32"), w = tensor({37}, "f32");
  Extents norm{kernel({x, w},
                      "%r = heddle.rms_norm %0, %1 eps 1.000000e-05 : (" + x +
                          ", " + w + ") -> " + x +
                          "\n %s = heddle.add %r, %0 : (" + x + ", " + x +
                          ") -> " + x + "\n return %s : " + x,
                      {x}, kAttributes),
               {0},
               2,
               [](KernelRun &run) {
                 run.setRandom(0);
                 run.setRandom(1);
               },
               0};
  for (const std::string &target : targets())
    check(norm, target);
}

TEST(Extent, ProductsWithRowMajorWeights) {
  std::string x = tensor({1, kRows, 29}, "f32"), w = tensor({11, 29}, "bf16");
  std::string y = tensor({1, kRows, 11}, "f32");
  Extents product{kernel({x, w},
                         "%r = heddle.linear %0, %1 : (" + x + ", " + w +
                             ") -> " + y + "\n return %r : " + y,
                         {y}, kAttributes),
                  {0},
                  2,
                  [](KernelRun &run) {
                    run.setRandom(0);
                    run.setRandom(1);
                  },
                  4};
  for (const std::string &target : targets())
    check(product, target);
}

/// Weights as panels; activations in fp32, or in int8 blocks.
Extents panels(const std::string &format, bool integers) {
  constexpr int64_t kOut = 70, kIn = 96;
  Panels weight(format, kOut, kIn, 3);
  std::string x = tensor({1, kRows, kIn}, integers ? "!heddle.q8" : "f32");
  std::string y = tensor({1, kRows, kOut}, "f32");
  auto set = [integers, bytes = weight.bytes](KernelRun &run) {
    if (integers)
      run.setBytes(0, quantise(randomNumbers(kRows * kIn, 4)));
    else
      run.setRandom(0);
    run.setBytes(1, bytes);
  };
  return {kernel({x, weight.type},
                 "%r = heddle.linear %0, %1 : (" + x + ", " + weight.type +
                     ") -> " + y + "\n return %r : " + y,
                 {y}, kAttributes),
          {0},
          2,
          set,
          16};
}

TEST(Extent, ProductsWithPanels) {
  for (const std::string &target : targets())
    for (const char *format : {"q4_1", "q8_0", "bf16"}) {
      SCOPED_TRACE(format);
      check(panels(format, false), target);
    }
}

TEST(Extent, ProductsOfIntegers) {
  for (const std::string &target : targets())
    for (const char *format : {"q4_1", "q8_0"}) {
      SCOPED_TRACE(format);
      check(panels(format, true), target);
    }
}

TEST(Extent, Attention) {
  constexpr int64_t kKeys = 90;
  std::string q = tensor({1, kRows, 6, 20}, "f32");
  std::string kv = tensor({1, kKeys, 2, 20}, "f32");
  std::string qp = tensor({1, kRows}, "i32"), kp = tensor({1, kKeys}, "i32");
  auto set = [](KernelRun &run) {
    for (size_t i = 0; i < 3; ++i)
      run.setRandom(i);
    Numbers queries, keys;
    for (int64_t i = 0; i < kRows; ++i)
      queries.push_back(static_cast<double>(kKeys - kRows + i));
    for (int64_t i = 0; i < kKeys; ++i)
      keys.push_back(static_cast<double>(i));
    run.set(3, queries);
    run.set(4, keys);
  };
  Extents attention{kernel({q, kv, kv, qp, kp},
                           "%r = heddle.attention %0, %1, %2 pos(%3, %4) scale "
                           "2.500000e-01 causal : (" +
                               q + ", " + kv + ", " + kv + ", " + qp + ", " +
                               kp + ") -> " + q + "\n return %r : " + q,
                           {q}, kAttributes),
                    {0, 3},
                    5,
                    set,
                    48 / 3};
  for (const std::string &target : targets())
    check(attention, target);
}

} // namespace
