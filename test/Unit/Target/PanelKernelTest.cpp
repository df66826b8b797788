//===- PanelKernelTest.cpp - Packed weights, int8 activations -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRun.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace ::heddle::test;

namespace {

Numbers dequantise(const std::vector<uint8_t> &bytes) {
  Numbers values;
  for (size_t at = 0; at < bytes.size(); at += 48) {
    float scale;
    std::memcpy(&scale, bytes.data() + at, 4);
    for (size_t i = 0; i < 32; ++i)
      values.push_back(static_cast<double>(scale) *
                       static_cast<int8_t>(bytes[at + 16 + i]));
  }
  return values;
}

/// Compares a product with its definition, and gives its bytes.
std::vector<uint8_t> checkPanels(const std::string &target, int64_t t,
                                 int64_t n, int64_t k,
                                 const std::string &format, bool integers,
                                 bool bias) {
  Panels w(format, n, k, 123);
  std::string x = tensor({1, t, k}, integers ? "!heddle.q8" : "f32");
  std::string y = tensor({1, t, n}, "f32"), c = tensor({n}, "f32");
  std::vector<std::string> arguments = {x, w.type};
  if (bias)
    arguments.push_back(c);
  KernelRun run(kernel(arguments,
                       "%r = heddle.linear %0, %1 " +
                           std::string(bias ? "bias %2 " : "") + ": (" + x +
                           ", " + w.type + (bias ? ", " + c : "") + ") -> " +
                           y + "\n return %r : " + y,
                       {y}),
                target);
  Numbers vx, vc(static_cast<size_t>(n), 0.0), want;
  if (integers) {
    std::vector<uint8_t> q =
        quantise(randomNumbers(static_cast<size_t>(t * k), 5));
    run.setBytes(0, q);
    vx = dequantise(q);
  } else {
    vx = run.setRandom(0);
  }
  run.setBytes(1, w.bytes);
  if (bias)
    vc = run.setRandom(2);
  run.run();
  double scale = 0;
  for (int64_t m = 0; m < t; ++m)
    for (int64_t j = 0; j < n; ++j) {
      double sum = vc[j];
      for (int64_t i = 0; i < k; ++i)
        sum += vx[m * k + i] * w.values[j * k + i];
      want.push_back(sum);
      scale = std::max(scale, std::fabs(sum));
    }
  expectNear(run.get(bias ? 3 : 2), want, 2e-6 * scale, 1e-6,
             target + " " + format + (integers ? " x q8 " : " x f32 ") +
                 std::to_string(t) + "x" + std::to_string(n) + "x" +
                 std::to_string(k));
  return run.bytes(bias ? 3 : 2);
}

/// A kernel of the products of `x`, of `rows` rows, with weights of types that
/// have so many rows.
std::string productsOfOneInput(
    const std::string &x, int64_t rows,
    const std::vector<std::pair<std::string, int64_t>> &weights) {
  std::vector<std::string> arguments = {x}, results;
  std::string body, names, types;
  for (const auto &[w, n] : weights) {
    std::string i = std::to_string(arguments.size());
    results.push_back(tensor({1, rows, n}, "f32"));
    body += "%r" + i + " = heddle.linear %0, %" + i + " : (" + x + ", " + w +
            ") -> " + results.back() + "\n";
    names += (names.empty() ? "%r" : ", %r") + i;
    types += (types.empty() ? "" : ", ") + results.back();
    arguments.push_back(w);
  }
  return kernel(arguments, body + "return " + names + " : " + types, results);
}

void expectProducts(const Numbers &got, const Numbers &x, const Numbers &w,
                    size_t k, const std::string &what) {
  Numbers want;
  double scale = 0;
  for (size_t m = 0; m < x.size() / k; ++m)
    for (size_t j = 0; j < w.size() / k; ++j) {
      double sum = 0;
      for (size_t i = 0; i < k; ++i)
        sum += x[m * k + i] * w[j * k + i];
      want.push_back(sum);
      scale = std::max(scale, std::fabs(sum));
    }
  expectNear(got, want, 2e-6 * scale, 1e-6, what);
}

} // namespace

// Rows that fill a register tile, some, and one; whole panels, a cut one, one
// of a single row.
TEST(PanelKernel, Products) {
  for (const std::string &target : runnableTargets())
    for (std::string format : {"q8_0", "q4_0", "q4_1"})
      for (bool integers : {false, true})
        for (auto [t, n] :
             {std::pair<int64_t, int64_t>{1, 48}, {1, 21}, {5, 1}, {29, 35}})
          checkPanels(target, t, n, 32 * (n % 5 + 1), format, integers, t == 5);
}

