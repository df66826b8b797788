//===- inprocess.cpp - Collectives through shared memory ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All ranks are continuations in one process. A collective is complete when
// its last member arrives; that one does the work, split over the workers if
// it is long, and wakes the others. Until then every member's buffers stand
// still, so the work reads and writes them directly.
//
// Sends and receives meet the same way (no copy is kept on the side): a send
// completes when the receiver has the data.
//
//===----------------------------------------------------------------------===//

#include "base/text.h"
#include "comm/reduction.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

namespace heddle::rt {

Communicator::~Communicator() = default;

namespace {

using Done = std::function<void(Status)>;

/// Bytes of one piece of a long operation, and the total from which it pays to
/// call other workers.
constexpr int64_t kPieceBytes = 128 << 10;
constexpr int64_t kSplitBytes = 512 << 10;

struct Member {
  CollectiveCall call;
  Done done;
  bool arrived = false;
};

/// One collective of one group. Recycled, so that a steady state allocates
/// nothing.
struct Operation {
  std::vector<Member> members;
  int32_t arrived = 0;
  int32_t first = -1; // the member that arrived first
  // The work, in pieces.
  std::vector<const void *> sources;
  std::vector<void *> destinations;
  int64_t pieces = 0;
  int64_t pieceElements = 0;
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> left{0};
  std::atomic<int32_t> users{0};
};

struct Group {
  std::vector<int32_t> ranks;
  std::mutex mutex;
  std::vector<uint64_t> started;    // collectives begun, by member
  uint64_t base = 0;                // number of pending.front()
  std::vector<Operation *> pending; // rarely more than two
  std::vector<Operation *> unused;
  std::vector<std::unique_ptr<Operation>> all;
};

struct Message {
  CollectiveCall call;
  Done done;
  int32_t rank;
};

/// Sends to and receives of one rank that wait for their counterpart.
struct Mailbox {
  std::mutex mutex;
  std::vector<Message> sends, recvs;
};

class InProcess final : public Communicator {
public:
  explicit InProcess(int64_t worldSize)
      : caches_(static_cast<size_t>(worldSize)),
        mailboxes_(static_cast<size_t>(worldSize)) {
    for (int64_t rank = 0; rank < worldSize; ++rank)
      ranks_.push_back(static_cast<int32_t>(rank));
  }

  int64_t worldSize() const override {
    return static_cast<int64_t>(ranks_.size());
  }
  const std::vector<int32_t> &localRanks() const override { return ranks_; }
  void attach(TaskRunner &runner) override { runner_ = &runner; }
  const char *name() const override { return "inprocess"; }

  void start(int32_t rank, const CollectiveCall &call, Done done) override {
    if (aborted_.load(std::memory_order_acquire))
      return done(reason());
    Status valid = checkCall(worldSize(), rank, call);
    if (!valid.ok())
      return done(std::move(valid));
    if (call.op == CollectiveOp::send || call.op == CollectiveOp::recv)
      return exchange(rank, call, std::move(done));

    Group &group = groupOf(rank, *call.group);
    Operation *operation;
    std::string problem;
    bool complete = false;
    {
      std::lock_guard<std::mutex> lock(group.mutex);
      // `abort` sets the flag first and visits the groups then: either it finds
      // this call, or this call finds the flag.
      if (!aborted_.load(std::memory_order_acquire)) {
        operation = operationAt(group, group.started[self(call)]++);
        Member &member = operation->members[self(call)];
        if (operation->first >= 0) {
          const Member &other =
              operation->members[static_cast<size_t>(operation->first)];
          problem = mismatch(other.call,
                             group.ranks[static_cast<size_t>(operation->first)],
                             call, rank);
        } else {
          operation->first = call.self;
        }
        if (problem.empty()) {
          member.call = call;
          member.done = std::move(done);
          member.arrived = true;
          complete =
              ++operation->arrived == static_cast<int32_t>(group.ranks.size());
          // Members start their collectives in one order, so the oldest one is
          // complete first.
          if (complete) {
            group.pending.erase(group.pending.begin());
            ++group.base;
          }
        }
      } else {
        operation = nullptr;
      }
    }
    if (!operation)
      return done(reason());
    if (!problem.empty()) {
      Status status(Code::invalid_argument, std::move(problem));
      abort(status);
      return done(std::move(status));
    }
    if (complete)
      execute(group, *operation, call.self);
  }

