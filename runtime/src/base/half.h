//===- half.h - 16-bit floating point ---------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BASE_HALF_H
#define HEDDLE_RT_BASE_HALF_H

#include <cstdint>
#include <cstring>

namespace heddle::rt {

inline uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float floatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline float fromBf16(uint16_t value) {
  return floatOf(static_cast<uint32_t>(value) << 16);
}

/// Rounds to nearest, ties to even; NaN stays NaN.
inline uint16_t toBf16(float value) {
  uint32_t bits = bitsOf(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float fromF16(uint16_t value) {
  uint32_t sign = static_cast<uint32_t>(value & 0x8000u) << 16;
  uint32_t rest = value & 0x7fffu;
  if (rest >= 0x7c00u) // infinity and NaN
    return floatOf(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
  if (rest >= 0x0400u)
    return floatOf(sign | ((rest << 13) + ((127u - 15u) << 23)));
  // Subnormal: rest * 2^-24 is exact in float.
  float magnitude = static_cast<float>(rest) * floatOf((127u - 24u) << 23);
  return floatOf(sign | bitsOf(magnitude));
}

/// Rounds to nearest, ties to even; overflows to infinity; NaN stays NaN.
inline uint16_t toF16(float value) {
  uint32_t bits = bitsOf(value);
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00u | ((rest >> 13) & 0x3ffu));
  if (rest >= 0x47800000u) // 2^16 and above
    return static_cast<uint16_t>(sign | 0x7c00u);
  if (rest < 0x38800000u) {
    // Below 2^-14: adding 2^-1 (unit 2^-24) rounds in hardware, to even.
    float shifted = floatOf(rest) + floatOf(126u << 23);
    return static_cast<uint16_t>(sign | (bitsOf(shifted) - (126u << 23)));
  }
  rest += 0xfffu + ((rest >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rest - ((127u - 15u) << 23)) >> 13));
}

} // namespace heddle::rt

#endif // HEDDLE_RT_BASE_HALF_H
