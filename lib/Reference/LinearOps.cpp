//===- LinearOps.cpp - Products, biases, sums, gated units ----------------===//
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

static LogicalResult linear(LinearOp op, OpCall &call) {
  const Tensor &in = call[op.getInput()], &weight = call[op.getWeight()];
  const Tensor *bias = call.find(op.getBias());
  Tensor &out = call.result();
  int64_t width = weight.shape[1], columns = weight.shape[0];
  for (int64_t i = 0; i < out.size(); ++i) {
    int64_t row = i / columns, n = i % columns;
    double sum = 0;
    for (int64_t k = 0; k < width; ++k)
      sum += in.data[row * width + k] * weight.data[n * width + k];
    out.data[i] = bias ? sum + bias->data[n] : sum;
  }
  return success();
}

static LogicalResult quantize(QuantizeOp op, OpCall &call) {
  const Tensor &in = call[op.getInput()];
  Tensor &out = call.result();
  int64_t block = getBlockElements(
      cast<RankedTensorType>(op.getResult().getType()).getElementType());
  for (int64_t first = 0; first < out.size(); first += block) {
    double top = 0;
    for (int64_t i = first; i < first + block; ++i)
      top = std::max(top, std::abs(in.data[i]));
    for (int64_t i = first; i < first + block; ++i)
      out.data[i] =
          top > 0 ? std::nearbyint(in.data[i] * (127 / top)) * (top / 127) : 0;
  }
  return success();
}

static LogicalResult biasAdd(BiasAddOp op, OpCall &call) {
  const Tensor &in = call[op.getInput()], &bias = call[op.getBias()];
  Tensor &out = call.result();
  for (int64_t i = 0; i < out.size(); ++i)
    out.data[i] = in.data[i] + bias.data[i % bias.size()];
  return success();
}

static LogicalResult add(AddOp op, OpCall &call) {
  const Tensor &lhs = call[op.getLhs()], &rhs = call[op.getRhs()];
  Tensor &out = call.result();
  for (int64_t i = 0; i < out.size(); ++i)
    out.data[i] = lhs.data[i] + rhs.data[i];
  return success();
}

static double activation(GluKind kind, double x) {
  switch (kind) {
  case GluKind::Silu:
    return x / (1 + std::exp(-x));
  case GluKind::Gelu:
    return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  case GluKind::GeluTanh:
    return 0.5 * x *
           (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  case GluKind::Relu:
    return x < 0 ? 0 : x; // NaN stays NaN
  }
  llvm_unreachable("expected a known activation");
}

static LogicalResult glu(GluOp op, OpCall &call) {
  const Tensor &gate = call[op.getGate()], &up = call[op.getUp()];
  Tensor &out = call.result();
  for (int64_t i = 0; i < out.size(); ++i)
    out.data[i] = activation(op.getKind(), gate.data[i]) * up.data[i];
  return success();
}

void reference::registerLinearOps(Registry &registry) {
  registry.add<LinearOp>(linear);
  registry.add<QuantizeOp>(quantize);
  registry.add<BiasAddOp>(biasAdd);
  registry.add<AddOp>(add);
  registry.add<GluOp>(glu);
}
