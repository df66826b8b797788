//===- bundle.h - The one file that the compiler makes ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Container: a 4 KiB header page, then sections at multiples of 4 KiB.
//
//   header   char magic[8] = "HEDDLEB1"; uint32 version; uint32 count;
//            count x { char id[32]; uint64 offset; uint64 length;
//                      uint64 xxh3_64 }
//   plan               FlatBuffers, schema/plan.fbs
//   kernels/x86_64     ELF shared object
//   contract           JSON: the report of `heddle-compile --report json`
//   provenance         JSON: options and versions
//   ir/<phase>         optional MLIR bytecode
//
// Little endian throughout. `open` verifies everything it will later rely on.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BUNDLE_H
#define HEDDLE_RT_BUNDLE_H

#include "heddle_rt/status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::rt {

namespace fb {
struct Plan;
} // namespace fb

constexpr uint32_t kBundleVersion = 1;
/// Version of the plan schema's meaning (fb::Plan::version).
constexpr int32_t kPlanVersion = 1;

/// The signature of every generated kernel: operand addresses, the scalar
/// block, and which of `tiles` equal pieces of the work to do.
using KernelFn = void (*)(void *const *operands, const int64_t *scalars,
                          int64_t tile, int64_t tiles);

/// A verified bundle, memory-mapped.
class Bundle {
public:
  virtual ~Bundle();

  static Result<std::shared_ptr<const Bundle>> open(const std::string &path);
  /// From bytes in memory (tests, fuzzers, Python).
  static Result<std::shared_ptr<const Bundle>>
  parse(std::vector<uint8_t> bytes);

  virtual const fb::Plan &plan() const = 0;
  /// Number of ranks: the product of the axis sizes.
  virtual int64_t worldSize() const = 0;
  /// A section's bytes; empty if absent.
  virtual std::string_view section(std::string_view id) const = 0;
  /// Loads the kernel library and resolves every symbol, once.
  virtual Result<std::vector<KernelFn>> kernels() const = 0;
};

struct BundleSection {
  std::string id;
  std::string_view bytes;
};

/// Lays out a container. Used by the compiler and by tests.
std::vector<uint8_t>
serializeBundle(const std::vector<BundleSection> &sections);

/// Writes to a temporary name beside `path`, syncs, renames. Writes to a device
/// or a pipe as it is.
Status writeFileAtomically(const std::string &path,
                           const std::vector<uint8_t> &bytes);

} // namespace heddle::rt

#endif // HEDDLE_RT_BUNDLE_H
