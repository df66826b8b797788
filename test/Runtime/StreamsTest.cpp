//===- StreamsTest.cpp - Collectives beside the rank ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

SessionOptions withWorkers(int workers, uint64_t seed = 0) {
  SessionOptions options;
  options.workers = workers;
  options.scheduleSeed = seed;
  return options;
}

void record(Builder &b, uint8_t stream, int32_t event, int32_t index = -1,
            int64_t modulus = 0) {
  fb::RecordT record;
  record.event = event;
  record.index = index;
  record.modulus = modulus;
  b.emit(std::move(record)).stream = stream;
}

void wait(Builder &b, int32_t event, int32_t index = -1, int64_t modulus = 0) {
  fb::WaitT wait;
  wait.event = event;
  wait.index = index;
  wait.modulus = modulus;
  b.emit(std::move(wait));
}

void message(Builder &b, bool sends, Operand data, int32_t peer) {
  int32_t tag = b.constant(5);
  int32_t to = b.constant(peer);
  if (sends) {
    fb::SendT send;
    send.source = std::move(data);
    send.peer = to;
    send.tag = tag;
    b.emit(std::move(send));
  } else {
    fb::RecvT recv;
    recv.destination = std::move(data);
    recv.peer = to;
    recv.tag = tag;
    b.emit(std::move(recv));
  }
}

std::string failureOf(Builder &b) {
  TestSession run(b.bundle(), withWorkers(2));
  Status status = run->run("main");
  EXPECT_FALSE(status.ok());
  return status.message();
}

// Rank 0 sends what rank 1 needs to come to the collective: in program order
// both would wait for ever.
TEST(Streams, TheRankGoesOn) {
  Builder b({{"a", 2}});
  int32_t x = b.region(64);
  int32_t isOne = b.coord(0), n = b.constant(4);
  b.input("in", at(x, 0, 16), fb::DType_f32, {cut(8, 4, 1, {0})});
  b.output("out", at(x, 16, 16), fb::DType_f32, {cut(8, 4, 1, {0})});
  b.beginIf(isOne);
  message(b, false, at(x, 32, 16), 0);
  b.end();
  b.collective(fb::CollectiveKind_all_reduce, at(x, 0, 16), at(x, 16, 16), n, 4,
               {0})
      .stream = 1;
  record(b, 1, 3);
  b.beginIf(b.arith(fb::ScalarOp_eq, isOne, b.constant(0)));
  message(b, true, at(x, 0, 16), 1);
  b.end();
  wait(b, 3);
  for (int workers : {1, 2, 4}) {
    TestSession run(b.bundle(), withWorkers(workers));
    for (int turn = 0; turn < 3; ++turn) {
      std::vector<float> in = {1, 2, 3, 4, 10, 20, 30, 40};
      ASSERT_TRUE(run->setInput("main", "in", floats({8}, in)).ok());
      Status status = run->run("main");
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(asFloats(*run->output("main", "out")),
                (std::vector<float>{11, 22, 33, 44, 11, 22, 33, 44}));
    }
  }
}

/// A ring as attention has it: each rank adds up the blocks of all ranks, which
/// come round in two slots; the next hop is begun before the block at hand is
/// added, on the stream and with the event of its slot.
std::shared_ptr<const Bundle> ring(int32_t ranks, int64_t elements) {
  Builder b({{"cp", ranks}});
  int64_t bytes = elements * 4, hops = ranks - 1;
  int32_t slots = b.region(2 * bytes), sum = b.region(bytes);
  b.input("in", at(slots, 0, bytes), fb::DType_f32,
          {cut(ranks * elements, elements, 1, {0})});
  b.output("out", at(sum, 0, bytes), fb::DType_f32,
           {cut(ranks * elements, elements, 1, {0})});
  fb::FillT zero;
  zero.destination = at(sum, 0, bytes);
  b.emit(std::move(zero));
  int32_t n = b.constant(elements), two = b.constant(2);
  auto add = [&](std::vector<fb::Term> terms) {
    b.launch(kAdd,
             operands(at(sum, 0, bytes), at(slots, 0, bytes, terms),
                      at(sum, 0, bytes)),
             {n}, 3);
  };
  int32_t hop = b.beginFor(b.constant(0), b.constant(hops), hops);
  int32_t next = b.arith(fb::ScalarOp_add, hop, b.constant(1));
  fb::InstrT &permute = b.collective(
      fb::CollectiveKind_permute, at(slots, 0, bytes, {{bytes, 2, hop}}),
      at(slots, 0, bytes, {{bytes, 2, next}}), n, elements, {0}, 4);
  permute.stream = 2;
  permute.body.AsCollective()->shift = 1;
  record(b, 2, 10, next, 2);
  add({{bytes, 2, hop}});
  wait(b, 10, next, 2);
  b.end();
  int32_t last = b.arith(fb::ScalarOp_mod, b.constant(hops), two);
  add({{bytes, 0, last}});
  return b.bundle();
}

TEST(Streams, RingOfTwoSlots) {
  for (int32_t ranks : {2, 3, 5, 8}) {
    constexpr int64_t kElements = 1000;
    std::shared_ptr<const Bundle> bundle = ring(ranks, kElements);
    std::vector<float> in, expected;
    for (int64_t i = 0; i < ranks * kElements; ++i)
      in.push_back(static_cast<float>(i * 7 % 1001)); // sums are exact
    for (int64_t i = 0; i < ranks * kElements; ++i) {
      float sum = 0;
      for (int32_t rank = 0; rank < ranks; ++rank)
        sum += in[static_cast<size_t>(rank * kElements + i % kElements)];
      expected.push_back(sum);
    }
    for (int workers : {1, 2, 4})
      for (uint64_t seed : {0, 21, 22, 23}) {
        TestSession run(bundle, withWorkers(workers, seed));
        for (int turn = 0; turn < 3; ++turn) {
          ASSERT_TRUE(
              run->setInput("main", "in", floats({ranks * kElements}, in))
                  .ok());
          Status status = run->run("main");
          ASSERT_TRUE(status.ok()) << status.message();
          ASSERT_EQ(asFloats(*run->output("main", "out")), expected)
              << ranks << " ranks, " << workers << " workers, seed " << seed;
        }
      }
  }
}

