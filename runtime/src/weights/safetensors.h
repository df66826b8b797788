//===- safetensors.h - Reading safetensors files ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A safetensors file is an 8-byte header length, a JSON header that gives each
// tensor a dtype, a shape and a byte range, and the data. The ranges must tile
// the data exactly.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_WEIGHTS_SAFETENSORS_H
#define HEDDLE_WEIGHTS_SAFETENSORS_H

#include "file_weights.h"

namespace heddle::rt {

/// Reads and checks the header of FILE. Returns its tensors in no particular
/// order; meaningless if a problem was added. A tensor's data may be unaligned.
std::vector<StoredTensor> readSafetensors(const MappedFile &file,
                                          Problems &problems);

/// Opens the single file PATH.
Result<std::unique_ptr<WeightSource>> openSafetensors(const std::string &path);

} // namespace heddle::rt

#endif // HEDDLE_WEIGHTS_SAFETENSORS_H
