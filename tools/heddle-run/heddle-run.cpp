//===- heddle-run.cpp - Runs a bundle ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Generate.h"
#include "heddle_rt/communicator.h"
#include "heddle_rt/plan_generated.h"
#include "heddle_rt/session.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <set>
#include <thread>
#include <unistd.h>

using namespace heddle::rt;

namespace {

struct Options {
  std::string bundle, weights, communicator, trace, tokens, documents;
  int workers = 0;
  int64_t newTokens = 32, repeat = 3, promptTokens = 512;
  Sampling sampling;
  bool poison = false, stream = false;
  std::string output;
  int (*run)(Session &, const Bundle &, const Options &) = nullptr;
};

/// The rank of this process, -1 if it has all of them. Rank 0 does the talking,
/// except about failures.
int32_t processRank = -1;
bool talks() { return processRank <= 0; }

int fail(const std::string &message) {
  // Messages of the executor begin with the rank.
  std::string rank = processRank < 0 || message.rfind("rank ", 0) == 0
                         ? ""
                         : "rank " + std::to_string(processRank) + ": ";
  std::fprintf(stderr, "heddle-run: error: %s%s\n", rank.c_str(),
               message.c_str());
  return 1;
}

#ifdef HEDDLE_HAVE_MPI
const std::vector<std::string> kCommunicators = {"inprocess", "mpi"};
#else
const std::vector<std::string> kCommunicators = {"inprocess"};
#endif

/// How many of us mpirun (of Open MPI, or another one with PMI) has started; 0:
/// it has not.
int startedProcesses() {
  for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char *size = std::getenv(name))
      return std::atoi(size);
  return 0;
}
bool startedByMpirun() { return startedProcesses() > 1; }

#ifdef HEDDLE_HAVE_MPI
/// mpirun ends a job by SIGTERM to the processes that are left, and a second
/// later by SIGKILL. Between the two, this rank says what it was doing: its run
/// fails where it waits. To be called before other threads begin.
class EndOfJob {
public:
  EndOfJob() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    std::thread([this] {
      int signal = 0;
      sigwait(&signals_, &signal);
      if (Communicator *communicator = communicator_.load()) {
        communicator->abort(Status(
            Code::aborted, "the job has been ended: another process died, or "
                           "someone stopped it"));
        std::this_thread::sleep_for(std::chrono::seconds(2));
      }
      _exit(128 + SIGTERM);
    }).detach();
  }
  void watch(Communicator *communicator) { communicator_.store(communicator); }

private:
  sigset_t signals_;
  std::atomic<Communicator *> communicator_{nullptr};
};

EndOfJob &endOfJob() {
  static EndOfJob &instance = *new EndOfJob; // its thread outlives main
  return instance;
}
#endif

Result<std::unique_ptr<Communicator>> connect(const std::string &kind,
                                              int64_t worldSize) {
#ifdef HEDDLE_HAVE_MPI
  if (kind == "mpi") {
    (void)endOfJob();
    Result<std::unique_ptr<Communicator>> mpi = createMpiCommunicator();
    if (!mpi)
      return mpi;
    if (startedByMpirun() && (*mpi)->worldSize() == 1)
      return Status(
          Code::incompatible,
          "expected " + std::to_string(startedProcesses()) +
              " processes, as OMPI_COMM_WORLD_SIZE or PMI_SIZE says, but this "
              "program's MPI library sees 1: start it with the mpirun of the "
              "library that it is linked with (ldd heddle-run), or, without "
              "mpirun, with --comm inprocess");
    endOfJob().watch(mpi->get());
    processRank = (*mpi)->localRanks().front();
    return mpi;
  }
#endif
  (void)kind;
  return createInProcessCommunicator(worldSize);
}

