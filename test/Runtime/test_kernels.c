//===- test_kernels.c - Kernels that tests put into bundles ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <time.h>

static int64_t begin(int64_t count, int64_t tile, int64_t tiles) {
  return count * tile / tiles;
}

// out[i] = a[i] + b[i], i < scalars[0].
void test_add(void *const *operands, const int64_t *scalars, int64_t tile,
              int64_t tiles) {
  const float *a = operands[0], *b = operands[1];
  float *out = operands[2];
  for (int64_t i = begin(scalars[0], tile, tiles),
               end = begin(scalars[0], tile + 1, tiles);
       i < end; ++i)
    out[i] = a[i] + b[i];
}

// out[i] = scale * in[i] + offset in float, i < scalars[0].
void test_affine(void *const *operands, const int64_t *scalars, int64_t tile,
                 int64_t tiles) {
  const float *in = operands[0];
  float *out = operands[1];
  for (int64_t i = begin(scalars[0], tile, tiles),
               end = begin(scalars[0], tile + 1, tiles);
       i < end; ++i)
    out[i] = (float)scalars[1] * in[i] + (float)scalars[2];
}

// out[tile] = tile + 1 (int64): which tiles ran, and each once.
void test_count(void *const *operands, const int64_t *scalars, int64_t tile,
                int64_t tiles) {
  (void)scalars;
  (void)tiles;
  ((int64_t *)operands[0])[tile] += tile + 1;
}

void test_nothing(void *const *operands, const int64_t *scalars, int64_t tile,
                  int64_t tiles) {
  (void)operands;
  (void)scalars;
  (void)tile;
  (void)tiles;
}

// Tiles meet: each announces itself and waits (at most about 5 s) for all of
// them. operands[0][0] counts arrivals, operands[0][1] those that met all.
void test_meet(void *const *operands, const int64_t *scalars, int64_t tile,
               int64_t tiles) {
  int64_t *counters = operands[0];
  struct timespec start, now;
  (void)scalars;
  (void)tile;
  __atomic_add_fetch(&counters[0], 1, __ATOMIC_SEQ_CST);
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    if (__atomic_load_n(&counters[0], __ATOMIC_SEQ_CST) >= tiles) {
      __atomic_add_fetch(&counters[1], 1, __ATOMIC_SEQ_CST);
      return;
    }
    sched_yield();
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec - start.tv_sec < 5);
}
