//===- gguf_metadata.cpp - Typed lookups in a GGUF file's metadata --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implementation of heddle_rt/gguf.h over the entries that gguf_header.h finds.
//
//===----------------------------------------------------------------------===//

#include "checked.h"
#include "gguf.h"
#include "gguf_header.h"

#include <limits>

namespace heddle::rt {

using Type = GgufMetadata::Type;

namespace {

/// Any integer that a file can hold.
struct Integer {
  bool negative;
  uint64_t bits; // two's complement if negative
};

std::optional<Integer> loadInteger(Type type, const uint8_t *value) {
  auto ofSigned = [](int64_t value) {
    return Integer{value < 0, uint64_t(value)};
  };
  switch (type) {
  case Type::u8:
    return Integer{false, *value};
  case Type::u16:
    return Integer{false, loadUnaligned<uint16_t>(value)};
  case Type::u32:
    return Integer{false, loadUnaligned<uint32_t>(value)};
  case Type::u64:
    return Integer{false, loadUnaligned<uint64_t>(value)};
  case Type::i8:
    return ofSigned(int8_t(*value));
  case Type::i16:
    return ofSigned(loadUnaligned<int16_t>(value));
  case Type::i32:
    return ofSigned(loadUnaligned<int32_t>(value));
  case Type::i64:
    return ofSigned(loadUnaligned<int64_t>(value));
  default:
    return std::nullopt;
  }
}

std::optional<double> loadNumber(Type type, const uint8_t *value) {
  if (type == Type::f32)
    return loadUnaligned<float>(value);
  if (type == Type::f64)
    return loadUnaligned<double>(value);
  if (std::optional<Integer> integer = loadInteger(type, value))
    return integer->negative ? double(int64_t(integer->bits))
                             : double(integer->bits);
  return std::nullopt;
}

std::string describe(const GgufEntry &entry) {
  if (entry.type == Type::array)
    return "an array of " + std::to_string(entry.count) + " " +
           ggufTypeName(entry.elementType);
  if (std::optional<Integer> integer = loadInteger(entry.type, entry.value))
    return ggufTypeName(entry.type) + std::string(" ") +
           (integer->negative ? std::to_string(int64_t(integer->bits))
                              : std::to_string(integer->bits));
  return std::string("a value of type ") + ggufTypeName(entry.type);
}

/// Finds KEY and reports what was WANTED instead.
class Lookup {
public:
  Lookup(const GgufMetadata::Impl &impl, std::string_view key,
         std::string_view wanted)
      : impl(impl), key(key), wanted(wanted), entry(impl.find(key)) {}

  bool is(Type type) const { return entry && entry->type == type; }
  const GgufEntry &operator*() const { return *entry; }
  const GgufEntry *operator->() const { return entry; }
  explicit operator bool() const { return entry; }

