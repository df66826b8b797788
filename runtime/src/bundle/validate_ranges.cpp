//===- validate_ranges.cpp - Addresses of a plan --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An abstract interpretation of a program over intervals: every scalar has the
// set of values it can take, branches join, loops run until nothing changes.
// A loop that changes a scalar in every iteration is followed for up to
// kExactTrips iterations (all of them, if it has no more) and then gives up
// on that scalar; a plan that needs more clamps the value with min and max.
//
//===----------------------------------------------------------------------===//

#include "bundle/interval.h"
#include "bundle/validate_plan.h"

namespace heddle::rt {
namespace {

constexpr int64_t kExactTrips = 64;
constexpr int64_t kScannedCells = 4096;

using Values = std::vector<Interval>;

class Ranges {
public:
  Ranges(const fb::Plan &plan, const fb::RankClass &cls,
         const fb::Program &program, ProblemList &problems, int64_t &work)
      : plan_(plan), cls_(cls), program_(program), problems_(problems),
        work_(work), values_(static_cast<size_t>(program.scalars())) {}

  void check() {
    if (program_.params())
      for (const fb::Param *param : *program_.params())
        at(param->scalar()) = {param->lo(), param->hi()};
    run(*program_.body());
    if (work_ > PlanLimits::work && !problems_.full())
      problems_.add("class '", cls_.name()->string_view(), "', program '",
                    program_.name()->string_view(),
                    "': too complex for its addresses to be checked");
  }

private:
  Interval &at(int32_t scalar) { return values_[static_cast<size_t>(scalar)]; }

  bool stop() const { return work_ > PlanLimits::work || problems_.full(); }

  void run(const fb::Block &block) {
    if (!block.instrs())
      return;
    for (const fb::Instr *instr : *block.instrs()) {
      ++work_;
      if (stop())
        return;
      run(*instr);
    }
  }

  void run(const fb::Instr &instr) {
    instr_ = &instr;
    switch (instr.body_type()) {
    case fb::Body_ScalarInstr: {
      const fb::ScalarInstr *scalar = instr.body_as_ScalarInstr();
      at(scalar->dst()) = evaluate(*scalar);
      return;
    }
    case fb::Body_Launch:
      if (instr.body_as_Launch()->operands())
        for (const fb::Operand *operand : *instr.body_as_Launch()->operands())
          check(*operand);
      return;
    case fb::Body_Gemm:
      check(*instr.body_as_Gemm()->a());
      check(*instr.body_as_Gemm()->b());
      check(*instr.body_as_Gemm()->c());
      return;
    case fb::Body_Collective:
      check(*instr.body_as_Collective()->source());
      check(*instr.body_as_Collective()->destination());
      return;
    case fb::Body_Send:
      return check(*instr.body_as_Send()->source());
    case fb::Body_Recv:
      return check(*instr.body_as_Recv()->destination());
    case fb::Body_Copy:
      check(*instr.body_as_Copy()->source());
      check(*instr.body_as_Copy()->destination());
      return;
    case fb::Body_Fill:
      return check(*instr.body_as_Fill()->destination());
    case fb::Body_SyncScalar: {
      const fb::SyncScalar *sync = instr.body_as_SyncScalar();
      check(*sync->source());
      at(sync->dst()) = rangeOf(sync->dtype());
      return;
    }
    case fb::Body_PutScalar:
      return check(*instr.body_as_PutScalar()->destination());
    case fb::Body_For:
      return run(*instr.body_as_For());
    case fb::Body_While:
      return run(*instr.body_as_While());
    case fb::Body_If: {
      const fb::If *branch = instr.body_as_If();
      Interval condition = at(branch->condition());
      branches({condition.isZero() ? nullptr : branch->then_block(),
                condition.hasZero() ? branch->else_block() : nullptr},
               condition.hasZero() && !branch->else_block());
      return;
    }
    case fb::Body_Case: {
      // The executor refuses selectors out of range.
      const fb::Case *branch = instr.body_as_Case();
      Interval selector = at(branch->selector());
      std::vector<const fb::Block *> taken;
      int64_t count = sizeOf(branch->blocks());
      for (int64_t i = std::max<int64_t>(selector.lo, 0);
           i < count && i <= selector.hi; ++i)
        taken.push_back(branch->blocks()->Get(static_cast<uint32_t>(i)));
      branches(taken, /*skips=*/taken.empty());
      return;
    }
    default: // Record, Wait, Check, Mark: no addresses
      return;
    }
  }

