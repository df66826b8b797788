//===- layout.h - How a tensor lies over ranks ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_SESSION_LAYOUT_H
#define HEDDLE_RT_SESSION_LAYOUT_H

#include "heddle_rt/plan_generated.h"
#include "heddle_rt/weights.h"

#include <cstdint>
#include <vector>

namespace heddle::rt {

/// Consecutive elements of a dimension, locally and globally.
struct Run {
  int64_t local;
  int64_t global;
  int64_t count;
};

/// What one rank holds of a tensor. Local elements outside the runs are
/// padding.
struct TensorLayout {
  std::vector<int64_t> global; // shapes
  std::vector<int64_t> local;
  std::vector<std::vector<Run>> runs; // per dimension, ascending `local`

  bool hasPadding() const;
  /// Elements of all dimensions but the last, and of the last.
  int64_t localRows() const;
  int64_t localCols() const;
  int64_t globalCols() const;
  /// Forgets what lies beyond `shape` (global, one extent per dimension).
  void clip(const std::vector<int64_t> &shape);
  /// Reads dimension 0 in another order: element e comes from order(e).
  template <typename Order> void permuteRows(Order order) {
    std::vector<Run> single;
    for (const Run &run : runs.front())
      for (int64_t i = 0; i < run.count; ++i)
        single.push_back({run.local + i, order(run.global + i), 1});
    runs.front() = std::move(single);
  }
};

using DimShards = flatbuffers::Vector<flatbuffers::Offset<fb::DimShard>>;

/// The rank's coordinate on every mesh axis.
std::vector<int64_t> coordinatesOf(const fb::Plan &plan, int64_t rank);

TensorLayout layoutOf(const fb::Plan &plan, const DimShards *dims,
                      const std::vector<int64_t> &coordinates);

/// The rank's coordinates on the axes that cut the tensor: ranks that agree on
/// them hold the same elements.
std::vector<int64_t> shardOf(const DimShards *dims,
                             const std::vector<int64_t> &coordinates);

/// The rank is the first of those that hold the same elements.
bool isFirstReplica(const DimShards *dims,
                    const std::vector<int64_t> &coordinates);

/// Calls row(localRow, globalRow) for every row that is no padding; rows are
/// numbered over all dimensions but the last, in the shape of `layout`
/// (globalShape for the global side).
template <typename RowFunction>
void forEachRow(const TensorLayout &layout,
                const std::vector<int64_t> &globalShape, RowFunction row,
                size_t dim = 0, int64_t localRow = 0, int64_t globalRow = 0) {
  if (dim + 1 >= layout.runs.size()) {
    row(localRow, globalRow);
    return;
  }
  for (const Run &run : layout.runs[dim])
    for (int64_t i = 0; i < run.count; ++i)
      forEachRow(layout, globalShape, row, dim + 1,
                 localRow * layout.local[dim] + run.local + i,
                 globalRow * globalShape[dim] + run.global + i);
}

/// The runs of the innermost dimension; one element for a tensor of none.
const std::vector<Run> &lastRuns(const TensorLayout &layout);

/// "[2, 3]"
std::string shapeString(const std::vector<int64_t> &shape);

} // namespace heddle::rt

#endif // HEDDLE_RT_SESSION_LAYOUT_H
