//===- interval.h - Sets of values that a scalar can take -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BUNDLE_INTERVAL_H
#define HEDDLE_RT_BUNDLE_INTERVAL_H

#include "base/checked_math.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace heddle::rt {

/// All integers from lo to hi. Results that leave int64 are unknown, since the
/// executor's arithmetic wraps around.
struct Interval {
  int64_t lo = 0;
  int64_t hi = 0;

  static constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

  static Interval unknown() { return {kMin, kMax}; }
  static Interval exactly(int64_t value) { return {value, value}; }

  bool operator==(const Interval &other) const {
    return lo == other.lo && hi == other.hi;
  }
  bool isZero() const { return lo == 0 && hi == 0; }
  bool hasZero() const { return lo <= 0 && hi >= 0; }

  Interval join(const Interval &other) const {
    return {std::min(lo, other.lo), std::max(hi, other.hi)};
  }
};

inline Interval intervalOf(__int128 lo, __int128 hi) {
  if (lo < Interval::kMin || hi > Interval::kMax)
    return Interval::unknown();
  return {static_cast<int64_t>(lo), static_cast<int64_t>(hi)};
}

inline Interval operator+(const Interval &a, const Interval &b) {
  return intervalOf(__int128{a.lo} + b.lo, __int128{a.hi} + b.hi);
}
inline Interval operator-(const Interval &a, const Interval &b) {
  return intervalOf(__int128{a.lo} - b.hi, __int128{a.hi} - b.lo);
}
inline Interval operator*(const Interval &a, const Interval &b) {
  __int128 products[] = {__int128{a.lo} * b.lo, __int128{a.lo} * b.hi,
                         __int128{a.hi} * b.lo, __int128{a.hi} * b.hi};
  return intervalOf(*std::min_element(products, products + 4),
                    *std::max_element(products, products + 4));
}

inline Interval floorDivInterval(const Interval &a, const Interval &b) {
  if (b.hi <= 0)
    return Interval::unknown();
  // Division by 0 stops the rank; by negative values nobody divides.
  if (b.lo < 0)
    return Interval::unknown();
  int64_t least = std::max<int64_t>(b.lo, 1);
  int64_t quotients[] = {floorDiv(a.lo, least), floorDiv(a.lo, b.hi),
                         floorDiv(a.hi, least), floorDiv(a.hi, b.hi)};
  return {*std::min_element(quotients, quotients + 4),
          *std::max_element(quotients, quotients + 4)};
}

inline Interval floorModInterval(const Interval &a, const Interval &b) {
  if (b.hi <= 0 || b.lo < 0)
    return Interval::unknown();
  if (a.lo >= 0 && a.hi < b.lo)
    return a;
  return {0, a.lo >= 0 ? std::min(a.hi, b.hi - 1) : b.hi - 1};
}

} // namespace heddle::rt

#endif // HEDDLE_RT_BUNDLE_INTERVAL_H
