//===- Philox.h - Counter-based random numbers in kernels -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TARGET_CPU_PHILOX_H
#define HEDDLE_LIB_TARGET_CPU_PHILOX_H

#include "KernelBuilder.h"

#include <array>

namespace mlir::heddle::cpu {

/// Philox-4x32-10 (Salmon et al., SC'11): four random i32 of a counter and key
/// of i32 scalars.
std::array<Value, 4> buildPhilox(KernelBuilder &b, std::array<Value, 4> counter,
                                 std::array<Value, 2> key);

} // namespace mlir::heddle::cpu

#endif // HEDDLE_LIB_TARGET_CPU_PHILOX_H
