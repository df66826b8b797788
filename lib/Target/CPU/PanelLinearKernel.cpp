//===- PanelLinearKernel.cpp - x W^T from panels of 16 weight rows --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lanes are weight rows, so that a register tile of activation rows x panels
// needs no horizontal sums: activations are broadcast, scalar by scalar (fp32)
// or four bytes at a time (q8, integer dot products), and results are stored as
// they lie in the registers.
//
//===----------------------------------------------------------------------===//

#include "FixedPoint.h"
#include "KernelEmission.h"
#include "Panels.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

namespace {

/// Activation rows and panels that a register tile holds.
struct Tile {
  int64_t rows, panels;

  static Tile get(int64_t m, bool integers, const TargetRecord &target) {
    int64_t subs = PanelFormat::kRows / target.lanes;
    if (m == 1)
      return {1, std::max<int64_t>(2 / subs, 1)};
    // An integer and an fp32 accumulator for each vector with integers; decoded
    // weights and broadcasts beside them.
    int64_t vectors =
        integers ? (target.registers - 8) / 2 : target.registers - 8;
    int64_t panels = target.registers >= 32 ? 2 : 1;
    return {std::clamp<int64_t>(vectors / (panels * subs), 1, m), panels};
  }
};

class PanelLinear {
public:
  PanelLinear(KernelBuilder &b, LinearOp op)
      : b(b), op(op), k(tensorShape(op.getWeight())[1]),
        n(tensorShape(op.getWeight())[0]),
        m(product(tensorShape(op.getInput()).drop_back())),
        integers(isa<Q8Type>(tensorType(op.getInput()).getElementType())),
        shape(Tile::get(m, integers, b.target)),
        weight(b, b.bufferOf(op.getWeight()), k),
        panels(llvm::divideCeil(n, PanelFormat::kRows)),
        blocks(k / PanelFormat::kColumns),
        stepColumns(weight.format.plain ? 8 : PanelFormat::kColumns) {}

  void emit(Value from, Value to);

private:
  KernelBuilder &b;
  LinearOp op;
  int64_t k, n, m;
  bool integers;
  Tile shape;
  PanelReader weight;
  int64_t panels, blocks;
  /// Columns of a step of a tile's loop.
  int64_t stepColumns;
  /// The one row, where integer dot products are native; otherwise sums of its
  /// blocks, where minima need them.
  FixedPointRow fixed;
  Buffer blockSums;

  using Sums = SmallVector<Value>;
  bool isFixedPoint() const {
    return m == 1 && !integers && !weight.format.plain && b.target.vnni;
  }
  void sumBlocks();
  void emitTile(Value firstRow, int64_t rows, ArrayRef<Value> panel);
  /// Adds `columns` columns from column stepColumns * step on to a tile's sums.
  void addStep(Value step, int64_t columns, ArrayRef<Value> panel,
               ArrayRef<Value> row, MutableArrayRef<Value> sums);
  void addPlain(ArrayRef<Value> at, Value first, int64_t columns,
                ArrayRef<Value> row, MutableArrayRef<Value> sums);
  /// One block of a vector of weight rows.
  struct WeightBlock {
    SmallVector<Value> words;
    Value scale, minimum;
  };
  void addFixedPoint(ArrayRef<WeightBlock> weights, Value block,
                     MutableArrayRef<Value> sums);
  void addFloatsOfOneRow(ArrayRef<WeightBlock> weights, Value block, Value row,
                         MutableArrayRef<Value> sums);
  void addFloats(ArrayRef<WeightBlock> weights, Value block,
                 ArrayRef<Value> row, MutableArrayRef<Value> sums);
  void addIntegers(ArrayRef<WeightBlock> weights, Value block,
                   ArrayRef<Value> row, MutableArrayRef<Value> sums);
  /// Adds one column of vectors of weight rows. Row by row: a broadcast is dead
  /// after its use, for no register is left to keep it in.
  void addColumn(ArrayRef<Value> w, Value column, ArrayRef<Value> row,
                 MutableArrayRef<Value> sums);
  /// One element of the input, on all lanes.
  Value input(Value row, Value column);
  void store(Value row, Value panel, int64_t sub, Value sum);
};

} // namespace

