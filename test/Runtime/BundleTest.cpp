//===- BundleTest.cpp - Bundles are checked before they are used ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "base/cpu_features.h"
#include "bundle/validate_plan.h"

#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <iterator>
#include <sys/stat.h>
#include <unistd.h>

using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

std::string temporaryPath(const char *name) {
  return testing::TempDir() + "/heddle-" + std::to_string(getpid()) + "-" +
         name;
}

std::string refusal(std::vector<uint8_t> bytes) {
  Result<std::shared_ptr<const Bundle>> bundle =
      Bundle::parse(std::move(bytes));
  return bundle.ok() ? "accepted" : bundle.status().message();
}

/// A small plan that uses every part of the schema.
Builder sample() {
  Builder b({{"dp", 2}, {"tp", 3}});
  int32_t x = b.region(4096), y = b.region(4096);
  int32_t n = b.param("n", 0, 8, 8), zero = b.constant(0), c = b.coord(1);
  int32_t map = b.table(3, 2, {0, 1, 2, 3, 4, -1});
  b.table(1, 3, {5, 6, 7});
  b.input("in", at(x, 0, 1024), fb::DType_f32, {whole(4), whole(64)});
  b.output("out", at(y, 0, 1024), fb::DType_f32,
           {whole(8), cut(9, 2, 2, {1}, map)});
  int32_t i = b.beginFor(zero, n, 8);
  fb::InstrT &launch =
      b.launch(kAdd,
               operands(at(x, 0, 256, {fb::Term(256, 0, i)}), at(x, 2048, 256),
                        at(y, 0, 256, {fb::Term(256, 4, i)})),
               {n, c}, 3);
  launch.op = b.string("heddle.add");
  launch.location = b.string("model.mlir:7:5");
  b.collective(fb::CollectiveKind_all_reduce, at(y, 0, 256), at(y, 0, 256), n,
               64, {1});
  b.end();
  auto state = std::make_unique<fb::StateT>();
  state->name = "cache";
  state->operand = at(y, 2048, 64);
  state->dtype = fb::DType_f32;
  state->dims.push_back(std::make_unique<fb::DimShardT>(whole(16)));
  b.cls().states.push_back(std::move(state));
  auto recipe = std::make_unique<fb::RecipeT>();
  recipe->name = "layers.{i}.weight";
  recipe->layers = {0, 1, 2};
  recipe->operand = at(x, 1024, 256);
  recipe->layer_stride = 256;
  recipe->dtype = fb::DType_bf16;
  recipe->packing = "row_major@1";
  recipe->dims.push_back(std::make_unique<fb::DimShardT>(whole(2)));
  recipe->dims.push_back(std::make_unique<fb::DimShardT>(whole(64)));
  b.cls().recipes.push_back(std::move(recipe));
  return b;
}

fb::InstrT &loopInstr(Builder &b, size_t index) {
  return *b.program().body->instrs.back()->body.AsFor()->body->instrs[index];
}

TEST(Bundle, RoundTrip) {
  Builder b = sample();
  Result<std::shared_ptr<const Bundle>> bundle = Bundle::parse(b.pack());
  ASSERT_TRUE(bundle.ok()) << bundle.status().message();
  EXPECT_EQ((*bundle)->worldSize(), 6);
  EXPECT_EQ((*bundle)->section("contract"), "{}");
  EXPECT_TRUE((*bundle)->section("ir/import").empty());
  EXPECT_EQ((*bundle)->plan().classes()->Get(0)->regions()->size(), 2u);
  Result<std::vector<KernelFn>> kernels = (*bundle)->kernels();
  ASSERT_TRUE(kernels.ok()) << kernels.status().message();
  ASSERT_EQ(kernels->size(), 5u);
  float a = 1, c = 2, sum = 0;
  void *pointers[] = {&a, &c, &sum};
  int64_t one = 1;
  (*kernels)[kAdd](pointers, &one, 0, 1);
  EXPECT_EQ(sum, 3.0f);
}

