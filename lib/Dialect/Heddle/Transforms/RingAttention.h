//===- RingAttention.h - Attention whose keys go round ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_RINGATTENTION_H
#define HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_RINGATTENTION_H

#include "heddle/Dialect/Heddle/IR/HeddleDialect.h"

namespace mlir::heddle {

/// One rank's operands of an attention whose keys lie over `ranks` ranks.
struct RingAttention {
  AttentionOp op;
  Value query, key, value, queryPositions, keyPositions;
  RankTableAttr kvHeads;
  RankedTensorType resultType;
  int64_t ranks;
};

/// Emits the loop of hops (Liu et al., arXiv:2310.01889): in each, a rank
/// attends to the block that it has while the next one comes from its
/// neighbour; partial results are merged in fp32. The last block is attended to
/// after the loop, and sent to nobody. Counts the collectives.
Value emitRingAttention(OpBuilder &builder, const RingAttention &ring,
                        int64_t &collectives);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_RINGATTENTION_H
