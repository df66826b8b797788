//===- MergeAttention.h - Caches that lie over ranks ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_MERGEATTENTION_H
#define HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_MERGEATTENTION_H

#include "LocalAttention.h"

namespace mlir::heddle {

/// Attention to this rank's part of a cache that lies over `ranks` ranks;
/// partial results are gathered and merged in order of ranks, so that every
/// rank gets the same bits.
Value emitMergeAttention(OpBuilder &builder, const LocalAttention &local,
                         int64_t ranks, int64_t &collectives);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_MERGEATTENTION_H
