//===- TileLinearKernel.cpp - x W^T in tile registers (AMX) ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products of many rows of int8 activations with quantised panels. A block of
// 32 columns is one step of a tile product: its integers are exact, and its
// scales apply to them in vector registers. A panel is expanded to signed bytes
// first, as many columns at a time as the first-level cache holds; sums of the
// columns so far wait in the result. The sums of an element are the same, in
// the same order, as those of PanelLinearKernel.cpp.
//
//===----------------------------------------------------------------------===//

#include "KernelEmission.h"
#include "Panels.h"
#include "TileRegisters.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

namespace {

/// Rows of a tile of activations, as many as a tile register has. Their sums
/// with one panel take half of the vector registers; two panels would have to
/// share a tile with fewer rows, and a product costs the same for few rows as
/// for many.
constexpr int64_t kMostRows = 16;
/// Fewer rows are bound by memory, and would leave tiles half empty.
constexpr int64_t kFewestRows = 12;
/// Bytes of a block of a panel: 16 rows of 32 signed integers.
constexpr int64_t kBlockBytes = PanelFormat::kRows * PanelFormat::kColumns;
/// Blocks that are expanded at a time.
constexpr int64_t kMostBlocks = 24;

/// Blocks whose products are in memory: what a tile register stores cannot be
/// loaded before it has left the store buffer.
constexpr int64_t kSlots = 2;

class TileLinear {
public:
  TileLinear(KernelBuilder &b, LinearOp op)
      : b(b), op(op), k(tensorShape(op.getWeight())[1]),
        n(tensorShape(op.getWeight())[0]),
        m(product(tensorShape(op.getInput()).drop_back())),
        weight(b, b.bufferOf(op.getWeight()), k),
        blocks(k / PanelFormat::kColumns),
        chunkBlocks(
            llvm::divideCeil(blocks, llvm::divideCeil(blocks, kMostBlocks))),
        // Tiles as even as they come.
        tileRows(llvm::divideCeil(m, llvm::divideCeil(m, kMostRows))) {}

  void emit(RowBlock block, Value from, Value to);

private:
  KernelBuilder &b;
  LinearOp op;
  int64_t k, n, m;
  PanelReader weight;
  int64_t blocks, chunkBlocks, tileRows;
  /// Whole tiles of the block of rows; whether rows are left after the last.
  Value firstTile, endTile, hasRest;
  /// The chunk of the panel: integers; scales, then minima, fp32.
  Buffer integers, factors;
  /// Products of kSlots blocks.
  Buffer products;

  using Sums = SmallVector<Value>;
  /// Blocks of a panel from firstBlock on.
  struct Chunk {
    Value panel;
    Value firstBlock;
    int64_t count;
    /// Sums begin with zero, are complete.
    bool first, last;
  };
  void emitChunk(const Chunk &chunk);
  void expand(const Chunk &chunk);
  /// The last tile's first rows, `skipped` of them, belong to the one before:
  /// all tiles have one shape, for a tile register has one in all of a kernel.
  void emitTile(const Chunk &chunk, Value firstRow, int64_t skipped);
  void clear(Value panel);

  /// One block of a chunk, for the rows of a tile.
  struct Step {
    Value firstRow;
    int64_t skipped;
    Value firstBlock, inChunk;
    int64_t slot;
  };
  /// Products of the block, into the slot.
  void multiply(const Step &step);
  /// Adds the products in the slot to a tile's sums.
  void add(const Step &step, MutableArrayRef<Value> sums);

  /// Scales only, or minima too.
  int64_t kinds() const { return weight.format.hasMinima ? 2 : 1; }
  /// First scale of a block of the chunk.
  Value factorsAt(Value inChunk) {
    return b.imul(inChunk, kinds() * PanelFormat::kRows);
  }
  int64_t rowWords() const { return blocks * QuantizedBlock::kWords; }
  /// First word of a block of a row of activations.
  Value inputAt(Value firstRow, Value block);
  /// First product of a row with a panel.
  Value productsAt(const Step &step, int64_t row);
  Buffer &result() { return b.operands[b.kernel.resultsOf(op.getResult())[0]]; }
  /// A panel's column of a result row; the lanes that exist, null: all.
  std::pair<Value, Value> place(Value panel);
};

} // namespace

//===----------------------------------------------------------------------===//
// The product
//===----------------------------------------------------------------------===//

