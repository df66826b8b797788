//===- RepeatTest.cpp - The layer stack, iteration by iteration -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

using namespace heddle_test;
using namespace mlir;
using namespace mlir::heddle;

namespace {

class RepeatTest : public ReferenceTest {};

/// Kind 0: swaps the carries, multiplies one by w0[ord], writes it into k0[ord]
/// and emits it. Kind 1: adds w1[ord] and the captured %x, writes into both of
/// its pools, emits two values.
const char *kTwoKinds = R"(
  func.func @f(%x: tensor<1x2x3xf32>, %y: tensor<1x2x3xf32>, %s: tensor<1x2xi32>, %w0: tensor<3x3x3xf32>, %w1: tensor<2x3xf32>,
               %k0: tensor<3x2x2x3xf32>, %k1: tensor<2x2x2x3xf32>, %l1: tensor<2x1x2x3xf32>)
      -> (tensor<1x2x3xf32>, tensor<1x2x3xf32>, tensor<2x2x2x3xf32>, tensor<3x2x2x3xf32>, tensor<2x1x2x3xf32>,
          tensor<3x1x2x3xf32>, tensor<2x1x2x3xf32>, tensor<2x1x2x3xf32>) {
    %r:8 = heddle.repeat order [0, 1, 0, 0, 1] $reverse carry(%x : tensor<1x2x3xf32>, %y : tensor<1x2x3xf32>)
        params(%w1 in 1 : tensor<2x3xf32>, %w0 in 0 : tensor<3x3x3xf32>)
        inout(%k1 in 1 : tensor<2x2x2x3xf32>, %k0 in 0 : tensor<3x2x2x3xf32>, %l1 in 1 : tensor<2x1x2x3xf32>)
        emits(tensor<3x1x2x3xf32>, tensor<2x1x2x3xf32>, tensor<2x1x2x3xf32>) {
      kind 0 (%a: tensor<1x2x3xf32>, %b: tensor<1x2x3xf32>, %w: tensor<3x3xf32>, %k: tensor<2x2x3xf32>) {
        %c = heddle.linear %a, %w : (tensor<1x2x3xf32>, tensor<3x3xf32>) -> tensor<1x2x3xf32>
        %k2 = heddle.cache_append %k, %c at %s : (tensor<2x2x3xf32>, tensor<1x2x3xf32>, tensor<1x2xi32>) -> tensor<2x2x3xf32>
        heddle.yield carry(%b, %c : tensor<1x2x3xf32>, tensor<1x2x3xf32>) inout(%k2 : tensor<2x2x3xf32>) emit(%c : tensor<1x2x3xf32>)
      }
      kind 1 (%a: tensor<1x2x3xf32>, %b: tensor<1x2x3xf32>, %w: tensor<3xf32>, %k: tensor<2x2x3xf32>, %l: tensor<1x2x3xf32>) {
        %c = heddle.bias_add %a, %w : (tensor<1x2x3xf32>, tensor<3xf32>) -> tensor<1x2x3xf32>
        %d = heddle.add %c, %x : (tensor<1x2x3xf32>, tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
        %k2 = heddle.cache_append %k, %d at %s : (tensor<2x2x3xf32>, tensor<1x2x3xf32>, tensor<1x2xi32>) -> tensor<2x2x3xf32>
        %l2 = heddle.add %l, %d : (tensor<1x2x3xf32>, tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
        heddle.yield carry(%d, %b : tensor<1x2x3xf32>, tensor<1x2x3xf32>) inout(%k2, %l2 : tensor<2x2x3xf32>, tensor<1x2x3xf32>)
          emit(%b, %d : tensor<1x2x3xf32>, tensor<1x2x3xf32>)
      }
    }
    return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5, %r#6, %r#7 : tensor<1x2x3xf32>, tensor<1x2x3xf32>, tensor<2x2x2x3xf32>, tensor<3x2x2x3xf32>, tensor<2x1x2x3xf32>,
          tensor<3x1x2x3xf32>, tensor<2x1x2x3xf32>, tensor<2x1x2x3xf32>
  })";

/// The same program written out: (kind, ordinal) for each step.
std::vector<Tensor> unrolled(std::vector<std::pair<int, int>> steps,
                             ArrayRef<Tensor> arguments) {
  const Tensor &x = arguments[0], &w0 = arguments[3], &w1 = arguments[4];
  Tensor a = x, b = arguments[1];
  Tensor k0 = arguments[5], k1 = arguments[6], l1 = arguments[7];
  Tensor e0 = Tensor::filled({3, 1, 2, 3}, 0),
         e1 = Tensor::filled({2, 1, 2, 3}, 0), e2 = e1;
  for (auto [kind, n] : steps) {
    Tensor c = Tensor::filled({1, 2, 3}, 0);
    for (int t = 0; t < 2; ++t) {
      int slot = static_cast<int>(arguments[2].at(0, t));
      for (int i = 0; i < 3; ++i) {
        if (kind == 0)
          for (int j = 0; j < 3; ++j)
            c.at(0, t, i) += a.at(0, t, j) * w0.at(n, i, j);
        else
          c.at(0, t, i) = a.at(0, t, i) + w1.at(n, i) + x.at(0, t, i);
        (kind == 0 ? k0 : k1).at(n, slot / 2, slot % 2, i) = c.at(0, t, i);
        if (kind == 0) {
          e0.at(n, 0, t, i) = c.at(0, t, i);
        } else {
          l1.at(n, 0, t, i) += c.at(0, t, i);
          e1.at(n, 0, t, i) = b.at(0, t, i);
          e2.at(n, 0, t, i) = c.at(0, t, i);
        }
      }
    }
    if (kind == 0) {
      a = b;
      b = c;
    } else {
      a = c;
    }
  }
  return {a, b, k1, k0, l1, e0, e1, e2};
}

TEST_F(RepeatTest, TwoKindsForwardsAndBackwards) {
  std::vector<Tensor> arguments = {
      randomTensor({1, 2, 3}, 1),    randomTensor({1, 2, 3}, 2),
      tensor({1, 2}, {3, 0}),        randomTensor({3, 3, 3}, 3),
      randomTensor({2, 3}, 4),       randomTensor({3, 2, 2, 3}, 5),
      randomTensor({2, 2, 2, 3}, 6), randomTensor({2, 1, 2, 3}, 7)};
  std::vector<std::pair<int, int>> steps = {
      {0, 0}, {1, 0}, {0, 1}, {0, 2}, {1, 1}};
  for (bool reverse : {false, true}) {
    SCOPED_TRACE(reverse);
    std::vector<Tensor> got =
        evaluate(substitute(kTwoKinds, {{"reverse", reverse ? "reverse" : ""}}),
                 arguments);
    if (reverse)
      std::reverse(steps.begin(), steps.end());
    std::vector<Tensor> want = unrolled(steps, arguments);
    for (size_t i = 0; i < want.size(); ++i) {
      SCOPED_TRACE("result " + std::to_string(i));
      EXPECT_CLOSE(got[i], want[i]);
    }
  }
}

TEST_F(RepeatTest, RunsOnRanksWithCollectivesInside) {
  // x <- sum over ranks of x w[ord], each rank with its own w.
  const char *text = R"(
    heddle.mesh @m ["tp" = 3]
    func.func @f(%x: tensor<1x1x2xf32>, %w: tensor<2x2x2xf32>) -> tensor<1x1x2xf32> attributes {heddle.local, heddle.mesh = @m} {
      %r = heddle.repeat order [0, 0] carry(%x : tensor<1x1x2xf32>) params(%w in 0 : tensor<2x2x2xf32>) {
        kind 0 (%a: tensor<1x1x2xf32>, %wi: tensor<2x2xf32>) {
          %b = heddle.linear %a, %wi : (tensor<1x1x2xf32>, tensor<2x2xf32>) -> tensor<1x1x2xf32>
          %c = comm.all_reduce sum %b group [#heddle.axis<tp>] because "test" : tensor<1x1x2xf32> -> tensor<1x1x2xf32>
          heddle.yield carry(%c : tensor<1x1x2xf32>)
        }
      }
      return %r : tensor<1x1x2xf32>
    })";
  Tensor x = randomTensor({1, 1, 2}, 1), want = x;
  std::vector<std::vector<Tensor>> arguments;
  for (int rank = 0; rank < 3; ++rank)
    arguments.push_back({x, randomTensor({2, 2, 2}, 10 + rank)});
  for (int step = 0; step < 2; ++step) {
    Tensor next = Tensor::filled({1, 1, 2}, 0);
    for (int rank = 0; rank < 3; ++rank)
      for (int n = 0; n < 2; ++n)
        for (int k = 0; k < 2; ++k)
          next.at(0, 0, n) +=
              arguments[rank][1].at(step, n, k) * want.at(0, 0, k);
    want = next;
  }
  for (const std::vector<Tensor> &results : evaluateRanks(text, arguments))
    EXPECT_CLOSE(results[0], want);
}

TEST_F(RepeatTest, HookSeesEveryIteration) {
  func::FuncOp f = parse(substitute(kTwoKinds, {{"reverse", ""}}));
  std::vector<std::string> seen;
  reference::ReferenceOptions options;
  options.afterOp = [&](Operation *op, int64_t rank,
                        ArrayRef<const Tensor *> operands,
                        MutableArrayRef<Tensor> results) {
    EXPECT_EQ(rank, 0);
    EXPECT_EQ(operands.size(), op->getNumOperands());
    EXPECT_EQ(results.size(), op->getNumResults());
    seen.push_back(op->getName().stripDialect().str());
  };
  std::vector<Tensor> arguments;
  for (Type type : f.getArgumentTypes())
    arguments.push_back(
        Tensor::filled(cast<RankedTensorType>(type).getShape(), 0));
  ASSERT_TRUE(succeeded(reference::evaluate(f, arguments, options)));
  std::vector<std::string> want;
  for (int kind : {0, 1, 0, 0, 1})
    for (const char *name :
         kind == 0 ? std::vector<const char *>{"linear", "cache_append"}
                   : std::vector<const char *>{"bias_add", "add",
                                               "cache_append", "add"})
      want.push_back(name);
  want.push_back("repeat");
  EXPECT_EQ(seen, want);
}

} // namespace
