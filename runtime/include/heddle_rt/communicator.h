//===- communicator.h - Collectives between ranks ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A Communicator connects the ranks of a world. Operations are started, never
// waited for by blocking a worker: `start` returns at once and `done` is called
// (on any thread) when this rank's part is complete. Reductions accumulate in
// fp32 in ascending coordinate, so results are the same bits for every
// communicator, every number of workers and every run.
//
// Equivalent to: a set of ncclComm_t, one per group of mesh axes.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_COMMUNICATOR_H
#define HEDDLE_RT_COMMUNICATOR_H

#include "heddle_rt/status.h"
#include "heddle_rt/weights.h"

#include <functional>
#include <memory>
#include <vector>

namespace heddle::rt {

enum class CollectiveOp : uint8_t {
  allReduce,
  reduceScatter,
  allGather,
  allToAll,
  permute,
  broadcast,
  send,
  recv,
};
enum class ReduceOp : uint8_t { sum, max, min };

/// One rank's call of a collective.
struct CollectiveCall {
  CollectiveOp op = CollectiveOp::allReduce;
  ReduceOp reduction = ReduceOp::sum;
  DType dtype = DType::f32;
  /// World ranks of the group, ascending coordinate; the caller is one of them.
  const std::vector<int32_t> *group = nullptr;
  /// Index of the caller in `group`.
  int32_t self = 0;
  /// The collective's id in the plan: members of a group must agree on it, and
  /// a mismatch is an error, not a hang.
  int32_t id = 0;
  const void *source = nullptr;
  void *destination = nullptr;
  /// Elements as defined for `fb::Collective::elements`.
  int64_t elements = 0;
  /// permute: destination coordinate = (self + shift) mod size.
  int32_t shift = 0;
  int32_t root = 0;
  /// send/recv: the peer's world rank and the message's tag.
  int32_t peer = -1;
  int64_t tag = 0;
  /// False where the caller has other work until `done`.
  bool urgent = true;
};

/// Runs small pieces of work on the executor's workers; communicators use it to
/// split long reductions.
class TaskRunner {
public:
  virtual ~TaskRunner();
  virtual void post(std::function<void()> task) = 0;
  virtual int workers() const = 0;
};

class Communicator {
public:
  virtual ~Communicator();

  virtual int64_t worldSize() const = 0;
  /// World ranks that live in this process.
  virtual const std::vector<int32_t> &localRanks() const = 0;
  /// Called once by the session before the first `start`.
  virtual void attach(TaskRunner &runner) = 0;
  virtual void start(int32_t rank, const CollectiveCall &call,
                     std::function<void(Status)> done) = 0;
  /// Makes every pending and later operation of every rank finish with
  /// `reason`, and what it waited for, within seconds.
  virtual void abort(const Status &reason) = 0;
  /// What the report and messages call it: "inprocess", "mpi".
  virtual const char *name() const = 0;
};

/// All ranks of the world in this process, through shared memory.
std::unique_ptr<Communicator> createInProcessCommunicator(int64_t worldSize);

/// One rank per process, the processes of MPI_COMM_WORLD; in the library
/// heddle_rt_comm_mpi. All processes call it together. One at a time lives in a
/// process; the first one initialises MPI unless the host has done so (with
/// MPI_THREAD_SERIALIZED), and no other thread may call MPI while it lives.
/// Results are the same bits as in process.
Result<std::unique_ptr<Communicator>> createMpiCommunicator();

} // namespace heddle::rt

#endif // HEDDLE_RT_COMMUNICATOR_H
