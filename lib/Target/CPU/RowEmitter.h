//===- RowEmitter.h - Rows x sweeps over lanes ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row program runs a list of recipes on every row (token) by itself:
//
//   for row in this tile
//     scalars of the row
//     for nest                        consecutive items of one factoring
//       for group in nest.groups
//         for phase                   a sweep over the group's elements
//
// A recipe adds *items*. An elementwise item computes lanes from lanes at the
// same position; it joins the sweep of the item that computes its operands, so
// the value stays in registers. A reduction accumulates over a sweep, and what
// needs its result goes into a later phase. A *loop* item has sweeps of its
// own, for what reads elements at other positions. A value that is read in
// another phase than its own lies in the row's scratch, or in the kernel's
// result.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TARGET_CPU_ROWEMITTER_H
#define HEDDLE_LIB_TARGET_CPU_ROWEMITTER_H

#include "KernelBuilder.h"

#include <deque>
#include <functional>

namespace mlir::heddle::cpu {

/// Some consecutive elements of a row, within one group.
struct Lane {
  /// First element, counted in the group and in the row.
  Value column, flat;
  /// Null when all lanes exist.
  Value mask;
};

struct RowItem {
  Operation *op = nullptr;
  /// Computed values (roots); usually one or none.
  SmallVector<Value> results;
  /// The row as groups x extent. `anyGroups` for what does not care.
  int64_t groups = 1, extent = 1;
  bool anyGroups = false;
  /// Read at the item's own lanes / at other places of the same row.
  SmallVector<Value> laneInputs, memoryInputs;
  /// Its scalars (a reduction's result) are needed.
  RowItem *after = nullptr;
  /// More than a few operations an element: fewer vectors a step.
  bool heavy = false;

  /// Values of the row and of the group that the functions below share.
  SmallVector<Value, 4> scalars;
  /// Runs once a row, before all nests.
  std::function<void(RowItem &)> atRow;
  /// Runs once a group, before the phase.
  std::function<void(RowItem &, Value group)> atGroup;
  /// Elementwise: lanes of results[0].
  std::function<Value(RowItem &, Lane)> compute;
  /// Reduction: neutral lanes; update of one set of accumulators; combination
  /// of two sets, earlier elements first; what to do with the last one.
  std::function<SmallVector<Value>(RowItem &)> initial;
  std::function<void(RowItem &, Lane, MutableArrayRef<Value>)> accumulate;
  std::function<void(RowItem &, MutableArrayRef<Value>, ArrayRef<Value>)>
      combine;
  std::function<void(RowItem &, Value group, ArrayRef<Value>)> finish;
  /// Loop: everything for one group.
  std::function<void(RowItem &, Value group)> loops;

  // Set by RowProgram.
  int64_t nest = -1, phase = 0;
  size_t accumulators = 0;
};

class RowProgram {
public:
  /// Plans the kernel; fails, with a message, on what cannot be a row program.
  static FailureOr<std::unique_ptr<RowProgram>>
  get(const KernelFunction &kernel);

  /// Emits it into the builder's function.
  void emit(KernelBuilder &builder);

  /// Of values between the sweeps of a row; they are on the stack.
  static constexpr int64_t kMaxScratchBytes = 64 << 10;

  const KernelFunction &kernel;
  /// The leading dimensions that number the rows.
  SmallVector<int64_t> rowShape;
  int64_t rows = 1;
  /// Pieces of work.
  int64_t tiles = 1;

  // For recipes, while planning.

  /// Elements of one row of a row tensor.
  int64_t extentOf(Value v) const { return product(tensorShape(v)) / rows; }
  RowItem &add(RowItem item);
  /// Fails, with a message, unless the leading dimensions are the rows'.
  LogicalResult expectRows(Operation *op, Value v) const;
  /// … unless the value is an argument, whatever its shape.
  LogicalResult expectArgument(Operation *op, Value v) const;

  // For recipes, while emitting.

