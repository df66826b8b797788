//===- Reference.h - float64 interpreter ------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Executes the heddle and comm dialects with plain loops in float64: global
// functions, and local functions on N simulated ranks in lock step. It is what
// everything else is compared with, so it is never optimised and shares no
// arithmetic with code generation.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_REFERENCE_REFERENCE_H
#define HEDDLE_REFERENCE_REFERENCE_H

#include "heddle/Dialect/Comm/IR/CommDialect.h"
#include "heddle/Dialect/Heddle/IR/HeddleDialect.h"
#include "heddle/Dialect/Heddle/IR/Layout.h"

#include <vector>

namespace mlir::heddle::reference {

/// A dense tensor, row major. Integers are exact in float64 (|v| < 2^53).
struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> data;

  static Tensor filled(ArrayRef<int64_t> shape, double value);
  int64_t size() const { return static_cast<int64_t>(data.size()); }
};

/// Values of a global function's results.
FailureOr<std::vector<Tensor>> evaluate(func::FuncOp function,
                                        ArrayRef<Tensor> arguments);

/// Values of a local function's results on every rank: [rank][result].
/// `arguments` is [rank][argument].
FailureOr<std::vector<std::vector<Tensor>>>
evaluateRanks(func::FuncOp function, ArrayRef<std::vector<Tensor>> arguments);

/// One rank's part of a global tensor; padding holds `pad`. A pending sum is
/// given whole to the group's first rank, zeros to the others.
FailureOr<Tensor> shard(const Tensor &global, RankedTensorType globalType,
                        MeshOp mesh, int64_t rank, double pad);

/// The global tensor from all ranks' parts (first owner of each unit; pending
/// sums are added). Fails if replicas differ by more than `tolerance`.
FailureOr<Tensor> unshard(ArrayRef<Tensor> parts, RankedTensorType globalType,
                          MeshOp mesh, double tolerance, Location loc);

} // namespace mlir::heddle::reference

#endif // HEDDLE_REFERENCE_REFERENCE_H