void PanelLinear::emit(Value from, Value to) {
  if (isFixedPoint() || (m == 1 && !integers && weight.format.hasMinima))
    b.ifThen(b.icmp(arith::CmpIPredicate::slt, from, to), [&] {
      if (isFixedPoint())
        fixed = FixedPointRow::emit(b, b.bufferOf(op.getInput()), blocks);
      else
        sumBlocks();
    });
  b.loop(from, to, 1, [&](Value group) {
    // The last group repeats the last panel rather than pass it.
    SmallVector<Value> panel;
    for (int64_t p = 0; p < shape.panels; ++p)
      panel.push_back(arith::MinUIOp::create(
          b, b.iadd(b.imul(group, shape.panels), p), b.index(panels - 1)));
    b.forRowTiles(m, shape.rows, [&](Value firstRow, int64_t rows) {
      emitTile(firstRow, rows, panel);
    });
  });
}

void PanelLinear::sumBlocks() {
  const Buffer &input = b.bufferOf(op.getInput());
  blockSums = b.scratch(blocks, b.getF32Type());
  b.staticLoop(blocks, 1, ValueRange(), [&](Value block, ValueRange) {
    Value first = b.imul(block, PanelFormat::kColumns);
    Value sum;
    for (int64_t at = 0; at < PanelFormat::kColumns; at += b.lanes()) {
      Value x = b.loadLanes(input, b.iadd(first, at));
      sum = sum ? b.fadd(sum, x) : x;
    }
    b.storeScalar(blockSums, block, b.reduceAdd(sum));
    return SmallVector<Value>();
  });
}

void PanelLinear::emitTile(Value firstRow, int64_t rows,
                           ArrayRef<Value> panel) {
  int64_t subs = weight.subs();
  SmallVector<Value> row;
  for (int64_t i = 0; i < rows; ++i)
    row.push_back(b.iadd(firstRow, i));
  Value zero = b.constant(b.lanesOf(b.getF32Type()), 0.0);
  Sums sums(panel.size() * subs * rows, zero);
  int64_t steps = k / stepColumns;
  sums = b.staticLoop(steps, 1, sums, [&](Value step, ValueRange carry) {
    Sums next(carry);
    addStep(step, stepColumns, panel, row, next);
    return next;
  });
  if (int64_t tail = k % stepColumns)
    addStep(b.index(steps), tail, panel, row, sums);
  for (auto [p, at] : llvm::enumerate(panel))
    for (int64_t sub = 0; sub < subs; ++sub)
      for (int64_t i = 0; i < rows; ++i)
        store(row[i], at, sub, sums[(p * subs + sub) * rows + i]);
}

void PanelLinear::addStep(Value step, int64_t columns, ArrayRef<Value> panel,
                          ArrayRef<Value> row, MutableArrayRef<Value> sums) {
  bool plain = weight.format.plain;
  Value first = b.imul(step, stepColumns);
  SmallVector<Value> at;
  for (Value p : panel)
    at.push_back(plain ? weight.columnAt(p, first) : weight.blockAt(p, step));
  // More tiles of rows find the panel in a cache.
  if (static_cast<int64_t>(row.size()) == m)
    for (Value p : at)
      b.prefetch(b.bufferOf(op.getWeight()), p,
                 plain ? 2 * PanelFormat::kRows * columns
                       : weight.format.bytes(),
                 b.target.prefetchBytes);
  if (plain)
    return addPlain(at, first, columns, row, sums);
  SmallVector<WeightBlock> blocks;
  for (Value p : at)
    for (int64_t sub = 0; sub < weight.subs(); ++sub)
      blocks.push_back(
          {weight.load(p, sub), weight.scales(p, sub),
           weight.format.hasMinima ? weight.minima(p, sub) : Value()});
  if (integers)
    addIntegers(blocks, step, row, sums);
  else if (isFixedPoint())
    addFixedPoint(blocks, step, sums);
  else if (m == 1)
    addFloatsOfOneRow(blocks, step, row[0], sums);
  else
    addFloats(blocks, step, row, sums);
}

Value PanelLinear::input(Value row, Value column) {
  return b.splat(
      b.loadScalar(b.bufferOf(op.getInput()), b.iadd(b.imul(row, k), column)));
}

