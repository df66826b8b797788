//===- CacheOps.cpp - The key/value cache pool ----------------------------===//
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

static LogicalResult cacheSlots(CacheSlotsOp op, OpCall &call) {
  const Tensor &positions = call[op.getPositions()];
  const Tensor &blocks = call[op.getBlocks()];
  Tensor &out = call.result();
  int64_t size = op.getBlockSize(), count = blocks.shape[1];
  for (int64_t b = 0; b < positions.shape[0]; ++b)
    for (int64_t t = 0; t < positions.shape[1]; ++t) {
      out.at(b, t) = -1;
      FailureOr<int64_t> position =
          call.index(positions.at(b, t), kNoLimit, "position");
      if (failed(position))
        return failure();
      if (*position < 0)
        continue;
      if (*position / size >= count)
        return call.emitError()
               << "expected a position in one of " << count << " blocks of "
               << size << ", got " << *position;
      FailureOr<int64_t> block =
          call.index(blocks.at(b, *position / size), kNoLimit, "block");
      if (failed(block))
        return failure();
      if (*block >= 0)
        out.at(b, t) = static_cast<double>(*block) * static_cast<double>(size) +
                       static_cast<double>(*position % size);
    }
  return success();
}

static LogicalResult cacheAppend(CacheAppendOp op, OpCall &call) {
  const Tensor &values = call[op.getValues()], &slots = call[op.getSlots()];
  Tensor &pool = call.result();
  pool.data = call[op.getPool()].data;
  int64_t capacity = pool.shape[0] * pool.shape[1];
  int64_t width = slots.size() ? values.size() / slots.size() : 0;
  for (int64_t i = 0; i < slots.size(); ++i) {
    FailureOr<int64_t> slot = call.index(slots.data[i], capacity, "slot");
    if (failed(slot))
      return failure();
    if (*slot < 0)
      continue; // not written
    for (int64_t e = 0; e < width; ++e)
      pool.data[*slot * width + e] = values.data[i * width + e];
  }
  return success();
}

void reference::registerCacheOps(Registry &registry) {
  registry.add<CacheSlotsOp>(cacheSlots);
  registry.add<CacheAppendOp>(cacheAppend);
}
