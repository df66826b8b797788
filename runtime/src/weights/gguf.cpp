//===- gguf.cpp - Reading GGUF models -------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implementation of gguf.h.
//
//===----------------------------------------------------------------------===//

#include "gguf.h"

#include "gguf_header.h"

#include <cctype>
#include <cstdio>

namespace heddle::rt {
namespace {

constexpr const char *kCountKey = "split.count";
constexpr const char *kNumberKey = "split.no";
constexpr const char *kTotalKey = "split.tensors.count";

class GgufWeights final : public FileWeights {
public:
  GgufWeights(std::string description, GgufMetadata metadata,
              std::vector<std::shared_ptr<const MappedFile>> files,
              std::vector<StoredTensor> tensors)
      : FileWeights(std::move(description), "gguf", std::move(files),
                    std::move(tensors)),
        metadata(std::move(metadata)) {}

  const GgufMetadata metadata;
};

/// Reads the files of a split set one after the other.
class SplitReader {
public:
  SplitReader(SplitName name, Problems &problems)
      : name(std::move(name)), problems(problems) {}

  std::vector<std::shared_ptr<const MappedFile>> files;
  std::vector<StoredTensor> tensors;
  std::shared_ptr<const GgufMetadata::Impl> metadata; // of the first file

  /// Reads them all. OPENED is file NAME.number, which has been read.
  void read(GgufHeader opened) {
    for (int64_t number = 1; number <= name.count; ++number) {
      if (number == name.number)
        add(number, std::move(opened));
      else
        readFile(number);
    }
    if (int64_t(files.size()) == name.count)
      checkTotal();
    sortByName(tensors, problems);
  }

private:
  void readFile(int64_t number) {
    std::string path = splitFileName({name.prefix, number, name.count});
    auto file = MappedFile::open(path);
    if (!file && file.status().code() == Code::not_found)
      return problems.add(Code::not_found, path,
                          "expected file " + std::to_string(number) +
                              " of a split set of " +
                              std::to_string(name.count) +
                              ", got no such file (incomplete download?)");
    if (!file)
      return problems.add(file.status().code(), path, file.status().message());
    Problems own;
    GgufHeader header = readGgufHeader(file.take(), /*withTensors=*/true, own);
    if (!own.empty())
      return problems.append(own);
    add(number, std::move(header));
  }

  void add(int64_t number, GgufHeader header) {
    checkSplitKeys(number, GgufMetadata(header.metadata));
    if (number == 1)
      metadata = header.metadata;
    files.push_back(header.metadata->file);
    for (StoredTensor &tensor : header.tensors)
      tensors.push_back(std::move(tensor));
  }

  void checkSplitKeys(int64_t number, const GgufMetadata &metadata) {
    expect(metadata, kNumberKey, number - 1);
    expect(metadata, kCountKey, name.count);
  }

  void checkTotal() {
    if (GgufMetadata(metadata).contains(kTotalKey))
      expect(GgufMetadata(metadata), kTotalKey, int64_t(tensors.size()));
  }

  void expect(const GgufMetadata &metadata, const char *key, int64_t wanted) {
    Result<int64_t> got = metadata.getInteger(key);
    if (got && *got == wanted)
      return;
    problems.add(Code::data_loss, metadata.path(),
                 "metadata key '" + std::string(key) + "': expected " +
                     std::to_string(wanted) + ", got " +
                     (got ? std::to_string(*got)
                      : got.status().code() == Code::not_found
                          ? std::string("no such key")
                          : std::string("no integer")));
  }

  SplitName name;
  Problems &problems;
};

Result<std::unique_ptr<WeightSource>> openSplit(const std::string &description,
                                                const std::string &path,
                                                GgufHeader header,
                                                int64_t count) {
  std::optional<SplitName> name = parseSplitName(path);
  if (!name || name->count != count)
    return Status(Code::invalid_argument,
                  path + ": metadata key '" + kCountKey +
                      "': expected a file name that ends in -NNNNN-of-" +
                      "NNNNN.gguf for a set of " + std::to_string(count) +
                      ", got " + quote(path.substr(path.rfind('/') + 1)));
  Problems problems;
  SplitReader reader(*name, problems);
  reader.read(std::move(header));
  if (!problems.empty())
    return problems.status();
  return std::unique_ptr<WeightSource>(std::make_unique<GgufWeights>(
      description, GgufMetadata(reader.metadata), std::move(reader.files),
      std::move(reader.tensors)));
}

} // namespace

std::optional<SplitName> parseSplitName(std::string_view path) {
  constexpr std::string_view pattern = "-00000-of-00000.gguf";
  if (path.size() < pattern.size())
    return std::nullopt;
  std::string_view tail = path.substr(path.size() - pattern.size());
  int64_t numbers[2] = {0, 0};
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '0') {
      if (tail[i] != pattern[i])
        return std::nullopt;
      continue;
    }
    if (tail[i] < '0' || tail[i] > '9')
      return std::nullopt;
    int64_t &number = numbers[i > 6];
    number = number * 10 + (tail[i] - '0');
  }
  auto [number, count] = numbers;
  if (number < 1 || number > count)
    return std::nullopt;
  return SplitName{std::string(path.substr(0, path.size() - tail.size())),
                   number, count};
}

std::string splitFileName(const SplitName &name) {
  char tail[64];
  std::snprintf(tail, sizeof(tail), "-%05d-of-%05d.gguf", int(name.number),
                int(name.count));
  return name.prefix + tail;
}

Result<std::unique_ptr<WeightSource>> openGguf(const std::string &description,
                                               const std::string &path) {
  auto file = MappedFile::open(path);
  if (!file)
    return file.status();
  Problems problems;
  GgufHeader header =
      readGgufHeader(file.take(), /*withTensors=*/true, problems);
  if (!problems.empty())
    return problems.status();
  GgufMetadata metadata(header.metadata);
  if (metadata.contains(kCountKey)) {
    Result<int64_t> count = metadata.getInteger(kCountKey);
    if (!count)
      return count.status();
    if (*count > 1)
      return openSplit(description, path, std::move(header), *count);
  }
  return std::unique_ptr<WeightSource>(std::make_unique<GgufWeights>(
      description, std::move(metadata),
      std::vector<std::shared_ptr<const MappedFile>>{header.metadata->file},
      std::move(header.tensors)));
}

const GgufMetadata *ggufMetadata(const WeightSource &source) {
  auto *weights = dynamic_cast<const GgufWeights *>(&source);
  return weights ? &weights->metadata : nullptr;
}

} // namespace heddle::rt
