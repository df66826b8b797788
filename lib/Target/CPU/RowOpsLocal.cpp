//===- RowOpsLocal.cpp - Row recipes: padding, units of a dimension -----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"

#include "llvm/ADT/DenseMap.h"

#include <numeric>

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

//===----------------------------------------------------------------------===//
// local_index
//===----------------------------------------------------------------------===//

/// The place in a block is looked up, the block stays.
static void addIndexWithin(RowProgram &p, LocalIndexOp op, int64_t rows) {
  SmallVector<int64_t> elements;
  for (int64_t r = 0; r < rows; ++r)
    elements.append(op.elementsWithin(r));
  RowItem item;
  item.op = op;
  item.results = {op.getResult()};
  item.atRow = [&p, op, elements](RowItem &) mutable {
    KernelBuilder &b = p.b();
    int64_t within = op.getWithin();
    int64_t extent = op.getUnits().getCols() * op.getUnit();
    Value i = p.rowScalar(op.getInput());
    Value known = b.icmp(arith::CmpIPredicate::sge, i, b.i32(0));
    Value index = b.toIndex(b.select(known, i, b.i32(0)));
    Value at = b.iadd(b.imul(b.tableRow(op.getUnits()), within),
                      b.irem(index, within));
    Value element = b.loadScalar(b.table(elements, b.getI32Type()), at);
    Value mine = b.icmp(arith::CmpIPredicate::sge, element, b.i32(0));
    Value local =
        b.iadd(b.toI32(b.imul(b.idiv(index, within), extent)), element);
    p.setRowScalar(op.getResult(),
                   b.select(b.both(known, mine), local, b.i32(-1)));
  };
  p.add(std::move(item));
}

LogicalResult cpu::addRowOp(RowProgram &p, LocalIndexOp op) {
  if (failed(p.expectRows(op, op.getResult())))
    return failure();
  if (p.extentOf(op.getResult()) != 1)
    return op.emitOpError("expected one index for each row of the kernel, got ")
           << op.getResult().getType();
  // The inverse of the table: unit to slot.
  RankTableAttr units = op.getUnits();
  int64_t rows = KernelBuilder::tableRows(units), cols = units.getCols();
  if (op.getWithin() > 0) {
    addIndexWithin(p, op, rows);
    return success();
  }
  int64_t count = 1;
  for (int64_t u : units.getValues())
    count = std::max(count, u + 1);
  SmallVector<int64_t> slotOf(rows * count, -1);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t s = cols - 1; s >= 0; --s)
      if (int64_t u = units.at(r, s); u >= 0)
        slotOf[r * count + u] = s;

  RowItem item;
  item.op = op;
  item.results = {op.getResult()};
  item.atRow = [&p, op, slotOf, count](RowItem &) mutable {
    KernelBuilder &b = p.b();
    int64_t unit = op.getUnit();
    Value i = p.rowScalar(op.getInput());
    Value known =
        b.icmp(arith::CmpIPredicate::ult, b.toIndex(i), b.index(count * unit));
    Value inside = b.toIndex(b.select(known, i, b.i32(0)));
    Value at =
        b.iadd(b.imul(b.tableRow(op.getUnits()), count), b.idiv(inside, unit));
    Value slot = b.loadScalar(b.table(slotOf, b.getI32Type()), at);
    Value mine = b.icmp(arith::CmpIPredicate::sge, slot, b.i32(0));
    Value local = b.iadd(b.imul(slot, unit), b.toI32(b.irem(inside, unit)));
    p.setRowScalar(op.getResult(),
                   b.select(b.both(known, mine), local, b.i32(-1)));
  };
  p.add(std::move(item));
  return success();
}

//===----------------------------------------------------------------------===//
// mask_pad
//===----------------------------------------------------------------------===//

