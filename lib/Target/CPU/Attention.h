//===- Attention.h - What the attention kernels share -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TARGET_CPU_ATTENTION_H
#define HEDDLE_LIB_TARGET_CPU_ATTENTION_H

#include "KernelEmission.h"

namespace mlir::heddle::cpu {

/// The operands and attributes that the two attention ops share.
struct AttentionSpec {
  Operation *op;
  Value query, key, value, queryPositions, keyPositions, blocks, lengths,
      queryDocuments, keyDocuments, sinks;
  double scale, softCap;
  bool causal;
  int64_t window;
  RankTableAttr kvHeads;
  /// Slope of each query head, as the bits of an fp32; null without biases.
  RankTableAttr slopes;
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
    queryDocuments = typed.getQueryDocuments();
    keyDocuments = typed.getKeyDocuments();
    sinks = typed.getSinks();
    scale = typed.getScale().convertToDouble();
    softCap = typed.getSoftCap().convertToDouble();
    causal = typed.getCausal();
    window = typed.getWindow();
    kvHeads = typed.getKvHeadsAttr();
    if (AlibiAttr alibi = typed.getAlibiAttr())
      slopes = slopeTable(alibi, typed.getAlibiHeadsAttr());
  }
  static RankTableAttr slopeTable(AlibiAttr alibi, RankTableAttr heads);

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

  /// Query heads that are known to share a key head; the queries of them all.
  int64_t group() const { return kvHeads ? 1 : h / g; }
  int64_t queries() const { return t * group(); }
  bool isPartial() const { return isa<AttentionPartialOp>(op); }
  /// Something is done to the products of queries and keys.
  bool bendsScores() const { return softCap > 0 || slopes; }
  /// The key head of query head `head` on this rank, and whether there is one
  /// (null: always).
  struct KvHead {
    Value index, present;
  };
  KvHead kvHeadOf(KernelBuilder &b, Value head) const;
  /// Slope of a query head, f32.
  Value slopeOf(KernelBuilder &b, Value head) const {
    return b.bitcast(b.tableEntry(slopes, head), b.getF32Type());
  }
  /// The sink of a query head; -inf if there is no such head.
  Value sinkOf(KernelBuilder &b, Value head, Value present) const;
  /// Products of queries and keys with the soft cap, and the bias of keys that
  /// are `distance` (i32) after the query. `slope` may be null.
  Value bend(KernelBuilder &b, Value score, Value slope, Value distance) const;
  /// Logical keys of a sequence; none without a key head.
  Value lengthOf(KernelBuilder &b, Value sequence, Value present) const;
  /// Where logical key j of a sequence lies.
  struct KeyRow {
    Value row;      // in the pool; of some key, if there is none
    Value position; // i32, negative if the slot is empty
    Value document; // i32; null without documents
    Value exists;   // null: always
  };
  KeyRow keyRowOf(KernelBuilder &b, Value sequence, Value j) const;
};

/// Some consecutive keys of a sequence, for the queries of a tile that share a
/// key head.
class KeyBlock {
public:
  /// Room for `keys` keys, found in steps of `step`. `prefetch`: nothing else
  /// has asked for them yet.
  KeyBlock(KernelBuilder &b, const AttentionSpec &spec, int64_t keys,
           int64_t step, bool prefetch)
      : rows(b.scratch(keys, b.getI32Type())),
        positions(b.scratch(keys, b.getI32Type())), b(b), spec(spec),
        step(step), prefetch(prefetch) {
    if (spec.keyDocuments)
      documents = b.scratch(keys, b.getI32Type());
  }

  // Set before keys are looked for: the sequence and the key head, the least
  // and the largest position of a query (i32).
  Value sequence, kvHead, lowest, highest;
  /// … of its document.
  Value lowestDocument, highestDocument;
  /// Row and position of each key, -1 for those that do not exist or that no
  /// query can see.
  Buffer rows, positions;
  /// … and document, of those that some query may see.
  Buffer documents;

  /// Keys before `seen` are all that a query may see; those before `shared` are
  /// seen by every query.
  struct Range {
    Value seen, shared;
  };
  /// Fills rows and positions for `count` keys from `firstKey` on.
  Range find(Value firstKey, Value count);

  /// First element of the key, or value, in a row of the pool.
  Value elementsOf(Value row) const {
    return b.imul(b.iadd(b.imul(row, spec.g), kvHead), spec.e);
  }
  /// … of a key of the block: of some key, if nobody sees it.
  Value elementsAt(Value key) const {
    Value row = b.loadScalar(rows, key);
    Value some = b.icmp(arith::CmpIPredicate::sge, row, b.i32(0));
    return elementsOf(b.toIndex(b.select(some, row, b.i32(0))));
  }

private:
  KernelBuilder &b;
  const AttentionSpec &spec;
  int64_t step;
  bool prefetch;
};

/// The larger one, if neither is NaN: what becomes of a NaN is up to the
/// weights.
inline Value largerScore(KernelBuilder &b, Value x, Value y) {
  return b.select(b.fcmp(arith::CmpFPredicate::OGT, x, y), x, y);
}

// Lanes are queries (AttentionKernel.cpp): units of work, and some of them.
int64_t queryLanesUnits(const AttentionSpec &spec, const TargetRecord &target);
/// The leading ones of them that hold valid queries.
Value queryLanesUnitsToCompute(KernelBuilder &b, const AttentionSpec &spec);
void emitQueryLanes(KernelBuilder &b, const AttentionSpec &spec, Value from,
                    Value to);
// Lanes are the width of a head (DecodeAttentionKernel.cpp).
bool hasFewQueries(const AttentionSpec &spec, const TargetRecord &target);
int64_t widthLanesUnits(const AttentionSpec &spec);
void emitWidthLanes(KernelBuilder &b, const AttentionSpec &spec, Value from,
                    Value to);

} // namespace mlir::heddle::cpu

#endif // HEDDLE_LIB_TARGET_CPU_ATTENTION_H
