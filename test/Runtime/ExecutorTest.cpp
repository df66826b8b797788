//===- ExecutorTest.cpp - Instructions, ranks and workers -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <thread>

using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

SessionOptions withWorkers(int workers, uint64_t seed = 0) {
  SessionOptions options;
  options.workers = workers;
  options.scheduleSeed = seed;
  return options;
}

/// Stores scalars in an i64 output "out", so that tests can look at them.
class Probe {
public:
  explicit Probe(Builder &builder, int64_t count)
      : builder_(builder), region_(builder.region(count * 8)) {
    builder.output("out", at(region_, 0, count * 8), fb::DType_i64,
                   {whole(count)});
  }
  void put(int64_t index, int32_t scalar) {
    fb::PutScalarT put;
    put.src = scalar;
    put.dtype = fb::DType_i64;
    put.destination = at(region_, index * 8, 8);
    builder_.emit(std::move(put));
  }

private:
  Builder &builder_;
  int32_t region_;
};

std::vector<int64_t> probed(TestSession &run) {
  Result<HostTensor> tensor = run->output("main", "out");
  EXPECT_TRUE(tensor.ok()) << tensor.status().message();
  std::vector<int64_t> values(tensor->bytes.size() / 8);
  std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
  return values;
}

/// Runs the program and returns what `Probe` stored.
std::vector<int64_t> runProbed(Builder &builder, int workers = 2) {
  TestSession run(builder.bundle(), withWorkers(workers));
  Status status = run->run("main");
  EXPECT_TRUE(status.ok()) << status.message();
  return probed(run);
}

std::string failureOf(Builder &builder, int workers = 2) {
  TestSession run(builder.bundle(), withWorkers(workers));
  Status status = run->run("main");
  EXPECT_FALSE(status.ok());
  return status.message();
}

// Division and remainder round towards minus infinity, everything else is
// plain two's complement.
TEST(Executor, ScalarArithmetic) {
  Builder b;
  Probe probe(b, 16);
  int32_t m7 = b.constant(-7), two = b.constant(2), five = b.constant(5);
  int32_t least = b.constant(std::numeric_limits<int64_t>::min());
  int32_t m1 = b.constant(-1);
  probe.put(0, b.arith(fb::ScalarOp_add, m7, two));
  probe.put(1, b.arith(fb::ScalarOp_sub, m7, two));
  probe.put(2, b.arith(fb::ScalarOp_mul, m7, two));
  probe.put(3, b.arith(fb::ScalarOp_floordiv, m7, two));
  probe.put(4, b.arith(fb::ScalarOp_mod, m7, two));
  probe.put(5, b.arith(fb::ScalarOp_min, m7, two));
  probe.put(6, b.arith(fb::ScalarOp_max, m7, two));
  probe.put(7, b.arith(fb::ScalarOp_lt, two, two));
  probe.put(8, b.arith(fb::ScalarOp_le, two, two));
  probe.put(9, b.arith(fb::ScalarOp_eq, two, five));
  probe.put(10, b.arith(fb::ScalarOp_ne, two, five));
  probe.put(11, b.arith(fb::ScalarOp_select, five, two, m7));
  probe.put(12, b.arith(fb::ScalarOp_floordiv, least, m1));
  probe.put(13, b.arith(fb::ScalarOp_mod, least, m1));
  probe.put(14, b.arith(fb::ScalarOp_add, least, m1));
  int32_t table = b.table(2, 3, {1, 2, 3, 4, 5, 6});
  int32_t one = b.constant(1), looked = b.scalar();
  b.set(looked, fb::ScalarOp_table, one, two, -1, table);
  probe.put(15, looked);
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(runProbed(b), (std::vector<int64_t>{
                              -5, -9, -14, -4, 1, -7, 2, 0, 1, 0, 1, 2, kLeast,
                              0, std::numeric_limits<int64_t>::max(), 6}));
}

