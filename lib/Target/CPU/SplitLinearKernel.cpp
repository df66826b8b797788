//===- SplitLinearKernel.cpp - fp32 x W^T in bf16 tile registers (AMX) ----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products of many fp32 rows with packed weights. An fp32 number is the sum of
// three bf16 numbers of 8 bits each, a bf16 one is itself, and products of bf16
// numbers are exact in fp32, so that tiles of bf16 add up what fp32 arithmetic
// would: three products where weights are bf16, six otherwise (of nine; the
// rest is below fp32's rounding). Henry, Tang, Heinecke, "Leveraging the
// bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations",
// 2019.
//
// A unit of work is a group of panels for a block of rows. Chunk of columns by
// chunk, the group's weights are split into memory, then, tile of rows by tile
// of rows, activations; sums of the chunks so far wait in the result.
//
//===----------------------------------------------------------------------===//

#include "KernelEmission.h"
#include "Panels.h"
#include "TileRegisters.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

namespace {

/// Rows of a tile.
constexpr int64_t kTileRows = 16;
/// Fewer rows do not pay for the splitting of weights of one term and of more.
constexpr int64_t kFewestRows = 8, kFewestRowsOfTerms = 24;
/// Panels whose sums are in registers at once: with the three terms of
/// activations and one of weights they fill the eight tile registers.
constexpr int64_t kGroupPanels = 4;
/// Columns of a step: a tile row of bf16.
constexpr int64_t kStepColumns = 32;
/// Steps of a chunk for weights of one term and of more: rows and the weights
/// of a group stay in the first-level cache.
constexpr int64_t kMostSteps = 6, kMostStepsOfTerms = 3;
/// Panels of a unit: activations are split again for each unit, and its weights
/// stay in the second-level cache.
constexpr int64_t kMostPanels = 16;
/// Terms of an fp32 number.
constexpr int64_t kTerms = 3;

constexpr TileShape kActivations = {kTileRows, 2 * kStepColumns};
constexpr TileShape kWeights = {kStepColumns / 2, 4 * PanelFormat::kRows};
constexpr TileShape kSums = {kTileRows, 4 * PanelFormat::kRows};

/// How a product is cut up.
struct SplitShape {
  int64_t k, n, m;
  int64_t panels, steps, weightTerms, chunkSteps;

  explicit SplitShape(LinearOp op)
      : k(tensorShape(op.getWeight())[1]), n(tensorShape(op.getWeight())[0]),
        m(product(tensorShape(op.getInput()).drop_back())),
        panels(llvm::divideCeil(n, PanelFormat::kRows)),
        steps(llvm::divideCeil(k, kStepColumns)),
        weightTerms(termsOf(tensorType(op.getWeight()).getElementType())),
        chunkSteps(
            evenly(steps, weightTerms == 1 ? kMostSteps : kMostStepsOfTerms)) {}

  int64_t unitPanels() const { return std::min<int64_t>(kMostPanels, panels); }
  int64_t units() const { return llvm::divideCeil(panels, unitPanels()); }

  static constexpr int64_t kWeightElements = PanelFormat::kRows * kStepColumns;
  static constexpr int64_t kRowElements = kTileRows * kStepColumns;
  int64_t weightElements() const {
    return unitPanels() * chunkSteps * weightTerms * kWeightElements;
  }
  int64_t activationElements() const {
    return chunkSteps * kTerms * kRowElements;
  }

  bool pays() const {
    return m >= (weightTerms == 1 ? kFewestRows : kFewestRowsOfTerms);
  }

private:
  /// Parts of at most `most` that are as equal as they come.
  static int64_t evenly(int64_t count, int64_t most) {
    return llvm::divideCeil(count, llvm::divideCeil(count, most));
  }
  static int64_t termsOf(Type weight) {
    return weight.isBF16() ? 1 : weight.isF16() ? 2 : kTerms;
  }
};

class SplitLinear : SplitShape {
public:
  SplitLinear(KernelBuilder &b, LinearOp op, const SplitScratch &memory)
      : SplitShape(op), b(b), op(op), weight(b, b.bufferOf(op.getWeight()), k),
        memory(memory) {}

  void emit(RowBlock block, Value from, Value to);

private:
  KernelBuilder &b;
  LinearOp op;
  PanelReader weight;
  const SplitScratch &memory;

