//===- program.h - A program in the form that runs --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decoding turns the FlatBuffer into flat arrays: blocks become jumps, regions
// become offsets in a space, axes become group numbers. It happens once per
// rank class; ranks share the result and bring their own addresses,
// coordinates and scalars.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_EXECUTOR_PROGRAM_H
#define HEDDLE_RT_EXECUTOR_PROGRAM_H

#include "device/cpu/gemm.h"
#include "heddle_rt/bundle.h"
#include "heddle_rt/communicator.h"
#include "heddle_rt/plan_generated.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace heddle::rt {

enum class Op : uint8_t {
  // Scalars: dst = op(a, b, c), imm.
  constant,
  coord,
  table,
  add,
  sub,
  mul,
  floordiv,
  mod,
  min,
  max,
  lt,
  le,
  eq,
  ne,
  select,
  // Work; `index` is a row of the array of that kind.
  launch,
  gemm,
  collective,
  message,
  copy,
  fill,
  syncScalar,
  putScalar,
  wait,        // for event `index`, plus a mod imm where a is set
  awaitStream, // until nothing is in flight on `stream`
  record,      // operands as those of wait
  // Control. `a`, `b` and `dst` are scalars, `index` a loop slot, `target`
  // where to continue.
  forBegin,
  forEnd,
  whileBegin,
  whileEnd,
  branchIfZero,
  jump,
  jumpTable,
  check,
  nothing, // mark
  end,
};

struct Instruction {
  Op op = Op::nothing;
  uint8_t dtype = 0;
  uint8_t stream = 0;
  int32_t dst = -1;
  int32_t a = -1;
  int32_t b = -1;
  int32_t c = -1;
  int32_t index = 0;
  int32_t target = 0;
  int64_t imm = 0;
};

struct AddressTerm {
  int64_t stride;
  int64_t modulus;
  int32_t scalar;
};

struct Address {
  int64_t offset = 0; // in the space
  int64_t bytes = 0;
  int32_t space = 0;
  int32_t firstTerm = 0;
  int32_t terms = 0;
};

struct LaunchCode {
  KernelFn kernel = nullptr;
  int32_t firstAddress = 0;
  int32_t addresses = 0;
  int32_t firstScalar = 0;
  int32_t scalars = 0;
  int32_t tiles = 1;
};

struct GemmCode {
  const PanelGemm *gemm = nullptr;
  int32_t firstAddress = 0; // a, b, c
  int32_t rows = 0;         // scalar
  int64_t maxRows = 0;
  int32_t panels = 1;
};

struct CollectiveCode {
  CollectiveOp op;
  ReduceOp reduction;
  DType dtype;
  int32_t firstAddress = 0; // source, destination
  int32_t elements = 0;     // scalar
  int64_t maxElements = 0;
  int32_t group = 0; // index in the rank's groups
  int32_t id = 0;
  int32_t shift = 0;
  int32_t root = 0;
};

struct MessageCode {
  bool sends;
  int32_t address = 0;
  int32_t peer = 0;
  int32_t tag = 0;
};

/// Where an instruction comes from, for messages and traces.
struct Origin {
  const char *kind = "";
  std::string name; // the source op, kernel, mark or collective
  std::string location;
};

struct TableView {
  const int64_t *data;
  int64_t rows;
  int64_t cols;
};

struct ParamSlot {
  std::string name;
  int32_t scalar;
  int64_t lo;
  int64_t hi;
  int64_t value;
};

struct Program {
  std::string name;
  int32_t scalars = 0;
  int32_t loops = 0;
  int32_t events = 0;
  std::vector<Instruction> code;
  std::vector<Origin> origins; // one per code
  std::vector<Address> addresses;
  std::vector<AddressTerm> terms;
  std::vector<int32_t> scalarLists;
  std::vector<int32_t> jumps;
  std::vector<LaunchCode> launches;
  std::vector<GemmCode> gemms;
  std::vector<CollectiveCode> collectives;
  std::vector<MessageCode> messages;
  std::vector<std::string> checks;
  std::vector<ParamSlot> params;
  int32_t maxAddresses = 0; // of one launch
  int32_t maxScalars = 0;
};

/// What decoding shares between programs.
class DecodeContext {
public:
  DecodeContext(const fb::Plan &plan, std::vector<KernelFn> kernels);

  const fb::Plan &plan() const { return plan_; }
  KernelFn kernel(int32_t index) const;
  const std::vector<TableView> &tables() const { return tables_; }
  /// The number of an axes list; each rank has one group for each.
  int32_t group(const std::vector<int32_t> &axes);
  const std::vector<std::vector<int32_t>> &groups() const { return groups_; }
  Result<const PanelGemm *> gemm(const GemmShape &shape);

private:
  const fb::Plan &plan_;
  std::vector<KernelFn> kernels_;
  std::vector<TableView> tables_;
  std::vector<std::vector<int32_t>> groups_;
  std::map<GemmShape, std::unique_ptr<PanelGemm>> gemms_;
};

Result<Program> decodeProgram(DecodeContext &context, const fb::RankClass &cls,
                              const fb::Program &program);

} // namespace heddle::rt

#endif // HEDDLE_RT_EXECUTOR_PROGRAM_H
