//===- Generate.cpp - Prefill and decode ----------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Generate.h"
#include "heddle_rt/plan_generated.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>

using namespace heddle::rt;

template <typename T>
static HostTensor hostTensor(DType dtype, std::vector<int64_t> shape,
                             const std::vector<T> &values) {
  HostTensor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.bytes.resize(values.size() * sizeof(T));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

static HostTensor intTensor(std::vector<int64_t> shape,
                            const std::vector<int32_t> &values) {
  return hostTensor(DType::i32, std::move(shape), values);
}

/// The host's facts about a bundle; every number that is used is checked.
static Result<nlohmann::json> interfaceOf(const Bundle &bundle,
                                          const std::string &program) {
  const auto *text = bundle.plan().interface();
  nlohmann::json json = nlohmann::json::parse(
      text ? text->str() : std::string(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return Status(Code::data_loss, "bundle: expected its interface to be JSON");
  if (json.value("program", std::string()) != program)
    return Status(Code::invalid_argument,
                  "expected a bundle compiled with --program " + program +
                      ", got --program " +
                      json.value("program", std::string("(none)")));
  return json;
}

static Status readNumber(const nlohmann::json &json, const char *key,
                         int64_t &value) {
  auto it = json.find(key);
  if (it == json.end() || !it->is_number_integer() || it->get<int64_t>() < 1 ||
      it->get<int64_t>() > (int64_t(1) << 40))
    return Status(Code::data_loss,
                  std::string("bundle: expected a positive '") + key +
                      "' in its interface");
  value = it->get<int64_t>();
  return Status::success();
}

static Status checkTokens(const std::vector<std::vector<int32_t>> &sequences,
                          int64_t batch, int64_t vocabulary) {
  if (static_cast<int64_t>(sequences.size()) != batch)
    return Status(Code::invalid_argument,
                  "--tokens: expected " + std::to_string(batch) +
                      " sequences separated by ';', got " +
                      std::to_string(sequences.size()));
  for (const auto &sequence : sequences) {
    if (sequence.empty())
      return Status(Code::invalid_argument,
                    "--tokens: expected at least one token in every sequence");
    for (int32_t token : sequence)
      if (token >= vocabulary)
        return Status(Code::invalid_argument,
                      "--tokens: expected ids below the vocabulary of " +
                          std::to_string(vocabulary) + ", got " +
                          std::to_string(token));
  }
  return Status::success();
}

Result<Generator> Generator::create(Session &session, const Bundle &bundle) {
  Result<nlohmann::json> json = interfaceOf(bundle, "generate");
  if (!json)
    return json.status();
  Generator generator(session);
  HEDDLE_RT_RETURN_IF_ERROR(readNumber(*json, "batch", generator.batch_));
  HEDDLE_RT_RETURN_IF_ERROR(readNumber(*json, "sequence", generator.capacity_));
  HEDDLE_RT_RETURN_IF_ERROR(readNumber(*json, "blocks", generator.blocks_));
  HEDDLE_RT_RETURN_IF_ERROR(
      readNumber(*json, "vocabulary", generator.vocabulary_));
  const nlohmann::json programs =
      json->is_object() ? json->value("prefill", nlohmann::json::array())
                        : nlohmann::json();
  for (const nlohmann::json &entry : programs) {
    Prefill program{"", 0};
    if (entry.is_object() && entry.contains("name") &&
        entry["name"].is_string())
      program.name = entry["name"].get<std::string>();
    HEDDLE_RT_RETURN_IF_ERROR(readNumber(entry, "rows", program.rows));
    if (!generator.prefills_.empty() &&
        program.rows >= generator.prefills_.back().rows)
      return Status(Code::invalid_argument,
                    "bundle: expected 'prefill' programs of ever fewer rows");
    generator.prefills_.push_back(std::move(program));
  }
  if (generator.prefills_.empty())
    return Status(Code::invalid_argument,
                  "bundle: expected a list of 'prefill' programs in its "
                  "interface, got none");
  return generator;
}

const Generator::Prefill &Generator::prefillFor(int64_t rows) const {
  const Prefill *best = &prefills_.front();
  for (const Prefill &program : prefills_)
    if (program.rows >= rows)
      best = &program;
  return *best;
}

std::vector<std::string> Generator::programs() const {
  std::vector<std::string> names = {"decode"};
  for (const Prefill &program : prefills_)
    names.push_back(program.name);
  return names;
}

Status Generator::setSampling(const Sampling &sampling) {
  size_t batch = static_cast<size_t>(batch_);
  auto ints = [&](int32_t value) {
    return intTensor({batch_}, std::vector<int32_t>(batch, value));
  };
  auto floats = [&](float value) {
    return hostTensor(DType::f32, {batch_}, std::vector<float>(batch, value));
  };
  const std::pair<const char *, HostTensor> inputs[] = {
      {"temperature", floats(sampling.temperature)},
      {"top_k", ints(sampling.topK)},
      {"top_p", floats(sampling.topP)},
      {"min_p", floats(sampling.minP)},
      {"seed", ints(static_cast<int32_t>(sampling.seed))}};
  for (const std::string &program : programs())
    for (const auto &[name, value] : inputs)
      HEDDLE_RT_RETURN_IF_ERROR(session_->setInput(program, name, value));
  return Status::success();
}

Status Generator::step(const std::string &program, int64_t rows,
                       const std::vector<int32_t> &tokens,
                       const std::vector<int32_t> &positions,
                       const std::vector<int32_t> &lengths,
                       const std::vector<int32_t> &last) {
  HEDDLE_RT_RETURN_IF_ERROR(
      session_->setInput(program, "tokens", intTensor({batch_, rows}, tokens)));
  HEDDLE_RT_RETURN_IF_ERROR(session_->setInput(
      program, "positions", intTensor({batch_, rows}, positions)));
  HEDDLE_RT_RETURN_IF_ERROR(
      session_->setInput(program, "lengths", intTensor({batch_}, lengths)));
  HEDDLE_RT_RETURN_IF_ERROR(
      session_->setInput(program, "last", intTensor({batch_, 1}, last)));
  return session_->run(program);
}

Result<std::vector<int32_t>> Generator::next(const std::string &program) {
  Result<HostTensor> output = session_->output(program, "next");
  if (!output)
    return output.status();
  std::vector<int32_t> tokens(static_cast<size_t>(batch_));
  if (output->bytes.size() != tokens.size() * sizeof(int32_t))
    return Status(Code::internal, "output 'next': expected one id a sequence");
  std::memcpy(tokens.data(), output->bytes.data(), output->bytes.size());
  return tokens;
}

Result<std::vector<std::vector<int32_t>>> Generator::run(
    const std::vector<std::vector<int32_t>> &prompts, int64_t count,
    const Sampling &sampling,
    const std::function<void(const std::vector<int32_t> &)> &onTokens) {
  HEDDLE_RT_RETURN_IF_ERROR(checkTokens(prompts, batch_, vocabulary_));
  int64_t longest = 0;
  for (const auto &prompt : prompts) {
    longest = std::max<int64_t>(longest, static_cast<int64_t>(prompt.size()));
    if (static_cast<int64_t>(prompt.size()) + count > capacity_)
      return Status(
          Code::invalid_argument,
          "expected prompt and new tokens to fit the bundle's --seq " +
              std::to_string(capacity_) + ", got " +
              std::to_string(prompt.size()) + " + " + std::to_string(count));
  }
  HEDDLE_RT_RETURN_IF_ERROR(session_->resetStates());
  // Inputs stay as they are from run to run; the table does not change.
  std::vector<int32_t> blocks(static_cast<size_t>(batch_ * blocks_));
  for (size_t i = 0; i < blocks.size(); ++i)
    blocks[i] = static_cast<int32_t>(i);
  for (const std::string &program : programs())
    HEDDLE_RT_RETURN_IF_ERROR(session_->setInput(
        program, "blocks", intTensor({batch_, blocks_}, blocks)));
  HEDDLE_RT_RETURN_IF_ERROR(setSampling(sampling));
  size_t batch = static_cast<size_t>(batch_);
  std::vector<int32_t> newest(batch, 0), lengths(batch, 0);

  // Chunks of the prompts; a sequence that has ended sends invalid rows, and
  // its next token is the one of the chunk that held its end.
  for (int64_t begin = 0; begin < longest;) {
    const auto &[program, chunk] = prefillFor(longest - begin);
    std::vector<int32_t> tokens(batch * static_cast<size_t>(chunk), 0);
    std::vector<int32_t> positions(tokens.size(), -1), last(batch, 0);
    std::vector<bool> ends(batch, false);
    for (size_t b = 0; b < batch; ++b) {
      int64_t size = static_cast<int64_t>(prompts[b].size());
      int64_t rows = std::clamp<int64_t>(size - begin, 0, chunk);
      for (int64_t t = 0; t < rows; ++t) {
        size_t at = b * static_cast<size_t>(chunk) + static_cast<size_t>(t);
        tokens[at] = prompts[b][static_cast<size_t>(begin + t)];
        positions[at] = static_cast<int32_t>(begin + t);
      }
      lengths[b] = static_cast<int32_t>(std::min(size, begin + chunk));
      ends[b] = rows > 0 && begin + rows == size;
      last[b] = static_cast<int32_t>(std::max<int64_t>(rows - 1, 0));
    }
    HEDDLE_RT_RETURN_IF_ERROR(session_->setParam(
        program, "valid_rows", std::min(longest - begin, chunk)));
    HEDDLE_RT_RETURN_IF_ERROR(
        step(program, chunk, tokens, positions, lengths, last));
    Result<std::vector<int32_t>> ids = next(program);
    if (!ids)
      return ids.status();
    for (size_t b = 0; b < batch; ++b)
      if (ends[b])
        newest[b] = (*ids)[b];
    begin += chunk;
  }
  std::vector<std::vector<int32_t>> result(batch);
  for (int64_t i = 0; i < count; ++i) {
    for (size_t b = 0; b < batch; ++b)
      result[b].push_back(newest[b]);
    if (onTokens)
      onTokens(newest);
    if (i + 1 == count)
      break;
    std::vector<int32_t> positions = lengths;
    for (int32_t &length : lengths)
      ++length;
    HEDDLE_RT_RETURN_IF_ERROR(step("decode", 1, newest, positions, lengths,
                                   std::vector<int32_t>(batch, 0)));
    Result<std::vector<int32_t>> ids = next("decode");
    if (!ids)
      return ids.status();
    newest = *ids;
  }
  return result;
}

/// Whether @forward has an input of this name.
static bool hasInput(const Bundle &bundle, std::string_view name) {
  for (const auto *program : *bundle.plan().classes()->Get(0)->programs())
    if (program->name()->str() == "forward")
      for (const auto *input : *program->inputs())
        if (input->name()->string_view() == name)
          return true;
  return false;
}

/// Lengths of documents, if they are given, add up to the tokens.
static Status checkDocuments(const std::vector<std::vector<int32_t>> &tokens,
                             const std::vector<std::vector<int32_t>> &lengths) {
  if (lengths.empty())
    return {};
  bool fits = lengths.size() == tokens.size();
  for (size_t b = 0; fits && b < tokens.size(); ++b) {
    int64_t sum = 0;
    for (int32_t length : lengths[b]) {
      fits &= length > 0;
      sum += length;
    }
    fits &= sum == static_cast<int64_t>(tokens[b].size());
  }
  if (fits)
    return {};
  return Status(Code::invalid_argument,
                "--documents: expected positive lengths that add up to the "
                "tokens of each sequence, as in 5,3 for 8 tokens");
}

Result<HostTensor> heddle::rt::runForwardProgram(
    Session &session, const Bundle &bundle,
    const std::vector<std::vector<int32_t>> &tokens,
    const std::vector<std::vector<int32_t>> &lengths) {
  Result<nlohmann::json> json = interfaceOf(bundle, "forward");
  if (!json)
    return json.status();
  int64_t batch = 0, sequence = 0, vocabulary = 0;
  HEDDLE_RT_RETURN_IF_ERROR(readNumber(*json, "batch", batch));
  HEDDLE_RT_RETURN_IF_ERROR(readNumber(*json, "sequence", sequence));
  HEDDLE_RT_RETURN_IF_ERROR(readNumber(*json, "vocabulary", vocabulary));
  HEDDLE_RT_RETURN_IF_ERROR(checkTokens(tokens, batch, vocabulary));
  std::vector<int32_t> ids(static_cast<size_t>(batch * sequence), 0);
  std::vector<int32_t> positions(ids.size(), -1), documents(ids.size(), -1);
  std::vector<int32_t> last;
  HEDDLE_RT_RETURN_IF_ERROR(checkDocuments(tokens, lengths));
  for (size_t b = 0; b < tokens.size(); ++b) {
    if (static_cast<int64_t>(tokens[b].size()) > sequence)
      return Status(Code::invalid_argument,
                    "--tokens: expected at most " + std::to_string(sequence) +
                        " tokens (--seq of the bundle), got " +
                        std::to_string(tokens[b].size()));
    size_t document = 0, place = 0;
    for (size_t t = 0; t < tokens[b].size(); ++t, ++place) {
      if (!lengths.empty() &&
          place == static_cast<size_t>(lengths[b][document])) {
        ++document;
        place = 0;
      }
      size_t at = b * static_cast<size_t>(sequence) + t;
      ids[at] = tokens[b][t];
      positions[at] = static_cast<int32_t>(place);
      documents[at] = static_cast<int32_t>(document);
    }
    last.push_back(static_cast<int32_t>(tokens[b].size()) - 1);
  }
  HEDDLE_RT_RETURN_IF_ERROR(
      session.setInput("forward", "tokens", intTensor({batch, sequence}, ids)));
  HEDDLE_RT_RETURN_IF_ERROR(session.setInput(
      "forward", "positions", intTensor({batch, sequence}, positions)));
  if (hasInput(bundle, "last"))
    HEDDLE_RT_RETURN_IF_ERROR(
        session.setInput("forward", "last", intTensor({batch, 1}, last)));
  if (hasInput(bundle, "documents"))
    HEDDLE_RT_RETURN_IF_ERROR(session.setInput(
        "forward", "documents", intTensor({batch, sequence}, documents)));
  else if (!lengths.empty())
    return Status(Code::invalid_argument,
                  "--documents: the bundle takes none; compile with --packed "
                  "TOKENS");
  HEDDLE_RT_RETURN_IF_ERROR(session.run("forward"));
  for (const auto *program : *bundle.plan().classes()->Get(0)->programs())
    if (program->name()->str() == "forward" && program->outputs()->size())
      return session.output("forward",
                            program->outputs()->Get(0)->name()->str());
  return Status(Code::data_loss, "bundle: expected an output of 'forward'");
}
