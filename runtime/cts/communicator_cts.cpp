//===- communicator_cts.cpp - Conformance of communicators ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "communicator_cts.h"

#include "base/half.h"
#include "base/text.h"
#include "comm/reduction.h"
#include "executor/worker_pool.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <mutex>

namespace heddle::rt::cts {

std::vector<CommunicatorCase> communicatorCases(CommunicatorFactory factory) {
  std::vector<CommunicatorCase> cases;
  for (int workers : {1, 2, 5})
    for (uint64_t seed : {0, 3})
      cases.push_back({factory, workers, seed});
  return cases;
}

void PrintTo(const CommunicatorCase &params, std::ostream *out) {
  *out << params.factory.name << ", " << params.workers << " workers, seed "
       << params.seed;
}

std::string caseName(const ::testing::TestParamInfo<CommunicatorCase> &info) {
  return concat(info.param.factory.name, "_", info.param.workers, "_workers",
                info.param.seed ? "_random" : "");
}

namespace {

constexpr std::chrono::seconds kPatience{10};

/// The local ranks of one world, with a pool that starts their calls.
class World {
public:
  World(const CommunicatorCase &params, int64_t size)
      : comm_(params.factory.create(size)),
        pool_(params.workers, params.seed, /*alone=*/false) {
    comm_->attach(pool_);
  }

  Communicator &comm() { return *comm_; }
  const std::vector<int32_t> &ranks() const { return comm_->localRanks(); }
  int64_t size() const { return comm_->worldSize(); }

  /// Starts call(rank) of every local rank that it gives one for and waits for
  /// all; the statuses by rank.
  template <typename MakeCall> std::vector<Status> start(MakeCall makeCall) {
    struct Shared {
      std::mutex mutex;
      std::condition_variable changed;
      int64_t open = 0;
      std::vector<Status> statuses;
      std::vector<int> done;
    };
    auto shared = std::make_shared<Shared>();
    shared->statuses.resize(static_cast<size_t>(size()));
    shared->done.resize(static_cast<size_t>(size()));
    shared->open = static_cast<int64_t>(ranks().size());
    for (int32_t rank : ranks())
      pool_.post(std::function<void()>([this, shared, makeCall, rank] {
        auto finish = [shared, rank](Status status) {
          std::lock_guard<std::mutex> lock(shared->mutex);
          shared->statuses[static_cast<size_t>(rank)] = std::move(status);
          ++shared->done[static_cast<size_t>(rank)];
          if (--shared->open == 0)
            shared->changed.notify_all();
        };
        std::optional<CollectiveCall> call = makeCall(rank);
        if (call)
          comm_->start(rank, *call, finish);
        else
          finish({});
      }));
    std::unique_lock<std::mutex> lock(shared->mutex);
    if (!shared->changed.wait_for(lock, kPatience,
                                  [&] { return shared->open == 0; })) {
      ADD_FAILURE() << shared->open << " calls never completed";
      lock.unlock();
      comm_->abort(Status(Code::aborted, "the test gives up"));
      lock.lock();
    }
    for (int32_t rank : ranks())
      EXPECT_LE(shared->done[static_cast<size_t>(rank)], 1);
    return shared->statuses;
  }

