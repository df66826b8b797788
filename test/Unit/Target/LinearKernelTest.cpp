//===- LinearKernelTest.cpp - Products with stored weights --------------===//
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

void checkLinear(const std::string &target, int64_t b, int64_t t, int64_t n,
                 int64_t k, const std::string &weight,
                 const std::string &activation, bool bias) {
  bool quantised = weight[0] == 'q';
  std::string x = tensor({b, t, k}, activation);
  std::string w = tensor({n, k}, (quantised ? "!heddle." : "") + weight);
  std::string y = tensor({b, t, n}, activation), c = tensor({n}, "f32");
  std::vector<std::string> arguments = {x, w};
  if (bias)
    arguments.push_back(c);
  KernelRun run(kernel(arguments,
                       "%r = heddle.linear %0, %1 " +
                           std::string(bias ? "bias %2 " : "") + ": (" + x +
                           ", " + w + (bias ? ", " + c : "") + ") -> " + y +
                           "\n return %r : " + y,
                       {y}),
                target);
  Numbers vx = run.setRandom(0), vw, vc(n, 0.0), want;
  if (quantised) {
    std::vector<uint8_t> blocks = randomBlocks(weight, n, k, 123);
    run.setBytes(1, blocks);
    vw = decodeBlocks(weight, blocks, n, k);
  } else {
    vw = run.setRandom(1);
  }
  if (bias)
    vc = run.setRandom(2);
  run.run();
  double scale = 0;
  for (int64_t m = 0; m < b * t; ++m)
    for (int64_t j = 0; j < n; ++j) {
      double sum = vc[j];
      for (int64_t i = 0; i < k; ++i)
        sum += vx[m * k + i] * vw[j * k + i];
      want.push_back(sum);
      scale = std::max(scale, std::fabs(sum));
    }
  double unit = activation == "f32" ? 0 : 0x1p-8;
  expectNear(run.get(bias ? 3 : 2), want, 1e-5 * scale, 1e-5 + unit,
             target + " " + weight + " " + std::to_string(b * t) + "x" +
                 std::to_string(n) + "x" + std::to_string(k));
}

} // namespace

TEST(LinearKernel, PlainWeights) {
  for (const std::string &target : runnableTargets())
    for (std::string weight : {"f32", "bf16", "f16"})
      for (int64_t t : {1, 2, 3, 17})
        for (auto [n, k] : {std::pair<int64_t, int64_t>{1, 1},
                            {5, 17},
                            {4, 7},
                            {32, 64},
                            {9, 172}})
          checkLinear(target, 1, t, n, k, weight, "f32", t == 3);
}

TEST(LinearKernel, QuantisedWeights) {
  for (const std::string &target : runnableTargets())
    for (std::string weight : {"q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q6_k"})
      for (int64_t t : {1, 4, 9})
        for (int64_t n : {3, 16})
          checkLinear(target, 1, t, n, weight == "q6_k" ? 512 : 288, weight,
                      "f32", t == 4);
}

TEST(LinearKernel, HalfPrecisionActivations) {
  for (const std::string &target : runnableTargets()) {
    checkLinear(target, 2, 3, 9, 65, "bf16", "bf16", true);
    checkLinear(target, 1, 1, 9, 64, "q8_0", "bf16", false);
  }
}

// Heads are split and merged around a product without a copy.
TEST(LinearKernel, Views) {
  std::string h = tensor({1, 2, 3, 8}, "f32"), x = tensor({1, 2, 24}, "f32");
  std::string w = tensor({6, 24}, "f32"), y = tensor({1, 2, 6}, "f32");
  std::string z = tensor({1, 2, 2, 3}, "f32");
  KernelRun run(kernel({h, w},
                       "%m = heddle.merge_heads %0 : " + h + " -> " + x +
                           "\n%r = heddle.linear %m, %1 : (" + x + ", " + w +
                           ") -> " + y + "\n%s = heddle.split_heads %r : " + y +
                           " -> " + z + "\n return %s : " + z,
                       {z}),
                "x86-64-v3");
  Numbers vx = run.setRandom(0), vw = run.setRandom(1), want;
  run.run();
  for (int64_t m = 0; m < 2; ++m)
    for (int64_t j = 0; j < 6; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < 24; ++i)
        sum += vx[m * 24 + i] * vw[j * 24 + i];
      want.push_back(sum);
    }
  expectNear(run.get(2), want, 1e-5, 1e-5, "views");
}
