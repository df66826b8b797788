//===- rank.h - The state of one rank ---------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_EXECUTOR_RANK_H
#define HEDDLE_RT_EXECUTOR_RANK_H

#include "bundle/validate_plan.h"
#include "executor/executor.h"

#include <array>

namespace heddle::rt {

struct Executor::ClassPrograms {
  std::map<std::string, Program> programs;
};

struct Executor::Rank {
  struct Loop {
    int64_t value;
    int64_t end;
    int64_t trips;
  };
  struct Group {
    const std::vector<int32_t> *ranks;
    int32_t self;
  };

  // Fixed.
  Executor *executor = nullptr;
  int32_t number = 0;
  ClassPrograms *programs = nullptr;
  std::vector<uint8_t *> spaces;
  std::vector<int64_t> coordinates;
  std::vector<Group> groups;

  // The continuation: owned by the worker that advances the rank, handed over
  // through the queue, the tiles' counter or `signal`.
  const Program *program = nullptr;
  int32_t pc = 0;      // where to go on
  int32_t current = 0; // what it waits for, or does
  std::vector<int64_t> scalars;
  std::vector<Loop> loops;
  uint32_t backEdges = 0;
  int64_t executed = 0;
  uint64_t random = 0;
  RankTrace trace;
  int64_t eventBegin = 0; // of an open trace event

  // The launch or gemm in flight: what helpers read stands in one cache line,
  // and what that points to in few. `tickets` is epoch:32, tiles that are
  // left:16, the first of them:16; odd epochs are offered, even ones queued.
  // Invitations to help name the epoch: one that comes late finds another epoch
  // or no tile left and never looks at the fields below.
  alignas(64) std::atomic<uint64_t> tickets{0};
  std::atomic<int32_t> remaining{0};
  int32_t tileOffset = 0;
  int64_t tiles = 0;
  KernelFn kernel = nullptr;
  const PanelGemm *gemm = nullptr;
  void **operands = nullptr;
  int64_t *arguments = nullptr;

  struct alignas(64) CacheLine {
    uint64_t words[8];
  };
  alignas(64) std::vector<CacheLine> frame; // operands, then arguments
  uint32_t epoch = 0;
  std::atomic<bool> tileFailed{false};
  Status tileStatus;

  // The collective on stream 0: the second of {rank suspended, done called} to
  // arrive goes on.
  alignas(64) std::atomic<int> signal{0};
  Status waitStatus;
  std::atomic<bool> waiting{false}; // for the deadlock report
  int32_t waitsFor = 0;             // and what for

  // What runs on the other streams while the rank goes on (streams.cpp).
  /// One collective at a time is in flight on a stream.
  struct Stream {
    int64_t started = 0;
    int64_t completed = 0;
    int32_t current = 0; // what was started last
    int64_t begin = 0;   // of its trace event
    RankTrace trace;
  };
  /// Recorded: the first `count` collectives of a stream.
  struct Event {
    int32_t stream = 0;
    int64_t count = 0;
  };
  std::vector<Event> events;
  std::mutex streamsMutex; // for all that follows
  std::array<Stream, PlanLimits::streams> streams;
  int32_t inFlight = 0;
  Event awaited; // stream 0: none
  bool leaving = false;
};

} // namespace heddle::rt

#endif // HEDDLE_RT_EXECUTOR_RANK_H
