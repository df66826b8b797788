//===- EmbeddingOps.cpp - Token rows: embedding, gather_rows --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::reference;

static LogicalResult embedding(EmbeddingOp op, OpCall &call) {
  const Tensor &ids = call[op.getIds()], &table = call[op.getTable()];
  Tensor &out = call.result();
  int64_t width = table.shape[1];
  for (int64_t i = 0; i < ids.size(); ++i) {
    FailureOr<int64_t> id = call.index(ids.data[i], table.shape[0], "token id");
    if (failed(id))
      return failure();
    if (*id < 0)
      continue; // a zero row
    for (int64_t d = 0; d < width; ++d)
      out.data[i * width + d] = table.at(*id, d);
  }
  return success();
}

/// A negative row, which padding holds, gives zeros.
static LogicalResult gatherRows(GatherRowsOp op, OpCall &call) {
  const Tensor &in = call[op.getInput()], &rows = call[op.getRows()];
  Tensor &out = call.result();
  for (int64_t b = 0; b < rows.shape[0]; ++b)
    for (int64_t r = 0; r < rows.shape[1]; ++r) {
      FailureOr<int64_t> row = call.index(rows.at(b, r), in.shape[1], "row");
      if (failed(row))
        return failure();
      if (*row < 0)
        continue;
      for (int64_t d = 0; d < in.shape[2]; ++d)
        out.at(b, r, d) = in.at(b, *row, d);
    }
  return success();
}

void reference::registerEmbeddingOps(Registry &registry) {
  registry.add<EmbeddingOp>(embedding);
  registry.add<GatherRowsOp>(gatherRows);
}
