//===- mpi.cpp - Collectives between processes ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One rank per process. All calls of MPI are nonblocking and made in *turns*,
// one thread at a time: a worker that starts a call takes turns itself for a
// while, for waking another thread takes longer than a short collective; then
// it leaves the call to a thread of the communicator and goes on.
//
// Everything a rank says to another one begins with a header on tag 0: what it
// calls, as number how many of that group, with how many bytes. Short payloads
// travel behind the header; a long one is a message of its own, with a tag that
// the header names, received straight to where it belongs once the header has
// met the call of this rank. Every member of a group sends every other one a
// header, with bytes or without: that is how members that call different things
// find out.
//
// Reductions: each member reduces its chunk, in ascending order, and sends it
// round (a short all_reduce sends everything to everyone and reduces it there,
// in the same order, so to the same bits).
//
//===----------------------------------------------------------------------===//

#include "base/text.h"
#include "comm/mpi/library.h"
#include "comm/mpi/operation.h"
#include "comm/reduction.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace heddle::rt {

using namespace mpi;

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kSlots = 32;
/// How long a worker takes turns for its own call: where every process has a
/// processor, and where not.
constexpr std::chrono::microseconds kPatience{200}, kPatienceShared{30};
/// MPI counts are int.
constexpr int64_t kPieceBytes = int64_t{1} << 30;
/// Bytes of a reduction from which workers do it, and of one of its pieces.
constexpr int64_t kSplitBytes = 256 << 10;

/// After an abort, how long transfers that have begun may still touch buffers.
constexpr std::chrono::milliseconds kDrain{500};
/// How long after a rank's farewell its last messages may arrive.
constexpr std::chrono::seconds kFarewell{2};
struct Group {
  uint64_t started = 0;
  std::map<uint64_t, OperationPtr> operations;
};

class Mpi final : public Communicator {
public:
  Mpi(MPI_Comm comm, int rank, int size, bool crowded)
      : comm_(comm), rank_(rank), size_(size), local_{rank},
        patience_(crowded ? kPatienceShared : kPatience),
        left_(static_cast<size_t>(size)) {
    for (size_t i = 0; i < kSlots; ++i)
      postSlot(i);
    thread_ = std::thread([this] { loop(); });
  }

  ~Mpi() override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
    library().inUse.store(false);
    // comm_ is not freed: a message that arrives late must not meet a new
    // communicator that got the same context.
  }

  int64_t worldSize() const override { return size_; }
  const std::vector<int32_t> &localRanks() const override { return local_; }
  void attach(TaskRunner &runner) override { runner_ = &runner; }
  const char *name() const override { return "mpi"; }

  void start(int32_t rank, const CollectiveCall &call, Done done) override {
    if (aborted_.load(std::memory_order_acquire))
      return done(reason());
    Status valid = checkCall(size_, rank, call);
    if (valid.ok() && rank != rank_)
      valid = Status(Code::invalid_argument,
                     concat("rank ", rank, ", ", describe(call),
                            ": expected rank ", rank_,
                            ", the one that lives "
                            "in this process"));
    if (!valid.ok())
      return done(std::move(valid));
    // Not from within a turn: a callback may start the next call.
    if (call.urgent && turnOfThisThread() != this) {
      std::unique_lock<std::mutex> turns(turns_, std::try_to_lock);
      if (turns.owns_lock()) {
        bool finished = startHere(call, std::move(done));
        turns.unlock();
        if (!finished)
          poke();
        return;
      }
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      queue_.push_back({call, std::move(done)});
    }
    wake_.notify_one();
  }

  void abort(const Status &reason) override { abortFor(reason, true); }

