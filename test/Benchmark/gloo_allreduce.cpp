//===- gloo_allreduce.cpp - All-reduce of gloo ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two processes on the loopback interface sum a buffer of floats with gloo; the
// seconds of one all-reduce as JSON, for each way that gloo has. The fastest
// counts.
//
//   gloo_allreduce --bytes 4096
//
//===----------------------------------------------------------------------===//

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

constexpr int kRanks = 2;

struct Options {
  int64_t bytes = 4096;
  double seconds = 0.5;
};

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

using Context = std::shared_ptr<gloo::rendezvous::Context>;
/// Makes what does one all-reduce of `data`.
using Maker =
    std::function<std::function<void()>(Context &, std::vector<float> &data)>;

struct Way {
  const char *name;
  /// A thread of gloo receives, or the caller itself, waiting or spinning.
  enum { threaded, waiting, spinning } receive;
  Maker make;
};

Maker function(gloo::AllreduceOptions::Algorithm algorithm) {
  return [=](Context &context, std::vector<float> &data) {
    return [=, &data] {
      gloo::AllreduceOptions options(context);
      options.setAlgorithm(algorithm);
      options.setOutput(data.data(), data.size());
      options.setReduceFunction(
          static_cast<void (*)(void *, const void *, const void *, size_t)>(
              &gloo::sum<float>));
      gloo::allreduce(options);
    };
  };
}

template <typename Algorithm> Maker object() {
  return [](Context &context, std::vector<float> &data) {
    auto algorithm =
        std::make_shared<Algorithm>(context, std::vector<float *>{data.data()},
                                    static_cast<int>(data.size()));
    return [algorithm] { algorithm->run(); };
  };
}

std::vector<Way> ways() {
  using HalvingDoubling = gloo::AllreduceHalvingDoubling<float>;
  using RingChunked = gloo::AllreduceRingChunked<float>;
  using Algorithm = gloo::AllreduceOptions::Algorithm;
  return {
      {"ring", Way::threaded, function(Algorithm::RING)},
      {"bcube", Way::threaded, function(Algorithm::BCUBE)},
      {"halving doubling", Way::threaded, object<HalvingDoubling>()},
      {"halving doubling, waiting", Way::waiting, object<HalvingDoubling>()},
      {"halving doubling, spinning", Way::spinning, object<HalvingDoubling>()},
      {"ring chunked", Way::threaded, object<RingChunked>()},
      {"ring chunked, waiting", Way::waiting, object<RingChunked>()},
      {"ring chunked, spinning", Way::spinning, object<RingChunked>()},
  };
}

/// Seconds of one all-reduce. All ranks do the same number of them: how many is
/// agreed on by summing what each thinks fits.
double measure(const Way &way, int index, int rank, const std::string &folder,
               std::shared_ptr<gloo::transport::Device> &device,
               const Options &options) {
  auto files = std::make_shared<gloo::rendezvous::FileStore>(folder);
  auto store = std::make_shared<gloo::rendezvous::PrefixStore>(
      std::to_string(index), files);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, kRanks);
  context->connectFullMesh(store, device);
  if (way.receive != Way::threaded)
    context->getPair(1 - rank)->setSync(true, way.receive == Way::spinning);
  std::vector<float> data(static_cast<size_t>(options.bytes) / sizeof(float),
                          0.0f);
  std::function<void()> run = way.make(context, data);
  for (int i = 0; i < 3; ++i)
    run();
  double start = now();
  run();
  float turns =
      static_cast<float>(options.seconds / (now() - start) / kRanks + 1);
  data[0] = std::min(turns, 1e5f);
  run();
  int count = static_cast<int>(data[0]);
  std::fill(data.begin(), data.end(), 0.0f);
  run();
  start = now();
  for (int i = 0; i < count; ++i)
    run();
  return (now() - start) / count;
}

int runRank(int rank, const std::string &folder, const Options &options) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = "lo";
  std::shared_ptr<gloo::transport::Device> device =
      gloo::transport::tcp::CreateDevice(attributes);
  nlohmann::json result;
  double best = 0;
  int index = 0;
  for (const Way &way : ways()) {
    try {
      double seconds = measure(way, index++, rank, folder, device, options);
      result["ways"][way.name] = seconds;
      if (best == 0 || seconds < best) {
        best = seconds;
        result["way"] = way.name;
      }
    } catch (const std::exception &error) {
      result["failed"][way.name] = error.what();
    }
  }
  result["seconds"] = best;
  if (rank == 0)
    std::printf("%s\n", result.dump().c_str());
  return best > 0 ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app("All-reduce of gloo between two processes");
  app.add_option("--bytes", options.bytes)
      ->check(CLI::Range(int64_t(64), int64_t(1) << 30));
  app.add_option("--seconds", options.seconds, "For each way to do it");
  CLI11_PARSE(app, argc, argv);
  std::string folder =
      (std::filesystem::temp_directory_path() / "gloo-XXXXXX").string();
  if (!mkdtemp(folder.data())) {
    std::perror("gloo_allreduce: cannot make a folder");
    return 1;
  }
  pid_t child = fork();
  if (child < 0) {
    std::perror("gloo_allreduce: cannot fork");
    return 1;
  }
  int failed = runRank(child == 0 ? 1 : 0, folder, options);
  if (child == 0)
    return failed;
  int status = 0;
  waitpid(child, &status, 0);
  std::filesystem::remove_all(folder);
  return failed || status != 0;
}
