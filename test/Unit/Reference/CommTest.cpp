//===- CommTest.cpp - Collectives and local ops on simulated ranks --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include <cmath>

using namespace heddle_test;
using namespace mlir;
using namespace mlir::heddle;

namespace {

class CommTest : public ReferenceTest {
protected:
  /// Results of a local function whose body is one op with operand %x and
  /// result %r, one rank's argument each.
  std::vector<Tensor> runOp(StringRef mesh, StringRef op, StringRef from,
                            StringRef to, ArrayRef<Tensor> arguments) {
    std::vector<std::vector<Tensor>> perRank;
    for (const Tensor &argument : arguments)
      perRank.push_back({argument});
    std::vector<Tensor> results;
    for (std::vector<Tensor> &rank :
         evaluateRanks(program(mesh, op, from, to), perRank))
      results.push_back(std::move(rank[0]));
    return results;
  }
  static std::string program(StringRef mesh, StringRef op, StringRef from,
                             StringRef to) {
    return ("heddle.mesh @m " + mesh + "\nfunc.func @f(%x: " + from + ") -> " +
            to + " attributes {heddle.local, heddle.mesh = @m} {\n%r = " + op +
            " : " + from + " -> " + to + "\nreturn %r : " + to + "\n}")
        .str();
  }
  FailureOr<std::vector<std::vector<int64_t>>>
  groups(StringRef meshText, ArrayRef<AxisRefAttr> axes) {
    parse(("heddle.mesh @m " + meshText + "\nfunc.func private @f()").str());
    return reference::getGroups(mesh(), axes,
                                [&] { return mesh().emitOpError(); });
  }
  AxisRefAttr axis(StringRef name) { return AxisRefAttr::get(&context, name); }
  AxisRefAttr axis(StringRef name, int64_t pre, int64_t size) {
    return AxisRefAttr::get(&context, name, pre, size);
  }
};

using Groups = std::vector<std::vector<int64_t>>;

TEST_F(CommTest, GroupsFollowTheAxesAsListed) {
  const char *mesh = R"(["dp" = 2, "tp" = 6])";
  EXPECT_EQ(*groups(mesh, axis("dp")),
            (Groups{{0, 6}, {1, 7}, {2, 8}, {3, 9}, {4, 10}, {5, 11}}));
  EXPECT_EQ(*groups(mesh, {axis("dp"), axis("tp")}),
            (Groups{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}));
  // tp is the major axis here.
  EXPECT_EQ(*groups(mesh, {axis("tp"), axis("dp")}),
            (Groups{{0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11}}));
  EXPECT_EQ(*groups(mesh, axis("tp", 1, 2)),
            (Groups{{0, 3}, {1, 4}, {2, 5}, {6, 9}, {7, 10}, {8, 11}}));
  EXPECT_EQ(*groups(mesh, axis("tp", 2, 3)),
            (Groups{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10, 11}}));
  EXPECT_EQ(*groups(mesh, {axis("tp", 2, 3), axis("dp")}),
            (Groups{{0, 6, 1, 7, 2, 8}, {3, 9, 4, 10, 5, 11}}));
  EXPECT_EQ(groups(mesh, {})->size(), 12u);
  EXPECT_TRUE(failed(groups(mesh, {axis("tp"), axis("tp", 1, 2)})));
  EXPECT_NE(diagnostics.find("expected axes that do not overlap"),
            std::string::npos);
  EXPECT_TRUE(failed(groups(mesh, axis("ep"))));
}

TEST_F(CommTest, AllReduceAddsInAscendingCoordinate) {
  // 1 - 1e17 + 1e17 + …: any other order gives another sum.
  std::vector<double> terms = {1, 1e17, -1e17, 3, -2, 0.5};
  std::vector<Tensor> arguments;
  for (double t : terms)
    arguments.push_back(scalarStack({t, -t}));
  double sum =
      ((((terms[0] + terms[1]) + terms[2]) + terms[3]) + terms[4]) + terms[5];
  for (const Tensor &r : runOp(
           R"(["tp" = 6])",
           R"(comm.all_reduce sum %x group [#heddle.axis<tp>] because "test")",
           "tensor<2xf32>", "tensor<2xf32>", arguments))
    EXPECT_CLOSE(r, scalarStack({sum, -sum}), 0);
  for (const Tensor &r : runOp(
           R"(["tp" = 6])",
           R"(comm.all_reduce max %x group [#heddle.axis<tp>] because "test")",
           "tensor<2xf32>", "tensor<2xf32>", arguments))
    EXPECT_CLOSE(r, scalarStack({1e17, 1e17}), 0);
  // Padding's NaN is not lost in a maximum.
  arguments[2].at(0) = kNaN;
  EXPECT_TRUE(std::isnan(
      runOp(R"(["tp" = 6])",
            R"(comm.all_reduce max %x group [#heddle.axis<tp>] because "test")",
            "tensor<2xf32>", "tensor<2xf32>", arguments)[0]
          .at(0)));
}

