//===- CommandLine.cpp - Options that describe a compilation ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"

#include <CLI/CLI.hpp>

#include <cstring>
#include <set>

/// "tp=2,cp=2": axes in rank order.
static std::string parseMesh(const std::string &text, CommandLine &options) {
  options.mesh.clear();
  std::set<std::string> seen;
  int64_t world = 1;
  for (const std::string &part : CLI::detail::split(text, ',')) {
    size_t equals = part.find('=');
    std::string name = part.substr(0, equals);
    int64_t size = 0;
    if (equals == std::string::npos || name.empty() ||
        !CLI::detail::lexical_cast(part.substr(equals + 1), size) || size < 1 ||
        size > (1 << 20))
      return "expected axes as in tp=2,dp=4, got '" + part + "'";
    if (!seen.insert(name).second)
      return "expected each axis once, got '" + name + "' twice";
    world *= size;
    if (world > (1 << 20))
      return "expected at most 1048576 ranks, got more";
    options.mesh.push_back({name, size});
  }
  return "";
}

/// "80GiB", "512MiB", "1000000".
static std::string parseBytes(const std::string &text, int64_t &bytes) {
  static const std::pair<const char *, int64_t> units[] = {
      {"KiB", 1LL << 10}, {"MiB", 1LL << 20}, {"GiB", 1LL << 30},
      {"TiB", 1LL << 40}, {"KB", 1000},       {"MB", 1000000},
      {"GB", 1000000000}, {"B", 1},           {"", 1}};
  for (auto [name, scale] : units) {
    size_t length = strlen(name);
    double number = 0;
    if (text.size() > length &&
        text.compare(text.size() - length, length, name) == 0 &&
        CLI::detail::lexical_cast(text.substr(0, text.size() - length),
                                  number) &&
        number > 0 && number * scale < 9e18) {
      bytes = static_cast<int64_t>(number * scale);
      return "";
    }
  }
  return "expected a size as in 80GiB or 512MiB, got '" + text + "'";
}

/// "alibi,sinks,soft_cap=30,window=4096".
static std::string parseAttention(const std::string &text,
                                  CommandLine &options) {
  for (const std::string &part : CLI::detail::split(text, ',')) {
    size_t equals = part.find('=');
    std::string name = part.substr(0, equals);
    std::string value =
        equals == std::string::npos ? "" : part.substr(equals + 1);
    bool plain = equals == std::string::npos;
    if (name == "alibi" && plain) {
      options.attention.alibi = true;
    } else if (name == "sinks" && plain) {
      options.attention.sinks = true;
    } else if (name == "soft_cap") {
      double cap = 0;
      if (!CLI::detail::lexical_cast(value, cap) || !(cap > 0) || cap > 1e30)
        return "--attention: expected a positive number as in soft_cap=30, got "
               "'" +
               part + "'";
      options.attention.softCap = cap;
    } else if (name == "window") {
      int64_t window = 0;
      if (!CLI::detail::lexical_cast(value, window) || window < 0 ||
          window > (int64_t(1) << 31))
        return "--attention: expected a number of tokens as in window=4096 (0: "
               "none), got '" +
               part + "'";
      options.attention.window = window;
    } else {
      return "--attention: expected alibi, sinks, soft_cap=C or window=W, got "
             "'" +
             part + "'";
    }
  }
  return "";
}