/// valid[r * extent + i]: element i of the masked dimension exists on row r of
/// the table.
static SmallVector<int64_t> validElements(MaskPadOp op) {
  RankTableAttr units = op.getUnits();
  int64_t unit = op.getUnit(), size = op.getGlobalSize();
  SmallVector<int64_t> valid;
  for (int64_t r = 0; r < KernelBuilder::tableRows(units); ++r)
    for (int64_t s = 0; s < units.getCols(); ++s)
      for (int64_t i = 0; i < unit; ++i)
        valid.push_back(units.at(r, s) >= 0 &&
                        units.at(r, s) * unit + i < size);
  return valid;
}

/// The mask of a dimension that numbers rows: the whole row or nothing.
static LogicalResult addRowMask(RowProgram &p, MaskPadOp op) {
  SmallVector<int64_t> valid = validElements(op);
  int64_t extent = tensorShape(op.getInput())[op.getDim()];
  bool integer = isa<IntegerType>(tensorType(op.getInput()).getElementType());
  if (integer && p.extentOf(op.getResult()) != 1)
    return op.emitOpError("expected one integer for each row of the kernel, "
                          "got ")
           << op.getResult().getType();
  RowItem item;
  item.op = op;
  item.results = {op.getResult()};
  item.atRow = [&p, op, valid, extent, integer](RowItem &self) mutable {
    KernelBuilder &b = p.b();
    Value at = b.iadd(b.imul(b.tableRow(op.getUnits()), extent),
                      p.rowIndex(op.getDim()));
    Value flag = b.loadScalar(b.table(valid, b.getI8Type()), at);
    Value exists =
        b.icmp(arith::CmpIPredicate::ne, flag, b.constantInt(b.getI8Type(), 0));
    self.scalars = {exists};
    if (integer) {
      int64_t identity =
          static_cast<int64_t>(op.getIdentity().convertToDouble());
      p.setRowScalar(
          op.getResult(),
          b.select(exists, p.rowScalar(op.getInput()), b.i32(identity)));
    }
  };
  if (!integer) {
    item.extent = p.extentOf(op.getResult());
    item.anyGroups = true;
    item.laneInputs = {op.getInput()};
    item.compute = [&p, op](RowItem &self, Lane lane) mutable {
      Value x = p.lanes(op.getInput(), lane);
      Value identity =
          p.b().constant(x.getType(), op.getIdentity().convertToDouble());
      return p.b().select(self.scalars[0], x, identity);
    };
  }
  p.add(std::move(item));
  return success();
}

LogicalResult cpu::addRowOp(RowProgram &p, MaskPadOp op) {
  if (failed(p.expectRows(op, op.getResult())))
    return failure();
  int64_t dim = op.getDim();
  if (dim < static_cast<int64_t>(p.rowShape.size()))
    return addRowMask(p, op);
  if (!isa<FloatType>(tensorType(op.getInput()).getElementType()))
    return op.emitOpError("expected one integer for each row of the kernel, "
                          "got ")
           << op.getResult().getType();

  // Elements [0, limit) of each period exist, or a table says which.
  ArrayRef<int64_t> shape = tensorShape(op.getInput());
  int64_t inner = product(shape.drop_front(dim + 1));
  int64_t period = shape[dim] * inner;
  SmallVector<int64_t> valid = validElements(op), limits, expanded;
  bool prefix = true;
  for (size_t r = 0; r < valid.size() / shape[dim]; ++r) {
    ArrayRef<int64_t> row = ArrayRef(valid).slice(r * shape[dim], shape[dim]);
    limits.push_back(inner * llvm::count(row, 1));
    prefix &= llvm::is_sorted(llvm::reverse(row));
  }
  if (!prefix)
    for (int64_t v : valid)
      expanded.append(inner, v);

  RowItem item;
  item.op = op;
  item.extent = period;
  item.groups = p.extentOf(op.getResult()) / period;
  item.anyGroups = item.groups == 1;
  item.results = {op.getResult()};
  item.laneInputs = {op.getInput()};
  item.atRow = [&p, op, limits, prefix, period](RowItem &self) mutable {
    KernelBuilder &b = p.b();
    Value row = b.tableRow(op.getUnits());
    self.scalars = {
        prefix ? b.splat(b.loadScalar(b.table(limits, b.getI32Type()), row))
               : b.imul(row, period)};
  };
  item.compute = [&p, op, prefix, expanded](RowItem &self, Lane lane) mutable {
    KernelBuilder &b = p.b();
    Value x = p.lanes(op.getInput(), lane), exists;
    Value at = self.groups == 1 ? lane.flat : lane.column;
    if (prefix) {
      Value i = b.iadd(b.splat(b.toI32(at)), b.iota());
      exists = b.icmp(arith::CmpIPredicate::slt, i, self.scalars[0]);
    } else {
      Value flags = b.loadLanes(b.table(expanded, b.getI8Type()),
                                b.iadd(self.scalars[0], at), lane.mask);
      exists = b.icmp(arith::CmpIPredicate::ne, flags,
                      b.constantInt(flags.getType(), 0));
    }
    return b.select(
        exists, x, b.constant(x.getType(), op.getIdentity().convertToDouble()));
  };
  p.add(std::move(item));
  return success();
}

