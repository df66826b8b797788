//===- operation.cpp - What a rank does in one collective -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/mpi/operation.h"

#include "comm/reduction.h"

#include <cstring>

using namespace heddle::rt;
using namespace heddle::rt::mpi;

uint64_t mpi::hashOf(const std::vector<int32_t> &ranks) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (int32_t rank : ranks)
    for (int shift = 0; shift < 32; shift += 8)
      hash = (hash ^ (static_cast<uint32_t>(rank) >> shift & 0xff)) *
             0x100000001b3u;
  return hash;
}

Header mpi::headerOf(const Operation &operation) {
  const CollectiveCall &call = operation.call;
  Header header{};
  header.kind = operation.isMessage ? Kind::message : Kind::collective;
  header.op = static_cast<uint8_t>(call.op);
  header.reduction = static_cast<uint8_t>(call.reduction);
  header.dtype = static_cast<uint8_t>(call.dtype);
  header.phase = static_cast<uint8_t>(operation.phase);
  header.id = call.id;
  header.shift = call.shift;
  header.root = call.root;
  header.group = operation.group;
  header.number = operation.number;
  header.elements = call.elements;
  header.tag = call.tag;
  return header;
}

CollectiveCall mpi::callOf(const Header &header,
                           const std::vector<int32_t> *group) {
  CollectiveCall call;
  call.op = static_cast<CollectiveOp>(header.op);
  call.reduction = static_cast<ReduceOp>(header.reduction);
  call.dtype = static_cast<DType>(header.dtype);
  call.group = group;
  call.id = header.id;
  call.elements = header.elements;
  call.shift = header.shift;
  call.root = header.root;
  call.tag = header.tag;
  return call;
}

void mpi::prepare(Operation &operation) {
  const CollectiveCall &call = operation.call;
  int64_t size = operation.size(), element = blockBytes(call.dtype);
  int64_t bytes = call.elements * element;
  auto *source = static_cast<const uint8_t *>(call.source);
  auto *destination = static_cast<uint8_t *>(call.destination);
  auto copy = [&](int64_t from, int64_t to) {
    if (bytes > 0 && source + from != destination + to)
      std::memmove(destination + to, source + from, static_cast<size_t>(bytes));
  };
  switch (call.op) {
  case CollectiveOp::allReduce:
    operation.twoPhases = bytes > kInlineBytes && size > 1;
    operation.chunk = call.elements;
    if (operation.twoPhases) // whole cache lines
      operation.chunk = ((call.elements + size - 1) / size + 63) / 64 * 64;
    break;
  case CollectiveOp::reduceScatter:
    operation.chunk = call.elements;
    break;
  case CollectiveOp::allGather:
    return copy(0, call.self * bytes);
  case CollectiveOp::allToAll:
    return copy(call.self * bytes, call.self * bytes);
  case CollectiveOp::permute:
    if (call.shift % size == 0)
      copy(0, 0);
    return;
  case CollectiveOp::broadcast:
    if (call.root == call.self)
      copy(0, 0);
    return;
  default:
    return;
  }
  int64_t own = ownCount(operation) * element;
  operation.staging.resize(static_cast<size_t>(size * own));
  for (int64_t member = 0; member < size; ++member)
    operation.sources.push_back(operation.staging.data() + member * own);
  operation.sources[static_cast<size_t>(call.self)] =
      operation.twoPhases ? source + operation.chunkBegin(call.self) * element
      : call.op == CollectiveOp::reduceScatter ? source + call.self * bytes
                                               : source;
}

int64_t mpi::ownCount(const Operation &operation) {
  return operation.twoPhases ? operation.chunkCount(operation.call.self)
                             : operation.call.elements;
}

Span mpi::outgoing(const Operation &operation, int64_t to) {
  const CollectiveCall &call = operation.call;
  int64_t size = operation.size(), element = blockBytes(call.dtype);
  int64_t bytes = call.elements * element;
  auto *source = static_cast<const uint8_t *>(call.source);
  switch (call.op) {
  case CollectiveOp::allReduce:
    if (!operation.twoPhases)
      return {source, bytes};
    if (operation.phase == 0)
      return {source + operation.chunkBegin(to) * element,
              operation.chunkCount(to) * element};
    return {static_cast<const uint8_t *>(call.destination) +
                operation.chunkBegin(call.self) * element,
            operation.chunkCount(call.self) * element};
  case CollectiveOp::reduceScatter:
  case CollectiveOp::allToAll:
    return {source + to * bytes, bytes};
  case CollectiveOp::allGather:
    return {source, bytes};
  case CollectiveOp::permute:
    if (to == ((call.self + call.shift) % size + size) % size)
      return {source, bytes};
    return {};
  case CollectiveOp::broadcast:
    if (call.self == call.root)
      return {source, bytes};
    return {};
  default:
    return {};
  }
}

std::pair<uint8_t *, int64_t> mpi::incoming(Operation &operation,
                                            int64_t from) {
  const CollectiveCall &call = operation.call;
  int64_t size = operation.size(), element = blockBytes(call.dtype);
  int64_t bytes = call.elements * element;
  auto *destination = static_cast<uint8_t *>(call.destination);
  switch (call.op) {
  case CollectiveOp::allReduce:
    if (operation.phase == 1)
      return {destination + operation.chunkBegin(from) * element,
              operation.chunkCount(from) * element};
    [[fallthrough]];
  case CollectiveOp::reduceScatter: {
    int64_t own = ownCount(operation) * element;
    return {operation.staging.data() + from * own, own};
  }
  case CollectiveOp::allGather:
  case CollectiveOp::allToAll:
    return {destination + from * bytes, bytes};
  case CollectiveOp::permute:
    if (from == ((call.self - call.shift) % size + size) % size)
      return {destination, bytes};
    return {nullptr, 0};
  case CollectiveOp::broadcast:
    if (from == call.root)
      return {destination, bytes};
    return {nullptr, 0};
  default:
    return {nullptr, 0};
  }
}

void mpi::reducePiece(const Operation &operation, int64_t firstBlock,
                      int64_t endBlock) {
  const CollectiveCall &call = operation.call;
  int64_t count = ownCount(operation), element = blockBytes(call.dtype);
  uint8_t *out = static_cast<uint8_t *>(call.destination);
  if (operation.twoPhases)
    out += operation.chunkBegin(call.self) * element;
  for (int64_t block = firstBlock; block < endBlock; ++block) {
    int64_t first = block * kReductionBlock;
    reduceBlock(
        call.dtype, call.reduction, operation.sources.data(), operation.size(),
        first, std::min(kReductionBlock, count - first), out + first * element);
  }
}
