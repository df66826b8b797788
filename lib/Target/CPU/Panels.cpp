//===- Panels.cpp - Reading weights in panels of 16 rows ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Panels.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

PanelFormat PanelFormat::get(Type element) {
  if (isa<FloatType>(element))
    return {/*plain=*/true, /*nibbles=*/false, /*hasMinima=*/false, /*zero=*/0};
  if (isa<Q8_0Type>(element))
    return {false, /*nibbles=*/false, /*hasMinima=*/false, /*zero=*/128};
  if (isa<Q4_0Type>(element))
    return {false, /*nibbles=*/true, /*hasMinima=*/false, /*zero=*/8};
  assert(isa<Q4_1Type>(element) && "PackingAttr::canHold");
  return {false, /*nibbles=*/true, /*hasMinima=*/true, /*zero=*/0};
}

Value cpu::lanesOfPanel(KernelBuilder &b, Value column, int64_t n) {
  if (n % PanelFormat::kRows == 0)
    return {};
  Value left = b.toI32(b.isub(b.index(n), column));
  return b.icmp(arith::CmpIPredicate::slt, b.iota(), b.splat(left));
}

Value PanelReader::columnAt(Value panel, Value column) {
  return b.imul(b.iadd(b.imul(panel, columns), column), PanelFormat::kRows);
}

Value PanelReader::elements(Value at, int64_t sub) {
  return b.loadLanes(matrix, b.iadd(at, sub * b.lanes()));
}

Value PanelReader::blockAt(Value panel, Value block) {
  return b.imul(b.iadd(b.imul(panel, blocks), block), format.bytes());
}

Value PanelReader::halves(Value at, int64_t offset, int64_t sub) {
  auto bytes = VectorType::get({2 * b.lanes()}, b.getI8Type());
  Value raw = vector::LoadOp::create(
      b, bytes, matrix.memref,
      ValueRange{b.iadd(at, offset + sub * 2 * b.lanes())});
  Value half = b.bitcastVector(raw, b.lanesOf(b.getF16Type()));
  return arith::ExtFOp::create(b, b.lanesOf(b.getF32Type()), half);
}

Value PanelReader::scales(Value at, int64_t sub) { return halves(at, 0, sub); }

Value PanelReader::minima(Value at, int64_t sub) {
  return halves(at, 2 * PanelFormat::kRows, sub);
}

SmallVector<Value> PanelReader::load(Value at, int64_t sub) {
  auto bytes = VectorType::get({4 * b.lanes()}, b.getI8Type());
  SmallVector<Value> words;
  for (int64_t w = 0; w < format.words(); ++w) {
    int64_t offset =
        format.wordsAt() + 4 * (w * PanelFormat::kRows + sub * b.lanes());
    Value raw = vector::LoadOp::create(b, bytes, matrix.memref,
                                       ValueRange{b.iadd(at, offset)});
    words.push_back(b.bitcastVector(raw, b.lanesOf(b.getI32Type())));
  }
  return words;
}

Value PanelReader::quad(ArrayRef<Value> words, int64_t group) {
  if (!format.nibbles)
    return words[group];
  Value word = words[group / 2];
  if (group % 2)
    word = b.shiftRight(word, b.constantInt(word.getType(), 4));
  return b.iand(word, 0x0f0f0f0f);
}

Value PanelReader::column(ArrayRef<Value> words, int64_t column) {
  auto shifted = [&](Value v, int64_t bits) {
    return bits ? b.shiftRight(v, b.constantInt(v.getType(), bits)) : v;
  };
  int64_t byte = column % 4;
  if (format.nibbles) {
    Value word = shifted(words[column / 8], 8 * byte + 4 * (column % 8 / 4));
    SmallVector<float> values;
    for (int64_t i = 0; i < 16; ++i)
      values.push_back(static_cast<float>(i - format.zero));
    return b.lookup16(values, word);
  }
  // Signed bytes of the whole word, then the byte to the top and down again.
  Value word = words[column / 4];
  Value flipped = arith::XOrIOp::create(
      b, word, b.constantInt(word.getType(), static_cast<int32_t>(0x80808080)));
  Value top = byte == 3 ? flipped : b.shiftLeft(flipped, 24 - 8 * byte);
  Value integer =
      arith::ShRSIOp::create(b, top, b.constantInt(top.getType(), 24));
  return arith::SIToFPOp::create(b, b.lanesOf(b.getF32Type()), integer);
}

