//===- Placement.h - Where every value of a program lies -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===--------------------------------------------------------------------*- C++
//-*-===//

#ifndef HEDDLE_LIB_CONVERSION_HEDDLETOPLAN_PLACEMENT_H
#define HEDDLE_LIB_CONVERSION_HEDDLETOPLAN_PLACEMENT_H

#include "heddle/Dialect/Comm/IR/CommDialect.h"
#include "heddle/Dialect/Heddle/IR/HeddleDialect.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::heddle {

constexpr int64_t kAlignment = 64;

inline int64_t alignUp(int64_t value, int64_t to = kAlignment) {
  return (value + to - 1) / to * to;
}

/// A scalar that an address depends on, inside the body of a repeat.
enum class LoopScalar {
  /// The iteration, the next iteration, and the slice of this kind's stacks.
  Iteration,
  NextIteration,
  Ordinal,
};

struct AddressTerm {
  int64_t stride = 0;
  LoopScalar scalar = LoopScalar::Iteration;
  int64_t modulus = 0;
  /// The repeat that counts.
  Operation *loop = nullptr;

  bool operator==(const AddressTerm &other) const {
    return stride == other.stride && scalar == other.scalar &&
           modulus == other.modulus && loop == other.loop;
  }
};

/// A piece of memory that some values occupy. `fixed` ones lie in a region that
/// exists before placement; others get an offset in the work region.
struct Storage {
  int64_t bytes = 0;
  bool fixed = false;
  std::string region = "work";
  int64_t offset = 0;
  /// Instruction numbers of the first write and the last read.
  int64_t first = 0, last = 0;
  /// Holds what a collective sends or receives.
  bool communication = false;
};

struct Place {
  int storage = -1;
  int64_t offset = 0;
  SmallVector<AddressTerm, 1> terms;

  bool isWhole() const { return offset == 0 && terms.empty(); }
  bool operator==(const Place &other) const {
    return storage == other.storage && offset == other.offset &&
           terms == other.terms;
  }
};

/// A copy that placement could not avoid.
struct NeededCopy {
  Place from, to;
  int64_t bytes;
};

/// A tensor with a fixed place: (region, offset), and bytes from slice to slice
/// of a stack (0 if it is none).
struct FixedPlace {
  std::string region;
  int64_t offset = 0;
  int64_t stride = 0;
};

class Placement {
public:
  /// `argumentPlaces` and `resultPlaces` hold the fixed places of the
  /// function's arguments and results.
  Placement(func::FuncOp program, ArrayRef<FixedPlace> argumentPlaces,
            ArrayRef<FixedPlace> resultPlaces);

  LogicalResult run();

  /// A copy: `places` moves its entries when it grows.
  Place get(Value value) const { return places.find(value)->second; }
  ArrayRef<NeededCopy> copiesBefore(Operation *op) const {
    auto it = copies.find(op);
    return it == copies.end() ? ArrayRef<NeededCopy>() : it->second;
  }
  std::vector<Storage> storages;

private:
  void number();
  int64_t lastUse(Value value) const;
  int newStorage(Value value);
  int newStorage(int64_t bytes, int64_t first, int64_t last);
  bool isMovable(Value value, Operation *until) const;
  void rebase(int storage, const Place &to);
  LogicalResult placeBlock(Block &block);
  LogicalResult placeOp(Operation *op);
  LogicalResult placeRepeat(RepeatOp repeat);
  void placeResults();
  void computeLifetimes();

  func::FuncOp program;
  ArrayRef<FixedPlace> argumentPlaces, resultPlaces;
  llvm::MapVector<Value, Place> places;
  DenseMap<Operation *, int64_t> begin, end;
  DenseMap<Operation *, SmallVector<NeededCopy>> copies;
};

/// Places intervals largest first at the lowest free offset. Returns the bytes
/// needed; `peakAt` gets the instruction at which most bytes are live.
int64_t allocateArena(std::vector<Storage> &storages, int64_t &peakAt);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_HEDDLETOPLAN_PLACEMENT_H
