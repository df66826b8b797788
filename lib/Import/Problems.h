//===- Problems.h - Collects what is wrong with an input --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything that is wrong with a description is found before any of it is
// reported, one error a problem.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_PROBLEMS_H
#define HEDDLE_LIB_IMPORT_PROBLEMS_H

#include "mlir/IR/Diagnostics.h"

#include <string>
#include <vector>

namespace mlir::heddle {

class Problems {
public:
  /// SOURCE starts every message: the file, or nothing.
  explicit Problems(StringRef source = "") : source(source.str()) {}

  void add(const Twine &message) {
    if (errors.size() < kMost)
      errors.push_back(withSource(message));
    else
      ++dropped;
  }
  /// KEY, quoted, then the message.
  void add(StringRef key, const Twine &message) {
    add("'" + key + "': " + message);
  }
  void warn(const Twine &message) { warnings.push_back(withSource(message)); }

  bool empty() const { return errors.empty(); }

  /// Emits warnings and errors at LOC; fails if there is an error.
  LogicalResult report(Location loc) const {
    for (const std::string &message : warnings)
      emitWarning(loc) << message;
    for (const std::string &message : errors)
      emitError(loc) << message;
    if (dropped != 0)
      emitError(loc) << withSource("and " + Twine(dropped) + " more problems");
    return success(errors.empty());
  }

private:
  /// The most errors that are listed.
  static constexpr size_t kMost = 32;

  std::string withSource(const Twine &message) const {
    return source.empty() ? message.str() : (source + ": " + message).str();
  }

  std::string source;
  std::vector<std::string> errors, warnings;
  int64_t dropped = 0;
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_IMPORT_PROBLEMS_H