  template <typename MakeCall> void startOk(MakeCall makeCall) {
    for (const Status &status : start(makeCall))
      EXPECT_TRUE(status.ok()) << status.message();
  }

private:
  std::unique_ptr<Communicator> comm_;
  WorkerPool pool_; // ends first: its threads may still be in the communicator
};

std::vector<int32_t> everyone(int64_t size) {
  std::vector<int32_t> group;
  for (int64_t rank = 0; rank < size; ++rank)
    group.push_back(static_cast<int32_t>(rank));
  return group;
}

/// Values that differ everywhere and do not add up exactly.
float valueAt(int64_t rank, int64_t i) {
  uint32_t state = static_cast<uint32_t>(rank * 2654435761u + i * 40503u + 17u);
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return (static_cast<float>(state >> 8) / 8388608.0f - 1.0f) *
         (i % 3 == 0 ? 1000.0f : 1.0f);
}

struct Format {
  DType dtype;
  int64_t bytes;
};
constexpr Format kReducible[] = {{DType::f32, 4},
                                 {DType::bf16, 2},
                                 {DType::f16, 2},
                                 {DType::i32, 4},
                                 {DType::i64, 8}};

void put(DType dtype, uint8_t *out, int64_t i, float value) {
  switch (dtype) {
  case DType::f32:
    std::memcpy(out + 4 * i, &value, 4);
    return;
  case DType::bf16: {
    uint16_t bits = toBf16(value);
    std::memcpy(out + 2 * i, &bits, 2);
    return;
  }
  case DType::f16: {
    uint16_t bits = toF16(value);
    std::memcpy(out + 2 * i, &bits, 2);
    return;
  }
  case DType::i32: {
    int32_t whole = static_cast<int32_t>(value * 100);
    std::memcpy(out + 4 * i, &whole, 4);
    return;
  }
  default: {
    int64_t whole = static_cast<int64_t>(value * 1e6f);
    std::memcpy(out + 8 * i, &whole, 8);
  }
  }
}

std::vector<uint8_t> fill(Format format, int64_t rank, int64_t elements) {
  std::vector<uint8_t> bytes(static_cast<size_t>(format.bytes * elements) + 8);
  for (int64_t i = 0; i < elements; ++i)
    put(format.dtype, bytes.data(), i, valueAt(rank, i));
  return bytes;
}

/// The definition, element by element: widen, fold in ascending order, narrow.
template <typename T> T fold(ReduceOp op, T acc, T x) {
  switch (op) {
  case ReduceOp::sum:
    return static_cast<T>(acc + x);
  case ReduceOp::max:
    return x > acc ? x : acc;
  case ReduceOp::min:
    return x < acc ? x : acc;
  }
  return acc;
}

std::vector<uint8_t>
expectedReduction(Format format, ReduceOp op,
                  const std::vector<std::vector<uint8_t>> &sources,
                  const std::vector<int32_t> &group, int64_t first,
                  int64_t count) {
  std::vector<uint8_t> out(static_cast<size_t>(format.bytes * count));
  for (int64_t i = 0; i < count; ++i) {
    auto source = [&](size_t member) {
      return sources[static_cast<size_t>(group[member])].data() +
             (first + i) * format.bytes;
    };
    uint8_t *to = out.data() + i * format.bytes;
    if (format.dtype == DType::i32) {
      int32_t acc, x;
      std::memcpy(&acc, source(0), 4);
      for (size_t m = 1; m < group.size(); ++m) {
        std::memcpy(&x, source(m), 4);
        acc = fold(op, acc, x);
      }
      std::memcpy(to, &acc, 4);
    } else if (format.dtype == DType::i64) {
      int64_t acc, x;
      std::memcpy(&acc, source(0), 8);
      for (size_t m = 1; m < group.size(); ++m) {
        std::memcpy(&x, source(m), 8);
        acc = fold(op, acc, x);
      }
      std::memcpy(to, &acc, 8);
    } else {
      float acc = 0, x = 0;
      for (size_t m = 0; m < group.size(); ++m) {
        decodeToFloat(format.dtype, source(m), 0, 1, &x);
        acc = m == 0 ? x : fold(op, acc, x);
      }
      put(format.dtype, to, 0, acc);
    }
  }
  return out;
}

constexpr int64_t kSizes[] = {0, 1, 3, 1023, 1024, 1025, 5000};
constexpr int64_t kLong = 70'001; // split over workers

CollectiveCall callOf(CollectiveOp op, const std::vector<int32_t> &group,
                      int32_t rank, Format format, int64_t elements,
                      const void *source, void *destination) {
  CollectiveCall call;
  call.op = op;
  call.dtype = format.dtype;
  call.group = &group;
  for (size_t i = 0; i < group.size(); ++i)
    if (group[i] == rank)
      call.self = static_cast<int32_t>(i);
  call.id = 7;
  call.source = source;
  call.destination = destination;
  call.elements = elements;
  return call;
}

using Buffers = std::vector<std::vector<uint8_t>>;

/// Compares bytes; a length of 0 allows null pointers.
bool sameBytes(const uint8_t *a, const uint8_t *b, int64_t length) {
  return length == 0 || std::memcmp(a, b, static_cast<size_t>(length)) == 0;
}

#define EXPECT_BYTES(actual, expected, length, ...)                            \
  EXPECT_TRUE(sameBytes(actual, expected, length)) << concat(__VA_ARGS__)

} // namespace

// Every type, operation and odd size, out of place and in place.
TEST_P(CommunicatorCts, AllReduce) {
  for (int64_t size : GetParam().factory.worldSizes) {
    World world(GetParam(), size);
    std::vector<int32_t> group = everyone(size);
    for (Format format : kReducible)
      for (ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min})
        for (int64_t n :
             {int64_t{0}, int64_t{1}, int64_t{1025}, int64_t{5000},
              format.dtype == DType::f32 && op == ReduceOp::sum ? kLong
                                                                : int64_t{3}})
          for (bool inPlace : {false, true}) {
            Buffers in, out;
            for (int64_t rank = 0; rank < size; ++rank) {
              in.push_back(fill(format, rank, n));
              out.push_back(std::vector<uint8_t>(in.back().size(), 0xee));
            }
            std::vector<uint8_t> expected =
                expectedReduction(format, op, in, group, 0, n);
            world.startOk([&](int32_t rank) -> std::optional<CollectiveCall> {
              size_t r = static_cast<size_t>(rank);
              CollectiveCall call =
                  callOf(CollectiveOp::allReduce, group, rank, format, n,
                         in[r].data(), inPlace ? in[r].data() : out[r].data());
              call.reduction = op;
              return call;
            });
            for (int32_t rank : world.ranks()) {
              size_t r = static_cast<size_t>(rank);
              EXPECT_BYTES((inPlace ? in : out)[r].data(), expected.data(),
                           n * format.bytes, dtypeName(format.dtype), " ", n,
                           " rank ", rank, " of ", size);
              if (!inPlace) {
                EXPECT_EQ(out[r][static_cast<size_t>(n * format.bytes)], 0xee);
              }
            }
          }
  }
}

