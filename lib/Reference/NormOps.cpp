//===- NormOps.cpp - Normalisations ---------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"

#include <cmath>

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::reference;

static LogicalResult rmsNorm(RmsNormOp op, OpCall &call) {
  const Tensor &in = call[op.getInput()], &weight = call[op.getWeight()];
  Tensor &out = call.result();
  double eps = op.getEps().convertToDouble();
  int64_t width = weight.size();
  for (int64_t row = 0; row * width < out.size(); ++row) {
    double squares = 0;
    for (int64_t d = 0; d < width; ++d)
      squares += in.data[row * width + d] * in.data[row * width + d];
    double root = std::sqrt(squares / static_cast<double>(width) + eps);
    for (int64_t d = 0; d < width; ++d)
      out.data[row * width + d] =
          in.data[row * width + d] / root * weight.data[d];
  }
  return success();
}

void reference::registerNormOps(Registry &registry) {
  registry.add<RmsNormOp>(rmsNorm);
}
