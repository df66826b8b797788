//===- Shrink.cpp - A small model of the same make ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A mesh that suits a model suits the small one, and one that does not does
// not: what is kept is what divides.
//
// - heads and kv heads stay; a head is 8 wide.
// - hidden stays in proportion to heads * head width (equal if it was equal).
// - the vocabulary becomes 96 + its remainder modulo 32.
// - intermediate keeps its odd part, if that is at most 43, and up to 2^5 of
//   its powers of two (whole quantisation blocks stay whole); larger odd parts
//   keep as many of their prime factors as fit, or become 37 if none does.
// - layers: the first two of each kind. Windows become 5.
//
//===----------------------------------------------------------------------===//

#include "heddle/Import/Import.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::heddle;

static constexpr int64_t kHeadDim = 8;
static constexpr int64_t kVocabulary = 96;
static constexpr int64_t kVocabularyStep = 32;
static constexpr int64_t kWindow = 5;
static constexpr int64_t kLayersOfKind = 2;

/// The prime factors of an odd number, smallest first, while their product is
/// at most 43; 37 if even the smallest is larger.
static int64_t shrinkOdd(int64_t odd) {
  constexpr int64_t kMost = 43, kPrime = 37;
  if (odd <= kMost)
    return odd;
  int64_t kept = 1;
  for (int64_t p = 3; p <= kMost && odd > 1; p += 2)
    for (; odd % p == 0; odd /= p)
      if (kept * p <= kMost)
        kept *= p;
  return kept > 1 ? kept : kPrime;
}

static int64_t shrinkIntermediate(int64_t width) {
  constexpr int64_t kMostPower = 32;
  int64_t power = 1;
  while (width % 2 == 0) {
    width /= 2;
    power *= 2;
  }
  return std::min(power, kMostPower) * shrinkOdd(width);
}

/// The first few layers of each kind, in order.
static void shrinkLayers(ModelConfig &config) {
  if (config.windowLayers.empty()) {
    config.layers = std::min(config.layers, kLayersOfKind);
    return;
  }
  std::vector<bool> kept;
  int64_t count[2] = {0, 0};
  for (bool slides : config.windowLayers)
    if (count[slides]++ < kLayersOfKind)
      kept.push_back(slides);
  config.windowLayers = kept;
  config.layers = static_cast<int64_t>(kept.size());
}

ModelConfig mlir::heddle::shrink(const ModelConfig &config) {
  ModelConfig small = config;
  int64_t width = config.heads * config.headDim;
  if (config.headDim > kHeadDim) {
    small.headDim = kHeadDim;
    small.rotaryDim = std::max<int64_t>(2, config.rotaryDim * kHeadDim /
                                               config.headDim / 2 * 2);
    small.hidden = config.heads * kHeadDim;
    if (config.hidden != width) {
      small.hidden = config.hidden * kHeadDim / config.headDim / 2 * 2;
      small.hidden = std::max<int64_t>(small.hidden, kHeadDim);
      if (small.hidden == config.heads * kHeadDim)
        small.hidden += kHeadDim;
    }
  }
  small.intermediate = shrinkIntermediate(config.intermediate);
  if (config.vocabulary >= kVocabulary + kVocabularyStep)
    small.vocabulary = kVocabulary + config.vocabulary % kVocabularyStep;
  shrinkLayers(small);
  if (config.window > 0)
    small.window = std::min(config.window, kWindow);
  // No file holds the small model's weights.
  small.storedTypes.clear();
  return small;
}
