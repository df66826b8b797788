//===- LinearKernel.cpp - x W^T from stored weights ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelEmission.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

namespace {

/// A register tile of `rows` activations by `columns` weight rows; lanes run
/// along k, so that weights are read in the order they are stored.
struct Tile {
  int64_t rows, columns, unroll;

  static Tile get(int64_t rows, const TargetRecord &target) {
    int64_t m = std::min<int64_t>(rows, 4);
    // As many accumulators as half of the registers.
    int64_t accumulators = target.registers / 2;
    int64_t n = m == 1 ? 4 : std::max<int64_t>(accumulators / m, 2);
    return {m, n, std::max<int64_t>(accumulators / (m * n), 1)};
  }
};

class LinearEmitter {
public:
  LinearEmitter(KernelBuilder &b, LinearOp op)
      : b(b), op(op), k(tensorShape(op.getWeight())[1]),
        n(tensorShape(op.getWeight())[0]),
        m(product(tensorShape(op.getInput()).drop_back())),
        shape(Tile::get(m, b.target)) {}

  void emit(Value from, Value to) {
    b.loop(from, to, 1, [&](Value block) {
      // The last block repeats the last row rather than pass it.
      SmallVector<Value> columns;
      for (int64_t j = 0; j < shape.columns; ++j) {
        Value column = b.iadd(b.imul(block, shape.columns), j);
        columns.push_back(arith::MinUIOp::create(b, column, b.index(n - 1)));
      }
      b.forRowTiles(m, shape.rows, [&](Value firstRow, int64_t rows) {
        emitTile(firstRow, rows, columns);
      });
    });
  }

private:
  KernelBuilder &b;
  LinearOp op;
  int64_t k, n, m;
  Tile shape;

  void emitTile(Value firstRow, int64_t rows, ArrayRef<Value> columns) {
    const Buffer &input = b.bufferOf(op.getInput());
    const Buffer &weight = b.bufferOf(op.getWeight());
    const Buffer &result = b.resultOf(op.getResult());
    Value zero = b.constant(b.lanesOf(b.getF32Type()), 0.0);
    SmallVector<Value> sums(rows * columns.size(), zero);
    sums = b.sweep(
        k, shape.unroll, sums,
        [&](Value at, Value mask, MutableArrayRef<Value> carry) {
          SmallVector<Value> x;
          for (int64_t i = 0; i < rows; ++i)
            x.push_back(b.loadLanes(
                input, b.iadd(b.imul(b.iadd(firstRow, i), k), at), mask));
          for (auto [j, column] : llvm::enumerate(columns)) {
            Value w = b.loadRow(weight, k, column, at, mask);
            for (int64_t i = 0; i < rows; ++i) {
              Value &sum = carry[i * columns.size() + j];
              sum = b.fma(x[i], w, sum);
            }
          }
        },
        [&](MutableArrayRef<Value> carry, ArrayRef<Value> later) {
          for (auto [sum, other] : llvm::zip(carry, later))
            sum = b.fadd(sum, other);
        });
    for (int64_t i = 0; i < rows; ++i)
      for (auto [j, column] : llvm::enumerate(columns)) {
        Value sum = b.reduceAdd(sums[i * columns.size() + j]);
        if (op.getBias())
          sum = b.fadd(sum, b.loadScalar(b.bufferOf(op.getBias()), column));
        b.storeScalar(result, b.iadd(b.imul(b.iadd(firstRow, i), n), column),
                      sum);
      }
  }
};

} // namespace

LogicalResult cpu::checkLinear(const KernelFunction &kernel, LinearOp op) {
  for (Value v : op->getOperands())
    if (isa<IntegerType>(tensorType(v).getElementType()))
      return op.emitOpError(
                 "expected floating point or quantised operands, got ")
             << v.getType();
  Type input = tensorType(op.getInput()).getElementType();
  bool packed = static_cast<bool>(getPacking(op.getWeight().getType()));
  if (isa<Q8Type>(input) ? !packed : getBlockElements(input) > 1)
    return op.emitOpError("expected plain activations, or q8 with a packed "
                          "weight, got ")
           << op.getInput().getType();
  return success();
}

