//===- load_weights.h - Parameters by their recipes -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_SESSION_LOAD_WEIGHTS_H
#define HEDDLE_RT_SESSION_LOAD_WEIGHTS_H

#include "executor/executor.h"

#include <functional>

namespace heddle::rt {

/// Fills every recipe's place in the memory of `ranks` from `source`, on the
/// workers of `pool`. All tensors that are missing or do not fit are found
/// before anything is written, and reported together.
Status loadWeights(const fb::Plan &plan, const std::vector<RankMemory> &ranks,
                   const WeightSource &source, WorkerPool &pool,
                   const std::function<void(int64_t, int64_t)> &progress);

} // namespace heddle::rt

#endif // HEDDLE_RT_SESSION_LOAD_WEIGHTS_H
