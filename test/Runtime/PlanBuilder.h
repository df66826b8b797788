//===- PlanBuilder.h - Plans for tests --------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Short ways to say what plans hold. A test builds a fb::PlanT, `pack` makes a
// bundle of it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_PLANBUILDER_H
#define HEDDLE_TEST_RUNTIME_PLANBUILDER_H

#include "heddle_rt/bundle.h"
#include "heddle_rt/communicator.h"
#include "heddle_rt/plan_generated.h"
#include "heddle_rt/session.h"

#include <string>
#include <utility>
#include <vector>

namespace heddle::rt::test {

using Instr = std::unique_ptr<fb::InstrT>;
using Operand = std::unique_ptr<fb::OperandT>;

/// Indices of the kernels that `Builder` declares (test_kernels.c).
enum Kernel : int32_t { kAdd, kAffine, kCount, kNothing, kMeet };

/// A plan with one class, one space and one program "main", to be extended.
class Builder {
public:
  /// `axes`: names and sizes of the mesh.
  explicit Builder(std::vector<std::pair<std::string, int32_t>> axes = {});

  fb::PlanT plan;

  fb::RankClassT &cls() { return *plan.classes[0]; }
  fb::ProgramT &program(size_t index = 0) { return *cls().programs[index]; }

  /// Adds a region to space 0, 64-byte aligned, and returns its index.
  int32_t region(int64_t bytes);
  int32_t scalar() { return program().scalars++; }
  int32_t table(int64_t rows, int64_t cols, std::vector<int64_t> data);
  int32_t string(const std::string &text);
  /// A parameter and its scalar.
  int32_t param(const std::string &name, int64_t lo, int64_t hi,
                int64_t initial);

  // Appending to the innermost open block.
  fb::InstrT &add(fb::BodyUnion body);
  template <typename T> fb::InstrT &emit(T body) {
    fb::BodyUnion any;
    any.Set(std::move(body));
    return add(std::move(any));
  }
  int32_t constant(int64_t value);
  int32_t coord(int32_t axis);
  int32_t arith(fb::ScalarOp op, int32_t a, int32_t b, int32_t c = -1);
  void set(int32_t dst, fb::ScalarOp op, int32_t a, int32_t b, int32_t c = -1,
           int64_t imm = 0);
  fb::InstrT &launch(Kernel kernel, std::vector<Operand> operands,
                     std::vector<int32_t> scalars, int32_t tiles = 1);
  fb::InstrT &collective(fb::CollectiveKind kind, Operand source,
                         Operand destination, int32_t elements,
                         int64_t maxElements, std::vector<int32_t> axes,
                         int32_t id = 0, fb::DType dtype = fb::DType_f32);
  /// Returns the loop variable; `end` closes.
  int32_t beginFor(int32_t lo, int32_t hi, int64_t maxTrips);
  void beginWhile(int32_t condition, int64_t maxTrips);
  void beginIf(int32_t condition);
  void beginElse();
  void beginCase(int32_t selector);
  /// Starts block number 0, 1, … of the case.
  void beginBlock();
  void end();

  void input(const std::string &name, Operand operand, fb::DType dtype,
             std::vector<fb::DimShardT> dims);
  void output(const std::string &name, Operand operand, fb::DType dtype,
              std::vector<fb::DimShardT> dims);

  /// The finished plan as bytes of a bundle; `kernels` adds test_kernels.
  std::vector<uint8_t> pack(bool kernels = true);
  std::shared_ptr<const Bundle> bundle();

private:
  std::vector<fb::BlockT *> open_;
  std::vector<fb::CaseT *> cases_;
};

template <typename... Operands>
std::vector<Operand> operands(Operands... operand) {
  std::vector<Operand> list;
  (list.push_back(std::move(operand)), ...);
  return list;
}

Operand at(int32_t region, int64_t base, int64_t bytes,
           std::vector<fb::Term> terms = {});

/// A dimension that every rank holds whole.
fb::DimShardT whole(int64_t size);
/// A dimension cut over axes in blocks.
fb::DimShardT cut(int64_t size, int64_t unit, int64_t slots,
                  std::vector<int32_t> axes, int32_t map = -1);

HostTensor floats(std::vector<int64_t> shape, const std::vector<float> &values);
std::vector<float> asFloats(const HostTensor &tensor);

/// The bytes of test_kernels.so.
std::string testKernels();

/// A bundle's session over in-process ranks.
struct TestSession {
  std::unique_ptr<Communicator> comm;
  std::unique_ptr<Session> session;

  TestSession(std::shared_ptr<const Bundle> bundle,
              SessionOptions options = {});
  Session *operator->() { return session.get(); }
};

} // namespace heddle::rt::test

#endif // HEDDLE_TEST_RUNTIME_PLANBUILDER_H
