//===- KernelRun.h - Compiles a kernel function and runs it -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_TARGET_KERNELRUN_H
#define HEDDLE_TEST_UNIT_TARGET_KERNELRUN_H

#include "heddle/Target/CPU/Kernels.h"

#include "mlir/IR/OwningOpRef.h"
#include "gtest/gtest.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

namespace heddle::test {

using Numbers = std::vector<double>;

/// "tensor<1x3xf32>"
std::string tensor(std::vector<int64_t> shape, const std::string &element);
/// A kernel function @k with these argument types (named %0, %1, …), a body
/// that ends in `return`, and result types.
std::string kernel(const std::vector<std::string> &arguments,
                   const std::string &body,
                   const std::vector<std::string> &results,
                   const std::string &attributes = "");

/// Uniform in [-scale, scale), the same on every machine.
Numbers randomNumbers(size_t count, uint64_t seed, double scale = 1.0);
/// Products of extents.
int64_t sizeOf(const std::vector<int64_t> &shape);

/// The processors that this machine can run code for.
std::vector<std::string> runnableTargets();
/// This processor without its tile registers; empty if it has none.
std::string targetWithoutTiles();
/// x86-64-v3 for which every result is larger than the caches.
std::string targetWithStreams();

/// One compiled kernel with guarded memory for its operands.
class KernelRun {
public:
  KernelRun(const std::string &text, const std::string &target);
  ~KernelRun();

  const mlir::heddle::cpu::KernelInterface &interface() const {
    return kernelInterface;
  }
  bool valid() const { return function != nullptr; }

  /// Stores numbers in the operand's type and gives what was stored.
  Numbers set(size_t operand, const Numbers &values);
  Numbers setRandom(size_t operand, double scale = 1.0);
  void setBytes(size_t operand, const std::vector<uint8_t> &bytes);
  std::vector<uint8_t> bytes(size_t operand) const;
  Numbers get(size_t operand) const;
  int64_t sizeOf(size_t operand) const;

  /// Runs with the interface's tiles, then with other numbers of tiles in other
  /// orders from the same initial memory: every byte must be the same. Operands
  /// that were never set start as NaN (or as the integer 0x7fc00000).
  void run(const std::vector<int64_t> &scalars = {});

private:
  /// Ends where a page begins that can be neither read nor written; the bytes
  /// before it hold a pattern.
  class Memory {
  public:
    Memory(mlir::RankedTensorType type);
    ~Memory();
    Memory(const Memory &) = delete;
    mlir::RankedTensorType type;
    int64_t size;
    uint8_t *data;
    /// Nothing was written before the data.
    bool isIntact() const;

  private:
    uint8_t *region;
    size_t pages;
  };
  using Function = void (*)(void *const *, const int64_t *, int64_t, int64_t);

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::heddle::cpu::KernelInterface kernelInterface;
  std::vector<std::unique_ptr<Memory>> operands;
  int file = -1;
  void *library = nullptr;
  Function function = nullptr;

  void runTiles(int64_t tiles, uint64_t seed,
                const std::vector<int64_t> &scalars);
};

/// |got - want| <= absolute + relative |want|, NaN equals NaN.
void expectNear(const Numbers &got, const Numbers &want, double absolute,
                double relative, const std::string &what);

/// Numbers in f16 or bf16, and what was stored.
std::vector<uint8_t> encodeHalves(const std::string &format,
                                  const Numbers &values);
Numbers decodeHalves(const std::string &format,
                     const std::vector<uint8_t> &bytes);

/// The value of element `i` of a row of blocks, straight from the format's
/// definition.
double decodeBlockElement(const std::string &format, const uint8_t *row,
                          int64_t i);
/// Random blocks with small scales, for `rows` rows of `columns`.
std::vector<uint8_t> randomBlocks(const std::string &format, int64_t rows,
                                  int64_t columns, uint64_t seed);
/// All elements of such rows.
Numbers decodeBlocks(const std::string &format,
                     const std::vector<uint8_t> &data, int64_t rows,
                     int64_t columns);

/// A packed matrix with the numbers that it stands for.
struct Panels {
  std::string type;
  std::vector<uint8_t> bytes;
  Numbers values;

  Panels(const std::string &format, int64_t n, int64_t k, uint64_t seed);
};

/// Blocks of activations, {fp32 scale, i32 sum, fp32 scale * sum, 0, 32 int8},
/// by the definition of heddle.quantize.
std::vector<uint8_t> quantise(const Numbers &x);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_TARGET_KERNELRUN_H
