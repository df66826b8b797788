//===- gguf.h - Metadata of a GGUF file -------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A GGUF file carries the model's hyper-parameters (llama.*) and its tokenizer
// as typed key-value pairs.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_GGUF_H
#define HEDDLE_RT_GGUF_H

#include "heddle_rt/status.h"
#include "heddle_rt/weights.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::rt {

/// The key-value pairs of one GGUF file, or of a split set's first file. Copies
/// share the mapped file. Lookups fail with Code::not_found if there is no such
/// key and with Code::invalid_argument if its value is of another type or does
/// not fit; both messages name the file and the key.
class GgufMetadata {
public:
  /// Value types, numbered as in files.
  enum class Type : uint32_t {
    u8 = 0,
    i8 = 1,
    u16 = 2,
    i16 = 3,
    u32 = 4,
    i32 = 5,
    f32 = 6,
    boolean = 7,
    string = 8,
    array = 9,
    u64 = 10,
    i64 = 11,
    f64 = 12,
  };

  /// Reads the metadata of PATH, a .gguf file or any of a split set. Tensors
  /// are not looked at, so that a file cut short in its data can be opened.
  static Result<GgufMetadata> open(const std::string &path);

  /// The file that was read.
  const std::string &path() const;

  /// All keys, in the file's order. The views live as long as any copy of this.
  const std::vector<std::string_view> &keys() const;
  bool contains(std::string_view key) const;
  /// The type of KEY's value; nothing if there is no such key.
  std::optional<Type> type(std::string_view key) const;
  /// The type of the elements of KEY's array; nothing if it is not an array.
  std::optional<Type> elementType(std::string_view key) const;
  /// The number of elements of KEY's array; nothing if it is not an array.
  std::optional<int64_t> arraySize(std::string_view key) const;

  Result<std::string> getString(std::string_view key) const;
  /// Any integer type, as long as the value fits.
  Result<uint64_t> getUnsigned(std::string_view key) const;
  Result<int64_t> getInteger(std::string_view key) const;
  /// Any float or integer type.
  Result<double> getFloat(std::string_view key) const;
  Result<bool> getBool(std::string_view key) const;

  Result<std::vector<std::string>> getStrings(std::string_view key) const;
  /// An array of any integer type whose values all fit.
  Result<std::vector<int64_t>> getIntegers(std::string_view key) const;
  /// An array of any float or integer type, rounded to float.
  Result<std::vector<float>> getFloats(std::string_view key) const;

  struct Impl;
  explicit GgufMetadata(std::shared_ptr<const Impl> impl)
      : impl(std::move(impl)) {}

private:
  std::shared_ptr<const Impl> impl;
};

/// The name of a value type: "u32", "string".
const char *ggufTypeName(GgufMetadata::Type type);

/// The metadata of a source whose format is "gguf"; null for others. Lives as
/// long as the source.
const GgufMetadata *ggufMetadata(const WeightSource &source);

} // namespace heddle::rt

#endif // HEDDLE_RT_GGUF_H
