//===- Generate.h - Prefill and decode ---------------------------*- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_RUN_GENERATE_H
#define HEDDLE_TOOLS_HEDDLE_RUN_GENERATE_H

#include "heddle_rt/session.h"

#include <functional>
#include <vector>

namespace heddle::rt {

/// How the next token is chosen: the inputs of `heddle.sample`, the same for
/// every sequence. Sequences of a batch draw differently all the same.
struct Sampling {
  float temperature = 0; // greedy
  int32_t topK = 0;
  float topP = 1, minP = 0;
  uint32_t seed = 0;
};

/// Drives the programs of a generate bundle: chunks of the prompts through the
/// smallest prefill program that holds what is left, then `decode`. Sequences
/// of a batch may differ in length; each has its own positions. The block table
/// is the identity: sequence b owns blocks b*M to (b+1)*M - 1.
class Generator {
public:
  static Result<Generator> create(Session &session, const Bundle &bundle);

  int64_t batch() const { return batch_; }
  int64_t vocabulary() const { return vocabulary_; }
  /// Tokens that fit one sequence, prompt included.
  int64_t capacity() const { return capacity_; }

  /// Continues every prompt by `count` tokens. `onTokens` sees the newest token
  /// of every sequence after each step.
  Result<std::vector<std::vector<int32_t>>>
  run(const std::vector<std::vector<int32_t>> &prompts, int64_t count,
      const Sampling &sampling,
      const std::function<void(const std::vector<int32_t> &)> &onTokens);

private:
  explicit Generator(Session &session) : session_(&session) {}

  Status setSampling(const Sampling &sampling);
  Status step(const std::string &program, int64_t rows,
              const std::vector<int32_t> &tokens,
              const std::vector<int32_t> &positions,
              const std::vector<int32_t> &lengths,
              const std::vector<int32_t> &last);
  Result<std::vector<int32_t>> next(const std::string &program);
  /// The program for `rows` more rows: the smallest that holds them, or the
  /// largest.
  struct Prefill {
    std::string name;
    int64_t rows;
  };
  const Prefill &prefillFor(int64_t rows) const;
  std::vector<std::string> programs() const;

  Session *session_;
  std::vector<Prefill> prefills_; // the largest first
  int64_t batch_ = 1, capacity_ = 0, blocks_ = 0, vocabulary_ = 0;
};

/// Runs the program `forward` on the tokens (padded with invalid rows) and
/// returns its output. `lengths` are those of the documents that each sequence
/// consists of, for bundles of packed documents; empty: one each.
Result<HostTensor>
runForwardProgram(Session &session, const Bundle &bundle,
                  const std::vector<std::vector<int32_t>> &tokens,
                  const std::vector<std::vector<int32_t>> &lengths = {});

} // namespace heddle::rt

#endif // HEDDLE_TOOLS_HEDDLE_RUN_GENERATE_H