  /// Joins what follows each block; `skips`: control may also pass by.
  void branches(const std::vector<const fb::Block *> &blocks, bool skips) {
    Values before = values_;
    Values after;
    if (skips)
      after = before;
    for (const fb::Block *block : blocks) {
      if (!block || stop())
        continue;
      values_ = before;
      work_ += static_cast<int64_t>(values_.size());
      run(*block);
      after = after.empty() ? values_ : joined(after, values_);
    }
    if (!after.empty())
      values_ = std::move(after);
  }

  static Values joined(const Values &a, const Values &b) {
    Values result(a.size());
    for (size_t i = 0; i < a.size(); ++i)
      result[i] = a[i].join(b[i]);
    return result;
  }

  /// Runs `body` from the join of all states that can enter it; `enter` puts
  /// the loop variable. Afterwards `values_` covers 0 to `maxTrips` trips.
  template <typename Enter>
  void loop(const fb::Block &body, int64_t maxTrips, Enter enter) {
    Values entry = values_;
    for (int64_t trip = 0; trip < maxTrips; ++trip) {
      values_ = entry;
      if (!enter())
        break;
      work_ += 2 * static_cast<int64_t>(entry.size());
      run(body);
      if (stop())
        return;
      Values next = joined(entry, values_);
      if (next == entry)
        break;
      if (trip >= kExactTrips)
        for (size_t i = 0; i < next.size(); ++i) {
          if (next[i].lo < entry[i].lo)
            next[i].lo = Interval::kMin;
          if (next[i].hi > entry[i].hi)
            next[i].hi = Interval::kMax;
        }
      entry = std::move(next);
    }
    values_ = std::move(entry);
  }

  void run(const fb::For &instr) {
    Interval lo = at(instr.lo()), hi = at(instr.hi());
    if (lo.lo >= hi.hi || instr.max_trips() == 0)
      return;
    // hi - 1, or lo + max_trips - 1 if that is less (more trips are refused).
    Interval iv = intervalOf(
        lo.lo,
        std::min(__int128{hi.hi}, __int128{lo.hi} + instr.max_trips()) - 1);
    loop(*instr.body(), instr.max_trips(), [&] {
      at(instr.iv()) = iv;
      return true;
    });
  }

  void run(const fb::While &instr) {
    loop(*instr.body(), instr.max_trips(),
         [&] { return !at(instr.condition()).isZero(); });
  }

  static Interval rangeOf(fb::DType type) {
    switch (type) {
    case fb::DType_i8:
      return {-128, 127};
    case fb::DType_u8:
      return {0, 255};
    case fb::DType_boolean:
      return {0, 1};
    case fb::DType_i16:
      return {-32768, 32767};
    case fb::DType_i32:
      return {std::numeric_limits<int32_t>::min(),
              std::numeric_limits<int32_t>::max()};
    default:
      return Interval::unknown();
    }
  }

  static Interval compare(bool always, bool never) {
    return always ? Interval{1, 1} : never ? Interval{0, 0} : Interval{0, 1};
  }

  Interval evaluate(const fb::ScalarInstr &instr) {
    switch (instr.op()) {
    case fb::ScalarOp_constant:
      return Interval::exactly(instr.imm());
    case fb::ScalarOp_coord:
      return {0, plan_.axes()->Get(static_cast<uint32_t>(instr.imm()))->size() -
                     1};
    case fb::ScalarOp_table:
      return lookup(instr);
    default:
      break;
    }
    Interval a = at(instr.a()), b = at(instr.b());
    switch (instr.op()) {
    case fb::ScalarOp_add:
      return a + b;
    case fb::ScalarOp_sub:
      return a - b;
    case fb::ScalarOp_mul:
      return a * b;
    case fb::ScalarOp_floordiv:
      return floorDivInterval(a, b);
    case fb::ScalarOp_mod:
      return floorModInterval(a, b);
    case fb::ScalarOp_min:
      return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    case fb::ScalarOp_max:
      return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    case fb::ScalarOp_lt:
      return compare(a.hi < b.lo, a.lo >= b.hi);
    case fb::ScalarOp_le:
      return compare(a.hi <= b.lo, a.lo > b.hi);
    case fb::ScalarOp_eq:
      return compare(a.lo == a.hi && a == b, a.hi < b.lo || a.lo > b.hi);
    case fb::ScalarOp_ne:
      return compare(a.hi < b.lo || a.lo > b.hi, a.lo == a.hi && a == b);
    case fb::ScalarOp_select: {
      Interval c = at(instr.c());
      return a.isZero() ? c : a.hasZero() ? b.join(c) : b;
    }
    default:
      return Interval::unknown();
    }
  }

