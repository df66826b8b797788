//===- gguf_fuzzer.cpp - Fuzzes the GGUF reader ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whatever opens must lie inside the file: every tensor is decoded and every
// metadata value is read as every type.
//
//===----------------------------------------------------------------------===//

#include "gguf_header.h"

#include <cstdlib>

using namespace heddle::rt;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto file = MappedFile::borrow("input", data, int64_t(size));
  Problems problems;
  GgufHeader header = readGgufHeader(file, /*withTensors=*/true, problems);
  if (!problems.empty())
    return 0;
  GgufMetadata metadata(header.metadata);
  for (std::string_view key : metadata.keys()) {
    bool read = metadata.getString(key).ok();
    read |= metadata.getInteger(key).ok();
    read |= metadata.getUnsigned(key).ok();
    read |= metadata.getFloat(key).ok();
    read |= metadata.getBool(key).ok();
    read |= metadata.getStrings(key).ok();
    read |= metadata.getIntegers(key).ok();
    read |= metadata.getFloats(key).ok();
    bool bools = metadata.elementType(key) == GgufMetadata::Type::boolean;
    if (!read && !bools)
      std::abort();
  }
  for (const StoredTensor &tensor : header.tensors) {
    if (!file->contains(tensor.data, tensor.info.bytes))
      std::abort();
    std::vector<float> values(size_t(tensor.info.elements()));
    decodeToFloat(tensor.info.dtype, tensor.data, 0, tensor.info.elements(),
                  values.data());
  }
  return 0;
}
