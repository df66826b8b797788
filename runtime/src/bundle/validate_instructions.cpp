//===- validate_instructions.cpp - Instructions of a plan -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/checked_math.h"
#include "bundle/validate_plan.h"

#include <set>

namespace heddle::rt {
namespace {

class Instructions {
public:
  Instructions(const fb::Plan &plan, const fb::RankClass &cls,
               const fb::Program &program, ProblemList &problems, int64_t &work)
      : plan_(plan), cls_(cls), program_(program), problems_(problems),
        work_(work) {}

  void check() { checkBlock(*program_.body(), 0); }

private:
  template <typename... Args> void problem(const Args &...args) {
    problems_.add(where(), ": ", args...);
  }

  std::string where() const {
    std::string text = concat("class '", cls_.name()->string_view(),
                              "', program '", program_.name()->string_view(),
                              "', ", fb::EnumNameBody(instr_->body_type()));
    auto note = [&](int32_t index, const char *what) {
      if (index >= 0 && index < sizeOf(plan_.strings()))
        text += concat(
            what,
            plan_.strings()->Get(static_cast<uint32_t>(index))->string_view());
    };
    note(instr_->op(), " of ");
    note(instr_->location(), " at ");
    return text;
  }

  bool scalar(int32_t index, const char *what) {
    if (index >= 0 && index < program_.scalars())
      return true;
    problem("expected ", what, " to be a scalar below ", program_.scalars(),
            ", got ", index);
    return false;
  }

  bool operand(const fb::Operand *operand, const char *what) {
    return checkOperand(cls_, *operand, program_.scalars(),
                        concat(where(), ", ", what), problems_, work_);
  }

  bool inRange(int64_t value, int64_t lo, int64_t hi, const char *what) {
    if (value >= lo && value <= hi)
      return true;
    problem("expected ", what, " of ", lo, " to ", hi, ", got ", value);
    return false;
  }

  /// All addresses that the operand can take are multiples of `alignment`.
  void aligned(const fb::Operand *operand, int64_t alignment,
               const char *what) {
    const fb::Region *region =
        cls_.regions()->Get(static_cast<uint32_t>(operand->region()));
    bool ok = (static_cast<uint64_t>(region->offset()) +
               static_cast<uint64_t>(operand->base())) %
                  static_cast<uint64_t>(alignment) ==
              0;
    for (int64_t i = 0, n = sizeOf(operand->terms()); i < n; ++i)
      ok &= operand->terms()->Get(static_cast<uint32_t>(i))->stride() %
                alignment ==
            0;
    if (!ok)
      problem("expected ", what, " to be aligned to ", alignment, " bytes");
  }

  void atLeast(const fb::Operand *operand, int64_t bytes, const char *what) {
    if (operand->bytes() < bytes)
      problem("expected ", what, " of at least ", bytes, " bytes, got ",
              operand->bytes());
  }

  void checkBlock(const fb::Block &block, int64_t depth) {
    if (depth > PlanLimits::blockDepth) {
      problem("expected blocks to be nested at most ", PlanLimits::blockDepth,
              " deep");
      return;
    }
    if (!block.instrs())
      return;
    for (const fb::Instr *instr : *block.instrs()) {
      if (++work_ > PlanLimits::work || problems_.full())
        return;
      instr_ = instr;
      checkInstr(*instr, depth);
    }
  }

