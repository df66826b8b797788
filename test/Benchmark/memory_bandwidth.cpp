//===- memory_bandwidth.cpp - What the memory gives -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Streams over buffers with a given mix of reads and writes, on several
// threads, and prints the bytes per second as JSON. Written bytes count once,
// whether or not the processor reads the line first; of the ways to walk the
// buffers and to store, the fastest counts.
//
//   memory_bandwidth --bytes 1073741824 --reads 2 --writes 1 --threads 2
//
// `--bytes` is the size of all buffers together.
//
//===----------------------------------------------------------------------===//

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

struct Options {
  int64_t bytes = int64_t(1) << 30;
  int reads = 1, writes = 0, threads = 2;
  double seconds = 0.5;
};

/// One cache line.
using Line __attribute__((vector_size(64))) = float;
constexpr int64_t kLine = sizeof(Line);

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Around the caches of this core: nobody reads these lines soon.
inline void storePast(Line *to, const Line &value) {
#if defined(__AVX512F__)
  _mm512_stream_ps(reinterpret_cast<float *>(to),
                   reinterpret_cast<const __m512 &>(value));
#elif defined(__AVX__)
  const __m256 *halves = reinterpret_cast<const __m256 *>(&value);
  _mm256_stream_ps(reinterpret_cast<float *>(to), halves[0]);
  _mm256_stream_ps(reinterpret_cast<float *>(to) + 8, halves[1]);
#else
  *to = value;
#endif
}

/// Consumes lines [begin, end) of every input and fills those of every output.
/// `strands` are walked side by side.
using Pass = Line (*)(Line *const *buffers, int64_t begin, int64_t end);

template <int reads, int writes, int strands, bool past>
Line pass(Line *const *buffers, int64_t begin, int64_t end) {
  Line sums[strands] = {};
  int64_t length = (end - begin) / strands;
  for (int64_t i = begin; i < begin + length; ++i)
    for (int s = 0; s < strands; ++s) {
      int64_t at = i + s * length;
      Line sum = {};
      for (int r = 0; r < reads; ++r)
        sum += buffers[r][at];
      for (int w = 0; w < writes; ++w)
        if (past)
          storePast(buffers[reads + w] + at, sum);
        else
          buffers[reads + w][at] = sum;
      if (writes == 0)
        sums[s] += sum;
    }
  for (int s = 1; s < strands; ++s)
    sums[0] += sums[s];
  return sums[0];
}

struct Way {
  const char *name;
  Pass pass;
};

template <int reads, int writes> std::vector<Way> ways() {
  if constexpr (writes == 0)
    return {{"1 strand", pass<reads, 0, 1, false>},
            {"4 strands", pass<reads, 0, 4, false>},
            {"16 strands", pass<reads, 0, 16, false>}};
  else
    return {{"stores", pass<reads, writes, 1, false>},
            {"stores past the cache", pass<reads, writes, 1, true>}};
}

std::vector<Way> waysOf(int reads, int writes) {
  switch (10 * reads + writes) {
  case 10:
    return ways<1, 0>();
  case 11:
    return ways<1, 1>();
  case 21:
    return ways<2, 1>();
  case 22:
    return ways<2, 2>();
  default:
    return {};
  }
}

/// Bytes per second of `way`; thread t walks part t of every buffer.
double measure(const Options &options, const std::vector<Line *> &buffers,
               int64_t lines, const Way &way) {
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::atomic<int64_t> passes{0};
  volatile float sink = 0;
  double deadline = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < options.threads; ++t)
    threads.emplace_back([&, t] {
      int64_t begin = lines * t / options.threads;
      int64_t end = lines * (t + 1) / options.threads;
      Line sum = way.pass(buffers.data(), begin, end); // warms up
      ready.fetch_add(1);
      while (!go.load())
        std::this_thread::yield();
      int64_t own = 0;
      do {
        sum += way.pass(buffers.data(), begin, end);
        ++own;
      } while (now() < deadline);
      sink = sink + sum[0];
      passes.fetch_add(own * (end - begin));
    });
  while (ready.load() != options.threads)
    std::this_thread::yield();
  double start = now();
  deadline = start + options.seconds;
  go.store(true);
  for (std::thread &thread : threads)
    thread.join();
  double bytes = static_cast<double>(passes.load()) * kLine *
                 static_cast<double>(buffers.size());
  return bytes / (now() - start);
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app("Memory bandwidth with a mix of reads and writes");
  app.add_option("--bytes", options.bytes, "Of all buffers together")
      ->check(CLI::Range(int64_t(1) << 12, int64_t(1) << 42));
  app.add_option("--reads", options.reads, "Buffers that are read");
  app.add_option("--writes", options.writes, "Buffers that are written");
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 1024));
  app.add_option("--seconds", options.seconds, "For each way to do it");
  CLI11_PARSE(app, argc, argv);
  std::vector<Way> ways = waysOf(options.reads, options.writes);
  if (ways.empty()) {
    std::fprintf(stderr, "memory_bandwidth: error: expected reads and writes "
                         "of 1 0, 1 1, 2 1 or 2 2\n");
    return 1;
  }

  int64_t count = options.reads + options.writes;
  int64_t lines = options.bytes / count / kLine;
  std::vector<Line *> buffers;
  for (int64_t i = 0; i < count; ++i) {
    size_t bytes = static_cast<size_t>(lines * kLine);
    void *data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
      std::fprintf(stderr, "memory_bandwidth: error: cannot map %zu bytes\n",
                   bytes);
      return 1;
    }
    (void)madvise(data, bytes, MADV_HUGEPAGE);
    buffers.push_back(static_cast<Line *>(data));
    for (int64_t k = 0; k < lines; ++k)
      buffers.back()[k] = Line{} + 1.0f;
  }

  nlohmann::json result = {{"bytes", lines * kLine * count}};
  double best = 0;
  for (const Way &way : ways) {
    double rate = measure(options, buffers, lines, way);
    result["ways"][way.name] = rate;
    if (rate > best) {
      best = rate;
      result["way"] = way.name;
    }
  }
  result["bytes_per_second"] = best;
  std::printf("%s\n", result.dump().c_str());
  return 0;
}
