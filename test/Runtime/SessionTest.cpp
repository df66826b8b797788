//===- SessionTest.cpp - Tensors in and out of ranks ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "base/half.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <unistd.h>

using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

std::vector<float> iota(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

/// A program that copies its input to its output in another place, each with
/// its layout: [5, 7] cut by rows over dp and by column units over tp.
struct CopyPlan {
  Builder b{{{"dp", 2}, {"tp", 3}}};
  int32_t in, out;

  explicit CopyPlan(fb::DimShardT rows, fb::DimShardT cols,
                    bool outputWhole = false) {
    int64_t bytes = rows.slots * rows.unit * cols.slots * cols.unit * 4;
    in = b.region(bytes);
    out = b.region(bytes);
    b.input("x", at(in, 0, bytes), fb::DType_f32, {rows, cols});
    b.output("y", at(out, 0, bytes), fb::DType_f32, {rows, cols});
    fb::CopyT copy;
    copy.source = at(in, 0, bytes);
    copy.destination = at(out, 0, bytes);
    b.emit(std::move(copy));
    (void)outputWhole;
  }
};

SessionOptions poisoned() {
  SessionOptions options;
  options.poison = 0x7fc00000u; // NaN
  return options;
}

// Cut and joined again, whatever the layout: blocks with padding, units that
// do not divide, maps with padding and repetition.
TEST(Session, LayoutsRoundTrip) {
  struct Case {
    const char *what;
    fb::DimShardT rows, cols;
    std::vector<int64_t> map; // table 0, 3 rows
  };
  const Case cases[] = {
      {"replicated", whole(5), whole(7), {}},
      {"rows over dp", cut(5, 1, 3, {0}), whole(7), {}},
      {"columns over tp in units of 2", whole(5), cut(7, 2, 2, {1}), {}},
      {"both", cut(5, 2, 2, {0}), cut(7, 1, 3, {1}), {}},
      {"one dimension over two axes", cut(5, 1, 1, {1, 0}), whole(7), {}},
      {"map", whole(5), cut(7, 2, 2, {1}, 0), {3, 0, -1, 2, 1, 0}},
  };
  for (const Case &c : cases) {
    CopyPlan plan(c.rows, c.cols);
    if (!c.map.empty())
      plan.b.table(3, static_cast<int64_t>(c.map.size()) / 3, c.map);
    TestSession run(plan.b.bundle(), poisoned());
    ASSERT_TRUE(run.session) << c.what;
    ASSERT_TRUE(run->setInput("main", "x", floats({5, 7}, iota(35))).ok());
    ASSERT_TRUE(run->run("main").ok());
    Result<HostTensor> y = run->output("main", "y");
    ASSERT_TRUE(y.ok()) << y.status().message();
    EXPECT_EQ(y->shape, (std::vector<int64_t>{5, 7}));
    EXPECT_EQ(asFloats(*y), iota(35)) << c.what;
  }
}

// Each rank gets its own part: the output of one rank, looked at through a
// second layout of the same memory.
TEST(Session, RanksHoldTheirUnits) {
  Builder b({{"tp", 3}});
  int32_t map = b.table(3, 2, {4, 0, 1, -1, 2, 3});
  int32_t x = b.region(2 * 3 * 4);
  // 13 elements in units of 3: the last unit holds one element.
  b.input("x", at(x, 0, 24), fb::DType_f32, {cut(13, 3, 2, {0}, map)});
  // The same memory as rank r's row.
  b.output("rows", at(x, 0, 24), fb::DType_f32, {cut(3, 1, 1, {0}), whole(6)});
  TestSession run(b.bundle());
  ASSERT_TRUE(run->setInput("main", "x", floats({13}, iota(13))).ok());
  ASSERT_TRUE(run->run("main").ok());
  EXPECT_EQ(asFloats(*run->output("main", "rows")),
            (std::vector<float>{13, 0, 0, 1, 2, 3, //
                                4, 5, 6, 0, 0, 0,  //
                                7, 8, 9, 10, 11, 12}));
}

// Repeated units: the first owner is read.
TEST(Session, FirstOwnerWins) {
  Builder b({{"tp", 2}});
  int32_t map = b.table(2, 1, {0, 0});
  int32_t x = b.region(4);
  b.output("x", at(x, 0, 4), fb::DType_f32, {cut(1, 1, 1, {0}, map)});
  int32_t c = b.coord(0);
  fb::PutScalarT put;
  put.src = b.arith(fb::ScalarOp_add, c, b.constant(5));
  put.dtype = fb::DType_f32;
  put.destination = at(x, 0, 4);
  b.emit(std::move(put));
  TestSession run(b.bundle());
  ASSERT_TRUE(run->run("main").ok());
  EXPECT_EQ(asFloats(*run->output("main", "x")), std::vector<float>{5});
}

// A short input leaves the rest poisoned, or zero.
TEST(Session, ShortInputs) {
  for (bool poison : {false, true}) {
    CopyPlan plan(cut(5, 1, 3, {0}), whole(7));
    TestSession run(plan.b.bundle(), poison ? poisoned() : SessionOptions());
    ASSERT_TRUE(run->setInput("main", "x", floats({5, 7}, iota(35))).ok());
    ASSERT_TRUE(run->setInput("main", "x", floats({4, 2}, iota(8))).ok());
    ASSERT_TRUE(run->run("main").ok());
    std::vector<float> y = asFloats(*run->output("main", "y"));
    for (size_t i = 0; i < 5; ++i)
      for (size_t j = 0; j < 7; ++j) {
        float got = y[i * 7 + j];
        if (i < 4 && j < 2)
          EXPECT_EQ(got, static_cast<float>(i * 2 + j + 1));
        else if (poison)
          EXPECT_TRUE(std::isnan(got));
        else
          EXPECT_EQ(got, 0.0f);
      }
  }
}

TEST(Session, NamesWhatIsWrong) {
  CopyPlan plan(whole(5), whole(7));
  plan.b.param("n", 1, 4, 2);
  TestSession run(plan.b.bundle());
  auto expect = [](const Status &status, const char *message) {
    EXPECT_EQ(status.message(), message);
  };
  expect(run->run("other"), "rank 0 has no program 'other'");
  expect(run->setParam("other", "n", 1), "the bundle has no program 'other'");
  expect(run->setParam("main", "m", 1), "program 'main' has no parameter 'm'");
  expect(run->setParam("main", "n", 5),
         "parameter 'n' of program 'main': expected 1 to 4, got 5");
  expect(run->setInput("main", "z", floats({1}, {1})),
         "program 'main' has no input 'z'; it has: x");
  expect(run->setInput("other", "x", floats({1}, {1})),
         "the bundle has no program 'other'; it has: main");
  expect(run->setInput("main", "x", floats({1}, {1})),
         "input 'x' of program 'main': expected shape [5, 7] or less, got [1]");
  expect(run->setInput("main", "x", floats({5, 8}, iota(40))),
         "input 'x' of program 'main': expected shape [5, 7] or less, got "
         "[5, 8]");
  expect(run->setInput("main", "x", floats({5, 7}, iota(34))),
         "input 'x' of program 'main': expected 140 bytes for shape [5, 7], "
         "got 136");
  HostTensor ints = floats({5, 7}, iota(35));
  ints.dtype = DType::i32;
  expect(run->setInput("main", "x", ints),
         "input 'x' of program 'main': expected f32 elements, got i32");
  expect(run->output("main", "z").status(),
         "program 'main' has no output 'z'; it has: y");
  expect(run->state("z").status(), "the bundle has no state 'z'");

  std::unique_ptr<Communicator> small = createInProcessCommunicator(2);
  Status status = Session::create(plan.b.bundle(), *small, {}).status();
  EXPECT_EQ(status.code(), Code::incompatible);
  expect(status, "the bundle is for 6 ranks, the inprocess communicator "
                 "connects 2");
}

// States live from run to run and go back to their fill.
TEST(Session, States) {
  Builder b({{"tp", 2}});
  int32_t x = b.region(16);
  auto state = std::make_unique<fb::StateT>();
  state->name = "count";
  state->operand = at(x, 0, 16);
  state->dtype = fb::DType_f32;
  state->fill = 0x3f800000u; // 1.0
  state->dims.push_back(std::make_unique<fb::DimShardT>(cut(7, 1, 4, {0})));
  b.cls().states.push_back(std::move(state));
  int32_t n = b.constant(4);
  b.launch(kAdd, operands(at(x, 0, 16), at(x, 0, 16), at(x, 0, 16)), {n});
  TestSession run(b.bundle(), poisoned());
  EXPECT_EQ(asFloats(*run->state("count")), std::vector<float>(7, 1.0f));
  ASSERT_TRUE(run->run("main").ok());
  ASSERT_TRUE(run->run("main").ok());
  EXPECT_EQ(asFloats(*run->state("count")), std::vector<float>(7, 4.0f));
  ASSERT_TRUE(run->resetStates().ok());
  EXPECT_EQ(asFloats(*run->state("count")), std::vector<float>(7, 1.0f));
}

// More memory than there is gets a message, not a signal when it is touched.
// (Nothing here would touch it: without the check the test only fails.)
TEST(Session, RefusesMoreMemoryThanThereIs) {
  Builder b({{"tp", 2}});
  b.region(int64_t{1} << 45);
  std::unique_ptr<Communicator> comm = createInProcessCommunicator(2);
  Status status = Session::create(b.bundle(), *comm, {}).status();
  EXPECT_EQ(status.code(), Code::resource_exhausted);
  EXPECT_EQ(status.message().rfind("the bundle's 2 ranks in this process need "
                                   "67108864 MiB, this machine has ",
                                   0),
            0u)
      << status.message();
}

// Two classes: a program of each, joined by a message; outputs of one class.
TEST(Session, RankClasses) {
  Builder b({{"pp", 2}});
  b.plan.rank_class = {0, 1};
  int32_t x = b.region(16);
  b.input("x", at(x, 0, 16), fb::DType_f32, {whole(4)});
  int32_t one = b.constant(1), tag = b.constant(0);
  fb::SendT send;
  send.source = at(x, 0, 16);
  send.peer = one;
  send.tag = tag;
  b.emit(std::move(send));

  Builder last({{"pp", 2}});
  last.region(64);
  int32_t y = last.region(16);
  int32_t zero = last.constant(0);
  fb::RecvT recv;
  recv.destination = at(y, 0, 16);
  recv.peer = zero;
  recv.tag = zero;
  last.emit(std::move(recv));
  last.output("y", at(y, 0, 16), fb::DType_f32, {whole(4)});
  last.cls().name = "last";
  b.plan.classes.push_back(std::move(last.plan.classes[0]));

  TestSession run(b.bundle());
  ASSERT_TRUE(run->setInput("main", "x", floats({4}, iota(4))).ok());
  Status status = run->run("main");
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(asFloats(*run->output("main", "y")), iota(4));
}

// The trace opens in Perfetto: valid JSON, a row per rank, names and durations.
TEST(Session, Trace) {
  std::string path =
      testing::TempDir() + "/heddle-trace-" + std::to_string(getpid());
  Builder b({{"tp", 2}});
  int32_t x = b.region(64), n = b.constant(4);
  fb::MarkT mark;
  mark.name = "begin \"quoted\"";
  b.emit(std::move(mark));
  fb::InstrT &launch = b.launch(
      kAdd, operands(at(x, 0, 16), at(x, 0, 16), at(x, 0, 16)), {n}, 2);
  launch.op = b.string("heddle.add");
  launch.location = b.string("m.mlir:1:1");
  b.collective(fb::CollectiveKind_all_reduce, at(x, 0, 16), at(x, 0, 16), n, 4,
               {0});
  {
    SessionOptions options;
    options.tracePath = path;
    TestSession run(b.bundle(), options);
    ASSERT_TRUE(run->run("main").ok());
    ASSERT_TRUE(run->writeTrace().ok());
  }
  std::ifstream file(path);
  nlohmann::json trace = nlohmann::json::parse(file);
  std::map<int, std::vector<std::string>> names;
  for (const nlohmann::json &event : trace["traceEvents"]) {
    if (event["ph"] == "M")
      continue;
    EXPECT_GE(event["ts"].get<double>(), 0);
    if (event["ph"] == "X") {
      EXPECT_GE(event["dur"].get<double>(), 0);
    }
    names[event["tid"]].push_back(event["name"]);
  }
  std::vector<std::string> expected = {"begin \"quoted\"", "heddle.add",
                                       "all_reduce"};
  EXPECT_EQ(names[0], expected);
  EXPECT_EQ(names[8], expected); // rank 1; 1 to 7 are the streams of rank 0
  std::remove(path.c_str());
}

} // namespace
