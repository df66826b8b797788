//===- hf_index_fuzzer.cpp - Fuzzes the reader of shard indices -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whatever is accepted must name files inside the folder only.
//
//===----------------------------------------------------------------------===//

#include "hf_folder.h"

#include <cstdlib>

using namespace heddle::rt;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text(reinterpret_cast<const char *>(data), size);
  Problems problems;
  ShardMap shards = readIndex(text, "input", problems);
  if (!problems.empty())
    return 0;
  for (const auto &[name, tensors] : shards)
    if (tensors.empty() || name.empty() || name[0] == '/' || name == ".." ||
        name.find("../") == 0 || name.find("/../") != std::string::npos)
      std::abort();
  return 0;
}
