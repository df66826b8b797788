//===- hf_folder.h - Reading Hugging Face folders ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A folder holds one safetensors file or several with an index that says which
// file holds which tensor. The index wins: files that it does not name are not
// read.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_WEIGHTS_HF_FOLDER_H
#define HEDDLE_WEIGHTS_HF_FOLDER_H

#include "file_weights.h"

#include <map>

namespace heddle::rt {

/// The weight_map of an index: file name to the names of its tensors, sorted.
using ShardMap = std::map<std::string, std::vector<std::string>>;

/// Reads the TEXT of the index WHERE. Meaningless if a problem was added.
ShardMap readIndex(std::string_view text, std::string_view where,
                   Problems &problems);

/// Opens the shards that the index INDEXPATH names, relative to its folder.
/// The source is called DESCRIPTION.
Result<std::unique_ptr<WeightSource>>
openIndexed(const std::string &description, const std::string &indexPath);

/// Opens the model in FOLDER: model.safetensors.index.json if it is there, else
/// model.safetensors, else the only *.safetensors, else the only GGUF model.
Result<std::unique_ptr<WeightSource>> openFolder(const std::string &folder);

} // namespace heddle::rt

#endif // HEDDLE_WEIGHTS_HF_FOLDER_H
