//===- packing.h - Storage formats of weights -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A packing says how the rows x cols elements of a parameter lie in the arena.
// Formats are named and versioned ("row_major@1"), sized by a formula that the
// compiler uses for the arena map and the runtime for its checks, and filled
// from row-major data at load. A bundle that names an unknown one is refused.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_PACKING_H
#define HEDDLE_RT_PACKING_H

#include "heddle_rt/weights.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::rt {

struct Packing {
  const char *name;
  /// Bytes of rows x cols elements; -1 if the format cannot hold them (its
  /// block does not divide `cols`, the type is not supported) or the product
  /// overflows.
  int64_t (*bytes)(int64_t rows, int64_t cols, DType dtype);
  /// Fills `out` (`bytes(…)` long) from row-major elements of the same type.
  /// Null if packed data are the row-major data themselves.
  void (*pack)(const uint8_t *rowMajor, int64_t rows, int64_t cols, DType dtype,
               uint8_t *out);
};

/// The format of that name; null if this runtime does not know it.
const Packing *findPacking(std::string_view name);

/// Every known name, for messages.
std::vector<std::string> packingNames();

} // namespace heddle::rt

#endif // HEDDLE_RT_PACKING_H
