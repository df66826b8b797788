//===- trace.h - What each rank did when ------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_EXECUTOR_TRACE_H
#define HEDDLE_RT_EXECUTOR_TRACE_H

#include "heddle_rt/status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::rt {

struct Origin;

struct TraceEvent {
  const Origin *origin = nullptr;
  int64_t begin = 0; // nanoseconds of the steady clock
  int64_t end = 0;   // = begin for marks
};

/// The events of one stream of a rank; a long run keeps the first kMaxEvents.
struct RankTrace {
  static constexpr size_t kMaxEvents = 1 << 20;

  int32_t rank = 0;
  int32_t stream = 0;
  std::vector<TraceEvent> events;
  int64_t dropped = 0;

  void add(const Origin *origin, int64_t begin, int64_t end) {
    if (events.size() < kMaxEvents)
      events.push_back({origin, begin, end});
    else
      ++dropped;
  }
};

int64_t traceClock();

/// Writes Chrome's trace format (chrome://tracing, Perfetto): one row for each
/// rank and one for each of its streams that ran beside it.
Status writeTrace(const std::string &path,
                  const std::vector<const RankTrace *> &ranks);

} // namespace heddle::rt

#endif // HEDDLE_RT_EXECUTOR_TRACE_H