//===----------------------------------------------------------------------===//
// take_units
//===----------------------------------------------------------------------===//

/// source[r * extent + i]: which element of the input's dimension element i of
/// the result is on row r of the table; -1 is zero.
static SmallVector<int64_t> sourceElements(TakeUnitsOp op) {
  RankTableAttr slots = op.getSlots();
  int64_t unit = op.getUnit(), dim = op.getDim();
  int64_t in = tensorShape(op.getInput())[dim];
  int64_t out = tensorShape(op.getResult())[dim];
  SmallVector<int64_t> source;
  for (int64_t r = 0; r < KernelBuilder::tableRows(slots); ++r)
    for (int64_t i = 0; i < out; ++i) {
      int64_t u = slots.at(r, i / unit), e = u * unit + i % unit;
      source.push_back(u >= 0 && e < in ? e : -1);
    }
  return source;
}

/// Units of a dimension that numbers rows: every row is another row.
static LogicalResult addRowTake(RowProgram &p, TakeUnitsOp op) {
  if (failed(p.expectArgument(op, op.getInput())))
    return failure();
  SmallVector<int64_t> source = sourceElements(op);
  int64_t dim = op.getDim(), extent = p.extentOf(op.getResult());
  int64_t in = tensorShape(op.getInput())[dim];
  int64_t out = tensorShape(op.getResult())[dim];
  bool integer = isa<IntegerType>(tensorType(op.getInput()).getElementType());
  if (integer && extent != 1)
    return op.emitOpError("expected one integer for each row of the kernel, "
                          "got ")
           << op.getResult().getType();
  RowItem item;
  item.op = op;
  item.results = {op.getResult()};
  item.atRow = [&p, op, source, dim, in, out, integer](RowItem &self) mutable {
    KernelBuilder &b = p.b();
    Value at = b.iadd(b.imul(b.tableRow(op.getSlots()), out), p.rowIndex(dim));
    Value from = b.loadScalar(b.table(source, b.getI32Type()), at);
    Value exists = b.icmp(arith::CmpIPredicate::sge, from, b.i32(0));
    from = b.toIndex(b.select(exists, from, b.i32(0)));
    // The row number with the dimension's coordinate and extent replaced.
    ArrayRef<int64_t> shape = p.rowShape;
    int64_t inner = product(shape.drop_front(dim + 1));
    Value outer = b.idiv(p.row(), inner * out);
    Value row = b.iadd(b.imul(b.iadd(b.imul(outer, in), from), inner),
                       b.irem(p.row(), inner));
    self.scalars = {exists, row};
    if (integer) {
      Value v = b.loadScalar(b.bufferOf(op.getInput()), row);
      p.setRowScalar(op.getResult(), b.select(exists, v, b.i32(0)));
    }
  };
  if (isa<Q8Type>(tensorType(op.getInput()).getElementType())) {
    // Rows of blocks, word by word.
    item.extent = extent;
    item.loops = [&p, op, extent](RowItem &self, Value) mutable {
      KernelBuilder &b = p.b();
      int64_t words =
          extent / QuantizedBlock::kElements * QuantizedBlock::kWords;
      Type i32 = b.getI32Type();
      Buffer from = b.bufferOf(op.getInput()), to = b.resultOf(op.getResult());
      from.element = to.element = i32;
      Value source = b.imul(self.scalars[1], words);
      Value target = b.imul(p.row(), words);
      Value zero = b.constantInt(b.lanesOf(i32), 0);
      b.sweep(words, [&](Value at, Value mask) {
        Value v = b.loadLanes(from, b.iadd(source, at), mask);
        b.storeLanes(to, b.iadd(target, at), b.select(self.scalars[0], v, zero),
                     mask);
      });
    };
  } else if (!integer) {
    item.extent = extent;
    item.anyGroups = true;
    item.compute = [&p, op, extent](RowItem &self, Lane lane) mutable {
      KernelBuilder &b = p.b();
      Value v = b.loadRow(b.bufferOf(op.getInput()), extent, self.scalars[1],
                          lane.flat, lane.mask);
      return b.select(self.scalars[0], v, b.constant(v.getType(), 0.0));
    };
  }
  p.add(std::move(item));
  return success();
}

