//===- KernelBuilder.h - Arithmetic, lanes and memory of a kernel -*- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything a recipe writes goes through this builder. Memory is one
// dimensional; *lanes* are vectors of the target's width, fp32 or i32 whatever
// the storage type is. Results do not depend on flags: what is fused is written
// as an fma, and reductions are trees of shuffles.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TARGET_CPU_KERNELBUILDER_H
#define HEDDLE_LIB_TARGET_CPU_KERNELBUILDER_H

#include "KernelFunction.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::heddle::cpu {

/// Memory with the element type of the model: 16-bit floats are kept as i16,
/// quantised weights as bytes, quantised activations as i32 (QuantizedBlock).
struct Buffer {
  Value memref;
  Type element;
  /// Rows lie in panels (Panels.h).
  bool inPanels = false;
};

/// A block of 32 quantised activations (!heddle.q8) in i32 words.
struct QuantizedBlock {
  static constexpr int64_t kElements = 32, kWords = 12;
  /// The fp32 scale; the sum of the integers, and its product with the scale in
  /// fp32; zero, so that few blocks cross a cache line; the integers, four in a
  /// word.
  static constexpr int64_t kScale = 0, kSum = 1, kOffset = 2, kUnused = 3,
                           kIntegers = 4;
};

class KernelBuilder : public ImplicitLocOpBuilder {
public:
  /// Emits `kernel` as a function at the end of `module`; the insertion point
  /// is its body.
  KernelBuilder(ModuleOp module, const KernelFunction &kernel,
                const TargetRecord &target);

  const KernelFunction &kernel;
  const TargetRecord &target;
  /// The emitted function's arguments.
  SmallVector<Buffer> operands;
  SmallVector<Value> coordinates;
  Value tile, tiles;
  /// How many rows are valid; null: all.
  Value validRows;

  /// Where an argument's or pool's elements are.
  const Buffer &bufferOf(Value v) { return operands[kernel.operandOf(v)]; }

  /// Where a computed value goes.
  const Buffer &resultOf(Value v) {
    return operands[kernel.resultsOf(v).front()];
  }

  /// First of the units of tile `t` when `units` are dealt to `tiles` tiles.
  Value tileBegin(Value t, Value units);
  Value tileBegin(Value t, int64_t units) { return tileBegin(t, index(units)); }

  /// How many of the kernel's `rows` rows to compute.
  Value rowsToCompute(int64_t rows);
  /// body(first row, rows of the tile) for tiles of `size` of them, the last
  /// one shorter.
  void forRowTiles(int64_t rows, int64_t size,
                   function_ref<void(Value firstRow, int64_t rows)> body);
  /// Blocks of `size` rows that hold them.
  Value blocksToCompute(int64_t rows, int64_t size) {
    return idiv(iadd(rowsToCompute(rows), size - 1), size);
  }

  // Types and constants.
  int64_t lanes() const { return target.lanes; }
  VectorType lanesOf(Type element) const;
  Value index(int64_t value);
  /// A scalar or splat of `type`.
  Value constant(Type type, double value);
  Value constantInt(Type type, int64_t value);
  Value f32(double value) { return constant(getF32Type(), value); }
  Value i32(int64_t value) { return constantInt(getI32Type(), value); }
  Value splat(Value scalar) { return splat(scalar, lanesOf(scalar.getType())); }
  Value splat(Value scalar, VectorType type);
  /// 0, 1, 2, … as index-typed lanes of i32.
  Value iota();
  /// The first `count` lanes.
  Value tailMask(int64_t count);

  // Integers (scalars, index or lanes).
  Value iadd(Value a, Value b);
  Value iadd(Value a, int64_t b);
  Value isub(Value a, Value b);
  Value imul(Value a, Value b);
  Value imul(Value a, int64_t b);
  Value idiv(Value a, int64_t b);
  Value irem(Value a, int64_t b);
  Value iand(Value a, int64_t b);
  Value shiftRight(Value a, Value b);
  Value shiftLeft(Value a, int64_t b);
  Value icmp(arith::CmpIPredicate predicate, Value a, Value b);
  /// 0 <= a < limit, for signed a.
  Value inRange(Value a, int64_t limit);
  Value toIndex(Value a);
  Value toI32(Value a);
  Value both(Value a, Value b);

