//===- RingAttention.h - Attention whose keys go round ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_RINGATTENTION_H
#define HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_RINGATTENTION_H

#include "LocalAttention.h"

namespace mlir::heddle {

/// The distances, in ranks, from which a rank needs a block, ascending, its own
/// (0) first: those with a key that causality and `window` (0: none) let some
/// query of some rank see, if key j of the sequence may be seen by query i only
/// for j <= i (`causal`) and i - j < window. `tokens` deals queries and keys.
SmallVector<int64_t> neededHops(const Layout &tokens, bool causal,
                                int64_t window);

/// Visible pairs of queries and keys of the busiest rank over those of the
/// mean, if key j may be seen by query i only for j <= i (`causal`) and i - j <
/// window (0: none). 1 is balanced.
double busiestRank(const Layout &tokens, bool causal, int64_t window);

/// The hops of an attention op whose tokens lie so, as far as its function's
/// inputs promise what positions are.
struct RingHops {
  SmallVector<int64_t> hops;
  /// The argument whose promise (ConsecutiveAttr) some were left out for.
  std::optional<unsigned> promise;
};
RingHops ringHops(AttentionOp op, const Layout &tokens);

/// Emits the loop of hops (Liu et al., arXiv:2310.01889): in each, a rank
/// attends to the block that it has while the next one comes from `hops[i + 1]
/// - hops[i]` ranks before; partial results are merged in fp32. The last block
/// is attended to after the loop, and sent to nobody. Counts the collectives.
Value emitRingAttention(OpBuilder &builder, const LocalAttention &local,
                        ArrayRef<int64_t> hops, int64_t &collectives);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_RINGATTENTION_H
