//===- json_reader.h - Bounded event-wise reading of JSON -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Headers come from untrusted files: nothing is built from the text but what a
// handler keeps, nesting is bounded, and no exception leaves.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_WEIGHTS_JSON_READER_H
#define HEDDLE_WEIGHTS_JSON_READER_H

#include "problems.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle::rt {

/// One value that is neither an object nor an array.
struct JsonScalar {
  enum Kind { null, boolean, unsignedInteger, otherNumber, string };
  Kind kind = null;
  /// For unsignedInteger: the value, at most INT64_MAX.
  int64_t integer = 0;
  /// For string: the decoded text. For others: as a person would write it.
  std::string_view text;

  /// "the string 'x'" or "-3".
  std::string describe() const;
};

/// Receives the parts of a document in order. `depth` is the number of open
/// objects and arrays around the event.
class JsonHandler {
public:
  virtual ~JsonHandler() = default;
  virtual void key(int depth, std::string_view name) = 0;
  virtual void scalar(int depth, const JsonScalar &value) = 0;
  virtual void begin(int depth, bool isArray) = 0;
  /// `depth` is the one that the matching begin had.
  virtual void end(int depth, bool isArray) = 0;
};

/// The most objects and arrays that may be open at once.
constexpr int kMaxJsonDepth = 16;

/// Feeds TEXT to HANDLER. Malformed text adds one problem and returns false;
/// the handler has then seen a part of the document.
bool readJson(std::string_view text, std::string_view where,
              JsonHandler &handler, Problems &problems);

} // namespace heddle::rt

#endif // HEDDLE_WEIGHTS_JSON_READER_H
