//===- RowOpsElementwise.cpp - Row recipes: norms, sums, gated units ----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"
#include "VectorMath.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

/// The row as rows of the last dimension.
static std::pair<int64_t, int64_t> lastDimension(RowProgram &p, Value v) {
  int64_t extent = tensorShape(v).back();
  return {p.extentOf(v) / extent, extent};
}

static LogicalResult expectFloats(Operation *op) {
  for (Value v : op->getOperands())
    if (!isa<FloatType>(tensorType(v).getElementType()))
      return op->emitOpError("expected floating point operands in a kernel, "
                             "got ")
             << v.getType();
  return success();
}

//===----------------------------------------------------------------------===//
// rms_norm
//===----------------------------------------------------------------------===//

LogicalResult cpu::addRowOp(RowProgram &p, RmsNormOp op) {
  if (failed(expectFloats(op)) || failed(p.expectRows(op, op.getResult())) ||
      failed(p.expectArgument(op, op.getWeight())))
    return failure();
  auto [groups, extent] = lastDimension(p, op.getInput());
  int64_t count = extent;

  RowItem squares;
  squares.op = op;
  squares.groups = groups;
  squares.extent = extent;
  squares.laneInputs = {op.getInput()};
  squares.initial = [&p](RowItem &) {
    return SmallVector<Value>{
        p.b().constant(p.b().lanesOf(p.b().getF32Type()), 0.0)};
  };
  // Lanes past the tail hold 0 only if they were loaded: select.
  squares.accumulate = [&p, op](RowItem &, Lane lane,
                                MutableArrayRef<Value> sum) mutable {
    Value x = p.lanes(op.getInput(), lane);
    if (lane.mask)
      x = p.b().select(lane.mask, x, p.b().constant(x.getType(), 0.0));
    sum[0] = p.b().fma(x, x, sum[0]);
  };
  squares.combine = [&p](RowItem &, MutableArrayRef<Value> sum,
                         ArrayRef<Value> other) {
    sum[0] = p.b().fadd(sum[0], other[0]);
  };
  squares.finish = [&p, op, count](RowItem &item, Value,
                                   ArrayRef<Value> sum) mutable {
    KernelBuilder &b = p.b();
    Value mean = b.fmul(b.reduceAdd(sum[0]), b.f32(1.0 / count));
    Value root = b.sqrt(b.fadd(mean, b.f32(op.getEps().convertToDouble())));
    item.scalars = {b.splat(b.fdiv(b.f32(1.0), root))};
  };
  RowItem *reduction = &p.add(std::move(squares));

  RowItem scale;
  scale.op = op;
  scale.groups = groups;
  scale.extent = extent;
  scale.results = {op.getResult()};
  scale.laneInputs = {op.getInput()};
  scale.after = reduction;
  scale.compute = [&p, op, reduction](RowItem &, Lane lane) mutable {
    KernelBuilder &b = p.b();
    Value x = p.lanes(op.getInput(), lane);
    Value w = p.shared(op.getWeight(), lane.column, lane);
    return b.fmul(b.fmul(x, reduction->scalars[0]), w);
  };
  p.add(std::move(scale));
  return success();
}

//===----------------------------------------------------------------------===//
// add, bias_add, glu, fill
//===----------------------------------------------------------------------===//

/// A result whose elements are those of the operands, one by one.
static RowItem elementwise(RowProgram &p, Operation *op) {
  RowItem item;
  item.op = op;
  item.extent = p.extentOf(op->getResult(0));
  item.anyGroups = true;
  item.results = {op->getResult(0)};
  item.laneInputs.assign(op->operand_begin(), op->operand_end());
  return item;
}

LogicalResult cpu::addRowOp(RowProgram &p, AddOp op) {
  if (failed(expectFloats(op)) || failed(p.expectRows(op, op.getResult())))
    return failure();
  RowItem item = elementwise(p, op);
  item.compute = [&p, op](RowItem &, Lane lane) mutable {
    return p.b().fadd(p.lanes(op.getLhs(), lane), p.lanes(op.getRhs(), lane));
  };
  p.add(std::move(item));
  return success();
}

