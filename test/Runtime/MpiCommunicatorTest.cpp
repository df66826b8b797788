//===- MpiCommunicatorTest.cpp - Ranks in processes -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every process of mpirun runs all of these tests.
//
//===----------------------------------------------------------------------===//

#include "base/text.h"
#include "communicator_cts.h"
#include "executor/worker_pool.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace heddle::rt::cts {
namespace {

int64_t processes() {
  const char *size = std::getenv("OMPI_COMM_WORLD_SIZE");
  return size ? std::atoi(size) : 1;
}

std::unique_ptr<Communicator> createMpi(int64_t worldSize) {
  Result<std::unique_ptr<Communicator>> mpi = createMpiCommunicator();
  if (!mpi || (*mpi)->worldSize() != worldSize) {
    std::fprintf(stderr, "no MPI communicator: %s\n",
                 mpi.status().message().c_str());
    std::abort();
  }
  return mpi.take();
}

/// Starts `makeCall(rank)` for the local ranks; waits for all of them.
template <typename MakeCall>
Status runAll(Communicator &comm, MakeCall makeCall) {
  std::mutex mutex;
  std::condition_variable changed;
  size_t open = comm.localRanks().size();
  Status result;
  for (int32_t rank : comm.localRanks())
    comm.start(rank, makeCall(rank), [&](Status status) {
      std::lock_guard<std::mutex> lock(mutex);
      if (!status.ok())
        result = status;
      if (--open == 0)
        changed.notify_all();
    });
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return open == 0; });
  return result;
}

/// Bits of every kind: numbers, denormals, infinities, not-a-numbers.
std::vector<uint8_t> noise(int64_t rank, int64_t bytes, uint64_t seed) {
  std::vector<uint8_t> out(static_cast<size_t>(bytes));
  uint64_t state = seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(rank) + 1;
  for (uint8_t &byte : out) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<uint8_t>(state >> 32);
  }
  return out;
}

} // namespace

INSTANTIATE_TEST_SUITE_P(
    Mpi, CommunicatorCts,
    ::testing::ValuesIn(communicatorCases({"mpi", {processes()}, createMpi})),
    caseName);

// Every operation and type, short and long, gives the bits of the in-process
// communicator.
TEST(MpiCommunicator, SameBitsAsInProcess) {
  int64_t size = processes();
  std::unique_ptr<Communicator> mpi = createMpi(size);
  std::unique_ptr<Communicator> reference = createInProcessCommunicator(size);
  WorkerPool pool(2, 0, /*alone=*/false);
  mpi->attach(pool);
  reference->attach(pool);
  std::vector<int32_t> group;
  for (int64_t rank = 0; rank < size; ++rank)
    group.push_back(static_cast<int32_t>(rank));
  int32_t self = mpi->localRanks().front();
  uint64_t seed = 0;
  for (CollectiveOp op : {CollectiveOp::allReduce, CollectiveOp::reduceScatter,
                          CollectiveOp::allGather, CollectiveOp::allToAll,
                          CollectiveOp::permute, CollectiveOp::broadcast})
    for (DType dtype :
         {DType::f32, DType::bf16, DType::f16, DType::i32, DType::i64})
      for (ReduceOp reduction : {ReduceOp::sum, ReduceOp::max, ReduceOp::min})
        for (int64_t elements : {1, 65, 1000, 4097, 300'001}) {
          bool reduces = op == CollectiveOp::allReduce ||
                         op == CollectiveOp::reduceScatter;
          if ((!reduces && reduction != ReduceOp::sum) ||
              (elements > 100'000 && reduction == ReduceOp::min))
            continue;
          ++seed;
          int64_t bytes = elements * blockBytes(dtype) * size;
          std::vector<std::vector<uint8_t>> in, expected;
          for (int64_t rank = 0; rank < size; ++rank) {
            in.push_back(noise(rank, bytes, seed));
            expected.push_back(noise(7, bytes, seed));
          }
          std::vector<uint8_t> actual = expected.front();
          auto call = [&](int32_t rank, uint8_t *out) {
            CollectiveCall call;
            call.op = op;
            call.reduction = reduction;
            call.dtype = dtype;
            call.group = &group;
            call.self = rank;
            call.id = static_cast<int32_t>(seed);
            call.source = in[static_cast<size_t>(rank)].data();
            call.destination = out;
            call.elements = elements;
            call.shift = 1;
            call.root = static_cast<int32_t>(size) - 1;
            return call;
          };
          Status status = runAll(*reference, [&](int32_t rank) {
            return call(rank, expected[static_cast<size_t>(rank)].data());
          });
          ASSERT_TRUE(status.ok()) << status.message();
          status = runAll(
              *mpi, [&](int32_t rank) { return call(rank, actual.data()); });
          ASSERT_TRUE(status.ok()) << status.message();
          ASSERT_TRUE(actual == expected[static_cast<size_t>(self)])
              << "operation " << static_cast<int>(op) << " of " << elements
              << " " << dtypeName(dtype);
        }
}

// A long message that nobody receives, and one that nobody sends, end with the
// reason of a rank that gives up.
TEST(MpiCommunicator, AbortEndsLongTransfers) {
  int64_t size = processes();
  if (size < 2)
    GTEST_SKIP();
  std::unique_ptr<Communicator> mpi = createMpi(size);
  int32_t self = mpi->localRanks().front();
  auto start = std::chrono::steady_clock::now();
  if (self == 0) {
    mpi->abort(Status(Code::aborted, "rank 0 gave up"));
    return;
  }
  std::vector<uint8_t> buffer(8 << 20);
  Status status = runAll(*mpi, [&](int32_t) {
    CollectiveCall call;
    call.op = self == 1 ? CollectiveOp::send : CollectiveOp::recv;
    call.dtype = DType::u8;
    call.source = call.destination = buffer.data();
    call.elements = static_cast<int64_t>(buffer.size());
    call.peer = 0;
    return call;
  });
  EXPECT_EQ(status.message().rfind("rank 0 gave up", 0), 0u)
      << status.message();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

// A rank that leaves ends the others' wait for it.
TEST(MpiCommunicator, NobodyWaitsForOneThatLeft) {
  int64_t size = processes();
  if (size < 2)
    GTEST_SKIP();
  std::unique_ptr<Communicator> mpi = createMpi(size);
  int32_t self = mpi->localRanks().front();
  if (self == size - 1)
    return;
  std::vector<int32_t> group;
  for (int64_t rank = 0; rank < size; ++rank)
    group.push_back(static_cast<int32_t>(rank));
  auto start = std::chrono::steady_clock::now();
  std::vector<float> values(4);
  Status status = runAll(*mpi, [&](int32_t rank) {
    CollectiveCall call;
    call.dtype = DType::f32;
    call.group = &group;
    call.self = rank;
    call.id = 5;
    call.source = call.destination = values.data();
    call.elements = 4;
    return call;
  });
  EXPECT_EQ(status.code(), Code::aborted);
  EXPECT_NE(status.message().find(concat("rank ", size - 1, " has left")),
            std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("all_reduce sum of 4 f32 elements (id 5)"),
            std::string::npos)
      << status.message();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

} // namespace heddle::rt::cts
