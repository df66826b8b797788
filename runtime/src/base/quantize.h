//===- quantize.h - Floats to blocks of integers ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The formats of ggml's blocks (dtype.cpp reads them). Codes are rounded to the
// nearest one, given the scales: good enough for values that are drawn, and for
// q8_0; tools that prepare 4-bit models search for better scales.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_SRC_BASE_QUANTIZE_H
#define HEDDLE_RT_SRC_BASE_QUANTIZE_H

#include "heddle_rt/weights.h"

namespace heddle::rt {

/// Writes one block of `blockElements` values, `blockBytes` bytes.
using EncodeBlock = void (*)(const float *values, uint8_t *out);

/// Null for formats without an encoder, and for plain ones.
EncodeBlock blockEncoder(DType dtype);

} // namespace heddle::rt

#endif // HEDDLE_RT_SRC_BASE_QUANTIZE_H
