//===- reduction.h - Sums in ascending order --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The arithmetic and the checks that every communicator of ours uses, so that
// their results are the same bits and their messages the same words.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_COMM_REDUCTION_H
#define HEDDLE_RT_COMM_REDUCTION_H

#include "heddle_rt/communicator.h"

namespace heddle::rt {

/// Elements that reduceBlock handles at once.
constexpr int64_t kReductionBlock = 1024;

/// Elements of this type can be reduced.
bool isReducible(DType dtype);

/// Reduces elements [first, first + count) of `sources` into `out` (`count`
/// elements), count <= kReductionBlock. The accumulator starts with sources[0]
/// and takes the others in ascending order; f16 and bf16 are accumulated in
/// fp32 and rounded once, to nearest even; integers wrap around. A NaN wins
/// over numbers in max and min.
void reduceBlock(DType dtype, ReduceOp op, const void *const *sources,
                 int64_t ranks, int64_t first, int64_t count, void *out);

/// "all_reduce", …
const char *collectiveName(CollectiveOp op);
const char *reductionName(ReduceOp op);

/// "all_reduce sum of 128 f32 elements (id 3)"
std::string describe(const CollectiveCall &call);

/// A failure if `call` cannot be right, whatever the other members do.
Status checkCall(int64_t worldSize, int32_t rank, const CollectiveCall &call);

/// Empty if calls of two members of a group fit together, otherwise a message
/// that shows both.
std::string mismatch(const CollectiveCall &a, int32_t rankA,
                     const CollectiveCall &b, int32_t rankB);

} // namespace heddle::rt

#endif // HEDDLE_RT_COMM_REDUCTION_H
