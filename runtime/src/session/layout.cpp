//===- layout.cpp - How a tensor lies over ranks --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/layout.h"

#include "base/checked_math.h"
#include "base/text.h"

#include <algorithm>

namespace heddle::rt {

bool TensorLayout::hasPadding() const {
  for (size_t d = 0; d < runs.size(); ++d) {
    int64_t held = 0;
    for (const Run &run : runs[d])
      held += run.count;
    if (held != local[d])
      return true;
  }
  return false;
}

int64_t TensorLayout::localRows() const {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < local.size(); ++d)
    rows *= local[d];
  return rows;
}

int64_t TensorLayout::localCols() const {
  return local.empty() ? 1 : local.back();
}

int64_t TensorLayout::globalCols() const {
  return global.empty() ? 1 : global.back();
}

void TensorLayout::clip(const std::vector<int64_t> &shape) {
  for (size_t d = 0; d < runs.size(); ++d) {
    std::vector<Run> kept;
    for (Run run : runs[d]) {
      run.count = std::min(run.count, shape[d] - run.global);
      if (run.count > 0)
        kept.push_back(run);
    }
    runs[d] = std::move(kept);
  }
}

std::vector<int64_t> coordinatesOf(const fb::Plan &plan, int64_t rank) {
  size_t axes = plan.axes() ? plan.axes()->size() : 0;
  std::vector<int64_t> coordinates(axes);
  for (size_t i = axes; i-- > 0;) {
    int64_t size = plan.axes()->Get(static_cast<uint32_t>(i))->size();
    coordinates[i] = rank % size;
    rank /= size;
  }
  return coordinates;
}

namespace {

std::vector<Run> runsOf(const fb::Plan &plan, const fb::DimShard &dim,
                        const std::vector<int64_t> &coordinates) {
  int64_t coordinate = 0;
  if (dim.axes())
    for (int32_t axis : *dim.axes())
      coordinate =
          coordinate * plan.axes()->Get(static_cast<uint32_t>(axis))->size() +
          coordinates[static_cast<size_t>(axis)];
  const int64_t *map = nullptr;
  if (dim.map() >= 0)
    map = plan.tables()->Get(static_cast<uint32_t>(dim.map()))->data()->data() +
          coordinate * dim.slots();

  std::vector<Run> runs;
  int64_t units = ceilDiv(dim.size(), dim.unit());
  auto add = [&](int64_t slot, int64_t unit, int64_t count) {
    Run run{slot * dim.unit(), unit * dim.unit(), count * dim.unit()};
    run.count = std::min(run.count, dim.size() - run.global);
    if (run.count <= 0)
      return;
    if (!runs.empty() && runs.back().local + runs.back().count == run.local &&
        runs.back().global + runs.back().count == run.global)
      runs.back().count += run.count;
    else
      runs.push_back(run);
  };
  if (map) {
    for (int64_t slot = 0; slot < dim.slots(); ++slot)
      if (map[slot] >= 0)
        add(slot, map[slot], 1);
  } else {
    int64_t first = coordinate * dim.slots();
    add(0, first, std::min(dim.slots(), units - first));
  }
  return runs;
}

} // namespace

TensorLayout layoutOf(const fb::Plan &plan, const DimShards *dims,
                      const std::vector<int64_t> &coordinates) {
  TensorLayout layout;
  if (dims)
    for (const fb::DimShard *dim : *dims) {
      layout.global.push_back(dim->size());
      layout.local.push_back(dim->slots() * dim->unit());
      layout.runs.push_back(runsOf(plan, *dim, coordinates));
    }
  return layout;
}

std::vector<int64_t> shardOf(const DimShards *dims,
                             const std::vector<int64_t> &coordinates) {
  std::vector<int64_t> shard;
  if (dims)
    for (const fb::DimShard *dim : *dims)
      if (dim->axes())
        for (int32_t axis : *dim->axes())
          shard.push_back(coordinates[static_cast<size_t>(axis)]);
  return shard;
}

bool isFirstReplica(const DimShards *dims,
                    const std::vector<int64_t> &coordinates) {
  std::vector<int64_t> rest = coordinates;
  if (dims)
    for (const fb::DimShard *dim : *dims)
      if (dim->axes())
        for (int32_t axis : *dim->axes())
          rest[static_cast<size_t>(axis)] = 0;
  return std::all_of(rest.begin(), rest.end(),
                     [](int64_t coordinate) { return coordinate == 0; });
}

const std::vector<Run> &lastRuns(const TensorLayout &layout) {
  static const std::vector<Run> one = {{0, 0, 1}};
  return layout.runs.empty() ? one : layout.runs.back();
}

std::string shapeString(const std::vector<int64_t> &shape) {
  return "[" + joined(shape) + "]";
}

} // namespace heddle::rt
