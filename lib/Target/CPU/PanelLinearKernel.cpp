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
        blocks(k / PanelFormat::kColumns) {}

  void emit();

private:
  KernelBuilder &b;
  LinearOp op;
  int64_t k, n, m;
  bool integers;
  Tile shape;
  PanelReader weight;
  int64_t panels, blocks;
  /// Sums of each block of the one row, where minima need them.
  Buffer blockSums;

  using Sums = SmallVector<Value>;
  void sumBlocks();
  void emitTile(Value firstRow, int64_t rows, ArrayRef<Value> panel);
  /// Adds one block of a vector of weight rows to `rows` sums.
  void addFloats(Value at, int64_t sub, Value block, ArrayRef<Value> row,
                 MutableArrayRef<Value> sums);
  void addIntegers(Value at, int64_t sub, Value block, ArrayRef<Value> row,
                   MutableArrayRef<Value> sums);
  void store(Value row, Value panel, int64_t sub, Value sum);
};

} // namespace

void PanelLinear::emit() {
  int64_t groups = llvm::divideCeil(panels, shape.panels);
  Value from = b.tileBegin(b.tile, groups);
  Value to = b.tileBegin(b.iadd(b.tile, 1), groups);
  if (m == 1 && !integers && weight.format.hasMinima)
    sumBlocks();
  b.loop(from, to, 1, [&](Value group) {
    // The last group repeats the last panel rather than pass it.
    SmallVector<Value> panel;
    for (int64_t p = 0; p < shape.panels; ++p)
      panel.push_back(arith::MinUIOp::create(
          b, b.iadd(b.imul(group, shape.panels), p), b.index(panels - 1)));
    int64_t whole = m / shape.rows;
    b.staticLoop(whole, 1, ValueRange(), [&](Value i, ValueRange) {
      emitTile(b.imul(i, shape.rows), shape.rows, panel);
      return SmallVector<Value>();
    });
    if (int64_t rest = m % shape.rows)
      emitTile(b.index(whole * shape.rows), rest, panel);
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
  sums = b.staticLoop(blocks, 1, sums, [&](Value block, ValueRange carry) {
    Sums next(carry);
    for (auto [p, at] : llvm::enumerate(panel)) {
      Value bytes = weight.blockAt(at, block);
      weight.prefetch(bytes, b.target.prefetchBytes);
      for (int64_t sub = 0; sub < subs; ++sub) {
        auto part =
            MutableArrayRef<Value>(next).slice((p * subs + sub) * rows, rows);
        if (integers)
          addIntegers(bytes, sub, block, row, part);
        else
          addFloats(bytes, sub, block, row, part);
      }
    }
    return next;
  });
  for (auto [p, at] : llvm::enumerate(panel))
    for (int64_t sub = 0; sub < subs; ++sub)
      for (int64_t i = 0; i < rows; ++i)
        store(row[i], at, sub, sums[(p * subs + sub) * rows + i]);
}

void PanelLinear::addFloats(Value at, int64_t sub, Value block,
                            ArrayRef<Value> row, MutableArrayRef<Value> sums) {
  const Buffer &input = b.bufferOf(op.getInput());
  SmallVector<Value> words = weight.load(at, sub);
  Value scale = weight.scales(at, sub);
  Value minimum = weight.format.hasMinima ? weight.minima(at, sub) : Value();
  Value first = b.imul(block, PanelFormat::kColumns);
  auto x = [&](size_t i, int64_t column) {
    return b.splat(
        b.loadScalar(input, b.iadd(b.iadd(b.imul(row[i], k), first), column)));
  };
  if (m == 1) {
    // Scales apply to the sum of a block; two sums hide the latency.
    Value zero = b.constant(b.lanesOf(b.getF32Type()), 0.0);
    Value even = zero, odd = zero;
    for (int64_t c = 0; c < PanelFormat::kColumns; ++c) {
      Value &sum = c % 2 ? odd : even;
      sum = b.fma(weight.column(words, c), x(0, c), sum);
    }
    sums[0] = b.fma(b.fadd(even, odd), scale, sums[0]);
    if (minimum)
      sums[0] =
          b.fma(minimum, b.splat(b.loadScalar(blockSums, block)), sums[0]);
    return;
  }
  for (int64_t c = 0; c < PanelFormat::kColumns; ++c) {
    Value w = weight.column(words, c);
    w = minimum ? b.fma(w, scale, minimum) : b.fmul(w, scale);
    for (size_t i = 0; i < row.size(); ++i)
      sums[i] = b.fma(w, x(i, c), sums[i]);
  }
}

void PanelLinear::addIntegers(Value at, int64_t sub, Value block,
                              ArrayRef<Value> row,
                              MutableArrayRef<Value> sums) {
  const Buffer &input = b.bufferOf(op.getInput());
  SmallVector<Value> words = weight.load(at, sub);
  Value scale = weight.scales(at, sub);
  VectorType lanes = b.lanesOf(b.getI32Type());
  SmallVector<Value> base, integer, dot;
  for (size_t i = 0; i < row.size(); ++i) {
    base.push_back(
        b.imul(b.iadd(b.imul(row[i], blocks), block), QuantizedBlock::kWords));
    integer.push_back(
        b.loadScalar(input, b.iadd(base[i], QuantizedBlock::kSum)));
    // sum (q - zero) x = sum q x - zero sum x
    dot.push_back(b.splat(b.imul(integer[i], -weight.format.zero)));
  }
  for (int64_t g = 0; g < PanelFormat::kColumns / 4; ++g) {
    Value quad = weight.quad(words, g);
    for (size_t i = 0; i < row.size(); ++i) {
      Value x =
          b.loadScalar(input, b.iadd(base[i], QuantizedBlock::kIntegers + g));
      dot[i] = b.dot4(dot[i], quad, b.splat(x, lanes),
                      weight.format.nibbles ? 15 : 255);
    }
  }
  for (size_t i = 0; i < row.size(); ++i) {
    Value d =
        b.bitcast(b.loadScalar(input, b.iadd(base[i], QuantizedBlock::kScale)),
                  b.getF32Type());
    Value product =
        arith::SIToFPOp::create(b, b.lanesOf(b.getF32Type()), dot[i]);
    sums[i] = b.fma(b.fmul(product, b.splat(d)), scale, sums[i]);
    if (weight.format.hasMinima) {
      Value sum = arith::SIToFPOp::create(b, b.getF32Type(), integer[i]);
      sums[i] = b.fma(weight.minima(at, sub), b.splat(b.fmul(sum, d)), sums[i]);
    }
  }
}

void PanelLinear::store(Value row, Value panel, int64_t sub, Value sum) {
  Value column = b.iadd(b.imul(panel, PanelFormat::kRows), sub * b.lanes());
  Value mask;
  if (n % PanelFormat::kRows) {
    Value left = b.toI32(b.isub(b.index(n), column));
    mask = b.icmp(arith::CmpIPredicate::slt, b.iota(), b.splat(left));
  }
  if (op.getBias())
    sum = b.fadd(sum, b.loadLanes(b.bufferOf(op.getBias()), column, mask));
  b.storeLanes(b.resultOf(op.getResult()), b.iadd(b.imul(row, n), column), sum,
               mask);
}

int64_t cpu::panelLinearGroups(LinearOp op, const TargetRecord &target) {
  int64_t m = product(tensorShape(op.getInput()).drop_back());
  bool integers = isa<Q8Type>(tensorType(op.getInput()).getElementType());
  return llvm::divideCeil(tensorShape(op.getWeight())[0],
                          PanelFormat::kRows *
                              Tile::get(m, integers, target).panels);
}

void cpu::emitPanelLinear(KernelBuilder &b, LinearOp op) {
  PanelLinear(b, op).emit();
}