private:
  struct Call {
    CollectiveCall call;
    Done done;
  };
  struct Request {
    OperationPtr operation; // whose buffers it uses
    bool receives = false;
    std::unique_ptr<uint8_t[]> buffer; // of a header that is sent
  };
  struct Slot {
    alignas(Header) uint8_t bytes[kSlotBytes];
  };

  /// The communicator whose turn this thread takes.
  static const Mpi *&turnOfThisThread() {
    static thread_local const Mpi *communicator = nullptr;
    return communicator;
  }
  struct Turn {
    explicit Turn(const Mpi *mpi) { turnOfThisThread() = mpi; }
    ~Turn() { turnOfThisThread() = nullptr; }
  };

  /// Begins a call and takes turns until it has ended (true) or patience has.
  bool startHere(const CollectiveCall &call, Done done) {
    Turn turn(this);
    takeCalls(); // the earlier ones
    if (aborted_.load(std::memory_order_acquire)) {
      done(reason());
      return true;
    }
    OperationPtr operation = begin(call, std::move(done));
    Clock::time_point end = Clock::now() + patience_;
    while (operation->done && Clock::now() < end)
      takeTurn();
    return !operation->done;
  }

  /// The thread has something to do.
  void poke() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      poked_ = true;
    }
    wake_.notify_one();
  }

  Status reason() {
    std::lock_guard<std::mutex> lock(mutex_);
    return reason_;
  }

  void abortFor(const Status &reason, bool tell) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (aborted_.load(std::memory_order_relaxed))
        return;
      reason_ = reason;
      tell_ = tell;
      aborted_.store(true, std::memory_order_release);
      library().aborted.store(true);
    }
    wake_.notify_all();
  }

  /// True if `error` is none; otherwise the job ends.
  bool checked(int error, const char *what) {
    if (error == MPI_SUCCESS)
      return true;
    abort(Status(Code::internal,
                 concat("rank ", rank_, ": ", what, ": ", errorText(error))));
    return false;
  }

  //===--------------------------------------------------------------------===//
  // The thread
  //===--------------------------------------------------------------------===//

  void loop() {
    // The default slack of timers, 50 us, is longer than a short collective.
    prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    int quietTurns = 0;
    for (;;) {
      bool active = false, waits = true;
      if (std::unique_lock<std::mutex> turns(turns_, std::try_to_lock);
          turns.owns_lock()) {
        Turn turn(this);
        active = takeTurn();
        waits = !operations_.empty();
      }
      quietTurns = active ? 0 : quietTurns + 1;
      if (!rest(quietTurns, waits))
        break;
    }
    std::lock_guard<std::mutex> turns(turns_);
    Turn turn(this);
    takeLeave();
  }

  /// True if something has happened.
  bool takeTurn() {
    bool active = takeCalls();
    active |= takeReduced();
    active |= receiveHeaders();
    active |= completeRequests();
    if (aborted_.load(std::memory_order_acquire) && !ended_) {
      endAll();
      active = true;
    }
    if (leavers_ > 0 && !ended_)
      checkFarewells();
    return active;
  }

  /// Waits a little if nothing happens: never long enough to matter to the
  /// others, never spinning for longer than some microseconds. It sleeps rather
  /// than yields: on a busy machine a yield costs whole time slices, a sleeper
  /// is woken ahead of those who compute. False if the communicator is to end.
  bool rest(int quietTurns, bool waits) {
    constexpr int kSpins = 8;
    std::unique_lock<std::mutex> lock(mutex_);
    if (quietTurns < kSpins)
      return !stopping_;
    int64_t longest = waits ? 200 : 2000;
    int64_t pause = std::min<int64_t>(
        int64_t{10} << std::min(10, (quietTurns - kSpins) / 8), longest);
    wake_.wait_for(lock, std::chrono::microseconds(pause), [&] {
      return stopping_ || poked_ || !queue_.empty() || !reduced_.empty() ||
             (aborted_.load() && !ended_);
    });
    poked_ = false;
    return !stopping_;
  }

  bool takeCalls() {
    std::deque<Call> calls;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      calls.swap(queue_);
    }
    for (Call &call : calls) {
      if (aborted_.load(std::memory_order_acquire))
        call.done(reason());
      else
        begin(call.call, std::move(call.done));
    }
    return !calls.empty();
  }

  bool takeReduced() {
    std::vector<OperationPtr> reduced;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      reduced.swap(reduced_);
    }
    for (OperationPtr &operation : reduced) {
      operation->reducing = false;
      if (!ended_)
        afterReduction(operation);
    }
    return !reduced.empty();
  }

  void takeLeave() {
    if (!ended_) {
      // Nobody can wait for what is pending now.
      if (!operations_.empty())
        abort(Status(Code::aborted,
                     concat("rank ", rank_, " has ended its communicator")));
      if (aborted_.load())
        endAll();
    }
    takeCalls();
    Header header{};
    header.kind = Kind::leave;
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_)
        send(nullptr, peer, header, {});
    Clock::time_point end = Clock::now() + std::chrono::seconds(1);
    while (!requests_.empty() && Clock::now() < end)
      if (!completeRequests())
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    for (size_t i = 0; i < requests_.size(); ++i)
      (void)infos_[i].buffer.release(); // MPI may still read it
    for (MPI_Request &request : slotRequests_)
      if (request != MPI_REQUEST_NULL) {
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
  }

  //===--------------------------------------------------------------------===//
  // Messages
  //===--------------------------------------------------------------------===//

  void postSlot(size_t i) {
    checked(MPI_Irecv(slots_[i].bytes, static_cast<int>(kSlotBytes), MPI_BYTE,
                      MPI_ANY_SOURCE, 0, comm_, &slotRequests_[i]),
            "MPI_Irecv");
  }

  /// Slots fill in the order in which they were posted.
  bool receiveHeaders() {
    bool any = false;
    for (size_t turn = 0; turn < kSlots; ++turn) {
      int complete = 0, length = 0;
      MPI_Status status;
      if (slotRequests_[oldest_] == MPI_REQUEST_NULL ||
          !checked(MPI_Test(&slotRequests_[oldest_], &complete, &status),
                   "MPI_Test") ||
          !complete)
        break;
      any = true;
      MPI_Get_count(&status, MPI_BYTE, &length);
      const uint8_t *bytes = slots_[oldest_].bytes;
      if (length >= static_cast<int>(sizeof(Header))) {
        Arrival arrival;
        std::memcpy(&arrival.header, bytes, sizeof(Header));
        arrival.data.assign(bytes + sizeof(Header), bytes + length);
        dispatch(status.MPI_SOURCE, std::move(arrival));
      }
      postSlot(oldest_);
      oldest_ = (oldest_ + 1) % kSlots;
    }
    return any;
  }

  void dispatch(int source, Arrival arrival) {
    const Header &header = arrival.header;
    if (header.kind == Kind::leave) {
      if (!left_[static_cast<size_t>(source)]) {
        left_[static_cast<size_t>(source)] = Clock::now();
        ++leavers_;
      }
      return;
    }
    if (header.kind == Kind::abort)
      return abortFor(
          Status(static_cast<Code>(header.code),
                 std::string(arrival.data.begin(), arrival.data.end())),
          false);
    // An operation that did not match has no buffers.
    if (ended_ || aborted_.load(std::memory_order_acquire))
      return;
    if (header.kind == Kind::message) {
      for (auto it = receives_.begin(); it != receives_.end(); ++it)
        if ((*it)->call.peer == source && (*it)->call.tag == header.tag) {
          OperationPtr operation = *it;
          receives_.erase(it);
          return receiveMessage(operation, source, arrival);
        }
      unclaimed_.push_back({source, std::move(arrival)});
      return;
    }
    OperationPtr operation = find(header.group, header.number);
    int phase = header.phase & 1;
    Arrival &kept = operation->arrivals[phase][source];
    kept = std::move(arrival);
    if (!operation->started || !matches(*operation, source, kept.header))
      return;
    if (phase == operation->phase && !operation->reducing) {
      accept(operation, source, kept);
      advance(operation);
    }
  }

  /// Sends `header` with `payload`; a long payload is read until `operation`
  /// has no open request.
  void send(const OperationPtr &operation, int peer, Header header,
            Span payload) {
    header.bytes = payload.bytes;
    bool follows = payload.bytes <= kInlineBytes;
    if (!follows) {
      header.dataTag = nextTag_;
      nextTag_ = nextTag_ == 32767 ? 1 : nextTag_ + 1;
    }
    int64_t length =
        static_cast<int64_t>(sizeof(Header)) + (follows ? payload.bytes : 0);
    std::unique_ptr<uint8_t[]> buffer(new uint8_t[static_cast<size_t>(length)]);
    std::memcpy(buffer.get(), &header, sizeof(Header));
    if (follows && payload.bytes > 0)
      std::memcpy(buffer.get() + sizeof(Header), payload.data,
                  static_cast<size_t>(payload.bytes));
    MPI_Request request;
    if (!checked(MPI_Isend(buffer.get(), static_cast<int>(length), MPI_BYTE,
                           peer, 0, comm_, &request),
                 "MPI_Isend"))
      return;
    requests_.push_back(request);
    infos_.push_back({nullptr, false, std::move(buffer)});
    for (int64_t at = 0; !follows && at < payload.bytes; at += kPieceBytes) {
      int64_t count = std::min(kPieceBytes, payload.bytes - at);
      if (!checked(MPI_Isend(payload.data + at, static_cast<int>(count),
                             MPI_BYTE, peer, header.dataTag, comm_, &request),
                   "MPI_Isend"))
        return;
      ++operation->open;
      requests_.push_back(request);
      infos_.push_back({operation, false, nullptr});
    }
  }

  /// Puts the payload of `arrival` to `target`.
  void receive(const OperationPtr &operation, int source, Arrival &arrival,
               uint8_t *target, int64_t bytes) {
    const Header &header = arrival.header;
    int64_t follow = static_cast<int64_t>(arrival.data.size());
    if (header.bytes != bytes || (header.dataTag == 0 && follow != bytes))
      return abort(Status(
          Code::internal,
          concat("rank ", rank_, ", ", describe(operation->call), ": expected ",
                 bytes, " bytes from rank ", source, ", got ", header.bytes)));
    if (header.dataTag == 0) {
      if (bytes > 0)
        std::memcpy(target, arrival.data.data(), static_cast<size_t>(bytes));
      return;
    }
    for (int64_t at = 0; at < bytes; at += kPieceBytes) {
      int64_t count = std::min(kPieceBytes, bytes - at);
      MPI_Request request;
      if (!checked(MPI_Irecv(target + at, static_cast<int>(count), MPI_BYTE,
                             source, header.dataTag, comm_, &request),
                   "MPI_Irecv"))
        return;
      ++operation->open;
      requests_.push_back(request);
      infos_.push_back({operation, true, nullptr});
    }
  }

  bool completeRequests() {
    if (requests_.empty())
      return false;
    int count = 0;
    indices_.resize(requests_.size());
    if (!checked(MPI_Testsome(static_cast<int>(requests_.size()),
                              requests_.data(), &count, indices_.data(),
                              MPI_STATUSES_IGNORE),
                 "MPI_Testsome") ||
        count == MPI_UNDEFINED || count <= 0)
      return false;
    std::vector<OperationPtr> touched;
    indices_.resize(static_cast<size_t>(count));
    std::sort(indices_.begin(), indices_.end(), std::greater<int>());
    for (int index : indices_) {
      size_t i = static_cast<size_t>(index);
      if (infos_[i].operation) {
        --infos_[i].operation->open;
        touched.push_back(std::move(infos_[i].operation));
      }
      requests_[i] = requests_.back();
      infos_[i] = std::move(infos_.back());
      requests_.pop_back();
      infos_.pop_back();
    }
    if (!aborted_.load(std::memory_order_acquire))
      for (const OperationPtr &operation : touched)
        if (operations_.count(operation))
          advance(operation);
    return true;
  }

  //===--------------------------------------------------------------------===//
  // Operations
  //===--------------------------------------------------------------------===//

  OperationPtr find(uint64_t group, uint64_t number) {
    OperationPtr &operation = groups_[group].operations[number];
    if (!operation)
      operation = std::make_shared<Operation>();
    return operation;
  }

  bool matches(const Operation &operation, int source, const Header &header) {
    const CollectiveCall &call = operation.call;
    std::string problem =
        mismatch(callOf(header, call.group), source, call, rank_);
    if (problem.empty())
      return true;
    abort(Status(Code::invalid_argument, std::move(problem)));
    return false;
  }

  OperationPtr begin(const CollectiveCall &call, Done done) {
    bool isMessage =
        call.op == CollectiveOp::send || call.op == CollectiveOp::recv;
    OperationPtr operation;
    if (isMessage) {
      operation = std::make_shared<Operation>();
    } else {
      uint64_t hash = hashOf(*call.group);
      uint64_t number = groups_[hash].started++;
      operation = find(hash, number);
      operation->group = hash;
      operation->number = number;
    }
    operation->call = call;
    operation->done = std::move(done);
    operation->started = true;
    operation->isMessage = isMessage;
    operations_.insert(operation);
    if (isMessage) {
      beginMessage(operation);
      return operation;
    }
    for (const auto &phase : operation->arrivals)
      for (const auto &entry : phase)
        if (!matches(*operation, entry.first, entry.second.header))
          return operation;
    prepare(*operation);
    enterPhase(operation);
    return operation;
  }

  void beginMessage(const OperationPtr &operation) {
    const CollectiveCall &call = operation->call;
    if (call.op == CollectiveOp::send) {
      send(operation, call.peer, headerOf(*operation),
           {static_cast<const uint8_t *>(call.source),
            call.elements * blockBytes(call.dtype)});
      return advance(operation);
    }
    operation->missing = 1;
    for (auto it = unclaimed_.begin(); it != unclaimed_.end(); ++it)
      if (it->first == call.peer && it->second.header.tag == call.tag) {
        Arrival arrival = std::move(it->second);
        unclaimed_.erase(it);
        return receiveMessage(operation, call.peer, arrival);
      }
    receives_.push_back(operation);
  }

  void receiveMessage(const OperationPtr &operation, int source,
                      Arrival &arrival) {
    const CollectiveCall &call = operation->call;
    const Header &header = arrival.header;
    if (header.elements != call.elements ||
        header.dtype != static_cast<uint8_t>(call.dtype)) {
      CollectiveCall sent = callOf(header, nullptr);
      sent.peer = rank_;
      return abort(Status(Code::invalid_argument,
                          concat("mismatched messages: rank ", source,
                                 " calls ", describe(sent), ", rank ", rank_,
                                 " calls ", describe(call))));
    }
    operation->missing = 0;
    receive(operation, source, arrival,
            static_cast<uint8_t *>(call.destination),
            call.elements * blockBytes(call.dtype));
    advance(operation);
  }

  void enterPhase(const OperationPtr &operation) {
    const CollectiveCall &call = operation->call;
    const std::vector<int32_t> &group = *call.group;
    operation->missing = operation->size() - 1;
    Header header = headerOf(*operation);
    // Each member begins with the one after it, so that not all of them send to
    // the same one first.
    for (int64_t i = 1; i < operation->size(); ++i) {
      int64_t to = (call.self + i) % operation->size();
      send(operation, group[static_cast<size_t>(to)], header,
           outgoing(*operation, to));
    }
    for (auto &entry : operation->arrivals[operation->phase])
      accept(operation, entry.first, entry.second);
    advance(operation);
  }

  void accept(const OperationPtr &operation, int source, Arrival &arrival) {
    if (arrival.accepted)
      return;
    const std::vector<int32_t> &group = *operation->call.group;
    auto it = std::find(group.begin(), group.end(), source);
    if (it == group.end())
      return;
    arrival.accepted = true;
    auto [target, bytes] = incoming(*operation, it - group.begin());
    receive(operation, source, arrival, target, bytes);
    arrival.data.clear();
    --operation->missing;
  }

  /// Goes on if all has arrived and nothing reads or writes buffers.
  void advance(const OperationPtr &operation) {
    if (operation->missing > 0 || operation->open > 0 || operation->reducing ||
        aborted_.load(std::memory_order_acquire))
      return;
    if (operation->isMessage || operation->phase == 1 || !operation->reduces())
      return finish(operation);
    reduce(operation);
  }

  void reduce(const OperationPtr &operation) {
    const CollectiveCall &call = operation->call;
    int64_t count = ownCount(*operation), element = blockBytes(call.dtype);
    int64_t total = count * element * operation->size();
    int64_t blocks = (count + kReductionBlock - 1) / kReductionBlock;
    int64_t pieces = std::min<int64_t>(total / kSplitBytes, blocks);
    if (runner_)
      pieces = std::min<int64_t>(pieces, 2 * runner_->workers());
    operation->reducing = true;
    if (!runner_ || pieces < 1) {
      reducePiece(*operation, 0, blocks);
      operation->reducing = false;
      return afterReduction(operation);
    }
    operation->pieces.store(pieces);
    for (int64_t piece = 0; piece < pieces; ++piece) {
      int64_t begin = blocks * piece / pieces;
      int64_t end = blocks * (piece + 1) / pieces;
      runner_->post([this, operation, begin, end] {
        reducePiece(*operation, begin, end);
        if (operation->pieces.fetch_sub(1, std::memory_order_acq_rel) != 1)
          return;
        {
          std::lock_guard<std::mutex> lock(mutex_);
          reduced_.push_back(operation);
        }
        wake_.notify_one();
      });
    }
  }

  void afterReduction(const OperationPtr &operation) {
    if (!operation->twoPhases)
      return finish(operation);
    operation->phase = 1;
    enterPhase(operation);
  }

  void finish(OperationPtr operation) {
    operations_.erase(operation);
    if (!operation->isMessage)
      groups_[operation->group].operations.erase(operation->number);
    std::exchange(operation->done, nullptr)(Status());
  }

  //===--------------------------------------------------------------------===//
  // Ends
  //===--------------------------------------------------------------------===//

  /// Ends every operation with the reason, once nothing touches its buffers.
  void endAll() {
    Status why;
    bool tell;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      why = reason_;
      tell = tell_;
    }
    ended_ = true;
    if (tell) {
      Header header{};
      header.kind = Kind::abort;
      header.code = static_cast<int32_t>(why.code());
      Span text{reinterpret_cast<const uint8_t *>(why.message().data()),
                std::min<int64_t>(static_cast<int64_t>(why.message().size()),
                                  kInlineBytes)};
      for (int peer = 0; peer < size_; ++peer)
        if (peer != rank_)
          send(nullptr, peer, header, text);
    }
    for (size_t i = 0; i < requests_.size(); ++i)
      if (infos_[i].operation && infos_[i].receives)
        MPI_Cancel(&requests_[i]);
    // A send that nobody will receive stays for ever, and nobody reads its
    // buffer; one that is being received ends soon.
    Clock::time_point end = Clock::now() + kDrain;
    auto busy = [&] {
      for (const OperationPtr &operation : operations_)
        if (operation->open > 0 || operation->reducing)
          return true;
      return false;
    };
    while (busy() && Clock::now() < end) {
      receiveHeaders();
      takeReduced();
      if (!completeRequests())
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    for (size_t i = requests_.size(); i-- > 0;)
      if (infos_[i].operation) {
        MPI_Request_free(&requests_[i]);
        requests_[i] = requests_.back();
        infos_[i] = std::move(infos_.back());
        requests_.pop_back();
        infos_.pop_back();
      }
    std::set<OperationPtr> operations;
    operations.swap(operations_);
    groups_.clear();
    receives_.clear();
    unclaimed_.clear();
    for (const OperationPtr &operation : operations)
      if (operation->done)
        std::exchange(operation->done, nullptr)(
            Status(why.code(), why.message() + missingOf(*operation)));
  }

  /// ", while rank 0 waited for rank 2": the members of its group whose part of
  /// the current phase has not arrived.
  std::string missingOf(const Operation &operation) const {
    if (operation.missing <= 0)
      return "";
    std::string text;
    auto add = [&](int32_t rank) {
      text += concat(text.empty() ? "" : ", ", "rank ", rank);
    };
    if (operation.isMessage)
      add(operation.call.peer);
    else
      for (int32_t rank : *operation.call.group)
        if (rank != rank_ && !operation.arrivals[operation.phase].count(rank))
          add(rank);
    return text.empty() ? ""
                        : concat(", while rank ", rank_, " waited for ", text);
  }

  /// A rank that has left cannot take part any more.
  void checkFarewells() {
    Clock::time_point now = Clock::now();
    for (const OperationPtr &operation : operations_) {
      auto gone = [&](int32_t rank) {
        const auto &time = left_[static_cast<size_t>(rank)];
        if (rank == rank_ || !time || now - *time < kFarewell ||
            (!operation->isMessage &&
             operation->arrivals[operation->phase].count(rank)))
          return false;
        abort(Status(Code::aborted,
                     concat("rank ", rank, " has left; rank ", rank_,
                            " waits for it in ", describe(operation->call))));
        return true;
      };
      if (operation->isMessage) {
        if (gone(operation->call.peer))
          return;
      } else {
        for (int32_t rank : *operation->call.group)
          if (gone(rank))
            return;
      }
    }
  }

  const MPI_Comm comm_;
  const int rank_, size_;
  const std::vector<int32_t> local_;
  TaskRunner *runner_ = nullptr;

  // Shared with other threads.
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Call> queue_;
  std::vector<OperationPtr> reduced_;
  bool stopping_ = false;
  bool poked_ = false;
  bool tell_ = false; // the others do not know the reason yet
  Status reason_;
  std::atomic<bool> aborted_{false};

  // Of whoever takes a turn.
  const std::chrono::microseconds patience_;
  std::mutex turns_;
  std::vector<Slot> slots_{kSlots};
  std::vector<MPI_Request> slotRequests_ =
      std::vector<MPI_Request>(kSlots, MPI_REQUEST_NULL);
  size_t oldest_ = 0;
  std::vector<MPI_Request> requests_;
  std::vector<Request> infos_; // of requests_
  std::vector<int> indices_;
  int nextTag_ = 1;
  std::map<uint64_t, Group> groups_;
  std::set<OperationPtr> operations_; // started, not finished
  std::vector<OperationPtr> receives_;
  std::deque<std::pair<int, Arrival>> unclaimed_;
  std::vector<std::optional<Clock::time_point>> left_;
  int leavers_ = 0;
  std::atomic<bool> ended_{false};

  std::thread thread_;
};

} // namespace

