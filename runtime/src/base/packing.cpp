//===- packing.cpp - Storage formats of weights ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle_rt/packing.h"

#include "base/checked_math.h"
#include "base/panel16.h"

namespace heddle::rt {
namespace {

int64_t rowMajorBytes(int64_t rows, int64_t cols, DType dtype) {
  int64_t block = blockElements(dtype);
  int64_t bytes = 0;
  if (rows < 0 || cols < 0 || cols % block != 0 ||
      !checkedMul(cols / block, blockBytes(dtype), bytes) ||
      !checkedMul(bytes, rows, bytes))
    return -1;
  return bytes;
}

// A format is added by one line here and its two functions in a file of their
// own.
constexpr Packing kPackings[] = {
    {"row_major@1", rowMajorBytes, /*pack=*/nullptr},
    {"panel16@1", panel16Bytes, packPanel16},
};

} // namespace

const Packing *findPacking(std::string_view name) {
  for (const Packing &packing : kPackings)
    if (name == packing.name)
      return &packing;
  return nullptr;
}

std::vector<std::string> packingNames() {
  std::vector<std::string> names;
  for (const Packing &packing : kPackings)
    names.push_back(packing.name);
  return names;
}

} // namespace heddle::rt
