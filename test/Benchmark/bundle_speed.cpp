//===- bundle_speed.cpp - Time of a bundle's programs ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs a bundle as a host would and prints seconds and memory as JSON:
//
//   bundle_speed m.heddle --weights m.gguf generate --prompt 512 --new 2
//   bundle_speed m.heddle --weights random:7 program --name gemm
//
// `program` runs one program again and again; its inputs get random numbers,
// and `positions` 0, 1, 2, ... `resident` is what the process has grown by
// since before the session existed, `planned` the arenas of all ranks.
//
//===----------------------------------------------------------------------===//

#include "Generate.h"
#include "heddle_rt/communicator.h"
#include "heddle_rt/plan_generated.h"
#include "heddle_rt/session.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>

using namespace heddle::rt;

namespace {

struct Options {
  std::string bundle, weights = "random:7", name;
  int workers = 0, runs = 5;
  int64_t prompt = 1, fresh = 2;
  bool poison = false;
};

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Bytes of this process in memory: `VmRSS` (all) or `RssAnon` (all but pages
/// of files, which the kernel can drop).
int64_t resident(const char *key) {
  std::ifstream status("/proc/self/status");
  std::string line;
  size_t length = std::strlen(key);
  while (std::getline(status, line))
    if (line.compare(0, length, key) == 0 && line[length] == ':')
      return std::atoll(line.c_str() + length + 1) * 1024;
  return 0;
}

int64_t plannedBytes(const fb::Plan &plan, int64_t ranks) {
  int64_t total = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    auto index = static_cast<flatbuffers::uoffset_t>(rank);
    const auto *of = plan.rank_class();
    int32_t cls =
        !of || of->size() == 0 ? 0 : of->Get(of->size() == 1 ? 0 : index);
    for (const auto *space :
         *plan.classes()->Get(static_cast<uint32_t>(cls))->spaces())
      total += space->bytes();
  }
  return total;
}

HostTensor inputOf(const fb::IO &io) {
  HostTensor tensor;
  tensor.dtype = static_cast<DType>(io.dtype());
  int64_t elements = 1;
  for (const auto *dim : *io.dims()) {
    tensor.shape.push_back(dim->size());
    elements *= dim->size();
  }
  tensor.bytes.resize(static_cast<size_t>(elements * blockBytes(tensor.dtype)));
  bool ramp = tensor.dtype == DType::i32;
  uint32_t state = 1;
  for (int64_t i = 0; i < elements; ++i) {
    state = state * 1664525u + 1013904223u;
    float number =
        static_cast<float>(static_cast<int32_t>(state)) * (1.0f / 2147483648.f);
    int32_t index = static_cast<int32_t>(i % tensor.shape.back());
    if (tensor.dtype == DType::f32 || ramp)
      std::memcpy(tensor.bytes.data() + 4 * i,
                  ramp ? static_cast<void *>(&index) : &number, 4);
  }
  return tensor;
}

Status runProgram(Session &session, const Bundle &bundle,
                  const Options &options, nlohmann::json &result) {
  for (const auto *program : *bundle.plan().classes()->Get(0)->programs())
    if (program->name()->str() == options.name && program->inputs())
      for (const auto *input : *program->inputs())
        HEDDLE_RT_RETURN_IF_ERROR(session.setInput(
            options.name, input->name()->str(), inputOf(*input)));
  for (int run = -2; run < options.runs; ++run) { // two to warm up
    double start = now();
    HEDDLE_RT_RETURN_IF_ERROR(session.run(options.name));
    if (run >= 0)
      result["seconds"].push_back(now() - start);
  }
  return {};
}

/// `prompt` tokens at once, then `new` - 1 steps of one token each; the first
/// new token comes from the prompt.
Status runGenerate(Session &session, const Bundle &bundle,
                   const Options &options, nlohmann::json &result) {
  Result<Generator> generator = Generator::create(session, bundle);
  if (!generator)
    return generator.status();
  std::vector<std::vector<int32_t>> prompt(
      static_cast<size_t>(generator->batch()));
  for (auto &sequence : prompt)
    for (int64_t i = 0; i < options.prompt; ++i)
      sequence.push_back(
          static_cast<int32_t>((i * 7919 + 13) % generator->vocabulary()));
  for (int run = -1; run < options.runs; ++run) { // one to warm up
    double start = now(), first = 0;
    auto onTokens = [&](const std::vector<int32_t> &) {
      if (first == 0)
        first = now();
    };
    Result<std::vector<std::vector<int32_t>>> ids =
        generator->run(prompt, options.fresh, {}, onTokens);
    if (!ids)
      return ids.status();
    if (run < 0)
      continue;
    result["prompt_seconds"].push_back(first - start);
    result["step_seconds"].push_back(
        (now() - first) /
        static_cast<double>(std::max<int64_t>(1, options.fresh - 1)));
  }
  return {};
}

Status run(const Options &options, bool generate, nlohmann::json &result) {
  Result<std::shared_ptr<const Bundle>> bundle = Bundle::open(options.bundle);
  if (!bundle)
    return bundle.status();
  std::unique_ptr<Communicator> communicator =
      createInProcessCommunicator((*bundle)->worldSize());
  Result<std::unique_ptr<WeightSource>> source =
      WeightSource::open(options.weights);
  if (!source)
    return source.status();
  int64_t all = resident("VmRSS"), anonymous = resident("RssAnon");
  SessionOptions session;
  session.workers = options.workers;
  if (options.poison)
    session.poison = 0x7fc00000u;
  Result<std::unique_ptr<Session>> created =
      Session::create(*bundle, *communicator, session);
  if (!created)
    return created.status();
  HEDDLE_RT_RETURN_IF_ERROR((*created)->loadWeights(**source, nullptr));
  source->reset(); // the file's pages are no memory of the model
  HEDDLE_RT_RETURN_IF_ERROR(
      generate ? runGenerate(**created, **bundle, options, result)
               : runProgram(**created, **bundle, options, result));
  result["planned"] = plannedBytes((*bundle)->plan(), (*bundle)->worldSize());
  result["resident"] = resident("VmRSS") - all;
  result["resident_anonymous"] = resident("RssAnon") - anonymous;
  return {};
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app("Time of a bundle's programs");
  app.add_option("BUNDLE", options.bundle)->required();
  app.add_option("--weights", options.weights, "A file, or random:SEED");
  app.add_option("--workers", options.workers, "0 = one per processor");
  app.add_option("--runs", options.runs)->check(CLI::Range(1, 1000000));
  app.add_flag("--poison", options.poison, "Touch every page of the arenas");
  app.require_subcommand(1);
  auto *generate = app.add_subcommand("generate", "Prefill and decode");
  generate->add_option("--prompt", options.prompt)
      ->check(CLI::Range(1, 1 << 24));
  generate->add_option("--new", options.fresh)->check(CLI::Range(1, 1 << 24));
  auto *program = app.add_subcommand("program", "One program");
  program->add_option("--name", options.name)->required();
  generate->fallthrough();
  program->fallthrough();
  CLI11_PARSE(app, argc, argv);
  nlohmann::json result;
  Status status = run(options, generate->parsed(), result);
  if (!status.ok()) {
    std::fprintf(stderr, "bundle_speed: error: %s\n", status.message().c_str());
    return 1;
  }
  std::printf("%s\n", result.dump().c_str());
  return 0;
}
