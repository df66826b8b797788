//===- CacheOps.cpp - The key/value cache pool ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpHelpers.h"

using namespace mlir;
using namespace mlir::heddle;

//===----------------------------------------------------------------------===//
// cache_slots
//===----------------------------------------------------------------------===//

LogicalResult CacheSlotsOp::verify() {
  // cache_slots_c1
  if (failed(expectRank(*this, "positions", getPositions(), 2)) ||
      failed(expectRank(*this, "blocks", getBlocks(), 2)))
    return failure();
  ArrayRef<int64_t> p = shapeOf(getPositions());
  if (failed(expectShape(*this, "blocks", getBlocks(),
                         {p[0], shapeOf(getBlocks())[1]})) ||
      failed(expectShape(*this, "result", getResult(), p)))
    return failure();
  // cache_slots_c2
  if (static_cast<int64_t>(getBlockSize()) < 1)
    return emitOpError("expected a positive block size, got ")
           << getBlockSize();
  return success();
}

FactorRule CacheSlotsOp::getFactorRule() {
  FactorRule rule;
  ArrayRef<int64_t> p = shapeOf(getPositions());
  int b = rule.add("b", FactorKind::Parallel, p[0]);
  int t = rule.add("t", FactorKind::Parallel, p[1]);
  int m = rule.add("m", FactorKind::Whole, shapeOf(getBlocks())[1]);
  rule.operands = {{{b}, {t}}, {{b}, {m}}};
  rule.results = {{{b}, {t}}};
  return rule;
}

int64_t CacheSlotsOp::getFlops() { return 0; }

//===----------------------------------------------------------------------===//
// cache_append
//===----------------------------------------------------------------------===//

LogicalResult CacheAppendOp::verify() {
  // cache_append_c1
  ArrayRef<int64_t> pool = shapeOf(getPool()), values = shapeOf(getValues());
  if (pool.size() < 2 || values.size() != pool.size())
    return emitOpError(
               "expected pool and values of one rank of 2 or more, got ")
           << getPool().getType() << " and " << getValues().getType();
  SmallVector<int64_t> want = {values[0], values[1]};
  if (failed(expectShape(*this, "slots", getSlots(), want)))
    return failure();
  want.append(pool.begin() + 2, pool.end());
  if (failed(expectShape(*this, "values", getValues(), want)))
    return failure();
  return expectShape(*this, "result", getResult(), pool);
}

FactorRule CacheAppendOp::getFactorRule() {
  FactorRule rule;
  ArrayRef<int64_t> pool = shapeOf(getPool()), values = shapeOf(getValues());
  int b = rule.add("b", FactorKind::Parallel, values[0]);
  int t = rule.add("t", FactorKind::Whole, values[1]);
  int p = rule.add("p", FactorKind::Parallel, pool[0]);
  int s = rule.add("s", FactorKind::Parallel, pool[1]);
  rule.factors[p].alignedWith = b;
  TensorFactors poolDims = {{p}, {s}}, valueDims = {{b}, {t}};
  for (size_t i = 2; i < pool.size(); ++i) {
    int f = rule.add(i == 2 ? "g" : "e", FactorKind::Parallel, pool[i]);
    poolDims.push_back({f});
    valueDims.push_back({f});
  }
  rule.operands = {poolDims, valueDims, {{b}, {t}}};
  rule.results = {poolDims};
  // Slots number the pool's tokens: block * S + offset.
  rule.indices.push_back({2, p, pool[1]});
  rule.indices.push_back({2, s, 1, pool[1]});
  return rule;
}

int64_t CacheAppendOp::getFlops() { return 0; }
