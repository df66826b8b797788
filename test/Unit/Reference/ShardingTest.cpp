//===- ShardingTest.cpp - Global tensors to ranks and back ----------------===//
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
using reference::shard;
using reference::unshard;

namespace {

class ShardingTest : public ReferenceTest {
protected:
  /// The sharded type of the only argument of @f in a module with this mesh.
  RankedTensorType parseType(StringRef mesh, StringRef type) {
    func::FuncOp f = parse(
        ("heddle.mesh @m " + mesh + "\nfunc.func private @f(" + type + ")")
            .str());
    return cast<RankedTensorType>(f.getArgumentTypes()[0]);
  }

  std::vector<Tensor> parts(const Tensor &global, RankedTensorType type,
                            double pad) {
    std::vector<Tensor> result;
    for (int64_t rank = 0; rank < mesh().getWorldSize(); ++rank) {
      FailureOr<Tensor> part = shard(global, type, mesh(), rank, pad);
      EXPECT_TRUE(succeeded(part)) << diagnostics;
      result.push_back(std::move(*part));
    }
    return result;
  }

  FailureOr<Tensor> join(ArrayRef<Tensor> parts, RankedTensorType type,
                         double tolerance = 0) {
    return unshard(parts, type, mesh(), tolerance, module->getLoc());
  }
};

/// 0, 1, 2, …
Tensor iota(ArrayRef<int64_t> shape) {
  Tensor result = Tensor::filled(shape, 0);
  for (int64_t i = 0; i < result.size(); ++i)
    result.data[i] = static_cast<double>(i);
  return result;
}

struct Dealt {
  const char *dim;
  int64_t size;
  /// By rank, -1 for padding.
  std::vector<std::vector<double>> parts;
};

TEST_F(ShardingTest, MapsDealElementsAsDocumented) {
  const Dealt cases[] = {
      {"{}", 3, {{0, 1, 2}, {0, 1, 2}, {0, 1, 2}}},
      {"{tp}", 7, {{0, 1, 2}, {3, 4, 5}, {6, -1, -1}}},
      // Units of 2: [0 1] [2 3] [4 5] [6]; the last one is short.
      {"{tp, unit = 2}", 7, {{0, 1, 2, 3}, {4, 5, 6, -1}, {-1, -1, -1, -1}}},
      {"{tp, map = balanced}", 4, {{0, 1}, {2, -1}, {3, -1}}},
      {"{tp, unit = 2, map = balanced}",
       7,
       {{0, 1, 2, 3}, {4, 5, -1, -1}, {6, -1, -1, -1}}},
      {"{tp, map = cyclic(2)}",
       9,
       {{0, 1, 6, 7}, {2, 3, 8, -1}, {4, 5, -1, -1}}},
      {"{tp, map = zigzag}", 11, {{0, 1, 10, -1}, {2, 3, 8, 9}, {4, 5, 6, 7}}},
      {"{tp, unit = 2, map = table @t}",
       5,
       {{4, -1, 0, 1}, {0, 1, 2, 3}, {2, 3, -1, -1}}}};
  for (const Dealt &c : cases) {
    SCOPED_TRACE(c.dim);
    RankedTensorType type = parseType(
        R"(["tp" = 3]
        heddle.table @t [[2, 0], [0, 1], [1, -1]])",
        "tensor<" + std::to_string(c.size) + "xf32, #heddle.sharding<@m, [" +
            c.dim + "]>>");
    Tensor global = iota({c.size});
    std::vector<Tensor> got = parts(global, type, -1);
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_CLOSE(got[rank], scalarStack(c.parts[rank]), 0) << "rank " << rank;
    // Whatever padding holds does not come back.
    FailureOr<Tensor> back = join(parts(global, type, kNaN), type);
    ASSERT_TRUE(succeeded(back)) << diagnostics;
    EXPECT_CLOSE(*back, global, 0);
  }
}

// Cases F2 and A7: zigzag positions rank by rank, and shards of 52 x 16 over 3,
// 5 and 7 ranks, cut in either dimension, which hold every element once.
TEST_F(ShardingTest, ZigzagPositionsOfFourRanks) {
  RankedTensorType type =
      parseType(R"(["cp" = 4])",
                "tensor<16xi32, #heddle.sharding<@m, [{cp, map = zigzag}]>>");
  std::vector<Tensor> got = parts(iota({16}), type, -1);
  const std::vector<double> want[] = {
      {0, 1, 14, 15}, {2, 3, 12, 13}, {4, 5, 10, 11}, {6, 7, 8, 9}};
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_CLOSE(got[rank], scalarStack(want[rank]), 0) << "rank " << rank;
}

TEST_F(ShardingTest, UnevenShardsHoldEveryElementOnce) {
  for (int64_t tp : {3, 5, 7})
    for (const char *dims : {"{tp}, {}", "{}, {tp}"}) {
      SCOPED_TRACE(testing::Message() << tp << " ranks, " << dims);
      RankedTensorType type =
          parseType("[\"tp\" = " + std::to_string(tp) + "]",
                    std::string("tensor<52x16xf32, #heddle.sharding<@m, [") +
                        dims + "]>>");
      Tensor global = iota({52, 16});
      std::vector<Tensor> ranks = parts(global, type, -1);
      std::vector<int> seen(52 * 16);
      for (const Tensor &part : ranks)
        for (double value : part.data)
          if (value >= 0)
            ++seen[static_cast<size_t>(value)];
      EXPECT_EQ(seen, std::vector<int>(52 * 16, 1));
      FailureOr<Tensor> back = join(ranks, type);
      ASSERT_TRUE(succeeded(back)) << diagnostics;
      EXPECT_CLOSE(*back, global, 0);
    }
}