// The chunk of each member, also written over its own place in the source.
TEST_P(CommunicatorCts, ReduceScatter) {
  for (int64_t size : GetParam().factory.worldSizes) {
    World world(GetParam(), size);
    std::vector<int32_t> group = everyone(size);
    for (Format format : kReducible)
      for (int64_t n : kSizes)
        for (bool inPlace : {false, true}) {
          Buffers in, out;
          for (int64_t rank = 0; rank < size; ++rank) {
            in.push_back(fill(format, rank, n * size));
            out.push_back(std::vector<uint8_t>(
                static_cast<size_t>(n * format.bytes) + 1));
          }
          Buffers original = in;
          auto target = [&](int32_t rank) {
            size_t r = static_cast<size_t>(rank);
            return inPlace ? in[r].data() + rank * n * format.bytes
                           : out[r].data();
          };
          world.startOk([&](int32_t rank) -> std::optional<CollectiveCall> {
            return callOf(CollectiveOp::reduceScatter, group, rank, format, n,
                          in[static_cast<size_t>(rank)].data(), target(rank));
          });
          for (int32_t rank : world.ranks()) {
            std::vector<uint8_t> expected = expectedReduction(
                format, ReduceOp::sum, original, group, rank * n, n);
            EXPECT_BYTES(target(rank), expected.data(), n * format.bytes,
                         dtypeName(format.dtype), " ", n, " rank ", rank);
          }
        }
  }
}

