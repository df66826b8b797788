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
// scales apply to them in vector registers. The panels of a unit are expanded
// to signed bytes first, as many columns at a time as the first-level cache
// holds; sums of the columns so far wait in the result. The sums of an element
// are the same, in the same order, as those of PanelLinearKernel.cpp.
//
// Intel 64 and IA-32 Architectures Software Developer's Manual, vol. 1, ch. 18.
//
//===----------------------------------------------------------------------===//

#include "KernelEmission.h"
#include "Panels.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

namespace {

/// Panels of a unit; more would leave fewer rows to a tile.
constexpr int64_t kPanels = 2;
/// Rows of a tile: sums of kPanels panels, with scales, minima and broadcasts
/// beside them, fill the 32 vector registers.
constexpr int64_t kMostRows = 12;
/// Fewer rows are bound by memory, and would leave tiles half empty.
constexpr int64_t kFewestRows = 12;
/// Bytes of a block of a panel: 16 rows of 32 signed integers.
constexpr int64_t kBlockBytes = PanelFormat::kRows * PanelFormat::kColumns;
/// Blocks that are expanded at a time.
constexpr int64_t kMostBlocks = 24;

/// Blocks whose tiles are multiplied together, so that one hides the latency of
/// the other: kGroup * kPanels tiles of products, one of activations for each
/// block, and the weights fill the eight tile registers.
constexpr int64_t kGroup = 1;
/// Groups whose products are in memory: what a tile register stores cannot be
/// loaded before it has left the store buffer.
constexpr int64_t kSlots = 2;

/// Rows in memory that a tile is read from or written to.
struct TileMemory {
  Value pointer;
  int64_t strideBytes;
};

class TileLinear {
public:
  TileLinear(KernelBuilder &b, LinearOp op)
      : b(b), op(op), k(tensorShape(op.getWeight())[1]),
        n(tensorShape(op.getWeight())[0]),
        m(product(tensorShape(op.getInput()).drop_back())),
        weight(b, b.bufferOf(op.getWeight()), k),
        panels(llvm::divideCeil(n, PanelFormat::kRows)),
        blocks(k / PanelFormat::kColumns),
        chunkBlocks(
            llvm::divideCeil(blocks, llvm::divideCeil(blocks, kMostBlocks))),
        // Tiles as even as they come.
        tileRows(llvm::divideCeil(m, llvm::divideCeil(m, kMostRows))) {}

  void emit(Value from, Value to);

private:
  KernelBuilder &b;
  LinearOp op;
  int64_t k, n, m;
  PanelReader weight;
  int64_t panels, blocks, chunkBlocks, tileRows;
  /// The chunk of the unit's panels: integers; scales, then minima, fp32.
  Buffer integers, factors;
  /// Products of kSlots blocks.
  Buffer products;

  using Sums = SmallVector<Value>;
  /// Blocks from firstBlock on of the unit that is being emitted.
  struct Chunk {
    ArrayRef<Value> panel;
    Value firstBlock;
    int64_t count;
    /// Sums begin with zero, are complete.
    bool first, last;
  };
  void emitChunk(const Chunk &chunk);
  void expand(const Chunk &chunk);
  void emitTile(const Chunk &chunk, Value firstRow, int64_t rows);
  void clear(ArrayRef<Value> panel);

  /// Blocks of a chunk, for the rows of a tile.
  struct Group {
    Value firstRow;
    int64_t rows;
    Value firstBlock, inChunk;
    int64_t count, slot;
  };
  /// Products of its blocks, into its slot.
  void multiply(const Group &group);
  /// Adds the products in its slot to a tile's sums.
  void add(const Group &group, MutableArrayRef<Value> sums);
  void addBlock(const Group &group, int64_t inGroup,
                MutableArrayRef<Value> sums);

  /// First element of a panel's block in `integers` and `factors`.
  Value expanded(int64_t panel, Value inChunk, int64_t size) {
    return b.iadd(b.imul(inChunk, size), panel * chunkBlocks * size);
  }
  int64_t rowWords() const { return blocks * QuantizedBlock::kWords; }
  /// First word of a block of a row of activations.
  Value inputAt(Value firstRow, Value block);
  /// First product of a row with a panel.
  Value productsAt(const Group &group, int64_t block, int64_t panel,
                   int64_t row);
  Buffer &result() { return b.operands[b.kernel.resultsOf(op.getResult())[0]]; }
  /// A panel's column of a result row; the lanes that exist, null: all.
  std::pair<Value, Value> place(Value panel);