//===----------------------------------------------------------------------===//
// split_chunks, join_chunks
//===----------------------------------------------------------------------===//

/// Rows of what follows the cut dimension; `sourceRow` says which row of the
/// input the one at hand is.
template <typename OpTy, typename SourceRow>
static LogicalResult addChunks(RowProgram &p, OpTy op, SourceRow sourceRow) {
  if (failed(p.expectRows(op, op.getResult())) ||
      failed(p.expectArgument(op, op.getInput())))
    return failure();
  if (!isa<FloatType>(tensorType(op.getInput()).getElementType()))
    return op.emitOpError("expected floats, got ") << op.getInput().getType();
  RowItem item;
  item.op = op;
  item.results = {op.getResult()};
  item.atRow = [&p, sourceRow](RowItem &self) mutable {
    self.scalars = {sourceRow(p.b(), p.row())};
  };
  int64_t extent = item.extent = p.extentOf(op.getResult());
  item.anyGroups = true;
  item.compute = [&p, op, extent](RowItem &self, Lane lane) mutable {
    return p.b().loadRow(p.b().bufferOf(op.getInput()), extent, self.scalars[0],
                         lane.flat, lane.mask);
  };
  p.add(std::move(item));
  return success();
}

/// Row (a, b, c) of A x B x C is row (b, a, c) of B x A x C.
static Value swapOuter(KernelBuilder &b, Value row, int64_t outer,
                       int64_t middle, int64_t inner) {
  Value i = b.idiv(row, middle * inner);
  Value j = b.irem(b.idiv(row, inner), middle);
  Value c = b.irem(row, inner);
  return b.iadd(b.imul(b.iadd(b.imul(j, outer), i), inner), c);
}

LogicalResult cpu::addRowOp(RowProgram &p, SplitChunksOp op) {
  ArrayRef<int64_t> chunks = tensorShape(op.getResult());
  int64_t dim = op.getDim(), n = chunks[0], extent = chunks[dim + 1];
  int64_t outer = product(chunks.slice(1, dim));
  return addChunks(p, op, [=](KernelBuilder &b, Value row) {
    return swapOuter(b, row, n, outer, extent);
  });
}

LogicalResult cpu::addRowOp(RowProgram &p, JoinChunksOp op) {
  ArrayRef<int64_t> chunks = tensorShape(op.getInput());
  int64_t dim = op.getDim(), n = chunks[0], extent = chunks[dim + 1];
  int64_t outer = product(chunks.slice(1, dim));
  return addChunks(p, op, [=](KernelBuilder &b, Value row) {
    return swapOuter(b, row, outer, n, extent);
  });
}