// Nested loops, a loop without iterations, a while, if/else and case.
TEST(Executor, Control) {
  Builder b;
  Probe probe(b, 5);
  int32_t zero = b.constant(0), three = b.constant(3), four = b.constant(4);
  int32_t sum = b.scalar();
  int32_t i = b.beginFor(zero, three, 3);
  int32_t j = b.beginFor(i, four, 4);
  int32_t product = b.arith(fb::ScalarOp_mul, i, j);
  b.set(sum, fb::ScalarOp_add, sum, product);
  b.end();
  b.end();
  probe.put(0, sum); // sum over i < 3, i <= j < 4 of i * j

  int32_t untouched = b.scalar();
  b.beginFor(four, zero, 3);
  b.set(untouched, fb::ScalarOp_add, four, four);
  b.end();
  probe.put(1, untouched);

  int32_t count = b.scalar(), one = b.constant(1);
  int32_t go = b.constant(1);
  b.beginWhile(go, 10);
  b.set(count, fb::ScalarOp_add, count, one);
  b.set(go, fb::ScalarOp_lt, count, four);
  b.end();
  probe.put(2, count);

  int32_t chosen = b.scalar();
  b.beginIf(zero);
  b.set(chosen, fb::ScalarOp_add, one, zero);
  b.beginElse();
  b.set(chosen, fb::ScalarOp_add, four, zero);
  b.end();
  probe.put(3, chosen);

  int32_t taken = b.scalar(), hundred = b.constant(100);
  int32_t k = b.beginFor(zero, three, 3);
  b.beginCase(k);
  for (int64_t block = 0; block < 3; ++block) {
    b.beginBlock();
    int32_t digit = b.constant(block + 1);
    b.set(taken, fb::ScalarOp_mul, taken, hundred);
    b.set(taken, fb::ScalarOp_add, taken, digit);
  }
  b.end();
  b.end();
  probe.put(4, taken);
  int64_t expected = 0;
  for (int64_t x = 0; x < 3; ++x)
    for (int64_t y = x; y < 4; ++y)
      expected += x * y;
  EXPECT_EQ(runProbed(b), (std::vector<int64_t>{expected, 0, 4, 4, 10203}));
}

// What depends on values is refused while running, with the place.
TEST(Executor, RefusesValuesOutOfRange) {
  {
    Builder b;
    int32_t hi = b.param("n", 0, 100, 9), lo = b.constant(0);
    b.beginFor(lo, hi, 8);
    b.end();
    EXPECT_EQ(failureOf(b), "rank 0, program 'main', for: expected at most 8 "
                            "iterations, got 9");
  }
  {
    Builder b;
    int32_t go = b.constant(1);
    b.beginWhile(go, 3);
    b.end();
    EXPECT_EQ(failureOf(b), "rank 0, program 'main', while: expected at most "
                            "3 iterations");
  }
  {
    Builder b;
    int32_t selector = b.param("n", 0, 9, 2);
    b.beginCase(selector);
    b.beginBlock();
    b.beginBlock();
    b.end();
    EXPECT_EQ(failureOf(b), "rank 0, program 'main', case: expected a case "
                            "from 0 to 1, got 2");
  }
  {
    Builder b;
    int32_t table = b.table(1, 2, {7, 8});
    int32_t zero = b.constant(0), col = b.param("n", 0, 9, 2);
    b.set(b.scalar(), fb::ScalarOp_table, zero, col, -1, table);
    EXPECT_EQ(failureOf(b), "rank 0, program 'main', scalar: expected an index "
                            "into a table of 1 x 2, got 0, 2");
  }
  {
    Builder b;
    int32_t zero = b.constant(0);
    b.arith(fb::ScalarOp_floordiv, zero, zero);
    EXPECT_EQ(failureOf(b), "rank 0, program 'main', scalar: division by zero");
  }
}

