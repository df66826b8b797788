//===- panel16.cpp - Weights in panels of 16 rows -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/panel16.h"

#include "base/checked_math.h"

#include <cstring>

namespace heddle::rt {

static constexpr int64_t kRows = 16, kColumns = 32;

static bool isPlain(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

int64_t panel16Bytes(int64_t rows, int64_t cols, DType dtype) {
  if (!isPlain(dtype) && dtype != DType::q4_0 && dtype != DType::q4_1 &&
      dtype != DType::q8_0)
    return -1;
  int64_t block = isPlain(dtype) ? 1 : kColumns;
  int64_t bytes = 0;
  if (rows < 0 || cols < 0 || cols % block != 0 || rows > INT64_MAX - kRows ||
      !checkedMul(cols / block, blockBytes(dtype), bytes) ||
      !checkedMul((rows + kRows - 1) / kRows * kRows, bytes, bytes))
    return -1;
  return bytes;
}

/// Column 4 * group + j of a nibble block: ggml keeps columns 0 to 15 in low
/// and 16 to 31 in high nibbles.
static uint8_t nibble(const uint8_t *nibbles, int64_t column) {
  uint8_t byte = nibbles[column % 16];
  return column < 16 ? byte & 15 : byte >> 4;
}

/// Spreads one block of one row over a panel's block; `lane` is the row in it.
static void spread(const uint8_t *block, DType dtype, int64_t lane,
                   uint8_t *out) {
  bool hasMinima = dtype == DType::q4_1;
  std::memcpy(out + 2 * lane, block, 2);
  if (hasMinima)
    std::memcpy(out + 2 * (kRows + lane), block + 2, 2);
  const uint8_t *data = block + (hasMinima ? 4 : 2);
  uint8_t *words = out + (hasMinima ? 4 : 2) * kRows + 4 * lane;
  if (dtype == DType::q8_0) {
    for (int64_t c = 0; c < kColumns; ++c)
      words[c / 4 * 4 * kRows + c % 4] = data[c] ^ 0x80;
    return;
  }
  for (int64_t c = 0; c < kColumns; c += 8)
    for (int64_t j = 0; j < 4; ++j)
      words[c / 8 * 4 * kRows + j] = static_cast<uint8_t>(
          nibble(data, c + j) | nibble(data, c + 4 + j) << 4);
}

/// Columns of 16 elements of two bytes.
static void packPlain(const uint8_t *rowMajor, int64_t rows, int64_t cols,
                      uint8_t *out) {
  for (int64_t first = 0; first < rows; first += kRows)
    for (int64_t c = 0; c < cols; ++c)
      for (int64_t row = first; row < first + kRows; ++row, out += 2) {
        if (row < rows)
          std::memcpy(out, rowMajor + 2 * (row * cols + c), 2);
        else
          std::memset(out, 0, 2);
      }
}

void packPanel16(const uint8_t *rowMajor, int64_t rows, int64_t cols,
                 DType dtype, uint8_t *out) {
  if (isPlain(dtype))
    return packPlain(rowMajor, rows, cols, out);
  int64_t blocks = cols / kColumns, size = blockBytes(dtype);
  int64_t padded = (rows + kRows - 1) / kRows * kRows;
  for (int64_t row = 0; row < padded; ++row) {
    uint8_t *panel = out + row / kRows * kRows * blocks * size;
    for (int64_t b = 0; b < blocks; ++b) {
      static constexpr uint8_t zeros[64] = {};
      const uint8_t *block =
          row < rows ? rowMajor + (row * blocks + b) * size : zeros;
      spread(block, dtype, row % kRows, panel + b * kRows * size);
    }
  }
}

} // namespace heddle::rt
