//===- RandomPlanTest.cpp - What is accepted stays in its region ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random programs of scalars, loops and branches that fill parts of a region.
// Whatever the range analysis accepts must leave the regions on both sides
// alone when it runs.
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

constexpr int64_t kGuard = 1 << 16, kTarget = 256;

class RandomProgram {
public:
  explicit RandomProgram(uint32_t seed) : random_(seed), b_({{"x", 2}}) {
    before_ = b_.region(kGuard);
    target_ = b_.region(kTarget);
    after_ = b_.region(kGuard);
    b_.output("before", at(before_, 0, kGuard), fb::DType_u8, {whole(kGuard)});
    b_.output("after", at(after_, 0, kGuard), fb::DType_u8, {whole(kGuard)});
    table_ = b_.table(2, 3, {0, 1, 2, 3, 5, 8});
    for (int i = 0; i < 2; ++i) {
      int64_t lo = pick(-2, 3), hi = lo + pick(0, 6);
      values_.push_back(b_.param("p" + std::to_string(i), lo, hi, lo));
      bounds_.push_back({lo, hi});
    }
    values_.push_back(b_.coord(0));
    values_.push_back(b_.constant(pick(1, 6)));
    block(0);
  }

  Builder &builder() { return b_; }
  int64_t param(size_t index) {
    return pick(bounds_[index].first, bounds_[index].second);
  }

private:
  int64_t pick(int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random_);
  }
  int32_t any() {
    return values_[static_cast<size_t>(
        pick(0, static_cast<int64_t>(values_.size()) - 1))];
  }

  void scalar() {
    static const fb::ScalarOp ops[] = {
        fb::ScalarOp_add, fb::ScalarOp_sub,    fb::ScalarOp_mul,
        fb::ScalarOp_mod, fb::ScalarOp_mod,    fb::ScalarOp_floordiv,
        fb::ScalarOp_min, fb::ScalarOp_max,    fb::ScalarOp_lt,
        fb::ScalarOp_eq,  fb::ScalarOp_select, fb::ScalarOp_table};
    fb::ScalarOp op = ops[pick(0, 11)];
    // Some registers are overwritten, which loops then carry.
    int32_t dst = pick(0, 2) == 0 && values_.size() > 4
                      ? values_[static_cast<size_t>(
                            pick(4, static_cast<int64_t>(values_.size()) - 1))]
                      : b_.scalar();
    int32_t a = any(), c = any();
    int32_t d = op == fb::ScalarOp_mod || op == fb::ScalarOp_floordiv ||
                        op == fb::ScalarOp_min
                    ? b_.constant(pick(1, 7))
                    : any();
    b_.set(dst, op, a, d, c, table_);
    values_.push_back(dst);
  }

  void fill() {
    fb::FillT fill;
    std::vector<fb::Term> terms;
    for (int64_t i = pick(0, 2); i > 0; --i)
      terms.push_back(
          fb::Term(4 * pick(-2, 8), pick(0, 1) ? pick(1, 8) : 0, any()));
    fill.destination = at(target_, 4 * pick(0, 20), 4 * pick(0, 10), terms);
    fill.pattern = 0xffffffffu;
    b_.emit(std::move(fill));
  }

  void block(int depth) {
    for (int64_t i = pick(2, 5); i > 0; --i) {
      int64_t kind = depth >= 3 ? pick(0, 5) : pick(0, 9);
      if (kind < 3) {
        scalar();
      } else if (kind < 6) {
        fill();
      } else if (kind == 6) {
        int32_t lo = any(), hi = any();
        values_.push_back(b_.beginFor(lo, hi, pick(1, 80)));
        block(depth + 1);
        b_.end();
      } else if (kind == 7) {
        int32_t condition = any();
        b_.beginWhile(condition, pick(1, 70));
        block(depth + 1);
        b_.set(condition, fb::ScalarOp_sub, condition, b_.constant(1));
        b_.end();
      } else if (kind == 8) {
        b_.beginIf(any());
        block(depth + 1);
        if (pick(0, 1)) {
          b_.beginElse();
          block(depth + 1);
        }
        b_.end();
      } else {
        b_.beginCase(any());
        for (int64_t n = pick(1, 3); n > 0; --n) {
          b_.beginBlock();
          block(depth + 1);
        }
        b_.end();
      }
    }
  }

  std::mt19937 random_;
  Builder b_;
  int32_t before_ = 0, target_ = 0, after_ = 0, table_ = 0;
  std::vector<int32_t> values_;
  std::vector<std::pair<int64_t, int64_t>> bounds_;
};

bool isZero(const HostTensor &tensor) {
  return std::all_of(tensor.bytes.begin(), tensor.bytes.end(),
                     [](uint8_t byte) { return byte == 0; });
}

TEST(RandomPlan, AcceptedProgramsStayInTheirRegion) {
  int accepted = 0, ended = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    RandomProgram program(seed);
    Result<std::shared_ptr<const Bundle>> bundle =
        Bundle::parse(program.builder().pack());
    if (!bundle)
      continue;
    ++accepted;
    for (int turn = 0; turn < 2; ++turn) {
      SessionOptions options;
      options.workers = 1;
      TestSession run(*bundle, options);
      ASSERT_TRUE(run->setParam("main", "p0", program.param(0)).ok());
      ASSERT_TRUE(run->setParam("main", "p1", program.param(1)).ok());
      // A program may be refused while running, which is fine too.
      ended += run->run("main").ok();
      ASSERT_TRUE(isZero(*run->output("main", "before"))) << "seed " << seed;
      ASSERT_TRUE(isZero(*run->output("main", "after"))) << "seed " << seed;
    }
  }
  // The test means something only if it sees both kinds.
  EXPECT_GT(accepted, 150);
  EXPECT_LT(accepted, 1350);
  EXPECT_GT(ended, 150);
}

} // namespace