  void abort(const Status &reason) override {
    {
      std::lock_guard<std::mutex> lock(reasonMutex_);
      if (aborted_.load(std::memory_order_relaxed))
        return;
      reason_ = reason;
      aborted_.store(true, std::memory_order_release);
    }
    std::vector<Done> waiting;
    auto take = [&](Done &done) {
      if (done)
        waiting.push_back(std::exchange(done, nullptr));
    };
    {
      std::lock_guard<std::mutex> lock(groupsMutex_);
      for (auto &entry : groups_) {
        std::lock_guard<std::mutex> groupLock(entry.second->mutex);
        for (Operation *operation : entry.second->pending)
          for (Member &member : operation->members)
            take(member.done);
        entry.second->pending.clear();
      }
    }
    for (Mailbox &mailbox : mailboxes_) {
      std::lock_guard<std::mutex> lock(mailbox.mutex);
      for (Message &message : mailbox.sends)
        take(message.done);
      for (Message &message : mailbox.recvs)
        take(message.done);
      mailbox.sends.clear();
      mailbox.recvs.clear();
    }
    for (Done &done : waiting)
      done(reason);
  }

private:
  static size_t self(const CollectiveCall &call) {
    return static_cast<size_t>(call.self);
  }

  Status reason() {
    std::lock_guard<std::mutex> lock(reasonMutex_);
    return reason_;
  }

  //===--------------------------------------------------------------------===//
  // Groups
  //===--------------------------------------------------------------------===//

  /// A rank uses few groups and passes the same vector each time: a look-up by
  /// address that compares the contents, since addresses can be reused.
  struct alignas(64) Cache {
    std::mutex mutex;
    std::vector<std::pair<const std::vector<int32_t> *, Group *>> entries;
  };

  Group &groupOf(int32_t rank, const std::vector<int32_t> &ranks) {
    Cache &cache = caches_[static_cast<size_t>(rank)];
    std::lock_guard<std::mutex> lock(cache.mutex);
    for (auto &entry : cache.entries)
      if (entry.first == &ranks) {
        if (entry.second->ranks == ranks)
          return *entry.second;
        entry.second = &findGroup(ranks);
        return *entry.second;
      }
    cache.entries.emplace_back(&ranks, &findGroup(ranks));
    return *cache.entries.back().second;
  }

  Group &findGroup(const std::vector<int32_t> &ranks) {
    std::lock_guard<std::mutex> lock(groupsMutex_);
    std::unique_ptr<Group> &group = groups_[ranks];
    if (!group) {
      group = std::make_unique<Group>();
      group->ranks = ranks;
      group->started.resize(ranks.size());
    }
    return *group;
  }

  /// The operation with number `number` of the group; the lock is held.
  static Operation *operationAt(Group &group, uint64_t number) {
    while (group.base + group.pending.size() <= number) {
      if (group.unused.empty()) {
        group.all.push_back(std::make_unique<Operation>());
        group.all.back()->members.resize(group.ranks.size());
        group.unused.push_back(group.all.back().get());
      }
      group.pending.push_back(group.unused.back());
      group.unused.pop_back();
    }
    return group.pending[number - group.base];
  }

  //===--------------------------------------------------------------------===//
  // The work
  //===--------------------------------------------------------------------===//

