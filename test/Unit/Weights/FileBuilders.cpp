//===- FileBuilders.cpp - Writes model files for tests --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implementation of FileBuilders.h.
//
//===----------------------------------------------------------------------===//

#include "FileBuilders.h"

#include "gtest/gtest.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace heddle::rt::test {
namespace fs = std::filesystem;

TempFolder::TempFolder() {
  std::error_code error;
  std::string pattern =
      (fs::temp_directory_path(error) / "heddle-weights-XXXXXX").string();
  const char *made = ::mkdtemp(pattern.data());
  EXPECT_NE(made, nullptr) << pattern;
  path_ = pattern;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string TempFolder::write(const std::string &name,
                              const std::string &bytes) const {
  std::string path = *this / name;
  std::error_code ignored;
  fs::create_directories(fs::path(path).parent_path(), ignored);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), std::streamsize(bytes.size()));
  file.close();
  EXPECT_TRUE(file.good()) << path;
  return path;
}

void TempFolder::remove(const std::string &name) const {
  std::error_code error;
  EXPECT_TRUE(fs::remove(*this / name, error)) << name;
}

std::string safetensors(const std::string &header, const std::string &data) {
  return bytesOf<uint64_t>(header.size()) + header + data;
}

std::string safetensors(const std::vector<FloatTensor> &tensors) {
  std::string header = "{", data;
  for (const FloatTensor &tensor : tensors) {
    std::string bytes = bytesOf(tensor.values);
    header += (header == "{" ? "\"" : ",\"") + tensor.name +
              R"(":{"dtype":"F32","shape":[)" +
              std::to_string(tensor.values.size()) + R"(],"data_offsets":[)" +
              std::to_string(data.size()) + "," +
              std::to_string(data.size() + bytes.size()) + "]}";
    data += bytes;
  }
  return safetensors(header + "}", data);
}

std::string ggufString(const std::string &text) {
  return bytesOf<uint64_t>(text.size()) + text;
}

GgufBuilder &GgufBuilder::value(const std::string &key, uint32_t type,
                                const std::string &bytes) {
  entries += ggufString(key) + bytesOf(type) + bytes;
  ++entryCount;
  return *this;
}

GgufBuilder &GgufBuilder::u32(const std::string &key, uint32_t value_) {
  return value(key, 4, bytesOf(value_));
}

GgufBuilder &GgufBuilder::string(const std::string &key,
                                 const std::string &text) {
  return value(key, 8, ggufString(text));
}

GgufBuilder &GgufBuilder::strings(const std::string &key,
                                  const std::vector<std::string> &values) {
  std::string bytes = bytesOf<uint32_t>(8) + bytesOf<uint64_t>(values.size());
  for (const std::string &text : values)
    bytes += ggufString(text);
  return value(key, 9, bytes);
}

GgufBuilder &GgufBuilder::tensor(const std::string &name,
                                 std::vector<uint64_t> ne, uint32_t type,
                                 const std::string &bytes) {
  data.resize((data.size() + alignment - 1) / alignment * alignment);
  describe(name, std::move(ne), type, data.size());
  data += bytes;
  return *this;
}

GgufBuilder &GgufBuilder::describe(const std::string &name,
                                   std::vector<uint64_t> ne, uint32_t type,
                                   uint64_t offset) {
  tensors += ggufString(name) + bytesOf<uint32_t>(uint32_t(ne.size())) +
             bytesOf(ne) + bytesOf(type) + bytesOf(offset);
  ++tensorCount;
  return *this;
}

std::string GgufBuilder::build() const {
  std::string out = magic + bytesOf(version) + bytesOf(tensorCount) +
                    bytesOf(entryCount) + entries + tensors;
  if (tensorCount)
    out.resize((out.size() + alignment - 1) / alignment * alignment);
  return out + data;
}

std::string openError(const std::string &path) {
  auto source = WeightSource::open(path);
  return source ? std::string() : source.status().message();
}

std::vector<float> floatsOf(const WeightSource &source,
                            const std::string &name) {
  const TensorInfo *info = source.find(name);
  if (!info)
    return {};
  auto data = source.data(*info);
  if (!data)
    return {};
  std::vector<float> values(size_t(info->elements()));
  decodeToFloat(info->dtype, *data, 0, info->elements(), values.data());
  return values;
}

} // namespace heddle::rt::test
