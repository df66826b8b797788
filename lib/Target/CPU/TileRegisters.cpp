//===- TileRegisters.cpp - Loads, stores and products of tiles ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileRegisters.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

static Type tileType(KernelBuilder &b) {
  return LLVM::LLVMX86AMXType::get(b.getContext());
}

static Value i16(KernelBuilder &b, int64_t value) {
  return b.constantInt(b.getI16Type(), value);
}

TileMemory TileMemory::get(KernelBuilder &b, const Buffer &buffer, Value at,
                           int64_t strideBytes) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto bits = [&](Value index) {
    return arith::IndexCastOp::create(b, b.getI64Type(), index).getResult();
  };
  Value address =
      memref::ExtractAlignedPointerAsIndexOp::create(b, buffer.memref);
  Value base = LLVM::IntToPtrOp::create(b, pointer, bits(address));
  Type element = cast<MemRefType>(buffer.memref.getType()).getElementType();
  return {LLVM::GEPOp::create(b, pointer, element, base,
                              ArrayRef<LLVM::GEPArg>{bits(at)}),
          strideBytes};
}

Value cpu::zeroTile(KernelBuilder &b, TileShape shape) {
  return b.intrinsic("llvm.x86.tilezero.internal", tileType(b),
                     {i16(b, shape.rows), i16(b, shape.bytes)});
}

Value cpu::loadTile(KernelBuilder &b, TileMemory from, TileShape shape) {
  return b.intrinsic("llvm.x86.tileloadd64.internal", tileType(b),
                     {i16(b, shape.rows), i16(b, shape.bytes), from.pointer,
                      b.constantInt(b.getI64Type(), from.strideBytes)});
}

void cpu::storeTile(KernelBuilder &b, TileMemory to, TileShape shape,
                    Value tile) {
  b.intrinsic("llvm.x86.tilestored64.internal", Type(),
              {i16(b, shape.rows), i16(b, shape.bytes), to.pointer,
               b.constantInt(b.getI64Type(), to.strideBytes), tile});
}

Value cpu::multiplyTiles(KernelBuilder &b, TileProduct kind, Value sum, Value a,
                         TileShape aShape, Value w, int64_t wBytes) {
  return b.intrinsic(
      kind == TileProduct::Int8 ? "llvm.x86.tdpbssd.internal"
                                : "llvm.x86.tdpbf16ps.internal",
      tileType(b),
      {i16(b, aShape.rows), i16(b, wBytes), i16(b, aShape.bytes), sum, a, w});
}
