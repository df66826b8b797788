//===- LowerReshard.h - A change of layout as collectives ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_LOWERRESHARD_H
#define HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_LOWERRESHARD_H

#include "heddle/Dialect/Comm/IR/CommDialect.h"
#include "heddle/Dialect/Heddle/IR/Layout.h"

namespace mlir::heddle {

/// Emits, at the builder's insertion point, local ops and collectives that take
/// `local` (a part of a tensor of type `from`) to the layout of `to`. Counts
/// the collectives in `collectives`.
FailureOr<Value> lowerReshard(OpBuilder &builder, Location loc, Value local,
                              RankedTensorType from, RankedTensorType to,
                              MeshOp mesh, StringRef reason,
                              int64_t &collectives);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_LOWERRESHARD_H
