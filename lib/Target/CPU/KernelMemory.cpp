//===- KernelMemory.cpp - Loads, stores and stored formats ----------------===//
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

/// From a stored element (scalar or lanes) to fp32 or i32.
Value KernelBuilder::widen(Value stored, Type element) {
  Type type = stored.getType();
  if (element.isBF16()) {
    Type bits = withElement(type, getI32Type());
    Value wide = arith::ExtUIOp::create(*this, bits, stored);
    return bitcast(shiftLeft(wide, 16), withElement(type, getF32Type()));
  }
  if (element.isF16())
    return arith::ExtFOp::create(*this, withElement(type, getF32Type()),
                                 bitcast(stored, withElement(type, element)));
  return stored;
}

/// From fp32 (or i32) to a stored element, to nearest, ties to even.
Value KernelBuilder::narrow(Value v, Type element) {
  Type type = v.getType();
  Type half = withElement(type, getI16Type());
  if (element.isBF16()) {
    Type bitsType = withElement(type, getI32Type());
    Value bits = bitcast(v, bitsType);
    Value sixteen = constantInt(bitsType, 16);
    Value high = shiftRight(bits, sixteen);
    Value rounded =
        shiftRight(iadd(iadd(bits, 0x7fff), iand(high, 1)), sixteen);
    Value quiet =
        arith::OrIOp::create(*this, high, constantInt(bitsType, 0x40));
    Value isNan = fcmp(arith::CmpFPredicate::UNO, v, v);
    return arith::TruncIOp::create(*this, half, select(isNan, quiet, rounded));
  }
  if (element.isF16())
    return bitcast(
        arith::TruncFOp::create(*this, withElement(type, element), v), half);
  return v;
}

static VectorType storedLanes(const Buffer &buffer, int64_t lanes) {
  return VectorType::get(
      {lanes}, cast<MemRefType>(buffer.memref.getType()).getElementType());
}

Value KernelBuilder::loadLanes(const Buffer &buffer, Value at, Value mask) {
  VectorType type = storedLanes(buffer, lanes());
  Value stored;
  if (mask) {
    Value zero = arith::ConstantOp::create(*this, getZeroAttr(type));
    stored = vector::MaskedLoadOp::create(*this, type, buffer.memref,
                                          ValueRange{at}, mask, zero);
  } else {
    stored = vector::LoadOp::create(*this, type, buffer.memref, ValueRange{at});
  }
  return widen(stored, buffer.element);
}

void KernelBuilder::storeLanes(const Buffer &buffer, Value at, Value v,
                               Value mask) {
  Value stored = narrow(v, buffer.element);
  // LLVM 22 turns a masked store of one narrowed lane into a store of the lane
  // before it was narrowed (AVX-512): four bytes where two were meant.
  if (auto tail = mask ? mask.getDefiningOp<vector::ConstantMaskOp>()
                       : vector::ConstantMaskOp();
      tail && tail.getMaskDimSizes() == ArrayRef<int64_t>{1}) {
    Value first =
        vector::ExtractOp::create(*this, stored, ArrayRef<int64_t>{0});
    memref::StoreOp::create(*this, first, buffer.memref, ValueRange{at});
    return;
  }
  if (mask)
    vector::MaskedStoreOp::create(*this, buffer.memref, ValueRange{at}, mask,
                                  stored);
  else
    vector::StoreOp::create(*this, stored, buffer.memref, ValueRange{at});
}

void KernelBuilder::streamLanes(const Buffer &buffer, Value at, Value v) {
  vector::StoreOp::create(*this, v, buffer.memref, ValueRange{at},
                          /*nontemporal=*/true, llvm::MaybeAlign(4 * lanes()));
  streams = true;
}

Value KernelBuilder::loadScalar(const Buffer &buffer, Value at) {
  return widen(memref::LoadOp::create(*this, buffer.memref, ValueRange{at}),
               buffer.element);
}

void KernelBuilder::prefetch(const Buffer &buffer, Value at, int64_t bytes,
                             int64_t distance) {
  auto type = cast<MemRefType>(buffer.memref.getType());
  int64_t last = type.getDimSize(0) - 1;
  int64_t size = type.getElementTypeBitWidth() / 8;
  for (int64_t line = 0; line < bytes; line += 64) {
    Value ahead = arith::MinUIOp::create(
        *this, iadd(at, (distance + line) / size), index(last));
    memref::PrefetchOp::create(*this, buffer.memref, ValueRange{ahead},
                               /*isWrite=*/false, /*localityHint=*/2,
                               /*isDataCache=*/true);
  }
}