  Status failure() const {
    std::string text = impl.file->path() + ": metadata key " + quote(key) +
                       ": expected " + std::string(wanted) + ", got ";
    return entry ? Status(Code::invalid_argument, text + describe(*entry))
                 : Status(Code::not_found, text + "no such key");
  }

private:
  const GgufMetadata::Impl &impl;
  std::string_view key;
  std::string_view wanted;
  const GgufEntry *entry;
};

std::string stringAt(const uint8_t *bytes, int64_t count) {
  return std::string(reinterpret_cast<const char *>(bytes), size_t(count));
}

} // namespace

Result<GgufMetadata> GgufMetadata::open(const std::string &path) {
  auto file = MappedFile::open(path);
  if (!file)
    return file.status();
  Problems problems;
  GgufHeader header =
      readGgufHeader(file.take(), /*withTensors=*/false, problems);
  if (!problems.empty())
    return problems.status();
  GgufMetadata metadata(header.metadata);
  std::optional<SplitName> split = parseSplitName(path);
  if (!split || split->number == 1 || !metadata.contains("split.count"))
    return metadata;
  // Only the first file of a set describes the model.
  return open(splitFileName({split->prefix, 1, split->count}));
}

const std::string &GgufMetadata::path() const { return impl->file->path(); }

const std::vector<std::string_view> &GgufMetadata::keys() const {
  return impl->keys;
}

bool GgufMetadata::contains(std::string_view key) const {
  return impl->find(key);
}

std::optional<Type> GgufMetadata::type(std::string_view key) const {
  const GgufEntry *entry = impl->find(key);
  return entry ? std::optional<Type>(entry->type) : std::nullopt;
}

std::optional<Type> GgufMetadata::elementType(std::string_view key) const {
  const GgufEntry *entry = impl->find(key);
  return entry && entry->type == Type::array
             ? std::optional<Type>(entry->elementType)
             : std::nullopt;
}

std::optional<int64_t> GgufMetadata::arraySize(std::string_view key) const {
  const GgufEntry *entry = impl->find(key);
  return entry && entry->type == Type::array
             ? std::optional<int64_t>(entry->count)
             : std::nullopt;
}

Result<std::string> GgufMetadata::getString(std::string_view key) const {
  Lookup found(*impl, key, "a string");
  if (!found.is(Type::string))
    return found.failure();
  return stringAt(found->value, found->count);
}

Result<uint64_t> GgufMetadata::getUnsigned(std::string_view key) const {
  Lookup found(*impl, key, "a non-negative integer");
  std::optional<Integer> integer;
  if (found)
    integer = loadInteger(found->type, found->value);
  if (!integer || integer->negative)
    return found.failure();
  return integer->bits;
}

Result<int64_t> GgufMetadata::getInteger(std::string_view key) const {
  Lookup found(*impl, key, "an integer below 2^63");
  std::optional<Integer> integer;
  if (found)
    integer = loadInteger(found->type, found->value);
  if (!integer || (!integer->negative && integer->bits > uint64_t(INT64_MAX)))
    return found.failure();
  return int64_t(integer->bits);
}

Result<double> GgufMetadata::getFloat(std::string_view key) const {
  Lookup found(*impl, key, "a number");
  std::optional<double> number;
  if (found)
    number = loadNumber(found->type, found->value);
  if (!number)
    return found.failure();
  return *number;
}

Result<bool> GgufMetadata::getBool(std::string_view key) const {
  Lookup found(*impl, key, "a bool");
  if (!found.is(Type::boolean))
    return found.failure();
  return *found->value != 0;
}

Result<std::vector<std::string>>
GgufMetadata::getStrings(std::string_view key) const {
  Lookup found(*impl, key, "an array of strings");
  if (!found.is(Type::array) || found->elementType != Type::string)
    return found.failure();
  std::vector<std::string> strings;
  strings.reserve(size_t(found->count));
  const uint8_t *next = found->value;
  for (int64_t i = 0; i < found->count; ++i) {
    int64_t length = int64_t(loadUnaligned<uint64_t>(next));
    strings.push_back(stringAt(next + 8, length));
    next += 8 + length;
  }
  return strings;
}

Result<std::vector<int64_t>>
GgufMetadata::getIntegers(std::string_view key) const {
  Lookup found(*impl, key, "an array of integers below 2^63");
  if (!found.is(Type::array))
    return found.failure();
  int64_t bytes = ggufTypeBytes(found->elementType);
  std::vector<int64_t> integers;
  for (int64_t i = 0; i < found->count; ++i) {
    std::optional<Integer> integer =
        loadInteger(found->elementType, found->value + i * bytes);
    if (!integer || (!integer->negative && integer->bits > uint64_t(INT64_MAX)))
      return found.failure();
    integers.push_back(int64_t(integer->bits));
  }
  return integers;
}

Result<std::vector<float>> GgufMetadata::getFloats(std::string_view key) const {
  Lookup found(*impl, key, "an array of numbers");
  if (!found.is(Type::array))
    return found.failure();
  int64_t bytes = ggufTypeBytes(found->elementType);
  std::vector<float> numbers;
  for (int64_t i = 0; i < found->count; ++i) {
    std::optional<double> number =
        loadNumber(found->elementType, found->value + i * bytes);
    if (!number)
      return found.failure();
    numbers.push_back(float(*number));
  }
  return numbers;
}

} // namespace heddle::rt