/// "1,2,3", "1,2;3,4" for a batch, or a file that holds that: the argument of
/// `option`.
Result<std::vector<std::vector<int32_t>>>
parseTokens(const std::string &argument, const std::string &option) {
  std::string text = argument;
  std::ifstream file(argument);
  if (file) {
    text.assign(std::istreambuf_iterator<char>(file), {});
    if (text.size() > (64u << 20))
      return Status(Code::invalid_argument,
                    option + ": expected at most 64 MiB of numbers in " +
                        argument);
  }
  std::vector<std::vector<int32_t>> sequences(1);
  std::string number;
  auto flush = [&]() {
    if (number.empty())
      return true;
    char *end = nullptr;
    long value = std::strtol(number.c_str(), &end, 10);
    if (*end || value < 0 || value > INT32_MAX)
      return false;
    sequences.back().push_back(static_cast<int32_t>(value));
    number.clear();
    return true;
  };
  for (char c : text) {
    bool separator = c == ',' || c == ';' || c == ' ' || c == '\n' || c == '\r';
    if (!separator) {
      number += c;
      continue;
    }
    if (!flush())
      return Status(Code::invalid_argument,
                    option + ": expected numbers as in 1,2,3, got '" + number +
                        "'");
    if (c == ';')
      sequences.emplace_back();
  }
  if (!flush())
    return Status(Code::invalid_argument,
                  option + ": expected numbers as in 1,2,3, got '" + number +
                      "'");
  return sequences;
}

void progressBar(int64_t done, int64_t total) {
  if (!isatty(2) || !talks())
    return;
  const int width = 40;
  int filled = total ? static_cast<int>(done * width / total) : width;
  std::string bar(static_cast<size_t>(filled), '#');
  bar.resize(width, '.');
  std::fprintf(stderr, "\rloading weights [%s] %3d %%", bar.c_str(),
               total ? static_cast<int>(done * 100 / total) : 100);
  if (done >= total)
    std::fprintf(stderr, "\n");
}

double seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void printIds(const std::vector<std::vector<int32_t>> &sequences) {
  std::string text;
  for (const auto &sequence : sequences) {
    if (!text.empty())
      text += ";";
    for (size_t i = 0; i < sequence.size(); ++i)
      text += (i ? "," : "") + std::to_string(sequence[i]);
  }
  std::printf("%s\n", text.c_str());
}

int runGenerate(Session &session, const Bundle &bundle,
                const Options &options) {
  Result<std::vector<std::vector<int32_t>>> tokens =
      parseTokens(options.tokens, "--tokens");
  if (!tokens)
    return fail(tokens.status().message());
  Result<Generator> generator = Generator::create(session, bundle);
  if (!generator)
    return fail(generator.status().message());
  double start = seconds(), first = 0;
  int64_t produced = 0;
  auto onTokens = [&](const std::vector<int32_t> &newest) {
    if (produced++ == 0)
      first = seconds();
    if (options.stream) {
      printIds({newest});
      std::fflush(stdout);
    }
  };
  Result<std::vector<std::vector<int32_t>>> result =
      generator->run(*tokens, options.newTokens, options.sampling, onTokens);
  if (!result)
    return fail(result.status().message());
  double end = seconds();
  int64_t prompt = 0;
  if (!talks())
    return 0;
  for (auto &sequence : *tokens)
    prompt = std::max<int64_t>(prompt, static_cast<int64_t>(sequence.size()));
  std::fprintf(stderr, "prompt of %lld tokens: %.1f tokens/s\n",
               static_cast<long long>(prompt), prompt / (first - start));
  if (produced > 1)
    std::fprintf(stderr, "%lld new tokens: %.1f tokens/s\n",
                 static_cast<long long>(produced),
                 static_cast<double>(produced - 1) / (end - first));
  printIds(*result);
  return 0;
}