// A check names rank, program, op and location, and its own message.
TEST(Executor, CheckStopsAllRanks) {
  Builder b({{"tp", 4}});
  int32_t region = b.region(64);
  int32_t c = b.coord(0), two = b.constant(2), one = b.constant(1);
  int32_t ok = b.arith(fb::ScalarOp_ne, c, two);
  fb::CheckT check;
  check.condition = ok;
  check.message = "expected another coordinate";
  fb::InstrT &instr = b.emit(std::move(check));
  instr.op = b.string("heddle.attention");
  instr.location = b.string("model.mlir:12:3");
  b.collective(fb::CollectiveKind_all_reduce, at(region, 0, 4),
               at(region, 0, 4), one, 1, {0});
  for (int workers : {1, 2, 5})
    EXPECT_EQ(failureOf(b, workers),
              "rank 2, program 'main', check 'heddle.attention' at "
              "model.mlir:12:3: expected another coordinate");
}

// After a failure the session refuses to run, with the first reason.
TEST(Executor, RunsNoMoreAfterAFailure) {
  Builder b;
  int32_t ok = b.param("ok", 0, 1, 0);
  fb::CheckT check;
  check.condition = ok;
  check.message = "not ok";
  b.emit(std::move(check));
  TestSession run(b.bundle());
  EXPECT_FALSE(run->run("main").ok());
  ASSERT_TRUE(run->setParam("main", "ok", 1).ok());
  Status again = run->run("main");
  EXPECT_EQ(again.code(), Code::aborted);
  EXPECT_EQ(again.message(), "an earlier run failed: rank 0, program 'main', "
                             "check: not ok");
}

// One rank dies while the others are spread over a long loop of collectives
// and launches: all end quickly, wherever the fault strikes.
TEST(Executor, InjectedFaultEndsEveryRank) {
  Builder b({{"dp", 2}, {"tp", 3}});
  int32_t region = b.region(1024);
  int32_t zero = b.constant(0), many = b.constant(1000), n = b.constant(16);
  b.beginFor(zero, many, 1000);
  b.launch(kNothing, {}, {n}, 3);
  b.collective(fb::CollectiveKind_all_reduce, at(region, 0, 64),
               at(region, 0, 64), n, 16, {1});
  b.collective(fb::CollectiveKind_all_gather, at(region, 0, 64),
               at(region, 128, 128), n, 16, {0});
  b.end();
  std::shared_ptr<const Bundle> bundle = b.bundle();
  for (int workers : {1, 2, 5})
    for (int64_t instruction : {0, 5, 6, 7, 1501}) {
      SessionOptions options = withWorkers(workers);
      options.fault = InjectedFault{4, instruction, "planted"};
      TestSession run(bundle, options);
      auto start = std::chrono::steady_clock::now();
      Status status = run->run("main");
      std::chrono::duration<double> took =
          std::chrono::steady_clock::now() - start;
      EXPECT_FALSE(status.ok());
      EXPECT_NE(status.message().find("rank 4, program 'main', "),
                std::string::npos)
          << status.message();
      EXPECT_NE(status.message().find(": planted"), std::string::npos);
      EXPECT_LT(took.count(), 5.0);
    }
}

// Ranks that wait for different groups, and one that leaves early, are told
// apart from slow ones.
TEST(Executor, ReportsDeadlock) {
  {
    Builder b({{"a", 2}, {"b", 2}});
    int32_t region = b.region(64);
    int32_t first = b.coord(0), n = b.constant(1);
    b.beginIf(first);
    b.collective(fb::CollectiveKind_all_reduce, at(region, 0, 4),
                 at(region, 0, 4), n, 1, {0, 1});
    b.beginElse();
    b.collective(fb::CollectiveKind_broadcast, at(region, 0, 4),
                 at(region, 0, 4), n, 1, {0});
    b.end();
    for (int workers : {1, 3}) {
      std::string message = failureOf(b, workers);
      EXPECT_NE(message.find("the ranks wait for one another"),
                std::string::npos)
          << message;
      EXPECT_NE(message.find("rank 0, program 'main', broadcast"),
                std::string::npos);
      EXPECT_NE(message.find("rank 3, program 'main', all_reduce"),
                std::string::npos);
    }
  }
  {
    Builder b({{"a", 2}});
    int32_t region = b.region(64);
    int32_t first = b.coord(0), n = b.constant(1);
    b.beginIf(first);
    b.collective(fb::CollectiveKind_all_reduce, at(region, 0, 4),
                 at(region, 0, 4), n, 1, {0});
    b.end();
    std::string message = failureOf(b);
    EXPECT_NE(message.find("1 of 2 ranks have reached the end"),
              std::string::npos)
        << message;
  }
}

