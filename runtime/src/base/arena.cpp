//===- arena.cpp - One block of memory per space and rank -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/arena.h"

#include "base/text.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <utility>

namespace heddle::rt {

Arena::~Arena() {
  if (data_)
    munmap(data_, static_cast<size_t>(mapped_));
}

Arena::Arena(Arena &&other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

Arena &Arena::operator=(Arena &&other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

Result<Arena> Arena::allocate(int64_t bytes) {
  constexpr int64_t kPage = 4096;
  constexpr int64_t kHugePage = int64_t{2} << 20;
  if (bytes < 0 || bytes > (int64_t{1} << 46))
    return Status(Code::invalid_argument,
                  concat("expected an arena of 0 to 2^46 bytes, got ", bytes));
  Arena arena;
  // An empty arena still has an address, so that operands of 0 bytes have one.
  int64_t mapped = (bytes / kPage + 1) * kPage;
  void *address =
      mmap(nullptr, static_cast<size_t>(mapped), PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    return Status(Code::resource_exhausted,
                  concat("cannot map an arena of ", bytes,
                         " bytes: ", std::strerror(errno)));
  arena.data_ = static_cast<uint8_t *>(address);
  arena.bytes_ = bytes;
  arena.mapped_ = mapped;
  // Only a hint; small arenas would grow by rounding.
  if (bytes >= 4 * kHugePage)
    (void)madvise(address, static_cast<size_t>(mapped), MADV_HUGEPAGE);
  return arena;
}

void fillPattern(uint8_t *out, int64_t bytes, uint32_t pattern) {
  int64_t words = bytes / 4;
  for (int64_t i = 0; i < words; ++i)
    std::memcpy(out + 4 * i, &pattern, 4);
  if (bytes % 4 != 0)
    std::memcpy(out + 4 * words, &pattern, static_cast<size_t>(bytes % 4));
}

} // namespace heddle::rt
