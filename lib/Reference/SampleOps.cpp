//===- SampleOps.cpp - From logits to tokens ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::reference;

static LogicalResult argmax(ArgmaxOp op, OpCall &call) {
  const Tensor &logits = call[op.getLogits()];
  Tensor &out = call.result();
  int64_t width = logits.shape.back();
  for (int64_t row = 0; row < out.size(); ++row) {
    int64_t best = -1;
    for (int64_t v = 0; v < width; ++v) {
      double value = logits.data[row * width + v];
      if (value != value)
        continue; // NaN is never chosen
      if (best < 0 || value > logits.data[row * width + best])
        best = v;
    }
    out.data[row] = static_cast<double>(std::max<int64_t>(best, 0));
  }
  return success();
}

void reference::registerSampleOps(Registry &registry) {
  registry.add<ArgmaxOp>(argmax);
}