TEST_P(CommunicatorCts, AllGather) {
  Format format{DType::f32, 4};
  for (int64_t size : GetParam().factory.worldSizes) {
    World world(GetParam(), size);
    std::vector<int32_t> group = everyone(size);
    for (int64_t n : {int64_t{0}, int64_t{1}, int64_t{1025}, kLong / 3})
      for (bool inPlace : {false, true}) {
        Buffers in, out;
        std::vector<uint8_t> expected;
        for (int64_t rank = 0; rank < size; ++rank) {
          in.push_back(fill(format, rank, n));
          expected.insert(expected.end(), in.back().begin(),
                          in.back().begin() + n * 4);
          out.push_back(
              std::vector<uint8_t>(static_cast<size_t>(n * 4 * size)));
          if (inPlace && n > 0)
            std::memcpy(out.back().data() + rank * n * 4, in.back().data(),
                        static_cast<size_t>(n * 4));
        }
        world.startOk([&](int32_t rank) -> std::optional<CollectiveCall> {
          size_t r = static_cast<size_t>(rank);
          return callOf(CollectiveOp::allGather, group, rank, format, n,
                        inPlace ? out[r].data() + rank * n * 4 : in[r].data(),
                        out[r].data());
        });
        for (int32_t rank : world.ranks())
          EXPECT_EQ(out[static_cast<size_t>(rank)], expected) << n;
      }
  }
}

