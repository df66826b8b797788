//===- AttentionSpec.h - What attention kernels read ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TARGET_CPU_ATTENTIONSPEC_H
#define HEDDLE_LIB_TARGET_CPU_ATTENTIONSPEC_H

#include "KernelBuilder.h"

namespace mlir::heddle::cpu {

/// The operands and attributes that the two attention ops share.
struct AttentionSpec {
  Operation *op;
  Value query, key, value, queryPositions, keyPositions, blocks, lengths;
  double scale;
  bool causal;
  int64_t window;
  RankTableAttr kvHeads;
  // B sequences, T tokens, H query heads, G key heads, E head width; keys are
  // `pools` times `slots`, and a sequence has at most `capacity`.
  int64_t b, t, h, g, e, pools, slots, capacity;

  template <typename OpTy> void read(OpTy typed) {
    query = typed.getQuery();
    key = typed.getKey();
    value = typed.getValue();
    queryPositions = typed.getQueryPositions();
    keyPositions = typed.getKeyPositions();
    blocks = typed.getBlocks();
    lengths = typed.getLengths();
    scale = typed.getScale().convertToDouble();
    causal = typed.getCausal();
    window = typed.getWindow();
    kvHeads = typed.getKvHeadsAttr();
  }

  explicit AttentionSpec(Operation *op) : op(op) {
    if (auto whole = dyn_cast<AttentionOp>(op))
      read(whole);
    else
      read(cast<AttentionPartialOp>(op));
    ArrayRef<int64_t> q = tensorShape(query), k = tensorShape(key);
    std::tie(b, t, h, e) = std::tie(q[0], q[1], q[2], q[3]);
    std::tie(pools, slots, g) = std::tie(k[0], k[1], k[2]);
    capacity = blocks ? tensorShape(blocks)[1] * slots : slots;
  }

  /// The key head of query head `head` on this rank, and whether there is one
  /// (null: always).
  struct KvHead {
    Value index, present;
  };
  KvHead kvHeadOf(KernelBuilder &b, Value head) const;
  /// Logical keys of a sequence; none without a key head.
  Value lengthOf(KernelBuilder &b, Value sequence, Value present) const;
  /// Where logical key j of a sequence lies.
  struct KeyRow {
    Value row;      // in the pool; of some key, if there is none
    Value position; // i32, negative if the slot is empty
    Value exists;   // null: always
  };
  KeyRow keyRowOf(KernelBuilder &b, Value sequence, Value j) const;
};

/// Kernels of one query and head at a time.
void emitQueryAttention(KernelBuilder &b, const AttentionSpec &spec);

/// Kernels of a block of queries of one head at a time, lanes along queries.
void emitBlockedAttention(KernelBuilder &b, const AttentionSpec &spec);
/// True where they are the faster ones.
bool isBlocked(const AttentionSpec &spec, const TargetRecord &target);
/// Pieces of work that have no more than one write.
int64_t blockedAttentionUnits(const AttentionSpec &spec,
                              const TargetRecord &target);

} // namespace mlir::heddle::cpu

#endif // HEDDLE_LIB_TARGET_CPU_ATTENTIONSPEC_H
