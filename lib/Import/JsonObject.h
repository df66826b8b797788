//===- JsonObject.h - Checked access to one JSON object ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Typed, bounded reads of an untrusted JSON object. A missing key and null are
// alike. A value of another type or out of bounds becomes a problem that names
// the key and the value, and reads as the default.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_JSONOBJECT_H
#define HEDDLE_LIB_IMPORT_JSONOBJECT_H

#include "Problems.h"

#include "llvm/ADT/StringSet.h"

#include <nlohmann/json.hpp>

namespace mlir::heddle {

using Json = nlohmann::json;

/// Parses TEXT; a problem and nothing if it is malformed, too deep, repeats a
/// key, or is not an object.
std::optional<Json> parseJsonObject(StringRef text, Problems &problems);

/// VALUE as a person would write it, cut short.
std::string describeJson(const Json &value);

class JsonObject {
public:
  /// PREFIX is what comes before a key in messages: "rope_scaling.".
  JsonObject(const Json &object, StringRef prefix, Problems &problems)
      : object(object), prefix(prefix.str()), problems(problems) {}

  /// The key's value; null if it is missing or null. Marks it as known.
  const Json *find(StringRef key);
  /// True if the key is there, even as null.
  bool isWritten(StringRef key) const { return object.contains(key.str()); }

  /// ALIASES are other names of the same thing; two that disagree are a
  /// problem.
  std::optional<int64_t> integer(StringRef key, int64_t low, int64_t high,
                                 ArrayRef<StringRef> aliases = {});
  /// As `integer`, but the key must be there.
  int64_t requiredInteger(StringRef key, int64_t low, int64_t high,
                          ArrayRef<StringRef> aliases = {});
  /// A positive, finite number.
  std::optional<double> positive(StringRef key);
  std::optional<bool> boolean(StringRef key);
  std::optional<std::string> string(StringRef key);

  /// A problem that says what would have been right.
  void expected(StringRef key, const Twine &want, const Json &got) {
    problems.add(prefix + key.str(),
                 "expected " + want + ", got " + describeJson(got));
  }
  void missing(StringRef key, const Twine &want) {
    problems.add(prefix + key.str(), "expected " + want + ", got nothing");
  }
  void know(StringRef key) { known.insert(key); }
  /// Keys with a value that nothing has asked about.
  std::vector<std::string> unknownKeys() const;

private:
  std::optional<int64_t> readInteger(StringRef key, int64_t low, int64_t high);

  const Json &object;
  std::string prefix;
  Problems &problems;
  llvm::StringSet<> known;
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_IMPORT_JSONOBJECT_H
