//===- FixedPoint.h - A row of activations in four bytes --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A product of one fp32 row with quantised weights is bound by what turns
// integers to fp32. Here the row is turned instead: each block of 32 elements
// becomes fixed-point numbers of 30 bits below its largest magnitude, in four
// signed digits of base 256, whose integer dot products with the weights are
// exact. An element is off by at most 2^-31 of the block's largest, a 64th of
// what fp32 rounds off that one.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TARGET_CPU_FIXEDPOINT_H
#define HEDDLE_LIB_TARGET_CPU_FIXEDPOINT_H

#include "KernelBuilder.h"

namespace mlir::heddle::cpu {

class FixedPointRow {
public:
  static constexpr int64_t kDigits = 4;

  FixedPointRow() = default;
  /// Emits the conversion of the one row of `input`, to scratch memory. Needs
  /// dot products of bytes (TargetRecord::vnni).
  static FixedPointRow emit(KernelBuilder &b, const Buffer &input,
                            int64_t blocks);

  /// x = scale(block) * (d0 + 256 d1 + 256^2 d2 + 256^3 d3). A digit of columns
  /// 4 * group to 4 * group + 3, in the bytes of an i32.
  Value digits(KernelBuilder &b, Value block, int64_t group, int64_t digit);
  /// The sum of a digit over the block, i32.
  Value digitSum(KernelBuilder &b, Value block, int64_t digit);
  /// A power of two; NaN if an element is infinite or NaN, and so is all that
  /// it scales.
  Value scale(KernelBuilder &b, Value block);
  /// The sum of the block's elements, fp32.
  Value sum(KernelBuilder &b, Value block);

private:
  static constexpr int64_t kElements = 32;
  // Words of a block: digits, their sums, the scale, the sum; whole cache
  // lines.
  static constexpr int64_t kSums = kElements, kScale = kSums + kDigits,
                           kSum = kScale + 1, kWords = 48;
  Buffer words;

  void emitBlock(KernelBuilder &b, const Buffer &input, Value block);
  Value word(KernelBuilder &b, Value block, int64_t at);
};

} // namespace mlir::heddle::cpu

#endif // HEDDLE_LIB_TARGET_CPU_FIXEDPOINT_H
