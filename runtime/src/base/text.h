//===- text.h - Building messages -------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BASE_TEXT_H
#define HEDDLE_RT_BASE_TEXT_H

#include <sstream>
#include <string>
#include <vector>

namespace heddle::rt {

/// Streams all arguments into one string.
template <typename... Args> std::string concat(const Args &...args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

/// "a, b, c"
template <typename T> std::string joined(const std::vector<T> &values) {
  std::ostringstream out;
  const char *separator = "";
  for (const T &value : values) {
    out << separator << value;
    separator = ", ";
  }
  return out.str();
}

/// Collects problems, so that all of them can be reported together.
class ProblemList {
public:
  template <typename... Args> void add(const Args &...args) {
    if (count_++ < kShown)
      text_ += (text_.empty() ? "" : "\n") + concat(args...);
  }
  bool empty() const { return count_ == 0; }
  bool full() const { return count_ >= kShown; }
  /// One problem a line.
  std::string text() const {
    if (count_ <= kShown)
      return text_;
    return concat(text_, "\n… and ", count_ - kShown, " more");
  }

private:
  static constexpr int kShown = 20;
  int count_ = 0;
  std::string text_;
};

} // namespace heddle::rt

#endif // HEDDLE_RT_BASE_TEXT_H
