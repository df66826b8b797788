//===- cpu_features.cpp - What generated code may use ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/cpu_features.h"

#include "base/text.h"

#include <cerrno>
#include <cstring>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <sys/syscall.h>
#include <unistd.h>

namespace heddle::rt {
namespace {

/// 1 = present, 0 = absent, -1 = unknown name.
int cpuSupports(std::string_view feature) {
#if defined(__x86_64__)
// The builtin takes literals only. The names are LLVM's where the two differ.
#define FEATURE(llvmName, gccName)                                             \
  if (feature == llvmName)                                                     \
    return __builtin_cpu_supports(gccName) ? 1 : 0;
  FEATURE("sse2", "sse2")
  FEATURE("sse3", "sse3")
  FEATURE("ssse3", "ssse3")
  FEATURE("sse4.1", "sse4.1")
  FEATURE("sse4.2", "sse4.2")
  FEATURE("popcnt", "popcnt")
  FEATURE("avx", "avx")
  FEATURE("avx2", "avx2")
  FEATURE("fma", "fma")
  FEATURE("bmi", "bmi")
  FEATURE("bmi2", "bmi2")
  FEATURE("f16c", "f16c")
  FEATURE("lzcnt", "lzcnt")
  FEATURE("movbe", "movbe")
  FEATURE("avx512f", "avx512f")
  FEATURE("avx512cd", "avx512cd")
  FEATURE("avx512bw", "avx512bw")
  FEATURE("avx512dq", "avx512dq")
  FEATURE("avx512vl", "avx512vl")
  FEATURE("avx512ifma", "avx512ifma")
  FEATURE("avx512vbmi", "avx512vbmi")
  FEATURE("avx512vbmi2", "avx512vbmi2")
  FEATURE("avx512vnni", "avx512vnni")
  FEATURE("avx512bitalg", "avx512bitalg")
  FEATURE("avx512vpopcntdq", "avx512vpopcntdq")
  FEATURE("avx512bf16", "avx512bf16")
#undef FEATURE
  // Those that compilers name differently, or not at all.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  bool known = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0;
  if (feature == "amx-bf16")
    return known && (edx >> 22 & 1);
  if (feature == "amx-tile")
    return known && (edx >> 24 & 1);
  if (feature == "amx-int8")
    return known && (edx >> 25 & 1);
  known = __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0;
  if (feature == "avxvnni")
    return known && (eax >> 4 & 1);
#endif
  (void)feature;
  return -1;
}

/// Tile registers are off until a process asks Linux for them
/// (Documentation/arch/x86/xstate.rst).
Status enableTileRegisters() {
#if defined(__x86_64__) && defined(SYS_arch_prctl)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0)
    return {};
  return Status(Code::incompatible,
                concat("the bundle's kernels need tile registers (AMX), which "
                       "the operating system does not give to this process: ",
                       std::strerror(errno), "; compile with --cpu x86-64-v4"));
#else
  return {};
#endif
}

} // namespace

Status checkCpuFeatures(std::string_view features) {
  std::vector<std::string> absent, unknown;
  bool tiles = false;
  while (!features.empty()) {
    size_t comma = features.find(',');
    std::string_view name = features.substr(0, comma);
    features = comma == std::string_view::npos ? std::string_view()
                                               : features.substr(comma + 1);
    while (!name.empty() && (name.front() == ' ' || name.front() == '+'))
      name.remove_prefix(1);
    while (!name.empty() && name.back() == ' ')
      name.remove_suffix(1);
    if (name.empty())
      continue;
    tiles |= name == "amx-tile";
    int supported = cpuSupports(name);
    if (supported == 0)
      absent.push_back(std::string(name));
    else if (supported < 0)
      unknown.push_back(std::string(name));
  }
  if (!absent.empty())
    return Status(Code::incompatible,
                  concat("the bundle's kernels need CPU features that this "
                         "processor lacks: ",
                         joined(absent), "; compile for this processor"));
  if (!unknown.empty())
    return Status(Code::incompatible,
                  concat("the bundle's kernels need CPU features that this "
                         "runtime does not know: ",
                         joined(unknown)));
  return tiles ? enableTileRegisters() : Status();
}

} // namespace heddle::rt