int runBench(Session &session, const Bundle &bundle, const Options &options) {
  Result<Generator> generator = Generator::create(session, bundle);
  if (!generator)
    return fail(generator.status().message());
  std::vector<std::vector<int32_t>> prompt(
      static_cast<size_t>(generator->batch()));
  int64_t length =
      std::min<int64_t>(generator->capacity() / 2, options.promptTokens);
  for (auto &sequence : prompt)
    for (int64_t i = 0; i < length; ++i)
      sequence.push_back(
          static_cast<int32_t>((i * 7919 + 13) % generator->vocabulary()));
  int64_t fresh = std::min(options.newTokens, generator->capacity() - length);
  for (int64_t round = 0; round < options.repeat; ++round) {
    double start = seconds(), first = 0;
    int64_t produced = 0;
    auto onTokens = [&](const std::vector<int32_t> &) {
      if (produced++ == 0)
        first = seconds();
    };
    Result<std::vector<std::vector<int32_t>>> result =
        generator->run(prompt, fresh, options.sampling, onTokens);
    if (!result)
      return fail(result.status().message());
    double end = seconds();
    if (!talks())
      continue;
    std::printf("round %lld: prefill %.1f tokens/s, decode %.1f tokens/s\n",
                static_cast<long long>(round + 1), length / (first - start),
                static_cast<double>(produced - 1) / (end - first));
  }
  return 0;
}

int runForward(Session &session, const Bundle &bundle, const Options &options) {
  Result<std::vector<std::vector<int32_t>>> tokens =
      parseTokens(options.tokens, "--tokens");
  if (!tokens)
    return fail(tokens.status().message());
  std::vector<std::vector<int32_t>> lengths;
  if (!options.documents.empty()) {
    Result<std::vector<std::vector<int32_t>>> given =
        parseTokens(options.documents, "--documents");
    if (!given)
      return fail(given.status().message());
    lengths = given.take();
  }
  Result<HostTensor> result =
      runForwardProgram(session, bundle, *tokens, lengths);
  if (!result)
    return fail(result.status().message());
  if (!talks())
    return 0;
  if (options.output.empty()) {
    std::string shape;
    for (int64_t extent : result->shape)
      shape += (shape.empty() ? "" : "x") + std::to_string(extent);
    std::printf("%s float32\n", shape.c_str());
    return 0;
  }
  nlohmann::json header;
  header["output"] = {{"dtype", "F32"},
                      {"shape", result->shape},
                      {"data_offsets", {0, result->bytes.size()}}};
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::vector<uint8_t> bytes(8);
  uint64_t length = text.size();
  std::memcpy(bytes.data(), &length, 8);
  bytes.insert(bytes.end(), text.begin(), text.end());
  bytes.insert(bytes.end(), result->bytes.begin(), result->bytes.end());
  Status written = writeFileAtomically(options.output, bytes);
  return written.ok() ? 0 : fail(written.message());
}

/// Refuses what is no number, or not in the range; `what` describes it.
std::function<std::string(const std::string &)>
number(std::string what, std::function<bool(double)> accepts, bool whole) {
  return [=](const std::string &text) -> std::string {
    char *end = nullptr;
    double value = std::strtod(text.c_str(), &end);
    if (!whole) // what the input will hold
      value = static_cast<float>(value);
    bool good =
        !text.empty() && *end == '\0' && accepts(value) &&
        (!whole || text.find_first_not_of("0123456789") == std::string::npos);
    return good ? "" : "expected " + what + ", got " + text;
  };
}

void addSampling(CLI::App &command, Sampling &sampling) {
  auto upTo = [](double least, double most) {
    return [=](double v) { return v >= least && v <= most; };
  };
  command
      .add_option("--temperature", sampling.temperature,
                  "0 takes the likeliest token every time; above it tokens are "
                  "drawn, and the higher the more freely. 0.7 is usual for "
                  "chat, 1 draws from the model's own probabilities")
      ->check(number("a number from 0 to 1000", upTo(0, 1000), false))
      ->capture_default_str();
  command
      .add_option("--top-k", sampling.topK,
                  "Draw from the K likeliest tokens only; 0 = from all")
      ->check(number("a whole number from 0 to 2147483647", upTo(0, 2147483647),
                     true))
      ->capture_default_str();
  command
      .add_option("--top-p", sampling.topP,
                  "Of those, draw from the fewest that hold this much of the "
                  "probability, as in 0.9; 1 = from all")
      ->check(number(
          "a number above 0 and at most 1",
          [](double v) { return v > 0 && v <= 1; }, false))
      ->capture_default_str();
  command
      .add_option("--min-p", sampling.minP,
                  "Of those, leave out what is less likely than this part of "
                  "the likeliest, as in 0.05; 0 = nothing")
      ->check(number("a number from 0 to 1", upTo(0, 1), false))
      ->capture_default_str();
  command
      .add_option("--seed", sampling.seed,
                  "Draws are a function of it: the same seed gives the same "
                  "text again, on any mesh that gives the same logits")
      ->check(number("a whole number from 0 to 4294967295",
                     upTo(0, 4294967295.0), true))
      ->capture_default_str();
}

