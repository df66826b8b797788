//===- TileRegisters.h - Loads, stores and products of tiles ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Intel 64 and IA-32 Architectures Software Developer's Manual, vol. 1, ch. 18.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TARGET_CPU_TILEREGISTERS_H
#define HEDDLE_LIB_TARGET_CPU_TILEREGISTERS_H

#include "KernelBuilder.h"

namespace mlir::heddle::cpu {

/// A tile register: up to 16 rows of up to 64 bytes. LLVM finds registers and
/// configures them; all tiles that share one must have one shape.
struct TileShape {
  int64_t rows, bytes;
};

/// Rows in memory that a tile is read from or written to.
struct TileMemory {
  Value pointer;
  int64_t strideBytes;

  /// From element `at` of the buffer on.
  static TileMemory get(KernelBuilder &b, const Buffer &buffer, Value at,
                        int64_t strideBytes);
};

Value zeroTile(KernelBuilder &b, TileShape shape);
Value loadTile(KernelBuilder &b, TileMemory from, TileShape shape);
void storeTile(KernelBuilder &b, TileMemory to, TileShape shape, Value tile);

enum class TileProduct { Int8, BF16 };
/// sum + a w. `sum` has a's rows; 32 bits of a row of `a` are four int8 or two
/// bf16 columns, of which a row of `w` holds the elements of all of w's
/// columns.
Value multiplyTiles(KernelBuilder &b, TileProduct kind, Value sum, Value a,
                    TileShape aShape, Value w, int64_t wBytes);

} // namespace mlir::heddle::cpu

#endif // HEDDLE_LIB_TARGET_CPU_TILEREGISTERS_H
