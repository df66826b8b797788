//===- ArgmaxLanes.h - The largest of many, lane by lane --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TARGET_CPU_ARGMAXLANES_H
#define HEDDLE_LIB_TARGET_CPU_ARGMAXLANES_H

#include "KernelBuilder.h"

namespace mlir::heddle::cpu {

/// The largest value and its index, fp32 and i32: in each lane while a sweep
/// goes on. Ties go to the lower index; NaN is never chosen.
struct Best {
  Value value, index;

  /// Nothing yet, which even -inf beats.
  static Best none(KernelBuilder &b);
  /// Takes the lanes of `x`, which lie at `column` and after it.
  void accumulate(KernelBuilder &b, Value x, Value column, Value mask);
  /// Takes another one's lanes, of higher or lower indices.
  void join(KernelBuilder &b, Best other);
  /// Of all lanes, as scalars; -inf and 0 if all were NaN.
  Best reduce(KernelBuilder &b) const;
};

} // namespace mlir::heddle::cpu

#endif // HEDDLE_LIB_TARGET_CPU_ARGMAXLANES_H