/// Tells what a person may have expected to count: files that were not read,
/// and tensors that no parameter of the bundle comes from.
void noteUnused(const Bundle &bundle, const WeightSource &source) {
  if (!talks())
    return;
  for (const std::string &note : source.notes())
    std::fprintf(stderr, "heddle-run: note: %s\n", note.c_str());
  // Tables of rotary angles follow from the description.
  std::set<std::string> used = {"rope_freqs.weight"};
  const char *angles = ".rotary_emb.inv_freq";
  for (const fb::RankClass *cls : *bundle.plan().classes()) {
    if (!cls->recipes())
      continue;
    for (const fb::Recipe *recipe : *cls->recipes())
      for (const auto *name : {recipe->name(), recipe->gguf_name()}) {
        std::string text = name ? name->str() : "";
        size_t at = text.find("{i}");
        if (at == std::string::npos || !recipe->layers())
          used.insert(text);
        else
          for (int32_t layer : *recipe->layers())
            used.insert(
                std::string(text).replace(at, 3, std::to_string(layer)));
      }
  }
  constexpr size_t kListed = 5;
  std::string list;
  size_t unused = 0;
  for (const TensorInfo &tensor : source.tensors())
    if (!used.count(tensor.name) &&
        tensor.name.find(angles) == std::string::npos && ++unused <= kListed)
      list += (list.empty() ? "'" : ", '") + tensor.name + "'";
  if (unused > kListed)
    list += " and " + std::to_string(unused - kListed) + " more";
  if (unused)
    std::fprintf(stderr, "heddle-run: note: tensors not used: %s\n",
                 list.c_str());
}