  void checkInstr(const fb::Instr &instr, int64_t depth) {
    int64_t strings = sizeOf(plan_.strings());
    if (instr.op() < -1 || instr.op() >= strings || instr.location() < -1 ||
        instr.location() >= strings) {
      problem("expected an op and a location below ", strings, ", got ",
              instr.op(), " and ", instr.location());
      return;
    }
    if (!inRange(instr.stream(), 0, PlanLimits::streams - 1, "a stream"))
      return;
    switch (instr.body_type()) {
    case fb::Body_ScalarInstr:
      return check(*instr.body_as_ScalarInstr());
    case fb::Body_Launch:
      return check(*instr.body_as_Launch());
    case fb::Body_Gemm:
      return check(*instr.body_as_Gemm());
    case fb::Body_Collective:
      return check(*instr.body_as_Collective());
    case fb::Body_Send: {
      const fb::Send *send = instr.body_as_Send();
      operand(send->source(), "the source");
      scalar(send->peer(), "the peer");
      scalar(send->tag(), "the tag");
      return;
    }
    case fb::Body_Recv: {
      const fb::Recv *recv = instr.body_as_Recv();
      operand(recv->destination(), "the destination");
      scalar(recv->peer(), "the peer");
      scalar(recv->tag(), "the tag");
      return;
    }
    case fb::Body_Copy: {
      const fb::Copy *copy = instr.body_as_Copy();
      if (operand(copy->source(), "the source") &&
          operand(copy->destination(), "the destination") &&
          copy->source()->bytes() != copy->destination()->bytes())
        problem("expected a source and a destination of one size, got ",
                copy->source()->bytes(), " and ", copy->destination()->bytes(),
                " bytes");
      return;
    }
    case fb::Body_Fill:
      operand(instr.body_as_Fill()->destination(), "the destination");
      return;
    case fb::Body_SyncScalar: {
      const fb::SyncScalar *sync = instr.body_as_SyncScalar();
      scalar(sync->dst(), "the destination");
      return checkElement(*sync->source(), sync->dtype(), "the source");
    }
    case fb::Body_PutScalar: {
      const fb::PutScalar *put = instr.body_as_PutScalar();
      scalar(put->src(), "the source");
      return checkElement(*put->destination(), put->dtype(), "the destination");
    }
    case fb::Body_Record: {
      const fb::Record *record = instr.body_as_Record();
      return checkEvent(record->event(), record->index(), record->modulus());
    }
    case fb::Body_Wait: {
      const fb::Wait *wait = instr.body_as_Wait();
      return checkEvent(wait->event(), wait->index(), wait->modulus());
    }
    case fb::Body_For: {
      const fb::For *loop = instr.body_as_For();
      scalar(loop->iv(), "the loop variable");
      scalar(loop->lo(), "the lower bound");
      scalar(loop->hi(), "the upper bound");
      inRange(loop->max_trips(), 0, PlanLimits::trips, "a trip bound");
      return checkBlock(*loop->body(), depth + 1);
    }
    case fb::Body_While: {
      const fb::While *loop = instr.body_as_While();
      scalar(loop->condition(), "the condition");
      inRange(loop->max_trips(), 0, PlanLimits::trips, "a trip bound");
      return checkBlock(*loop->body(), depth + 1);
    }
    case fb::Body_If: {
      const fb::If *branch = instr.body_as_If();
      scalar(branch->condition(), "the condition");
      checkBlock(*branch->then_block(), depth + 1);
      if (branch->else_block())
        checkBlock(*branch->else_block(), depth + 1);
      return;
    }
    case fb::Body_Case: {
      const fb::Case *branch = instr.body_as_Case();
      scalar(branch->selector(), "the selector");
      if (sizeOf(branch->blocks()) == 0) {
        problem("expected at least one block");
        return;
      }
      for (const fb::Block *block : *branch->blocks())
        checkBlock(*block, depth + 1);
      return;
    }
    case fb::Body_Check:
      scalar(instr.body_as_Check()->condition(), "the condition");
      return;
    case fb::Body_Mark:
      return;
    default:
      problem("expected an instruction that this runtime knows, got ",
              static_cast<int>(instr.body_type()));
    }
  }

  void check(const fb::ScalarInstr &instr) {
    scalar(instr.dst(), "the result");
    int inputs = 2;
    switch (instr.op()) {
    case fb::ScalarOp_constant:
      inputs = 0;
      break;
    case fb::ScalarOp_coord:
      inputs = 0;
      inRange(instr.imm(), 0, sizeOf(plan_.axes()) - 1, "a mesh axis");
      break;
    case fb::ScalarOp_table:
      inRange(instr.imm(), 0, sizeOf(plan_.tables()) - 1, "a table");
      break;
    case fb::ScalarOp_select:
      inputs = 3;
      break;
    default:
      inRange(instr.op(), 0, fb::ScalarOp_MAX, "a scalar operation");
    }
    if (inputs >= 1)
      scalar(instr.a(), "the first argument");
    if (inputs >= 2)
      scalar(instr.b(), "the second argument");
    if (inputs >= 3)
      scalar(instr.c(), "the third argument");
  }

  void check(const fb::Launch &launch) {
    inRange(launch.kernel(), 0, sizeOf(plan_.kernels()) - 1, "a kernel");
    inRange(launch.tiles(), 1, PlanLimits::tiles, "tiles");
    int64_t operands = sizeOf(launch.operands());
    int64_t scalars = sizeOf(launch.scalars());
    work_ += operands + scalars;
    if (!inRange(operands, 0, PlanLimits::operands, "operands") ||
        !inRange(scalars, 0, PlanLimits::operands, "scalars"))
      return;
    for (int64_t i = 0; i < operands; ++i)
      operand(launch.operands()->Get(static_cast<uint32_t>(i)), "an operand");
    for (int64_t i = 0; i < scalars; ++i)
      scalar(launch.scalars()->Get(static_cast<uint32_t>(i)), "an argument");
  }

  void checkMatrix(const fb::Operand *matrix, int64_t rows, int64_t cols,
                   int64_t ld, const char *what) {
    if (!operand(matrix, what))
      return;
    int64_t elements = 0;
    if (ld < cols || (rows > 0 && !checkedMul(rows - 1, ld, elements)) ||
        elements > PlanLimits::bytes) {
      problem("expected ", what, " to have a leading dimension of at least ",
              cols, ", got ", ld);
      return;
    }
    if (rows > 0)
      atLeast(matrix, (elements + cols) * 4, what);
    aligned(matrix, 4, what);
  }

