//===- RowOpsQuantize.cpp - Row recipes: activations to int8 blocks -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

/// Writes the block of `x`'s elements at word `at` of each result.
static void quantizeBlock(KernelBuilder &b, ArrayRef<Value> x,
                          ArrayRef<int64_t> results, Value at) {
  VectorType floats = b.lanesOf(b.getF32Type());
  VectorType integers = b.lanesOf(b.getI32Type());
  Value top;
  for (Value v : x) {
    Value size = b.bitcast(b.iand(b.bitcast(v, integers), INT32_MAX), floats);
    top = top ? b.fmax(top, size) : size;
  }
  top = b.reduce(top, [&](Value a, Value c) { return b.fmax(a, c); });
  Value scale = b.fdiv(top, b.f32(127.0));
  Value some = b.fcmp(arith::CmpFPredicate::OGT, top, b.f32(0.0));
  Value inverse =
      b.splat(b.select(some, b.fdiv(b.f32(127.0), top), b.f32(0.0)));
  // Adding 1.5 * 2^23 rounds to an integer, ties to even, in the low bits.
  constexpr double magic = 12582912.0;
  constexpr int64_t magicBits = 0x4b400000;
  Value sum;
  SmallVector<Value> words;
  for (Value v : x) {
    Value rounded = b.fma(v, inverse, b.constant(floats, magic));
    Value q = b.iadd(b.bitcast(rounded, integers), -magicBits);
    sum = sum ? b.iadd(sum, q) : q;
    Value bytes =
        arith::TruncIOp::create(b, b.lanesOf(b.getI8Type()), q).getResult();
    words.push_back(b.bitcastVector(
        bytes, VectorType::get({b.lanes() / 4}, b.getI32Type())));
  }
  sum = b.reduce(sum, [&](Value a, Value c) { return b.iadd(a, c); });
  Value offset =
      b.bitcast(b.fmul(arith::SIToFPOp::create(b, b.getF32Type(), sum), scale),
                b.getI32Type());
  for (int64_t operand : results) {
    const Buffer &out = b.operands[operand];
    auto word = [&](int64_t i) { return b.iadd(at, i); };
    b.storeScalar(out, word(QuantizedBlock::kScale),
                  b.bitcast(scale, b.getI32Type()));
    b.storeScalar(out, word(QuantizedBlock::kSum), sum);
    b.storeScalar(out, word(QuantizedBlock::kOffset), offset);
    b.storeScalar(out, word(QuantizedBlock::kUnused), b.i32(0));
    for (auto [i, value] : llvm::enumerate(words))
      vector::StoreOp::create(
          b, value, out.memref,
          ValueRange{word(QuantizedBlock::kIntegers + i * b.lanes() / 4)});
  }
}

LogicalResult cpu::addRowOp(RowProgram &p, QuantizeOp op) {
  if (!isa<FloatType>(tensorType(op.getInput()).getElementType()))
    return op.emitOpError("expected floating point input in a kernel, got ")
           << op.getInput().getType();
  if (failed(p.expectRows(op, op.getResult())))
    return failure();
  int64_t extent = p.extentOf(op.getResult());
  if (extent % QuantizedBlock::kElements != 0)
    return op.emitOpError("expected whole blocks in each row of the kernel, "
                          "got rows of ")
           << extent;
  int64_t blocks = extent / QuantizedBlock::kElements;
  RowItem item;
  item.op = op;
  item.extent = extent;
  item.results = {op.getResult()};
  item.memoryInputs = {op.getInput()};
  // One pass over the whole row: blocks may straddle others' groups.
  item.loops = [&p, op, blocks](RowItem &, Value) mutable {
    KernelBuilder &b = p.b();
    b.staticLoop(blocks, 1, ValueRange(), [&](Value block, ValueRange) {
      SmallVector<Value> x;
      for (int64_t i = 0; i < QuantizedBlock::kElements; i += b.lanes())
        x.push_back(p.loadAt(
            op.getInput(), b.iadd(b.imul(block, QuantizedBlock::kElements), i),
            Value()));
      Value at = b.iadd(b.imul(p.row(), blocks), block);
      quantizeBlock(b, x, p.kernel.resultsOf(op.getResult()),
                    b.imul(at, QuantizedBlock::kWords));
      return SmallVector<Value>();
    });
  };
  p.add(std::move(item));
  return success();
}
