//===- Philox.h - Counter-based random numbers ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_REFERENCE_PHILOX_H
#define HEDDLE_REFERENCE_PHILOX_H

#include <array>
#include <cstdint>

namespace mlir::heddle::reference {

/// Philox-4x32-10: four random words for each counter and key, with no state
/// (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2,
/// 3", SC'11).
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                   std::array<uint32_t, 2> key);

} // namespace mlir::heddle::reference

#endif // HEDDLE_REFERENCE_PHILOX_H
