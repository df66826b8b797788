//===- RowProgram.cpp - From a kernel function to nests of phases ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

/// Operand bytes of a tile that are worth a worker's attention.
static constexpr int64_t kTileBytes = 32 << 10;
static constexpr int64_t kMaxTiles = 64;

LogicalResult RowProgram::expectRows(Operation *op, Value v) const {
  ArrayRef<int64_t> shape = tensorShape(v);
  if (shape.size() >= rowShape.size() &&
      shape.take_front(rowShape.size()) == ArrayRef(rowShape))
    return success();
  InFlightDiagnostic diag = op->emitError("expected one value for each of ");
  llvm::interleave(rowShape, diag, "x");
  return diag << " rows of the kernel, got " << v.getType();
}

LogicalResult RowProgram::expectArgument(Operation *op, Value v) const {
  if (isa<BlockArgument>(kernel.root(v)))
    return success();
  return op->emitOpError("expected an operand from outside the kernel, got ")
         << "the result of '" << kernel.root(v).getDefiningOp()->getName()
         << "'";
}

RowItem &RowProgram::add(RowItem added) {
  items.push_back(std::move(added));
  RowItem &item = items.back();
  for (SmallVector<Value> *values :
       {&item.results, &item.laneInputs, &item.memoryInputs})
    for (Value &v : *values)
      v = kernel.root(v);
  for (Value v : item.results)
    definitions[v] = &item;
  if (!item.compute && !item.accumulate && !item.loops)
    return item;

  int64_t extent = item.groups * item.extent;
  Nest *nest = nests.empty() ? nullptr : &nests.back();
  if (!nest || nest->groups * nest->extent != extent ||
      !(nest->anyGroups || item.anyGroups || nest->groups == item.groups)) {
    nests.push_back({item.groups, item.extent, item.anyGroups, {}});
    nest = &nests.back();
  } else if (nest->anyGroups && !item.anyGroups) {
    nest->groups = item.groups;
    nest->extent = item.extent;
    nest->anyGroups = false;
  }
  item.nest = nests.size() - 1;
  auto follow = [&](RowItem *other, int64_t distance) {
    if (other && other->nest == item.nest)
      item.phase = std::max(item.phase, other->phase + distance);
  };
  for (Value v : item.laneInputs)
    if (RowItem *definition = definitions.lookup(v))
      follow(definition, definition->loops ? 1 : 0);
  for (Value v : item.memoryInputs)
    follow(definitions.lookup(v), 1);
  follow(item.after, 1);
  if (static_cast<size_t>(item.phase) >= nest->phases.size())
    nest->phases.resize(item.phase + 1);
  nest->phases[item.phase].push_back(&item);
  return item;
}

/// How many leading dimensions can number rows: exactly `required` if it is not
/// -1, else at most `most`.
namespace {
struct RowRank {
  int64_t required;
  int64_t most;
};
} // namespace

static RowRank rowRank(Operation *op) {
  int64_t rank = tensorType(op->getResult(0)).getRank();
  bool integer =
      isa<IntegerType>(tensorType(op->getResult(0)).getElementType());
  return TypeSwitch<Operation *, RowRank>(op)
      .Case<RotaryTableOp, RotaryOp, CacheSlotsOp, CacheAppendOp, GatherRowsOp,
            MergePartialsOp>([](auto) { return RowRank{2, 2}; })
      .Case<EmbeddingOp>([](EmbeddingOp embedding) {
        int64_t idsRank = tensorType(embedding.getIds()).getRank();
        return RowRank{idsRank, idsRank};
      })
      .Case<SplitChunksOp>([](SplitChunksOp op) {
        int64_t rows = op.getDim() + 2;
        return RowRank{rows, rows};
      })
      .Case<JoinChunksOp>([](JoinChunksOp op) {
        int64_t rows = op.getDim() + 1;
        return RowRank{rows, rows};
      })
      .Case<LocalIndexOp>([&](auto) { return RowRank{rank, rank}; })
      .Case<ArgmaxOp>([&](auto) { return RowRank{-1, rank}; })
      .Default([&](Operation *) {
        if (integer)
          return RowRank{rank, rank};
        return RowRank{-1, std::max<int64_t>(rank - 1, 0)};
      });
}