// One row, whatever the magnitudes in its blocks; what is not finite shows.
TEST(PanelKernel, MagnitudesOfOneRow) {
  constexpr int64_t kRows = 21, kWidth = 160;
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const std::string &target : runnableTargets())
    for (std::string format : {"q8_0", "q4_0", "q4_1"})
      for (double special : {0.0, 1e-42, 1e30, kNaN, kInfinity}) {
        Panels w(format, kRows, kWidth, 9);
        KernelRun run(productsOfOneInput(tensor({1, 1, kWidth}, "f32"), 1,
                                         {{w.type, kRows}}),
                      target);
        // Blocks of one magnitude, of many, of zeros, of tiny numbers.
        Numbers x = randomNumbers(kWidth, 10);
        for (size_t i = 32; i < kWidth; ++i)
          x[i] *= i < 64    ? std::pow(10.0, -static_cast<double>(i % 32))
                  : i < 96  ? 0.0
                  : i < 128 ? 1e-39
                            : 1e-20;
        x[35] = special;
        x = run.set(0, x);
        run.setBytes(1, w.bytes);
        run.run();
        if (std::isfinite(special)) {
          expectProducts(run.get(2), x, w.values, kWidth,
                         target + " " + format);
          continue;
        }
        for (double y : run.get(2))
          EXPECT_FALSE(std::isfinite(y)) << target << " " << format;
      }
}

// Tile registers give the bits that vector registers give: whole tiles and
// others, chunks of columns, an odd block, one alone, blocks of rows.
TEST(PanelKernel, TilesGiveTheSameBits) {
  std::string without = targetWithoutTiles();
  if (without.empty())
    GTEST_SKIP() << "this processor has no tile registers";
  for (std::string format : {"q8_0", "q4_0", "q4_1"})
    for (auto [t, n, blocks] :
         {std::tuple<int64_t, int64_t, int64_t>{12, 32, 4},
          {13, 40, 1},
          {24, 16, 2},
          {31, 35, 3},
          {17, 48, 53},
          {12, 7, 48},
          {530, 21, 26}})
      for (bool bias : {false, true})
        EXPECT_EQ(checkPanels("host", t, n, 32 * blocks, format, true, bias),
                  checkPanels(without, t, n, 32 * blocks, format, true, bias));
}

// Many rows of fp32, split in bf16 terms where there are tiles of them: units,
// chunks and blocks of rows, groups of panels and tiles that are not full.
TEST(PanelKernel, ProductsOfManyFloats) {
  for (std::string format : {"q8_0", "q4_0", "q4_1", "f16", "bf16"})
    for (auto [t, n, k] : {std::tuple<int64_t, int64_t, int64_t>{24, 300, 416},
                           {8, 64, 96},
                           {39, 16, 32},
                           {530, 21, 224}})
      for (bool bias : {false, true})
        checkPanels("host", t, n, k, format, /*integers=*/false, bias);
}

// … of 16-bit floats, with any number of columns.
TEST(PanelKernel, PlainProducts) {
  for (const std::string &target : runnableTargets())
    for (std::string format : {"f16", "bf16"})
      for (auto [t, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1, 48, 96},
                             {1, 21, 7},
                             {5, 1, 13},
                             {29, 35, 40},
                             {29, 35, 209},
                             {3, 33, 1}})
        checkPanels(target, t, n, k, format, /*integers=*/false, t == 5);
}

// A table that products read in panels gives rows to embeddings.
TEST(PanelKernel, EmbeddingOfPackedTables) {
  for (const std::string &target : runnableTargets())
    for (std::string format : {"q8_0", "q4_0", "q4_1", "f16", "bf16"}) {
      bool plain = format == "f16" || format == "bf16";
      int64_t width = plain ? 93 : 96; // blocks are whole
      Panels w(format, 37, width, 7);
      std::string ids = tensor({1, 5}, "i32"),
                  out = tensor({1, 5, width}, "f32");
      KernelRun run(kernel({ids, w.type},
                           "%r = heddle.embedding %0, %1 : (" + ids + ", " +
                               w.type + ") -> " + out + "\n return %r : " + out,
                           {out}),
                    target);
      Numbers chosen = run.set(0, {36, -1, 0, 17, 5}), want;
      run.setBytes(1, w.bytes);
      run.run();
      for (double id : chosen)
        for (int64_t i = 0; i < width; ++i)
          want.push_back(
              id < 0 ? 0 : w.values[static_cast<size_t>(id * width + i)]);
      expectNear(run.get(2), want, 1e-7, 1e-6, target + " " + format);
    }
}

