//===- convert.cpp - Storing floats in a given format ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle_rt/convert.h"

#include "base/half.h"

#include <algorithm>
#include <cmath>

namespace heddle::rt {
namespace {

void store16(uint8_t *out, uint16_t value) {
  std::memcpy(out, &value, sizeof(value));
}

/// One block of 32: an f16 scale and 32 signed bytes.
void encodeQ8_0(const float *values, uint8_t *out) {
  float largest = 0;
  for (int i = 0; i < 32; ++i)
    largest = std::max(largest, std::fabs(values[i]));
  float scale = largest / 127.0f;
  float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  store16(out, toF16(scale));
  for (int i = 0; i < 32; ++i) {
    float rounded = std::round(values[i] * inverse);
    // NaN and infinities have no place in a block; they become 0.
    int8_t stored =
        std::fabs(rounded) <= 127.0f ? static_cast<int8_t>(rounded) : int8_t{0};
    out[2 + i] = static_cast<uint8_t>(stored);
  }
}

} // namespace

bool canEncode(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 ||
         dtype == DType::q8_0;
}

void encodeFromFloat(DType dtype, const float *values, int64_t count,
                     uint8_t *out) {
  switch (dtype) {
  case DType::f32:
    if (count > 0)
      std::memcpy(out, values, static_cast<size_t>(count) * 4);
    return;
  case DType::f16:
    for (int64_t i = 0; i < count; ++i)
      store16(out + 2 * i, toF16(values[i]));
    return;
  case DType::bf16:
    for (int64_t i = 0; i < count; ++i)
      store16(out + 2 * i, toBf16(values[i]));
    return;
  case DType::q8_0:
    for (int64_t i = 0; i + 32 <= count; i += 32)
      encodeQ8_0(values + i, out + i / 32 * 34);
    return;
  default:
    return; // excluded by canEncode
  }
}

} // namespace heddle::rt
