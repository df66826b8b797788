//===- SampleKernelTest.cpp - Drawing tokens ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRun.h"
#include "heddle/Reference/Philox.h"
#include "heddle/Reference/Reference.h"

#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace ::heddle::test;
namespace reference = mlir::heddle::reference;

namespace {

const double kInf = std::numeric_limits<double>::infinity();

/// Operands of one sample op: B x R x V logits and B of everything else.
struct Draws {
  int64_t sequences, rows, width;
  Numbers logits, temperature, topK, topP, minP, seed, position;

  Draws(int64_t sequences, int64_t rows, int64_t width)
      : sequences(sequences), rows(rows), width(width),
        logits(randomNumbers(sequences * rows * width, 7 + width, 8)),
        temperature(sequences, 1), topK(sequences, 0), topP(sequences, 0),
        minP(sequences, 0), seed(sequences, 11), position(sequences, 0) {
    for (int64_t b = 0; b < sequences; ++b)
      position[b] = static_cast<double>(3 + 5 * b);
  }
  double *row(int64_t i) { return logits.data() + i * width; }

  std::vector<std::string> types() const {
    std::string f = tensor({sequences}, "f32"), i = tensor({sequences}, "i32");
    return {tensor({sequences, rows, width}, "f32"), f, i, f, f, i, i};
  }
  std::string result() const { return tensor({sequences, rows}, "i32"); }
  std::string op(const std::string &attributes = "") const {
    std::string text = "%r = heddle.sample %0 temperature %1 top_k %2 top_p %3 "
                       "min_p %4 seed %5 position %6 " +
                       attributes + " : (";
    for (const std::string &type : types())
      text += (text.back() == '(' ? "" : ", ") + type;
    return text + ") -> " + result() + "\n return %r : " + result();
  }

  /// The kernel's tokens; operands become what fp32 holds of them.
  Numbers run(const std::string &target, const std::string &attributes = "",
              const std::vector<int64_t> &scalars = {}) {
    KernelRun k(kernel(types(), op(attributes), {result()}), target);
    if (!k.valid())
      return Numbers(sequences * rows, -1);
    size_t operand = 0;
    for (Numbers *values :
         {&logits, &temperature, &topK, &topP, &minP, &seed, &position})
      *values = k.set(operand++, *values);
    k.run(scalars);
    return k.get(7);
  }

  /// The reference's tokens.
  Numbers want() const {
    mlir::MLIRContext context;
    context.loadDialect<mlir::heddle::HeddleDialect, mlir::func::FuncDialect>();
    std::string text = "func.func @f(";
    std::vector<std::string> all = types();
    for (size_t i = 0; i < all.size(); ++i)
      text += (i ? ", %" : "%") + std::to_string(i) + ": " + all[i];
    text += ") -> " + result() + " {\n" + op() + "\n}";
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    std::vector<reference::Tensor> arguments = {
        {{sequences, rows, width}, logits}};
    for (const Numbers *values :
         {&temperature, &topK, &topP, &minP, &seed, &position})
      arguments.push_back({{sequences}, *values});
    auto results = reference::evaluate(
        module->lookupSymbol<mlir::func::FuncOp>("f"), arguments);
    EXPECT_TRUE(succeeded(results));
    return succeeded(results) ? (*results)[0].data : Numbers();
  }
};

/// Settings of the filters, one or several at once.
struct Setting {
  double temperature, topK, topP, minP;
};
const Setting kSettings[] = {
    {1, 0, 0, 0},       {0.7, 0, 1, 0},      {2.5, 1, 0, 0},
    {1, 3, 0, 0},       {1.5, 40, 0, 0},     {0.8, 0, 0.9, 0},
    {3, 0, 0.5, 0},     {1, 0, 1e-6, 0},     {4, 0, 0.999, 0},
    {1, 0, 0, 0.05},    {3, 0, 0, 1},        {4, 40, 0.95, 0.05},
    {2, 7, 0.6, 0.3},   {9, 1000, 0.8, 0.1}, {1e-3, 50, 0.9, 0.1},
    {1e30, 20, 0.4, 0}, {0, 40, 0.9, 0.1}};

} // namespace

// Filters by themselves and together, vectors with and without a tail, several
// rows a sequence, vocabularies of one block and of many.
TEST(SampleKernel, DrawsWhatTheReferenceDraws) {
  for (const std::string &target : runnableTargets())
    for (int64_t width : {1, 2, 5, 8, 17, 100, 1003, 1024, 5000}) {
      Draws draws(static_cast<int64_t>(std::size(kSettings)), 3, width);
      for (size_t b = 0; b < std::size(kSettings); ++b) {
        draws.temperature[b] = kSettings[b].temperature;
        draws.topK[b] = kSettings[b].topK;
        draws.topP[b] = kSettings[b].topP;
        draws.minP[b] = kSettings[b].minP;
        draws.seed[b] = static_cast<double>(b) * 1e8 - 3e8;
      }
      Numbers got = draws.run(target);
      expectNear(got, draws.want(), 0, 0, target + " " + std::to_string(width));
    }
}