// Members that disagree are shown side by side.
TEST(Executor, MismatchedCollectivesAreAnError) {
  Builder b({{"a", 2}});
  int32_t region = b.region(64);
  int32_t first = b.coord(0);
  int32_t n = b.arith(fb::ScalarOp_add, first, b.constant(3));
  fb::InstrT &instr =
      b.collective(fb::CollectiveKind_all_reduce, at(region, 0, 64),
                   at(region, 0, 64), n, 16, {0}, 9);
  instr.op = b.string("comm.all_reduce");
  for (int workers : {1, 2}) {
    std::string message = failureOf(b, workers);
    EXPECT_NE(message.find("'comm.all_reduce'"), std::string::npos) << message;
    EXPECT_NE(
        message.find("rank 0 calls all_reduce sum of 3 f32 elements (id 9)"),
        std::string::npos)
        << message;
    EXPECT_NE(
        message.find("rank 1 calls all_reduce sum of 4 f32 elements (id 9)"),
        std::string::npos)
        << message;
  }
}

// Every tile runs exactly once, for any number of workers and in any order.
TEST(Executor, EveryTileRunsOnce) {
  constexpr int64_t kTiles = 37, kTurns = 200;
  Builder b({{"tp", 3}});
  int32_t region = b.region(kTiles * 8);
  b.output("out", at(region, 0, kTiles * 8), fb::DType_i64, {whole(kTiles)});
  int32_t zero = b.constant(0), turns = b.constant(kTurns);
  b.beginFor(zero, turns, kTurns);
  b.launch(kCount, operands(at(region, 0, kTiles * 8)), {}, kTiles);
  b.end();
  std::shared_ptr<const Bundle> bundle = b.bundle();
  std::vector<int64_t> expected(kTiles);
  for (int64_t tile = 0; tile < kTiles; ++tile)
    expected[static_cast<size_t>(tile)] = kTurns * (tile + 1);
  for (int workers : {1, 2, 5})
    for (uint64_t seed : {0, 1, 2}) {
      TestSession run(bundle, withWorkers(workers, seed));
      ASSERT_TRUE(run->run("main").ok());
      EXPECT_EQ(probed(run), expected);
    }
}

// Tiles of one launch run at the same time, on as many workers as there are:
// each waits for the others.
TEST(Executor, TilesRunSideBySide) {
  constexpr int32_t kTiles = 4;
  Builder b;
  int32_t region = b.region(16);
  b.output("out", at(region, 0, 16), fb::DType_i64, {whole(2)});
  b.launch(kMeet, operands(at(region, 0, 16)), {}, kTiles);
  TestSession run(b.bundle(), withWorkers(kTiles));
  ASSERT_TRUE(run->run("main").ok());
  EXPECT_EQ(probed(run), (std::vector<int64_t>{kTiles, kTiles}));
}

// Addresses follow loop variables, moduli and coordinates.
TEST(Executor, AddressesFollowScalars) {
  Builder b({{"tp", 2}});
  int32_t source = b.region(4 * 8 * 4), target = b.region(2 * 8 * 4);
  b.input("in", at(source, 0, 128), fb::DType_f32, {whole(4), whole(8)});
  b.output("out", at(target, 0, 32), fb::DType_f32,
           {cut(4, 1, 2, {0}), whole(4)});
  // Row i mod 2 of rank c becomes columns 4c … of source row i, i = 0 … 3.
  int32_t zero = b.constant(0), four = b.constant(4), c = b.coord(0);
  int32_t i = b.beginFor(zero, four, 4);
  fb::CopyT copy;
  copy.source = at(source, 0, 16, {fb::Term(32, 0, i), fb::Term(16, 0, c)});
  copy.destination = at(target, 0, 16, {fb::Term(16, 2, i)});
  b.emit(std::move(copy));
  b.end();
  TestSession run(b.bundle());
  std::vector<float> values(32);
  std::iota(values.begin(), values.end(), 0.0f);
  ASSERT_TRUE(run->setInput("main", "in", floats({4, 8}, values)).ok());
  ASSERT_TRUE(run->run("main").ok());
  EXPECT_EQ(asFloats(*run->output("main", "out")),
            (std::vector<float>{16, 17, 18, 19, 24, 25, 26, 27, // rank 0
                                20, 21, 22, 23, 28, 29, 30, 31}));
}