  void execute(Group &group, Operation &operation, int32_t last) {
    const CollectiveCall &call = operation.members[0].call;
    int64_t size = static_cast<int64_t>(group.ranks.size());
    operation.sources.clear();
    operation.destinations.clear();
    for (const Member &member : operation.members) {
      operation.sources.push_back(member.call.source);
      operation.destinations.push_back(member.call.destination);
    }
    // Rows of `elements` that are worked on one by one.
    int64_t rows = call.op == CollectiveOp::allToAll ? size * size
                   : call.op == CollectiveOp::allReduce ||
                           call.op == CollectiveOp::broadcast
                       ? 1
                       : size;
    int64_t bytes = std::max<int64_t>(blockBytes(call.dtype), 1);
    operation.pieceElements =
        std::max<int64_t>(kPieceBytes / bytes, kReductionBlock);
    int64_t piecesPerRow =
        (call.elements + operation.pieceElements - 1) / operation.pieceElements;
    operation.pieces = rows * piecesPerRow;
    int64_t total = call.elements * bytes * size;
    int64_t helpers = 0;
    if (runner_ && total >= kSplitBytes)
      helpers = std::min<int64_t>(runner_->workers() - 1, operation.pieces - 1);
    if (helpers <= 0) {
      for (int64_t piece = 0; piece < operation.pieces; ++piece)
        work(operation, piece);
      finish(group, operation, last);
      recycle(group, operation);
      return;
    }
    operation.next.store(0, std::memory_order_relaxed);
    operation.left.store(operation.pieces, std::memory_order_relaxed);
    operation.users.store(static_cast<int32_t>(helpers) + 1,
                          std::memory_order_release);
    Group *where = &group;
    Operation *what = &operation;
    for (int64_t i = 0; i < helpers; ++i)
      runner_->post([this, where, what] { help(*where, *what, -1); });
    help(group, operation, last);
  }

  void help(Group &group, Operation &operation, int32_t self) {
    int64_t pieces = operation.pieces;
    for (int64_t piece; (piece = operation.next.fetch_add(
                             1, std::memory_order_relaxed)) < pieces;) {
      work(operation, piece);
      if (operation.left.fetch_sub(1, std::memory_order_acq_rel) == 1)
        finish(group, operation, self);
    }
    // Helpers that come late still look at the counters.
    if (operation.users.fetch_sub(1, std::memory_order_acq_rel) == 1)
      recycle(group, operation);
  }

  /// Wakes the members, `last` (who is on this thread) at the end.
  void finish(Group &, Operation &operation, int32_t last) {
    Done own;
    for (size_t i = 0; i < operation.members.size(); ++i) {
      Member &member = operation.members[i];
      Done done = std::exchange(member.done, nullptr);
      if (static_cast<int32_t>(i) == last)
        own = std::move(done);
      else
        done(Status());
    }
    if (own)
      own(Status());
  }

  static void recycle(Group &group, Operation &operation) {
    std::lock_guard<std::mutex> lock(group.mutex);
    for (Member &member : operation.members)
      member.arrived = false;
    operation.arrived = 0;
    operation.first = -1;
    group.unused.push_back(&operation);
  }

  static void copy(const void *source, void *destination, int64_t bytes) {
    if (source != destination && bytes > 0)
      std::memmove(destination, source, static_cast<size_t>(bytes));
  }