LogicalResult RowProgram::chooseRows() {
  int64_t required = -1, most = INT64_MAX;
  Operation *first = nullptr, *reason = nullptr;
  for (Operation *op : kernel.ops) {
    RowRank rank = rowRank(op);
    if (!first || rank.most < most) {
      first = op;
      most = std::min(most, rank.most);
    }
    if (rank.required < 0)
      continue;
    if (reason && required != rank.required) {
      InFlightDiagnostic diag = op->emitOpError("expected rows of ")
                                << required << " dimensions, got "
                                << rank.required;
      diag.attachNote(reason->getLoc()) << "rows are chosen here";
      return diag;
    }
    required = rank.required;
    reason = op;
  }
  int64_t count = required < 0 ? most : required;
  // Rows are those of a computed value; cache_append's result is a pool.
  Operation *model = reason ? reason : first;
  Value v = model->getResult(0);
  if (auto append = dyn_cast<CacheAppendOp>(model))
    v = append.getSlots();
  // argmax over V, or a norm over D, may leave fewer dimensions than `count`.
  ArrayRef<int64_t> shape = tensorShape(v);
  // Without a reason, dimensions that all ops have alike: heads that are taken
  // of queries are more than those of keys.
  for (Operation *op : kernel.ops) {
    if (reason)
      break;
    ArrayRef<int64_t> other = tensorShape(op->getResult(0));
    int64_t same = 0;
    while (same < std::min<int64_t>(shape.size(), other.size()) &&
           shape[same] == other[same])
      ++same;
    count = std::min(count, same);
  }
  rowShape.assign(shape.begin(),
                  shape.begin() + std::min<int64_t>(count, shape.size()));
  rows = product(rowShape);
  return success();
}

LogicalResult RowProgram::addOp(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<RmsNormOp, AddOp, BiasAddOp, GluOp, RotaryTableOp, RotaryOp,
            MergePartialsOp, EmbeddingOp, GatherRowsOp, LocalIndexOp,
            CacheSlotsOp, CacheAppendOp, MaskPadOp, TakeUnitsOp, ArgmaxOp,
            QuantizeOp, FillOp, SplitChunksOp, JoinChunksOp>(
          [&](auto typed) { return addRowOp(*this, typed); })
      .Default([&](Operation *) {
        return op->emitOpError("has no lowering in a row kernel");
      });
}

LogicalResult RowProgram::addCopy(Value argument) {
  if (failed(expectRows(kernel.func, argument)))
    return failure();
  RowItem item;
  item.extent = extentOf(argument);
  item.memoryInputs = {argument};
  if (!isa<FloatType>(tensorType(argument).getElementType())) {
    if (item.extent != 1)
      return kernel.func.emitError(
                 "expected to return one integer for each row, "
                 "got ")
             << argument.getType();
    item.atRow = [this, argument](RowItem &) {
      setRowScalar(argument, rowScalar(argument));
    };
  } else {
    item.loops = [this, argument](RowItem &self, Value) {
      b().sweep(self.extent, [&](Value at, Value mask) {
        storeAt(argument, at, loadAt(argument, at, mask), mask);
      });
    };
  }
  add(std::move(item));
  return success();
}

LogicalResult RowProgram::planStorage() {
  int64_t scratchBytes = 0;
  for (RowItem &item : items) {
    for (Value v : item.laneInputs) {
      RowItem *definition = definitions.lookup(v);
      if (definition &&
          (definition->nest != item.nest || definition->phase != item.phase))
        stored.insert(v);
    }
    for (Value v : item.memoryInputs)
      if (definitions.lookup(v))
        stored.insert(v);
  }
  for (RowItem &item : items)
    for (Value v : item.results)
      if (stored.contains(v) && kernel.resultsOf(v).empty())
        scratchBytes += extentOf(v) * 4;
  if (scratchBytes > kMaxScratchBytes)
    return kernel.func.emitError("expected at most ")
           << kMaxScratchBytes
           << " bytes of values between the sweeps of a row, got "
           << scratchBytes;
  return success();
}

FailureOr<std::unique_ptr<RowProgram>>
RowProgram::get(const KernelFunction &kernel) {
  std::unique_ptr<RowProgram> program(new RowProgram(kernel));
  if (kernel.ops.empty())
    return kernel.func.emitError("expected a kernel that computes something"),
           failure();
  for (Operation *op : kernel.ops)
    for (Value v : op->getOperands())
      if (kernel.root(v).getDefiningOp<ArgmaxOp>())
        return op->emitOpError("expected the result of 'heddle.argmax' to "
                               "leave the kernel, got a use of it"),
               failure();
  if (failed(program->chooseRows()))
    return failure();
  for (Operation *op : kernel.ops)
    if (failed(program->addOp(op)))
      return failure();
  llvm::SmallPtrSet<Value, 4> copied;
  for (Value v : kernel.returned)
    if (isa<BlockArgument>(v) && copied.insert(v).second &&
        failed(program->addCopy(v)))
      return failure();
  if (failed(program->planStorage()))
    return failure();
  // Tables and pools do not count as work: rows touch parts of them.
  int64_t bytes = 0;
  size_t rank = program->rowShape.size();
  for (RankedTensorType type : kernel.operands)
    if (type.getShape().take_front(rank) == ArrayRef(program->rowShape))
      bytes += getTensorBytes(type);
  program->tiles = std::clamp<int64_t>(
      bytes / kTileBytes, 1, std::min<int64_t>(program->rows, kMaxTiles));
  return program;
}