TEST_F(CommTest, AllReduceOverAPartOfAnAxis) {
  std::vector<Tensor> arguments, got;
  for (int rank = 0; rank < 6; ++rank)
    arguments.push_back(scalarStack({std::pow(10.0, rank)}));
  got = runOp(
      R"(["tp" = 6])",
      R"(comm.all_reduce sum %x group [#heddle.axis<tp:(1)2>] because "test")",
      "tensor<1xf32>", "tensor<1xf32>", arguments);
  for (int rank = 0; rank < 6; ++rank)
    EXPECT_EQ(got[rank].at(0), std::pow(10.0, rank % 3) * 1001);
}

TEST_F(CommTest, ReduceScatterKeepsTheOwnChunk) {
  std::vector<Tensor> arguments;
  for (int rank = 0; rank < 3; ++rank)
    arguments.push_back(randomTensor({2, 6, 2}, rank));
  std::vector<Tensor> got = runOp(
      R"(["tp" = 3])",
      R"(comm.reduce_scatter sum %x dim 1 group [#heddle.axis<tp>] because "test")",
      "tensor<2x6x2xf32>", "tensor<2x2x2xf32>", arguments);
  for (int rank = 0; rank < 3; ++rank)
    for (int a = 0; a < 2; ++a)
      for (int b = 0; b < 2; ++b)
        for (int c = 0; c < 2; ++c)
          EXPECT_EQ(got[rank].at(a, b, c),
                    arguments[0].at(a, 2 * rank + b, c) +
                        arguments[1].at(a, 2 * rank + b, c) +
                        arguments[2].at(a, 2 * rank + b, c));
}

TEST_F(CommTest, AllGatherJoinsChunksInOrder) {
  std::vector<Tensor> arguments;
  for (int rank = 0; rank < 4; ++rank)
    arguments.push_back(randomTensor({2, 3}, rank));
  // The group of rank r over dp: r mod 2, then r mod 2 + 2.
  std::vector<Tensor> got = runOp(
      R"(["dp" = 2, "tp" = 2])",
      R"(comm.all_gather %x dim 1 group [#heddle.axis<dp>] because "test")",
      "tensor<2x3xf32>", "tensor<2x6xf32>", arguments);
  for (int rank = 0; rank < 4; ++rank)
    for (int a = 0; a < 2; ++a)
      for (int b = 0; b < 6; ++b)
        EXPECT_EQ(got[rank].at(a, b),
                  arguments[rank % 2 + b / 3 * 2].at(a, b % 3));
}

TEST_F(CommTest, AllToAllSplitsOneDimensionAndJoinsAnother) {
  std::vector<Tensor> arguments;
  for (int rank = 0; rank < 3; ++rank)
    arguments.push_back(randomTensor({2, 6, 5}, rank));
  std::vector<Tensor> got = runOp(
      R"(["cp" = 3])",
      R"(comm.all_to_all %x split 1 concat 0 group [#heddle.axis<cp>] because "test")",
      "tensor<2x6x5xf32>", "tensor<6x2x5xf32>", arguments);
  for (int rank = 0; rank < 3; ++rank)
    for (int a = 0; a < 6; ++a)
      for (int b = 0; b < 2; ++b)
        for (int c = 0; c < 5; ++c)
          EXPECT_EQ(got[rank].at(a, b, c),
                    arguments[a / 2].at(a % 2, 2 * rank + b, c));
}

