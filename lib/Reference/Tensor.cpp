//===- Tensor.cpp - Dense float64 tensors -------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Reference/Reference.h"

#include <cstdio>

using namespace mlir;
using namespace mlir::heddle;

reference::Tensor reference::Tensor::filled(ArrayRef<int64_t> shape,
                                            double value) {
  int64_t size = 1;
  for (int64_t extent : shape)
    size *= extent;
  return {shape.vec(), std::vector<double>(size, value)};
}

std::string reference::formatNumber(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", value);
  return text;
}
