//===- mapped_file.cpp - A file in memory, read-only ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implementation of mapped_file.h.
//
//===----------------------------------------------------------------------===//

#include "mapped_file.h"

#include "problems.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace heddle::rt {
namespace {

Status systemError(const std::string &path, const char *action) {
  Code code = errno == ENOENT || errno == ENOTDIR ? Code::not_found
              : errno == ENOMEM                   ? Code::resource_exhausted
                                                  : Code::invalid_argument;
  return {code, path + ": cannot " + action + ": " + std::strerror(errno)};
}

struct FileDescriptor {
  int fd;
  ~FileDescriptor() {
    if (fd >= 0)
      ::close(fd);
  }
};

} // namespace

Result<std::shared_ptr<const MappedFile>>
MappedFile::open(const std::string &path) {
  if (path.find('\0') != std::string::npos)
    return Status(Code::invalid_argument,
                  "path " + quote(path) + ": expected no NUL byte, got one");
  // Non-blocking, or opening a named pipe would wait for its writer.
  FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0)
    return systemError(path, "open");
  struct stat info;
  if (::fstat(file.fd, &info) != 0)
    return systemError(path, "stat");
  if (!S_ISREG(info.st_mode))
    return Status(Code::invalid_argument,
                  path + ": expected a regular file, got " +
                      (S_ISDIR(info.st_mode) ? "a folder" : "a special file"));
  const uint8_t *data = nullptr;
  if (info.st_size > 0) {
    void *address = ::mmap(nullptr, size_t(info.st_size), PROT_READ, MAP_SHARED,
                           file.fd, 0);
    if (address == MAP_FAILED)
      return systemError(path, "map");
    data = static_cast<const uint8_t *>(address);
  }
  return std::shared_ptr<const MappedFile>(
      new MappedFile(path, data, int64_t(info.st_size), /*owned=*/true));
}

std::shared_ptr<const MappedFile>
MappedFile::borrow(std::string path, const uint8_t *data, int64_t size) {
  return std::shared_ptr<const MappedFile>(
      new MappedFile(std::move(path), data, size, /*owned=*/false));
}

MappedFile::~MappedFile() {
  if (owned_ && data_)
    ::munmap(const_cast<uint8_t *>(data_), size_t(size_));
}

bool MappedFile::contains(const uint8_t *begin, int64_t bytes) const {
  // Compared as integers: the pointers may belong to different objects.
  auto first = reinterpret_cast<uintptr_t>(data_);
  auto wanted = reinterpret_cast<uintptr_t>(begin);
  return data_ && bytes >= 0 && wanted >= first &&
         wanted - first <= uintptr_t(size_) &&
         uintptr_t(bytes) <= uintptr_t(size_) - (wanted - first);
}

void MappedFile::release(const uint8_t *begin, int64_t bytes) const {
  if (!owned_ || bytes <= 0)
    return;
  // Consecutive ranges meet inside a page: the first leaves that page to the
  // second, so that nothing is fetched twice and nothing stays behind.
  int64_t page = ::sysconf(_SC_PAGESIZE);
  int64_t first = (begin - data_) / page * page;
  int64_t last = begin - data_ + bytes;
  if (last != size_)
    last = last / page * page;
  if (first < last)
    ::madvise(const_cast<uint8_t *>(data_) + first, size_t(last - first),
              MADV_DONTNEED);
}

} // namespace heddle::rt
