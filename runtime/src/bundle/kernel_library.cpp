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