void PanelLinear::addPlain(ArrayRef<Value> at, Value first, int64_t columns,
                           ArrayRef<Value> row, MutableArrayRef<Value> sums) {
  // One row: two sums for each vector hide the latency.
  Value zero = b.constant(b.lanesOf(b.getF32Type()), 0.0);
  Sums odd(m == 1 ? sums.size() : 0, zero);
  for (int64_t c = 0; c < columns; ++c) {
    SmallVector<Value> w;
    for (Value panel : at)
      for (int64_t sub = 0; sub < weight.subs(); ++sub)
        w.push_back(
            weight.elements(b.iadd(panel, c * PanelFormat::kRows), sub));
    MutableArrayRef<Value> into = c % 2 && m == 1 ? odd : sums;
    addColumn(w, b.iadd(first, c), row, into);
  }
  for (auto [sum, more] : llvm::zip(sums, odd))
    sum = b.fadd(sum, more);
}

void PanelLinear::addFixedPoint(ArrayRef<WeightBlock> weights, Value block,
                                MutableArrayRef<Value> sums) {
  constexpr int64_t kDigits = FixedPointRow::kDigits;
  VectorType integers = b.lanesOf(b.getI32Type());
  VectorType floats = b.lanesOf(b.getF32Type());
  // sum (q - zero) x = sum q x - zero sum x
  SmallVector<Value> dot;
  for (int64_t d = 0; d < kDigits; ++d)
    dot.append(weights.size(), weight.format.zero
                                   ? b.splat(b.imul(fixed.digitSum(b, block, d),
                                                    -weight.format.zero))
                                   : b.constantInt(integers, 0));
  for (int64_t g = 0; g < PanelFormat::kColumns / 4; ++g) {
    SmallVector<Value> quads;
    for (const WeightBlock &w : weights)
      quads.push_back(weight.quad(w.words, g));
    for (int64_t d = 0; d < kDigits; ++d) {
      Value x = b.splat(fixed.digits(b, block, g, d), integers);
      for (size_t v = 0; v < weights.size(); ++v) {
        Value &sum = dot[d * weights.size() + v];
        sum = b.dot4(sum, quads[v], x, weight.format.nibbles ? 15 : 255);
      }
    }
  }
  Value scale = b.splat(fixed.scale(b, block)), base = b.constant(floats, 256);
  for (size_t v = 0; v < weights.size(); ++v) {
    Value number;
    for (int64_t d = kDigits; d-- > 0;) {
      Value digit =
          arith::SIToFPOp::create(b, floats, dot[d * weights.size() + v]);
      number = number ? b.fma(number, base, digit) : digit;
    }
    sums[v] = b.fma(b.fmul(number, scale), weights[v].scale, sums[v]);
    if (weights[v].minimum)
      sums[v] =
          b.fma(weights[v].minimum, b.splat(fixed.sum(b, block)), sums[v]);
  }
}

void PanelLinear::addFloatsOfOneRow(ArrayRef<WeightBlock> weights, Value block,
                                    Value row, MutableArrayRef<Value> sums) {
  Value first = b.imul(block, PanelFormat::kColumns);
  // Scales apply to the sum of a block; two sums hide the latency.
  Value zero = b.constant(b.lanesOf(b.getF32Type()), 0.0);
  for (auto [w, total] : llvm::zip(weights, sums)) {
    Value even = zero, odd = zero;
    for (int64_t c = 0; c < PanelFormat::kColumns; ++c) {
      Value &sum = c % 2 ? odd : even;
      sum = b.fma(weight.column(w.words, c), input(row, b.iadd(first, c)), sum);
    }
    total = b.fma(b.fadd(even, odd), w.scale, total);
    if (w.minimum)
      total = b.fma(w.minimum, b.splat(b.loadScalar(blockSums, block)), total);
  }
}

void PanelLinear::addFloats(ArrayRef<WeightBlock> weights, Value block,
                            ArrayRef<Value> row, MutableArrayRef<Value> sums) {
  Value first = b.imul(block, PanelFormat::kColumns);
  for (int64_t c = 0; c < PanelFormat::kColumns; ++c) {
    SmallVector<Value> decoded;
    for (const WeightBlock &w : weights) {
      Value column = weight.column(w.words, c);
      decoded.push_back(w.minimum ? b.fma(column, w.scale, w.minimum)
                                  : b.fmul(column, w.scale));
    }
    addColumn(decoded, b.iadd(first, c), row, sums);
  }
}