TEST_P(CommunicatorCts, AllToAll) {
  Format format{DType::i64, 8};
  for (int64_t size : GetParam().factory.worldSizes) {
    World world(GetParam(), size);
    std::vector<int32_t> group = everyone(size);
    for (int64_t n : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{20'000}}) {
      Buffers in, out;
      for (int64_t rank = 0; rank < size; ++rank) {
        in.push_back(fill(format, rank, n * size));
        out.push_back(std::vector<uint8_t>(static_cast<size_t>(n * 8 * size)));
      }
      world.startOk([&](int32_t rank) -> std::optional<CollectiveCall> {
        size_t r = static_cast<size_t>(rank);
        return callOf(CollectiveOp::allToAll, group, rank, format, n,
                      in[r].data(), out[r].data());
      });
      for (int32_t rank : world.ranks())
        for (int64_t peer = 0; peer < size; ++peer)
          EXPECT_BYTES(out[static_cast<size_t>(rank)].data() + peer * n * 8,
                       in[static_cast<size_t>(peer)].data() + rank * n * 8,
                       n * 8, n, " from ", peer, " to ", rank);
    }
  }
}

// Shifts of any sign and beyond the size.
TEST_P(CommunicatorCts, Permute) {
  Format format{DType::bf16, 2};
  for (int64_t size : GetParam().factory.worldSizes) {
    World world(GetParam(), size);
    std::vector<int32_t> group = everyone(size);
    for (int32_t shift : {1, -1, 0, 2, static_cast<int32_t>(size) + 1})
      for (int64_t n : {int64_t{1}, int64_t{1025}, kLong}) {
        Buffers in, out;
        for (int64_t rank = 0; rank < size; ++rank) {
          in.push_back(fill(format, rank, n));
          out.push_back(std::vector<uint8_t>(in.back().size()));
        }
        world.startOk([&](int32_t rank) -> std::optional<CollectiveCall> {
          size_t r = static_cast<size_t>(rank);
          CollectiveCall call = callOf(CollectiveOp::permute, group, rank,
                                       format, n, in[r].data(), out[r].data());
          call.shift = shift;
          return call;
        });
        for (int32_t rank : world.ranks()) {
          int64_t from = ((rank - shift) % size + size) % size;
          EXPECT_BYTES(out[static_cast<size_t>(rank)].data(),
                       in[static_cast<size_t>(from)].data(), n * 2, "shift ",
                       shift);
        }
      }
  }
}

TEST_P(CommunicatorCts, Broadcast) {
  Format format{DType::u8, 1};
  for (int64_t size : GetParam().factory.worldSizes) {
    World world(GetParam(), size);
    std::vector<int32_t> group = everyone(size);
    for (int32_t root = 0; root < size; ++root) {
      int64_t n = 1000 + root;
      Buffers buffers;
      for (int64_t rank = 0; rank < size; ++rank)
        buffers.push_back(std::vector<uint8_t>(static_cast<size_t>(n),
                                               static_cast<uint8_t>(rank + 1)));
      world.startOk([&](int32_t rank) -> std::optional<CollectiveCall> {
        uint8_t *buffer = buffers[static_cast<size_t>(rank)].data();
        CollectiveCall call = callOf(CollectiveOp::broadcast, group, rank,
                                     format, n, buffer, buffer);
        call.root = root;
        return call;
      });
      for (int32_t rank : world.ranks())
        for (uint8_t byte : buffers[static_cast<size_t>(rank)])
          ASSERT_EQ(byte, root + 1);
    }
  }
}

// Values whose sum depends on the order: only the ascending one gives 1.
TEST_P(CommunicatorCts, ReducesInAscendingOrder) {
  const float values[] = {1e8f, 1.0f, -1e8f, 1.0f};
  for (int64_t size : GetParam().factory.worldSizes) {
    if (size < 4)
      continue;
    World world(GetParam(), size);
    std::vector<int32_t> group = everyone(4);
    Buffers buffers(static_cast<size_t>(size), std::vector<uint8_t>(4));
    for (size_t rank = 0; rank < 4; ++rank)
      std::memcpy(buffers[rank].data(), &values[rank], 4);
    world.startOk([&](int32_t rank) -> std::optional<CollectiveCall> {
      if (rank >= 4)
        return std::nullopt;
      uint8_t *buffer = buffers[static_cast<size_t>(rank)].data();
      return callOf(CollectiveOp::allReduce, group, rank, {DType::f32, 4}, 1,
                    buffer, buffer);
    });
    for (int32_t rank : world.ranks())
      if (rank < 4) {
        float sum;
        std::memcpy(&sum, buffers[static_cast<size_t>(rank)].data(), 4);
        EXPECT_EQ(sum, 1.0f);
      }
  }
}

// bf16 sums keep fp32 between members: 256 + 1 + 1 is 258, not 256.
TEST_P(CommunicatorCts, AccumulatesInFp32) {
  for (int64_t size : GetParam().factory.worldSizes) {
    if (size < 3)
      continue;
    World world(GetParam(), size);
    std::vector<int32_t> group = everyone(3);
    Buffers buffers(static_cast<size_t>(size), std::vector<uint8_t>(2));
    for (size_t rank = 0; rank < 3; ++rank)
      put(DType::bf16, buffers[rank].data(), 0, rank == 0 ? 256.0f : 1.0f);
    world.startOk([&](int32_t rank) -> std::optional<CollectiveCall> {
      if (rank >= 3)
        return std::nullopt;
      uint8_t *buffer = buffers[static_cast<size_t>(rank)].data();
      return callOf(CollectiveOp::allReduce, group, rank, {DType::bf16, 2}, 1,
                    buffer, buffer);
    });
    for (int32_t rank : world.ranks())
      if (rank < 3) {
        float sum;
        decodeToFloat(DType::bf16, buffers[static_cast<size_t>(rank)].data(), 0,
                      1, &sum);
        EXPECT_EQ(sum, 258.0f);
      }
  }
}

// Not-a-number is not lost by max and min, on whichever rank it is.
TEST_P(CommunicatorCts, NanWinsInMaxAndMin) {
  for (int64_t size : GetParam().factory.worldSizes) {
    World world(GetParam(), size);
    std::vector<int32_t> group = everyone(size);
    for (ReduceOp op : {ReduceOp::max, ReduceOp::min})
      for (int64_t bad = 0; bad < size; ++bad) {
        Buffers buffers;
        for (int64_t rank = 0; rank < size; ++rank) {
          buffers.push_back(std::vector<uint8_t>(4));
          put(DType::f32, buffers.back().data(), 0,
              rank == bad ? std::numeric_limits<float>::quiet_NaN()
                          : static_cast<float>(rank));
        }
        world.startOk([&](int32_t rank) -> std::optional<CollectiveCall> {
          uint8_t *buffer = buffers[static_cast<size_t>(rank)].data();
          CollectiveCall call = callOf(CollectiveOp::allReduce, group, rank,
                                       {DType::f32, 4}, 1, buffer, buffer);
          call.reduction = op;
          return call;
        });
        for (int32_t rank : world.ranks()) {
          float value;
          std::memcpy(&value, buffers[static_cast<size_t>(rank)].data(), 4);
          EXPECT_TRUE(value != value);
        }
      }
  }
}

// Rows and columns of a 2-D mesh, many times and without waiting for the whole
// world in between: groups are independent, and their order is that of their
// members' calls.
TEST_P(CommunicatorCts, GroupsOfAMesh) {
  for (int64_t size : GetParam().factory.worldSizes) {
    if (size != 6)
      continue;
    World world(GetParam(), size);
    std::vector<std::vector<int32_t>> rows, columns; // 2 x 3
    for (int32_t r = 0; r < 2; ++r)
      rows.push_back({3 * r, 3 * r + 1, 3 * r + 2});
    for (int32_t c = 0; c < 3; ++c)
      columns.push_back({c, c + 3});
    for (int turn = 0; turn < 50; ++turn) {
      std::vector<int32_t> values(6), sums(6);
      for (int32_t rank : world.ranks())
        values[static_cast<size_t>(rank)] = rank + turn;
      bool byRow = turn % 2 == 0;
      world.startOk([&](int32_t rank) -> std::optional<CollectiveCall> {
        size_t r = static_cast<size_t>(rank);
        const std::vector<int32_t> &group =
            byRow ? rows[r / 3] : columns[r % 3];
        return callOf(CollectiveOp::allReduce, group, rank, {DType::i32, 4}, 1,
                      &values[r], &sums[r]);
      });
      for (int32_t rank : world.ranks()) {
        int32_t expected = 0;
        for (int32_t other : byRow ? rows[static_cast<size_t>(rank / 3)]
                                   : columns[static_cast<size_t>(rank % 3)])
          expected += other + turn;
        EXPECT_EQ(sums[static_cast<size_t>(rank)], expected);
      }
    }
  }
}

// Two collectives of one group in flight at once: the k-th calls belong
// together.
TEST_P(CommunicatorCts, CallsOfAGroupMatchInOrder) {
  for (int64_t size : GetParam().factory.worldSizes) {
    World world(GetParam(), size);
    std::vector<int32_t> group = everyone(size);
    std::vector<int32_t> a(static_cast<size_t>(size)), b(a), sumA(a), sumB(a);
    std::mutex mutex;
    std::condition_variable changed;
    size_t open = 2 * world.ranks().size();
    auto done = [&](Status status) {
      EXPECT_TRUE(status.ok()) << status.message();
      std::lock_guard<std::mutex> lock(mutex);
      if (--open == 0)
        changed.notify_all();
    };
    for (int32_t rank : world.ranks()) {
      size_t r = static_cast<size_t>(rank);
      a[r] = 1;
      b[r] = 10;
      world.comm().start(rank,
                         callOf(CollectiveOp::allReduce, group, rank,
                                {DType::i32, 4}, 1, &a[r], &sumA[r]),
                         done);
      world.comm().start(rank,
                         callOf(CollectiveOp::allReduce, group, rank,
                                {DType::i32, 4}, 1, &b[r], &sumB[r]),
                         done);
    }
    std::unique_lock<std::mutex> lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, kPatience, [&] { return open == 0; }));
    for (int32_t rank : world.ranks()) {
      EXPECT_EQ(sumA[static_cast<size_t>(rank)], size);
      EXPECT_EQ(sumB[static_cast<size_t>(rank)], 10 * size);
    }
  }
}

