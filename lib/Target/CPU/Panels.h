//===- Panels.h - Reading weights in panels of 16 rows ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The format `panel16@1` (HeddleAttrs.td, heddle_rt/packing.h): lanes are rows.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TARGET_CPU_PANELS_H
#define HEDDLE_LIB_TARGET_CPU_PANELS_H

#include "KernelBuilder.h"

namespace mlir::heddle::cpu {

/// Where the parts of a panel lie. Plain ones (16-bit floats) are columns of 16
/// elements; others are blocks of kColumns columns, in bytes.
struct PanelFormat {
  static constexpr int64_t kRows = PackingAttr::kPanelRows;
  static constexpr int64_t kColumns = 32;
  bool plain;
  bool nibbles;
  /// Values are scale * integer + minimum; else scale * (integer - zero).
  bool hasMinima;
  /// What an unsigned stored integer has too much.
  int64_t zero;

  static PanelFormat get(Type element);
  int64_t wordsAt() const { return kRows * (hasMinima ? 4 : 2); }
  int64_t words() const { return nibbles ? 4 : 8; }
  int64_t bytes() const { return wordsAt() + words() * kRows * 4; }
};

/// Reads a packed matrix of `columns` columns. A panel's 16 rows are `subs()`
/// vectors of lanes.
class PanelReader {
public:
  PanelReader(KernelBuilder &b, const Buffer &matrix, int64_t columns)
      : format(PanelFormat::get(matrix.element)), b(b), matrix(matrix),
        columns(columns), blocks(columns / PanelFormat::kColumns) {}

  const PanelFormat format;
  int64_t subs() const { return PanelFormat::kRows / b.lanes(); }

  /// First element of a column of a plain panel; its elements, fp32.
  Value columnAt(Value panel, Value column);
  Value elements(Value at, int64_t sub);
  /// First byte of a block.
  Value blockAt(Value panel, Value block);
  /// Scales, minima of the rows, fp32.
  Value scales(Value at, int64_t sub);
  Value minima(Value at, int64_t sub);
  /// The stored words of a block, i32.
  SmallVector<Value> load(Value at, int64_t sub);
  /// Four consecutive columns from 4 * group as unsigned bytes of i32.
  Value quad(ArrayRef<Value> words, int64_t group);
  /// A column's integers less `zero`, as fp32.
  Value column(ArrayRef<Value> words, int64_t column);

  /// As many consecutive elements of one row as there are lanes, from a column
  /// that is a multiple of the lanes. `mask`: those that exist; null: all.
  Value row(Value row, Value column, Value mask);

private:
  KernelBuilder &b;
  const Buffer &matrix;
  int64_t columns, blocks;

  Value halves(Value at, int64_t offset, int64_t sub);
  Value word(Value at);
};

/// Lanes from column `column` of a result on that its `n` columns have, of a
/// panel or a part of one; null: all.
Value lanesOfPanel(KernelBuilder &b, Value column, int64_t n);

} // namespace mlir::heddle::cpu

#endif // HEDDLE_LIB_TARGET_CPU_PANELS_H
