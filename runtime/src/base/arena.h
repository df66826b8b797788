//===- arena.h - One block of memory per space and rank ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BASE_ARENA_H
#define HEDDLE_RT_BASE_ARENA_H

#include "heddle_rt/status.h"

#include <cstdint>

namespace heddle::rt {

/// Anonymous zeroed memory, 4 KiB aligned, with huge pages where the kernel
/// grants them. Pages become resident when they are first touched.
class Arena {
public:
  Arena() = default;
  ~Arena();
  Arena(Arena &&other) noexcept;
  Arena &operator=(Arena &&other) noexcept;
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  static Result<Arena> allocate(int64_t bytes);

  uint8_t *data() const { return data_; }
  int64_t bytes() const { return bytes_; }

private:
  uint8_t *data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t mapped_ = 0;
};

/// Repeats a 32-bit pattern; a tail of 1 to 3 bytes gets its first bytes.
void fillPattern(uint8_t *out, int64_t bytes, uint32_t pattern);

} // namespace heddle::rt

#endif // HEDDLE_RT_BASE_ARENA_H