void TileLinear::emit(RowBlock block, Value from, Value to) {
  int64_t whole = m / tileRows;
  Value tiles = b.blocksToCompute(m, tileRows);
  std::tie(firstTile, endTile) =
      block.part(b, arith::MinUIOp::create(b, tiles, b.index(whole)));
  hasRest = b.both(b.icmp(arith::CmpIPredicate::eq, endTile, b.index(whole)),
                   b.icmp(arith::CmpIPredicate::ugt, tiles, b.index(whole)));
  integers = b.scratch(chunkBlocks * kBlockBytes, b.getI8Type());
  factors =
      b.scratch(chunkBlocks * kinds() * PanelFormat::kRows, b.getF32Type());
  products = b.scratch(kSlots * tileRows * PanelFormat::kRows, b.getI32Type());
  b.loop(from, to, 1, [&](Value panel) {
    int64_t more = (blocks - 1) / chunkBlocks;
    if (more)
      clear(panel);
    b.staticLoop(more, 1, ValueRange(), [&](Value i, ValueRange) {
      emitChunk({panel, b.imul(i, chunkBlocks), chunkBlocks, /*first=*/false,
                 /*last=*/false});
      return SmallVector<Value>();
    });
    emitChunk({panel, b.index(more * chunkBlocks), blocks - more * chunkBlocks,
               /*first=*/more == 0, /*last=*/true});
  });
}

void TileLinear::clear(Value panel) {
  Value zero = b.constant(b.lanesOf(b.getF32Type()), 0.0);
  auto [column, mask] = place(panel);
  Value end = b.imul(endTile, tileRows);
  if (m % tileRows)
    end = arith::SelectOp::create(b, hasRest, b.index(m), end);
  b.loop(b.imul(firstTile, tileRows), end, 1,
         [&, column = column, mask = mask](Value row) {
           b.storeLanes(result(), b.iadd(b.imul(row, n), column), zero, mask);
         });
}

void TileLinear::emitChunk(const Chunk &chunk) {
  expand(chunk);
  b.loop(firstTile, endTile, 1,
         [&](Value i) { emitTile(chunk, b.imul(i, tileRows), /*skipped=*/0); });
  if (int64_t rest = m % tileRows)
    b.ifThen(hasRest,
             [&] { emitTile(chunk, b.index(m - tileRows), tileRows - rest); });
}

void TileLinear::expand(const Chunk &chunk) {
  auto bytes = VectorType::get({4 * b.lanes()}, b.getI8Type());
  Value zero = b.constantInt(bytes, static_cast<int8_t>(weight.format.zero));
  b.staticLoop(chunk.count, 1, ValueRange(), [&](Value inChunk, ValueRange) {
    Value at = weight.blockAt(chunk.panel, b.iadd(chunk.firstBlock, inChunk));
    Value to = b.imul(inChunk, kBlockBytes);
    SmallVector<Value> words = weight.load(at, /*sub=*/0);
    for (int64_t g = 0; g < PanelFormat::kColumns / 4; ++g) {
      Value quad = b.bitcastVector(weight.quad(words, g), bytes);
      vector::StoreOp::create(b, b.isub(quad, zero), integers.memref,
                              ValueRange{b.iadd(to, g * 4 * b.lanes())});
    }
    b.storeLanes(factors, factorsAt(inChunk), weight.scales(at, 0));
    if (kinds() == 2)
      b.storeLanes(factors, b.iadd(factorsAt(inChunk), PanelFormat::kRows),
                   weight.minima(at, 0));
    return SmallVector<Value>();
  });
}

std::pair<Value, Value> TileLinear::place(Value panel) {
  Value column = b.imul(panel, PanelFormat::kRows);
  return {column, lanesOfPanel(b, column, n)};
}