  // Floats (scalars or lanes).
  Value fadd(Value a, Value b);
  Value fsub(Value a, Value b);
  Value fmul(Value a, Value b);
  Value fdiv(Value a, Value b);
  Value fma(Value a, Value b, Value c);
  Value fneg(Value a);
  Value sqrt(Value a);
  Value fcmp(arith::CmpFPredicate predicate, Value a, Value b);
  /// The larger one; NaN if one is NaN.
  Value fmax(Value a, Value b);
  Value fmin(Value a, Value b);
  Value select(Value condition, Value a, Value b);
  /// The bits as another type of the same width; of another width.
  Value bitcast(Value v, Type type);
  Value bitcastVector(Value v, VectorType type);
  /// Shape of `like` with another element type.
  Type withElement(Type like, Type element);
  /// Each lane plus the products of its four unsigned bytes of `u`, at most
  /// `most`, with its four signed bytes of `s`. Exact.
  Value dot4(Value sum, Value u, Value s, int64_t most);
  /// One of 16 values that rise by one, by the low four bits of each i32 lane.
  Value lookup16(ArrayRef<float> values, Value index);
  /// Combines all lanes, halves first.
  Value reduce(Value v, function_ref<Value(Value, Value)> combine);
  /// The same to `n` lanes: lane i is what lanes i, i + n, i + 2n … become.
  Value reduceTo(int64_t n, Value v, function_ref<Value(Value, Value)> combine);
  Value reduceAdd(Value v);
  /// As many vectors as a vector has lanes, as the rows of a matrix: its
  /// columns.
  void transpose(MutableArrayRef<Value> rows);

  /// An LLVM intrinsic; no result if `type` is null.
  Value intrinsic(StringRef name, Type type, ValueRange arguments);

  // Memory.
  Value loadLanes(const Buffer &buffer, Value at, Value mask = {});
  void storeLanes(const Buffer &buffer, Value at, Value v, Value mask = {});
  /// Stores fp32 lanes past the caches, at a multiple of their number: for more
  /// than the caches hold. The kernel has to fence them.
  void streamLanes(const Buffer &buffer, Value at, Value v);
  bool streams = false;
  Value loadScalar(const Buffer &buffer, Value at);
  /// Asks for `bytes` of memory from `distance` bytes behind element `at` on.
  void prefetch(const Buffer &buffer, Value at, int64_t bytes,
                int64_t distance = 0);
  void storeScalar(const Buffer &buffer, Value at, Value v);
  /// Elements [column, column + lanes) of a row of a stored matrix, fp32. For
  /// quantised rows `column` is a multiple of the lanes.
  Value loadRow(const Buffer &matrix, int64_t columns, Value row, Value column,
                Value mask = {});
  /// fp32 (or i32) memory of this call; `elements` are static.
  Buffer scratch(int64_t elements, Type element);
  /// Read-only memory with these values.
  Buffer table(ArrayRef<int64_t> values, Type element);
  Buffer table(ArrayRef<double> values, Type element);

  // Control flow.
  using LoopBody = function_ref<SmallVector<Value>(Value iv, ValueRange carry)>;
  /// for (iv = from; iv < to; iv += step) carry = body(iv, carry)
  SmallVector<Value> loop(Value from, Value to, int64_t step, ValueRange carry,
                          LoopBody body);
  void loop(Value from, Value to, int64_t step, function_ref<void(Value)> body);
  /// The same with static bounds: unrolled if there are at most `unroll` trips.
  SmallVector<Value> staticLoop(int64_t trips, int64_t unroll, ValueRange carry,
                                LoopBody body);
  /// Positions [0, extent) in steps of whole vectors, then a masked tail.
  void sweep(int64_t extent, function_ref<void(Value at, Value mask)> body);
  /// The same with accumulators: `unroll` sets of them, one for each vector of
  /// a step, joined in a tree.
  using SweepStep =
      function_ref<void(Value at, Value mask, MutableArrayRef<Value> carry)>;
  using SweepJoin =
      function_ref<void(MutableArrayRef<Value> carry, ArrayRef<Value> later)>;
  SmallVector<Value> sweep(int64_t extent, int64_t unroll,
                           ArrayRef<Value> carry, SweepStep step,
                           SweepJoin join);
  void ifThen(Value condition, function_ref<void()> then);
  SmallVector<Value> ifElse(Value condition, TypeRange types,
                            function_ref<SmallVector<Value>()> then,
                            function_ref<SmallVector<Value>()> otherwise);

  /// Row of a rank table on this rank (0 if all rows are equal).
  Value tableRow(RankTableAttr attr);
  /// Rows of a rank table that matter: one if all are equal.
  static int64_t tableRows(RankTableAttr attr) {
    return attr.isUniform() ? 1 : attr.getRows();
  }
  /// Entry of a rank table on this rank, i32.
  Value tableEntry(RankTableAttr attr, Value column);

  /// Start of the function: for memory that must not be allocated in loops.
  Block *entry = nullptr;

private:
  ModuleOp module;
  llvm::DenseMap<Attribute, std::string> tables;

  Buffer addTable(DenseElementsAttr values, Type element);
  /// Splits lanes that are wider than the target's registers for an
  /// instruction on whole registers.
  Value byRegisters(ArrayRef<Value> operands,
                    function_ref<Value(ArrayRef<Value>)> instruction);
  Value widen(Value stored, Type element);
  Value narrow(Value v, Type element);
  Value decodeBlock(const Buffer &matrix, Value rowBytes, Value column);
};

/// How elements of a model type are kept in memory.
Type storageType(Type element);
/// fp32 for floats, i32 for integers: what lanes hold.
Type laneType(Type element);

} // namespace mlir::heddle::cpu

#endif // HEDDLE_LIB_TARGET_CPU_KERNELBUILDER_H
