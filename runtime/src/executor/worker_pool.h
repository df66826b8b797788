//===- worker_pool.h - Threads that run ready work --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_EXECUTOR_WORKER_POOL_H
#define HEDDLE_RT_EXECUTOR_WORKER_POOL_H

#include "heddle_rt/communicator.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace heddle::rt {

/// One thing to do. Plain data, so that posting allocates nothing.
struct WorkItem {
  void (*run)(void *context, uint64_t argument) = nullptr;
  void *context = nullptr;
  uint64_t argument = 0;
  /// How many workers may take it; it leaves the queue with the last one…
  int32_t invitations = 1;
  /// …or as soon as this (if set) says that there is nothing left to do.
  bool (*useful)(void *context, uint64_t argument) = nullptr;
};

/// W threads and one queue. A worker with nothing to do looks for work for some
/// microseconds and then blocks. Each worker has OpenMP set to one thread,
/// so that oneDNN's primitives run on it alone.
class WorkerPool final : public TaskRunner {
public:
  /// `seed` 0: first come, first served; otherwise a random order. `alone`: no
  /// other process of this job wants the processors.
  /// `help` is what workers do with an offer.
  WorkerPool(int workers, uint64_t seed, bool alone,
             void (*help)(void *context) = nullptr);
  ~WorkerPool() override;

  void post(std::function<void()> task) override;
  int workers() const override { return static_cast<int>(threads_.size()); }

  void post(const WorkItem &item);

  /// Posts all of `items` and, until `unwatch`, calls `quiet` when no work is
  /// left, neither queued nor running, although `unfinished` is not 0: whatever
  /// is unfinished waits for something that no one will do.
  void postWatched(const std::vector<WorkItem> &items,
                   const std::atomic<int64_t> &unfinished,
                   std::function<void()> quiet);
  void unwatch();

  /// The calling worker's number, from 0 on; 0 on other threads.
  static int number();

  /// Workers that look for work at the moment.
  int lookers() const { return lookers_.load(); }
  /// Has workers that look for work call help(context) at once; the one who
  /// offers sees to it that this does no harm later on. A worker that did not
  /// see the offer is none of the lookers() afterwards.
  void offer(void *context) {
    offered_.store(context, std::memory_order_relaxed);
    offers_.fetch_add(1);
  }
  /// Waits, without other work, for something that a worker is about to do.
  template <typename Condition> static void waitUntil(Condition condition) {
    for (int i = 0; i < kWaits; ++i) {
      if (condition())
        return;
      relax();
    }
    while (!condition())
      std::this_thread::yield();
  }

  bool hasQueued() const { return queued_.load(std::memory_order_relaxed) > 0; }

  /// Calls task(0) … task(count - 1) on the workers and waits for them.
  void parallelFor(int64_t count, const std::function<void(int64_t)> &task);

private:
  static constexpr int kWaits = 1000;
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  void loop(int number);
  void push(const WorkItem &item);
  bool pop(WorkItem &item);
  void removeHead();
  void idle();
  void lookForWork(uint64_t &seen);
  /// Helps if there is an offer after the one seen last. True if there was.
  bool takeOffer(uint64_t &seen);

  std::mutex mutex_;
  std::condition_variable wake_;
  // A ring of capacity 2^k.
  std::vector<WorkItem> ring_;
  size_t head_ = 0;
  size_t count_ = 0;
  std::atomic<size_t> queued_{0}; // count_, for those who spin
  std::atomic<bool> stopping_{false};
  int active_ = 0;
  int sleepers_ = 0;
  uint64_t random_;
  std::chrono::microseconds patience_;
  const std::atomic<int64_t> *unfinished_ = nullptr;
  std::function<void()> quiet_;
  void (*help_)(void *context);
  std::vector<std::thread> threads_;

  alignas(64) std::atomic<int> lookers_{0};
  // The latest offer, and how many there were.
  alignas(64) std::atomic<void *> offered_{nullptr};
  std::atomic<uint64_t> offers_{0};
};

/// Processors that this process may use.
int availableProcessors();

} // namespace heddle::rt

#endif // HEDDLE_RT_EXECUTOR_WORKER_POOL_H
