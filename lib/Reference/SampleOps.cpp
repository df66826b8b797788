//===- SampleOps.cpp - From logits to tokens ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"
#include "heddle/Reference/Philox.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::reference;

/// The largest of `width` logits, lowest index first; NaN is never chosen.
static int64_t largest(const double *logits, int64_t width) {
  int64_t best = -1;
  for (int64_t v = 0; v < width; ++v)
    if (!std::isnan(logits[v]) && (best < 0 || logits[v] > logits[best]))
      best = v;
  return std::max<int64_t>(best, 0);
}

static LogicalResult argmax(ArgmaxOp op, OpCall &call) {
  const Tensor &logits = call[op.getLogits()];
  Tensor &out = call.result();
  int64_t width = logits.shape.back();
  for (int64_t row = 0; row < out.size(); ++row)
    out.data[row] =
        static_cast<double>(largest(logits.data.data() + row * width, width));
  return success();
}

namespace {

/// What is asked of one sequence.
struct Sampling {
  double temperature, topK, topP, minP;
};

} // namespace

/// The token that `u` in [0, 1) draws from `width` logits.
static int64_t draw(const double *logits, int64_t width, const Sampling &ask,
                    double u) {
  int64_t best = largest(logits, width);
  if (!(ask.temperature > 0) || std::isinf(ask.temperature) ||
      !std::isfinite(logits[best]))
    return best;
  std::vector<double> weights(width, 0.0);
  std::vector<int64_t> order;
  for (int64_t v = 0; v < width; ++v) {
    order.push_back(v);
    if (!std::isnan(logits[v]))
      weights[v] = std::exp((logits[v] - logits[best]) / ask.temperature);
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    auto value = [&](int64_t v) {
      return std::isnan(logits[v]) ? -std::numeric_limits<double>::infinity()
                                   : logits[v];
    };
    return value(a) > value(b);
  });
  size_t kept = order.size();
  if (ask.topK >= 1)
    kept = std::min(kept, static_cast<size_t>(ask.topK));
  if (ask.topP > 0 && ask.topP < 1) {
    double total = 0, sum = 0;
    for (size_t i = 0; i < kept; ++i)
      total += weights[order[i]];
    for (size_t i = 0; i < kept; ++i) {
      sum += weights[order[i]];
      if (sum >= ask.topP * total)
        kept = i + 1;
    }
  }
  if (ask.minP > 0)
    for (size_t i = 0; i < kept; ++i)
      if (weights[order[i]] < std::min(ask.minP, 1.0))
        kept = i;
  order.resize(kept);
  std::sort(order.begin(), order.end());
  double total = 0, sum = 0;
  for (int64_t v : order)
    total += weights[v];
  for (int64_t v : order) {
    sum += weights[v];
    if (sum > u * total)
      return v;
  }
  return best; // unreachable: u < 1
}

static LogicalResult sample(SampleOp op, OpCall &call) {
  const Tensor &logits = call[op.getLogits()];
  Tensor &out = call.result();
  int64_t sequences = logits.shape[0], rows = logits.shape[1];
  int64_t width = logits.shape[2];
  ArrayRef<int64_t> numbers;
  if (RankTableAttr table = op.getSequencesAttr()) {
    FailureOr<ArrayRef<int64_t>> row = call.row(table);
    if (failed(row))
      return failure();
    numbers = *row;
  }
  auto word = [](double value) {
    return static_cast<uint32_t>(static_cast<int64_t>(value));
  };
  for (int64_t b = 0; b < sequences; ++b) {
    Sampling ask{call[op.getTemperature()].data[b], call[op.getTopK()].data[b],
                 call[op.getTopP()].data[b], call[op.getMinP()].data[b]};
    int64_t number = numbers.empty() ? b : numbers[b];
    for (int64_t r = 0; r < rows; ++r) {
      std::array<uint32_t, 4> random = philox4x32(
          {word(call[op.getPosition()].data[b]), static_cast<uint32_t>(number),
           static_cast<uint32_t>(r), 0},
          {word(call[op.getSeed()].data[b]), 0});
      out.data[b * rows + r] =
          static_cast<double>(draw(logits.data.data() + (b * rows + r) * width,
                                   width, ask, random[0] * 0x1p-32));
    }
  }
  return success();
}

void reference::registerSampleOps(Registry &registry) {
  registry.add<ArgmaxOp>(argmax);
  registry.add<SampleOp>(sample);
}
