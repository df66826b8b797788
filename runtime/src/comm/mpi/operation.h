//===- operation.h - What a rank does in one collective ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// A collective as one of its members sees it: what it sends to whom, and where
// what it gets belongs. Nothing here calls MPI.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_SRC_COMM_MPI_OPERATION_H
#define HEDDLE_RT_SRC_COMM_MPI_OPERATION_H

#include "heddle_rt/communicator.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace heddle::rt::mpi {

using Done = std::function<void(Status)>;

enum class Kind : uint32_t { collective, message, abort, leave };

struct Header {
  Kind kind;
  uint8_t op, reduction, dtype, phase;
  int32_t id, shift, root;
  int32_t dataTag; // of the payload's own message; 0 = it follows the header
  uint64_t group;  // hash of its ranks
  uint64_t number; // of the collective in its group
  int64_t elements, tag, bytes;
  int32_t code; // abort
  int32_t reserved;
};

/// A header and what follows it: below the eager limit of shared memory (4096).
constexpr int64_t kSlotBytes = 3968;
constexpr int64_t kInlineBytes =
    kSlotBytes - static_cast<int64_t>(sizeof(Header));
struct Span {
  const uint8_t *data = nullptr;
  int64_t bytes = 0;
};

struct Arrival {
  Header header;
  std::vector<uint8_t> data; // what followed the header
  bool accepted = false;
};

struct Operation {
  CollectiveCall call;
  Done done;
  bool started = false;
  bool isMessage = false;
  uint64_t group = 0, number = 0;
  int phase = 0;
  std::map<int32_t, Arrival> arrivals[2]; // by world rank
  int64_t missing = 0;                    // arrivals of this phase
  int64_t open = 0;                       // MPI requests on the buffers
  // Reductions: the chunk of this member.
  bool twoPhases = false;
  bool reducing = false;
  int64_t chunk = 0;            // elements of each chunk but the last ones
  std::vector<uint8_t> staging; // a slot per member
  std::vector<const void *> sources;
  std::atomic<int64_t> pieces{0};

  int64_t size() const { return static_cast<int64_t>(call.group->size()); }
  bool reduces() const {
    return call.op == CollectiveOp::allReduce ||
           call.op == CollectiveOp::reduceScatter;
  }
  int64_t chunkBegin(int64_t member) const {
    return std::min(member * chunk, call.elements);
  }
  int64_t chunkCount(int64_t member) const {
    return chunkBegin(member + 1) - chunkBegin(member);
  }
};
using OperationPtr = std::shared_ptr<Operation>;

/// Names a group in headers.
uint64_t hashOf(const std::vector<int32_t> &ranks);

/// What a call says of itself, and back.
Header headerOf(const Operation &operation);
CollectiveCall callOf(const Header &header, const std::vector<int32_t> *group);

/// Buffers, and what a member does with itself.
void prepare(Operation &operation);
/// Elements that this member reduces.
int64_t ownCount(const Operation &operation);
/// What member `to` gets in this phase.
Span outgoing(const Operation &operation, int64_t to);
/// Where it goes what member `from` sends in this phase.
std::pair<uint8_t *, int64_t> incoming(Operation &operation, int64_t from);
/// Reduces some blocks of this member's elements.
void reducePiece(const Operation &operation, int64_t firstBlock,
                 int64_t endBlock);

} // namespace heddle::rt::mpi

#endif // HEDDLE_RT_SRC_COMM_MPI_OPERATION_H
