//===- QuantizeActivations.cpp - int8 inputs of quantised products --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/Transforms/Passes.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_QUANTIZEACTIVATIONSPASS
#include "heddle/Dialect/Heddle/Transforms/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;

namespace {

struct QuantizeActivations
    : heddle::impl::QuantizeActivationsPassBase<QuantizeActivations> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>())
      func.walk([&](Block *block) { quantize(*block); });
  }

  /// One quantised copy of a value serves all products of a block.
  void quantize(Block &block) {
    llvm::DenseMap<Value, Value> quantised;
    for (auto linear : llvm::to_vector(block.getOps<LinearOp>())) {
      auto type = cast<RankedTensorType>(linear.getInput().getType());
      auto weight = cast<RankedTensorType>(linear.getWeight().getType());
      if (!isa<FloatType>(type.getElementType()) ||
          !LinearOp::takesQ8(weight.getElementType()))
        continue;
      Value &copy = quantised[linear.getInput()];
      if (!copy) {
        OpBuilder builder(linear);
        Type q8 = Q8Type::get(&getContext());
        copy = QuantizeOp::create(
            builder, linear.getLoc(),
            RankedTensorType::get(type.getShape(), q8, type.getEncoding()),
            linear.getInput());
        ++numQuantized;
      }
      linear.getInputMutable().assign(copy);
    }
  }
};

} // namespace
