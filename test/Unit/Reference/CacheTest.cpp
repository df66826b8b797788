//===- CacheTest.cpp - The key/value cache pool ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

using namespace heddle_test;

namespace {

class CacheTest : public ReferenceTest {};

TEST_F(CacheTest, SlotsFollowTheBlockTable) {
  const char *text = R"(
    func.func @f(%p: tensor<2x3xi32>, %b: tensor<2x2xi32>) -> tensor<2x3xi32> {
      %0 = heddle.cache_slots %p, %b size 3 : (tensor<2x3xi32>, tensor<2x2xi32>) -> tensor<2x3xi32>
      return %0 : tensor<2x3xi32>
    })";
  Tensor positions = tensor({2, 3}, {0, 2, 5, 3, 1, -1});
  Tensor blocks = tensor({2, 2}, {4, 1, 2, -1});
  EXPECT_CLOSE(evaluate(text, {positions, blocks})[0],
               tensor({2, 3}, {12, 14, 5, -1, 7, -1}), 0);
  positions.at(0, 0) = 6;
  EXPECT_EQ(failure(text, {positions, blocks}),
            "error: 'heddle.cache_slots' op expected a position in one of 2 "
            "blocks of 3, got 6\n");
}

TEST_F(CacheTest, AppendWritesTokensAndLeavesTheRest) {
  const char *text = R"(
    func.func @f(%c: tensor<3x2x1x5xf32>, %v: tensor<2x2x1x5xf32>, %s: tensor<2x2xi32>) -> tensor<3x2x1x5xf32> {
      %0 = heddle.cache_append %c, %v at %s : (tensor<3x2x1x5xf32>, tensor<2x2x1x5xf32>, tensor<2x2xi32>) -> tensor<3x2x1x5xf32>
      return %0 : tensor<3x2x1x5xf32>
    })";
  Tensor pool = randomTensor({3, 2, 1, 5}, 1),
         values = randomTensor({2, 2, 1, 5}, 2);
  Tensor slots = tensor({2, 2}, {5, 0, -1, 3});
  Tensor want = pool;
  for (int e = 0; e < 5; ++e) {
    want.at(2, 1, 0, e) = values.at(0, 0, 0, e);
    want.at(0, 0, 0, e) = values.at(0, 1, 0, e);
    want.at(1, 1, 0, e) = values.at(1, 1, 0, e);
  }
  EXPECT_CLOSE(evaluate(text, {pool, values, slots})[0], want, 0);
  slots.at(1, 0) = 6;
  EXPECT_EQ(failure(text, {pool, values, slots}),
            "error: 'heddle.cache_append' op expected slot below 6, got 6\n");
}

TEST_F(CacheTest, PositionsAreCachedLikeValues) {
  Tensor got = evaluate(R"(
    func.func @f(%c: tensor<2x2xi32>, %p: tensor<1x2xi32>, %s: tensor<1x2xi32>) -> tensor<2x2xi32> {
      %0 = heddle.cache_append %c, %p at %s : (tensor<2x2xi32>, tensor<1x2xi32>, tensor<1x2xi32>) -> tensor<2x2xi32>
      return %0 : tensor<2x2xi32>
    })",
                        {tensor({2, 2}, {-1, -1, -1, -1}),
                         tensor({1, 2}, {7, 8}), tensor({1, 2}, {3, 1})})[0];
  EXPECT_CLOSE(got, tensor({2, 2}, {-1, 8, -1, 7}), 0);
}

} // namespace