/// Where runs of consecutive source elements begin, on any rank.
static SmallVector<int64_t> runStarts(ArrayRef<int64_t> source, int64_t out) {
  SmallVector<int64_t> starts = {0};
  for (int64_t i = 1; i < out; ++i)
    for (size_t r = 0; r < source.size() / out; ++r) {
      int64_t before = source[r * out + i - 1], here = source[r * out + i];
      if (here != (before < 0 ? -1 : before + 1)) {
        starts.push_back(i);
        break;
      }
    }
  return starts;
}

LogicalResult cpu::addRowOp(RowProgram &p, TakeUnitsOp op) {
  if (failed(p.expectRows(op, op.getResult())))
    return failure();
  int64_t dim = op.getDim();
  if (dim < static_cast<int64_t>(p.rowShape.size()))
    return addRowTake(p, op);
  if (failed(p.expectRows(op, op.getInput())))
    return failure();
  if (!isa<FloatType>(tensorType(op.getInput()).getElementType()))
    return op.emitOpError("expected one integer for each row of the kernel, "
                          "got ")
           << op.getResult().getType();

  int64_t in = tensorShape(op.getInput())[dim];
  int64_t out = tensorShape(op.getResult())[dim];
  int64_t inner = product(tensorShape(op.getInput()).drop_front(dim + 1));
  int64_t outer = p.extentOf(op.getResult()) / (out * inner);
  SmallVector<int64_t> source = sourceElements(op);
  // Few runs are copied one by one; of many, pieces of equal length.
  static constexpr size_t kMaxRuns = 16;
  SmallVector<int64_t> starts = runStarts(source, out);
  if (starts.size() > kMaxRuns) {
    int64_t piece = out;
    for (int64_t start : starts)
      piece = std::gcd(piece, start);
    starts.clear();
    for (int64_t start = 0; start < out; start += piece)
      starts.push_back(start);
  }
  SmallVector<int64_t> table;
  for (size_t r = 0; r < source.size() / out; ++r)
    for (int64_t start : starts)
      table.push_back(source[r * out + start]);

  RowItem item;
  item.op = op;
  item.extent = p.extentOf(op.getResult());
  item.results = {op.getResult()};
  item.memoryInputs = {op.getInput()};
  item.loops = [&p, op, in, out, inner, outer, starts, table](RowItem &,
                                                              Value) mutable {
    KernelBuilder &b = p.b();
    int64_t runs = starts.size();
    Buffer sources = b.table(table, b.getI32Type());
    Value firstEntry = b.imul(b.tableRow(op.getSlots()), runs);
    auto copyRun = [&](Value run, Value start, int64_t length, Value block) {
      Value from = b.loadScalar(sources, b.iadd(firstEntry, run));
      Value exists = b.icmp(arith::CmpIPredicate::sge, from, b.i32(0));
      from = b.toIndex(b.select(exists, from, b.i32(0)));
      Value source = b.imul(b.iadd(b.imul(block, in), from), inner);
      Value target = b.imul(b.iadd(b.imul(block, out), start), inner);
      b.sweep(length * inner, [&](Value at, Value mask) {
        Value v = b.ifElse(
            exists, {b.lanesOf(b.getF32Type())},
            [&] {
              return SmallVector<Value>{
                  p.loadAt(op.getInput(), b.iadd(source, at), mask)};
            },
            [&] {
              return SmallVector<Value>{
                  b.constant(b.lanesOf(b.getF32Type()), 0.0)};
            })[0];
        p.storeAt(op.getResult(), b.iadd(target, at), v, mask);
      });
    };
    b.staticLoop(outer, 1, ValueRange(), [&](Value block, ValueRange) {
      if (starts.size() <= kMaxRuns) {
        for (int64_t run = 0; run < runs; ++run) {
          int64_t end = run + 1 < runs ? starts[run + 1] : out;
          copyRun(b.index(run), b.index(starts[run]), end - starts[run], block);
        }
      } else {
        int64_t piece = starts[1];
        b.loop(b.index(0), b.index(runs), 1, [&](Value run) {
          copyRun(run, b.imul(run, piece), piece, block);
        });
      }
      return SmallVector<Value>();
    });
  };
  p.add(std::move(item));
  return success();
}