/// Runs the subcommand of `options` on the ranks of this process.
int runRanks(const Options &options, std::shared_ptr<const Bundle> bundle,
             Communicator &communicator) {
  Result<std::unique_ptr<WeightSource>> source =
      WeightSource::open(options.weights);
  if (!source)
    return fail(source.status().message());
  SessionOptions sessionOptions;
  sessionOptions.workers = options.workers;
  // Processes on one machine share its processors.
  const char *neighbours = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (options.workers == 0 && processRank >= 0 && neighbours)
    sessionOptions.workers =
        std::max(1, static_cast<int>(std::thread::hardware_concurrency()) /
                        std::max(1, std::atoi(neighbours)));
  sessionOptions.tracePath = options.trace;
  if (options.poison)
    sessionOptions.poison = 0x7fc00000u;
  Result<std::unique_ptr<Session>> session =
      Session::create(bundle, communicator, sessionOptions);
  if (!session)
    return fail(session.status().message());
  Status loaded = (*session)->loadWeights(**source, progressBar);
  if (!loaded.ok())
    return fail(loaded.message());
  noteUnused(*bundle, **source);
  int status = options.run(**session, *bundle, options);
  if (status == 0 && !options.trace.empty()) {
    Status traced = (*session)->writeTrace();
    if (!traced.ok())
      return fail(traced.message());
  }
  return status;
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app("Runs a bundle on all its ranks.\n\n"
               "  heddle-run m.heddle --weights model.gguf generate --tokens "
               "1,2,3 --max-new-tokens 64\n"
               "  heddle-run m.heddle --weights random:7 bench",
               "heddle-run");
  app.set_version_flag("--version", "0.1.0");
  app.add_option("BUNDLE", options.bundle, "File made by heddle-compile")
      ->required();
  app.add_option("--weights", options.weights,
                 "Model folder, .safetensors, .gguf, or random:SEED")
      ->required();
  app.add_option("--comm", options.communicator,
                 "inprocess: all ranks here; mpi: one rank per process, as in "
                 "mpirun -n N heddle-run …. Default: mpi under mpirun")
      ->check(CLI::IsMember(kCommunicators));
  app.add_option("--workers", options.workers,
                 "Worker threads; 0 = one per processor")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--trace", options.trace,
                 "Write a trace that Perfetto opens, one row per rank and "
                 "stream; under MPI "
                 "one file per rank, TRACE.RANK");
  app.add_flag("--poison", options.poison,
               "Fill fresh memory with NaNs before anything runs");
  app.require_subcommand(1);
  auto *generate = app.add_subcommand(
      "generate", "Text: ids on the last line of standard output");
  generate
      ->add_option("--tokens", options.tokens,
                   "Prompt: ids as in 1,2,3 (1,2;3 for a batch), or a file")
      ->required();
  generate->add_option("--max-new-tokens", options.newTokens, "Tokens to add")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  addSampling(*generate, options.sampling);
  generate->add_flag("--stream", options.stream,
                     "Also print the newest ids after every step, a line each");
  auto *forward = app.add_subcommand("forward", "One pass over given tokens");
  forward->add_option("--tokens", options.tokens, "Ids, or a file")->required();
  forward->add_option("--documents", options.documents,
                      "Lengths of the documents of each sequence, in order, as "
                      "in 5,3 (5,3;8 for a batch), or a file");
  forward->add_option("--output", options.output,
                      "Write the result as safetensors");
  auto *bench = app.add_subcommand("bench", "Tokens per second");
  bench
      ->add_option("--prompt-tokens", options.promptTokens,
                   "Tokens of the prompt, half of those that fit at most")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  bench->add_option("--max-new-tokens", options.newTokens, "Tokens to decode")
      ->check(CLI::Range(2, 1 << 24))
      ->capture_default_str();
  bench->add_option("--repeat", options.repeat, "Rounds")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  for (auto *sub : {generate, forward, bench})
    sub->fallthrough();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 1;
  }

  if (options.communicator.empty()) {
    options.communicator = startedByMpirun() ? "mpi" : "inprocess";
    if (options.communicator != kCommunicators.back() && startedByMpirun())
      return fail("started by mpirun, but this build has no MPI; give --comm "
                  "inprocess to run all ranks in each process");
  }
  Result<std::shared_ptr<const Bundle>> bundle = Bundle::open(options.bundle);
  if (!bundle)
    return fail(bundle.status().message());
  Result<std::unique_ptr<Communicator>> communicator =
      connect(options.communicator, (*bundle)->worldSize());
  if (!communicator)
    return fail(communicator.status().message());
  if ((*communicator)->worldSize() != (*bundle)->worldSize()) {
    if (talks())
      fail("bundle needs " + std::to_string((*bundle)->worldSize()) +
           " ranks, got " + std::to_string((*communicator)->worldSize()) +
           " (start with mpirun -n " + std::to_string((*bundle)->worldSize()) +
           ")");
    else // mpirun ends the job with the first rank that fails: rank 0 speaks.
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return 1;
  }
  if (processRank >= 0 && !options.trace.empty())
    options.trace += "." + std::to_string(processRank);
  options.run = *generate ? runGenerate : *bench ? runBench : runForward;
  int status = runRanks(options, *bundle, **communicator);
  // The others need not wait for a rank that cannot go on.
  if (status != 0)
    (*communicator)
        ->abort(Status(Code::aborted, "rank " + std::to_string(processRank) +
                                          " has failed and left"));
#ifdef HEDDLE_HAVE_MPI
  if (processRank >= 0)
    endOfJob().watch(nullptr);
#endif
  return status;
}
