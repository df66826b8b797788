//===- worker_pool.cpp - Threads that run ready work ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "executor/worker_pool.h"

#include "base/openmp.h"

#include <algorithm>
#include <chrono>

#include <sched.h>

namespace heddle::rt {

TaskRunner::~TaskRunner() = default;

namespace {

/// How long a worker without work looks for some before it blocks. Waking a
/// blocked thread costs several microseconds, so shorter would not pay…
constexpr std::chrono::microseconds kSpin{5};
/// …and tens of them on a virtual machine. A processor that nobody else wants
/// is better spent looking through the instructions that one worker does alone.
constexpr std::chrono::microseconds kSpinAlone{50};

thread_local int workerNumber = 0;

void runFunction(void *context, uint64_t) {
  std::unique_ptr<std::function<void()>> task(
      static_cast<std::function<void()> *>(context));
  (*task)();
}

} // namespace

int availableProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
    return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

WorkerPool::WorkerPool(int workers, uint64_t seed, bool alone,
                       void (*help)(void *context))
    : ring_(64), random_(seed ? seed * 0x9e3779b97f4a7c15u | 1u : 0),
      help_(help) {
  int count = workers > 0 ? std::min(workers, 1024) : availableProcessors();
  patience_ = alone && count <= availableProcessors() ? kSpinAlone : kSpin;
  active_ = count;
  threads_.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i)
    threads_.emplace_back([this, i] { loop(i); });
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_.store(true);
  }
  wake_.notify_all();
  for (std::thread &thread : threads_)
    thread.join();
  for (; count_ > 0; removeHead()) // frees what post(function) allocated
    if (ring_[head_].run == runFunction)
      delete static_cast<std::function<void()> *>(ring_[head_].context);
}

void WorkerPool::push(const WorkItem &item) {
  if (count_ == ring_.size()) {
    std::vector<WorkItem> larger(2 * ring_.size());
    for (size_t i = 0; i < count_; ++i)
      larger[i] = ring_[(head_ + i) & (ring_.size() - 1)];
    ring_ = std::move(larger);
    head_ = 0;
  }
  ring_[(head_ + count_) & (ring_.size() - 1)] = item;
  ++count_;
  queued_.store(count_, std::memory_order_relaxed);
}

void WorkerPool::removeHead() {
  head_ = (head_ + 1) & (ring_.size() - 1);
  --count_;
  queued_.store(count_, std::memory_order_relaxed);
}

bool WorkerPool::pop(WorkItem &item) {
  while (count_ > 0) {
    size_t mask = ring_.size() - 1;
    if (random_ != 0) {
      random_ ^= random_ << 13;
      random_ ^= random_ >> 7;
      random_ ^= random_ << 17;
      std::swap(ring_[head_], ring_[(head_ + random_ % count_) & mask]);
    }
    WorkItem &first = ring_[head_];
    item = first;
    if (item.useful && !item.useful(item.context, item.argument)) {
      removeHead();
      continue;
    }
    if (--first.invitations <= 0)
      removeHead();
    return true;
  }
  return false;
}

void WorkerPool::post(const WorkItem &item) {
  bool wake;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    push(item);
    wake = sleepers_ > 0;
  }
  // Whoever wakes up wakes the next one if there is more to do.
  if (wake)
    wake_.notify_one();
}

void WorkerPool::post(std::function<void()> task) {
  post(WorkItem{runFunction, new std::function<void()>(std::move(task))});
}

void WorkerPool::postWatched(const std::vector<WorkItem> &items,
                             const std::atomic<int64_t> &unfinished,
                             std::function<void()> quiet) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const WorkItem &item : items)
      push(item);
    unfinished_ = &unfinished;
    quiet_ = std::move(quiet);
  }
  wake_.notify_one();
}

void WorkerPool::unwatch() {
  std::lock_guard<std::mutex> lock(mutex_);
  unfinished_ = nullptr;
  quiet_ = nullptr;
}

void WorkerPool::parallelFor(int64_t count,
                             const std::function<void(int64_t)> &task) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable done;
    int running;
    std::atomic<int64_t> next{0};
  } shared;
  int helpers = static_cast<int>(std::min<int64_t>(workers(), count));
  shared.running = helpers;
  for (int i = 0; i < helpers; ++i)
    post(std::function<void()>([&] {
      for (int64_t index; (index = shared.next.fetch_add(1)) < count;)
        task(index);
      std::lock_guard<std::mutex> lock(shared.mutex);
      if (--shared.running == 0)
        shared.done.notify_all();
    }));
  std::unique_lock<std::mutex> lock(shared.mutex);
  shared.done.wait(lock, [&] { return shared.running == 0; });
}

bool WorkerPool::takeOffer(uint64_t &seen) {
  uint64_t offers = offers_.load();
  if (offers == seen)
    return false;
  seen = offers;
  help_(offered_.load(std::memory_order_relaxed));
  return true;
}

/// Until there is some, or for as long as it pays after the last offer.
void WorkerPool::lookForWork(uint64_t &seen) {
  using Clock = std::chrono::steady_clock;
  for (auto end = Clock::now() + patience_; Clock::now() < end;)
    for (int i = 0; i < 16; ++i) {
      if (hasQueued() || stopping_.load(std::memory_order_relaxed))
        return;
      if (takeOffer(seen))
        end = Clock::now() + patience_;
      relax();
    }
}

void WorkerPool::idle() {
  uint64_t seen = offers_.load();
  lookers_.fetch_add(1);
  lookForWork(seen);
  lookers_.fetch_sub(1);
  // Who offered before that counted on this worker.
  takeOffer(seen);
}

int WorkerPool::number() { return workerNumber; }

void WorkerPool::loop(int number) {
  workerNumber = number;
  omp_set_num_threads(1);
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    WorkItem item;
    if (pop(item)) {
      bool more = count_ > 0 && sleepers_ > 0;
      lock.unlock();
      if (more)
        wake_.notify_one();
      item.run(item.context, item.argument);
      lock.lock();
      continue;
    }
    if (stopping_.load(std::memory_order_relaxed))
      return;
    --active_;
    std::function<void()> quiet;
    if (active_ == 0 && unfinished_ && unfinished_->load() > 0)
      quiet = quiet_;
    lock.unlock();
    if (quiet)
      quiet();
    else
      idle();
    lock.lock();
    while (count_ == 0 && !stopping_.load(std::memory_order_relaxed)) {
      ++sleepers_;
      wake_.wait(lock);
      --sleepers_;
    }
    ++active_;
  }
}

} // namespace heddle::rt
