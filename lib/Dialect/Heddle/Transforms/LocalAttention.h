//===- LocalAttention.h - One rank's part of an attention -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `heddle-partition` knows of an attention when it emits the local ops:
// the global op, and the local twins of its operands. Methods whose keys lie
// over ranks (RingAttention.cpp, MergeAttention.cpp) build on it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_LOCALATTENTION_H
#define HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_LOCALATTENTION_H

#include "heddle/Dialect/Heddle/IR/HeddleDialect.h"
#include "heddle/Dialect/Heddle/IR/Layout.h"

namespace mlir::heddle {

struct LocalAttention {
  /// An op is a handle: what is constant is which one it is.
  mutable AttentionOp op;
  /// Local operands; null for those that the op lacks.
  Value query, key, value, queryPositions, keyPositions, blocks, lengths,
      queryDocuments, keyDocuments, sinks;
  /// Key/value head and global number of each query head; null: plain.
  RankTableAttr kvHeads, alibiHeads;
  RankedTensorType resultType;

  /// `operands` are local twins, in the order of the op's operands.
  LocalAttention(AttentionOp op, ArrayRef<Value> operands,
                 RankedTensorType resultType, RankTableAttr kvHeads,
                 RankTableAttr alibiHeads)
      : op(op), kvHeads(kvHeads), alibiHeads(alibiHeads),
        resultType(resultType) {
    Value *fields[] = {&query,        &key,    &value,   &queryPositions,
                       &keyPositions, &blocks, &lengths, &queryDocuments,
                       &keyDocuments, &sinks};
    for (auto [i, field] : llvm::enumerate(fields)) {
      auto [start, length] = op.getODSOperandIndexAndLength(i);
      *field = length ? operands[start] : Value();
    }
  }

  /// B x T x H, for log-sum-exps.
  RankedTensorType lseType() const {
    return RankedTensorType::get(resultType.getShape().drop_back(),
                                 resultType.getElementType());
  }
  /// Axes of the op's keys, as a group.
  ArrayAttr group() const {
    ArrayRef<AxisRefAttr> axes = op.getKeysAttr().getAxes();
    return ArrayAttr::get(op.getContext(),
                          SmallVector<Attribute>(axes.begin(), axes.end()));
  }
  /// Attention where this rank has all keys.
  Value whole(OpBuilder &b) const {
    return AttentionOp::create(
        b, op.getLoc(), resultType, query, key, value, queryPositions,
        keyPositions, blocks, lengths, queryDocuments, keyDocuments, sinks,
        op.getScaleAttr(), op.getCausalAttr(), op.getWindowAttr(),
        op.getSoftCapAttr(), op.getAlibiAttr(), kvHeads, alibiHeads,
        KeysAttr());
  }
  /// … to the keys that it has.
  AttentionPartialOp part(OpBuilder &b) const {
    return AttentionPartialOp::create(
        b, op.getLoc(), TypeRange{resultType, lseType()}, query, key, value,
        queryPositions, keyPositions, blocks, lengths, queryDocuments,
        keyDocuments, sinks, op.getScaleAttr(), op.getCausalAttr(),
        op.getWindowAttr(), op.getSoftCapAttr(), op.getAlibiAttr(), kvHeads,
        alibiHeads);
  }
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_LOCALATTENTION_H