// Scalars go to the arena and come back in every integer type.
TEST(Executor, SyncAndPutScalars) {
  struct Case {
    fb::DType dtype;
    int64_t bytes, put, expected;
  };
  for (Case c :
       {Case{fb::DType_i8, 1, 200, -56}, Case{fb::DType_u8, 1, 200, 200},
        Case{fb::DType_boolean, 1, 5, 1}, Case{fb::DType_i16, 2, -3, -3},
        Case{fb::DType_i32, 4, -70000, -70000},
        Case{fb::DType_i64, 8, int64_t{1} << 40, int64_t{1} << 40},
        Case{fb::DType_f32, 4, 12, 12}}) {
    Builder b;
    Probe probe(b, 1);
    int32_t region = b.region(16), value = b.constant(c.put);
    fb::PutScalarT put;
    put.src = value;
    put.dtype = c.dtype;
    put.destination = at(region, 8, c.bytes);
    b.emit(std::move(put));
    fb::SyncScalarT sync;
    sync.dst = b.scalar();
    sync.dtype = c.dtype;
    sync.source = at(region, 8, c.bytes);
    int32_t back = sync.dst;
    b.emit(std::move(sync));
    probe.put(0, back);
    EXPECT_EQ(runProbed(b), std::vector<int64_t>{c.expected})
        << fb::EnumNameDType(c.dtype);
  }
}

std::vector<float> sequence(size_t count, float scale) {
  std::vector<float> values(count);
  uint32_t state = 12345;
  for (float &value : values) {
    state = state * 1664525u + 1013904223u;
    value = scale * (static_cast<float>(state >> 8) / 8388608.0f - 1.0f);
  }
  return values;
}