  KernelBuilder &b() { return *builder; }
  /// The row's number, and its coordinate in a leading dimension.
  Value row() { return currentRow; }
  Value rowIndex(size_t dim);
  /// Lanes of a row tensor at this position: in a register or from memory.
  Value lanes(Value v, Lane lane);
  /// Lanes of memory that all rows share.
  Value shared(Value argument, Value at, Lane lane) {
    return b().loadLanes(b().bufferOf(argument), at, lane.mask);
  }
  /// A row tensor in memory.
  Value loadAt(Value v, Value flat, Value mask);
  Value loadScalarAt(Value v, Value flat);
  /// `inWholeVectors`: `flat` is a multiple of the lanes.
  void storeAt(Value v, Value flat, Value lanes, Value mask,
               bool inWholeVectors = false);
  void storeScalarAt(Value v, Value flat, Value scalar);
  /// An integer of the row (i32): loaded, or set by an earlier item.
  Value rowScalar(Value v);
  void setRowScalar(Value v, Value scalar);

private:
  explicit RowProgram(const KernelFunction &kernel) : kernel(kernel) {}

  struct Nest {
    int64_t groups, extent;
    bool anyGroups;
    SmallVector<SmallVector<RowItem *>> phases;
  };
  std::deque<RowItem> items;
  SmallVector<Nest> nests;
  llvm::DenseMap<Value, RowItem *> definitions;
  /// Values that another phase, or other lanes, read.
  llvm::DenseSet<Value> stored;

  KernelBuilder *builder = nullptr;
  Value currentRow;
  /// Lanes computed at the current position.
  llvm::DenseMap<Value, Value> registers;
  llvm::DenseMap<Value, Value> rowScalars;
  llvm::DenseMap<Value, Buffer> scratch;

  LogicalResult chooseRows();
  LogicalResult addOp(Operation *op);
  /// An argument that is returned as it is.
  LogicalResult addCopy(Value argument);
  LogicalResult planStorage();
  void emitRow();
  void emitPhase(const Nest &nest, ArrayRef<RowItem *> phase, Value group);
  void emitSweep(const Nest &nest, ArrayRef<RowItem *> phase, Value group);
  void emitStep(const Nest &nest, ArrayRef<RowItem *> phase, Lane lane,
                MutableArrayRef<Value> accumulators);
  /// Whether a result is stored past the caches.
  bool isStreamed(Value v);
  /// Where a row tensor's element lies.
  std::pair<Buffer, Value> place(Value v, Value flat);
};

// Recipes, by op family (RowOps*.cpp, OrderedOps.cpp).
LogicalResult addRowOp(RowProgram &p, RmsNormOp op);
LogicalResult addRowOp(RowProgram &p, QuantizeOp op);
LogicalResult addRowOp(RowProgram &p, AddOp op);
LogicalResult addRowOp(RowProgram &p, FillOp op);
LogicalResult addRowOp(RowProgram &p, BiasAddOp op);
LogicalResult addRowOp(RowProgram &p, GluOp op);
LogicalResult addRowOp(RowProgram &p, RotaryTableOp op);
LogicalResult addRowOp(RowProgram &p, RotaryOp op);
LogicalResult addRowOp(RowProgram &p, MergePartialsOp op);
LogicalResult addRowOp(RowProgram &p, EmbeddingOp op);
LogicalResult addRowOp(RowProgram &p, GatherRowsOp op);
LogicalResult addRowOp(RowProgram &p, LocalIndexOp op);
LogicalResult addRowOp(RowProgram &p, CacheSlotsOp op);
LogicalResult addRowOp(RowProgram &p, CacheAppendOp op);
LogicalResult addRowOp(RowProgram &p, MaskPadOp op);
LogicalResult addRowOp(RowProgram &p, TakeUnitsOp op);
LogicalResult addRowOp(RowProgram &p, SplitChunksOp op);
LogicalResult addRowOp(RowProgram &p, JoinChunksOp op);
LogicalResult addRowOp(RowProgram &p, ArgmaxOp op);

} // namespace mlir::heddle::cpu

#endif // HEDDLE_LIB_TARGET_CPU_ROWEMITTER_H
