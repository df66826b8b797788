//===- streams.cpp - Collectives beside the rank --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rank runs stream 0 itself. A collective on another stream is started and
// left to the communicator; `wait` suspends the rank until it is complete. One
// at a time is in flight on a stream (decoding puts an `awaitStream` before
// each), so that counters say what an event stands for.
//
//===----------------------------------------------------------------------===//

#include "base/checked_math.h"
#include "executor/rank.h"

namespace heddle::rt {

void Executor::startOn(Rank &rank, int32_t stream, int32_t pc,
                       CollectiveCall call) {
  {
    std::lock_guard<std::mutex> lock(rank.streamsMutex);
    Rank::Stream &at = rank.streams[static_cast<size_t>(stream)];
    ++at.started;
    ++rank.inFlight;
    at.current = pc;
    at.begin = options_.trace ? traceClock() : 0;
  }
  call.urgent = false;
  // Two words: std::function holds them without allocating.
  Rank *self = &rank;
  comm_.start(rank.number, call, [self, stream](Status status) {
    self->executor->complete(*self, stream, std::move(status));
  });
}

/// On any thread.
void Executor::complete(Rank &rank, int32_t stream, Status status) {
  Rank::Stream &at = rank.streams[static_cast<size_t>(stream)];
  // Before the rank can end, so that its run fails.
  if (!status.ok())
    stop(Status(status.code(),
                position(rank, at.current) + ": " + status.message()));
  bool resumes = false, ends = false;
  {
    std::lock_guard<std::mutex> lock(rank.streamsMutex);
    if (options_.trace)
      at.trace.add(&rank.program->origins[static_cast<size_t>(at.current)],
                   at.begin, traceClock());
    ++at.completed;
    --rank.inFlight;
    ends = rank.leaving && rank.inFlight == 0;
    if (rank.awaited.stream == stream && at.completed >= rank.awaited.count) {
      rank.awaited = {};
      rank.waitStatus = std::move(status);
      resumes = true;
    }
  }
  if (resumes)
    pool_->post(WorkItem{resumeAfterWait, &rank});
  if (ends)
    finish(rank);
}

static size_t slot(const Instruction &code, const std::vector<int64_t> &s) {
  int64_t index = code.index;
  if (code.imm > 0)
    index += floorMod(s[static_cast<size_t>(code.a)], code.imm);
  return static_cast<size_t>(index);
}

void Executor::record(Rank &rank, const Instruction &code) {
  // What a rank does itself is complete when the next instruction runs.
  int64_t count = code.stream == 0 ? 0 : rank.streams[code.stream].started;
  rank.events[slot(code, rank.scalars)] = {code.stream, count};
}

/// True if the rank can go on; otherwise `complete` resumes it.
bool Executor::await(Rank &rank, const Instruction &code) {
  if (code.op == Op::awaitStream)
    return await(rank, code.stream, rank.streams[code.stream].started);
  const Rank::Event &event = rank.events[slot(code, rank.scalars)];
  return event.stream == 0 || await(rank, event.stream, event.count);
}

bool Executor::await(Rank &rank, int32_t stream, int64_t count) {
  std::lock_guard<std::mutex> lock(rank.streamsMutex);
  const Rank::Stream &at = rank.streams[static_cast<size_t>(stream)];
  if (at.completed >= count)
    return true;
  rank.waitsFor = at.current;
  rank.waiting.store(true, std::memory_order_release);
  rank.awaited = {stream, count};
  return false;
}

} // namespace heddle::rt