// Integers, sums and scales by definition; ties to even; a block of zeros; NaN
// makes its block NaN.
TEST(PanelKernel, Quantize) {
  std::string x = tensor({1, 3, 96}, "f32");
  std::string q = tensor({1, 3, 96}, "!heddle.q8");
  for (const std::string &target : runnableTargets()) {
    KernelRun run(kernel({x},
                         "%r = heddle.quantize %0 : (" + x + ") -> " + q +
                             "\n return %r : " + q,
                         {q}),
                  target);
    Numbers values = randomNumbers(3 * 96, 11, 3.0);
    for (size_t i = 32; i < 64; ++i)
      values[i] = 0;
    for (size_t i = 64; i < 96; ++i) // 127 steps of one: halves are ties
      values[i] = i == 64 ? 127 : static_cast<double>(i - 70) / 2;
    values = run.set(0, values);
    run.run();
    EXPECT_EQ(run.bytes(1), quantise(values)) << target;
    values[100] = std::nan("");
    run.set(0, values);
    run.run();
    EXPECT_TRUE(std::isnan(dequantise(run.bytes(1))[100])) << target;
  }
}

// A norm's rows stay in the kernel; what leaves is quantised.
TEST(PanelKernel, QuantizeAfterNorm) {
  std::string x = tensor({2, 3, 64}, "f32"), w = tensor({64}, "f32");
  std::string q = tensor({2, 3, 64}, "!heddle.q8");
  for (const std::string &target : runnableTargets()) {
    KernelRun run(kernel({x, w},
                         "%n = heddle.rms_norm %0, %1 eps 1.0e-05 : (" + x +
                             ", " + w + ") -> " + x +
                             "\n%r = heddle.quantize %n : (" + x + ") -> " + q +
                             "\n return %r : " + q,
                         {q}),
                  target);
    Numbers vx = run.setRandom(0), vw = run.setRandom(1);
    run.run();
    Numbers got = dequantise(run.bytes(2));
    for (size_t row = 0; row < 6; ++row) {
      double squares = 0;
      for (size_t i = 0; i < 64; ++i)
        squares += vx[row * 64 + i] * vx[row * 64 + i];
      double root = std::sqrt(squares / 64 + 1e-5);
      for (size_t block = 0; block < 64; block += 32) {
        double top = 0;
        for (size_t i = block; i < block + 32; ++i)
          top = std::max(top, std::fabs(vx[row * 64 + i] / root * vw[i]));
        for (size_t i = block; i < block + 32; ++i)
          EXPECT_NEAR(got[row * 64 + i], vx[row * 64 + i] / root * vw[i],
                      top / 127 * 0.5001)
              << target << " row " << row << " element " << i;
      }
    }
  }
}

// Products of one input are one kernel: each tile does its part of each,
// however many tiles there are; packed and row-major weights side by side.
TEST(PanelKernel, ProductsOfOneInput) {
  constexpr int64_t kWidth = 64;
  for (const std::string &target : runnableTargets())
    for (int64_t t : {1, 9}) {
      Panels a("q4_1", 37, kWidth, 3), c("bf16", 16, kWidth, 4);
      std::string w = tensor({5, kWidth}, "f32");
      KernelRun run(productsOfOneInput(tensor({1, t, kWidth}, "f32"), t,
                                       {{a.type, 37}, {w, 5}, {c.type, 16}}),
                    target);
      Numbers vx = run.setRandom(0), vw = run.setRandom(2);
      run.setBytes(1, a.bytes);
      run.setBytes(3, c.bytes);
      run.run();
      expectProducts(run.get(4), vx, a.values, kWidth, target + " q4_1");
      expectProducts(run.get(5), vx, vw, kWidth, target + " f32");
      expectProducts(run.get(6), vx, c.values, kWidth, target + " bf16");
    }
}

// … in blocks of rows, of many rows.
TEST(PanelKernel, ProductsOfManyRows) {
  constexpr int64_t kWidth = 64, kRows = 517;
  for (const std::string &target : runnableTargets()) {
    Panels a("q4_1", 37, kWidth, 3), c("q8_0", 16, kWidth, 4);
    KernelRun run(productsOfOneInput(tensor({1, kRows, kWidth}, "!heddle.q8"),
                                     kRows, {{a.type, 37}, {c.type, 16}}),
                  target);
    std::vector<uint8_t> q = quantise(randomNumbers(kRows * kWidth, 5));
    run.setBytes(0, q);
    run.setBytes(1, a.bytes);
    run.setBytes(2, c.bytes);
    run.run();
    expectProducts(run.get(3), dequantise(q), a.values, kWidth,
                   target + " q4_1");
    expectProducts(run.get(4), dequantise(q), c.values, kWidth,
                   target + " q8_0");
  }
}
