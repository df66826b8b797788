//===- quantize.cpp - Floats to blocks of integers ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/quantize.h"

#include "base/half.h"

#include <algorithm>
#include <cmath>

namespace heddle::rt {
namespace {

/// Stores `value` as f16 and returns what a reader gets.
float store16(uint8_t *out, float value) {
  uint16_t half = toF16(value);
  std::memcpy(out, &half, sizeof(half));
  return fromF16(half);
}

/// The nearest code to value / scale + zero. NaN and infinities have no place
/// in a block; they become `zero`.
int nearest(float value, float scale, int zero, int lo, int hi) {
  float code = scale != 0 ? std::round(value / scale) : 0.0f;
  if (!std::isfinite(code))
    return zero;
  return static_cast<int>(std::clamp(code + static_cast<float>(zero),
                                     static_cast<float>(lo),
                                     static_cast<float>(hi)));
}

/// The value that is furthest from 0, with its sign.
float extreme(const float *values, int count) {
  float result = 0;
  for (int i = 0; i < count; ++i)
    if (std::fabs(values[i]) > std::fabs(result))
      result = values[i];
  return result;
}

/// A scale and 32 signed bytes.
void encodeQ8_0(const float *values, uint8_t *out) {
  float scale = std::fabs(extreme(values, 32)) / 127.0f;
  float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  store16(out, scale);
  for (int i = 0; i < 32; ++i) {
    float rounded = std::round(values[i] * inverse);
    int8_t stored =
        std::fabs(rounded) <= 127.0f ? static_cast<int8_t>(rounded) : int8_t{0};
    out[2 + i] = static_cast<uint8_t>(stored);
  }
}

/// q4_0 to q5_1: a scale, perhaps a minimum, perhaps fifth bits, then nibbles:
/// element i < 16 in the low half of byte i, element 16 + i in its high half.
template <int kBits, bool kMinimum>
void encodeNibbles(const float *values, uint8_t *out) {
  constexpr int kLast = (1 << kBits) - 1, kHalf = 1 << (kBits - 1);
  float scale, minimum = 0;
  if (kMinimum) {
    auto [lo, hi] = std::minmax_element(values, values + 32);
    scale = store16(out, (*hi - *lo) / kLast);
    minimum = store16(out + 2, *lo);
    out += 4;
  } else {
    // The extreme value gets code 0, which is one step further than the last.
    scale = store16(out, extreme(values, 32) / -kHalf);
    out += 2;
  }
  uint32_t fifth = 0;
  int codes[32];
  for (int i = 0; i < 32; ++i) {
    codes[i] =
        nearest(values[i] - minimum, scale, kMinimum ? 0 : kHalf, 0, kLast);
    fifth |= static_cast<uint32_t>(codes[i] >> 4) << i;
  }
  if (kBits == 5) {
    std::memcpy(out, &fifth, sizeof(fifth));
    out += 4;
  }
  for (int i = 0; i < 16; ++i)
    out[i] = static_cast<uint8_t>((codes[i] & 15) | (codes[i + 16] & 15) << 4);
}

/// 256 elements in groups of 16 with signed bytes as scales, all times one f16.
/// Each half of 128 elements is four quarters of 32: 64 bytes hold the low
/// nibbles of quarters 0 and 1 in their low, 2 and 3 in their high half, 32
/// bytes the upper two bits of quarter q at bit 2 q.
void encodeQ6_K(const float *values, uint8_t *out) {
  float scales[16], largest = 0;
  for (int group = 0; group < 16; ++group) {
    scales[group] = extreme(values + 16 * group, 16) / -32;
    largest = std::max(largest, std::fabs(scales[group]));
  }
  std::memset(out, 0, 210);
  float unit = store16(out + 208, largest / 127);
  for (int group = 0; group < 16; ++group) {
    int scale = nearest(scales[group], unit, 0, -127, 127);
    out[192 + group] = static_cast<uint8_t>(static_cast<int8_t>(scale));
    for (int i = 0; i < 16; ++i) {
      int element = 16 * group + i;
      int code =
          nearest(values[element], unit * static_cast<float>(scale), 32, 0, 63);
      int half = element / 128, quarter = element % 128 / 32;
      int column = element % 32;
      out[half * 64 + quarter % 2 * 32 + column] |=
          static_cast<uint8_t>((code & 15) << (quarter / 2 * 4));
      out[128 + half * 32 + column] |=
          static_cast<uint8_t>((code >> 4) << (2 * quarter));
    }
  }
}

} // namespace

EncodeBlock blockEncoder(DType dtype) {
  switch (dtype) {
  case DType::q4_0:
    return encodeNibbles<4, false>;
  case DType::q4_1:
    return encodeNibbles<4, true>;
  case DType::q5_0:
    return encodeNibbles<5, false>;
  case DType::q5_1:
    return encodeNibbles<5, true>;
  case DType::q8_0:
    return encodeQ8_0;
  case DType::q6_k:
    return encodeQ6_K;
  default:
    return nullptr;
  }
}

} // namespace heddle::rt