  // Tile registers.
  TileMemory memory(const Buffer &buffer, Value at, int64_t strideBytes);
  Value load(TileMemory from, int64_t rows, int64_t bytes);
  void store(TileMemory to, int64_t rows, int64_t bytes, Value tile);
  Value multiply(Value a, Value w, int64_t rows);
  Value i16(int64_t value) { return b.constantInt(b.getI16Type(), value); }
};

} // namespace

//===----------------------------------------------------------------------===//
// Tile registers
//===----------------------------------------------------------------------===//

TileMemory TileLinear::memory(const Buffer &buffer, Value at,
                              int64_t strideBytes) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto bits = [&](Value index) {
    return arith::IndexCastOp::create(b, b.getI64Type(), index).getResult();
  };
  Value address =
      memref::ExtractAlignedPointerAsIndexOp::create(b, buffer.memref);
  Value base = LLVM::IntToPtrOp::create(b, pointer, bits(address));
  Type element = cast<MemRefType>(buffer.memref.getType()).getElementType();
  return {LLVM::GEPOp::create(b, pointer, element, base,
                              ArrayRef<LLVM::GEPArg>{bits(at)}),
          strideBytes};
}

Value TileLinear::load(TileMemory from, int64_t rows, int64_t bytes) {
  return b.intrinsic("llvm.x86.tileloadd64.internal",
                     LLVM::LLVMX86AMXType::get(b.getContext()),
                     {i16(rows), i16(bytes), from.pointer,
                      b.constantInt(b.getI64Type(), from.strideBytes)});
}

void TileLinear::store(TileMemory to, int64_t rows, int64_t bytes, Value tile) {
  b.intrinsic("llvm.x86.tilestored64.internal", Type(),
              {i16(rows), i16(bytes), to.pointer,
               b.constantInt(b.getI64Type(), to.strideBytes), tile});
}

/// Products of `rows` rows of one block with those of a panel.
Value TileLinear::multiply(Value a, Value w, int64_t rows) {
  Type tile = LLVM::LLVMX86AMXType::get(b.getContext());
  int64_t width = 4 * PanelFormat::kRows;
  Value zero =
      b.intrinsic("llvm.x86.tilezero.internal", tile, {i16(rows), i16(width)});
  return b.intrinsic(
      "llvm.x86.tdpbssd.internal", tile,
      {i16(rows), i16(width), i16(PanelFormat::kColumns), zero, a, w});
}

//===----------------------------------------------------------------------===//
// The product
//===----------------------------------------------------------------------===//

