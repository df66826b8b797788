//===- safetensors_fuzzer.cpp - Fuzzes the safetensors reader -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whatever opens must lie inside the file: every tensor is decoded.
//
//===----------------------------------------------------------------------===//

#include "safetensors.h"

#include <cstdlib>

using namespace heddle::rt;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto file = MappedFile::borrow("input", data, int64_t(size));
  Problems problems;
  std::vector<StoredTensor> tensors = readSafetensors(*file, problems);
  if (!problems.empty())
    return 0;
  for (const StoredTensor &tensor : tensors) {
    if (!file->contains(tensor.data, tensor.info.bytes))
      std::abort();
    std::vector<float> values(size_t(tensor.info.elements()));
    decodeToFloat(tensor.info.dtype, tensor.data, 0, tensor.info.elements(),
                  values.data());
  }
  return 0;
}
