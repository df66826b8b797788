//===- mapped_file.h - A file in memory, read-only --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// RAII over mmap. The mapping lives as long as the object; tensors point into
// it and nothing is copied. A file that another process cuts short while it is
// mapped raises SIGBUS on access: writers must replace files by rename.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_WEIGHTS_MAPPED_FILE_H
#define HEDDLE_WEIGHTS_MAPPED_FILE_H

#include "heddle_rt/status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace heddle::rt {

class MappedFile {
public:
  /// Maps the regular file PATH. An empty file has size 0 and no mapping.
  static Result<std::shared_ptr<const MappedFile>>
  open(const std::string &path);

  /// Presents bytes that the caller keeps alive as a file called PATH.
  static std::shared_ptr<const MappedFile>
  borrow(std::string path, const uint8_t *data, int64_t size);

  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const std::string &path() const { return path_; }
  const uint8_t *data() const { return data_; }
  int64_t size() const { return size_; }
  std::string_view text(int64_t begin, int64_t bytes) const {
    return {reinterpret_cast<const char *>(data_) + begin, size_t(bytes)};
  }

  /// True if [begin, begin + bytes) lies in this file.
  bool contains(const uint8_t *begin, int64_t bytes) const;

  /// Drops the pages that [begin, begin + bytes), which must lie in this file,
  /// fills from its first page to its last whole one. Reading them again is
  /// allowed and fetches them from the file.
  void release(const uint8_t *begin, int64_t bytes) const;

private:
  MappedFile(std::string path, const uint8_t *data, int64_t size, bool owned)
      : path_(std::move(path)), data_(data), size_(size), owned_(owned) {}

  std::string path_;
  const uint8_t *data_;
  int64_t size_;
  bool owned_;
};

} // namespace heddle::rt

#endif // HEDDLE_WEIGHTS_MAPPED_FILE_H
