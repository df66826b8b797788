//===- MergeAttention.h - Caches that lie over ranks ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_MERGEATTENTION_H
#define HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_MERGEATTENTION_H

#include "heddle/Dialect/Heddle/IR/HeddleDialect.h"

namespace mlir::heddle {

/// An attention whose cache lies over ranks, with its local operands.
struct MergeAttention {
  AttentionOp op;
  ArrayRef<Value> operands;
  RankTableAttr kvHeads;
  RankedTensorType resultType;
  int64_t ranks;
};

/// Attention to this rank's keys, gathered and merged in order of ranks, so
/// that every rank gets the same bits.
Value emitMergeAttention(OpBuilder &builder, const MergeAttention &merge,
                         int64_t &collectives);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_MERGEATTENTION_H