// Two bundles in one process keep their own kernels.
TEST(Bundle, KernelLibrariesAreApart) {
  Builder b = sample();
  Result<std::shared_ptr<const Bundle>> first = Bundle::parse(b.pack());
  Result<std::shared_ptr<const Bundle>> second = Bundle::parse(b.pack());
  EXPECT_NE((*(*first)->kernels())[kAdd], (*(*second)->kernels())[kAdd]);
}

TEST(Bundle, FilesAreWrittenAtomically) {
  std::string path = temporaryPath("file.heddle");
  Builder b = sample();
  ASSERT_TRUE(writeFileAtomically(path, {1, 2, 3}).ok());
  ASSERT_TRUE(writeFileAtomically(path, b.pack()).ok());
  Result<std::shared_ptr<const Bundle>> bundle = Bundle::open(path);
  EXPECT_TRUE(bundle.ok()) << bundle.status().message();
  std::remove(path.c_str());
  Status status = writeFileAtomically("/nowhere/file", {1});
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_EQ(status.message(),
            "cannot create '/nowhere/file': No such file or directory");

  // A pipe stays a pipe, as /dev/null must.
  std::string pipe = temporaryPath("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  EXPECT_TRUE(writeFileAtomically(pipe, {1, 2, 3}).ok());
  uint8_t bytes[4];
  EXPECT_EQ(read(reader, bytes, sizeof(bytes)), 3);
  close(reader);
  struct stat what;
  ASSERT_EQ(stat(pipe.c_str(), &what), 0);
  EXPECT_TRUE(S_ISFIFO(what.st_mode));
  std::remove(pipe.c_str());
}

TEST(Bundle, OpenNamesWhatIsWrong) {
  Result<std::shared_ptr<const Bundle>> bundle = Bundle::open("/nowhere/x");
  EXPECT_EQ(bundle.status().code(), Code::not_found);
  EXPECT_EQ(Bundle::open("/").status().message(),
            "cannot open '/': expected a bundle, got no regular file");
  std::string path = temporaryPath("fifo");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(Bundle::open(path).ok()); // and does not hang
  std::remove(path.c_str());
}

// Each field of the container, damaged.
TEST(Bundle, RefusesDamagedContainers) {
  std::vector<uint8_t> good = sample().pack();
  auto damaged = [&](size_t offset, std::vector<uint8_t> bytes) {
    std::vector<uint8_t> copy = good;
    std::copy(bytes.begin(), bytes.end(),
              copy.begin() + static_cast<ptrdiff_t>(offset));
    return refusal(std::move(copy));
  };
  EXPECT_EQ(refusal({1, 2, 3}), "bundle: expected a header page of 4096 bytes, "
                                "got a file of 3");
  EXPECT_EQ(damaged(0, {'X'}),
            "bundle: expected a Heddle bundle (magic HEDDLEB1)");
  EXPECT_EQ(damaged(8, {9}), "bundle: expected version 1, got 9");
  EXPECT_EQ(damaged(12, {200}),
            "bundle: expected at most 72 sections, got 200");
  EXPECT_EQ(damaged(16, {'!'}), "bundle: section 0 has no valid name");
  EXPECT_EQ(damaged(16, std::vector<uint8_t>(32, 'a')),
            "bundle: section 0 has no valid name");
  EXPECT_EQ(damaged(16 + 56, {'p', 'l', 'a', 'n', 0}),
            "bundle: section 'plan' is there twice");
  EXPECT_NE(damaged(16 + 32, {1}).find("multiple of 4096"), std::string::npos);
  EXPECT_NE(damaged(16 + 32, {0, 0}).find("at least 4096"), std::string::npos);
  EXPECT_NE(damaged(16 + 40 + 7, {0x80}).find("ends at"), std::string::npos);
  EXPECT_NE(damaged(16 + 48, {1, 2}).find("expected hash"), std::string::npos);
  EXPECT_NE(damaged(4096 + 100, {0xff, 0xff}).find("expected hash"),
            std::string::npos);
  std::vector<uint8_t> cut(good.begin(), good.end() - 1);
  EXPECT_NE(refusal(cut).find("ends at"), std::string::npos);
  EXPECT_EQ(refusal(serializeBundle({})), "bundle: expected a section 'plan'");
  std::string junk(1000, '\x7f');
  EXPECT_EQ(refusal(serializeBundle({{"plan", junk}})),
            "bundle: the plan is not a valid FlatBuffer of the plan schema");
  EXPECT_NE(refusal(sample().pack(/*kernels=*/false))
                .find("expected a section 'kernels/x86_64'"),
            std::string::npos);
}

TEST(Bundle, RefusesOtherProcessorsAndLibraries) {
  Builder b = sample();
  b.plan.cpu = "avx2,no-such-thing";
  std::shared_ptr<const Bundle> bundle = *Bundle::parse(b.pack());
  Status status = bundle->kernels().status();
  EXPECT_EQ(status.code(), Code::incompatible);
  EXPECT_NE(status.message().find("no-such-thing"), std::string::npos);
  EXPECT_TRUE(checkCpuFeatures("").ok());
  EXPECT_TRUE(checkCpuFeatures("sse2, +ssse3").ok());

  b.plan.cpu = "";
  b.plan.kernels[1] = "absent";
  bundle = *Bundle::parse(b.pack());
  EXPECT_EQ(bundle->kernels().status().message(),
            "bundle: the kernel library has no symbol 'absent'");
}

// One wrong field at a time: what is wrong, and a piece of what is said.
TEST(Bundle, RefusesPlansThatCannotRun) {
  struct Case {
    const char *message;
    std::function<void(Builder &)> damage;
  };
  auto launch = [](Builder &b) -> fb::LaunchT & {
    return *loopInstr(b, 0).body.AsLaunch();
  };
  auto reduce = [](Builder &b) -> fb::CollectiveT & {
    return *loopInstr(b, 1).body.AsCollective();
  };
  auto emit = [](auto body) {
    return [body](Builder &b) mutable { b.emit(body); };
  };
  const Case cases[] = {
      {"expected plan version 1, got 2",
       [](Builder &b) { b.plan.version = 2; }},
      {"mesh axis 'tp': expected a size",
       [](Builder &b) { b.plan.axes[1]->size = 0; }},
      {"a mesh of at most 1048576 ranks",
       [](Builder &b) { b.plan.axes[0]->size = 1 << 20; }},
      {"mesh axis 'dp' is there twice",
       [](Builder &b) { b.plan.axes[1]->name = "dp"; }},
      {"expected the class of 1 or 6 ranks, got 2",
       [](Builder &b) { b.plan.rank_class = {0, 0}; }},
      {"rank 0: expected a class below 1, got 1",
       [](Builder &b) { b.plan.rank_class = {1}; }},
      {"expected at least one rank class",
       [](Builder &b) { b.plan.classes.clear(); }},
      {"table 't0': expected 4 x 2 aligned cells, got 6",
       [](Builder &b) { b.plan.tables[0]->rows = 4; }},
      {"space 'dev': expected 0 to",
       [](Builder &b) { b.cls().spaces[0]->bytes = int64_t{1} << 60; }},
      {"expected a kind that this runtime has",
       [](Builder &b) { b.cls().spaces[0]->kind = fb::SpaceKind_file; }},
      {"region 'r1': expected a space below 1, got 4",
       [](Builder &b) { b.cls().regions[1]->space = 4; }},
      {"region 'r1': [4096, + 4097) is not inside its space of 8192",
       [](Builder &b) { b.cls().regions[1]->bytes = 4097; }},
      {"region 'r1': [-64,",
       [](Builder &b) { b.cls().regions[1]->offset = -64; }},
      {"region 'r1': [9223372036854775807,",
       [](Builder &b) {
         b.cls().regions[1]->offset = std::numeric_limits<int64_t>::max();
       }},
      {"expected 0 to 65536 scalars",
       [](Builder &b) { b.program().scalars = -1; }},
      {"parameter 'n': expected a scalar below",
       [](Builder &b) { b.program().params[0]->scalar = 999; }},
      {"parameter 'n': expected 0 <= initial <= 8, got 9",
       [](Builder &b) { b.program().params[0]->initial = 9; }},
      {"input 'in': expected at least 1024 bytes for 4 x 64 f32, got 1020",
       [](Builder &b) { b.program().inputs[0]->operand->bytes = 1020; }},
      {"input 'in': [4000, + 1024) is not inside its region of 4096 bytes",
       [](Builder &b) { b.program().inputs[0]->operand->base = 4000; }},
      {"input 'in': expected a fixed address",
       [](Builder &b) {
         b.program().inputs[0]->operand->terms = {fb::Term(1, 0, 0)};
       }},
      {"input 'in': expected an element type, got 12",
       [](Builder &b) {
         b.program().inputs[0]->dtype = static_cast<fb::DType>(12);
       }},
      {"dimension 1: expected a mesh axis that is used once, got 2",
       [](Builder &b) { b.program().outputs[0]->dims[1]->axes = {2}; }},
      {"expected a map of 2 x 2, got 3 x 2",
       [](Builder &b) { b.program().outputs[0]->dims[1]->axes = {0}; }},
      {"expected units of -1 to 4 in the map, got 9",
       [](Builder &b) { b.plan.tables[0]->data[4] = 9; }},
      {"1 of 5 units have no owner",
       [](Builder &b) { b.plan.tables[0]->data = {0, 1, 2, 3, 3, -1}; }},
      {"expected slots for 8 units, got 7",
       [](Builder &b) { b.program().outputs[0]->dims[0]->slots = 7; }},
      {"dimension 0: expected a size, a unit of at least 1",
       [](Builder &b) { b.program().outputs[0]->dims[0]->unit = 0; }},
      {"expected at least 64 bytes for 1 x 16 f32, got 60",
       [](Builder &b) { b.cls().states[0]->operand->bytes = 60; }},
      {"3 layers of stride 4096 do not fit",
       [](Builder &b) { b.cls().recipes[0]->layer_stride = 4096; }},
      {"expected a packing that this runtime has (row_major@1, panel16@1), got "
       "'x@2'",
       [](Builder &b) { b.cls().recipes[0]->packing = "x@2"; }},
      {"'row_major@1' can hold, got 2 x 65 q8_0",
       [](Builder &b) {
         b.cls().recipes[0]->dtype = fb::DType_q8_0;
         *b.cls().recipes[0]->dims[1] = whole(65);
       }},
      {"expected 2 rows in heads of an even size, got 2 heads",
       [](Builder &b) {
         b.cls().recipes[0]->gguf_transform =
             fb::SourceTransform_deinterleave_rows;
         b.cls().recipes[0]->heads = 2;
       }},
      {"Launch of heddle.add at model.mlir:7:5: expected a kernel of 0 to 4",
       [&](Builder &b) { launch(b).kernel = 5; }},
      {"expected tiles of 1 to 65535, got 0",
       [&](Builder &b) { launch(b).tiles = 0; }},
      {"expected an argument to be a scalar below",
       [&](Builder &b) { launch(b).scalars[0] = -1; }},
      {"an operand: expected a region below 2, got 2",
       [&](Builder &b) { launch(b).operands[0]->region = 2; }},
      {"an operand: expected a scalar below",
       [&](Builder &b) {
         launch(b).operands[0]->terms = {fb::Term(256, 0, 99)};
       }},
      {"an operand: expected a modulus of at least 0",
       [&](Builder &b) {
         launch(b).operands[0]->terms = {fb::Term(256, -1, 0)};
       }},
      {"an operand: expected an access",
       [&](Builder &b) {
         launch(b).operands[0]->access = static_cast<fb::Access>(0);
       }},
      {"Launch of heddle.add at model.mlir:7:5: an operand reaches from 2560 "
       "to 4608 in region 'r0' of 4096 bytes",
       [&](Builder &b) { launch(b).operands[0]->base = 2560; }},
      {"an operand reaches from -1 to",
       [&](Builder &b) { launch(b).operands[0]->base = -1; }},
      {"to 4097 in region 'r1'",
       [&](Builder &b) { launch(b).operands[2]->base = 3073; }},
      {"expected a source of at least 260 bytes, got 256",
       [&](Builder &b) { reduce(b).max_elements = 65; }},
      {"expected elements of 0 to",
       [&](Builder &b) { reduce(b).max_elements = int64_t{1} << 60; }},
      {"expected an element type that can be reduced",
       [&](Builder &b) { reduce(b).dtype = fb::DType_u8; }},
      {"expected a plain element type",
       [&](Builder &b) { reduce(b).dtype = fb::DType_q8_0; }},
      {"expected a mesh axis that is used once, got 1",
       [&](Builder &b) { reduce(b).axes = {1, 1}; }},
      {"expected the source to be aligned to 4 bytes",
       [&](Builder &b) { reduce(b).source->base = 2; }},
      {"expected a source of at least 768 bytes, got 256",
       [&](Builder &b) { reduce(b).kind = fb::CollectiveKind_reduce_scatter; }},
      {"expected a root of 0 to 2, got 3",
       [&](Builder &b) {
         reduce(b).kind = fb::CollectiveKind_broadcast;
         reduce(b).root = 3;
       }},
      {"expected a collective of 0 to 5, got 77",
       [&](Builder &b) {
         reduce(b).kind = static_cast<fb::CollectiveKind>(77);
       }},
      {"expected a trip bound of 0 to",
       [](Builder &b) {
         b.program().body->instrs.back()->body.AsFor()->max_trips = -1;
       }},
      {"expected an op and a location below 2, got 5 and 1",
       [](Builder &b) { loopInstr(b, 0).op = 5; }},
      {"expected an event of 0 to 65535, got -1", emit([] {
         fb::RecordT record;
         record.event = -1;
         return record;
       }())},
      {"expected a modulus of 0 to 65530, got 65531", emit([] {
         fb::WaitT wait;
         wait.event = 6;
         wait.index = 0;
         wait.modulus = 65531;
         return wait;
       }())},
      {"expected a stream of 0 to 7, got 8",
       [&](Builder &b) { loopInstr(b, 0).stream = 8; }},
      {"expected at least one block", emit(fb::CaseT())},
      {"expected a mesh axis of 0 to 1, got 2", [](Builder &b) { b.coord(2); }},
      {"expected a table of 0 to 1, got 2",
       [](Builder &b) { b.set(0, fb::ScalarOp_table, 0, 0, -1, 2); }},
      {"expected the third argument to be a scalar",
       [](Builder &b) { b.set(0, fb::ScalarOp_select, 0, 0); }},
      {"expected blocks to be nested at most 64 deep",
       [](Builder &b) {
         for (int i = 0; i < 65; ++i)
           b.beginIf(0);
       }},
  };
  for (const Case &c : cases) {
    Builder b = sample();
    c.damage(b);
    std::string message = refusal(b.pack());
    EXPECT_NE(message.find(c.message), std::string::npos)
        << "expected: " << c.message << "\nactual: " << message;
  }
}

TEST(Bundle, SampleAndDeepBlocksAreAccepted) {
  Builder b = sample();
  for (int i = 0; i < 64; ++i)
    b.beginIf(0);
  EXPECT_EQ(refusal(b.pack()), "accepted");
}

// What the interval analysis can prove, and what it cannot.
TEST(Bundle, AddressRanges) {
  struct Case {
    const char *what;
    bool accepted;
    std::function<void(Builder &, int32_t region)> make;
  };
  // The region holds 10 cells of 16 bytes.
  auto use = [](Builder &b, int32_t region, int32_t scalar,
                int64_t modulus = 0) {
    fb::FillT fill;
    fill.destination = at(region, 0, 16, {fb::Term(16, modulus, scalar)});
    b.emit(std::move(fill));
  };
  const Case cases[] = {
      {"parameter", true,
       [&](Builder &b, int32_t r) { use(b, r, b.param("p", 0, 9, 0)); }},
      {"parameter too large", false,
       [&](Builder &b, int32_t r) { use(b, r, b.param("p", 0, 10, 0)); }},
      {"negative", false,
       [&](Builder &b, int32_t r) { use(b, r, b.param("p", -1, 9, 0)); }},
      {"never written", true,
       [&](Builder &b, int32_t r) { use(b, r, b.scalar()); }},
      {"modulus", true,
       [&](Builder &b, int32_t r) { use(b, r, b.param("p", -5, 99, 0), 10); }},
      {"modulus too large", false,
       [&](Builder &b, int32_t r) { use(b, r, b.param("p", 0, 99, 0), 11); }},
      {"coordinate times 3", true,
       [&](Builder &b, int32_t r) {
         use(b, r, b.arith(fb::ScalarOp_mul, b.coord(0), b.constant(3)));
       }},
      {"coordinate times 4", false,
       [&](Builder &b, int32_t r) {
         use(b, r, b.arith(fb::ScalarOp_mul, b.coord(0), b.constant(4)));
       }},
      {"clamped", true,
       [&](Builder &b, int32_t r) {
         int32_t p = b.param("p", -100, 100, 0);
         use(b, r,
             b.arith(fb::ScalarOp_max, b.constant(0),
                     b.arith(fb::ScalarOp_min, p, b.constant(9))));
       }},
      {"quotient", true,
       [&](Builder &b, int32_t r) {
         use(b, r,
             b.arith(fb::ScalarOp_floordiv, b.param("p", 0, 99, 0),
                     b.constant(10)));
       }},
      {"product that wraps around", false,
       [&](Builder &b, int32_t r) {
         int32_t big = b.constant(int64_t{1} << 62);
         use(b, r, b.arith(fb::ScalarOp_mul, big, b.constant(4)));
       }},
      {"row of a table", true,
       [&](Builder &b, int32_t r) {
         int32_t table = b.table(2, 2, {0, 9, 77, -1});
         int32_t cell = b.scalar();
         b.set(cell, fb::ScalarOp_table, b.constant(0), b.param("p", 0, 9, 0),
               -1, table);
         use(b, r, cell);
       }},
      {"other row of a table", false,
       [&](Builder &b, int32_t r) {
         int32_t table = b.table(2, 2, {0, 9, 77, -1});
         int32_t cell = b.scalar();
         b.set(cell, fb::ScalarOp_table, b.constant(1), b.param("p", 0, 9, 0),
               -1, table);
         use(b, r, cell);
       }},
      {"loop", true,
       [&](Builder &b, int32_t r) {
         int32_t i = b.beginFor(b.constant(0), b.param("p", 0, 99, 0), 10);
         use(b, r, i);
         b.end();
       }},
      {"loop too long", false,
       [&](Builder &b, int32_t r) {
         int32_t i = b.beginFor(b.constant(0), b.param("p", 0, 99, 0), 11);
         use(b, r, i);
         b.end();
       }},
      {"loop that never runs", true,
       [&](Builder &b, int32_t r) {
         int32_t i = b.beginFor(b.constant(20), b.constant(3), 99);
         use(b, r, i);
         b.end();
       }},
      {"counter of a short while", true,
       [&](Builder &b, int32_t r) {
         int32_t n = b.scalar(), one = b.constant(1);
         b.beginWhile(one, 10);
         use(b, r, n);
         b.set(n, fb::ScalarOp_add, n, one);
         b.end();
       }},
      {"counter of a short while, afterwards", false,
       [&](Builder &b, int32_t r) {
         int32_t n = b.scalar(), one = b.constant(1);
         b.beginWhile(one, 10);
         b.set(n, fb::ScalarOp_add, n, one);
         b.end();
         use(b, r, n);
       }},
      {"counter of a long while", false,
       [&](Builder &b, int32_t r) {
         int32_t n = b.scalar(), one = b.constant(1);
         b.beginWhile(one, int64_t{1} << 40);
         use(b, r, n);
         b.set(n, fb::ScalarOp_add, n, one);
         b.end();
       }},
      {"counter of a long while, clamped", true,
       [&](Builder &b, int32_t r) {
         int32_t n = b.scalar(), one = b.constant(1);
         b.beginWhile(one, int64_t{1} << 40);
         use(b, r, n);
         b.set(n, fb::ScalarOp_add, n, one);
         b.set(n, fb::ScalarOp_min, n, b.constant(9));
         b.end();
       }},
      {"one branch", false,
       [&](Builder &b, int32_t r) {
         int32_t n = b.constant(3);
         b.beginIf(b.param("p", 0, 1, 0));
         b.set(n, fb::ScalarOp_constant, -1, -1, -1, 10);
         b.end();
         use(b, r, n);
       }},
      {"branch not taken", true,
       [&](Builder &b, int32_t r) {
         int32_t n = b.constant(3);
         b.beginIf(b.constant(0));
         b.set(n, fb::ScalarOp_constant, -1, -1, -1, 10);
         b.end();
         use(b, r, n);
       }},
      {"case", false,
       [&](Builder &b, int32_t r) {
         int32_t n = b.scalar();
         b.beginCase(b.param("p", 0, 9, 0));
         b.beginBlock();
         b.set(n, fb::ScalarOp_constant, -1, -1, -1, 9);
         b.beginBlock();
         b.set(n, fb::ScalarOp_constant, -1, -1, -1, 10);
         b.end();
         use(b, r, n);
       }},
      {"case out of reach", true,
       [&](Builder &b, int32_t r) {
         int32_t n = b.scalar();
         b.beginCase(b.constant(0));
         b.beginBlock();
         b.set(n, fb::ScalarOp_constant, -1, -1, -1, 9);
         b.beginBlock();
         b.set(n, fb::ScalarOp_constant, -1, -1, -1, 10);
         b.end();
         use(b, r, n);
       }},
      {"case, the largest first", false,
       [&](Builder &b, int32_t r) {
         int32_t n = b.scalar();
         b.beginCase(b.param("p", 0, 9, 0));
         b.beginBlock();
         b.set(n, fb::ScalarOp_constant, -1, -1, -1, 10);
         b.beginBlock();
         b.set(n, fb::ScalarOp_constant, -1, -1, -1, 9);
         b.end();
         use(b, r, n);
       }},
      {"branch that would correct the value", false,
       [&](Builder &b, int32_t r) {
         int32_t n = b.constant(10);
         b.beginIf(b.param("p", 0, 1, 0));
         b.set(n, fb::ScalarOp_constant, -1, -1, -1, 3);
         b.end();
         use(b, r, n);
       }},
      {"product of mixed signs", false,
       [&](Builder &b, int32_t r) {
         use(b, r,
             b.arith(fb::ScalarOp_mul, b.param("p", 0, 3, 0),
                     b.param("q", -1, 0, 0)));
       }},
      {"slow counter of a long while", false,
       [&](Builder &b, int32_t r) {
         int32_t n = b.scalar(), one = b.constant(1), hundred = b.constant(100);
         b.beginWhile(one, 5000);
         use(b, r, b.arith(fb::ScalarOp_floordiv, n, hundred));
         b.set(n, fb::ScalarOp_add, n, one);
         b.end();
       }},
      {"slow counter of a short while", true,
       [&](Builder &b, int32_t r) {
         int32_t n = b.scalar(), one = b.constant(1), hundred = b.constant(100);
         b.beginWhile(one, 50);
         use(b, r, b.arith(fb::ScalarOp_floordiv, n, hundred));
         b.set(n, fb::ScalarOp_add, n, one);
         b.end();
       }},
      {"slow countdown of a long while", false,
       [&](Builder &b, int32_t r) {
         int32_t n = b.constant(150), one = b.constant(1),
                 hundred = b.constant(100);
         b.beginWhile(one, 5000);
         use(b, r, b.arith(fb::ScalarOp_floordiv, n, hundred));
         b.set(n, fb::ScalarOp_sub, n, one);
         b.end();
       }},
      {"scalar from the arena", false,
       [&](Builder &b, int32_t r) {
         fb::SyncScalarT sync;
         sync.dst = b.scalar();
         sync.dtype = fb::DType_u8;
         sync.source = at(r, 0, 1);
         int32_t n = sync.dst;
         b.emit(std::move(sync));
         use(b, r, n);
       }},
  };
  for (const Case &c : cases) {
    Builder b({{"tp", 4}});
    int32_t region = b.region(160);
    c.make(b, region);
    std::string message = refusal(b.pack());
    EXPECT_EQ(message == "accepted", c.accepted) << c.what << ": " << message;
  }
}

// FlatBuffers' own verifier accepts elements at odd addresses (found by the
// fuzzer).
TEST(Bundle, RefusesMisalignedVectors) {
  std::ifstream file(HEDDLE_TEST_CORPUS "/misaligned-terms.plan",
                     std::ios::binary);
  std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  ASSERT_GT(bytes.size(), 100u);
  bytes.erase(bytes.begin()); // the fuzzer's choice
  Status status =
      verifyPlan(std::string_view(bytes.data(), bytes.size())).status();
  EXPECT_NE(status.message().find("expected address terms that are aligned"),
            std::string::npos)
      << status.message();
}

// A file of few bytes must not cost much more than its size to refuse: blocks
// that contain one another's copies would unfold to 2^60 instructions.
TEST(Bundle, SharedBlocksDoNotExplode) {
  flatbuffers::FlatBufferBuilder builder;
  auto condition = [&](flatbuffers::Offset<fb::Block> block) {
    auto body = fb::CreateIf(builder, 0, block, block);
    return fb::CreateInstr(builder, fb::Body_If, body.Union());
  };
  flatbuffers::Offset<fb::Block> block = fb::CreateBlock(builder);
  for (int depth = 0; depth < 60; ++depth) {
    std::vector<flatbuffers::Offset<fb::Instr>> instrs = {condition(block)};
    block = fb::CreateBlockDirect(builder, &instrs);
  }
  std::vector<flatbuffers::Offset<fb::Program>> programs = {
      fb::CreateProgramDirect(builder, "main", 1, nullptr, nullptr, nullptr,
                              block)};
  std::vector<flatbuffers::Offset<fb::RankClass>> classes = {
      fb::CreateRankClassDirect(builder, "all", nullptr, nullptr, &programs)};
  std::vector<int32_t> ranks = {0};
  fb::FinishPlanBuffer(
      builder,
      fb::CreatePlanDirect(builder, kPlanVersion, nullptr, &ranks, &classes));
  std::string_view plan(
      reinterpret_cast<const char *>(builder.GetBufferPointer()),
      builder.GetSize());
  EXPECT_LT(plan.size(), 20000u);
  EXPECT_EQ(refusal(serializeBundle({{"plan", plan}})),
            "bundle: the plan is not a valid FlatBuffer of the plan schema");
}

} // namespace
