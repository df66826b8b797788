//===- SharedObjectTest.cpp - The object file, and what is refused ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRun.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace ::heddle::test;

namespace {

const char *const kAdd =
    "func.func private @k(%0: tensor<1x2x8xf32>) -> tensor<1x2x8xf32> "
    "attributes {heddle.local, heddle.kernel} {\n"
    "  %r = heddle.add %0, %0 : (tensor<1x2x8xf32>, tensor<1x2x8xf32>) -> "
    "tensor<1x2x8xf32>\n  return %r : tensor<1x2x8xf32>\n}\n";

/// Temporary files that the linker step made and left.
size_t leftovers() {
  SmallString<128> folder;
  llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, folder);
  std::error_code error;
  size_t count = 0;
  for (llvm::sys::fs::directory_iterator i(folder, error), end;
       i != end && !error; i.increment(error))
    count += llvm::sys::path::filename(i->path()).starts_with("heddle-kernels");
  return count;
}

/// All messages from compiling `text`; empty if it compiled.
std::string messages(const std::string &text,
                     const std::string &target = "x86-64-v3") {
  MLIRContext context;
  context.loadDialect<HeddleDialect, func::FuncDialect>();
  std::string all;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    all += diagnostic.str() + "\n";
    return success();
  });
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return "cannot parse: " + all;
  auto emitted = cpu::emitKernels(*module, *cpu::TargetRecord::get(target));
  EXPECT_EQ(failed(emitted), !all.empty());
  auto func = module->lookupSymbol<func::FuncOp>("k");
  std::string first = all;
  all.clear();
  auto interface =
      cpu::getKernelInterface(func, *cpu::TargetRecord::get(target));
  EXPECT_EQ(failed(interface), !first.empty());
  EXPECT_EQ(all, first);
  return first;
}

std::vector<char> compile(const std::string &text, const std::string &target) {
  MLIRContext context;
  context.loadDialect<HeddleDialect, func::FuncDialect>();
  auto module = parseSourceString<ModuleOp>(text, &context);
  cpu::TargetRecord record = *cpu::TargetRecord::get(target);
  auto emitted = cpu::emitKernels(*module, record);
  auto object = cpu::compileKernels(**emitted, record);
  EXPECT_TRUE(succeeded(object));
  return succeeded(object) ? *object : std::vector<char>();
}

} // namespace

// Two compilations give the same bytes, and leave nothing behind.
TEST(SharedObject, Deterministic) {
  size_t before = leftovers();
  std::vector<char> first = compile(kAdd, "x86-64-v3");
  EXPECT_EQ(first, compile(kAdd, "x86-64-v3"));
  EXPECT_GT(first.size(), 4u);
  EXPECT_EQ(std::string(first.begin() + 1, first.begin() + 4), "ELF");
  EXPECT_EQ(leftovers(), before);
}

// Every level can be compiled for, whatever this machine is.
TEST(SharedObject, Targets) {
  EXPECT_NE(compile(kAdd, "x86-64-v3"), compile(kAdd, "x86-64-v4"));
  EXPECT_TRUE(failed(cpu::TargetRecord::get("z80")));
  cpu::TargetRecord v4 = *cpu::TargetRecord::get("x86-64-v4");
  EXPECT_EQ(v4.lanes, 16);
  EXPECT_EQ(v4.registers, 32);
  EXPECT_TRUE(llvm::is_contained(v4.required, "avx512f"));
  cpu::TargetRecord v3 = *cpu::TargetRecord::get("x86-64-v3");
  EXPECT_EQ(v3.lanes, 8);
  EXPECT_FALSE(llvm::is_contained(v3.required, "avx512f"));
}

TEST(SharedObject, RefusesWhatHasNoKernel) {
  EXPECT_EQ(messages(kAdd), "");
  std::string x = "tensor<1x2x8xf32>", w = "tensor<8x8xf32>";
  EXPECT_EQ(
      messages(kernel({x, w},
                      "%a = heddle.add %0, %0 : (" + x + ", " + x + ") -> " +
                          x + "\n%r = heddle.linear %a, %1 : (" + x + ", " + w +
                          ") -> " + x + "\n return %r : " + x,
                      {x})),
      "'heddle.linear' op expected to be alone in its kernel, with views "
      "of its operands and results\n");
  EXPECT_EQ(messages(kernel({"tensor<1x?x8xf32>"}, "return", {})),
            "expected static local tensors in a kernel, got "
            "'tensor<1x?x8xf32>'\n");
  EXPECT_EQ(messages(kernel({}, "return", {})),
            "expected a kernel that computes something\n");
  // Rows are numbered by the dimensions that all ops have in common: one here,
  // and two where an op needs a position for each row.
  std::string y = "tensor<1x3x8xf32>";
  std::string addY =
      "%b = heddle.add %1, %1 : (" + y + ", " + y + ") -> " + y + "\n";
  EXPECT_EQ(
      messages(kernel({x, y},
                      "%a = heddle.add %0, %0 : (" + x + ", " + x + ") -> " +
                          x + "\n" + addY + " return %a, %b : " + x + ", " + y,
                      {x, y})),
      "");
  std::string p = "tensor<1x2xi32>", table = "tensor<1x2x4xf32>";
  EXPECT_EQ(messages(kernel({p, y},
                            "%a = heddle.rotary_table %0 <dim 4 theta 1.0e+4>"
                            " : (" +
                                p + ") -> " + table + "\n" + addY +
                                " return %a, %b : " + table + ", " + y,
                            {table, y})),
            "expected one value for each of 1x2 rows of the kernel, got "
            "'tensor<1x3x8xf32>'\n");
}

// Pools are named by heddle.aliases, and nothing else is.
TEST(SharedObject, RefusesWrongAliases) {
  std::string pool = "tensor<2x4x8xf32>", v = "tensor<1x2x8xf32>";
  std::string slots = "tensor<1x2xi32>";
  std::string body = "%r = heddle.cache_append %0, %1 at %2 : (" + pool + ", " +
                     v + ", " + slots + ") -> " + pool +
                     "\n return %r : " + pool;
  EXPECT_EQ(messages(kernel({pool, v, slots}, body, {pool},
                            "heddle.aliases = [array<i64: 0, 0>]")),
            "");
  EXPECT_EQ(
      messages(kernel({pool, v, slots}, body, {pool})),
      "expected heddle.aliases to name the results of cache_append and no "
      "others, got result 0\n");
  EXPECT_EQ(messages(kernel({pool, v, slots}, body, {pool},
                            "heddle.aliases = [array<i64: 0, 1>]")),
            "expected result 0 to have the type of argument 1 that it updates, "
            "got 'tensor<2x4x8xf32>'\n");
  EXPECT_EQ(messages(kernel({pool, v, slots}, body, {pool},
                            "heddle.aliases = [[0, 0]]")),
            "expected heddle.aliases to hold (result, argument) pairs, got [0, "
            "0]\n");
}
