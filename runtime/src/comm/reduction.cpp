//===- reduction.cpp - Sums in ascending order ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/reduction.h"

#include "base/half.h"
#include "base/text.h"

#include <cstring>

namespace heddle::rt {
namespace {

template <typename T> T load(const void *base, int64_t index) {
  return static_cast<const T *>(base)[index];
}

struct F32 {
  using Stored = float;
  using Accumulator = float;
  static float widen(float value) { return value; }
  static float narrow(float value) { return value; }
};
struct F16 {
  using Stored = uint16_t;
  using Accumulator = float;
  static float widen(uint16_t value) { return fromF16(value); }
  static uint16_t narrow(float value) { return toF16(value); }
};
struct BF16 {
  using Stored = uint16_t;
  using Accumulator = float;
  static float widen(uint16_t value) { return fromBf16(value); }
  static uint16_t narrow(float value) { return toBf16(value); }
};
// Unsigned addition wraps around; comparisons need the signed type.
struct I32 {
  using Stored = int32_t;
  using Accumulator = int32_t;
  static int32_t widen(int32_t value) { return value; }
  static int32_t narrow(int32_t value) { return value; }
};
struct I64 {
  using Stored = int64_t;
  using Accumulator = int64_t;
  static int64_t widen(int64_t value) { return value; }
  static int64_t narrow(int64_t value) { return value; }
};

inline float sumOf(float a, float b) { return a + b; }
inline int32_t sumOf(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) +
                              static_cast<uint32_t>(b));
}
inline int64_t sumOf(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) +
                              static_cast<uint64_t>(b));
}

template <typename Type>
void reduce(ReduceOp op, const void *const *sources, int64_t ranks,
            int64_t first, int64_t count, void *out) {
  using Stored = typename Type::Stored;
  using Accumulator = typename Type::Accumulator;
  Accumulator acc[kReductionBlock];
  const Stored *source = static_cast<const Stored *>(sources[0]) + first;
  for (int64_t i = 0; i < count; ++i)
    acc[i] = Type::widen(source[i]);
  for (int64_t r = 1; r < ranks; ++r) {
    source = static_cast<const Stored *>(sources[r]) + first;
    switch (op) {
    case ReduceOp::sum:
      for (int64_t i = 0; i < count; ++i)
        acc[i] = sumOf(acc[i], Type::widen(source[i]));
      break;
    case ReduceOp::max:
      for (int64_t i = 0; i < count; ++i) {
        Accumulator x = Type::widen(source[i]);
        acc[i] = x > acc[i] || x != x ? x : acc[i];
      }
      break;
    case ReduceOp::min:
      for (int64_t i = 0; i < count; ++i) {
        Accumulator x = Type::widen(source[i]);
        acc[i] = x < acc[i] || x != x ? x : acc[i];
      }
      break;
    }
  }
  Stored *result = static_cast<Stored *>(out);
  for (int64_t i = 0; i < count; ++i)
    result[i] = Type::narrow(acc[i]);
}

bool overlaps(const void *a, int64_t bytesA, const void *b, int64_t bytesB) {
  uintptr_t x = reinterpret_cast<uintptr_t>(a);
  uintptr_t y = reinterpret_cast<uintptr_t>(b);
  return bytesA > 0 && bytesB > 0 && x < y + static_cast<uint64_t>(bytesB) &&
         y < x + static_cast<uint64_t>(bytesA);
}

} // namespace

bool isReducible(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 ||
         dtype == DType::i32 || dtype == DType::i64;
}

void reduceBlock(DType dtype, ReduceOp op, const void *const *sources,
                 int64_t ranks, int64_t first, int64_t count, void *out) {
  switch (dtype) {
  case DType::f32:
    return reduce<F32>(op, sources, ranks, first, count, out);
  case DType::f16:
    return reduce<F16>(op, sources, ranks, first, count, out);
  case DType::bf16:
    return reduce<BF16>(op, sources, ranks, first, count, out);
  case DType::i32:
    return reduce<I32>(op, sources, ranks, first, count, out);
  case DType::i64:
    return reduce<I64>(op, sources, ranks, first, count, out);
  default:
    return; // excluded by isReducible
  }
}

