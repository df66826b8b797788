//===- OrderedOps.cpp - Ops whose result depends on an order: argmax ----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

/// (value, index) pairs: the larger value, then the lower index.
static void keepBetter(KernelBuilder &b, Value &value, Value &index,
                       Value otherValue, Value otherIndex) {
  Value larger = b.fcmp(arith::CmpFPredicate::OGT, otherValue, value);
  Value equal = b.fcmp(arith::CmpFPredicate::OEQ, otherValue, value);
  Value lower = b.icmp(arith::CmpIPredicate::ult, otherIndex, index);
  Value take = arith::OrIOp::create(b, larger, b.both(equal, lower));
  value = b.select(take, otherValue, value);
  index = b.select(take, otherIndex, index);
}

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
  // No index yet is the largest unsigned one, so that -inf still beats it.
  item.initial = [&p](RowItem &) {
    KernelBuilder &b = p.b();
    return SmallVector<Value>{
        b.constant(b.lanesOf(b.getF32Type()),
                   -std::numeric_limits<double>::infinity()),
        b.constantInt(b.lanesOf(b.getI32Type()), -1)};
  };
  // Later elements of a lane have higher indices, so only the first -inf needs
  // the comparison of indices.
  item.accumulate = [&p, op](RowItem &, Lane lane,
                             MutableArrayRef<Value> best) mutable {
    KernelBuilder &b = p.b();
    Value x = p.lanes(op.getLogits(), lane);
    Value i = b.iadd(b.splat(b.toI32(lane.column)), b.iota());
    if (lane.mask) // NaN is never chosen
      x = b.select(
          lane.mask, x,
          b.constant(x.getType(), std::numeric_limits<double>::quiet_NaN()));
    keepBetter(b, best[0], best[1], x, i);
  };
  item.combine = [&p](RowItem &, MutableArrayRef<Value> best,
                      ArrayRef<Value> other) {
    keepBetter(p.b(), best[0], best[1], other[0], other[1]);
  };
  item.finish = [&p, op](RowItem &, Value group, ArrayRef<Value> best) mutable {
    KernelBuilder &b = p.b();
    Value value = best[0], index = best[1];
    for (int64_t n = b.lanes() / 2; n > 0; n /= 2) {
      SmallVector<int64_t> low(n), high(n);
      for (int64_t i = 0; i < n; ++i) {
        low[i] = i;
        high[i] = n + i;
      }
      auto half = [&](Value v, ArrayRef<int64_t> lanes) -> Value {
        return vector::ShuffleOp::create(b, v, v, lanes);
      };
      Value lowValue = half(value, low), lowIndex = half(index, low);
      keepBetter(b, lowValue, lowIndex, half(value, high), half(index, high));
      value = lowValue;
      index = lowIndex;
    }
    index = vector::ExtractOp::create(b, index, ArrayRef<int64_t>{0});
    // All NaN: 0.
    Value none = b.icmp(arith::CmpIPredicate::slt, index, b.i32(0));
    p.storeScalarAt(op.getResult(), group, b.select(none, b.i32(0), index));
  };
  p.add(std::move(item));
  return success();
}