// Logits of few values: a filter may cut through a hundred equal ones.
TEST(SampleKernel, TiesAreKeptFromTheLowestIndex) {
  for (const std::string &target : runnableTargets())
    for (int64_t width : {9, 100, 2051}) {
      Draws draws(40, 2, width);
      for (double &x : draws.logits)
        x = std::round(x / 8) * 1.5; // both zeros among them
      for (int64_t b = 0; b < draws.sequences; ++b) {
        draws.temperature[b] = 2;
        draws.topK[b] = b % 4 == 0 ? 0 : static_cast<double>(b * width / 80);
        draws.topP[b] = b % 3 == 0 ? 0 : 0.024 * static_cast<double>(b);
      }
      Numbers got = draws.run(target);
      expectNear(got, draws.want(), 0, 0, target + " " + std::to_string(width));
    }
}

// What is not a number, what is infinite, what is all the same.
TEST(SampleKernel, OddRows) {
  for (const std::string &target : runnableTargets())
    for (int64_t width : {3, 8, 29, 1500}) {
      Draws draws(14, 1, width);
      draws.topK.assign(14, 5);
      draws.topP.assign(14, 0.9);
      draws.minP.assign(14, 0.01);
      draws.temperature.assign(14, 3);
      auto fill = [&](int64_t row, double value) {
        std::fill(draws.row(row), draws.row(row + 1), value);
      };
      fill(0, NAN);
      fill(1, -kInf);
      fill(2, -kInf);
      draws.row(2)[width - 1] = 2; // the only one
      fill(3, 1.25);
      fill(4, 1.25);
      draws.topK[4] = draws.topP[4] = draws.minP[4] = 0;
      draws.row(5)[width / 2] = kInf;
      for (int64_t i = 0; i < width; i += 2)
        draws.row(6)[i] = NAN;
      for (int64_t i = 1; i < width; i += 2)
        draws.row(7)[i] = -kInf;
      draws.temperature[8] = NAN;
      draws.temperature[9] = kInf;
      draws.temperature[10] = -1;
      draws.topP[11] = draws.minP[11] = NAN;
      draws.topP[12] = -1;
      draws.minP[12] = 7;
      draws.row(13)[0] = -3e38;
      draws.row(13)[1] = 3e38;
      Numbers got = draws.run(target);
      expectNear(got, draws.want(), 0, 0, target + " " + std::to_string(width));
      EXPECT_EQ(got[0], 0);
      EXPECT_EQ(got[2], static_cast<double>(width - 1));
      EXPECT_EQ(got[5], static_cast<double>(width / 2));
    }
}

// Temperature 0 is the argmax, and so are single survivors of each filter.
TEST(SampleKernel, OneTokenLeftIsTheArgmax) {
  for (const std::string &target : runnableTargets()) {
    Draws draws(5, 4, 777);
    draws.temperature = {0, 50, 50, 50, 1e-6};
    draws.topK[1] = 1;
    draws.topP[2] = 1e-9;
    draws.minP[3] = 1;
    Numbers got = draws.run(target);
    for (int64_t row = 0; row < 20; ++row)
      EXPECT_EQ(got[row],
                static_cast<double>(
                    std::max_element(draws.row(row), draws.row(row + 1)) -
                    draws.row(row)))
          << target << " row " << row;
  }
}

// The published answer for key 0 and counter 0, seen through a thousand equal
// tokens.
TEST(SampleKernel, RandomWordIsThePublishedOne) {
  for (const std::string &target : runnableTargets()) {
    Draws draws(1, 1, 1000);
    draws.logits.assign(1000, 0.5);
    draws.seed = draws.position = {0};
    EXPECT_EQ(draws.run(target)[0], std::floor(0x6627e8d5 * 0x1p-32 * 1000))
        << target;
  }
}

// Each word of the counter and the key matters; nothing else does.
TEST(SampleKernel, DrawsDependOnSeedPositionSequenceAndRow) {
  Draws draws(4, 2, 4096);
  for (int64_t row = 1; row < 8; ++row)
    std::copy(draws.row(0), draws.row(1), draws.row(row));
  draws.temperature.assign(4, 30);
  draws.position.assign(4, 9);
  Numbers same = draws.run("x86-64-v3");
  EXPECT_EQ(same, draws.run("x86-64-v3"));
  EXPECT_EQ(std::set<double>(same.begin(), same.end()).size(), 8u);
  draws.position.assign(4, 10);
  Numbers later = draws.run("x86-64-v3");
  draws.seed.assign(4, 12);
  Numbers other = draws.run("x86-64-v3");
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_NE(same[i], later[i]);
    EXPECT_NE(later[i], other[i]);
  }
}