const char *collectiveName(CollectiveOp op) {
  switch (op) {
  case CollectiveOp::allReduce:
    return "all_reduce";
  case CollectiveOp::reduceScatter:
    return "reduce_scatter";
  case CollectiveOp::allGather:
    return "all_gather";
  case CollectiveOp::allToAll:
    return "all_to_all";
  case CollectiveOp::permute:
    return "permute";
  case CollectiveOp::broadcast:
    return "broadcast";
  case CollectiveOp::send:
    return "send";
  case CollectiveOp::recv:
    return "recv";
  }
  return "collective";
}

const char *reductionName(ReduceOp op) {
  switch (op) {
  case ReduceOp::sum:
    return "sum";
  case ReduceOp::max:
    return "max";
  case ReduceOp::min:
    return "min";
  }
  return "reduction";
}

std::string describe(const CollectiveCall &call) {
  std::string text = collectiveName(call.op);
  switch (call.op) {
  case CollectiveOp::allReduce:
  case CollectiveOp::reduceScatter:
    text += concat(" ", reductionName(call.reduction));
    break;
  case CollectiveOp::permute:
    text += concat(" shift ", call.shift);
    break;
  case CollectiveOp::broadcast:
    text += concat(" root ", call.root);
    break;
  case CollectiveOp::send:
  case CollectiveOp::recv:
    return concat(text, call.op == CollectiveOp::send ? " to" : " from",
                  " rank ", call.peer, " tag ", call.tag, " of ", call.elements,
                  " ", dtypeName(call.dtype), " elements");
  default:
    break;
  }
  return concat(text, " of ", call.elements, " ", dtypeName(call.dtype),
                " elements (id ", call.id, ")");
}

std::string mismatch(const CollectiveCall &a, int32_t rankA,
                     const CollectiveCall &b, int32_t rankB) {
  bool reduces =
      a.op == CollectiveOp::allReduce || a.op == CollectiveOp::reduceScatter;
  if (a.op == b.op && a.id == b.id && a.dtype == b.dtype &&
      a.elements == b.elements && (!reduces || a.reduction == b.reduction) &&
      (a.op != CollectiveOp::permute || a.shift == b.shift) &&
      (a.op != CollectiveOp::broadcast || a.root == b.root))
    return {};
  return concat("mismatched collectives in the group of ranks {",
                joined(*a.group), "}: rank ", rankA, " calls ", describe(a),
                ", rank ", rankB, " calls ", describe(b));
}

Status checkCall(int64_t worldSize, int32_t rank, const CollectiveCall &call) {
  auto invalid = [&](const std::string &what) {
    return Status(Code::invalid_argument,
                  concat("rank ", rank, ", ", describe(call), ": ", what));
  };
  if (rank < 0 || rank >= worldSize)
    return invalid(concat("expected a rank below ", worldSize));
  if (call.elements < 0 || blockElements(call.dtype) != 1)
    return invalid("expected a number of plain elements");
  if (call.op == CollectiveOp::send || call.op == CollectiveOp::recv) {
    if (call.peer < 0 || call.peer >= worldSize || call.peer == rank)
      return invalid(concat("expected another rank below ", worldSize));
    return {};
  }
  if (!call.group || call.group->empty() || call.self < 0 ||
      static_cast<size_t>(call.self) >= call.group->size() ||
      (*call.group)[static_cast<size_t>(call.self)] != rank)
    return invalid("expected a group that the rank is a member of");
  int64_t size = static_cast<int64_t>(call.group->size());
  int64_t bytes = call.elements * blockBytes(call.dtype);
  switch (call.op) {
  case CollectiveOp::allReduce:
  case CollectiveOp::reduceScatter:
    if (!isReducible(call.dtype))
      return invalid("expected f32, f16, bf16, i32 or i64 elements");
    break;
  case CollectiveOp::permute:
    if (call.shift % size != 0 &&
        overlaps(call.source, bytes, call.destination, bytes))
      return invalid("expected a destination apart from the source");
    break;
  case CollectiveOp::allToAll:
    if (size > 1 &&
        overlaps(call.source, size * bytes, call.destination, size * bytes))
      return invalid("expected a destination apart from the source");
    break;
  case CollectiveOp::broadcast:
    if (call.root < 0 || call.root >= size)
      return invalid(concat("expected a root below ", size));
    break;
  default:
    break;
  }
  return {};
}

} // namespace heddle::rt