  Interval lookup(const fb::ScalarInstr &instr) {
    size_t index = static_cast<size_t>(instr.imm());
    const fb::IntTable *table =
        plan_.tables()->Get(static_cast<uint32_t>(index));
    const int64_t *data = table->data()->data();
    // The executor refuses indices out of range.
    auto clip = [](Interval i, int64_t size) {
      return Interval{std::max<int64_t>(i.lo, 0), std::min(i.hi, size - 1)};
    };
    Interval rows = clip(at(instr.a()), table->rows());
    Interval cols = clip(at(instr.b()), table->cols());
    if (rows.lo > rows.hi || cols.lo > cols.hi)
      return Interval::exactly(0); // always refused
    int64_t cells = (rows.hi - rows.lo + 1) * (cols.hi - cols.lo + 1);
    if (cells > kScannedCells) {
      if (whole_.size() <= index)
        whole_.resize(index + 1);
      if (!whole_[index]) {
        int64_t size = table->rows() * table->cols();
        work_ += size / 16;
        auto [least, most] = std::minmax_element(data, data + size);
        whole_[index] = Interval{*least, *most};
      }
      return *whole_[index];
    }
    work_ += cells / 16;
    Interval result =
        Interval::exactly(data[rows.lo * table->cols() + cols.lo]);
    for (int64_t r = rows.lo; r <= rows.hi; ++r)
      for (int64_t c = cols.lo; c <= cols.hi; ++c)
        result = result.join(Interval::exactly(data[r * table->cols() + c]));
    return result;
  }

  void check(const fb::Operand &operand) {
    __int128 lo = operand.base();
    __int128 hi = operand.base();
    for (int64_t i = 0, n = sizeOf(operand.terms()); i < n; ++i) {
      const fb::Term *term = operand.terms()->Get(static_cast<uint32_t>(i));
      Interval value = at(term->scalar());
      if (term->modulus() > 0)
        value = floorModInterval(value, Interval::exactly(term->modulus()));
      __int128 first = __int128{term->stride()} * value.lo;
      __int128 last = __int128{term->stride()} * value.hi;
      lo += std::min(first, last);
      hi += std::max(first, last);
    }
    const fb::Region *region =
        cls_.regions()->Get(static_cast<uint32_t>(operand.region()));
    if (lo >= 0 && hi + operand.bytes() <= region->bytes())
      return;
    auto text = [](__int128 value) {
      return value < Interval::kMin   ? std::string("less than -2^63")
             : value > Interval::kMax ? std::string("more than 2^63")
                                      : concat(static_cast<int64_t>(value));
    };
    std::string where = concat("class '", cls_.name()->string_view(),
                               "', program '", program_.name()->string_view(),
                               "', ", fb::EnumNameBody(instr_->body_type()));
    if (instr_->op() >= 0)
      where += concat(" of ", plan_.strings()
                                  ->Get(static_cast<uint32_t>(instr_->op()))
                                  ->string_view());
    if (instr_->location() >= 0)
      where +=
          concat(" at ", plan_.strings()
                             ->Get(static_cast<uint32_t>(instr_->location()))
                             ->string_view());
    problems_.add(where, ": an operand reaches from ", text(lo), " to ",
                  text(hi + operand.bytes()), " in region '",
                  region->name()->string_view(), "' of ", region->bytes(),
                  " bytes");
  }

  const fb::Plan &plan_;
  const fb::RankClass &cls_;
  const fb::Program &program_;
  ProblemList &problems_;
  int64_t &work_;
  Values values_;
  std::vector<std::optional<Interval>> whole_;
  const fb::Instr *instr_ = nullptr;
};

} // namespace

void validateRanges(const fb::Plan &plan, const fb::RankClass &cls,
                    const fb::Program &program, ProblemList &problems,
                    int64_t &work) {
  Ranges(plan, cls, program, problems, work).check();
}

} // namespace heddle::rt
