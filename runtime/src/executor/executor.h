//===- executor.h - Runs programs on ranks ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A rank is a continuation: an interpreter state that some worker advances
// until it has to wait. Scalars and control run inline. A launch or gemm of
// several tiles is opened to all workers, and whoever finishes the last tile
// goes on with the rank; a collective is handed to the communicator, whose
// `done` puts the rank back in the queue. Nobody blocks for a rank. With a
// collective on another stream than 0 the rank goes on at once, until it waits
// for an event that was recorded behind it.
//
// The plan fixes the tiles, the communicator the order of sums: results do not
// depend on the number of workers.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_EXECUTOR_EXECUTOR_H
#define HEDDLE_RT_EXECUTOR_EXECUTOR_H

#include "executor/program.h"
#include "executor/trace.h"
#include "executor/worker_pool.h"
#include "heddle_rt/session.h"

#include <atomic>
#include <map>
#include <mutex>

namespace heddle::rt {

struct ExecutorOptions {
  int workers = 0;
  uint64_t scheduleSeed = 0;
  bool trace = false;
  std::optional<InjectedFault> fault;
};

/// The memory of one rank: the address of each space.
struct RankMemory {
  int32_t rank = 0;
  std::vector<uint8_t *> spaces;
};

class Executor {
public:
  ~Executor();

  /// Decodes every program of every class that has a local rank. `ranks` lists
  /// the local ranks, ascending; their memory, `bundle` and `comm` outlive the
  /// executor.
  static Result<std::unique_ptr<Executor>>
  create(const Bundle &bundle, Communicator &comm,
         const std::vector<RankMemory> &ranks, const ExecutorOptions &options);

  WorkerPool &pool() { return *pool_; }

  Status setParam(const std::string &program, const std::string &name,
                  int64_t value);

  /// Runs `program` on all local ranks. After a failure every later run fails
  /// too: the ranks' memory is in no known state.
  Status run(const std::string &program);

  Status writeTrace(const std::string &path) const;

private:
  struct Rank;
  struct ClassPrograms;

  Executor(Communicator &comm, const ExecutorOptions &options);

  Status build(const Bundle &bundle, const std::vector<RankMemory> &ranks);
  void locate(const fb::Plan &plan, Rank &rank);

  // Interpretation (interpreter.cpp).
  static void resume(void *rank, uint64_t argument);
  static void resumeAfterWait(void *rank, uint64_t argument);
  static bool hasTiles(void *rank, uint64_t epoch);
  static void helpOffered(void *context);
  static void helpTiles(void *rank, uint64_t epoch);
  void advance(Rank &rank);
  template <bool kInstrumented> void interpret(Rank &rank);
  bool runTiles(Rank &rank, uint32_t epoch);
  void runTile(Rank &rank, int64_t tile, int64_t tiles);
  bool openTiles(Rank &rank, int64_t tiles);
  CollectiveCall collectiveCall(Rank &rank, const CollectiveCode &code) const;
  CollectiveCall messageCall(Rank &rank, const MessageCode &code) const;
  bool startCall(Rank &rank, const CollectiveCall &call);
  bool before(Rank &rank, int32_t pc);
  void closeEvent(Rank &rank);

  // Collectives in flight (streams.cpp).
  void startOn(Rank &rank, int32_t stream, int32_t pc, CollectiveCall call);
  void complete(Rank &rank, int32_t stream, Status status);
  static void record(Rank &rank, const Instruction &code);
  static bool await(Rank &rank, const Instruction &code);
  static bool await(Rank &rank, int32_t stream, int64_t count);

  // Ends.
  void fail(Rank &rank, int32_t pc, Code code, const std::string &reason);
  void finish(Rank &rank);
  void stop(Status reason);
  void reportDeadlock();
  std::string position(const Rank &rank, int32_t pc) const;
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  Communicator &comm_;
  ExecutorOptions options_;
  std::unique_ptr<DecodeContext> context_;
  std::vector<std::unique_ptr<ClassPrograms>> classes_;
  std::map<std::vector<int32_t>, std::unique_ptr<std::vector<int32_t>>>
      groups_; // every group of local ranks, once
  std::vector<std::unique_ptr<Rank>> ranks_;
  bool instrumented_ = false;
  bool allLocal_ = false;

  std::atomic<int64_t> unfinished_{0};
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::condition_variable done_;
  Status failure_;

  // Last, so that its threads end first.
  std::unique_ptr<WorkerPool> pool_;
};

} // namespace heddle::rt

#endif // HEDDLE_RT_EXECUTOR_EXECUTOR_H
