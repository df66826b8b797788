//===- RowEmitter.cpp - Rows x sweeps over lanes --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

//===----------------------------------------------------------------------===//
// What recipes use
//===----------------------------------------------------------------------===//

Value RowProgram::rowIndex(size_t dim) {
  Value i = currentRow;
  int64_t inner = product(ArrayRef(rowShape).drop_front(dim + 1));
  if (inner > 1)
    i = b().idiv(i, inner);
  return dim > 0 ? b().irem(i, rowShape[dim]) : i;
}

std::pair<Buffer, Value> RowProgram::place(Value v, Value flat) {
  int64_t operand = kernel.operandOf(v);
  if (operand < 0) {
    auto it = scratch.find(kernel.root(v));
    if (it != scratch.end())
      return {it->second, flat};
    operand = kernel.resultsOf(v).front();
  }
  Value at = b().iadd(b().imul(currentRow, extentOf(v)), flat);
  return {b().operands[operand], at};
}

Value RowProgram::loadAt(Value v, Value flat, Value mask) {
  auto [buffer, at] = place(v, flat);
  return b().loadLanes(buffer, at, mask);
}

Value RowProgram::loadScalarAt(Value v, Value flat) {
  auto [buffer, at] = place(v, flat);
  return b().loadScalar(buffer, at);
}

bool RowProgram::isStreamed(Value v) {
  SmallVector<int64_t> results = kernel.resultsOf(v);
  const TargetRecord &target = b().target;
  // What is read again needs room beside.
  if (stored.contains(v) && extentOf(v) * 4 > kMaxScratchBytes)
    return false;
  return !results.empty() && extentOf(v) % target.lanes == 0 &&
         llvm::all_of(results, [&](int64_t operand) {
           RankedTensorType type = kernel.operands[operand];
           return type.getElementType().isF32() &&
                  getTensorBytes(type) > target.streamBytes;
         });
}

void RowProgram::storeAt(Value v, Value flat, Value lanes, Value mask,
                         bool inWholeVectors) {
  Value at = b().iadd(b().imul(currentRow, extentOf(v)), flat);
  bool streamed = inWholeVectors && !mask && isStreamed(v);
  for (int64_t operand : kernel.resultsOf(v))
    if (streamed)
      b().streamLanes(b().operands[operand], at, lanes);
    else
      b().storeLanes(b().operands[operand], at, lanes, mask);
  auto it = scratch.find(kernel.root(v));
  if (it != scratch.end())
    b().storeLanes(it->second, flat, lanes, mask);
}

void RowProgram::storeScalarAt(Value v, Value flat, Value scalar) {
  Value at = b().iadd(b().imul(currentRow, extentOf(v)), flat);
  for (int64_t operand : kernel.resultsOf(v))
    b().storeScalar(b().operands[operand], at, scalar);
  auto it = scratch.find(kernel.root(v));
  if (it != scratch.end())
    b().storeScalar(it->second, flat, scalar);
}

Value RowProgram::lanes(Value v, Lane lane) {
  auto it = registers.find(kernel.root(v));
  return it != registers.end() ? it->second : loadAt(v, lane.flat, lane.mask);
}

Value RowProgram::rowScalar(Value v) {
  Value &scalar = rowScalars[kernel.root(v)];
  if (!scalar)
    scalar = loadScalarAt(v, b().index(0));
  return scalar;
}

void RowProgram::setRowScalar(Value v, Value scalar) {
  rowScalars[kernel.root(v)] = scalar;
  for (int64_t operand : kernel.resultsOf(v))
    b().storeScalar(b().operands[operand], currentRow, scalar);
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

void RowProgram::emit(KernelBuilder &kernelBuilder) {
  builder = &kernelBuilder;
  for (RowItem &item : items)
    for (Value v : item.results)
      // What is stored past the caches is not read again from there.
      if (stored.contains(v) && (kernel.resultsOf(v).empty() || isStreamed(v)))
        scratch[v] = b().scratch(extentOf(v), b().getF32Type());
  Value some = b().rowsToCompute(rows);
  Value from = b().tileBegin(b().tile, some);
  Value to = b().tileBegin(b().iadd(b().tile, 1), some);
  b().loop(from, to, 1, [&](Value row) {
    currentRow = row;
    emitRow();
  });
  if (b().streams)
    b().intrinsic("llvm.x86.sse.sfence", Type(), {});
}

void RowProgram::emitRow() {
  rowScalars.clear();
  for (RowItem &item : items)
    if (item.atRow)
      item.atRow(item);
  for (const Nest &nest : nests) {
    auto group = [&](Value g) {
      for (ArrayRef<RowItem *> phase : nest.phases)
        emitPhase(nest, phase, g);
    };
    if (nest.groups == 1)
      group(b().index(0));
    else
      b().loop(b().index(0), b().index(nest.groups), 1, group);
  }
}

void RowProgram::emitPhase(const Nest &nest, ArrayRef<RowItem *> phase,
                           Value group) {
  for (RowItem *item : phase)
    if (item->atGroup)
      item->atGroup(*item, group);
  emitSweep(nest, phase, group);
  for (RowItem *item : phase)
    if (item->loops)
      item->loops(*item, group);
}

void RowProgram::emitStep(const Nest &nest, ArrayRef<RowItem *> phase,
                          Lane lane, MutableArrayRef<Value> accumulators) {
  bool inWholeVectors = nest.extent % b().lanes() == 0;
  registers.clear();
  for (RowItem *item : phase) {
    if (item->compute) {
      Value v = item->compute(*item, lane);
      registers[item->results[0]] = v;
      storeAt(item->results[0], lane.flat, v, lane.mask, inWholeVectors);
    }
    if (item->accumulate) {
      item->accumulate(*item, lane,
                       accumulators.take_front(item->accumulators));
      accumulators = accumulators.drop_front(item->accumulators);
    }
  }
  registers.clear();
}

void RowProgram::emitSweep(const Nest &nest, ArrayRef<RowItem *> phase,
                           Value group) {
  if (llvm::none_of(phase, [](RowItem *item) {
        return item->compute || item->accumulate;
      }))
    return;
  // Independent vectors a step, each with accumulators of its own.
  bool heavy = llvm::any_of(phase, [](RowItem *item) { return item->heavy; });
  SmallVector<Value> initial;
  for (RowItem *item : phase) {
    if (!item->accumulate)
      continue;
    SmallVector<Value> own = item->initial(*item);
    item->accumulators = own.size();
    llvm::append_range(initial, own);
  }
  // Walks the reductions with each one's part of the accumulators.
  auto forReductions =
      [&](function_ref<void(RowItem &, size_t offset, size_t count)> visit) {
        size_t offset = 0;
        for (RowItem *item : phase)
          if (item->accumulate) {
            visit(*item, offset, item->accumulators);
            offset += item->accumulators;
          }
      };
  Value base = b().imul(group, nest.extent);
  SmallVector<Value> sums = b().sweep(
      nest.extent, heavy ? 2 : 4, initial,
      [&](Value column, Value mask, MutableArrayRef<Value> carry) {
        emitStep(nest, phase, {column, b().iadd(base, column), mask}, carry);
      },
      [&](MutableArrayRef<Value> carry, ArrayRef<Value> later) {
        forReductions([&](RowItem &item, size_t offset, size_t count) {
          item.combine(item, carry.slice(offset, count),
                       later.slice(offset, count));
        });
      });
  forReductions([&](RowItem &item, size_t offset, size_t count) {
    item.finish(item, group, ArrayRef(sums).slice(offset, count));
  });
}
