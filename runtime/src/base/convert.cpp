//===- convert.cpp - Storing floats in a given format ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle_rt/convert.h"

#include "base/half.h"
#include "base/quantize.h"

namespace heddle::rt {
namespace {

void store16(uint8_t *out, uint16_t value) {
  std::memcpy(out, &value, sizeof(value));
}

} // namespace

bool canEncode(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 ||
         blockEncoder(dtype);
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
  default:
    // None: excluded by canEncode.
    if (EncodeBlock encode = blockEncoder(dtype))
      for (int64_t n = blockElements(dtype); count >= n; count -= n) {
        encode(values, out);
        values += n;
        out += blockBytes(dtype);
      }
  }
}

} // namespace heddle::rt
