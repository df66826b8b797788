//===- source.cpp - Opening weights by path -------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decides from a path, and from the first bytes of what lies there, which
// reader opens it.
//
//===----------------------------------------------------------------------===//

#include "checked.h"
#include "gguf.h"
#include "heddle_rt/weights.h"
#include "hf_folder.h"
#include "random_source.h"
#include "safetensors.h"

#include <filesystem>
#include <new>

namespace heddle::rt {
namespace {

bool endsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() &&
         text.substr(text.size() - suffix.size()) == suffix;
}

/// Opens a file whose name says nothing, as files of a download cache do.
Result<std::unique_ptr<WeightSource>> openByContent(const std::string &path) {
  auto file = MappedFile::open(path);
  if (!file)
    return file.status();
  const MappedFile &bytes = **file;
  if (bytes.size() >= 4 && bytes.text(0, 4) == "GGUF")
    return openGguf(path, path);
  if (bytes.size() > 8 && bytes.data()[8] == '{')
    return openSafetensors(path);
  bool zip = bytes.size() >= 4 && bytes.text(0, 4) == "PK\x03\x04";
  return Status(Code::invalid_argument,
                path +
                    ": expected a folder, a .safetensors or a .gguf file, "
                    "got " +
                    (zip ? "a zip archive (a PyTorch checkpoint?)"
                         : "a file of unknown format"));
}

Result<std::unique_ptr<WeightSource>> openPath(const std::string &path) {
  if (isRandomPath(path))
    return openRandom(path);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return openFolder(path);
  if (endsWith(path, ".gguf"))
    return openGguf(path, path);
  if (endsWith(path, ".safetensors"))
    return openSafetensors(path);
  if (endsWith(path, ".safetensors.index.json"))
    return openIndexed(path, path);
  return openByContent(path);
}

} // namespace

int64_t TensorInfo::elements() const {
  // A source's shapes have been checked; anyone else's overflow saturates.
  return checkedElements(shape).value_or(INT64_MAX);
}

WeightSource::~WeightSource() = default;

std::vector<std::string> WeightSource::notes() const { return {}; }

std::optional<uint64_t> WeightSource::seed() const { return std::nullopt; }

void WeightSource::release(const uint8_t *, int64_t) const {}

Result<std::unique_ptr<WeightSource>>
WeightSource::open(const std::string &path) {
  try {
    return openPath(path);
  } catch (const std::bad_alloc &) {
    return Status(Code::resource_exhausted,
                  path + ": out of memory while reading the headers");
  }
}

} // namespace heddle::rt