int parseCommandLine(int argc, char **argv, const char *tool,
                     CommandLine &options) {
  bool check = std::string(tool) == "heddle-check";
  CLI::App app(
      check ? "Proves a parallel plan on CPU ranks: compiles a model, runs it "
              "with random weights and compares every output, element by "
              "element, with the float64 reference.\n\n"
              "  heddle-check config.json --shrink --mesh tp=4\n"
              "  heddle-check model/ --mesh dp=2,tp=3 --at partition"
            : "Compiles a model description for a mesh of ranks into one "
              "bundle.\n\n"
              "  heddle-compile model.gguf --mesh tp=3 --program generate "
              "--seq 2048 -o m.heddle --report text\n"
              "  heddle-compile config.json --mesh tp=8 --report json\n\n"
              "MODEL is a Hugging Face folder or config.json (weights are not "
              "needed), a .gguf file, or MLIR text (.mlir).",
      tool);
  app.set_version_flag("--version", "0.1.0");
  std::string mesh = "tp=1", budget, attention;
  app.add_option("MODEL", options.model, "The model's description")
      ->required()
      ->type_name("PATH");
  app.add_option("--mesh", mesh,
                 "Mesh axes in rank order, the last fastest, as in dp=2,tp=4")
      ->capture_default_str();
  app.add_option("--strategy", options.strategy,
                 "Strategies in order, as in \"tensor(tp);data(dp)\"; without "
                 "it axes named tp and dp get tensor and data");
  app.add_option("--layout", options.layout,
                 "How tokens are dealt to ranks that share a sequence")
      ->check(CLI::IsMember({"zigzag", "striped", "contiguous", "cyclic"}));
  app.add_option(
         "--topology", options.topology,
         "JSON file of the mesh's links and devices (docs/strategies.md); "
         "context(cp) chooses by time with it")
      ->type_name("FILE");
  app.add_option("--program", options.program, "forward or generate")
      ->check(CLI::IsMember({"forward", "generate"}))
      ->capture_default_str();
  app.add_option("--output", options.result,
                 "What forward gives: logits, last or hidden")
      ->check(CLI::IsMember({"logits", "last", "hidden"}))
      ->capture_default_str();
  app.add_option(
         "--packed", options.packed,
         "forward: sequences are documents of at most this many tokens, "
         "one after the other, which the input 'documents' numbers")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 24))
      ->type_name("TOKENS");
  app.add_option("--positions", options.positions,
                 "forward: positions follow one another within a sequence, or "
                 "document (consecutive; hops of a ring that masks empty are "
                 "left out), or may be any")
      ->check(CLI::IsMember({"consecutive", "any"}))
      ->capture_default_str();
  app.add_option(
         "--attention", attention,
         "What attention does beside what MODEL says, as in "
         "alibi,sinks,soft_cap=30,window=4096: linear biases instead of "
         "rotary embeddings, a sink per head, scores capped by tanh, a "
         "sliding window on all layers")
      ->type_name("LIST");
  app.add_option("--target", options.target, "cpu")
      ->check(CLI::IsMember({"cpu"}))
      ->capture_default_str();
  app.add_option("--cpu", options.cpu,
                 "Processor: host, x86-64-v3 (AVX2) or x86-64-v4 (AVX-512)")
      ->check(CLI::IsMember({"host", "x86-64-v3", "x86-64-v4"}))
      ->capture_default_str();
  app.add_option("--batch", options.batch, "Sequences")
      ->check(CLI::Range(int64_t(1), int64_t(65536)))
      ->capture_default_str();
  app.add_option("--seq", options.sequence,
                 "Tokens of a forward; most tokens of a generated sequence")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 24))
      ->capture_default_str();
  app.add_option("--chunk", options.chunk, "Tokens that prefill takes at once")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20))
      ->capture_default_str();
  app.add_option("--block-size", options.blockSize, "Tokens of a cache block")
      ->check(CLI::Range(int64_t(1), int64_t(4096)))
      ->capture_default_str();
  app.add_option("--compute", options.compute, "Type of activations: f32")
      ->check(CLI::IsMember({"f32"}))
      ->capture_default_str();
  app.add_option("--weights", options.weights,
                 "Type of stored weights: keep, f32, bf16 or q8_0")
      ->check(CLI::IsMember({"keep", "f32", "bf16", "q8_0"}))
      ->capture_default_str();
  app.add_option("--activations", options.activations,
                 "Inputs of products with quantised weights: keep (fp32), or "
                 "q8 (int8 in blocks of 32; faster, less exact)")
      ->check(CLI::IsMember({"keep", "q8"}))
      ->capture_default_str();
  app.add_option("--memory-budget", budget,
                 "Largest arena per rank, as in 80GiB");
  app.add_flag("--strict-divisibility", options.strict,
               "Refuse sizes that do not divide over the mesh");
  app.add_flag("--shrink", options.shrink,
               "Keep head counts and ratios, make layers and widths small");
  if (check) {
    app.add_option("--at", options.at,
                   "partition (reference on simulated ranks) or plan (the "
                   "bundle itself)")
        ->check(CLI::IsMember({"partition", "plan"}))
        ->capture_default_str();
    app.add_option("--seed", options.seed, "Seed of weights and inputs")
        ->capture_default_str();
    app.add_option("--local", options.local,
                   "Check these partitioned programs (what heddle-compile "
                   "--compile-to partition prints, edited) instead of those "
                   "that the passes make")
        ->type_name("FILE.mlir");
  } else {
    app.add_option("-o", options.output, "The bundle")->type_name("FILE");
    app.add_option("--report", options.report,
                   "Print memory and communication per rank: text or json")
        ->check(CLI::IsMember({"text", "json"}));
    auto phases = CLI::IsMember({"import", "annotate", "partition", "schedule",
                                 "plan", "codegen", "bundle"});
    app.add_option("--compile-from", options.from,
                   "The phase that MODEL, MLIR text, has been through")
        ->check(phases);
    app.add_option("--compile-to", options.to,
                   "Stop after this phase and print the MLIR")
        ->check(phases);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  std::string problems = parseMesh(mesh, options);
  if (!attention.empty()) {
    std::string problem = parseAttention(attention, options);
    if (!problem.empty())
      problems += (problems.empty() ? "" : "\n") + problem;
  }
  if (!budget.empty()) {
    std::string problem = parseBytes(budget, options.memoryBudget);
    if (!problem.empty())
      problems +=
          (problems.empty() ? "" : "\n") + ("--memory-budget: " + problem);
  }
  if (!problems.empty()) {
    std::cerr << tool << ": error: " << problems << "\n";
    return 1;
  }
  return -1;
}
