//===- AttentionOps.cpp - Attention and its partial forms -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"

#include <cmath>
#include <optional>

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::reference;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

namespace {
/// A key of a sequence: where it lies in the key tensor, and its position.
struct Key {
  int64_t block, slot, position, document;
};
} // namespace

/// The keys of sequence b that a query may see if its position allows it: not
/// empty, and below the sequence's length.
template <typename OpTy>
static LogicalResult collectKeys(OpTy op, OpCall &call, int64_t b,
                                 std::vector<Key> &keys) {
  const Tensor &positions = call[op.getKeyPositions()];
  const Tensor *blocks = call.find(op.getBlocks());
  const Tensor *lengths = call.find(op.getLengths());
  int64_t blockSize = positions.shape[1];
  int64_t count = blocks ? blocks->shape[1] * blockSize : blockSize;
  int64_t length = count;
  if (lengths) {
    FailureOr<int64_t> value = call.index(lengths->at(b), kNoLimit, "length");
    if (failed(value))
      return failure();
    length = *value;
  }
  for (int64_t j = 0; j < std::min(count, length); ++j) {
    Key key{b, j, 0, 0};
    if (blocks) {
      FailureOr<int64_t> block =
          call.index(blocks->at(b, j / blockSize), positions.shape[0], "block");
      if (failed(block))
        return failure();
      key = {*block, j % blockSize, 0, 0};
    }
    if (key.block < 0)
      continue; // a block that is not there
    FailureOr<int64_t> position =
        call.index(positions.at(key.block, key.slot), kNoLimit, "key position");
    if (failed(position))
      return failure();
    key.position = *position;
    if (key.position < 0)
      continue;
    if (const Tensor *documents = call.find(op.getKeyDocuments())) {
      FailureOr<int64_t> document = call.index(
          documents->at(key.block, key.slot), kNoLimit, "key document");
      if (failed(document))
        return failure();
      key.document = *document;
    }
    keys.push_back(key);
  }
  return success();
}

/// Slope of query head `head` of `heads` in all, written out as in the appendix
/// of the paper rather than taken from the attribute: a geometric sequence for
/// a power of two; otherwise that of the power below, and every other one of
/// the sequence for twice as many.
static double slopeOf(int64_t head, int64_t heads, double bias) {
  int64_t power = 1;
  while (power * 2 <= heads)
    power *= 2;
  if (head < power)
    return std::pow(2, -bias * static_cast<double>(head + 1) /
                           static_cast<double>(power));
  return slopeOf(2 * (head - power), 2 * power, bias);
}

/// Global number of each of this rank's query heads, -1 for padding.
template <typename OpTy>
static FailureOr<std::vector<int64_t>> headNumbers(OpTy op, OpCall &call,
                                                   int64_t heads) {
  std::vector<int64_t> numbers(heads);
  for (int64_t h = 0; h < heads; ++h)
    numbers[h] = h;
  if (RankTableAttr table = op.getAlibiHeadsAttr()) {
    FailureOr<ArrayRef<int64_t>> row = call.row(table);
    if (failed(row))
      return failure();
    numbers.assign(row->begin(), row->end());
  }
  return numbers;
}

