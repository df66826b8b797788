//===- promises.h - What inputs must be like --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A plan may leave work out because its inputs promise something: hops of a
// ring that masks would empty, because positions follow one another. Inputs
// that break a promise would give wrong numbers silently, so they are checked
// before a run.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_SESSION_PROMISES_H
#define HEDDLE_RT_SESSION_PROMISES_H

#include "heddle_rt/plan_generated.h"
#include "heddle_rt/session.h"

#include <map>
#include <vector>

namespace heddle::rt {

class Promises {
public:
  explicit Promises(const fb::Plan &plan);

  /// Whether a promise of the program is about this input.
  bool concerns(const std::string &program, const std::string &input) const;
  /// Remembers the input's value until it is set again.
  void keep(const std::string &program, const std::string &input,
            const HostTensor &value);
  /// invalid_argument if the inputs break a promise, or were never set.
  Status check(const std::string &program) const;

private:
  /// See IO::consecutive in plan.fbs.
  struct Promise {
    std::string positions, within;
    int64_t below = 0;
  };
  Status check(const std::string &program, const Promise &promise) const;

  std::map<std::string, std::vector<Promise>> promises_;
  std::map<std::pair<std::string, std::string>, HostTensor> values_;
};

} // namespace heddle::rt

#endif // HEDDLE_RT_SESSION_PROMISES_H
