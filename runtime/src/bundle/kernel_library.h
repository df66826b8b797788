//===- kernel_library.h - Loading generated code ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BUNDLE_KERNEL_LIBRARY_H
#define HEDDLE_RT_BUNDLE_KERNEL_LIBRARY_H

#include "heddle_rt/bundle.h"

namespace heddle::rt {

/// A shared object that lives in memory only.
class KernelLibrary {
public:
  KernelLibrary() = default;
  ~KernelLibrary();
  KernelLibrary(const KernelLibrary &) = delete;
  KernelLibrary &operator=(const KernelLibrary &) = delete;

  /// Loads `elf`; called at most once.
  Status load(std::string_view elf);
  /// The function of that name; null if there is none.
  KernelFn find(const std::string &symbol) const;

private:
  int file_ = -1;
  void *handle_ = nullptr;
};

} // namespace heddle::rt

#endif // HEDDLE_RT_BUNDLE_KERNEL_LIBRARY_H
