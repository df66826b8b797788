//===- Equivalence.h - Partitioned programs against their global twins ---*- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A strategy is right if the local program on N ranks computes what the global
// program does. Both are executed by the reference on the same random weights
// and inputs, in float64, and every result is compared element by element.
// Padding of what ranks are given is poisoned: NaN in floating point inputs and
// states, -1 in integer ones; that of parameters is zero, as it is at run time.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_REFERENCE_EQUIVALENCE_H
#define HEDDLE_REFERENCE_EQUIVALENCE_H

#include "heddle/Reference/Reference.h"

#include <map>
#include <string>

namespace mlir::heddle::reference {

/// Global values of a program's `input` arguments, by binding name.
using ProgramInputs = std::map<std::string, Tensor>;

/// Integer inputs of one call of `program`, for those of these names that it
/// has: sequence b brings valid[b] new tokens after past[b] earlier ones.
///   tokens [B, T]     random below `vocabulary`, in invalid rows too
///   documents [B, T]  numbers of documents of random length, as long as the
///                     positions' promise (ConsecutiveAttr) allows, or up to 7
///   positions [B, T]  past[b] + t, or the place in its document; -1 in rows
///                     from valid[b] on
///   blocks [B, M]     b * M + m
///   lengths [B]       past[b] + valid[b]
///   last [B, 1]       row of the last valid token
///   temperature, top_k, top_p, min_p, seed [B]
///                     random, all filters on
FailureOr<ProgramInputs> drawInputs(func::FuncOp program,
                                    ArrayRef<int64_t> past,
                                    ArrayRef<int64_t> valid, int64_t vocabulary,
                                    uint64_t seed);

/// A parameter as the runtime draws it from "random:SEED": each layer of a
/// stack by its own global name.
Tensor drawParameter(BindingAttr binding, ArrayRef<int64_t> shape,
                     uint64_t seed);

/// A state before the first run: every element its binding's fill pattern.
Tensor initialState(BindingAttr binding, RankedTensorType type);

/// One call of a program, in both forms.
struct EquivalenceRun {
  func::FuncOp global;
  func::FuncOp local;
  /// Floating point inputs that are not here are drawn at random.
  ProgramInputs inputs;
};

struct EquivalenceOptions {
  /// Of parameters (drawn as the runtime's random weights are) and inputs.
  uint64_t seed = 0;
  /// Largest difference, relative to the largest magnitude in the reference's
  /// tensor.
  double tolerance = 1e-9;
  /// For the execution of the local programs.
  ReferenceOptions local;
};

struct EquivalenceReport {
  int64_t runs = 0, results = 0, elements = 0;
  /// Largest relative difference found.
  double worst = 0;
};

/// Executes the runs in order and compares all results. Arguments and results
/// of the two functions are matched by kind and name of their `heddle.binding`;
/// local ones say in `heddle.global` how they lie on the mesh. States keep
/// their values, by name, from run to run, and start from their binding's fill.
/// The first element that differs is an error at what computes it.
FailureOr<EquivalenceReport>
checkEquivalence(ArrayRef<EquivalenceRun> runs,
                 const EquivalenceOptions &options = {});

} // namespace mlir::heddle::reference

#endif // HEDDLE_REFERENCE_EQUIVALENCE_H
