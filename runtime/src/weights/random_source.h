//===- random_source.h - Weights drawn at random ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// "random:SEED" stands for a model nobody stored. It has no tensors: the reader
// draws what it needs, by global name, with drawRandom.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_WEIGHTS_RANDOM_SOURCE_H
#define HEDDLE_WEIGHTS_RANDOM_SOURCE_H

#include "heddle_rt/weights.h"

namespace heddle::rt {

/// True if PATH means a random source rather than a file.
bool isRandomPath(std::string_view path);

/// Opens "random:SEED".
Result<std::unique_ptr<WeightSource>> openRandom(const std::string &path);

} // namespace heddle::rt

#endif // HEDDLE_WEIGHTS_RANDOM_SOURCE_H
