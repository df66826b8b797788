//===- FileBuilders.h - Writes model files for tests ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Small builders of safetensors and GGUF bytes, right or wrong as the test
// likes, and a folder that goes away at the end of the test.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_WEIGHTS_FILEBUILDERS_H
#define HEDDLE_TEST_UNIT_WEIGHTS_FILEBUILDERS_H

#include "heddle_rt/weights.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace heddle::rt::test {

/// The bytes of VALUE as they lie in a file.
template <typename T> std::string bytesOf(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

template <typename T> std::string bytesOf(const std::vector<T> &values) {
  std::string out;
  for (T value : values)
    out += bytesOf(value);
  return out;
}

/// A folder of its own for each test.
class TempFolder {
public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder &) = delete;
  TempFolder &operator=(const TempFolder &) = delete;

  const std::string &path() const { return path_; }
  std::string operator/(const std::string &name) const {
    return path_ + "/" + name;
  }
  /// Writes a file and returns its path. Folders in NAME are created.
  std::string write(const std::string &name, const std::string &bytes) const;
  void remove(const std::string &name) const;

private:
  std::string path_;
};

/// A safetensors file of that header and data.
std::string safetensors(const std::string &header, const std::string &data);

/// A safetensors file of one-dimensional F32 tensors.
struct FloatTensor {
  std::string name;
  std::vector<float> values;
};
std::string safetensors(const std::vector<FloatTensor> &tensors);

/// Builds GGUF bytes.
class GgufBuilder {
public:
  explicit GgufBuilder(uint32_t version = 3) : version(version) {}

  GgufBuilder &u32(const std::string &key, uint32_t value);
  GgufBuilder &string(const std::string &key, const std::string &value);
  GgufBuilder &strings(const std::string &key,
                       const std::vector<std::string> &values);
  /// A value of any type, given as bytes.
  GgufBuilder &value(const std::string &key, uint32_t type,
                     const std::string &bytes);
  template <typename T>
  GgufBuilder &array(const std::string &key, uint32_t elementType,
                     const std::vector<T> &values) {
    return value(key, 9,
                 bytesOf(elementType) + bytesOf<uint64_t>(values.size()) +
                     bytesOf(values));
  }

  /// A tensor whose data is appended at the next aligned offset. NE is
  /// innermost first.
  GgufBuilder &tensor(const std::string &name, std::vector<uint64_t> ne,
                      uint32_t type, const std::string &data);
  /// A description that need not be true.
  GgufBuilder &describe(const std::string &name, std::vector<uint64_t> ne,
                        uint32_t type, uint64_t offset);

  uint64_t alignment = 32;
  std::string magic = "GGUF";
  std::string build() const;

private:
  uint32_t version;
  uint64_t entryCount = 0, tensorCount = 0;
  std::string entries, tensors, data;
};

/// A string as GGUF stores it.
std::string ggufString(const std::string &text);

/// The message of the failure to open PATH, or "" if it opens.
std::string openError(const std::string &path);

/// The floats of a tensor; empty if it is not there.
std::vector<float> floatsOf(const WeightSource &source,
                            const std::string &name);

} // namespace heddle::rt::test

#endif // HEDDLE_TEST_UNIT_WEIGHTS_FILEBUILDERS_H
