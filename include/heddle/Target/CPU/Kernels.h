//===- Kernels.h - Native kernels from groups of model ops ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `schedule` outlines every group of fused ops into a *kernel function*: a
// private func.func marked `heddle.local` and `heddle.kernel`, with a straight
// line of model ops on local tensors. This library turns such functions into
// machine code.
//
// A kernel's machine-code signature is heddle::rt::KernelFn. Its operands are
// the function's arguments in order, then its results in order, except that a
// result listed in `heddle.aliases` = [array<i64: result, argument>, …] is
// updated in place and has no operand of its own. Those are the pools of
// cache_append. No operand that is written overlaps another one. The scalar
// block holds what `KernelInterface` lists.
//
// A group is one of
//   - a row program: ops that work on each token by itself, any number;
//   - one attention or sample, or linears of one input, with views
//   (split_heads,
//     merge_heads).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TARGET_CPU_KERNELS_H
#define HEDDLE_TARGET_CPU_KERNELS_H

#include "heddle/Dialect/Heddle/IR/HeddleDialect.h"

#include <string>
#include <vector>

namespace mlir::heddle::cpu {

/// What code generation knows of a processor. Tile sizes follow from it, so
/// that another processor is another record.
struct TargetRecord {
  /// LLVM's name of the processor whose instructions may be used, features
  /// beyond it ("+avx512vnni,…"), and the processor to schedule for.
  std::string cpu;
  std::string features;
  std::string tune;
  /// fp32 lanes of a vector, architectural vector registers.
  int64_t lanes = 8;
  int64_t registers = 16;
  int64_t l1Bytes = 32 << 10;
  int64_t l2Bytes = 512 << 10;
  /// Results that are larger are stored past the caches.
  int64_t streamBytes = 32 << 20;
  /// How far ahead streamed weights are asked for.
  int64_t prefetchBytes = 4 << 10;
  /// fp32 lanes of the widest register that instructions of `cpu` know;
  /// `lanes` may be more.
  int64_t nativeLanes = 8;
  bool vnni = false;
  bool bf16 = false;
  /// Tile registers with int8, with bf16 products.
  bool amxInt8 = false;
  bool amxBf16 = false;

  /// Features by the names that fb::Plan::cpu uses ("avx2", "fma", …).
  std::vector<std::string> required;

  /// This machine, as x86-64-v3 or v4 with extras; v3 if it is below that.
  static TargetRecord host();
  /// By name: "host" (fails below x86-64-v3), "x86-64-v3", "x86-64-v4".
  static FailureOr<TargetRecord> get(StringRef name);
};

/// What the launch of a kernel has to provide.
struct KernelInterface {
  /// Scalar i is the rank's coordinate over these axes, row major: the row of
  /// the rank tables over the same axes.
  SmallVector<SmallVector<AxisRefAttr>> coordinates;
  /// Whether a scalar follows: how many of the kernel's rows are valid. Later
  /// rows of results are undefined.
  bool hasExtent = false;
  /// Pieces of equal work; fixed by shapes and target, not by threads.
  int64_t tiles = 1;
};

/// The interface of one kernel function; fails, with a message, on an op that
/// has no lowering.
FailureOr<KernelInterface> getKernelInterface(func::FuncOp kernel,
                                              const TargetRecord &target);

/// Emits the kernel functions of `module` as scf, vector, arith and memref.
FailureOr<OwningOpRef<ModuleOp>> emitKernels(ModuleOp module,
                                             const TargetRecord &target);

/// Lowers what `emitKernels` gave to an ELF shared object.
FailureOr<std::vector<char>> compileKernels(ModuleOp emitted,
                                            const TargetRecord &target);

} // namespace mlir::heddle::cpu

#endif // HEDDLE_TARGET_CPU_KERNELS_H
