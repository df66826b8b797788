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

#include <functional>
#include <string>
#include <vector>

namespace mlir::heddle::reference {

/// A dense tensor, row major. Integers are exact in float64 (|v| < 2^53).
struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> data;

  static Tensor filled(ArrayRef<int64_t> shape, double value);
  int64_t size() const { return static_cast<int64_t>(data.size()); }
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }

  /// Position in `data` of an index with one number per dimension.
  int64_t offset(ArrayRef<int64_t> index) const {
    assert(index.size() == shape.size() && "expected one index per dimension");
    int64_t result = 0;
    for (size_t i = 0; i < shape.size(); ++i) {
      assert(index[i] >= 0 && index[i] < shape[i] && "expected a valid index");
      result = result * shape[i] + index[i];
    }
    return result;
  }
  template <typename... Index> double &at(Index... index) {
    return data[offset({static_cast<int64_t>(index)...})];
  }
  template <typename... Index> double at(Index... index) const {
    return data[offset({static_cast<int64_t>(index)...})];
  }
};

/// `value` with enough digits to tell any two doubles apart, for messages.
std::string formatNumber(double value);

struct ReferenceOptions {
  /// Called after every op on every rank (rank 0 in global functions; an op in
  /// a repeat once per iteration). It may change the results: tools trace with
  /// it, tests plant faults with it, such as a collective that one rank skips.
  std::function<void(Operation *op, int64_t rank,
                     ArrayRef<const Tensor *> operands,
                     MutableArrayRef<Tensor> results)>
      afterOp;
};

/// Values of a global function's results. The function has been verified. Fails
/// with an error at the op that cannot be executed: one without a reference, or
/// an index out of range.
FailureOr<std::vector<Tensor>> evaluate(func::FuncOp function,
                                        ArrayRef<Tensor> arguments,
                                        const ReferenceOptions &options = {});

/// Values of a local function's results on every rank: [rank][result].
/// `arguments` is [rank][argument]; the mesh is the function's `heddle.mesh`.
FailureOr<std::vector<std::vector<Tensor>>>
evaluateRanks(func::FuncOp function, ArrayRef<std::vector<Tensor>> arguments,
              const ReferenceOptions &options = {});

/// World ranks that communicate over `axes` (each possibly a part of an axis):
/// every rank is in one group, a group's members are in ascending coordinate,
/// groups are in the order of their first members.
FailureOr<std::vector<std::vector<int64_t>>>
getGroups(MeshOp mesh, ArrayRef<AxisRefAttr> axes,
          function_ref<InFlightDiagnostic()> emitError);

/// One rank's part of a global tensor; padding holds `pad`. A pending sum is
/// given whole to the group's first rank, zeros to the others (a pending
/// maximum: -inf to the others).
FailureOr<Tensor> shard(const Tensor &global, RankedTensorType globalType,
                        MeshOp mesh, int64_t rank, double pad);

/// The global tensor from all ranks' parts (first owner of each unit; pending
/// reductions are done). Fails if replicas differ by more than `tolerance`,
/// which is absolute; `name` is what the error calls the tensor.
FailureOr<Tensor> unshard(ArrayRef<Tensor> parts, RankedTensorType globalType,
                          MeshOp mesh, double tolerance, Location loc,
                          StringRef name = "tensor");

} // namespace mlir::heddle::reference

#endif // HEDDLE_REFERENCE_REFERENCE_H
