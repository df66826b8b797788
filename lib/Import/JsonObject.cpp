//===- JsonObject.cpp - Checked access to one JSON object -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JsonObject.h"

#include <cmath>
#include <set>

using namespace mlir;
using namespace mlir::heddle;

/// The most objects and arrays that may be open at once.
static constexpr int kMaxDepth = 32;

std::optional<Json> mlir::heddle::parseJsonObject(StringRef text,
                                                  Problems &problems) {
  bool tooDeep = false;
  std::string repeated;
  std::vector<std::set<std::string>> open;
  // Runs at every event. What is below kMaxDepth is read, not kept.
  auto watch = [&](int depth, Json::parse_event_t event, Json &value) {
    if (depth > kMaxDepth) {
      tooDeep = true;
      return false;
    }
    if (event == Json::parse_event_t::object_start)
      open.emplace_back();
    if (event == Json::parse_event_t::object_end && !open.empty())
      open.pop_back();
    if (event == Json::parse_event_t::key && !open.empty()) {
      const auto *key = value.get_ptr<const std::string *>();
      if (!open.back().insert(*key).second && repeated.empty())
        repeated = *key;
    }
    return true;
  };
  Json parsed = Json::parse(text.begin(), text.end(), watch,
                            /*allow_exceptions=*/false);
  if (tooDeep) {
    problems.add("expected JSON nested at most " + Twine(kMaxDepth) +
                 " deep, got more");
    return std::nullopt;
  }
  if (parsed.is_discarded()) {
    problems.add("expected a JSON object, got malformed JSON");
    return std::nullopt;
  }
  if (!parsed.is_object()) {
    problems.add("expected a JSON object, got " + describeJson(parsed));
    return std::nullopt;
  }
  if (!repeated.empty()) {
    problems.add(repeated, "expected the key once, got it twice");
    return std::nullopt;
  }
  return parsed;
}

std::string mlir::heddle::describeJson(const Json &value) {
  constexpr size_t kMost = 60;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() <= kMost)
    return text;
  text.resize(kMost);
  // Not in the middle of a character.
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0x80))
    text.pop_back();
  return text + "…";
}

const Json *JsonObject::find(StringRef key) {
  known.insert(key);
  auto it = object.find(key.str());
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::optional<int64_t> JsonObject::readInteger(StringRef key, int64_t low,
                                               int64_t high) {
  const Json *value = find(key);
  if (!value)
    return std::nullopt;
  if (value->is_number_integer()) {
    bool fits = !value->is_number_unsigned() ||
                value->get<uint64_t>() <= static_cast<uint64_t>(high);
    if (fits && value->get<int64_t>() >= low && value->get<int64_t>() <= high)
      return value->get<int64_t>();
  }
  expected(key, "a whole number from " + Twine(low) + " to " + Twine(high),
           *value);
  return std::nullopt;
}

std::optional<int64_t> JsonObject::integer(StringRef key, int64_t low,
                                           int64_t high,
                                           ArrayRef<StringRef> aliases) {
  std::optional<int64_t> result = readInteger(key, low, high);
  StringRef from = key;
  for (StringRef alias : aliases) {
    std::optional<int64_t> other = readInteger(alias, low, high);
    if (!other)
      continue;
    if (result && *result != *other)
      problems.add(prefix + alias.str(), "expected the value of '" + prefix +
                                             from + "', " + Twine(*result) +
                                             ", got " + Twine(*other));
    if (!result) {
      result = other;
      from = alias;
    }
  }
  return result;
}

int64_t JsonObject::requiredInteger(StringRef key, int64_t low, int64_t high,
                                    ArrayRef<StringRef> aliases) {
  if (std::optional<int64_t> value = integer(key, low, high, aliases))
    return *value;
  auto names = llvm::to_vector(aliases);
  names.push_back(key);
  if (llvm::none_of(names, [&](StringRef name) { return find(name); }))
    missing(key, "a whole number from " + Twine(low) + " to " + Twine(high));
  return 0;
}

std::optional<double> JsonObject::positive(StringRef key) {
  const Json *value = find(key);
  if (!value)
    return std::nullopt;
  if (value->is_number() && value->get<double>() > 0 &&
      std::isfinite(value->get<double>()))
    return value->get<double>();
  expected(key, "a positive number", *value);
  return std::nullopt;
}

std::optional<bool> JsonObject::boolean(StringRef key) {
  const Json *value = find(key);
  if (!value)
    return std::nullopt;
  if (value->is_boolean())
    return value->get<bool>();
  expected(key, "true or false", *value);
  return std::nullopt;
}

std::optional<std::string> JsonObject::string(StringRef key) {
  const Json *value = find(key);
  if (!value)
    return std::nullopt;
  if (value->is_string())
    return value->get<std::string>();
  expected(key, "a string", *value);
  return std::nullopt;
}

std::vector<std::string> JsonObject::unknownKeys() const {
  std::vector<std::string> result;
  for (auto it = object.begin(); it != object.end(); ++it)
    if (!known.contains(it.key()) && !it->is_null())
      result.push_back(it.key());
  return result;
}