LogicalResult cpu::addRowOp(RowProgram &p, BiasAddOp op) {
  if (failed(expectFloats(op)) || failed(p.expectRows(op, op.getResult())) ||
      failed(p.expectArgument(op, op.getBias())))
    return failure();
  RowItem item;
  item.op = op;
  std::tie(item.groups, item.extent) = lastDimension(p, op.getInput());
  item.results = {op.getResult()};
  item.laneInputs = {op.getInput()};
  item.compute = [&p, op](RowItem &, Lane lane) mutable {
    return p.b().fadd(p.lanes(op.getInput(), lane),
                      p.shared(op.getBias(), lane.column, lane));
  };
  p.add(std::move(item));
  return success();
}

LogicalResult cpu::addRowOp(RowProgram &p, GluOp op) {
  if (failed(expectFloats(op)) || failed(p.expectRows(op, op.getResult())))
    return failure();
  RowItem item = elementwise(p, op);
  item.heavy = op.getKind() != GluKind::Relu;
  item.compute = [&p, op](RowItem &, Lane lane) mutable {
    Value gate = p.lanes(op.getGate(), lane), up = p.lanes(op.getUp(), lane);
    return p.b().fmul(buildActivation(p.b(), op.getKind(), gate), up);
  };
  p.add(std::move(item));
  return success();
}

LogicalResult cpu::addRowOp(RowProgram &p, FillOp op) {
  if (failed(p.expectRows(op, op.getResult())))
    return failure();
  RowItem item = elementwise(p, op);
  item.compute = [&p, op](RowItem &, Lane) mutable {
    return p.b().constant(p.b().lanesOf(p.b().getF32Type()),
                          op.getValue().convertToDouble());
  };
  p.add(std::move(item));
  return success();
}

//===----------------------------------------------------------------------===//
// merge_partials
//===----------------------------------------------------------------------===//

LogicalResult cpu::addRowOp(RowProgram &p, MergePartialsOp op) {
  if (failed(p.expectRows(op, op.getResult())))
    return failure();
  RowItem item;
  item.op = op;
  std::tie(item.groups, item.extent) = lastDimension(p, op.getOut1());
  item.results = {op.getResult(), op.getLse()};
  item.laneInputs = {op.getOut1(), op.getOut2()};
  item.memoryInputs = {op.getLse1(), op.getLse2()};
  item.atGroup = [&p, op](RowItem &self, Value group) mutable {
    KernelBuilder &b = p.b();
    Value lse1 = p.loadScalarAt(op.getLse1(), group);
    Value lse2 = p.loadScalarAt(op.getLse2(), group);
    // With both parts empty the differences would be NaN: take 0 as the top.
    Value empty = b.f32(-std::numeric_limits<double>::infinity());
    Value top = b.fmax(lse1, lse2);
    Value none = b.fcmp(arith::CmpFPredicate::OEQ, top, empty);
    Value base = b.select(none, b.f32(0.0), top);
    Value w1 = buildExp(b, b.fsub(lse1, base));
    Value w2 = buildExp(b, b.fsub(lse2, base));
    Value sum = b.fadd(w1, w2);
    Value divisor = b.select(none, b.f32(1.0), sum);
    Value lse = b.select(none, empty, b.fadd(base, buildLog(b, divisor)));
    p.storeScalarAt(op.getLse(), group, lse);
    self.scalars = {b.splat(b.fdiv(w1, divisor)), b.splat(b.fdiv(w2, divisor))};
  };
  item.compute = [&p, op](RowItem &self, Lane lane) mutable {
    Value first = p.b().fmul(p.lanes(op.getOut1(), lane), self.scalars[0]);
    return p.b().fma(p.lanes(op.getOut2(), lane), self.scalars[1], first);
  };
  p.add(std::move(item));
  return success();
}
