//===- OrderedOps.cpp - Ops whose result depends on an order: argmax ----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ArgmaxLanes.h"
#include "RowEmitter.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

//===----------------------------------------------------------------------===//
// Best
//===----------------------------------------------------------------------===//

// No index yet is the largest unsigned one, so that -inf still beats it.
Best Best::none(KernelBuilder &b) {
  return {b.constant(b.lanesOf(b.getF32Type()),
                     -std::numeric_limits<double>::infinity()),
          b.constantInt(b.lanesOf(b.getI32Type()), -1)};
}

void Best::join(KernelBuilder &b, Best other) {
  Value larger = b.fcmp(arith::CmpFPredicate::OGT, other.value, value);
  Value equal = b.fcmp(arith::CmpFPredicate::OEQ, other.value, value);
  Value lower = b.icmp(arith::CmpIPredicate::ult, other.index, index);
  Value take = arith::OrIOp::create(b, larger, b.both(equal, lower));
  value = b.select(take, other.value, value);
  index = b.select(take, other.index, index);
}

void Best::accumulate(KernelBuilder &b, Value x, Value column, Value mask) {
  if (mask) // NaN is never chosen
    x = b.select(
        mask, x,
        b.constant(x.getType(), std::numeric_limits<double>::quiet_NaN()));
  join(b, {x, b.iadd(b.splat(b.toI32(column)), b.iota())});
}

Best Best::reduce(KernelBuilder &b) const {
  Best best = *this;
  for (int64_t n = b.lanes() / 2; n > 0; n /= 2) {
    SmallVector<int64_t> low(n), high(n);
    for (int64_t i = 0; i < n; ++i) {
      low[i] = i;
      high[i] = n + i;
    }
    auto part = [&](ArrayRef<int64_t> lanes) -> Best {
      return {vector::ShuffleOp::create(b, best.value, best.value, lanes),
              vector::ShuffleOp::create(b, best.index, best.index, lanes)};
    };
    Best upper = part(high);
    best = part(low);
    best.join(b, upper);
  }
  auto first = [&](Value v) -> Value {
    return vector::ExtractOp::create(b, v, ArrayRef<int64_t>{0});
  };
  best = {first(best.value), first(best.index)};
  Value none = b.icmp(arith::CmpIPredicate::slt, best.index, b.i32(0));
  best.index = b.select(none, b.i32(0), best.index);
  return best;
}

//===----------------------------------------------------------------------===//
// argmax
//===----------------------------------------------------------------------===//

LogicalResult cpu::addRowOp(RowProgram &p, ArgmaxOp op) {
  if (failed(p.expectRows(op, op.getResult())))
    return failure();
  if (!isa<FloatType>(tensorType(op.getLogits()).getElementType()))
    return op.emitOpError("expected floating point logits in a kernel, got ")
           << op.getLogits().getType();
  RowItem item;
  item.op = op;
  item.extent = tensorShape(op.getLogits()).back();
  item.groups = p.extentOf(op.getLogits()) / item.extent;
  item.laneInputs = {op.getLogits()};
  item.initial = [&p](RowItem &) {
    Best none = Best::none(p.b());
    return SmallVector<Value>{none.value, none.index};
  };
  item.accumulate = [&p, op](RowItem &, Lane lane,
                             MutableArrayRef<Value> carry) mutable {
    Best best{carry[0], carry[1]};
    best.accumulate(p.b(), p.lanes(op.getLogits(), lane), lane.column,
                    lane.mask);
    carry[0] = best.value;
    carry[1] = best.index;
  };
  item.combine = [&p](RowItem &, MutableArrayRef<Value> carry,
                      ArrayRef<Value> later) {
    Best best{carry[0], carry[1]};
    best.join(p.b(), {later[0], later[1]});
    carry[0] = best.value;
    carry[1] = best.index;
  };
  item.finish = [&p, op](RowItem &, Value group, ArrayRef<Value> best) mutable {
    p.storeScalarAt(op.getResult(), group,
                    Best{best[0], best[1]}.reduce(p.b()).index);
  };
  p.add(std::move(item));
  return success();
}