  struct Chunk {
    Value firstStep, steps;
    Value isFirst, isLast;
  };
  void emitUnit(Value firstPanel, Value endPanel, Value firstTile,
                Value endTile);
  void emitChunk(const Chunk &chunk, Value firstPanel, Value endPanel,
                 Value firstTile, Value endTile);
  /// Calls body(step of the chunk, columns of it) for each step.
  void forSteps(const Chunk &chunk,
                function_ref<void(Value inChunk, int64_t columns)> body);
  void splitWeights(Value panel, Value step, int64_t columns, Value at);
  void splitActivations(Value row, Value step, int64_t columns, Value at);
  void multiply(const Chunk &chunk, Value group);
  void addUp(const Chunk &chunk, Value firstRow, Value rows, Value firstPanel,
             Value endPanel);

  /// The leading `terms` terms of a vector as fp32 numbers whose low halves are
  /// zero (of the last one: are to be dropped).
  SmallVector<Value> split(Value x, int64_t terms);
  /// High halves of two vectors, as i32 with the first one's in low halves.
  Value pair(Value low, Value high);
  Value bits(Value x) { return b.bitcast(x, b.lanesOf(b.getI32Type())); }
  void store(Value words, const Buffer &to, Value at);
  Buffer &result() { return b.operands[b.kernel.resultsOf(op.getResult())[0]]; }
};

} // namespace

//===----------------------------------------------------------------------===//
// Terms
//===----------------------------------------------------------------------===//

SmallVector<Value> SplitLinear::split(Value x, int64_t terms) {
  // Rounding to nearest keeps what later terms leave out small; the last one
  // is cut off, which is exact with three, and lets NaN pass.
  SmallVector<Value> result;
  for (int64_t i = 0; i + 1 < terms; ++i) {
    Value high =
        b.iand(b.iadd(bits(x), 0x8000), static_cast<int32_t>(0xffff0000));
    result.push_back(b.bitcast(high, x.getType()));
    x = b.fsub(x, result.back());
  }
  result.push_back(x);
  return result;
}

Value SplitLinear::pair(Value low, Value high) {
  Value upper = b.iand(bits(high), static_cast<int32_t>(0xffff0000));
  return arith::OrIOp::create(
      b, upper, b.shiftRight(bits(low), b.constantInt(upper.getType(), 16)));
}

void SplitLinear::store(Value words, const Buffer &to, Value at) {
  auto halves = VectorType::get({2 * b.lanes()}, b.getBF16Type());
  vector::StoreOp::create(b, b.bitcastVector(words, halves), to.memref,
                          ValueRange{at});
}

void SplitLinear::splitWeights(Value panel, Value step, int64_t columns,
                               Value at) {
  Value zero = b.constant(b.lanesOf(b.getF32Type()), 0.0);
  Value block;
  SmallVector<Value> words;
  Value scale, minimum;
  if (weight.format.plain) {
    block = weight.columnAt(panel, b.imul(step, kStepColumns));
  } else {
    block = weight.blockAt(panel, step);
    words = weight.load(block, 0);
    scale = weight.scales(block, 0);
    if (weight.format.hasMinima)
      minimum = weight.minima(block, 0);
  }
  auto column = [&](int64_t c) -> Value {
    if (c >= columns)
      return zero;
    if (weight.format.plain)
      return weight.elements(b.iadd(block, c * PanelFormat::kRows), 0);
    Value v = weight.column(words, c);
    return minimum ? b.fma(v, scale, minimum) : b.fmul(v, scale);
  };
  for (int64_t c = 0; c < kStepColumns; c += 2) {
    SmallVector<Value> even = split(column(c), weightTerms);
    SmallVector<Value> odd = split(column(c + 1), weightTerms);
    for (int64_t term = 0; term < weightTerms; ++term)
      store(pair(even[term], odd[term]), memory.weights,
            b.iadd(at, term * kWeightElements + c * PanelFormat::kRows));
  }
}

