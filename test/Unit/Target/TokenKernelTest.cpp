//===- TokenKernelTest.cpp - Rows by index and the cache pool -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRun.h"

#include <cmath>

using namespace ::heddle::test;

namespace {

/// Rows of `table`, zeros for ids outside of it.
Numbers rowsOf(const Numbers &table, const Numbers &ids, int64_t columns) {
  Numbers out;
  auto rows = static_cast<double>(table.size() / columns);
  for (double id : ids)
    for (int64_t c = 0; c < columns; ++c)
      out.push_back(id >= 0 && id < rows
                        ? table[static_cast<int64_t>(id) * columns + c]
                        : 0.0);
  return out;
}

} // namespace

TEST(TokenKernel, EmbeddingOfPlainTables) {
  for (const std::string &target : runnableTargets())
    for (std::string element : {"f32", "bf16", "f16"})
      for (int64_t d : {1, 17, 64, 172}) {
        std::string ids = tensor({2, 3}, "i32"),
                    table = tensor({11, d}, element);
        std::string out = tensor({2, 3, d}, "f32");
        KernelRun k(kernel({ids, table},
                           "%r = heddle.embedding %0, %1 : (" + ids + ", " +
                               table + ") -> " + out + "\n return %r : " + out,
                           {out}),
                    target);
        Numbers chosen = k.set(0, {0, 10, -1, 5, 11, 5});
        Numbers values = k.setRandom(1);
        k.run();
        expectNear(k.get(2), rowsOf(values, chosen, d), 0, 0, target + element);
      }
}

// Every block format, against its definition.
TEST(TokenKernel, EmbeddingOfQuantisedTables) {
  for (const std::string &target : runnableTargets())
    for (std::string format : {"q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q6_k"})
      for (int64_t d : {256, 768}) {
        std::string ids = tensor({1, 4}, "i32");
        std::string table = tensor({9, d}, "!heddle." + format);
        std::string out = tensor({1, 4, d}, "f32");
        KernelRun k(kernel({ids, table},
                           "%r = heddle.embedding %0, %1 : (" + ids + ", " +
                               table + ") -> " + out + "\n return %r : " + out,
                           {out}),
                    target);
        Numbers chosen = k.set(0, {8, -1, 0, 3});
        std::vector<uint8_t> blocks = randomBlocks(format, 9, d, 77);
        k.setBytes(1, blocks);
        k.run();
        expectNear(k.get(2),
                   rowsOf(decodeBlocks(format, blocks, 9, d), chosen, d), 1e-7,
                   1e-6, target + " " + format);
      }
}

// Ids of a vocabulary that is dealt to ranks, and a norm of the rows.
TEST(TokenKernel, EmbeddingOfLocalIds) {
  std::string ids = tensor({1, 5}, "i32"), table = tensor({8, 20}, "f32");
  std::string out = tensor({1, 5, 20}, "f32"), w = tensor({20}, "f32");
  for (const std::string &target : runnableTargets())
    for (int64_t rank : {0, 1, 2}) {
      KernelRun k(
          kernel({ids, table, w},
                 "%i = heddle.local_index %0 units <{tp}, [[0, 1], [2, 3], [4, "
                 "-1]]> of 4 : " +
                     ids + " -> " + ids + "\n%e = heddle.embedding %i, %1 : (" +
                     ids + ", " + table + ") -> " + out +
                     "\n%n = heddle.rms_norm %e, %2 eps 1.0 : (" + out + ", " +
                     w + ") -> " + out + "\n return %i, %e, %n : " + ids +
                     ", " + out + ", " + out,
                 {ids, out, out}),
          target);
      ASSERT_EQ(k.interface().coordinates.size(), 1u);
      Numbers given = k.set(0, {0, 9, 19, -1, 13}), local;
      for (double id : given) {
        double l = id - static_cast<double>(rank) * 8;
        local.push_back(id >= 0 && l >= 0 && l < 8 ? l : -1);
      }
      Numbers values = k.setRandom(1);
      k.setRandom(2);
      k.run({rank});
      expectNear(k.get(3), local, 0, 0, target);
      expectNear(k.get(4), rowsOf(values, local, 20), 0, 0, target);
    }
}