TEST_F(CommTest, AllToAllOfChunks) {
  std::vector<Tensor> arguments;
  for (int rank = 0; rank < 3; ++rank)
    arguments.push_back(randomTensor({6, 5}, rank));
  std::vector<Tensor> got = runOp(
      R"(["cp" = 3])",
      R"(comm.all_to_all %x split 0 concat 0 group [#heddle.axis<cp>] because "test")",
      "tensor<6x5xf32>", "tensor<6x5xf32>", arguments);
  for (int rank = 0; rank < 3; ++rank)
    for (int a = 0; a < 6; ++a)
      for (int b = 0; b < 5; ++b)
        EXPECT_EQ(got[rank].at(a, b), arguments[a / 2].at(2 * rank + a % 2, b));
}

TEST_F(CommTest, PermuteSendsFurther) {
  std::vector<Tensor> arguments;
  for (int rank = 0; rank < 5; ++rank)
    arguments.push_back(scalarStack({1.0 * rank}));
  for (int shift : {1, 3, -1, -7}) {
    std::vector<Tensor> got =
        runOp(R"(["cp" = 5])",
              "comm.permute %x shift " + std::to_string(shift) +
                  R"( group [#heddle.axis<cp>] because "test")",
              "tensor<1xf32>", "tensor<1xf32>", arguments);
    for (int rank = 0; rank < 5; ++rank)
      EXPECT_EQ(got[rank].at(0), ((rank - shift) % 5 + 5) % 5)
          << "shift " << shift;
  }
}

TEST_F(CommTest, ChunksThatDoNotFitTheGroupAreErrors) {
  std::vector<std::vector<Tensor>> arguments(3, {Tensor::filled({4}, 0)});
  EXPECT_EQ(
      rankFailure(
          program(
              R"(["tp" = 3])",
              R"(comm.reduce_scatter sum %x dim 0 group [#heddle.axis<tp>] because "test")",
              "tensor<4xf32>", "tensor<2xf32>"),
          arguments),
      "error: 'comm.reduce_scatter' op expected 3 chunks, one per rank of the "
      "group, got an extent of 4 for chunks of 2\n");
  EXPECT_NE(
      rankFailure(
          program(
              R"(["tp" = 3])",
              R"(comm.all_reduce sum %x group [#heddle.axis<ep>] because "test")",
              "tensor<4xf32>", "tensor<4xf32>"),
          arguments)
          .find("expected an axis of mesh @m, got 'ep'"),
      std::string::npos);
  EXPECT_EQ(failure(R"(
    func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %r = comm.all_reduce sum %x group [#heddle.axis<tp>] because "test" : tensor<4xf32> -> tensor<4xf32>
      return %r : tensor<4xf32>
    })",
                    arguments[0]),
            "error: 'comm.all_reduce' op expected to be in a function marked "
            "'heddle.local'\n");
  EXPECT_EQ(
      rankFailure(
          program(
              R"(["tp" = 2])",
              R"(comm.all_reduce sum %x group [#heddle.axis<tp>] because "test")",
              "tensor<4xf32>", "tensor<4xf32>"),
          arguments),
      "error: 'func.func' op expected arguments for 2 ranks, got 3\n");
}

//===----------------------------------------------------------------------===//
// Ops that partition introduces
//===----------------------------------------------------------------------===//

TEST_F(CommTest, LocalIndexFindsTheSlot) {
  // Units of 3: rank 0 holds units 0 and 2, rank 1 units 1 and none.
  Tensor ids = scalarStack({0, 2, 3, 5, 6, 8, 9, -1});
  std::vector<Tensor> got =
      runOp(R"(["tp" = 2])",
            "heddle.local_index %x units <{tp}, [[0, 2], [1, -1]]> of 3",
            "tensor<8xi32>", "tensor<8xi32>", {ids, ids});
  EXPECT_CLOSE(got[0], scalarStack({0, 2, -1, -1, 3, 5, -1, -1}), 0);
  EXPECT_CLOSE(got[1], scalarStack({-1, -1, 0, 2, -1, -1, -1, -1}), 0);
}

