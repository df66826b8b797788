//===- decode.cpp - From the plan to the form that runs -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "executor/program.h"

#include "base/text.h"
#include "comm/reduction.h"

#include <algorithm>

namespace heddle::rt {

DecodeContext::DecodeContext(const fb::Plan &plan,
                             std::vector<KernelFn> kernels)
    : plan_(plan), kernels_(std::move(kernels)) {
  if (plan.tables())
    for (const fb::IntTable *table : *plan.tables())
      tables_.push_back({table->data()->data(), table->rows(), table->cols()});
}

KernelFn DecodeContext::kernel(int32_t index) const {
  size_t i = static_cast<size_t>(index);
  return i < kernels_.size() ? kernels_[i] : nullptr;
}

int32_t DecodeContext::group(const std::vector<int32_t> &axes) {
  auto found = std::find(groups_.begin(), groups_.end(), axes);
  if (found == groups_.end())
    found = groups_.insert(groups_.end(), axes);
  return static_cast<int32_t>(found - groups_.begin());
}

Result<const PanelGemm *> DecodeContext::gemm(const GemmShape &shape) {
  std::unique_ptr<PanelGemm> &gemm = gemms_[shape];
  if (!gemm) {
    Result<std::unique_ptr<PanelGemm>> made = PanelGemm::create(shape);
    if (!made)
      return made.status();
    gemm = made.take();
  }
  return static_cast<const PanelGemm *>(gemm.get());
}

namespace {

class Decoder {
public:
  Decoder(DecodeContext &context, const fb::RankClass &cls, Program &out)
      : context_(context), cls_(cls), out_(out) {}

  Status decode(const fb::Program &program) {
    out_.name = program.name()->str();
    out_.scalars = program.scalars();
    if (program.params())
      for (const fb::Param *param : *program.params())
        out_.params.push_back({param->name()->str(), param->scalar(),
                               param->lo(), param->hi(), param->initial()});
    block(*program.body());
    instr_ = nullptr;
    emit(Op::end, "end");
    return status_;
  }

private:
  size_t emit(Op op, const char *kind, std::string name = {}) {
    Instruction code;
    code.op = op;
    out_.code.push_back(code);
    Origin origin;
    origin.kind = kind;
    origin.name = std::move(name);
    if (instr_) {
      const auto *strings = context_.plan().strings();
      if (instr_->op() >= 0)
        origin.name = strings->Get(static_cast<uint32_t>(instr_->op()))->str();
      if (instr_->location() >= 0)
        origin.location =
            strings->Get(static_cast<uint32_t>(instr_->location()))->str();
    }
    out_.origins.push_back(std::move(origin));
    return out_.code.size() - 1;
  }

  Instruction &at(size_t index) { return out_.code[index]; }
  int32_t here() const { return static_cast<int32_t>(out_.code.size()); }

  int32_t address(const fb::Operand &operand) {
    const fb::Region *region =
        cls_.regions()->Get(static_cast<uint32_t>(operand.region()));
    Address address;
    address.offset = region->offset() + operand.base();
    address.bytes = operand.bytes();
    address.space = region->space();
    address.firstTerm = static_cast<int32_t>(out_.terms.size());
    if (operand.terms())
      for (const fb::Term *term : *operand.terms()) {
        out_.terms.push_back({term->stride(), term->modulus(), term->scalar()});
        ++address.terms;
      }
    out_.addresses.push_back(address);
    return static_cast<int32_t>(out_.addresses.size()) - 1;
  }

  void block(const fb::Block &body) {
    if (!body.instrs())
      return;
    for (const fb::Instr *instr : *body.instrs()) {
      instr_ = instr;
      instruction(*instr);
    }
  }

