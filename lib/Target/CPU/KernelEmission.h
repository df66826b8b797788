//===- KernelEmission.h - The classes of kernels ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TARGET_CPU_KERNELEMISSION_H
#define HEDDLE_LIB_TARGET_CPU_KERNELEMISSION_H

#include "KernelBuilder.h"

namespace mlir::heddle::cpu {

// attention, attention_partial: `op` is one of the two.
LogicalResult checkAttention(const KernelFunction &kernel, Operation *op);
int64_t attentionTiles(Operation *op, const TargetRecord &target);
void emitAttention(KernelBuilder &b, Operation *op);

// linear
LogicalResult checkLinear(const KernelFunction &kernel, LinearOp op);
int64_t linearTiles(ArrayRef<LinearOp> ops, const TargetRecord &target);
void emitLinears(KernelBuilder &b, ArrayRef<LinearOp> ops);
/// One of `count` blocks of rows, as equal as they come.
struct RowBlock {
  Value index;
  int64_t count;

  /// Its part of `size` rows, or tiles of them: the first and the end.
  std::pair<Value, Value> part(KernelBuilder &b, Value size) const {
    auto begin = [&](Value i) { return b.idiv(b.imul(i, size), count); };
    return {begin(index), begin(b.iadd(index, 1))};
  }
};
// … with a packed weight: units of work, and some of them.
int64_t panelLinearUnits(LinearOp op, const TargetRecord &target);
void emitPanelLinear(KernelBuilder &b, LinearOp op, Value from, Value to);
// … of many rows of int8 activations, where the target has tile registers.
bool isTileLinear(LinearOp op, const TargetRecord &target);
int64_t tileLinearUnits(LinearOp op);
/// `from` and `to` are units of the block of rows.
void emitTileLinear(KernelBuilder &b, LinearOp op, RowBlock block, Value from,
                    Value to);
// … of many rows of fp32 activations, likewise.
bool isSplitLinear(LinearOp op, const TargetRecord &target);
int64_t splitLinearUnits(LinearOp op);
/// Memory that the products of a kernel use one after the other: bf16 terms,
/// each a tile, of a unit's weights by panel, step, term and of a tile of
/// activations by step, term; tiles of sums, fp32.
struct SplitScratch {
  Buffer weights, activations, sums;
  static SplitScratch get(KernelBuilder &b, ArrayRef<LinearOp> ops);
};
void emitSplitLinear(KernelBuilder &b, LinearOp op, const SplitScratch &memory,
                     RowBlock block, Value from, Value to);

// sample
int64_t sampleTiles(SampleOp op);
void emitSample(KernelBuilder &b, SampleOp op);

} // namespace mlir::heddle::cpu

#endif // HEDDLE_LIB_TARGET_CPU_KERNELEMISSION_H