// Blocks of 5 over two ranks of 3: places 0 to 2, and 3 and 4 and padding.
TEST_F(CommTest, LocalIndexWithinABlock) {
  Tensor ids = scalarStack({0, 2, 3, 4, 5, 8, 14, -1});
  std::vector<Tensor> got =
      runOp(R"(["cp" = 2])",
            "heddle.local_index %x units <{cp}, [[0], [1]]> of 3 within 5",
            "tensor<8xi32>", "tensor<8xi32>", {ids, ids});
  EXPECT_CLOSE(got[0], scalarStack({0, 2, -1, -1, 3, -1, -1, -1}), 0);
  EXPECT_CLOSE(got[1], scalarStack({-1, -1, 0, 1, -1, 3, 7, -1}), 0);
  // How many of the first 0, 2, 3, … elements a rank has.
  got = runOp(R"(["cp" = 2])",
              "heddle.local_index %x units <{cp}, [[0], [1]]> of 3 within 5 "
              "count",
              "tensor<8xi32>", "tensor<8xi32>", {ids, ids});
  EXPECT_CLOSE(got[0], scalarStack({0, 2, 3, 3, 3, 6, 9, -1}), 0);
  EXPECT_CLOSE(got[1], scalarStack({0, 0, 0, 1, 3, 3, 7, -1}), 0);
}

TEST_F(CommTest, MaskPadReplacesWhateverPaddingHolds) {
  // 7 elements in units of 2, on 2 ranks of 3 slots.
  Tensor x = randomTensor({2, 6, 2}, 1);
  for (int a = 0; a < 2; ++a)
    for (int c = 0; c < 2; ++c)
      x.at(a, 1, c) = x.at(a, 4, c) = x.at(a, 5, c) = kNaN;
  std::vector<Tensor> got =
      runOp(R"(["tp" = 2])",
            "heddle.mask_pad %x dim 1 units <{tp}, [[3, 0, -1], [3, 1, -1]]> "
            "of 2 size 7 identity 5.0",
            "tensor<2x6x2xf32>", "tensor<2x6x2xf32>", {x, x});
  for (const Tensor &r : got)
    for (int a = 0; a < 2; ++a)
      for (int b = 0; b < 6; ++b)
        for (int c = 0; c < 2; ++c)
          EXPECT_EQ(r.at(a, b, c), b == 1 || b >= 4 ? 5 : x.at(a, b, c));
}

TEST_F(CommTest, TakeUnitsPicksAndPads) {
  // 5 columns in units of 2; the last one is short.
  Tensor x = randomTensor({2, 5, 2}, 1);
  std::vector<Tensor> got = runOp(
      R"(["tp" = 3])",
      "heddle.take_units %x dim 1 slots <{tp}, [[1, 0], [2, 2], [-1, 0]]> of 2",
      "tensor<2x5x2xf32>", "tensor<2x3x2xf32>", {x, x, x});
  int columns[3][3] = {{2, 3, 0}, {4, -1, 4}, {-1, -1, 0}};
  for (int rank = 0; rank < 3; ++rank)
    for (int a = 0; a < 2; ++a)
      for (int b = 0; b < 3; ++b)
        for (int c = 0; c < 2; ++c)
          EXPECT_EQ(got[rank].at(a, b, c),
                    columns[rank][b] < 0 ? 0 : x.at(a, columns[rank][b], c));
}

TEST_F(CommTest, ChunksAreSplitAndJoined) {
  Tensor x = randomTensor({2, 6, 5}, 1);
  std::vector<Tensor> apart =
      runOp(R"(["tp" = 1])", "heddle.split_chunks %x dim 1",
            "tensor<2x6x5xf32>", "tensor<3x2x2x5xf32>", {x});
  for (int i = 0; i < 3; ++i)
    for (int a = 0; a < 2; ++a)
      for (int b = 0; b < 2; ++b)
        for (int c = 0; c < 5; ++c)
          EXPECT_EQ(apart[0].at(i, a, b, c), x.at(a, 2 * i + b, c));
  EXPECT_CLOSE(runOp(R"(["tp" = 1])", "heddle.join_chunks %x dim 1",
                     "tensor<3x2x2x5xf32>", "tensor<2x6x5xf32>", apart)[0],
               x, 0);
}

TEST_F(CommTest, TablesMustHaveARowPerCoordinate) {
  EXPECT_EQ(
      rankFailure(program(R"(["tp" = 2])",
                          "heddle.local_index %x units <{tp}, [[0]]> of 3",
                          "tensor<1xi32>", "tensor<1xi32>"),
                  std::vector<std::vector<Tensor>>(2, {scalarStack({0})})),
      "error: 'heddle.local_index' op on rank 0: expected a rank table of "
      "2 rows, got 1\n");
}

} // namespace