  /// Only collectives and messages run while the rank goes on. Other work on
  /// their stream waits for them; on stream 0 the order of the program is the
  /// order of everything else.
  void instruction(const fb::Instr &instr) {
    bool records = instr.body_type() == fb::Body_Record;
    if (instr.stream() != 0 && !records) {
      size_t code = emit(Op::awaitStream, "wait");
      at(code).stream = instr.stream();
    }
    switch (instr.body_type()) {
    case fb::Body_ScalarInstr:
      return scalar(*instr.body_as_ScalarInstr());
    case fb::Body_Launch:
      return launch(*instr.body_as_Launch());
    case fb::Body_Gemm:
      return gemm(*instr.body_as_Gemm());
    case fb::Body_Collective:
      return collective(*instr.body_as_Collective());
    case fb::Body_Send: {
      const fb::Send *send = instr.body_as_Send();
      return message(true, *send->source(), send->peer(), send->tag());
    }
    case fb::Body_Recv: {
      const fb::Recv *recv = instr.body_as_Recv();
      return message(false, *recv->destination(), recv->peer(), recv->tag());
    }
    case fb::Body_Copy: {
      size_t code = emit(Op::copy, "copy");
      at(code).index = address(*instr.body_as_Copy()->source());
      address(*instr.body_as_Copy()->destination());
      return;
    }
    case fb::Body_Fill: {
      size_t code = emit(Op::fill, "fill");
      at(code).index = address(*instr.body_as_Fill()->destination());
      at(code).imm = instr.body_as_Fill()->pattern();
      return;
    }
    case fb::Body_SyncScalar: {
      const fb::SyncScalar *sync = instr.body_as_SyncScalar();
      size_t code = emit(Op::syncScalar, "sync_scalar");
      at(code).dst = sync->dst();
      at(code).dtype = static_cast<uint8_t>(sync->dtype());
      at(code).index = address(*sync->source());
      return;
    }
    case fb::Body_PutScalar: {
      const fb::PutScalar *put = instr.body_as_PutScalar();
      size_t code = emit(Op::putScalar, "put_scalar");
      at(code).a = put->src();
      at(code).dtype = static_cast<uint8_t>(put->dtype());
      at(code).index = address(*put->destination());
      return;
    }
    case fb::Body_Record: {
      const fb::Record *record = instr.body_as_Record();
      return event(Op::record, "record", record->event(), record->index(),
                   record->modulus());
    }
    case fb::Body_Wait: {
      const fb::Wait *wait = instr.body_as_Wait();
      return event(Op::wait, "wait", wait->event(), wait->index(),
                   wait->modulus());
    }
    case fb::Body_Mark:
      emit(Op::nothing, "mark", instr.body_as_Mark()->name()->str());
      return;
    case fb::Body_Check: {
      size_t code = emit(Op::check, "check");
      at(code).a = instr.body_as_Check()->condition();
      at(code).index = static_cast<int32_t>(out_.checks.size());
      out_.checks.push_back(instr.body_as_Check()->message()->str());
      return;
    }
    case fb::Body_For: {
      const fb::For *loop = instr.body_as_For();
      size_t begin = emit(Op::forBegin, "for");
      at(begin).dst = loop->iv();
      at(begin).a = loop->lo();
      at(begin).b = loop->hi();
      at(begin).imm = loop->max_trips();
      return loopBody(begin, Op::forEnd, "for", *loop->body());
    }
    case fb::Body_While: {
      const fb::While *loop = instr.body_as_While();
      size_t begin = emit(Op::whileBegin, "while");
      at(begin).a = loop->condition();
      at(begin).imm = loop->max_trips();
      return loopBody(begin, Op::whileEnd, "while", *loop->body());
    }
    case fb::Body_If: {
      const fb::If *branch = instr.body_as_If();
      size_t test = emit(Op::branchIfZero, "if");
      at(test).a = branch->condition();
      block(*branch->then_block());
      if (branch->else_block()) {
        instr_ = &instr;
        size_t skip = emit(Op::jump, "if");
        at(test).target = here();
        block(*branch->else_block());
        at(skip).target = here();
      } else {
        at(test).target = here();
      }
      return;
    }
    case fb::Body_Case:
      return cases(instr, *instr.body_as_Case());
    default:
      return; // refused by verifyPlan
    }
  }

  void event(Op op, const char *kind, int32_t event, int32_t index,
             int64_t modulus) {
    size_t code = emit(op, kind);
    at(code).index = event;
    at(code).stream = instr_->stream();
    if (modulus > 0) {
      at(code).a = index;
      at(code).imm = modulus;
    }
    int64_t last = event + std::max<int64_t>(modulus, 1);
    out_.events = std::max(out_.events, static_cast<int32_t>(last));
  }

  void loopBody(size_t begin, Op end, const char *kind, const fb::Block &body) {
    const fb::Instr *instr = instr_;
    int32_t slot = depth_++;
    out_.loops = std::max(out_.loops, depth_);
    at(begin).index = slot;
    block(body);
    --depth_;
    instr_ = instr;
    size_t last = emit(end, kind);
    at(last).dst = at(begin).dst;
    at(last).a = at(begin).a;
    at(last).imm = at(begin).imm;
    at(last).index = slot;
    at(last).target = static_cast<int32_t>(begin) + 1;
    at(begin).target = here();
  }

  void cases(const fb::Instr &instr, const fb::Case &branch) {
    size_t test = emit(Op::jumpTable, "case");
    at(test).a = branch.selector();
    int32_t count = static_cast<int32_t>(branch.blocks()->size());
    int32_t table = static_cast<int32_t>(out_.jumps.size());
    at(test).index = table;
    at(test).imm = count;
    out_.jumps.resize(out_.jumps.size() + static_cast<size_t>(count));
    std::vector<size_t> exits;
    for (int32_t i = 0; i < count; ++i) {
      out_.jumps[static_cast<size_t>(table + i)] = here();
      block(*branch.blocks()->Get(static_cast<uint32_t>(i)));
      instr_ = &instr;
      exits.push_back(emit(Op::jump, "case"));
    }
    for (size_t exit : exits)
      at(exit).target = here();
  }

