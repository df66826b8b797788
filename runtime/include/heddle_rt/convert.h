//===- convert.h - Storing floats in a given format -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BASE_CONVERT_H
#define HEDDLE_RT_BASE_CONVERT_H

#include "heddle_rt/weights.h"

namespace heddle::rt {

/// encodeFromFloat supports the format.
bool canEncode(DType dtype);

/// Stores `count` floats (a multiple of the block) as `dtype`: f16 and bf16
/// round to nearest even; blocks are ggml's, with the scales that put the value
/// furthest from 0 (of q4_1 and q5_1: both ends) on a code.
void encodeFromFloat(DType dtype, const float *values, int64_t count,
                     uint8_t *out);

} // namespace heddle::rt

#endif // HEDDLE_RT_BASE_CONVERT_H