/// Both attention ops; `lse` is null where the op has none.
template <typename OpTy>
static LogicalResult attend(OpTy op, OpCall &call, Tensor &out, Tensor *lse) {
  const Tensor &query = call[op.getQuery()], &key = call[op.getKey()];
  const Tensor &value = call[op.getValue()];
  const Tensor &positions = call[op.getQueryPositions()];
  int64_t heads = query.shape[2], width = query.shape[3];
  double scale = op.getScale().convertToDouble();
  int64_t window = op.getWindow();
  double cap = op.getSoftCap().convertToDouble();
  const Tensor *sinks = call.find(op.getSinks());
  const Tensor *documents = call.find(op.getQueryDocuments());
  AlibiAttr alibi = op.getAlibiAttr();
  FailureOr<std::vector<int64_t>> numbers = headNumbers(op, call, heads);
  if (failed(numbers))
    return failure();

  // Key/value head of each query head, -1 for padding.
  std::vector<int64_t> headOf(heads);
  if (RankTableAttr table = op.getKvHeadsAttr()) {
    FailureOr<ArrayRef<int64_t>> row = call.row(table);
    if (failed(row))
      return failure();
    headOf.assign(row->begin(), row->end());
  } else {
    for (int64_t h = 0; h < heads; ++h)
      headOf[h] = h / (heads / key.shape[2]);
  }

  for (int64_t b = 0; b < query.shape[0]; ++b) {
    std::vector<Key> keys;
    if (failed(collectKeys(op, call, b, keys)))
      return failure();
    for (int64_t t = 0; t < query.shape[1]; ++t) {
      FailureOr<int64_t> position =
          call.index(positions.at(b, t), kNoLimit, "query position");
      if (failed(position))
        return failure();
      int64_t document = 0;
      if (documents) {
        FailureOr<int64_t> number =
            call.index(documents->at(b, t), kNoLimit, "query document");
        if (failed(number))
          return failure();
        document = *number;
      }
      std::vector<Key> visible;
      for (const Key &k : keys)
        if ((!op.getCausal() || k.position <= *position) &&
            (window == 0 || *position - k.position < window) &&
            k.document == document)
          visible.push_back(k);

      for (int64_t h = 0; h < heads; ++h) {
        if (lse)
          lse->at(b, t, h) = -kInfinity;
        int64_t g = headOf[h];
        if (g < 0)
          continue; // zeros
        double sink = sinks ? sinks->at(h) : -kInfinity;
        if (visible.empty()) {
          if (lse)
            lse->at(b, t, h) = sink;
          continue;
        }
        std::vector<double> weights;
        double largest = sink;
        for (const Key &k : visible) {
          double dot = 0;
          for (int64_t e = 0; e < width; ++e)
            dot += query.at(b, t, h, e) * key.at(k.block, k.slot, g, e);
          double score = scale * dot;
          if (cap > 0)
            score = cap * std::tanh(score / cap);
          if (alibi && (*numbers)[h] >= 0)
            score += slopeOf((*numbers)[h], alibi.getHeads(),
                             alibi.getBias().convertToDouble()) *
                     static_cast<double>(k.position - *position);
          weights.push_back(score);
          largest = std::max(largest, weights.back());
        }
        double sum = std::exp(sink - largest);
        for (double &w : weights) {
          w = std::exp(w - largest);
          sum += w;
        }
        for (size_t i = 0; i < visible.size(); ++i)
          for (int64_t e = 0; e < width; ++e)
            out.at(b, t, h, e) +=
                weights[i] / sum *
                value.at(visible[i].block, visible[i].slot, g, e);
        if (lse)
          lse->at(b, t, h) = largest + std::log(sum);
      }
    }
  }
  return success();
}

static LogicalResult attention(AttentionOp op, OpCall &call) {
  return attend(op, call, call.result(), nullptr);
}

static LogicalResult attentionPartial(AttentionPartialOp op, OpCall &call) {
  return attend(op, call, call.result(0), &call.result(1));
}

static LogicalResult mergePartials(MergePartialsOp op, OpCall &call) {
  const Tensor &out1 = call[op.getOut1()], &out2 = call[op.getOut2()];
  const Tensor &lse1 = call[op.getLse1()], &lse2 = call[op.getLse2()];
  Tensor &out = call.result(0), &lse = call.result(1);
  int64_t width = out.shape.back();
  for (int64_t row = 0; row < lse.size(); ++row) {
    double l1 = lse1.data[row], l2 = lse2.data[row];
    if (l1 == -kInfinity && l2 == -kInfinity) {
      lse.data[row] = -kInfinity; // two empty parts: zeros
      continue;
    }
    double largest = std::max(l1, l2);
    double l =
        largest + std::log(std::exp(l1 - largest) + std::exp(l2 - largest));
    lse.data[row] = l;
    for (int64_t e = 0; e < width; ++e)
      out.data[row * width + e] =
          out1.data[row * width + e] * std::exp(l1 - l) +
          out2.data[row * width + e] * std::exp(l2 - l);
  }
  return success();
}

void reference::registerAttentionOps(Registry &registry) {
  registry.add<AttentionOp>(attention);
  registry.add<AttentionPartialOp>(attentionPartial);
  registry.add<MergePartialsOp>(mergePartials);
}