// C = A B^T for row counts on and between the prepared ones, for panels that
// do not divide the columns, with leading dimensions; the same bits for every
// number of workers.
TEST(Executor, Gemm) {
  constexpr int64_t kRows = 40, kN = 75, kK = 33, kLda = 36, kLdc = 80;
  Builder b;
  int32_t a = b.region(kRows * kLda * 4), w = b.region(kN * kK * 4),
          c = b.region(kRows * kLdc * 4);
  int32_t m = b.param("m", 0, kRows + 1, kRows);
  b.input("a", at(a, 0, kRows * kLda * 4), fb::DType_f32,
          {whole(kRows), whole(kLda)});
  b.input("b", at(w, 0, kN * kK * 4), fb::DType_f32, {whole(kN), whole(kK)});
  b.input("c", at(c, 0, kRows * kLdc * 4), fb::DType_f32,
          {whole(kRows), whole(kLdc)});
  b.output("out", at(c, 0, kRows * kLdc * 4), fb::DType_f32,
           {whole(kRows), whole(kLdc)});
  fb::GemmT gemm;
  gemm.a = at(a, 0, kRows * kLda * 4);
  gemm.b = at(w, 0, kN * kK * 4);
  gemm.c = at(c, 0, kRows * kLdc * 4);
  gemm.m = m;
  gemm.m_max = kRows;
  gemm.n = kN;
  gemm.k = kK;
  gemm.lda = kLda;
  gemm.ldb = kK;
  gemm.ldc = kLdc;
  gemm.panels = 4;
  b.emit(std::move(gemm));
  std::shared_ptr<const Bundle> bundle = b.bundle();
  std::vector<float> left = sequence(kRows * kLda, 1),
                     right = sequence(kN * kK, 1);
  for (int64_t rows : {0, 1, 2, 8, 31, 40}) {
    std::vector<float> first;
    for (int workers : {1, 2, 5}) {
      TestSession run(bundle, withWorkers(workers));
      ASSERT_TRUE(run->setInput("main", "a", floats({kRows, kLda}, left)).ok());
      ASSERT_TRUE(run->setInput("main", "b", floats({kN, kK}, right)).ok());
      ASSERT_TRUE(run->setInput("main", "c",
                                floats({kRows, kLdc},
                                       std::vector<float>(kRows * kLdc, -1)))
                      .ok());
      ASSERT_TRUE(run->setParam("main", "m", rows).ok());
      ASSERT_TRUE(run->run("main").ok());
      std::vector<float> got = asFloats(*run->output("main", "out"));
      for (int64_t i = 0; i < kRows; ++i)
        for (int64_t j = 0; j < kLdc; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < kK; ++k)
            sum += double(left[size_t(i * kLda + k)]) *
                   double(right[size_t(std::min(j, kN - 1) * kK + k)]);
          double expected = i < rows && j < kN ? sum : -1;
          ASSERT_NEAR(got[size_t(i * kLdc + j)], expected, 1e-4)
              << rows << " rows, " << i << ", " << j;
        }
      if (first.empty())
        first = got;
      EXPECT_EQ(std::memcmp(first.data(), got.data(), got.size() * 4), 0);
    }
  }
  TestSession run(bundle);
  ASSERT_TRUE(run->setParam("main", "m", kRows + 1).ok());
  EXPECT_EQ(run->run("main").message(),
            "rank 0, program 'main', gemm: expected 0 to 40 rows, got 41");
}

/// A step of many launches, products and collectives whose result depends on
/// every order that could go wrong.
std::shared_ptr<const Bundle> mixedProgram(int32_t ranks) {
  constexpr int64_t kN = 48;
  Builder b({{"tp", ranks}});
  int32_t x = b.region(kN * kN * 4), y = b.region(kN * kN * 4),
          z = b.region(kN * kN * ranks * 4);
  int64_t bytes = kN * kN * 4;
  b.input("in", at(x, 0, bytes), fb::DType_f32, {whole(kN), whole(kN)});
  b.output("out", at(x, 0, bytes), fb::DType_f32, {whole(kN), whole(kN)});
  int32_t n = b.constant(kN), all = b.constant(kN * kN), c = b.coord(0);
  int32_t zero = b.constant(0), turns = b.constant(6), one = b.constant(1);
  b.beginFor(zero, turns, 6);
  b.launch(kAffine, operands(at(x, 0, bytes), at(y, 0, bytes)), {all, one, c},
           7);
  fb::GemmT gemm;
  gemm.a = at(y, 0, bytes);
  gemm.b = at(x, 0, bytes);
  gemm.c = at(z, 0, bytes);
  gemm.m = n;
  gemm.m_max = gemm.n = gemm.k = gemm.lda = gemm.ldb = gemm.ldc = kN;
  gemm.panels = 3;
  b.emit(std::move(gemm));
  b.collective(fb::CollectiveKind_all_reduce, at(z, 0, bytes), at(z, 0, bytes),
               all, kN * kN, {0}, 1);
  b.collective(fb::CollectiveKind_permute, at(z, 0, bytes), at(y, 0, bytes),
               all, kN * kN, {0}, 2);
  fb::FillT fill;
  fill.destination = at(z, 0, bytes);
  fill.pattern = 0x3c000000; // 1/128
  b.emit(std::move(fill));
  b.launch(kAdd, operands(at(z, 0, bytes), at(x, 0, bytes), at(x, 0, bytes)),
           {all}, 5);
  b.end();
  b.collective(fb::CollectiveKind_all_reduce, at(y, 0, bytes), at(x, 0, bytes),
               all, kN * kN, {0}, 3);
  return b.bundle();
}