TEST_F(ShardingTest, SubAxesAndTwoDimensions) {
  // Rank = dp * 4 + tp, tp = 2 * (major) + minor.
  RankedTensorType type = parseType(
      R"(["dp" = 2, "tp" = 4])",
      "tensor<3x5xf32, #heddle.sharding<@m, [{tp:(1)2}, {tp:(2)2, dp}]>>");
  Tensor global = randomTensor({3, 5}, 1);
  std::vector<Tensor> got = parts(global, type, kNaN);
  for (int64_t rank = 0; rank < 8; ++rank) {
    ASSERT_EQ(got[rank].shape, (std::vector<int64_t>{2, 2}));
    int64_t dp = rank / 4, tp = rank % 4;
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 2; ++j) {
        int64_t row = tp / 2 * 2 + i, column = (tp % 2 * 2 + dp) * 2 + j;
        double want = row < 3 && column < 5 ? global.at(row, column) : kNaN;
        EXPECT_CLOSE(scalarStack({got[rank].at(i, j)}), scalarStack({want}), 0);
      }
  }
  FailureOr<Tensor> back = join(got, type);
  ASSERT_TRUE(succeeded(back)) << diagnostics;
  EXPECT_CLOSE(*back, global, 0);
}

TEST_F(ShardingTest, PendingReductionsAreDoneOverTheirAxes) {
  Tensor global = randomTensor({3}, 1);
  RankedTensorType sum = parseType(
      R"(["dp" = 2, "tp" = 3])",
      "tensor<3xf32, #heddle.sharding<@m, [{dp}], partial = sum{tp}>>");
  std::vector<Tensor> terms = parts(global, sum, kNaN);
  EXPECT_CLOSE(terms[0], scalarStack({global.at(0), global.at(1)}), 0);
  EXPECT_CLOSE(terms[1], scalarStack({0, 0}), 0);
  EXPECT_CLOSE(terms[3], scalarStack({global.at(2), kNaN}), 0);
  EXPECT_CLOSE(*join(terms, sum), global, 0);
  for (int rank = 0; rank < 6; ++rank)
    terms[rank] = scalarStack({rank + 1.0, rank * 10.0});
  EXPECT_CLOSE(*join(terms, sum), scalarStack({6, 30, 15}), 0);

  RankedTensorType max =
      parseType(R"(["tp" = 3])",
                "tensor<2xf32, #heddle.sharding<@m, [{}], partial = max{tp}>>");
  std::vector<Tensor> maxima = parts(scalarStack({-4, 7}), max, kNaN);
  EXPECT_CLOSE(maxima[1], scalarStack({-kInf, -kInf}), 0);
  EXPECT_CLOSE(*join(maxima, max), scalarStack({-4, 7}), 0);
}

TEST_F(ShardingTest, ReplicasThatDisagreeAreNamed) {
  RankedTensorType type =
      parseType(R"(["dp" = 2, "tp" = 2])",
                "tensor<2x6xf32, #heddle.sharding<@m, [{}, {tp, unit = 3}]>>");
  std::vector<Tensor> ranks = parts(iota({2, 6}), type, 0);
  ranks[3].at(1, 2) += 0.5; // rank 3 is dp 1, tp 1: element [1, 5]
  EXPECT_TRUE(failed(join(ranks, type, 0.25)));
  EXPECT_EQ(std::exchange(diagnostics, ""),
            "error: expected replicas of tensor to agree, got 11 on rank 1 and "
            "11.5 on rank 3 at [1, 5], unit [0, 1]\n");
  FailureOr<Tensor> joined = join(ranks, type, 0.5);
  ASSERT_TRUE(succeeded(joined)) << diagnostics;
  EXPECT_EQ(joined->at(1, 5), 11); // the first owner's
  ranks[3].at(1, 2) = kNaN;
  EXPECT_TRUE(failed(join(ranks, type, 0.5)));
}

TEST_F(ShardingTest, RefusesPartsThatDoNotFit) {
  RankedTensorType type =
      parseType(R"(["tp" = 2])", "tensor<3xf32, #heddle.sharding<@m, [{tp}]>>");
  EXPECT_TRUE(failed(join({scalarStack({1, 2})}, type)));
  EXPECT_EQ(std::exchange(diagnostics, ""),
            "error: expected parts of tensor from 2 ranks, got 1\n");
  EXPECT_TRUE(failed(join({scalarStack({1, 2}), scalarStack({1})}, type)));
  EXPECT_EQ(std::exchange(diagnostics, ""),
            "error: expected a part of tensor of shape 2 on rank 1, got 1\n");
  EXPECT_TRUE(failed(shard(iota({4}), type, mesh(), 0, 0)));
  EXPECT_NE(diagnostics.find("got another shape"), std::string::npos);
}

} // namespace