TEST(TokenKernel, GatherRows) {
  for (const std::string &target : runnableTargets())
    for (std::string element : {"f32", "bf16"}) {
      std::string x = tensor({2, 7, 33}, element), rows = tensor({2, 3}, "i32");
      std::string out = tensor({2, 3, 33}, element), w = tensor({33}, "f32");
      KernelRun k(kernel({x, rows},
                         "%r = heddle.gather_rows %0, %1 : (" + x + ", " +
                             rows + ") -> " + out + "\n return %r : " + out,
                         {out}),
                  target);
      Numbers values = k.setRandom(0);
      Numbers chosen = k.set(1, {6, 0, 3, 1, 1, 7}), want;
      k.run();
      for (int64_t i = 0; i < 6; ++i)
        for (int64_t c = 0; c < 33; ++c)
          want.push_back(
              chosen[i] < 7
                  ? values[(i / 3 * 7 + static_cast<int64_t>(chosen[i])) * 33 +
                           c]
                  : 0.0);
      expectNear(k.get(2), want, 0, 0, target);
    }
}

// Slots through a permuted block table, then keys, values and positions into
// their pools, as a decoder's kernel does: invalid tokens leave no trace.
TEST(TokenKernel, CacheSlotsAndAppend) {
  for (const std::string &target : runnableTargets())
    for (std::string poolElement : {"f32", "bf16"})
      for (int64_t width : {5, 16}) {
        const int64_t sequences = 2, tokens = 4, perSequence = 3, size = 4;
        const int64_t pools = 7, groups = 2;
        std::string p = tensor({sequences, tokens}, "i32");
        std::string blocks = tensor({sequences, perSequence}, "i32");
        std::string v = tensor({sequences, tokens, groups, width}, "f32");
        std::string pool = tensor({pools, size, groups, width}, poolElement);
        std::string kp = tensor({pools, size}, "i32");
        KernelRun k(
            kernel({p, blocks, v, pool, kp},
                   "%s = heddle.cache_slots %0, %1 size 4 : (" + p + ", " +
                       blocks + ") -> " + p + "\n%d = heddle.add %2, %2 : (" +
                       v + ", " + v + ") -> " + v +
                       "\n%c = heddle.cache_append %3, %d at %s : (" + pool +
                       ", " + v + ", " + p + ") -> " + pool +
                       "\n%q = heddle.cache_append %4, %0 at %s : (" + kp +
                       ", " + p + ", " + p + ") -> " + kp +
                       "\n return %s, %c, %q : " + p + ", " + pool + ", " + kp,
                   {p, pool, kp},
                   "heddle.aliases = [array<i64: 1, 3>, array<i64: 2, 4>]"),
            target);
        Numbers positions = k.set(0, {0, 5, -1, 11, 2, 3, 12, 4});
        Numbers table = k.set(1, {6, 1, 3, 0, -1, 5});
        Numbers values = k.setRandom(2), cache = k.setRandom(3);
        Numbers keyPositions = k.set(4, Numbers(pools * size, -1)), slots;
        k.run();
        for (int64_t i = 0; i < sequences * tokens; ++i) {
          auto position = static_cast<int64_t>(positions[i]);
          double slot = -1;
          if (position >= 0 && position < perSequence * size) {
            double block = table[i / tokens * perSequence + position / size];
            if (block >= 0)
              slot = block * size + static_cast<double>(position % size);
          }
          slots.push_back(slot);
          if (slot < 0)
            continue;
          keyPositions[static_cast<size_t>(slot)] = positions[i];
          for (int64_t c = 0; c < groups * width; ++c)
            cache[static_cast<int64_t>(slot) * groups * width + c] =
                2 * values[i * groups * width + c];
        }
        expectNear(k.get(5), slots, 0, 0, target);
        expectNear(k.get(3), cache, 0, poolElement == "f32" ? 0 : 0x1p-8,
                   target);
        expectNear(k.get(4), keyPositions, 0, 0, target);
      }
}

// A kernel may give an argument back, or one value under two shapes.
TEST(TokenKernel, CopiesAndViews) {
  std::string x = tensor({1, 3, 12}, "f32"), h = tensor({1, 3, 4, 3}, "f32");
  std::string i = tensor({1, 3}, "i32");
  KernelRun k(kernel({x, i},
                     "%a = heddle.add %0, %0 : (" + x + ", " + x + ") -> " + x +
                         "\n%h = heddle.split_heads %a : " + x + " -> " + h +
                         "\n%g = heddle.split_heads %0 : " + x + " -> " + h +
                         "\n return %a, %h, %g, %1 : " + x + ", " + h + ", " +
                         h + ", " + i,
                     {x, h, h, i}),
              "x86-64-v3");
  Numbers v = k.setRandom(0), twice, ids = k.set(1, {4, -1, 7});
  for (double e : v)
    twice.push_back(2 * e);
  k.run();
  expectNear(k.get(2), twice, 0, 0, "sum");
  expectNear(k.get(3), twice, 0, 0, "view of the sum");
  expectNear(k.get(4), v, 0, 0, "view of the argument");
  expectNear(k.get(5), ids, 0, 0, "integers");
}