void PanelLinear::addColumn(ArrayRef<Value> w, Value column,
                            ArrayRef<Value> row, MutableArrayRef<Value> sums) {
  for (size_t i = 0; i < row.size(); ++i) {
    Value x = input(row[i], column);
    for (size_t v = 0; v < w.size(); ++v) {
      Value &sum = sums[v * row.size() + i];
      sum = b.fma(w[v], x, sum);
    }
  }
}

void PanelLinear::addIntegers(ArrayRef<WeightBlock> weights, Value block,
                              ArrayRef<Value> row,
                              MutableArrayRef<Value> sums) {
  const Buffer &input = b.bufferOf(op.getInput());
  VectorType lanes = b.lanesOf(b.getI32Type());
  size_t rows = row.size();
  SmallVector<Value> base, integer, dot(sums.size());
  for (size_t i = 0; i < rows; ++i) {
    base.push_back(
        b.imul(b.iadd(b.imul(row[i], blocks), block), QuantizedBlock::kWords));
    integer.push_back(
        b.loadScalar(input, b.iadd(base[i], QuantizedBlock::kSum)));
    // sum (q - zero) x = sum q x - zero sum x
    Value start = b.splat(b.imul(integer[i], -weight.format.zero));
    for (size_t v = 0; v < weights.size(); ++v)
      dot[v * rows + i] = start;
  }
  for (int64_t g = 0; g < PanelFormat::kColumns / 4; ++g) {
    SmallVector<Value> quads;
    for (const WeightBlock &w : weights)
      quads.push_back(weight.quad(w.words, g));
    for (size_t i = 0; i < rows; ++i) {
      Value x = b.splat(
          b.loadScalar(input, b.iadd(base[i], QuantizedBlock::kIntegers + g)),
          lanes);
      for (size_t v = 0; v < weights.size(); ++v) {
        Value &sum = dot[v * rows + i];
        sum = b.dot4(sum, quads[v], x, weight.format.nibbles ? 15 : 255);
      }
    }
  }
  for (size_t i = 0; i < rows; ++i) {
    Value d =
        b.bitcast(b.loadScalar(input, b.iadd(base[i], QuantizedBlock::kScale)),
                  b.getF32Type());
    Value wideD = b.splat(d), offset;
    if (weight.format.hasMinima)
      offset = b.splat(b.bitcast(
          b.loadScalar(input, b.iadd(base[i], QuantizedBlock::kOffset)),
          b.getF32Type()));
    for (size_t v = 0; v < weights.size(); ++v) {
      Value &sum = sums[v * rows + i];
      Value product = arith::SIToFPOp::create(b, b.lanesOf(b.getF32Type()),
                                              dot[v * rows + i]);
      sum = b.fma(b.fmul(product, wideD), weights[v].scale, sum);
      if (offset)
        sum = b.fma(weights[v].minimum, offset, sum);
    }
  }
}

void PanelLinear::store(Value row, Value panel, int64_t sub, Value sum) {
  Value column = b.iadd(b.imul(panel, PanelFormat::kRows), sub * b.lanes());
  Value mask = lanesOfPanel(b, column, n);
  if (op.getBias())
    sum = b.fadd(sum, b.loadLanes(b.bufferOf(op.getBias()), column, mask));
  b.storeLanes(b.resultOf(op.getResult()), b.iadd(b.imul(row, n), column), sum,
               mask);
}

int64_t cpu::panelLinearUnits(LinearOp op, const TargetRecord &target) {
  int64_t m = product(tensorShape(op.getInput()).drop_back());
  bool integers = isa<Q8Type>(tensorType(op.getInput()).getElementType());
  return llvm::divideCeil(tensorShape(op.getWeight())[0],
                          PanelFormat::kRows *
                              Tile::get(m, integers, target).panels);
}

void cpu::emitPanelLinear(KernelBuilder &b, LinearOp op, Value from, Value to) {
  PanelLinear(b, op).emit(from, to);
}