  void check(const fb::Gemm &gemm) {
    constexpr int64_t kMax = (int64_t{1} << 31) - 1;
    scalar(gemm.m(), "the number of rows");
    if (!inRange(gemm.m_max(), 0, kMax, "rows") ||
        !inRange(gemm.n(), 1, kMax, "columns") ||
        !inRange(gemm.k(), 1, kMax, "an inner dimension") ||
        !inRange(gemm.panels(), 1, std::min(gemm.n(), PlanLimits::tiles),
                 "panels"))
      return;
    checkMatrix(gemm.a(), gemm.m_max(), gemm.k(), gemm.lda(), "A");
    checkMatrix(gemm.b(), gemm.n(), gemm.k(), gemm.ldb(), "B");
    checkMatrix(gemm.c(), gemm.m_max(), gemm.n(), gemm.ldc(), "C");
  }

  void check(const fb::Collective &collective) {
    scalar(collective.elements(), "the number of elements");
    if (!inRange(collective.kind(), 0, fb::CollectiveKind_MAX,
                 "a collective") ||
        !inRange(collective.reduction(), 0, fb::Reduction_MAX, "a reduction") ||
        !inRange(collective.max_elements(), 0, PlanLimits::bytes, "elements"))
      return;
    std::optional<DType> dtype = knownDType(collective.dtype());
    if (!dtype || blockElements(*dtype) != 1) {
      problem("expected a plain element type, got ",
              static_cast<int>(collective.dtype()));
      return;
    }
    bool reduces = collective.kind() == fb::CollectiveKind_all_reduce ||
                   collective.kind() == fb::CollectiveKind_reduce_scatter;
    if (reduces && !isReducible(collective.dtype())) {
      problem("expected an element type that can be reduced (f32, f16, bf16, "
              "i32, i64), got ",
              dtypeName(*dtype));
      return;
    }
    int64_t size = 1;
    std::set<int32_t> used;
    for (int64_t i = 0, n = sizeOf(collective.axes()); i < n; ++i) {
      int32_t axis = collective.axes()->Get(static_cast<uint32_t>(i));
      if (axis < 0 || axis >= sizeOf(plan_.axes()) ||
          !used.insert(axis).second) {
        problem("expected a mesh axis that is used once, got ", axis);
        return;
      }
      size *= plan_.axes()->Get(static_cast<uint32_t>(axis))->size();
    }
    if (collective.kind() == fb::CollectiveKind_broadcast)
      inRange(collective.root(), 0, size - 1, "a root");
    if (!operand(collective.source(), "the source") ||
        !operand(collective.destination(), "the destination"))
      return;
    int64_t bytes = 0, grouped = 0;
    if (!checkedMul(collective.max_elements(), blockBytes(*dtype), bytes) ||
        !checkedMul(bytes, size, grouped)) {
      problem("the size of the buffers overflows");
      return;
    }
    bool all = collective.kind() == fb::CollectiveKind_all_to_all;
    bool scatter = collective.kind() == fb::CollectiveKind_reduce_scatter;
    bool gather = collective.kind() == fb::CollectiveKind_all_gather;
    atLeast(collective.source(), all || scatter ? grouped : bytes, "a source");
    atLeast(collective.destination(), all || gather ? grouped : bytes,
            "a destination");
    aligned(collective.source(), blockBytes(*dtype), "the source");
    aligned(collective.destination(), blockBytes(*dtype), "the destination");
  }

  void checkElement(const fb::Operand &element, fb::DType type,
                    const char *what) {
    switch (type) {
    case fb::DType_i8:
    case fb::DType_u8:
    case fb::DType_boolean:
    case fb::DType_i16:
    case fb::DType_i32:
    case fb::DType_i64:
    case fb::DType_f32:
      break;
    default:
      problem("expected an integer type or f32, got ", static_cast<int>(type));
      return;
    }
    if (operand(&element, what)) {
      int64_t bytes = blockBytes(static_cast<DType>(type));
      atLeast(&element, bytes, what);
      aligned(&element, bytes, what);
    }
  }

  void checkEvent(int32_t event, int32_t index, int64_t modulus) {
    if (!inRange(event, 0, PlanLimits::events - 1, "an event") ||
        !inRange(modulus, 0, PlanLimits::events - event, "a modulus"))
      return;
    if (index != -1 || modulus > 0)
      scalar(index, "the event's index");
  }

  const fb::Plan &plan_;
  const fb::RankClass &cls_;
  const fb::Program &program_;
  ProblemList &problems_;
  int64_t &work_;
  const fb::Instr *instr_ = nullptr;
};

} // namespace

void validateInstructions(const fb::Plan &plan, const fb::RankClass &cls,
                          const fb::Program &program, ProblemList &problems,
                          int64_t &work) {
  Instructions(plan, cls, program, problems, work).check();
}

} // namespace heddle::rt
