//===- Propagation.h - Shardings through factor rules -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_TRANSFORMS_PROPAGATION_H
#define HEDDLE_DIALECT_HEDDLE_TRANSFORMS_PROPAGATION_H

#include "heddle/Dialect/Heddle/IR/HeddleDialect.h"
#include "heddle/Dialect/Heddle/IR/Layout.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::heddle {

/// How one factor lies over ranks: a dim sharding whose unit counts elements of
/// the factor. Null: not decided (open).
using FactorShardings = SmallVector<DimShardingAttr, 6>;

/// Decides shardings of values dimension by dimension. A decision is never
/// taken back, so the fixpoint exists and does not depend on a limit.
class Propagation {
public:
  Propagation(ModuleOp module, MeshOp mesh);

  /// Decides dimension `dim` of `value` unless it is decided, or the axes are
  /// used by another dimension of it. Returns true if it was taken.
  bool mark(Value value, int64_t dim, DimShardingAttr sharding);

  /// As `mark`, for a strategy: in the smallest multiple of the sharding's unit
  /// that cuts no quantisation block of any tensor that the decision reaches.
  bool seed(Value value, int64_t dim, DimShardingAttr sharding);

  /// Decides that a dimension stays whole, unless it is decided.
  void keepWhole(Value value, int64_t dim);

  /// Decides how one op is cut along a factor, whatever its values say: what
  /// lies in another way is brought there by a reshard. What is cut along the
  /// factor already may be cut again over more axes. False if the op is cut
  /// otherwise, or over one of these axes along another factor.
  bool settle(Operation *op, int factor, DimShardingAttr sharding);
  /// How the op is cut along a factor for good; null if that is open.
  DimShardingAttr getSettled(Operation *op, int factor) const;

  /// `outer` with each rank's part cut again over `minor`: that rank's units in
  /// order, to each as many as to any. Without `outer`, blocks.
  DimShardingAttr divide(DimShardingAttr outer, AxisRefAttr minor,
                         int64_t size);

  /// Runs to the fixpoint. How ops are cut then is settled: later decisions
  /// cut their other factors only.
  void run();

  /// The decision for a dimension; null if open.
  DimShardingAttr get(Value value, int64_t dim) const;
  /// All dimensions, open ones replicated.
  SmallVector<DimShardingAttr> getDims(Value value) const;

  /// What the decisions for an op's operands and results say of its factors.
  FactorShardings project(Operation *op, const FactorRule &rule);
  /// The dims that a tensor must have under factor decisions.
  SmallVector<DimShardingAttr> dimsFrom(const FactorRule &rule,
                                        const TensorFactors &factors,
                                        const FactorShardings &decided) const;
  MeshOp getMesh() const { return mesh; }

private:
  struct Tie {
    Value stack, slice; // equal dims, the stack has one more at the front
    bool isSlice;
  };
  void collectTies(ModuleOp module);
  bool runTies();
  bool runOp(Operation *op);
  /// The smallest multiple of `unit` for which a cut of this dimension, carried
  /// through factors and ties, lies between blocks everywhere.
  int64_t unitOfWholeBlocks(Value value, int64_t dim, int64_t unit) const;
  int64_t unitOfFactor(Operation *op, const FactorRule &rule,
                       size_t factor) const;
  /// Key/value heads that the ranks' query heads need, in units of `unit`.
  DimShardingAttr followHeads(DimShardingAttr heads, const Factor &query,
                              const Factor &kv, int64_t unit);
  FlatSymbolRefAttr tableFor(StringRef stem, ArrayRef<int64_t> values,
                             int64_t rows);

  ModuleOp module;
  MeshOp mesh;
  SmallVector<Operation *> ops;
  SmallVector<Tie> ties;
  /// Numbers of the ties that a value is in.
  DenseMap<Value, SmallVector<size_t, 2>> tiesOf;
  DenseMap<Value, SmallVector<DimShardingAttr>> decided;
  /// Factors of ops at the last fixpoint.
  DenseMap<Operation *, FactorShardings> settled;
};

} // namespace mlir::heddle

#endif // HEDDLE_DIALECT_HEDDLE_TRANSFORMS_PROPAGATION_H
