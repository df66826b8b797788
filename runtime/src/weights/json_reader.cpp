//===- json_reader.cpp - Bounded event-wise reading of JSON ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implementation of json_reader.h over nlohmann's SAX interface, whose parser
// keeps its own stack and so does not recurse.
//
//===----------------------------------------------------------------------===//

#include "json_reader.h"

#include <limits>
#include <nlohmann/json.hpp>

namespace heddle::rt {
namespace {

class SaxAdapter {
public:
  using Json = nlohmann::json;

  SaxAdapter(std::string_view where, JsonHandler &handler, Problems &problems)
      : where(where), handler(handler), problems(problems) {}

  bool null() { return emit({JsonScalar::null, 0, "null"}); }
  bool boolean(bool value) {
    return emit({JsonScalar::boolean, 0, value ? "true" : "false"});
  }
  bool number_integer(Json::number_integer_t value) {
    return emit({JsonScalar::otherNumber, 0, std::to_string(value)});
  }
  bool number_unsigned(Json::number_unsigned_t value) {
    std::string text = std::to_string(value);
    if (value > uint64_t(std::numeric_limits<int64_t>::max()))
      return emit({JsonScalar::otherNumber, 0, text});
    return emit({JsonScalar::unsignedInteger, int64_t(value), text});
  }
  bool number_float(Json::number_float_t, const std::string &text) {
    return emit({JsonScalar::otherNumber, 0, text});
  }
  bool string(std::string &text) { return emit({JsonScalar::string, 0, text}); }
  bool binary(Json::binary_t &) { return false; }
  bool key(std::string &name) {
    handler.key(depth, name);
    return true;
  }
  bool start_object(size_t) { return begin(false); }
  bool start_array(size_t) { return begin(true); }
  bool end_object() { return end(false); }
  bool end_array() { return end(true); }
  bool parse_error(size_t position, const std::string &,
                   const Json::exception &) {
    problems.add(Code::data_loss, where,
                 "expected well-formed JSON, got a syntax error at byte " +
                     std::to_string(position));
    return false;
  }

private:
  bool emit(const JsonScalar &value) {
    handler.scalar(depth, value);
    return true;
  }
  bool begin(bool isArray) {
    if (depth == kMaxJsonDepth) {
      problems.add(Code::invalid_argument, where,
                   "expected JSON nested at most " +
                       std::to_string(kMaxJsonDepth) + " deep, got more");
      return false;
    }
    handler.begin(depth++, isArray);
    return true;
  }
  bool end(bool isArray) {
    handler.end(--depth, isArray);
    return true;
  }

  std::string_view where;
  JsonHandler &handler;
  Problems &problems;
  int depth = 0;
};

} // namespace

std::string JsonScalar::describe() const {
  if (kind == string)
    return "the string " + quote(text);
  return std::string(text.substr(0, 40)) + (text.size() > 40 ? "..." : "");
}

bool readJson(std::string_view text, std::string_view where,
              JsonHandler &handler, Problems &problems) {
  // The parser would take a NUL byte for the end of the text.
  if (size_t nul = text.find('\0'); nul != std::string_view::npos) {
    problems.add(Code::data_loss, where,
                 "expected JSON text, got a NUL byte at byte " +
                     std::to_string(nul + 1));
    return false;
  }
  SaxAdapter adapter(where, handler, problems);
  return nlohmann::json::sax_parse(text.data(), text.data() + text.size(),
                                   &adapter);
}

} // namespace heddle::rt