  static void work(Operation &operation, int64_t piece) {
    const CollectiveCall &call = operation.members[0].call;
    int64_t size = static_cast<int64_t>(operation.members.size());
    int64_t element = blockBytes(call.dtype);
    int64_t piecesPerRow =
        (call.elements + operation.pieceElements - 1) / operation.pieceElements;
    int64_t row = piece / piecesPerRow;
    int64_t first = piece % piecesPerRow * operation.pieceElements;
    int64_t count = std::min(operation.pieceElements, call.elements - first);
    auto source = [&](int64_t rank, int64_t chunk) {
      return static_cast<const uint8_t *>(
                 operation.sources[static_cast<size_t>(rank)]) +
             (chunk * call.elements + first) * element;
    };
    auto destination = [&](int64_t rank, int64_t chunk) {
      return static_cast<uint8_t *>(
                 operation.destinations[static_cast<size_t>(rank)]) +
             (chunk * call.elements + first) * element;
    };

    switch (call.op) {
    case CollectiveOp::allReduce:
    case CollectiveOp::reduceScatter: {
      bool scatter = call.op == CollectiveOp::reduceScatter;
      alignas(64) uint8_t block[kReductionBlock * 8];
      int64_t base = scatter ? row * call.elements : 0;
      for (int64_t i = first; i < first + count; i += kReductionBlock) {
        int64_t n = std::min(kReductionBlock, first + count - i);
        // Reading comes before writing, so destinations may be the sources.
        reduceBlock(call.dtype, call.reduction, operation.sources.data(), size,
                    base + i, n, block);
        for (int64_t r = scatter ? row : 0; r < (scatter ? row + 1 : size); ++r)
          std::memcpy(static_cast<uint8_t *>(
                          operation.destinations[static_cast<size_t>(r)]) +
                          i * element,
                      block, static_cast<size_t>(n * element));
      }
      return;
    }
    case CollectiveOp::allGather:
      for (int64_t r = 0; r < size; ++r)
        copy(source(row, 0), destination(r, row), count * element);
      return;
    case CollectiveOp::allToAll:
      return copy(source(row / size, row % size),
                  destination(row % size, row / size), count * element);
    case CollectiveOp::permute: {
      int64_t target = ((row + call.shift) % size + size) % size;
      return copy(source(row, 0), destination(target, 0), count * element);
    }
    case CollectiveOp::broadcast:
      for (int64_t r = 0; r < size; ++r)
        copy(source(call.root, 0), destination(r, 0), count * element);
      return;
    default:
      return;
    }
  }

  //===--------------------------------------------------------------------===//
  // Messages
  //===--------------------------------------------------------------------===//

  void exchange(int32_t rank, const CollectiveCall &call, Done done) {
    bool sends = call.op == CollectiveOp::send;
    Mailbox &mailbox =
        mailboxes_[static_cast<size_t>(sends ? call.peer : rank)];
    Message other;
    bool found = false, stopped = false;
    {
      std::lock_guard<std::mutex> lock(mailbox.mutex);
      stopped = aborted_.load(std::memory_order_acquire);
      std::vector<Message> &theirs = sends ? mailbox.recvs : mailbox.sends;
      for (size_t i = 0; i < theirs.size() && !stopped; ++i)
        if (theirs[i].rank == call.peer && theirs[i].call.peer == rank &&
            theirs[i].call.tag == call.tag) {
          other = std::move(theirs[i]);
          theirs.erase(theirs.begin() + static_cast<ptrdiff_t>(i));
          found = true;
          break;
        }
      if (!found && !stopped)
        (sends ? mailbox.sends : mailbox.recvs)
            .push_back(Message{call, std::move(done), rank});
    }
    if (stopped)
      return done(reason());
    if (!found)
      return;
    if (other.call.elements != call.elements ||
        other.call.dtype != call.dtype) {
      Status status(Code::invalid_argument,
                    concat("mismatched messages: rank ", other.rank, " calls ",
                           describe(other.call), ", rank ", rank, " calls ",
                           describe(call)));
      abort(status);
      other.done(status);
      return done(std::move(status));
    }
    copy(sends ? call.source : other.call.source,
         sends ? other.call.destination : call.destination,
         call.elements * blockBytes(call.dtype));
    other.done(Status());
    done(Status());
  }

  std::vector<int32_t> ranks_;
  TaskRunner *runner_ = nullptr;
  std::vector<Cache> caches_;
  std::mutex groupsMutex_;
  std::map<std::vector<int32_t>, std::unique_ptr<Group>> groups_;
  std::vector<Mailbox> mailboxes_;
  std::atomic<bool> aborted_{false};
  std::mutex reasonMutex_;
  Status reason_;
};

} // namespace

std::unique_ptr<Communicator> createInProcessCommunicator(int64_t worldSize) {
  return std::make_unique<InProcess>(worldSize);
}

} // namespace heddle::rt
