//===- checked_math.h - Arithmetic that cannot overflow unseen --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BASE_CHECKED_MATH_H
#define HEDDLE_RT_BASE_CHECKED_MATH_H

#include <cstdint>

namespace heddle::rt {

/// Sets `out` to a * b; false if that does not fit.
inline bool checkedMul(int64_t a, int64_t b, int64_t &out) {
  return !__builtin_mul_overflow(a, b, &out);
}

/// Sets `out` to a + b; false if that does not fit.
inline bool checkedAdd(int64_t a, int64_t b, int64_t &out) {
  return !__builtin_add_overflow(a, b, &out);
}

inline int64_t ceilDiv(int64_t a, int64_t b) {
  return a / b + (a % b > 0 ? 1 : 0);
}

/// Rounds towards minus infinity. `b` is not 0; the one quotient that does not
/// fit wraps around.
inline int64_t floorDiv(int64_t a, int64_t b) {
  if (b == -1)
    return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  int64_t q = a / b;
  return q - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

/// The remainder of floorDiv: its sign is that of `b`. `b` is not 0.
inline int64_t floorMod(int64_t a, int64_t b) {
  if (b == -1)
    return 0;
  int64_t r = a % b;
  return r + ((r != 0 && (r < 0) != (b < 0)) ? b : 0);
}

/// Two's complement arithmetic without undefined behaviour.
inline int64_t wrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) +
                              static_cast<uint64_t>(b));
}
inline int64_t wrapSub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) -
                              static_cast<uint64_t>(b));
}
inline int64_t wrapMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) *
                              static_cast<uint64_t>(b));
}

} // namespace heddle::rt

#endif // HEDDLE_RT_BASE_CHECKED_MATH_H