void SplitLinear::splitActivations(Value row, Value step, int64_t columns,
                                   Value at) {
  const Buffer &input = b.bufferOf(op.getInput());
  Value first = b.iadd(b.imul(row, k), b.imul(step, kStepColumns));
  SmallVector<SmallVector<Value>> halves;
  for (int64_t c = 0; c < kStepColumns; c += b.lanes()) {
    int64_t left = std::max<int64_t>(columns - c, 0);
    Value x;
    if (left == 0)
      x = b.constant(b.lanesOf(b.getF32Type()), 0.0);
    else
      x = b.loadLanes(input, b.iadd(first, c),
                      left < b.lanes() ? b.tailMask(left) : Value());
    halves.push_back(split(x, kTerms));
  }
  for (int64_t term = 0; term < kTerms; ++term) {
    // Columns in order: high halves of the first vector, then of the second.
    auto shorts = VectorType::get({2 * b.lanes()}, b.getI16Type());
    SmallVector<int64_t> order;
    for (int64_t i = 0; i < 2 * b.lanes(); ++i)
      order.push_back(2 * i + 1);
    Value words = vector::ShuffleOp::create(
        b, b.bitcastVector(bits(halves[0][term]), shorts),
        b.bitcastVector(bits(halves[1][term]), shorts), order);
    store(words, memory.activations, b.iadd(at, term * kRowElements));
  }
}

//===----------------------------------------------------------------------===//
// The product
//===----------------------------------------------------------------------===//

void SplitLinear::emit(RowBlock block, Value from, Value to) {
  auto [firstTile, endTile] = block.part(b, b.blocksToCompute(m, kTileRows));
  b.loop(from, to, 1,
         [&, firstTile = firstTile, endTile = endTile](Value unit) {
           auto firstPanel = [&](Value u) {
             return b.idiv(b.imul(u, panels), units());
           };
           emitUnit(firstPanel(unit), firstPanel(b.iadd(unit, 1)), firstTile,
                    endTile);
         });
}

void SplitLinear::emitUnit(Value firstPanel, Value endPanel, Value firstTile,
                           Value endTile) {
  int64_t chunks = llvm::divideCeil(steps, chunkSteps);
  b.staticLoop(chunks, 1, ValueRange(), [&](Value i, ValueRange) {
    Chunk chunk;
    chunk.firstStep = b.imul(i, chunkSteps);
    chunk.steps = arith::MinUIOp::create(
        b, b.index(chunkSteps), b.isub(b.index(steps), chunk.firstStep));
    chunk.isFirst = b.icmp(arith::CmpIPredicate::eq, i, b.index(0));
    chunk.isLast = b.icmp(arith::CmpIPredicate::eq, i, b.index(chunks - 1));
    emitChunk(chunk, firstPanel, endPanel, firstTile, endTile);
    return SmallVector<Value>();
  });
}

void SplitLinear::forSteps(const Chunk &chunk,
                           function_ref<void(Value, int64_t)> body) {
  int64_t rest = k % kStepColumns;
  Value whole = chunk.steps;
  if (rest)
    whole = arith::SelectOp::create(b, chunk.isLast, b.isub(whole, b.index(1)),
                                    whole);
  b.loop(b.index(0), whole, 1, [&](Value step) { body(step, kStepColumns); });
  if (rest)
    b.ifThen(chunk.isLast, [&] { body(whole, rest); });
}

void SplitLinear::emitChunk(const Chunk &chunk, Value firstPanel,
                            Value endPanel, Value firstTile, Value endTile) {
  b.loop(firstPanel, endPanel, 1, [&](Value panel) {
    Value at = b.imul(b.isub(panel, firstPanel), chunkSteps);
    forSteps(chunk, [&](Value step, int64_t columns) {
      splitWeights(panel, b.iadd(chunk.firstStep, step), columns,
                   b.imul(b.iadd(at, step), weightTerms * kWeightElements));
    });
  });
  b.loop(firstTile, endTile, 1, [&](Value tile) {
    Value firstRow = b.imul(tile, kTileRows);
    Value rows = b.index(kTileRows);
    if (m % kTileRows)
      rows = arith::MinUIOp::create(b, rows, b.isub(b.index(m), firstRow));
    // Rows that do not exist are what they were: no other row depends on them.
    b.loop(b.index(0), rows, 1, [&](Value row) {
      forSteps(chunk, [&](Value step, int64_t columns) {
        splitActivations(b.iadd(firstRow, row), b.iadd(chunk.firstStep, step),
                         columns,
                         b.iadd(b.imul(step, kTerms * kRowElements),
                                b.imul(row, kStepColumns)));
      });
    });
    b.loop(firstPanel, endPanel, kGroupPanels, [&](Value panel) {
      multiply(chunk, b.isub(panel, firstPanel));
      addUp(chunk, firstRow, rows, panel, endPanel);
    });
  });
}