Result<std::unique_ptr<Communicator>> createMpiCommunicator() {
  Library &mpi = library();
  std::lock_guard<std::mutex> lock(mpi.mutex);
  int initialized = 0, finalized = 0, level = MPI_THREAD_SINGLE, error;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (finalized)
    return Status(Code::invalid_argument, "MPI has been finalized already");
  if (mpi.inUse.load())
    return Status(Code::invalid_argument,
                  "expected one MPI communicator at a time in a process");
  if (initialized) {
    MPI_Query_thread(&level);
  } else {
    // Nobody here waits in a loop of MPI's, where giving way to others would
    // cost a time slice for every message.
    setenv("OMPI_MCA_mpi_yield_when_idle", "0", /*overwrite=*/1);
    error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
    if (error != MPI_SUCCESS)
      return Status(Code::internal,
                    concat("MPI_Init_thread: ", errorText(error)));
    mpi.owned = true;
  }
  if (level < MPI_THREAD_SERIALIZED)
    return Status(Code::incompatible,
                  "expected MPI with MPI_THREAD_SERIALIZED or better");
  MPI_Comm comm;
  error = MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  if (error != MPI_SUCCESS)
    return Status(Code::internal, concat("MPI_Comm_dup: ", errorText(error)));
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int rank = 0, size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Comm machine;
  int neighbours = size;
  if (MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL,
                          &machine) == MPI_SUCCESS) {
    MPI_Comm_size(machine, &neighbours);
    MPI_Comm_free(&machine);
  }
  bool crowded =
      neighbours > static_cast<int>(std::thread::hardware_concurrency());
  mpi.inUse.store(true);
  mpi.aborted.store(false);
  return std::unique_ptr<Communicator>(
      std::make_unique<Mpi>(comm, rank, size, crowded));
}

} // namespace heddle::rt
