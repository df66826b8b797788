//===- status.h - Results of operations that can fail -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every runtime function that can fail returns a Status or a Result<T>; nothing
// in the runtime calls exit, and no exception crosses a public interface.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_STATUS_H
#define HEDDLE_RT_STATUS_H

#include <optional>
#include <string>
#include <utility>

namespace heddle::rt {

/// What the caller should do about a failure.
enum class Code {
  ok = 0,
  /// The input (file, option, mesh) is wrong: fix it, retrying cannot help.
  invalid_argument,
  /// A file or symbol is not there.
  not_found,
  /// The file was cut short or its parts contradict one another.
  data_loss,
  /// The bundle needs a CPU feature, library version or rank count that this
  /// process lacks: recompile or move.
  incompatible,
  /// Memory or another resource ran out.
  resource_exhausted,
  /// Another rank failed; its message is carried here.
  aborted,
  /// A bug in Heddle.
  internal,
};

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Code code, std::string message)
      : code_(code), message_(std::move(message)) {}
  static Status success() { return {}; }

  bool ok() const { return code_ == Code::ok; }
  explicit operator bool() const { return ok(); }
  Code code() const { return code_; }
  const std::string &message() const { return message_; }

private:
  Code code_ = Code::ok;
  std::string message_;
};

/// A value or the reason why there is none.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  T &operator*() { return *value_; }
  const T &operator*() const { return *value_; }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }
  const Status &status() const { return status_; }
  T take() { return std::move(*value_); }

private:
  std::optional<T> value_;
  Status status_;
};

} // namespace heddle::rt

/// Returns the Status of EXPR from the enclosing function if it is a failure.
#define HEDDLE_RT_RETURN_IF_ERROR(expr)                                        \
  do {                                                                         \
    if (::heddle::rt::Status heddleStatus = (expr); !heddleStatus.ok())        \
      return heddleStatus;                                                     \
  } while (false)

#endif // HEDDLE_RT_STATUS_H
