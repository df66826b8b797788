//===- HeadOps.cpp - Heads and rotary positions ---------------------------===//
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

/// Heads lie one after another in a row, so both ops only change the shape.
static LogicalResult splitHeads(SplitHeadsOp op, OpCall &call) {
  call.result().data = call[op.getInput()].data;
  return success();
}

static LogicalResult mergeHeads(MergeHeadsOp op, OpCall &call) {
  call.result().data = call[op.getInput()].data;
  return success();
}

/// Inverse frequency i of `rope`. Written out here rather than taken from the
/// attribute, which compiled code uses too.
static double inverseFrequency(RopeAttr rope, int64_t i) {
  double exponent =
      2 * static_cast<double>(i) / static_cast<double>(rope.getDim());
  double f = 1 / std::pow(rope.getTheta().convertToDouble(), exponent);
  double factor = rope.getFactor().convertToDouble();
  switch (rope.getScaling()) {
  case RopeScaling::None:
    return f;
  case RopeScaling::Linear:
    return f / factor;
  case RopeScaling::Llama3: {
    double low = rope.getLowFactor().convertToDouble();
    double high = rope.getHighFactor().convertToDouble();
    // How often the pair turns over the original context.
    double turns =
        static_cast<double>(rope.getOriginalPositions()) * f / (2 * M_PI);
    if (turns < low)
      return f / factor;
    if (turns >= high)
      return f;
    double kept = (turns - low) / (high - low);
    return kept * f + (1 - kept) * f / factor;
  }
  }
  llvm_unreachable("expected a known scaling");
}

static LogicalResult rotaryTable(RotaryTableOp op, OpCall &call) {
  const Tensor &positions = call[op.getPositions()];
  Tensor &out = call.result();
  int64_t half = op.getRope().getDim() / 2;
  for (int64_t b = 0; b < positions.shape[0]; ++b)
    for (int64_t t = 0; t < positions.shape[1]; ++t) {
      FailureOr<int64_t> position =
          call.index(positions.at(b, t), kNoLimit, "position");
      if (failed(position))
        return failure();
      double p = static_cast<double>(std::max<int64_t>(*position, 0));
      for (int64_t i = 0; i < half; ++i) {
        double angle = p * inverseFrequency(op.getRope(), i);
        out.at(b, t, i) = std::cos(angle);
        out.at(b, t, i + half) = std::sin(angle);
      }
    }
  return success();
}

static LogicalResult rotary(RotaryOp op, OpCall &call) {
  const Tensor &in = call[op.getInput()], &table = call[op.getTable()];
  Tensor &out = call.result();
  int64_t half = table.shape[2] / 2;
  for (int64_t b = 0; b < in.shape[0]; ++b)
    for (int64_t t = 0; t < in.shape[1]; ++t)
      for (int64_t h = 0; h < in.shape[2]; ++h) {
        for (int64_t i = 0; i < half; ++i) {
          double x = in.at(b, t, h, i), y = in.at(b, t, h, i + half);
          double c = table.at(b, t, i), s = table.at(b, t, i + half);
          out.at(b, t, h, i) = x * c - y * s;
          out.at(b, t, h, i + half) = y * c + x * s;
        }
        for (int64_t i = 2 * half; i < in.shape[3]; ++i)
          out.at(b, t, h, i) = in.at(b, t, h, i);
      }
  return success();
}

void reference::registerHeadOps(Registry &registry) {
  registry.add<SplitHeadsOp>(splitHeads);
  registry.add<MergeHeadsOp>(mergeHeads);
  registry.add<RotaryTableOp>(rotaryTable);
  registry.add<RotaryOp>(rotary);
}