// Ranks that hold parts of a batch draw what one that holds all of it draws.
TEST(SampleKernel, SequencesAreNumberedGlobally) {
  for (const std::string &target : runnableTargets()) {
    Draws all(5, 2, 300);
    all.temperature.assign(5, 9);
    Numbers want = all.run(target);
    for (int64_t rank : {0, 1}) {
      Draws part(3, 2, 300);
      part.temperature.assign(3, 9);
      for (int64_t b = 0; b < 3; ++b) {
        int64_t global = std::min<int64_t>(3 * rank + b, 4);
        std::copy(all.row(2 * global), all.row(2 * global + 2),
                  part.row(2 * b));
        part.position[b] = all.position[global];
      }
      Numbers got =
          part.run(target, "sequences <{dp}, [[0, 1, 2], [3, 4, -1]]>", {rank});
      for (int64_t i = 0; i < (rank ? 4 : 6); ++i)
        EXPECT_EQ(got[i], want[6 * rank + i]) << target << rank << " " << i;
    }
  }
}

// Ten thousand draws have the frequencies that float64 gives. Draws are a
// function of the counter, so this either always passes or never.
TEST(SampleKernel, FrequenciesAreTheProbabilities) {
  constexpr int64_t kDraws = 10000, kWidth = 43;
  for (Setting setting : {Setting{1, 0, 0, 0}, Setting{1.5, 12, 0, 0},
                          Setting{2, 0, 0.7, 0}, Setting{2, 20, 0.9, 0.2}}) {
    Draws draws(kDraws, 1, kWidth);
    for (int64_t b = 0; b < kDraws; ++b) {
      for (int64_t v = 0; v < kWidth; ++v)
        draws.row(b)[v] = 3 * std::sin(static_cast<double>(v * v));
      draws.temperature[b] = setting.temperature;
      draws.topK[b] = setting.topK;
      draws.topP[b] = setting.topP;
      draws.minP[b] = setting.minP;
    }
    std::vector<double> seen(kWidth, 0), expected(kWidth, 0);
    for (double token : draws.run("x86-64-v3"))
      ++seen[static_cast<size_t>(token)];

    // By definition: the order, then each filter on a renormalised rest.
    std::vector<size_t> order(kWidth);
    for (size_t v = 0; v < kWidth; ++v)
      order[v] = v;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t c) {
      return draws.row(0)[a] > draws.row(0)[c];
    });
    auto probabilities = [&] {
      double sum = 0;
      std::vector<double> p;
      for (size_t v : order)
        sum += p.emplace_back(std::exp(draws.row(0)[v] / setting.temperature));
      for (double &x : p)
        x /= sum;
      return p;
    };
    if (setting.topK > 0)
      order.resize(static_cast<size_t>(setting.topK));
    if (setting.topP > 0) {
      std::vector<double> p = probabilities();
      double sum = 0;
      size_t kept = 0;
      while (sum < setting.topP)
        sum += p[kept++];
      order.resize(kept);
    }
    std::vector<double> p = probabilities();
    size_t kept = order.size();
    while (kept > 1 && p[kept - 1] < setting.minP * p[0])
      --kept;
    order.resize(kept);
    p = probabilities();
    double chi2 = 0, drawn = 0;
    for (size_t i = 0; i < kept; ++i) {
      double want = p[i] * kDraws, got = seen[order[i]];
      chi2 += (got - want) * (got - want) / want;
      drawn += got;
    }
    EXPECT_EQ(drawn, kDraws) << "a token that a filter takes was drawn";
    // Mean and deviation of the distribution with kept - 1 degrees.
    double degrees = static_cast<double>(kept) - 1;
    EXPECT_LT(chi2, degrees + 3 * std::sqrt(2 * degrees)) << kept;
    EXPECT_GT(kept, 3u);
  }
}

// A vocabulary of today's largest models, with a tail.
TEST(SampleKernel, LargeVocabulary) {
  Draws draws(3, 1, 151937);
  draws.temperature = {0.8, 1, 1.2};
  draws.topK = {50, 0, 1000};
  draws.topP = {0, 0.95, 0.9};
  Numbers got = draws.run("x86-64-v3");
  expectNear(got, draws.want(), 0, 0, "large");
}