void TileLinear::emit(Value from, Value to) {
  int64_t perChunk = kPanels * chunkBlocks;
  integers = b.scratch(perChunk * kBlockBytes, b.getI8Type());
  factors = b.scratch(perChunk * PanelFormat::kRows *
                          (weight.format.hasMinima ? 2 : 1),
                      b.getF32Type());
  products =
      b.scratch(kSlots * kGroup * kPanels * tileRows * PanelFormat::kRows,
                b.getI32Type());
  b.loop(from, to, 1, [&](Value unit) {
    // The last unit repeats the last panel rather than pass it.
    SmallVector<Value> panel;
    for (int64_t p = 0; p < kPanels; ++p)
      panel.push_back(arith::MinUIOp::create(
          b, b.iadd(b.imul(unit, kPanels), p), b.index(panels - 1)));
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

void TileLinear::clear(ArrayRef<Value> panel) {
  Value zero = b.constant(b.lanesOf(b.getF32Type()), 0.0);
  b.staticLoop(m, 1, ValueRange(), [&](Value row, ValueRange) {
    for (Value p : panel) {
      auto [column, mask] = place(p);
      b.storeLanes(result(), b.iadd(b.imul(row, n), column), zero, mask);
    }
    return SmallVector<Value>();
  });
}

void TileLinear::emitChunk(const Chunk &chunk) {
  expand(chunk);
  int64_t whole = m / tileRows;
  b.staticLoop(whole, 1, ValueRange(), [&](Value i, ValueRange) {
    emitTile(chunk, b.imul(i, tileRows), tileRows);
    return SmallVector<Value>();
  });
  if (int64_t rest = m % tileRows)
    emitTile(chunk, b.index(whole * tileRows), rest);
}

void TileLinear::expand(const Chunk &chunk) {
  auto bytes = VectorType::get({4 * b.lanes()}, b.getI8Type());
  Value zero = b.constantInt(bytes, static_cast<int8_t>(weight.format.zero));
  b.staticLoop(chunk.count, 1, ValueRange(), [&](Value inChunk, ValueRange) {
    for (int64_t p = 0; p < kPanels; ++p) {
      Value at =
          weight.blockAt(chunk.panel[p], b.iadd(chunk.firstBlock, inChunk));
      Value to = expanded(p, inChunk, kBlockBytes);
      SmallVector<Value> words = weight.load(at, /*sub=*/0);
      for (int64_t g = 0; g < PanelFormat::kColumns / 4; ++g) {
        Value quad = b.bitcastVector(weight.quad(words, g), bytes);
        vector::StoreOp::create(b, b.isub(quad, zero), integers.memref,
                                ValueRange{b.iadd(to, g * 4 * b.lanes())});
      }
      int64_t kinds = weight.format.hasMinima ? 2 : 1;
      Value factor = expanded(p, inChunk, kinds * PanelFormat::kRows);
      b.storeLanes(factors, factor, weight.scales(at, 0));
      if (kinds == 2)
        b.storeLanes(factors, b.iadd(factor, PanelFormat::kRows),
                     weight.minima(at, 0));
    }
    return SmallVector<Value>();
  });
}

std::pair<Value, Value> TileLinear::place(Value panel) {
  Value column = b.imul(panel, PanelFormat::kRows);
  Value mask;
  if (n % PanelFormat::kRows) {
    Value left = b.toI32(b.isub(b.index(n), column));
    mask = b.icmp(arith::CmpIPredicate::slt, b.iota(), b.splat(left));
  }
  return {column, mask};
}

void TileLinear::emitTile(const Chunk &chunk, Value firstRow, int64_t rows) {
  Sums sums;
  for (Value p : chunk.panel) {
    auto [column, mask] = place(p);
    for (int64_t i = 0; i < rows; ++i) {
      Value at = b.iadd(b.imul(b.iadd(firstRow, i), n), column);
      sums.push_back(chunk.first ? b.constant(b.lanesOf(b.getF32Type()), 0.0)
                                 : b.loadLanes(result(), at, mask));
    }
  }
  // The products of the next group are under way while a group is added. Slots
  // are static: LLVM would load from all and select.
  auto group = [&](Value inChunk, int64_t number, int64_t count) {
    return Group{firstRow, rows,  chunk.firstBlock,
                 inChunk,  count, number % kSlots};
  };
  int64_t whole = chunk.count / kGroup;
  auto sizeOf = [&](int64_t number) {
    return number < whole ? kGroup : chunk.count - whole * kGroup;
  };
  multiply(group(b.index(0), 0, sizeOf(0)));
  int64_t trips = std::max<int64_t>(whole - 1, 0) / kSlots;
  sums = b.staticLoop(trips, 1, sums, [&](Value trip, ValueRange carry) {
    Sums next(carry);
    for (int64_t g = 0; g < kSlots; ++g) {
      Value at = b.iadd(b.imul(trip, kSlots * kGroup), g * kGroup);
      multiply(group(b.iadd(at, kGroup), g + 1, kGroup));
      add(group(at, g, kGroup), next);
    }
    return next;
  });
  int64_t groups = llvm::divideCeil(chunk.count, kGroup);
  for (int64_t g = trips * kSlots; g < groups; ++g) {
    if (g + 1 < groups)
      multiply(group(b.index((g + 1) * kGroup), g + 1, sizeOf(g + 1)));
    add(group(b.index(g * kGroup), g, sizeOf(g)), sums);
  }
  for (auto [p, at] : llvm::enumerate(chunk.panel)) {
    auto [column, mask] = place(at);
    Value bias;
    if (chunk.last && op.getBias())
      bias = b.loadLanes(b.bufferOf(op.getBias()), column, mask);
    for (int64_t i = 0; i < rows; ++i) {
      Value sum = sums[p * rows + i];
      b.storeLanes(result(), b.iadd(b.imul(b.iadd(firstRow, i), n), column),
                   bias ? b.fadd(sum, bias) : sum, mask);
    }
  }
}

Value TileLinear::inputAt(Value firstRow, Value block) {
  return b.iadd(b.imul(firstRow, rowWords()),
                b.imul(block, QuantizedBlock::kWords));
}

Value TileLinear::productsAt(const Group &group, int64_t block, int64_t panel,
                             int64_t row) {
  int64_t tile = (group.slot * kGroup + block) * kPanels + panel;
  return b.index((tile * tileRows + row) * PanelFormat::kRows);
}

void TileLinear::multiply(const Group &group) {
  const Buffer &input = b.bufferOf(op.getInput());
  int64_t width = 4 * PanelFormat::kRows;
  SmallVector<Value> tiles;
  for (int64_t g = 0; g < group.count; ++g) {
    Value inChunk = b.iadd(group.inChunk, g);
    Value first =
        b.iadd(inputAt(group.firstRow, b.iadd(group.firstBlock, inChunk)),
               QuantizedBlock::kIntegers);
    Value a = load(memory(input, first, 4 * rowWords()), group.rows,
                   PanelFormat::kColumns);
    for (int64_t p = 0; p < kPanels; ++p) {
      Value w = load(memory(integers, expanded(p, inChunk, kBlockBytes), width),
                     PanelFormat::kColumns / 4, width);
      tiles.push_back(multiply(a, w, group.rows));
    }
  }
  for (auto [t, tile] : llvm::enumerate(tiles))
    store(
        memory(products, productsAt(group, t / kPanels, t % kPanels, 0), width),
        group.rows, width, tile);
}

void TileLinear::add(const Group &group, MutableArrayRef<Value> sums) {
  for (int64_t g = 0; g < group.count; ++g)
    addBlock(group, g, sums);
}

void TileLinear::addBlock(const Group &group, int64_t inGroup,
                          MutableArrayRef<Value> sums) {
  const Buffer &input = b.bufferOf(op.getInput());
  int64_t rows = group.rows;
  Value inChunk = b.iadd(group.inChunk, inGroup);
  Value first = inputAt(group.firstRow, b.iadd(group.firstBlock, inChunk));
  int64_t kinds = weight.format.hasMinima ? 2 : 1;
  SmallVector<Value> scale, minimum;
  for (int64_t p = 0; p < kPanels; ++p) {
    Value factor = expanded(p, inChunk, kinds * PanelFormat::kRows);
    scale.push_back(b.loadLanes(factors, factor));
    if (kinds == 2)
      minimum.push_back(
          b.loadLanes(factors, b.iadd(factor, PanelFormat::kRows)));
  }
  for (int64_t i = 0; i < rows; ++i) {
    auto header = [&](int64_t word) {
      Value bits = b.loadScalar(input, b.iadd(first, i * rowWords() + word));
      return b.splat(b.bitcast(bits, b.getF32Type()));
    };
    Value d = header(QuantizedBlock::kScale), offset;
    if (kinds == 2)
      offset = header(QuantizedBlock::kOffset);
    for (int64_t p = 0; p < kPanels; ++p) {
      Value &sum = sums[p * rows + i];
      Value integer = b.loadLanes(products, productsAt(group, inGroup, p, i));
      Value product =
          arith::SIToFPOp::create(b, b.lanesOf(b.getF32Type()), integer);
      sum = b.fma(b.fmul(product, d), scale[p], sum);
      if (offset)
        sum = b.fma(minimum[p], offset, sum);
    }
  }
}

bool cpu::isTileLinear(LinearOp op, const TargetRecord &target) {
  return target.amxInt8 &&
         isa<Q8Type>(tensorType(op.getInput()).getElementType()) &&
         tensorType(op.getResult()).getElementType().isF32() &&
         product(tensorShape(op.getInput()).drop_back()) >= kFewestRows;
}

int64_t cpu::tileLinearUnits(LinearOp op) {
  return llvm::divideCeil(tensorShape(op.getWeight())[0],
                          PanelFormat::kRows * kPanels);
}

void cpu::emitTileLinear(KernelBuilder &b, LinearOp op, Value from, Value to) {
  TileLinear(b, op).emit(from, to);
}
