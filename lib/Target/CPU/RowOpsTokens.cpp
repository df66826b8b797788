//===- RowOpsTokens.cpp - Row recipes: rows by index, the cache ---------===//
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

/// A row that lies at another row of an operand, or zeros: scalars are the
/// source row and whether there is one.
static void addForeignRow(RowProgram &p, Operation *op, Value source,
                          Value result,
                          std::function<void(RowItem &)> findRow) {
  int64_t extent = p.extentOf(result);
  RowItem item;
  item.op = op;
  item.extent = extent;
  item.results = {result};
  item.atRow = std::move(findRow);
  // Quantised rows are read at whole vectors from their start.
  item.anyGroups = getBlockElements(tensorType(source).getElementType()) == 1;
  item.heavy = !item.anyGroups;
  item.compute = [&p, source, extent](RowItem &self, Lane lane) {
    KernelBuilder &b = p.b();
    Value v = b.loadRow(b.bufferOf(source), extent, self.scalars[0], lane.flat,
                        lane.mask);
    Value zero = b.constant(v.getType(), 0.0);
    return b.select(self.scalars[1], v, zero);
  };
  p.add(std::move(item));
}

//===----------------------------------------------------------------------===//
// embedding, gather_rows
//===----------------------------------------------------------------------===//

LogicalResult cpu::addRowOp(RowProgram &p, EmbeddingOp op) {
  if (failed(p.expectRows(op, op.getResult())) ||
      failed(p.expectRows(op, op.getIds())) ||
      failed(p.expectArgument(op, op.getTable())))
    return failure();
  int64_t vocabulary = tensorShape(op.getTable())[0];
  addForeignRow(p, op, op.getTable(), op.getResult(),
                [&p, op, vocabulary](RowItem &item) mutable {
                  KernelBuilder &b = p.b();
                  Value id = p.rowScalar(op.getIds());
                  // An id beyond the table must not read beyond it.
                  Value valid = b.inRange(id, vocabulary);
                  Value row = b.toIndex(b.select(valid, id, b.i32(0)));
                  item.scalars = {row, valid};
                });
  return success();
}

LogicalResult cpu::addRowOp(RowProgram &p, GatherRowsOp op) {
  if (failed(p.expectRows(op, op.getResult())) ||
      failed(p.expectRows(op, op.getRows())) ||
      failed(p.expectArgument(op, op.getInput())))
    return failure();
  Type element = tensorType(op.getInput()).getElementType();
  if (!isa<FloatType>(element))
    return op.emitOpError("expected floating point rows in a kernel, got ")
           << op.getInput().getType();
  int64_t tokens = tensorShape(op.getInput())[1];
  addForeignRow(p, op, op.getInput(), op.getResult(),
                [&p, op, tokens](RowItem &item) mutable {
                  KernelBuilder &b = p.b();
                  Value t = p.rowScalar(op.getRows());
                  Value valid = b.inRange(t, tokens);
                  Value inside = b.toIndex(b.select(valid, t, b.i32(0)));
                  Value first = b.imul(p.rowIndex(0), tokens);
                  item.scalars = {b.iadd(first, inside), valid};
                });
  return success();
}

//===----------------------------------------------------------------------===//
// cache_slots, cache_append
//===----------------------------------------------------------------------===//

LogicalResult cpu::addRowOp(RowProgram &p, CacheSlotsOp op) {
  if (failed(p.expectRows(op, op.getResult())) ||
      failed(p.expectRows(op, op.getPositions())) ||
      failed(p.expectArgument(op, op.getBlocks())))
    return failure();
  RowItem item;
  item.op = op;
  item.results = {op.getResult()};
  item.atRow = [&p, op](RowItem &) mutable {
    KernelBuilder &b = p.b();
    int64_t perSequence = tensorShape(op.getBlocks())[1];
    int64_t size = op.getBlockSize();
    Value position = p.rowScalar(op.getPositions());
    // Unsigned: negative positions, and those past the table, are out of range.
    Value valid = b.icmp(arith::CmpIPredicate::ult, b.toIndex(position),
                         b.index(perSequence * size));
    Value inside = b.toIndex(b.select(valid, position, b.i32(0)));
    Value at = b.iadd(b.imul(p.rowIndex(0), perSequence), b.idiv(inside, size));
    Value block = b.loadScalar(b.bufferOf(op.getBlocks()), at);
    Value known = b.icmp(arith::CmpIPredicate::sge, block, b.i32(0));
    Value slot = b.iadd(b.imul(block, size), b.toI32(b.irem(inside, size)));
    p.setRowScalar(op.getResult(),
                   b.select(b.both(valid, known), slot, b.i32(-1)));
  };
  p.add(std::move(item));
  return success();
}

LogicalResult cpu::addRowOp(RowProgram &p, CacheAppendOp op) {
  if (failed(p.expectRows(op, op.getValues())) ||
      failed(p.expectRows(op, op.getSlots())))
    return failure();
  Type element = tensorType(op.getValues()).getElementType();
  ArrayRef<int64_t> pool = tensorShape(op.getPool());
  int64_t slots = pool[0] * pool[1], extent = p.extentOf(op.getValues());
  if (isa<IntegerType>(element) !=
      isa<IntegerType>(tensorType(op.getPool()).getElementType()))
    return op.emitOpError("expected values of the pool's kind, got ")
           << op.getValues().getType();
  if (isa<IntegerType>(element) && extent != 1)
    return op.emitOpError("expected one integer for each token, got ")
           << op.getValues().getType();

  // Tokens without a slot, or with one beyond the pool, are not written.
  auto inPool = [&p, op, slots]() mutable {
    return p.b().inRange(p.rowScalar(op.getSlots()), slots);
  };
  RowItem item;
  item.op = op;
  if (isa<IntegerType>(element)) {
    item.atRow = [&p, op, inPool](RowItem &) mutable {
      KernelBuilder &b = p.b();
      Value condition = inPool(), value = p.rowScalar(op.getValues());
      Value slot = b.toIndex(p.rowScalar(op.getSlots()));
      b.ifThen(condition,
               [&] { b.storeScalar(b.bufferOf(op.getPool()), slot, value); });
    };
    p.add(std::move(item));
    return success();
  }
  item.extent = extent;
  item.memoryInputs = {op.getValues()};
  item.atRow = [&p, op, inPool, extent](RowItem &self) mutable {
    Value slot = p.b().toIndex(p.rowScalar(op.getSlots()));
    self.scalars = {inPool(), p.b().imul(slot, extent)};
  };
  item.loops = [&p, op, extent](RowItem &self, Value) mutable {
    KernelBuilder &b = p.b();
    b.ifThen(self.scalars[0], [&] {
      b.sweep(extent, [&](Value at, Value mask) {
        b.storeLanes(b.bufferOf(op.getPool()), b.iadd(self.scalars[1], at),
                     p.loadAt(op.getValues(), at, mask), mask);
      });
    });
  };
  p.add(std::move(item));
  return success();
}