// Messages between two ranks are told apart by their tags.
TEST_P(CommunicatorCts, MessagesMatchByTag) {
  for (int64_t size : GetParam().factory.worldSizes) {
    if (size < 2)
      continue;
    World world(GetParam(), size);
    int32_t last = static_cast<int32_t>(size) - 1;
    float sent[2] = {1, 2}, received[2] = {0, 0};
    std::mutex mutex;
    std::condition_variable changed;
    int open = 0;
    auto start = [&](int32_t rank, CollectiveOp op, int32_t peer, int64_t tag,
                     float *data) {
      if (std::find(world.ranks().begin(), world.ranks().end(), rank) ==
          world.ranks().end())
        return;
      CollectiveCall call;
      call.op = op;
      call.dtype = DType::f32;
      call.source = call.destination = data;
      call.elements = 1;
      call.peer = peer;
      call.tag = tag;
      {
        std::lock_guard<std::mutex> lock(mutex);
        ++open;
      }
      world.comm().start(rank, call, [&](Status status) {
        EXPECT_TRUE(status.ok()) << status.message();
        std::lock_guard<std::mutex> lock(mutex);
        if (--open == 0)
          changed.notify_all();
      });
    };
    start(0, CollectiveOp::send, last, 5, &sent[0]);
    start(last, CollectiveOp::recv, 0, 6, &received[1]);
    start(last, CollectiveOp::recv, 0, 5, &received[0]);
    start(0, CollectiveOp::send, last, 6, &sent[1]);
    std::unique_lock<std::mutex> lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, kPatience, [&] { return open == 0; }));
    if (world.ranks().back() == last) {
      EXPECT_EQ(received[0], 1.0f);
      EXPECT_EQ(received[1], 2.0f);
    }
  }
}

