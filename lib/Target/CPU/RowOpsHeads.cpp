//===- RowOpsHeads.cpp - Row recipes: rotary positions ------------------===//
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

LogicalResult cpu::addRowOp(RowProgram &p, RotaryTableOp op) {
  if (failed(p.expectRows(op, op.getResult())) ||
      failed(p.expectRows(op, op.getPositions())))
    return failure();
  int64_t half = op.getRope().getDim() / 2;
  RowItem item;
  item.op = op;
  item.extent = 2 * half;
  item.results = {op.getResult()};
  item.atRow = [&p, op](RowItem &self) mutable {
    KernelBuilder &b = p.b();
    // An invalid row gets the angles of position 0.
    Value position = p.rowScalar(op.getPositions());
    Value zero = b.i32(0);
    Value valid = b.icmp(arith::CmpIPredicate::sgt, position, zero);
    Value wide = arith::SIToFPOp::create(b, b.getF64Type(),
                                         b.select(valid, position, zero));
    self.scalars = {b.splat(wide)};
  };
  item.loops = [&p, op, half](RowItem &self, Value) mutable {
    KernelBuilder &b = p.b();
    Buffer frequencies =
        b.table(op.getRope().inverseFrequencies(), b.getF64Type());
    b.sweep(half, [&](Value at, Value mask) {
      Value f = b.loadLanes(frequencies, at, mask);
      auto [sine, cosine] = buildSinCos(b, b.fmul(self.scalars[0], f));
      p.storeAt(op.getResult(), at, cosine, mask);
      p.storeAt(op.getResult(), b.iadd(at, half), sine, mask);
    });
  };
  p.add(std::move(item));
  return success();
}

LogicalResult cpu::addRowOp(RowProgram &p, RotaryOp op) {
  if (failed(p.expectRows(op, op.getResult())) ||
      failed(p.expectRows(op, op.getTable())))
    return failure();
  int64_t heads = tensorShape(op.getInput())[2];
  int64_t width = tensorShape(op.getInput())[3];
  int64_t half = tensorShape(op.getTable())[2] / 2;
  RowItem item;
  item.op = op;
  item.groups = heads;
  item.extent = width;
  item.results = {op.getResult()};
  item.memoryInputs = {op.getInput(), op.getTable()};
  item.loops = [&p, op, width, half](RowItem &, Value head) mutable {
    KernelBuilder &b = p.b();
    Value base = b.imul(head, width);
    b.sweep(half, [&](Value at, Value mask) {
      Value cosine = p.loadAt(op.getTable(), at, mask);
      Value sine = p.loadAt(op.getTable(), b.iadd(at, half), mask);
      Value first = b.iadd(base, at), second = b.iadd(first, half);
      Value x = p.loadAt(op.getInput(), first, mask);
      Value y = p.loadAt(op.getInput(), second, mask);
      p.storeAt(op.getResult(), first,
                b.fma(x, cosine, b.fneg(b.fmul(y, sine))), mask);
      p.storeAt(op.getResult(), second, b.fma(y, cosine, b.fmul(x, sine)),
                mask);
    });
    b.sweep(width - 2 * half, [&](Value at, Value mask) {
      Value flat = b.iadd(b.iadd(base, at), 2 * half);
      p.storeAt(op.getResult(), flat, p.loadAt(op.getInput(), flat, mask),
                mask);
    });
  };
  p.add(std::move(item));
  return success();
}
