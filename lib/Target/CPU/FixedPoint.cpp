//===- FixedPoint.cpp - A row of activations in four bytes ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FixedPoint.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

FixedPointRow FixedPointRow::emit(KernelBuilder &b, const Buffer &input,
                                  int64_t blocks) {
  FixedPointRow row;
  row.words = b.scratch(blocks * kWords, b.getI32Type());
  b.staticLoop(blocks, 1, ValueRange(), [&](Value block, ValueRange) {
    row.emitBlock(b, input, block);
    return SmallVector<Value>();
  });
  return row;
}

void FixedPointRow::emitBlock(KernelBuilder &b, const Buffer &input,
                              Value block) {
  VectorType integers = b.lanesOf(b.getI32Type());
  VectorType bytes = VectorType::get({4 * b.lanes()}, b.getI8Type());
  SmallVector<Value> x;
  Value total, largest;
  for (int64_t at = 0; at < kElements; at += b.lanes()) {
    x.push_back(b.loadLanes(input, b.iadd(b.imul(block, kElements), at)));
    total = total ? b.fadd(total, x.back()) : x.back();
    // Magnitudes are ordered as their bits are.
    Value size = b.iand(b.bitcast(x.back(), integers), INT32_MAX);
    largest = largest ? arith::MaxUIOp::create(b, largest, size) : size;
  }
  largest = b.reduce(largest, [&](Value a, Value c) -> Value {
    return arith::MaxUIOp::create(b, a, c);
  });
  total = b.reduceAdd(total);

  // With magnitudes below 2^(e - 126), e the biased exponent, numbers are below
  // 2^30 for a scale of 2^(e - 156). No power of two leaves the normal range.
  Value exponent =
      arith::MaxUIOp::create(b, b.shiftRight(largest, b.i32(23)), b.i32(30));
  auto power = [&](Value biased) {
    return b.bitcast(b.shiftLeft(biased, 23), b.getF32Type());
  };
  Value up = b.splat(power(b.isub(b.i32(127 + 156), exponent)));
  Value scale = power(b.iadd(exponent, 127 - 156));
  scale = b.fma(total, b.f32(0.0), scale); // NaN if the sum is not finite

  Value first = b.imul(block, kWords), sums;
  for (auto [i, v] : llvm::enumerate(x)) {
    // Rounds to nearest; what is not finite gives some integer.
    Value number = b.intrinsic("llvm.x86.avx512.mask.cvtps2dq.512", integers,
                               {b.fmul(v, up), b.constantInt(integers, 0),
                                b.constantInt(b.getI16Type(), -1),
                                b.i32(/*current rounding*/ 4)});
    // Adding and flipping half a digit makes the low three digits signed.
    Value half = b.constantInt(integers, 0x00808080);
    number = arith::XOrIOp::create(b, b.iadd(number, half), half);
    // Four bytes of each of four columns -> four columns of each of four bytes.
    SmallVector<int64_t> order;
    for (int64_t at = 0; at < bytes.getNumElements(); ++at)
      order.push_back(at / 16 * 16 + at % 4 * 4 + at % 16 / 4);
    Value plain = b.bitcastVector(number, bytes);
    Value digits = b.bitcastVector(
        vector::ShuffleOp::create(b, plain, plain, order), integers);
    b.storeLanes(words, b.iadd(first, i * b.lanes()), digits);
    if (!sums)
      sums = b.constantInt(integers, 0);
    sums = b.dot4(sums, b.constantInt(integers, 0x01010101), digits, 1);
  }
  sums =
      b.reduceTo(kDigits, sums, [&](Value a, Value c) { return b.iadd(a, c); });
  vector::StoreOp::create(b, sums, words.memref,
                          ValueRange{b.iadd(first, kSums)});
  b.storeScalar(words, b.iadd(first, kScale), b.bitcast(scale, b.getI32Type()));
  b.storeScalar(words, b.iadd(first, kSum), b.bitcast(total, b.getI32Type()));
}

Value FixedPointRow::word(KernelBuilder &b, Value block, int64_t at) {
  return b.loadScalar(words, b.iadd(b.imul(block, kWords), at));
}

Value FixedPointRow::digits(KernelBuilder &b, Value block, int64_t group,
                            int64_t digit) {
  return word(b, block, group * kDigits + digit);
}

Value FixedPointRow::digitSum(KernelBuilder &b, Value block, int64_t digit) {
  return word(b, block, kSums + digit);
}

Value FixedPointRow::scale(KernelBuilder &b, Value block) {
  return b.bitcast(word(b, block, kScale), b.getF32Type());
}

Value FixedPointRow::sum(KernelBuilder &b, Value block) {
  return b.bitcast(word(b, block, kSum), b.getF32Type());
}
