//===- problems.h - Collects what is wrong with a file ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A reader adds every problem it finds and goes on as far as that is sensible;
// the caller turns them into one Status, a line for each problem.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_WEIGHTS_PROBLEMS_H
#define HEDDLE_WEIGHTS_PROBLEMS_H

#include "heddle_rt/status.h"
#include "heddle_rt/weights.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::rt {

/// 'text', with bytes that are not printable UTF-8 written \xNN and anything
/// past the first 120 bytes cut. For text that a file's author chose.
std::string quote(std::string_view text);

/// "[2, 3]".
std::string shapeText(const std::vector<int64_t> &shape);

/// True if TEXT is well-formed UTF-8.
bool isUtf8(std::string_view text);

class Problems {
public:
  /// Adds "WHERE: WHAT". Problems past the first 20 are counted, not kept, so
  /// that a hostile file cannot make the report large.
  void add(Code code, std::string_view where, std::string_view what);

  /// Adds all of OTHER's problems.
  void append(const Problems &other);

  bool empty() const { return count == 0; }

  /// All problems, one a line, under the code of the first. Must not be empty.
  Status status() const;

private:
  Code firstCode = Code::internal;
  size_t count = 0;
  std::vector<std::string> lines; // the first ones
};

/// Tensors of formats that are not supported, reported once for each format
/// rather than once for each tensor.
class UnsupportedTypes {
public:
  void add(const std::string &typeName, std::string_view tensor);

  /// Adds "tensor 'x' and 3 more: expected one of SUPPORTED, got TYPE".
  void report(Problems &problems, std::string_view where,
              std::string_view supported) const;

private:
  struct Use {
    std::string firstTensor;
    size_t count = 0;
  };
  std::map<std::string, Use> uses;
};

} // namespace heddle::rt

#endif // HEDDLE_WEIGHTS_PROBLEMS_H