// Members that call different things get an error that shows both, and nobody
// hangs.
TEST_P(CommunicatorCts, DetectsMismatches) {
  for (int64_t size : GetParam().factory.worldSizes) {
    if (size < 2)
      continue;
    for (int kind = 0; kind < 5; ++kind) {
      World world(GetParam(), size);
      std::vector<int32_t> group = everyone(size);
      Buffers buffers(static_cast<size_t>(size), std::vector<uint8_t>(64));
      Buffers targets = buffers;
      std::vector<Status> statuses =
          world.start([&](int32_t rank) -> std::optional<CollectiveCall> {
            size_t r = static_cast<size_t>(rank);
            CollectiveCall call =
                callOf(CollectiveOp::allReduce, group, rank, {DType::f32, 4}, 4,
                       buffers[r].data(), targets[r].data());
            if (rank == size - 1) {
              if (kind == 0)
                call.id = 8;
              if (kind == 1)
                call.op = CollectiveOp::permute;
              if (kind == 2)
                call.elements = 5;
              if (kind == 3)
                call.dtype = DType::i32;
              if (kind == 4)
                call.reduction = ReduceOp::max;
            }
            return call;
          });
      bool shown = false;
      for (int32_t rank : world.ranks()) {
        const Status &status = statuses[static_cast<size_t>(rank)];
        EXPECT_FALSE(status.ok()) << kind;
        shown |= status.message().find(concat("rank ", size - 1, " calls ")) !=
                     std::string::npos &&
                 status.message().find("mismatched") != std::string::npos;
      }
      EXPECT_TRUE(shown) << kind;
    }
  }
}

