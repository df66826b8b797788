//===- file_weights.cpp - Tensors that lie in mapped files ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implementation of file_weights.h.
//
//===----------------------------------------------------------------------===//

#include "file_weights.h"

#include <algorithm>

namespace heddle::rt {

void sortByName(std::vector<StoredTensor> &tensors, Problems &problems) {
  // Duplicates in an order that does not depend on the readers.
  std::sort(tensors.begin(), tensors.end(),
            [](const StoredTensor &a, const StoredTensor &b) {
              if (int order = a.info.name.compare(b.info.name))
                return order < 0;
              return a.file != b.file ? a.file->path() < b.file->path()
                                      : a.data < b.data;
            });
  for (size_t i = 0; i < tensors.size();) {
    size_t end = i + 1;
    while (end < tensors.size() &&
           tensors[end].info.name == tensors[i].info.name)
      ++end;
    if (end - i > 1) {
      std::string what = "tensor " + quote(tensors[i].info.name) +
                         ": expected one tensor of this name, got " +
                         std::to_string(end - i);
      if (tensors[i].file != tensors[i + 1].file)
        what += ", the second in " + tensors[i + 1].file->path();
      problems.add(Code::invalid_argument, tensors[i].file->path(), what);
    }
    i = end;
  }
}

FileWeights::FileWeights(std::string description, std::string_view format,
                         std::vector<std::shared_ptr<const MappedFile>> files,
                         std::vector<StoredTensor> tensors,
                         std::vector<std::string> notes)
    : description_(std::move(description)), format_(format),
      files_(std::move(files)), notes_(std::move(notes)) {
  tensors_.reserve(tensors.size());
  data_.reserve(tensors.size());
  for (StoredTensor &tensor : tensors) {
    tensors_.push_back(std::move(tensor.info));
    data_.push_back(tensor.data);
  }
}

const TensorInfo *FileWeights::find(std::string_view name) const {
  auto it = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                             [](const TensorInfo &info, std::string_view name) {
                               return info.name < name;
                             });
  return it != tensors_.end() && it->name == name ? &*it : nullptr;
}

Result<const uint8_t *> FileWeights::data(const TensorInfo &tensor) const {
  // A copy of a TensorInfo is as good as the one in tensors().
  const TensorInfo *own = find(tensor.name);
  if (!own)
    return Status(Code::not_found, description_ + ": tensor " +
                                       quote(tensor.name) +
                                       ": expected in this source, got no "
                                       "tensor of that name");
  if (own->dtype != tensor.dtype || own->shape != tensor.shape)
    return Status(Code::invalid_argument,
                  description_ + ": tensor " + quote(tensor.name) +
                      ": expected " + dtypeName(own->dtype) +
                      shapeText(own->shape) + ", got " +
                      dtypeName(tensor.dtype) + shapeText(tensor.shape));
  return data_[size_t(own - tensors_.data())];
}

void FileWeights::release(const uint8_t *begin, int64_t bytes) const {
  for (const auto &file : files_)
    if (file->contains(begin, bytes))
      return file->release(begin, bytes);
}

} // namespace heddle::rt