void SplitLinear::multiply(const Chunk &chunk, Value group) {
  // Past the unit's last panel: that of some panel, for nothing.
  Value last = b.index(unitPanels() - 1);
  SmallVector<Value> first, carry(kGroupPanels);
  for (int64_t p = 0; p < kGroupPanels; ++p) {
    carry[p] = zeroTile(b, kSums);
    first.push_back(
        b.imul(arith::MinUIOp::create(b, b.iadd(group, p), last), chunkSteps));
  }
  auto load = [&](const Buffer &from, Value tile, int64_t elements,
                  TileShape shape) {
    return loadTile(
        b, TileMemory::get(b, from, b.imul(tile, elements), shape.bytes),
        shape);
  };
  SmallVector<Value> done = b.loop(
      b.index(0), chunk.steps, 1, carry, [&](Value step, ValueRange sums) {
        SmallVector<Value> next(sums), rows;
        for (int64_t term = 0; term < kTerms; ++term)
          rows.push_back(load(memory.activations,
                              b.iadd(b.imul(step, kTerms), term), kRowElements,
                              kActivations));
        for (int64_t p = 0; p < kGroupPanels; ++p)
          for (int64_t w = 0; w < weightTerms; ++w) {
            Value at = b.iadd(b.imul(b.iadd(first[p], step), weightTerms), w);
            Value panel = load(memory.weights, at, kWeightElements, kWeights);
            for (int64_t term = 0; term + w < kTerms; ++term)
              next[p] = multiplyTiles(b, TileProduct::BF16, next[p], rows[term],
                                      kActivations, panel, kWeights.bytes);
          }
        return next;
      });
  for (auto [p, sum] : llvm::enumerate(done))
    storeTile(b,
              TileMemory::get(b, memory.sums,
                              b.index(p * kTileRows * PanelFormat::kRows),
                              kSums.bytes),
              kSums, sum);
}

void SplitLinear::addUp(const Chunk &chunk, Value firstRow, Value rows,
                        Value firstPanel, Value endPanel) {
  for (int64_t p = 0; p < kGroupPanels; ++p) {
    Value panel = b.iadd(firstPanel, p);
    b.ifThen(b.icmp(arith::CmpIPredicate::ult, panel, endPanel), [&] {
      Value column = b.imul(panel, PanelFormat::kRows);
      Value mask = lanesOfPanel(b, column, n);
      auto forRows = [&](bool add) {
        Value bias;
        if (!add && op.getBias())
          bias = b.loadLanes(b.bufferOf(op.getBias()), column, mask);
        b.loop(b.index(0), rows, 1, [&](Value row) {
          Value sum =
              b.loadLanes(memory.sums, b.imul(b.iadd(row, p * kTileRows),
                                              PanelFormat::kRows));
          Value at = b.iadd(b.imul(b.iadd(firstRow, row), n), column);
          if (add)
            sum = b.fadd(sum, b.loadLanes(result(), at, mask));
          else if (bias)
            sum = b.fadd(sum, bias);
          b.storeLanes(result(), at, sum, mask);
        });
      };
      if (steps == chunkSteps)
        return forRows(/*add=*/false);
      b.ifThen(chunk.isFirst, [&] { forRows(/*add=*/false); });
      b.ifThen(b.icmp(arith::CmpIPredicate::eq, chunk.isFirst,
                      b.constantInt(b.getI1Type(), 0)),
               [&] { forRows(/*add=*/true); });
    });
  }
}

bool cpu::isSplitLinear(LinearOp op, const TargetRecord &target) {
  return target.amxBf16 && getPacking(op.getWeight().getType()) &&
         tensorType(op.getInput()).getElementType().isF32() &&
         tensorType(op.getResult()).getElementType().isF32() &&
         SplitShape(op).pays();
}

int64_t cpu::splitLinearUnits(LinearOp op) { return SplitShape(op).units(); }

SplitScratch SplitScratch::get(KernelBuilder &b, ArrayRef<LinearOp> ops) {
  int64_t weights = 0, activations = 0;
  for (LinearOp op : ops)
    if (isSplitLinear(op, b.target)) {
      SplitShape shape(op);
      weights = std::max(weights, shape.weightElements());
      activations = std::max(activations, shape.activationElements());
    }
  if (weights == 0)
    return {};
  return {
      b.scratch(weights, b.getBF16Type()),
      b.scratch(activations, b.getBF16Type()),
      b.scratch(kGroupPanels * kTileRows * PanelFormat::kRows, b.getF32Type())};
}

void cpu::emitSplitLinear(KernelBuilder &b, LinearOp op,
                          const SplitScratch &memory, RowBlock block,
                          Value from, Value to) {
  SplitLinear(b, op, memory).emit(block, from, to);
}