/// Units of work that write different elements.
static int64_t unitsOf(LinearOp op, const TargetRecord &target) {
  if (isTileLinear(op, target))
    return tileLinearUnits(op);
  if (isSplitLinear(op, target))
    return splitLinearUnits(op);
  if (getPacking(op.getWeight().getType()))
    return panelLinearUnits(op, target);
  int64_t m = product(tensorShape(op.getInput()).drop_back());
  return llvm::divideCeil(tensorShape(op.getWeight())[0],
                          Tile::get(m, target).columns);
}

/// Blocks of rows, each with all units, one after the other: tiles that follow
/// one another, which are one worker's, write rows that its later launches
/// read. Weights are expanded for each block of rows.
static int64_t rowBlocksOf(ArrayRef<LinearOp> ops, const TargetRecord &target) {
  constexpr int64_t kBlockRows = 256;
  for (LinearOp op : ops)
    if (!isTileLinear(op, target) && !isSplitLinear(op, target))
      return 1;
  LinearOp first = ops.front();
  int64_t m = product(tensorShape(first.getInput()).drop_back());
  return std::max<int64_t>(m / kBlockRows, 1);
}

int64_t cpu::linearTiles(ArrayRef<LinearOp> ops, const TargetRecord &target) {
  int64_t work = 0, units = 0;
  for (LinearOp op : ops) {
    int64_t m = product(tensorShape(op.getInput()).drop_back());
    // Bytes to read for few rows, arithmetic for many.
    work += std::max(getTensorBytes(tensorType(op.getWeight())),
                     m * product(tensorShape(op.getWeight())) / 8);
    units += unitsOf(op, target);
  }
  units *= rowBlocksOf(ops, target);
  // Few tiles pay soon; many only where they are long, for each begins anew.
  constexpr int64_t kShort = 32 << 10, kLong = 128 << 10, kFew = 8;
  int64_t tiles = std::max(std::min(work / kShort, kFew),
                           std::min<int64_t>(work / kLong, 64));
  return std::clamp<int64_t>(tiles, 1, units);
}

/// Units [from, to) of a block of rows.
static void emitUnits(KernelBuilder &b, ArrayRef<LinearOp> ops,
                      const SplitScratch &memory, RowBlock block, Value from,
                      Value to) {
  int64_t first = 0;
  for (LinearOp op : ops) {
    // This product's part of them, from zero on.
    int64_t units = unitsOf(op, b.target);
    auto clip = [&](Value unit) -> Value {
      Value above = arith::MaxSIOp::create(b, unit, b.index(first));
      return b.isub(arith::MinSIOp::create(b, above, b.index(first + units)),
                    b.index(first));
    };
    if (isTileLinear(op, b.target))
      emitTileLinear(b, op, block, clip(from), clip(to));
    else if (isSplitLinear(op, b.target))
      emitSplitLinear(b, op, memory, block, clip(from), clip(to));
    else if (getPacking(op.getWeight().getType()))
      emitPanelLinear(b, op, clip(from), clip(to));
    else
      LinearEmitter(b, op).emit(clip(from), clip(to));
    first += units;
  }
}

void cpu::emitLinears(KernelBuilder &b, ArrayRef<LinearOp> ops) {
  int64_t units = 0, rowBlocks = rowBlocksOf(ops, b.target);
  for (LinearOp op : ops)
    units += unitsOf(op, b.target);
  SplitScratch memory = SplitScratch::get(b, ops);
  Value from = b.tileBegin(b.tile, rowBlocks * units);
  Value to = b.tileBegin(b.iadd(b.tile, 1), rowBlocks * units);
  b.staticLoop(rowBlocks, 1, ValueRange(), [&](Value rowBlock, ValueRange) {
    Value before = b.imul(rowBlock, units);
    emitUnits(b, ops, memory, {rowBlock, rowBlocks}, b.isub(from, before),
              b.isub(to, before));
    return SmallVector<Value>();
  });
}