// One at a time on a stream, in order, and work of the rank on that stream
// comes after it.
TEST(Streams, AStreamIsAnOrder) {
  Builder b({{"a", 3}});
  int32_t x = b.region(64), n = b.constant(4);
  b.input("in", at(x, 0, 16), fb::DType_f32, {cut(12, 4, 1, {0})});
  b.output("out", at(x, 32, 16), fb::DType_f32, {cut(12, 4, 1, {0})});
  auto reduce = [&](int64_t from, int64_t to) {
    b.collective(fb::CollectiveKind_all_reduce, at(x, from, 16), at(x, to, 16),
                 n, 4, {0})
        .stream = 5;
  };
  reduce(0, 16);
  reduce(16, 0);
  b.launch(kAdd, operands(at(x, 0, 16), at(x, 16, 16), at(x, 32, 16)), {n}, 2)
      .stream = 5;
  for (int workers : {1, 3}) {
    TestSession run(b.bundle(), withWorkers(workers));
    std::vector<float> in = {1, 2, 3, 4, 10, 20, 30, 40, 100, 200, 300, 400};
    ASSERT_TRUE(run->setInput("main", "in", floats({12}, in)).ok());
    Status status = run->run("main");
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<float> out = asFloats(*run->output("main", "out"));
    EXPECT_EQ(std::vector<float>(out.begin(), out.begin() + 4),
              (std::vector<float>{444, 888, 1332, 1776}));
  }
}

// A program ends when what it began has ended, waited for or not.
TEST(Streams, TheEndWaits) {
  Builder b({{"a", 4}});
  int64_t bytes = 1 << 20;
  int32_t x = b.region(2 * bytes), n = b.constant(bytes / 4);
  b.input("in", at(x, 0, bytes), fb::DType_f32, {whole(bytes / 4)});
  b.output("out", at(x, bytes, bytes), fb::DType_f32, {whole(bytes / 4)});
  b.collective(fb::CollectiveKind_all_reduce, at(x, 0, bytes),
               at(x, bytes, bytes), n, bytes / 4, {0})
      .stream = 1;
  std::vector<float> ones(static_cast<size_t>(bytes / 4), 1.0f);
  TestSession run(b.bundle(), withWorkers(3));
  for (int turn = 0; turn < 5; ++turn) {
    ASSERT_TRUE(run->setInput("main", "in", floats({bytes / 4}, ones)).ok());
    ASSERT_TRUE(run->run("main").ok());
    for (float value : asFloats(*run->output("main", "out")))
      ASSERT_EQ(value, 4);
  }
}

// What is in flight is named, whether the rank waits, computes or has ended.
TEST(Streams, FailuresNameTheCollective) {
  for (bool waits : {true, false}) {
    Builder b({{"a", 2}});
    int32_t x = b.region(64), c = b.coord(0);
    int32_t n = b.arith(fb::ScalarOp_add, c, b.constant(3));
    fb::InstrT &instr = b.collective(fb::CollectiveKind_permute, at(x, 0, 16),
                                     at(x, 16, 16), n, 4, {0}, 9);
    instr.op = b.string("comm.permute_start");
    instr.stream = 1;
    record(b, 1, 0);
    if (waits)
      wait(b, 0);
    std::string message = failureOf(b);
    EXPECT_NE(message.find("'comm.permute_start'"), std::string::npos)
        << message;
    EXPECT_NE(message.find("rank 1 calls permute"), std::string::npos)
        << message;
  }
  for (bool waits : {true, false}) {
    Builder b({{"a", 2}});
    int32_t x = b.region(64), n = b.constant(4);
    b.beginIf(b.coord(0));
    b.collective(fb::CollectiveKind_permute, at(x, 0, 16), at(x, 16, 16), n, 4,
                 {0}, 9)
        .stream = 1;
    record(b, 1, 0);
    if (waits)
      wait(b, 0);
    b.end();
    std::string message = failureOf(b);
    EXPECT_NE(message.find("the ranks wait for one another"), std::string::npos)
        << message;
    EXPECT_NE(message.find("rank 1, program 'main', permute"),
              std::string::npos)
        << message;
  }
}

// In the trace a stream is a row: the transfer there, the wait on the rank's.
TEST(Streams, Trace) {
  std::string path =
      testing::TempDir() + "/heddle-streams-" + std::to_string(getpid());
  {
    SessionOptions options = withWorkers(2);
    options.tracePath = path;
    TestSession run(ring(3, 8), options);
    ASSERT_TRUE(run->run("main").ok());
    ASSERT_TRUE(run->writeTrace().ok());
  }
  std::ifstream file(path);
  nlohmann::json trace = nlohmann::json::parse(file);
  std::map<int, std::map<std::string, int>> kinds;
  for (const nlohmann::json &event : trace["traceEvents"])
    if (event["ph"] == "X")
      ++kinds[event["tid"]][event["cat"]];
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(kinds[8 * rank + 2]["permute"], 2);
    EXPECT_EQ(kinds[8 * rank]["permute"], 2); // begun
    EXPECT_EQ(kinds[8 * rank]["launch"], 3);
    EXPECT_GE(kinds[8 * rank]["wait"], 2);
  }
  std::remove(path.c_str());
}

} // namespace
