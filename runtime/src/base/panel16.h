//===- panel16.h - Weights in panels of 16 rows -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The packing `panel16@1`, for f16, bf16, q8_0, q4_0 and q4_1: rows in panels
// of 16, the last one padded with zeros. A panel of 16-bit floats is its
// columns in order, 16 elements each. A quantised one is its blocks of 32
// columns in order; a block of 16 rows is
//
//   16 x f16   scales
//   16 x f16   minima (q4_1 only)
//   words      q8_0: 8 groups g of 16 words; word r is the bytes of row r,
//              columns 4g to 4g + 3, each plus 128
//              q4_0, q4_1: 4 groups g of 16 words; word r is row r, byte j has
//              column 8g + j in its low and column 8g + 4 + j in its high
//              nibble
//
// so that a vector of words holds four columns of 16 rows, which is what an
// instruction that multiplies and adds unsigned by signed bytes reads.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_SRC_BASE_PANEL16_H
#define HEDDLE_RT_SRC_BASE_PANEL16_H

#include "heddle_rt/weights.h"

#include <cstdint>

namespace heddle::rt {

/// As in struct Packing (heddle_rt/packing.h).
int64_t panel16Bytes(int64_t rows, int64_t cols, DType dtype);
void packPanel16(const uint8_t *rowMajor, int64_t rows, int64_t cols,
                 DType dtype, uint8_t *out);

} // namespace heddle::rt

#endif // HEDDLE_RT_SRC_BASE_PANEL16_H