// What is pending, and what comes later, ends with the reason.
TEST_P(CommunicatorCts, AbortEndsPendingAndLaterCalls) {
  for (int64_t size : GetParam().factory.worldSizes) {
    if (size < 2)
      continue;
    World world(GetParam(), size);
    std::vector<int32_t> group = everyone(size);
    Buffers buffers(static_cast<size_t>(size), std::vector<uint8_t>(64));
    auto start = std::chrono::steady_clock::now();
    std::vector<Status> statuses =
        world.start([&](int32_t rank) -> std::optional<CollectiveCall> {
          uint8_t *buffer = buffers[static_cast<size_t>(rank)].data();
          if (rank == 0) { // never joins
            world.comm().abort(Status(Code::aborted, "rank 0 gave up"));
            return std::nullopt;
          }
          if (rank == 1 && size > 2) {
            CollectiveCall call;
            call.op = CollectiveOp::recv;
            call.dtype = DType::u8;
            call.destination = buffer;
            call.elements = 8;
            call.peer = 0;
            return call;
          }
          return callOf(CollectiveOp::allReduce, group, rank, {DType::f32, 4},
                        4, buffer, buffer);
        });
    for (int32_t rank : world.ranks())
      if (rank != 0) {
        // … with what the operation waited for.
        const std::string &message =
            statuses[static_cast<size_t>(rank)].message();
        EXPECT_EQ(message.rfind("rank 0 gave up", 0), 0u) << message;
      }
    statuses = world.start([&](int32_t rank) -> std::optional<CollectiveCall> {
      uint8_t *buffer = buffers[static_cast<size_t>(rank)].data();
      return callOf(CollectiveOp::allReduce, group, rank, {DType::f32, 4}, 4,
                    buffer, buffer);
    });
    for (int32_t rank : world.ranks())
      EXPECT_EQ(statuses[static_cast<size_t>(rank)].code(), Code::aborted);
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              std::chrono::seconds(5));
  }
}

// Calls that cannot be right are refused at once.
TEST_P(CommunicatorCts, RefusesWrongCalls) {
  for (int64_t size : GetParam().factory.worldSizes) {
    if (size < 2)
      continue;
    World world(GetParam(), size);
    std::vector<int32_t> group = everyone(size);
    std::vector<int32_t> without = {1};
    std::vector<uint8_t> buffer(4096);
    auto refuses = [&](CollectiveCall call, const char *reason) {
      Status status;
      bool done = false;
      int32_t rank = world.ranks().front();
      if (rank != 0)
        return;
      world.comm().start(rank, call, [&](Status given) {
        status = given;
        done = true;
      });
      ASSERT_TRUE(done) << reason;
      EXPECT_EQ(status.code(), Code::invalid_argument);
      EXPECT_NE(status.message().find(reason), std::string::npos)
          << status.message();
    };
    CollectiveCall call =
        callOf(CollectiveOp::allReduce, group, 0, {DType::f32, 4}, 4,
               buffer.data(), buffer.data() + 1024);
    CollectiveCall wrong = call;
    wrong.group = &without;
    refuses(wrong, "expected a group that the rank is a member of");
    wrong = call;
    wrong.dtype = DType::u8;
    refuses(wrong, "expected f32, f16, bf16, i32 or i64 elements");
    wrong = call;
    wrong.elements = -1;
    refuses(wrong, "expected a number of plain elements");
    wrong = call;
    wrong.op = CollectiveOp::permute;
    wrong.shift = 1;
    wrong.destination = buffer.data() + 4;
    refuses(wrong, "expected a destination apart from the source");
    wrong = call;
    wrong.op = CollectiveOp::broadcast;
    wrong.root = static_cast<int32_t>(size);
    refuses(wrong, "expected a root below");
    wrong = call;
    wrong.op = CollectiveOp::send;
    wrong.peer = 0;
    refuses(wrong, "expected another rank below");
  }
}

} // namespace heddle::rt::cts
