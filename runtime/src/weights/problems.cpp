//===- problems.cpp - Collects what is wrong with a file ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implementation of problems.h.
//
//===----------------------------------------------------------------------===//

#include "problems.h"

#include <cassert>
#include <cstdio>

namespace heddle::rt {
namespace {

constexpr size_t kMaxProblems = 20;
constexpr size_t kMaxQuotedBytes = 120;

/// Length of the well-formed UTF-8 sequence at the start of TEXT; 0 if there is
/// none (overlong forms, surrogates and values past U+10FFFF are not).
size_t utf8SequenceLength(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (text.empty())
    return 0;
  uint8_t lead = byte(0);
  if (lead < 0x80)
    return 1;
  size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                  : lead >= 0xE0 && lead <= 0xEF ? 3
                  : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                 : 0;
  if (length == 0 || text.size() < length)
    return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80)
      return 0;
  bool overlong =
      (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  bool outside =
      (lead == 0xED && byte(1) > 0x9F) || (lead == 0xF4 && byte(1) > 0x8F);
  return overlong || outside ? 0 : length;
}

} // namespace

std::string quote(std::string_view text) {
  std::string out = "'";
  size_t begin = 0;
  while (begin < text.size()) {
    if (begin >= kMaxQuotedBytes) {
      out += "...";
      break;
    }
    size_t length = utf8SequenceLength(text.substr(begin));
    uint8_t first = static_cast<uint8_t>(text[begin]);
    if (length == 0 || first < 0x20 || first == 0x7F) {
      char escaped[5];
      std::snprintf(escaped, sizeof(escaped), "\\x%02X", unsigned(first));
      out += escaped;
      ++begin;
      continue;
    }
    out += text.substr(begin, length);
    begin += length;
  }
  out += "'";
  return out;
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

bool isUtf8(std::string_view text) {
  while (!text.empty()) {
    size_t length = utf8SequenceLength(text);
    if (length == 0)
      return false;
    text.remove_prefix(length);
  }
  return true;
}

void Problems::add(Code code, std::string_view where, std::string_view what) {
  if (count == 0)
    firstCode = code;
  if (++count > kMaxProblems)
    return;
  lines.emplace_back(where);
  lines.back() += ": ";
  lines.back() += what;
}

void Problems::append(const Problems &other) {
  if (count == 0)
    firstCode = other.firstCode;
  count += other.count;
  for (const std::string &line : other.lines)
    if (lines.size() < kMaxProblems)
      lines.push_back(line);
}

Status Problems::status() const {
  assert(!empty() && "a status needs a problem");
  std::string text;
  for (const std::string &line : lines)
    text += (text.empty() ? "" : "\n") + line;
  if (count > lines.size())
    text += "\nand " + std::to_string(count - lines.size()) + " more problems";
  return {firstCode, text};
}

void UnsupportedTypes::add(const std::string &typeName,
                           std::string_view tensor) {
  Use &use = uses[typeName];
  if (use.count++ == 0)
    use.firstTensor = tensor;
}

void UnsupportedTypes::report(Problems &problems, std::string_view where,
                              std::string_view supported) const {
  for (const auto &[typeName, use] : uses) {
    std::string what = "tensor " + quote(use.firstTensor);
    if (use.count > 1)
      what += " and " + std::to_string(use.count - 1) + " more";
    what += ": expected one of ";
    what += supported;
    problems.add(Code::invalid_argument, where, what + ", got " + typeName);
  }
}

} // namespace heddle::rt
