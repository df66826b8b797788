//===- gguf.h - Reading GGUF models -----------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A GGUF model is one file or a split set of files named
// PREFIX-00001-of-0000N.gguf, of which the first describes the model.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_WEIGHTS_GGUF_H
#define HEDDLE_WEIGHTS_GGUF_H

#include "file_weights.h"

#include <optional>

namespace heddle::rt {

/// PREFIX-NUMBER-of-COUNT.gguf with five digits each, numbered from 1.
struct SplitName {
  std::string prefix;
  int64_t number = 0;
  int64_t count = 0;
};

std::optional<SplitName> parseSplitName(std::string_view path);
std::string splitFileName(const SplitName &name);

/// Opens the GGUF file PATH and, if it belongs to a split set, all of the set.
/// The source is called DESCRIPTION.
Result<std::unique_ptr<WeightSource>> openGguf(const std::string &description,
                                               const std::string &path);

} // namespace heddle::rt

#endif // HEDDLE_WEIGHTS_GGUF_H