  void scalar(const fb::ScalarInstr &instr) {
    static_assert(static_cast<int>(Op::constant) == fb::ScalarOp_constant &&
                      static_cast<int>(Op::select) == fb::ScalarOp_select,
                  "the scalar operations have the schema's numbers");
    size_t code = emit(static_cast<Op>(instr.op()), "scalar");
    at(code).dst = instr.dst();
    at(code).a = instr.a();
    at(code).b = instr.b();
    at(code).c = instr.c();
    at(code).imm = instr.imm();
  }

  void launch(const fb::Launch &instr) {
    LaunchCode launch;
    launch.kernel = context_.kernel(instr.kernel());
    std::string name = context_.plan()
                           .kernels()
                           ->Get(static_cast<uint32_t>(instr.kernel()))
                           ->str();
    if (!launch.kernel && status_.ok())
      status_ = Status(Code::not_found,
                       concat("kernel '", name, "' is not in the bundle"));
    launch.firstAddress = static_cast<int32_t>(out_.addresses.size());
    launch.firstScalar = static_cast<int32_t>(out_.scalarLists.size());
    launch.tiles = instr.tiles();
    if (instr.operands())
      for (const fb::Operand *operand : *instr.operands()) {
        address(*operand);
        ++launch.addresses;
      }
    if (instr.scalars())
      for (int32_t scalar : *instr.scalars()) {
        out_.scalarLists.push_back(scalar);
        ++launch.scalars;
      }
    out_.maxAddresses = std::max(out_.maxAddresses, launch.addresses);
    out_.maxScalars = std::max(out_.maxScalars, launch.scalars);
    size_t code = emit(Op::launch, "launch", std::move(name));
    at(code).index = static_cast<int32_t>(out_.launches.size());
    out_.launches.push_back(launch);
  }

  void gemm(const fb::Gemm &instr) {
    GemmCode gemm;
    Result<const PanelGemm *> made =
        context_.gemm({instr.m_max(), instr.n(), instr.k(), instr.lda(),
                       instr.ldb(), instr.ldc(), instr.panels()});
    if (made)
      gemm.gemm = *made;
    else if (status_.ok())
      status_ = made.status();
    gemm.firstAddress = address(*instr.a());
    address(*instr.b());
    address(*instr.c());
    gemm.rows = instr.m();
    gemm.maxRows = instr.m_max();
    gemm.panels = instr.panels();
    size_t code = emit(Op::gemm, "gemm");
    at(code).index = static_cast<int32_t>(out_.gemms.size());
    out_.gemms.push_back(gemm);
    out_.maxAddresses = std::max(out_.maxAddresses, 3);
    out_.maxScalars = std::max(out_.maxScalars, 1);
  }

  void collective(const fb::Collective &instr) {
    static_assert(static_cast<int>(CollectiveOp::allReduce) ==
                          fb::CollectiveKind_all_reduce &&
                      static_cast<int>(CollectiveOp::broadcast) ==
                          fb::CollectiveKind_broadcast &&
                      static_cast<int>(ReduceOp::min) == fb::Reduction_min,
                  "collectives have the schema's numbers");
    CollectiveCode code;
    code.op = static_cast<CollectiveOp>(instr.kind());
    code.reduction = static_cast<ReduceOp>(instr.reduction());
    code.dtype = static_cast<DType>(instr.dtype());
    code.firstAddress = address(*instr.source());
    address(*instr.destination());
    code.elements = instr.elements();
    code.maxElements = instr.max_elements();
    std::vector<int32_t> axes;
    if (instr.axes())
      axes.assign(instr.axes()->begin(), instr.axes()->end());
    code.group = context_.group(axes);
    code.id = instr.id();
    code.shift = instr.shift();
    code.root = instr.root();
    size_t index = emit(Op::collective, collectiveName(code.op));
    at(index).index = static_cast<int32_t>(out_.collectives.size());
    at(index).stream = instr_->stream();
    out_.collectives.push_back(code);
  }

  void message(bool sends, const fb::Operand &operand, int32_t peer,
               int32_t tag) {
    MessageCode code;
    code.sends = sends;
    code.address = address(operand);
    code.peer = peer;
    code.tag = tag;
    size_t index = emit(Op::message, sends ? "send" : "recv");
    at(index).index = static_cast<int32_t>(out_.messages.size());
    at(index).stream = instr_->stream();
    out_.messages.push_back(code);
  }

  DecodeContext &context_;
  const fb::RankClass &cls_;
  Program &out_;
  const fb::Instr *instr_ = nullptr;
  int32_t depth_ = 0;
  Status status_;
};

} // namespace

Result<Program> decodeProgram(DecodeContext &context, const fb::RankClass &cls,
                              const fb::Program &program) {
  Program out;
  HEDDLE_RT_RETURN_IF_ERROR(Decoder(context, cls, out).decode(program));
  return out;
}

} // namespace heddle::rt
