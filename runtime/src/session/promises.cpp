//===- promises.cpp - What inputs must be like ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/promises.h"

#include "base/text.h"

#include <cstring>
#include <unordered_map>

using namespace heddle::rt;

Promises::Promises(const fb::Plan &plan) {
  for (const fb::RankClass *cls : *plan.classes())
    if (cls->programs())
      for (const fb::Program *program : *cls->programs()) {
        std::vector<Promise> &known = promises_[program->name()->str()];
        // Ranks promise the same.
        if (!known.empty() || !program->inputs())
          continue;
        for (const fb::IO *io : *program->inputs())
          if (io->consecutive() > 0)
            known.push_back({io->name()->str(),
                             io->within() ? io->within()->str() : "",
                             io->consecutive()});
      }
}

bool Promises::concerns(const std::string &program,
                        const std::string &input) const {
  auto it = promises_.find(program);
  if (it == promises_.end())
    return false;
  for (const Promise &promise : it->second)
    if (promise.positions == input || promise.within == input)
      return true;
  return false;
}

void Promises::keep(const std::string &program, const std::string &input,
                    const HostTensor &value) {
  values_[{program, input}] = value;
}

Status Promises::check(const std::string &program) const {
  auto it = promises_.find(program);
  if (it == promises_.end())
    return {};
  for (const Promise &promise : it->second)
    HEDDLE_RT_RETURN_IF_ERROR(check(program, promise));
  return {};
}

static int32_t numberAt(const HostTensor &tensor, int64_t index) {
  int32_t value = 0;
  std::memcpy(&value, tensor.bytes.data() + index * 4, sizeof(value));
  return value;
}

Status Promises::check(const std::string &program,
                       const Promise &promise) const {
  auto refuse = [&](const std::string &found) {
    return Status(
        Code::invalid_argument,
        concat("input '", promise.positions, "' of program '", program,
               "': ", found,
               "; the bundle leaves out what masks empty if positions "
               "follow one another: compile with --positions any if "
               "they need not"));
  };
  auto positions = values_.find({program, promise.positions});
  if (positions == values_.end())
    return refuse("expected a value before the run, got none");
  const HostTensor &value = positions->second;
  const HostTensor *documents = nullptr;
  if (!promise.within.empty()) {
    auto given = values_.find({program, promise.within});
    if (given == values_.end() || given->second.shape != value.shape)
      return refuse(concat("expected input '", promise.within,
                           "' of the same shape before the run"));
    documents = &given->second;
  }
  if (value.dtype != DType::i32 || value.shape.size() != 2 ||
      (documents && documents->dtype != DType::i32))
    return refuse("expected 32-bit integers of two dimensions");

  int64_t tokens = value.shape[1];
  for (int64_t b = 0; b < value.shape[0]; ++b) {
    // Position less place of the documents seen so far.
    std::unordered_map<int32_t, int64_t> starts;
    for (int64_t t = 0; t < tokens; ++t) {
      int32_t position = numberAt(value, b * tokens + t);
      if (position < 0)
        continue;
      auto where = [&] { return concat("token ", t, " of sequence ", b); };
      if (position >= promise.below)
        return refuse(concat("expected positions below ", promise.below,
                             ", got ", position, " for ", where()));
      int32_t document = documents ? numberAt(*documents, b * tokens + t) : 0;
      auto [start, fresh] = starts.try_emplace(document, position - t);
      if (!fresh && start->second != position - t)
        return refuse(concat(
            "expected position ", start->second + t, " for ", where(),
            documents ? concat(" (document ", document, ")") : std::string(),
            " after those before it, got ", position));
    }
  }
  return {};
}