void TileLinear::emitTile(const Chunk &chunk, Value firstRow, int64_t skipped) {
  Sums sums;
  auto [column, mask] = place(chunk.panel);
  for (int64_t i = skipped; i < tileRows; ++i) {
    Value at = b.iadd(b.imul(b.iadd(firstRow, i), n), column);
    sums.push_back(chunk.first ? b.constant(b.lanesOf(b.getF32Type()), 0.0)
                               : b.loadLanes(result(), at, mask));
  }
  // The next block's products are under way while a block is added. Slots are
  // static: LLVM would load from all and select.
  auto step = [&](Value inChunk, int64_t number) {
    return Step{firstRow, skipped, chunk.firstBlock, inChunk, number % kSlots};
  };
  multiply(step(b.index(0), 0));
  int64_t trips = (chunk.count - 1) / kSlots;
  sums = b.staticLoop(trips, 1, sums, [&](Value trip, ValueRange carry) {
    Sums next(carry);
    for (int64_t i = 0; i < kSlots; ++i) {
      Value at = b.iadd(b.imul(trip, kSlots), i);
      multiply(step(b.iadd(at, 1), i + 1));
      add(step(at, i), next);
    }
    return next;
  });
  for (int64_t i = trips * kSlots; i < chunk.count; ++i) {
    if (i + 1 < chunk.count)
      multiply(step(b.index(i + 1), i + 1));
    add(step(b.index(i), i), sums);
  }
  Value bias;
  if (chunk.last && op.getBias())
    bias = b.loadLanes(b.bufferOf(op.getBias()), column, mask);
  for (int64_t i = skipped; i < tileRows; ++i) {
    Value sum = sums[i - skipped];
    b.storeLanes(result(), b.iadd(b.imul(b.iadd(firstRow, i), n), column),
                 bias ? b.fadd(sum, bias) : sum, mask);
  }
}

Value TileLinear::inputAt(Value firstRow, Value block) {
  return b.iadd(b.imul(firstRow, rowWords()),
                b.imul(block, QuantizedBlock::kWords));
}

Value TileLinear::productsAt(const Step &step, int64_t row) {
  return b.index((step.slot * tileRows + row) * PanelFormat::kRows);
}

void TileLinear::multiply(const Step &step) {
  TileShape aShape = {tileRows, PanelFormat::kColumns};
  TileShape wShape = {PanelFormat::kColumns / 4, 4 * PanelFormat::kRows};
  TileShape shape = {tileRows, wShape.bytes};
  Value first =
      b.iadd(inputAt(step.firstRow, b.iadd(step.firstBlock, step.inChunk)),
             QuantizedBlock::kIntegers);
  Value a = loadTile(
      b, TileMemory::get(b, b.bufferOf(op.getInput()), first, 4 * rowWords()),
      aShape);
  Value w =
      loadTile(b,
               TileMemory::get(b, integers, b.imul(step.inChunk, kBlockBytes),
                               wShape.bytes),
               wShape);
  Value product = multiplyTiles(b, TileProduct::Int8, zeroTile(b, shape), a,
                                aShape, w, wShape.bytes);
  storeTile(b, TileMemory::get(b, products, productsAt(step, 0), shape.bytes),
            shape, product);
}

void TileLinear::add(const Step &step, MutableArrayRef<Value> sums) {
  const Buffer &input = b.bufferOf(op.getInput());
  Value first = inputAt(step.firstRow, b.iadd(step.firstBlock, step.inChunk));
  Value scale = b.loadLanes(factors, factorsAt(step.inChunk)), minimum;
  if (kinds() == 2)
    minimum = b.loadLanes(factors,
                          b.iadd(factorsAt(step.inChunk), PanelFormat::kRows));
  for (int64_t i = step.skipped; i < tileRows; ++i) {
    auto header = [&](int64_t word) {
      Value bits = b.loadScalar(input, b.iadd(first, i * rowWords() + word));
      return b.splat(b.bitcast(bits, b.getF32Type()));
    };
    Value &sum = sums[i - step.skipped];
    Value integer = b.loadLanes(products, productsAt(step, i));
    Value product =
        arith::SIToFPOp::create(b, b.lanesOf(b.getF32Type()), integer);
    sum = b.fma(b.fmul(product, header(QuantizedBlock::kScale)), scale, sum);
    if (minimum)
      sum = b.fma(minimum, header(QuantizedBlock::kOffset), sum);
  }
}

bool cpu::isTileLinear(LinearOp op, const TargetRecord &target) {
  return target.amxInt8 &&
         isa<Q8Type>(tensorType(op.getInput()).getElementType()) &&
         tensorType(op.getResult()).getElementType().isF32() &&
         product(tensorShape(op.getInput()).drop_back()) >= kFewestRows;
}

int64_t cpu::tileLinearUnits(LinearOp op) {
  return llvm::divideCeil(tensorShape(op.getWeight())[0], PanelFormat::kRows);
}

void cpu::emitTileLinear(KernelBuilder &b, LinearOp op, RowBlock block,
                         Value from, Value to) {
  TileLinear(b, op).emit(block, from, to);
}
