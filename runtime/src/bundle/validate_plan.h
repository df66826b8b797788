//===- validate_plan.h - Refusing plans that cannot run ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A plan comes from a file and is not trusted: after these checks the executor
// indexes and addresses without looking. What depends on run-time values and
// is not provable here (trip counts, element counts, table indices, selectors)
// the executor checks as it goes.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BUNDLE_VALIDATE_PLAN_H
#define HEDDLE_RT_BUNDLE_VALIDATE_PLAN_H

#include "base/text.h"
#include "heddle_rt/plan_generated.h"
#include "heddle_rt/status.h"
#include "heddle_rt/weights.h"

#include <optional>
#include <string_view>

namespace heddle::rt {

/// Limits of a plan. They bound the work of checking and the sizes of the
/// executor's per-rank buffers; no real plan comes near them.
struct PlanLimits {
  static constexpr int64_t worldSize = int64_t{1} << 20;
  static constexpr int64_t axes = 32;
  static constexpr int64_t spaces = 16;
  static constexpr int64_t scalars = 1 << 16;
  static constexpr int64_t operands = 256;
  static constexpr int64_t terms = 16;
  static constexpr int64_t tiles = 0xffff;
  static constexpr int64_t blockDepth = 64;
  static constexpr int64_t events = 1 << 16;
  static constexpr int64_t streams = 8;
  static constexpr int64_t dims = 8;
  static constexpr int64_t bytes = int64_t{1} << 46;
  static constexpr int64_t trips = int64_t{1} << 40;
  /// Things looked at while checking.
  static constexpr int64_t work = int64_t{1} << 24;
};

/// Verifies the FlatBuffer in `bytes` and what it means.
Result<const fb::Plan *> verifyPlan(std::string_view bytes);

/// The product of the axis sizes of a verified plan.
int64_t worldSizeOf(const fb::Plan &plan);

/// The value's DType if it is one.
std::optional<DType> knownDType(fb::DType type);

/// Can be an operand of a reduction.
bool isReducible(fb::DType type);

// The three parts of verifyPlan; each relies on the former.

/// Every index, size and count (validate_plan.cpp).
void validateStructure(const fb::Plan &plan, int64_t planBytes,
                       ProblemList &problems);
/// The instructions of one program (validate_instructions.cpp).
void validateInstructions(const fb::Plan &plan, const fb::RankClass &cls,
                          const fb::Program &program, ProblemList &problems,
                          int64_t &work);
/// Operands stay inside their regions for all values that scalars can take
/// (validate_ranges.cpp).
void validateRanges(const fb::Plan &plan, const fb::RankClass &cls,
                    const fb::Program &program, ProblemList &problems,
                    int64_t &work);

/// Index, sizes and terms of an operand; `scalars` is 0 where only fixed
/// addresses are allowed. True if it is usable.
bool checkOperand(const fb::RankClass &cls, const fb::Operand &operand,
                  int64_t scalars, const std::string &where,
                  ProblemList &problems, int64_t &work);

template <typename T> int64_t sizeOf(const T *vector) {
  return vector ? static_cast<int64_t>(vector->size()) : 0;
}

} // namespace heddle::rt

#endif // HEDDLE_RT_BUNDLE_VALIDATE_PLAN_H
