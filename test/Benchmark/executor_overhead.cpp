//===- executor_overhead.cpp - Time per instruction -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the executor adds to the work itself: loops of instructions that do
// next to nothing. `per_instruction` is the time of one instruction of the
// loop's body (in seconds; n is nano).
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include <benchmark/benchmark.h>
#include <cstdio>
#include <cstdlib>

using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

constexpr int64_t kTurns = 10000;

/// Runs `body` kTurns times per run; `count` instructions each.
void measure(benchmark::State &state, Builder &builder, int64_t count,
             int workers, int64_t turns = kTurns) {
  std::shared_ptr<const Bundle> bundle = builder.bundle();
  SessionOptions options;
  options.workers = workers;
  TestSession run(bundle, options);
  for (auto _ : state) {
    Status status = run->run("main");
    if (!status.ok()) {
      state.SkipWithError(status.message().c_str());
      return;
    }
  }
  state.counters["per_instruction"] =
      benchmark::Counter(static_cast<double>(turns * count),
                         benchmark::Counter::kIsIterationInvariantRate |
                             benchmark::Counter::kInvert);
}

void beginTurns(Builder &b, int64_t turns = kTurns) {
  int32_t zero = b.constant(0), n = b.constant(turns);
  b.beginFor(zero, n, turns);
}

void BM_Scalars(benchmark::State &state) {
  Builder b;
  int32_t one = b.constant(1), x = b.scalar();
  beginTurns(b);
  for (int i = 0; i < 8; ++i)
    b.set(x, fb::ScalarOp_add, x, one);
  b.end();
  measure(state, b, 9, 1); // and the loop's turn
}
BENCHMARK(BM_Scalars)->UseRealTime();

/// A kernel of one tile with operands that follow the loop, as in a layer.
void BM_LaunchOneTile(benchmark::State &state) {
  Builder b;
  int32_t r = b.region(4096 * 16), n = b.constant(4), zero = b.constant(0),
          turns = b.constant(kTurns);
  int32_t i = b.beginFor(zero, turns, kTurns);
  for (int k = 0; k < 8; ++k)
    b.launch(kNothing,
             operands(at(r, 0, 64, {fb::Term(64, 64, i)}), at(r, 4096, 64),
                      at(r, 8192, 64, {fb::Term(64, 16, i)}), at(r, 0, 64)),
             {n, i});
  b.end();
  measure(state, b, 8, static_cast<int>(state.range(0)));
}
BENCHMARK(BM_LaunchOneTile)->Arg(1)->Arg(2)->UseRealTime();

/// A kernel in tiles: what opening the work to other workers costs.
void BM_LaunchTiles(benchmark::State &state) {
  Builder b;
  int32_t r = b.region(4096), n = b.constant(4);
  beginTurns(b);
  b.launch(kNothing, operands(at(r, 0, 64)), {n},
           static_cast<int32_t>(state.range(1)));
  b.end();
  measure(state, b, 1, static_cast<int>(state.range(0)));
}
BENCHMARK(BM_LaunchTiles)
    ->Args({1, 8})
    ->Args({2, 2})
    ->Args({2, 8})
    ->UseRealTime();

/// All-reduce of `range(2)` floats between `range(1)` ranks.
void BM_AllReduce(benchmark::State &state) {
  int64_t elements = state.range(2);
  int64_t turns = elements > 100000 ? 20 : 1000;
  Builder b({{"tp", static_cast<int32_t>(state.range(1))}});
  int32_t r = b.region(elements * 4), n = b.constant(elements);
  beginTurns(b, turns);
  b.collective(fb::CollectiveKind_all_reduce, at(r, 0, elements * 4),
               at(r, 0, elements * 4), n, elements, {0});
  b.end();
  measure(state, b, 1, static_cast<int>(state.range(0)), turns);
}
BENCHMARK(BM_AllReduce)
    ->ArgNames({"workers", "ranks", "elements"})
    ->Args({1, 1, 1})
    ->Args({1, 2, 1})
    ->Args({2, 2, 1})
    ->Args({1, 4, 1})
    ->Args({1, 2, 1024})
    ->Args({2, 2, 1024})
    ->Args({2, 2, 4 << 20})
    ->UseRealTime();

/// A small product, so that what surrounds oneDNN's own time shows.
void BM_Gemm(benchmark::State &state) {
  int64_t m = state.range(1);
  Builder b;
  int32_t r = b.region(1 << 20), rows = b.constant(m);
  beginTurns(b, 1000);
  fb::GemmT gemm;
  gemm.a = at(r, 0, m * 16 * 4);
  gemm.b = at(r, 1 << 18, 16 * 16 * 4);
  gemm.c = at(r, 1 << 19, m * 16 * 4);
  gemm.m = rows;
  gemm.m_max = m;
  gemm.n = gemm.k = gemm.lda = gemm.ldb = gemm.ldc = 16;
  b.emit(std::move(gemm));
  b.end();
  measure(state, b, 1, static_cast<int>(state.range(0)), 1000);
}
BENCHMARK(BM_Gemm)->Args({1, 1})->Args({1, 8})->UseRealTime();

/// The same work on one rank or cut over three, in 12 tiles altogether, with an
/// all-reduce after each step: what more ranks than workers cost.
void BM_RanksOnTwoWorkers(benchmark::State &state) {
  constexpr int64_t kElements = 3 << 17, kSteps = 100;
  int32_t ranks = static_cast<int32_t>(state.range(0));
  int64_t own = kElements / ranks;
  Builder b({{"tp", ranks}});
  int32_t r = b.region(own * 4), s = b.region(64 * 4);
  int32_t n = b.constant(own), few = b.constant(64), one = b.constant(1);
  beginTurns(b, kSteps);
  b.launch(kAffine, operands(at(r, 0, own * 4), at(r, 0, own * 4)),
           {n, one, one}, 12 / ranks);
  b.collective(fb::CollectiveKind_all_reduce, at(s, 0, 256), at(s, 0, 256), few,
               64, {0});
  b.end();
  measure(state, b, 1, 2, kSteps);
}
BENCHMARK(BM_RanksOnTwoWorkers)->Arg(1)->Arg(3)->UseRealTime();

/// From run() to its return, for a program of one instruction.
void BM_EmptyRun(benchmark::State &state) {
  Builder b;
  b.constant(0);
  measure(state, b, 1, static_cast<int>(state.range(0)), 1);
}
BENCHMARK(BM_EmptyRun)->Arg(1)->Arg(2)->UseRealTime();

} // namespace

BENCHMARK_MAIN();
