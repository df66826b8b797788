//===- kernel_library.cpp - Loading generated code ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/kernel_library.h"

#include "base/text.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
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
#if !defined(__clang__)
  FEATURE("avxvnni", "avxvnni")
  FEATURE("avx512fp16", "avx512fp16")
  FEATURE("amx-tile", "amx-tile")
  FEATURE("amx-int8", "amx-int8")
  FEATURE("amx-bf16", "amx-bf16")
#endif
#undef FEATURE
#endif
  (void)feature;
  return -1;
}

} // namespace

Status checkCpuFeatures(std::string_view features) {
  std::vector<std::string> absent, unknown;
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
  return {};
}

KernelLibrary::~KernelLibrary() {
  if (handle_)
    dlclose(handle_);
  if (file_ >= 0)
    close(file_);
}

Status KernelLibrary::load(std::string_view elf) {
  file_ = memfd_create("heddle-kernels", MFD_CLOEXEC);
  if (file_ < 0)
    return Status(
        Code::resource_exhausted,
        concat("cannot create memory for the kernels: ", std::strerror(errno)));
  for (size_t done = 0; done < elf.size();) {
    ssize_t written = ::write(file_, elf.data() + done, elf.size() - done);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return Status(Code::resource_exhausted,
                    concat("cannot copy the kernels: ", std::strerror(errno)));
    done += static_cast<size_t>(written);
  }
  // The descriptor stays open as long as the library: dlopen compares paths,
  // and a second bundle whose file got the same number would be taken for this
  // one.
  std::string path = concat("/proc/self/fd/", file_);
  handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle_) {
    const char *reason = dlerror();
    return Status(Code::incompatible, concat("cannot load the kernels: ",
                                             reason ? reason : "no reason"));
  }
  return {};
}

KernelFn KernelLibrary::find(const std::string &symbol) const {
  return reinterpret_cast<KernelFn>(dlsym(handle_, symbol.c_str()));
}

} // namespace heddle::rt
