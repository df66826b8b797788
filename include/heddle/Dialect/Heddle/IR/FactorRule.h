//===- FactorRule.h - An op's dimensions as factors -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// A factor rule describes an op the way an einsum does. Every dimension of
// every operand and result is a product of factors, major to minor:
//
//   linear          ([b, t, k], [n, k]) -> [b, t, n]       k: sum
//   split_heads     ([b, t, h*e]) -> [b, t, h, e]
//   attention       ([b, t, h, e], [b, s, g, e], …) -> [b, t, h, e]
//                                                           s: softmax
//
// Dimensions that share a factor must lie over ranks in the same way. A factor
// that only operands have is reduced; its kind says how. The model is Shardy's
// factor rules.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_FACTORRULE_H
#define HEDDLE_DIALECT_HEDDLE_IR_FACTORRULE_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace mlir::heddle {

enum class FactorKind {
  /// Any sharding: ranks compute their own part.
  Parallel,
  /// Reduced by addition: sharding it makes the result a pending sum.
  Sum,
  /// Reduced by maximum.
  Max,
  /// The key factor of attention: sharding it needs partial attention.
  Softmax,
  /// Needed whole on every rank.
  Whole,
};

struct Factor {
  std::string name;
  FactorKind kind = FactorKind::Parallel;
  int64_t size = 1;
  /// For key/value heads: the factor of the query heads, which decides this
  /// one's layout; head h of it needs head h / groupSize here.
  int follows = -1;
  int64_t groupSize = 1;
  /// For pools that hold the sequences of a batch: the batch factor; for keys
  /// that are spread as the queries are: the queries' tokens. The two are
  /// sharded over the same axes.
  int alignedWith = -1;
};

/// The factors of one dimension, major to minor.
using DimFactors = llvm::SmallVector<int, 2>;
/// The dimensions of one tensor.
using TensorFactors = llvm::SmallVector<DimFactors, 4>;

struct FactorRule {
  llvm::SmallVector<Factor, 6> factors;
  llvm::SmallVector<TensorFactors, 4> operands;
  llvm::SmallVector<TensorFactors, 2> results;
  /// An operand whose elements are indices into a factor: where that is
  /// sharded, they are made local (`heddle.local_index`).
  struct Index {
    unsigned operand;
    int factor;
    /// Indices count `scale` to an element of the factor (slots of a block).
    int64_t scale = 1;
    /// Not 0: the factor's index is what is left of the index modulo this (the
    /// place in a block, where another factor is the block).
    int64_t within = 0;
    /// It says how many elements, not which one.
    bool counts = false;
  };
  llvm::SmallVector<Index, 1> indices;

  int add(llvm::StringRef name, FactorKind kind, int64_t size) {
    factors.push_back({name.str(), kind, size, -1, 1, -1});
    return static_cast<int>(factors.size()) - 1;
  }
};

} // namespace mlir::heddle

#endif // HEDDLE_DIALECT_HEDDLE_IR_FACTORRULE_H
