//===- Philox.cpp - Counter-based random numbers in kernels ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Philox.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

/// High and low word of a product.
static std::pair<Value, Value> multiply(KernelBuilder &b, Value word,
                                        uint32_t factor) {
  Value wide = arith::ExtUIOp::create(b, b.getI64Type(), word);
  Value product = b.imul(wide, static_cast<int64_t>(factor));
  Value high = b.shiftRight(product, b.constantInt(b.getI64Type(), 32));
  return {arith::TruncIOp::create(b, b.getI32Type(), high),
          arith::TruncIOp::create(b, b.getI32Type(), product)};
}

std::array<Value, 4> cpu::buildPhilox(KernelBuilder &b,
                                      std::array<Value, 4> counter,
                                      std::array<Value, 2> key) {
  auto mix = [&](Value a, Value c, Value k) -> Value {
    return arith::XOrIOp::create(b, arith::XOrIOp::create(b, a, c), k);
  };
  for (int round = 0; round < 10; ++round) {
    auto [highA, lowA] = multiply(b, counter[0], 0xd2511f53);
    auto [highB, lowB] = multiply(b, counter[2], 0xcd9e8d57);
    counter = {mix(highB, counter[1], key[0]), lowB,
               mix(highA, counter[3], key[1]), lowA};
    key[0] = b.iadd(key[0], static_cast<int32_t>(0x9e3779b9));
    key[1] = b.iadd(key[1], static_cast<int32_t>(0xbb67ae85));
  }
  return counter;
}