void KernelBuilder::storeScalar(const Buffer &buffer, Value at, Value v) {
  memref::StoreOp::create(*this, narrow(v, buffer.element), buffer.memref,
                          ValueRange{at});
}

Value KernelBuilder::loadRow(const Buffer &matrix, int64_t columns, Value row,
                             Value column, Value mask) {
  int64_t block = getBlockElements(matrix.element);
  if (matrix.inPanels)
    return PanelReader(*this, matrix, columns).row(row, column, mask);
  if (block == 1)
    return loadLanes(matrix, iadd(imul(row, columns), column), mask);
  int64_t bytes = columns / block * getBlockBytes(matrix.element);
  return decodeBlock(matrix, imul(row, bytes), column);
}

Buffer KernelBuilder::scratch(int64_t elements, Type element) {
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(entry);
  auto type = MemRefType::get({elements}, element);
  Value memory =
      memref::AllocaOp::create(*this, type, getI64IntegerAttr(64)).getResult();
  return {memory, element};
}

Buffer KernelBuilder::addTable(DenseElementsAttr values, Type element) {
  auto type = MemRefType::get(values.getType().getShape(), element);
  std::string &name = tables[values];
  if (name.empty()) {
    name =
        (kernel.func.getSymName() + ".table." + Twine(tables.size() - 1)).str();
    OpBuilder::InsertionGuard guard(*this);
    setInsertionPointToStart(module.getBody());
    memref::GlobalOp::create(*this, name, getStringAttr("private"), type,
                             values, /*constant=*/true,
                             /*alignment=*/getI64IntegerAttr(64));
  }
  return {memref::GetGlobalOp::create(*this, type, name), element};
}

Buffer KernelBuilder::table(ArrayRef<int64_t> values, Type element) {
  auto type =
      RankedTensorType::get({static_cast<int64_t>(values.size())}, element);
  SmallVector<Attribute> attrs;
  for (int64_t v : values)
    attrs.push_back(getIntegerAttr(element, v));
  return addTable(DenseElementsAttr::get(type, attrs), element);
}

Buffer KernelBuilder::table(ArrayRef<double> values, Type element) {
  auto type =
      RankedTensorType::get({static_cast<int64_t>(values.size())}, element);
  SmallVector<Attribute> attrs;
  for (double v : values)
    attrs.push_back(getFloatAttr(element, v));
  return addTable(DenseElementsAttr::get(type, attrs), element);
}

//===----------------------------------------------------------------------===//
// Quantised blocks, in ggml's layouts
//===----------------------------------------------------------------------===//

namespace {

/// Reads the fields of one block.
class BlockReader {
public:
  BlockReader(KernelBuilder &b, const Buffer &matrix, Value base)
      : b(b), matrix(matrix), base(base) {}

  /// A half at a byte offset, as lanes of fp32.
  Value half(int64_t offset) {
    auto bytes = VectorType::get({2}, b.getI8Type());
    Value raw = vector::LoadOp::create(b, bytes, matrix.memref,
                                       ValueRange{b.iadd(base, offset)});
    Value bits = vector::ExtractOp::create(
        b, b.bitcastVector(raw, VectorType::get({1}, b.getI16Type())),
        ArrayRef<int64_t>{0});
    Value half = b.bitcast(bits, b.getF16Type());
    return b.splat(arith::ExtFOp::create(b, b.getF32Type(), half));
  }

  Value word(int64_t offset) {
    auto bytes = VectorType::get({4}, b.getI8Type());
    Value raw = vector::LoadOp::create(b, bytes, matrix.memref,
                                       ValueRange{b.iadd(base, offset)});
    return vector::ExtractOp::create(
        b, b.bitcastVector(raw, VectorType::get({1}, b.getI32Type())),
        ArrayRef<int64_t>{0});
  }

  /// Consecutive bytes, as lanes of i32.
  Value bytes(int64_t offset, Value at, bool isSigned) {
    Value raw =
        vector::LoadOp::create(b, b.lanesOf(b.getI8Type()), matrix.memref,
                               ValueRange{b.iadd(b.iadd(base, offset), at)});
    VectorType type = b.lanesOf(b.getI32Type());
    if (isSigned)
      return arith::ExtSIOp::create(b, type, raw);
    return arith::ExtUIOp::create(b, type, raw);
  }