// The same bits for any number of workers and any order of ready work, with
// more ranks than workers and more workers than ranks.
TEST(Executor, ResultsDoNotDependOnWorkersOrOrder) {
  for (int32_t ranks : {1, 3, 7}) {
    std::shared_ptr<const Bundle> bundle = mixedProgram(ranks);
    std::vector<float> in = sequence(48 * 48, 0.1f), first;
    for (int workers : {1, 2, 5})
      for (uint64_t seed : {0, 11, 12}) {
        TestSession run(bundle, withWorkers(workers, seed));
        for (int turn = 0; turn < 2; ++turn) {
          ASSERT_TRUE(run->setInput("main", "in", floats({48, 48}, in)).ok());
          Status status = run->run("main");
          ASSERT_TRUE(status.ok()) << status.message();
          std::vector<float> got = asFloats(*run->output("main", "out"));
          if (first.empty())
            first = got;
          ASSERT_EQ(std::memcmp(first.data(), got.data(), got.size() * 4), 0)
              << ranks << " ranks, " << workers << " workers, seed " << seed;
        }
      }
  }
}

// Ranks are not threads: 512 of them on one worker.
TEST(Executor, ManyRanks) {
  Builder b({{"dp", 512}});
  Probe probe(b, 1);
  int32_t region = b.region(16);
  int32_t c = b.coord(0), n = b.constant(1);
  fb::PutScalarT put;
  put.src = c;
  put.dtype = fb::DType_i64;
  put.destination = at(region, 0, 8);
  b.emit(std::move(put));
  b.collective(fb::CollectiveKind_all_reduce, at(region, 0, 8),
               at(region, 8, 8), n, 1, {0}, 0, fb::DType_i64);
  fb::SyncScalarT sync;
  sync.dst = b.scalar();
  sync.dtype = fb::DType_i64;
  sync.source = at(region, 8, 8);
  int32_t sum = sync.dst;
  b.emit(std::move(sync));
  probe.put(0, sum);
  EXPECT_EQ(runProbed(b, 1), std::vector<int64_t>{512 * 511 / 2});
}

// Messages by tag around a ring; the last rank receives first.
TEST(Executor, SendAndReceive) {
  Builder b({{"pp", 3}});
  Probe probe(b, 1);
  int32_t region = b.region(16);
  int32_t c = b.coord(0), one = b.constant(1), three = b.constant(3),
          tag = b.constant(77);
  int32_t next =
      b.arith(fb::ScalarOp_mod, b.arith(fb::ScalarOp_add, c, one), three);
  int32_t previous = b.arith(
      fb::ScalarOp_mod, b.arith(fb::ScalarOp_add, c, b.constant(2)), three);
  int32_t isFirst = b.arith(fb::ScalarOp_eq, c, b.constant(0));
  fb::PutScalarT put;
  put.src = b.arith(fb::ScalarOp_add, c, b.constant(10));
  put.dtype = fb::DType_i64;
  put.destination = at(region, 0, 8);
  b.emit(std::move(put));
  auto send = [&] {
    fb::SendT send;
    send.source = at(region, 0, 8);
    send.peer = next;
    send.tag = tag;
    b.emit(std::move(send));
  };
  auto recv = [&] {
    fb::RecvT recv;
    recv.destination = at(region, 8, 8);
    recv.peer = previous;
    recv.tag = tag;
    b.emit(std::move(recv));
  };
  b.beginIf(isFirst);
  send();
  recv();
  b.beginElse();
  recv();
  send();
  b.end();
  fb::SyncScalarT sync;
  sync.dst = b.scalar();
  sync.dtype = fb::DType_i64;
  sync.source = at(region, 8, 8);
  int32_t got = sync.dst;
  b.emit(std::move(sync));
  probe.put(0, got);
  for (int workers : {1, 2})
    EXPECT_EQ(runProbed(b, workers), std::vector<int64_t>{12}); // rank 0's
}

} // namespace
