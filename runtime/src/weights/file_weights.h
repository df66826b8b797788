//===- file_weights.h - Tensors that lie in mapped files --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The WeightSource of every stored format: the readers find the tensors and
// this class serves them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_WEIGHTS_FILE_WEIGHTS_H
#define HEDDLE_WEIGHTS_FILE_WEIGHTS_H

#include "heddle_rt/weights.h"
#include "mapped_file.h"
#include "problems.h"

namespace heddle::rt {

/// A tensor and where it lies.
struct StoredTensor {
  TensorInfo info;
  const uint8_t *data = nullptr;
  const MappedFile *file = nullptr;
};

/// Sorts TENSORS by name and adds a problem for each name that occurs twice.
void sortByName(std::vector<StoredTensor> &tensors, Problems &problems);

class FileWeights : public WeightSource {
public:
  /// TENSORS must be sorted by name, without duplicates, and lie in FILES.
  FileWeights(std::string description, std::string_view format,
              std::vector<std::shared_ptr<const MappedFile>> files,
              std::vector<StoredTensor> tensors,
              std::vector<std::string> notes = {});

  const std::string &description() const override { return description_; }
  std::string_view format() const override { return format_; }
  const std::vector<TensorInfo> &tensors() const override { return tensors_; }
  const TensorInfo *find(std::string_view name) const override;
  Result<const uint8_t *> data(const TensorInfo &tensor) const override;
  void release(const uint8_t *begin, int64_t bytes) const override;
  std::vector<std::string> notes() const override { return notes_; }

private:
  std::string description_;
  std::string_view format_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::vector<TensorInfo> tensors_;
  std::vector<const uint8_t *> data_; // parallel to tensors_
  std::vector<std::string> notes_;
};

} // namespace heddle::rt

#endif // HEDDLE_WEIGHTS_FILE_WEIGHTS_H
