//===- gguf_header.h - The header of one GGUF file --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Versions 2 and 3: a magic, counts, typed key-value pairs, tensor
// descriptions, then aligned tensor data. Nothing is allocated from a count
// before the file is known to be long enough for it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_WEIGHTS_GGUF_HEADER_H
#define HEDDLE_WEIGHTS_GGUF_HEADER_H

#include "file_weights.h"
#include "heddle_rt/gguf.h"

namespace heddle::rt {

/// A key-value pair, in place.
struct GgufEntry {
  std::string_view key;
  GgufMetadata::Type type = GgufMetadata::Type::u8;
  /// For arrays: the type of the elements.
  GgufMetadata::Type elementType = GgufMetadata::Type::u8;
  /// Arrays: elements. Strings: bytes.
  int64_t count = 0;
  /// The scalar, the string's bytes or the first element (an element of a
  /// string array is a 64-bit length and the bytes). Unaligned.
  const uint8_t *value = nullptr;
};

struct GgufMetadata::Impl {
  std::shared_ptr<const MappedFile> file;
  std::vector<GgufEntry> entries;
  std::vector<std::string_view> keys; // parallel to entries
  std::vector<uint32_t> byKey;        // indices of entries, sorted by key

  const GgufEntry *find(std::string_view key) const;
};

struct GgufHeader {
  std::shared_ptr<const GgufMetadata::Impl> metadata;
  std::vector<StoredTensor> tensors;
};

/// Bytes of a value of TYPE; 0 for strings and arrays.
int64_t ggufTypeBytes(GgufMetadata::Type type);

/// Reads the metadata of FILE, and its tensor descriptions if WITHTENSORS.
/// Meaningless if a problem was added.
GgufHeader readGgufHeader(std::shared_ptr<const MappedFile> file,
                          bool withTensors, Problems &problems);

} // namespace heddle::rt

#endif // HEDDLE_WEIGHTS_GGUF_HEADER_H