  /// One signed byte, as lanes of fp32.
  Value signedByte(int64_t offset, Value at) {
    Value raw = memref::LoadOp::create(
        b, matrix.memref, ValueRange{b.iadd(b.iadd(base, offset), at)});
    Value wide = arith::SIToFPOp::create(b, b.getF32Type(), raw);
    return b.splat(wide);
  }

  Value toFloat(Value integers) {
    return arith::SIToFPOp::create(b, b.lanesOf(b.getF32Type()), integers);
  }

  /// Nibbles of 16 bytes: elements 0 to 15 are the low ones.
  Value nibbles(int64_t offset, Value inBlock) {
    Value shift = b.imul(b.idiv(inBlock, 16), 4);
    Value raw = bytes(offset, b.irem(inBlock, 16), /*isSigned=*/false);
    return b.iand(b.shiftRight(raw, b.splat(b.toI32(shift))), 15);
  }

  /// The fifth bits of 32 elements, in place.
  Value fifthBits(int64_t offset, Value inBlock) {
    Value shift = b.iadd(b.iota(), b.splat(b.toI32(inBlock)));
    Value bits = b.shiftRight(b.splat(word(offset)), shift);
    return b.shiftLeft(b.iand(bits, 1), 4);
  }

  Value decodeQ6K(Value inBlock) {
    Value half128 = b.idiv(inBlock, 128), rest = b.irem(inBlock, 128);
    Value quarter = b.idiv(rest, 32), l = b.irem(rest, 32);
    Value low = bytes(
        0,
        b.iadd(b.iadd(b.imul(half128, 64), b.imul(b.irem(quarter, 2), 32)), l),
        /*isSigned=*/false);
    Value lowShift = b.toI32(b.imul(b.idiv(quarter, 2), 4));
    low = b.iand(b.shiftRight(low, b.splat(lowShift)), 15);
    Value high = bytes(128, b.iadd(b.imul(half128, 32), l),
                       /*isSigned=*/false);
    Value highShift = b.toI32(b.imul(quarter, 2));
    high = b.iand(b.shiftRight(high, b.splat(highShift)), 3);
    Value q = b.iadd(b.iadd(low, b.shiftLeft(high, 4)), -32);
    Value scale =
        signedByte(192, b.iadd(b.iadd(b.imul(half128, 8), b.imul(quarter, 2)),
                               b.idiv(l, 16)));
    return b.fmul(toFloat(q), b.fmul(half(208), scale));
  }

private:
  KernelBuilder &b;
  const Buffer &matrix;
  Value base;
};

} // namespace

Value KernelBuilder::bitcastVector(Value v, VectorType type) {
  return vector::BitCastOp::create(*this, type, v);
}

Value KernelBuilder::decodeBlock(const Buffer &matrix, Value rowBytes,
                                 Value column) {
  Type type = matrix.element;
  int64_t elements = getBlockElements(type);
  Value block = idiv(column, elements), inBlock = irem(column, elements);
  BlockReader reader(*this, matrix,
                     iadd(rowBytes, imul(block, getBlockBytes(type))));
  if (isa<Q8_0Type>(type))
    return fmul(reader.toFloat(reader.bytes(2, inBlock, /*isSigned=*/true)),
                reader.half(0));
  if (isa<Q4_0Type>(type))
    return fmul(reader.toFloat(iadd(reader.nibbles(2, inBlock), -8)),
                reader.half(0));
  if (isa<Q4_1Type>(type))
    return fma(reader.toFloat(reader.nibbles(4, inBlock)), reader.half(0),
               reader.half(2));
  if (isa<Q5_0Type>(type))
    return fmul(reader.toFloat(iadd(iadd(reader.nibbles(6, inBlock),
                                         reader.fifthBits(2, inBlock)),
                                    -16)),
                reader.half(0));
  if (isa<Q5_1Type>(type))
    return fma(reader.toFloat(iadd(reader.nibbles(8, inBlock),
                                   reader.fifthBits(4, inBlock))),
               reader.half(0), reader.half(2));
  return reader.decodeQ6K(inBlock);
}
