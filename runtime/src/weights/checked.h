//===- checked.h - Arithmetic that reports overflow -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes and offsets of a model file are chosen by whoever wrote it, so every
// sum and product of them goes through here.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_WEIGHTS_CHECKED_H
#define HEDDLE_WEIGHTS_CHECKED_H

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

namespace heddle::rt {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "model files are little-endian and are read in place");

inline std::optional<int64_t> checkedAdd(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum))
    return std::nullopt;
  return sum;
}

inline std::optional<int64_t> checkedMul(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product))
    return std::nullopt;
  return product;
}

/// The product of non-negative dimensions. A zero anywhere makes it zero, even
/// if the others overflow.
inline std::optional<int64_t>
checkedElements(const std::vector<int64_t> &shape) {
  std::optional<int64_t> product = 1;
  for (int64_t dim : shape) {
    if (dim == 0)
      return 0;
    if (product)
      product = checkedMul(*product, dim);
  }
  return product;
}

/// Reads a T that may be unaligned.
template <typename T> T loadUnaligned(const uint8_t *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

} // namespace heddle::rt

#endif // HEDDLE_WEIGHTS_CHECKED_H