//===----------------------------------------------------------------------===//
// One row
//===----------------------------------------------------------------------===//

Value PanelReader::word(Value at) {
  auto bytes = VectorType::get({4}, b.getI8Type());
  Value raw = vector::LoadOp::create(b, bytes, matrix.memref, ValueRange{at});
  return vector::ExtractOp::create(
      b, b.bitcastVector(raw, VectorType::get({1}, b.getI32Type())),
      ArrayRef<int64_t>{0});
}

Value PanelReader::row(Value row, Value column, Value mask) {
  Value inPanel = b.irem(row, PanelFormat::kRows);
  if (format.plain) {
    // A column is far from the next: one load each. Past the last column, the
    // last one.
    Value panel = b.idiv(row, PanelFormat::kRows);
    SmallVector<Value> lanes;
    for (int64_t lane = 0; lane < b.lanes(); ++lane) {
      Value at = b.iadd(column, lane);
      if (mask)
        at = arith::MinUIOp::create(b, at, b.index(columns - 1));
      lanes.push_back(
          b.loadScalar(matrix, b.iadd(columnAt(panel, at), inPanel)));
    }
    return vector::FromElementsOp::create(b, b.lanesOf(b.getF32Type()), lanes);
  }
  Value at = blockAt(b.idiv(row, PanelFormat::kRows),
                     b.idiv(column, PanelFormat::kColumns));
  Value inBlock = b.irem(column, PanelFormat::kColumns);
  auto half = [&](int64_t offset) {
    auto bytes = VectorType::get({2}, b.getI8Type());
    Value raw = vector::LoadOp::create(
        b, bytes, matrix.memref,
        ValueRange{b.iadd(b.iadd(at, offset), b.imul(inPanel, 2))});
    Value bits = vector::ExtractOp::create(
        b, b.bitcastVector(raw, VectorType::get({1}, b.getF16Type())),
        ArrayRef<int64_t>{0});
    return b.splat(arith::ExtFOp::create(b, b.getF32Type(), bits));
  };
  // Words of this row, and for each lane its word and the bits above it.
  int64_t perWord = format.nibbles ? 8 : 4;
  Value first = b.idiv(inBlock, perWord);
  SmallVector<Value> words;
  for (int64_t w = 0; w < b.lanes() / perWord; ++w) {
    Value inWords =
        b.iadd(b.imul(b.iadd(first, w), PanelFormat::kRows), inPanel);
    words.push_back(
        word(b.iadd(b.iadd(at, format.wordsAt()), b.imul(inWords, 4))));
  }
  SmallVector<Value> lanes;
  SmallVector<int32_t> shifts;
  for (int64_t lane = 0; lane < b.lanes(); ++lane) {
    lanes.push_back(words[lane / perWord]);
    shifts.push_back(8 * (lane % 4) +
                     (format.nibbles ? 4 * (lane % 8 / 4) : 0));
  }
  VectorType integers = b.lanesOf(b.getI32Type());
  Value all = vector::FromElementsOp::create(b, integers, lanes);
  Value by = arith::ConstantOp::create(
      b, DenseElementsAttr::get(integers, ArrayRef(shifts)));
  Value value = b.iand(b.shiftRight(all, by), format.nibbles ? 15 : 255);
  Value number = arith::SIToFPOp::create(b, b.lanesOf(b.getF32Type()),
                                         b.iadd(value, -format.zero));
  Value scale = half(0);
  return format.hasMinima ? b.fma(number, scale, half(2 * PanelFormat::kRows))
                          : b.fmul(number, scale);
}
