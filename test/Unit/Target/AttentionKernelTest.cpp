//===- AttentionKernelTest.cpp - Attention against float64 --------------===//
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

struct Case {
  // Sequences, tokens, query heads, key heads, head width, keys.
  int64_t b = 1, t = 1, h = 4, g = 2, e = 16, s = 20;
  bool causal = true;
  int64_t window = 0;
  /// Cache blocks of this many slots (0: none), `s` = slots a sequence.
  int64_t block = 0;
  bool lengths = false;
  bool partial = false;
  /// Key head of each query head for each rank; empty: grouped.
  std::vector<std::vector<int64_t>> kvHeads;
  std::string element = "f32";
  /// Position of the first query of each sequence.
  int64_t firstQuery = -1;
  double scoreScale = 3;
  /// The last key's value begins with an infinity.
  bool infiniteValue = false;
  /// What bends the scores. Documents are of five tokens.
  bool documents = false, sinks = false;
  double softCap = 0;
  /// Linear biases of this many heads in all (0: none), those of `alibiHeads`.
  int64_t alibi = 0;
  std::vector<int64_t> alibiHeads;
};

std::string nameOf(const Case &c) {
  return "b" + std::to_string(c.b) + " t" + std::to_string(c.t) + " h" +
         std::to_string(c.h) + "/" + std::to_string(c.g) + " e" +
         std::to_string(c.e) + " s" + std::to_string(c.s) +
         (c.causal ? " causal" : "") +
         (c.window ? " window " + std::to_string(c.window) : "") +
         (c.block ? " blocks of " + std::to_string(c.block) : "") +
         (c.documents ? " documents" : "") + (c.sinks ? " sinks" : "") +
         (c.softCap > 0 ? " soft cap" : "") + (c.alibi ? " alibi" : "") +
         (c.lengths ? " lengths" : "") + (c.partial ? " partial" : "") + " " +
         c.element;
}

void check(const std::string &target, const Case &c, int64_t rank = 0) {
  const double inf = std::numeric_limits<double>::infinity();
  bool paged = c.block > 0;
  int64_t perSequence = paged ? (c.s + c.block - 1) / c.block : 1;
  int64_t pools = paged ? c.b * perSequence + 2 : c.b;
  int64_t slots = paged ? c.block : c.s;
  int64_t capacity = paged ? perSequence * c.block : c.s;

  std::string q = tensor({c.b, c.t, c.h, c.e}, c.element);
  std::string kv = tensor({pools, slots, c.g, c.e}, c.element);
  std::string qp = tensor({c.b, c.t}, "i32"),
              kp = tensor({pools, slots}, "i32");
  std::string bt = tensor({c.b, perSequence}, "i32"), ln = tensor({c.b}, "i32");
  std::string out = tensor({c.b, c.t, c.h, c.e}, c.partial ? "f32" : c.element);
  std::string lse = tensor({c.b, c.t, c.h}, "f32");
  std::vector<std::string> arguments = {q, kv, kv, qp, kp};
  std::string text =
      c.partial ? "%r, %l = heddle.attention_partial" : "%r = heddle.attention";
  text += " %0, %1, %2 pos(%3, %4)";
  size_t blocksAt = 0, lengthsAt = 0;
  if (paged) {
    blocksAt = arguments.size();
    text += " blocks(%" + std::to_string(blocksAt) + ")";
    arguments.push_back(bt);
  }
  if (c.lengths) {
    lengthsAt = arguments.size();
    text += " lengths(%" + std::to_string(lengthsAt) + ")";
    arguments.push_back(ln);
  }
  size_t documentsAt = arguments.size();
  if (c.documents) {
    text += " documents(%" + std::to_string(documentsAt) + ", %" +
            std::to_string(documentsAt + 1) + ")";
    arguments.push_back(qp);
    arguments.push_back(kp);
  }
  size_t sinksAt = arguments.size();
  if (c.sinks) {
    text += " sinks(%" + std::to_string(sinksAt) + ")";
    arguments.push_back(tensor({c.h}, "f32"));
  }
  double scale = c.scoreScale / std::sqrt(static_cast<double>(c.e));
  char scaleText[32];
  snprintf(scaleText, sizeof(scaleText), "%.17e", scale);
  text += std::string(" scale ") + scaleText;
  if (c.causal)
    text += " causal";
  if (c.window)
    text += " window " + std::to_string(c.window);
  if (c.softCap > 0)
    text += " soft_cap " + std::to_string(c.softCap);
  if (c.alibi)
    text += " alibi <heads " + std::to_string(c.alibi) + " bias 8.0>";
  if (!c.kvHeads.empty()) {
    text += " kv_heads <{tp}, [";
    for (size_t r = 0; r < c.kvHeads.size(); ++r) {
      text += r ? ", [" : "[";
      for (size_t i = 0; i < c.kvHeads[r].size(); ++i)
        text += (i ? ", " : "") + std::to_string(c.kvHeads[r][i]);
      text += "]";
    }
    text += "]>";
  }
  if (!c.alibiHeads.empty()) {
    text += " alibi_heads <{}, [[";
    for (size_t i = 0; i < c.alibiHeads.size(); ++i)
      text += (i ? ", " : "") + std::to_string(c.alibiHeads[i]);
    text += "]]>";
  }
  text += " : (";
  for (size_t i = 0; i < arguments.size(); ++i)
    text += (i ? ", " : "") + arguments[i];
  text += ") -> " + (c.partial ? "(" + out + ", " + lse + ")" : out);
  text += c.partial ? "\n return %l, %r : " + lse + ", " + out
                    : "\n return %r : " + out;
  std::vector<std::string> results = {out};
  if (c.partial)
    results.insert(results.begin(), lse);
  KernelRun run(kernel(arguments, text, results), target);

  // Blocks in a scrambled order; keys that no query may read hold NaN.
  Numbers vq = run.setRandom(0, 2);
  Numbers table(c.b * perSequence), lengths(c.b);
  for (int64_t i = 0; i < c.b * perSequence; ++i)
    table[i] = paged ? static_cast<double>((i * 5 + 3) % (pools - 1)) : 0;
  if (paged)
    for (int64_t i = 0; i < c.b * perSequence; ++i) // make it a permutation
      table[i] = static_cast<double>(pools - 1 - i);
  if (paged && c.b > 1)
    std::swap(table[0], table[c.b * perSequence - 1]);
  if (paged && perSequence > 2)
    table[1] = -1; // a block that was never given out
  for (int64_t i = 0; i < c.b; ++i)
    lengths[i] = static_cast<double>(
        i % 3 == 2 ? 0 : std::max<int64_t>(c.s - 3 - 2 * i, 1));
  Numbers keyPositions(pools * slots, -1), queryPositions(c.b * c.t);
  Numbers vk(run.sizeOf(1), NAN), vv(run.sizeOf(2), NAN);
  Numbers keys = randomNumbers(vk.size(), 21, 2),
          values = randomNumbers(vv.size(), 22);
  auto rowOf = [&](int64_t sequence, int64_t j) -> int64_t {
    if (!paged)
      return sequence * slots + j;
    double block = table[sequence * perSequence + j / c.block];
    return block < 0 ? -1 : static_cast<int64_t>(block) * c.block + j % c.block;
  };
  auto limit = [&](int64_t sequence) {
    return c.lengths ? static_cast<int64_t>(lengths[sequence]) : capacity;
  };
  int64_t rowSize = c.g * c.e;
  for (int64_t i = 0; i < c.b; ++i)
    for (int64_t j = 0; j < capacity; ++j) {
      int64_t row = rowOf(i, j);
      if (row < 0 || j >= c.s)
        continue;
      bool hole = j % 11 == 5; // an invalid row in the cache
      keyPositions[row] = hole ? -1 : static_cast<double>(j);
      if (hole || j >= limit(i))
        continue;
      for (int64_t x = 0; x < rowSize; ++x) {
        vk[row * rowSize + x] = keys[row * rowSize + x];
        vv[row * rowSize + x] = values[row * rowSize + x];
      }
    }
  int64_t first =
      c.firstQuery >= 0 ? c.firstQuery : std::max<int64_t>(c.s - c.t, 0);
  if (c.infiniteValue)
    vv[rowOf(0, c.s - 1) * rowSize] = inf;
  for (int64_t i = 0; i < c.b * c.t; ++i)
    queryPositions[i] = static_cast<double>(first + i % c.t - i / c.t);
  if (c.t > 2)
    queryPositions[c.t - 1] = -1; // an invalid row
  run.set(3, queryPositions);
  run.set(4, keyPositions);
  vk = run.set(1, vk);
  vv = run.set(2, vv);
  if (paged)
    run.set(blocksAt, table);
  if (c.lengths)
    run.set(lengthsAt, lengths);
  Numbers queryDocuments(c.b * c.t), keyDocuments(pools * slots, -7);
  for (int64_t i = 0; i < c.b * c.t; ++i)
    queryDocuments[i] =
        std::floor(static_cast<double>(first + i % c.t - i / c.t) / 5);
  for (int64_t i = 0; i < c.b; ++i)
    for (int64_t j = 0; j < std::min(capacity, c.s); ++j)
      if (int64_t row = rowOf(i, j); row >= 0)
        keyDocuments[row] = static_cast<double>(j / 5);
  if (c.documents) {
    run.set(documentsAt, queryDocuments);
    run.set(documentsAt + 1, keyDocuments);
  }
  // One head has no sink.
  Numbers sinks(c.h);
  for (int64_t h = 0; h < c.h; ++h)
    sinks[h] = h == 1 ? -inf : 4 * static_cast<double>(h) - 3;
  if (c.sinks)
    run.set(sinksAt, sinks);
  auto slopeOf = [&](int64_t h) {
    int64_t head = c.alibiHeads.empty() ? h : c.alibiHeads[h];
    if (!c.alibi || head < 0)
      return 0.0;
    // For 8 and 12 heads, as in the paper's appendix.
    return head < 8 ? std::exp2(-1.0 - static_cast<double>(head))
                    : std::exp2(-0.5 - static_cast<double>(head - 8));
  };
  bool uniform = true;
  for (auto &row : c.kvHeads)
    uniform &= row == c.kvHeads[0];
  run.run(uniform ? std::vector<int64_t>() : std::vector<int64_t>{rank});

  Numbers wantOut(sizeOf({c.b, c.t, c.h, c.e}), 0.0);
  Numbers wantLse(sizeOf({c.b, c.t, c.h}), -inf);
  for (int64_t i = 0; i < c.b * c.t; ++i)
    for (int64_t h = 0; h < c.h; ++h) {
      int64_t g = c.kvHeads.empty() ? h / (c.h / c.g) : c.kvHeads[rank][h];
      if (g < 0)
        continue;
      std::vector<std::pair<int64_t, double>> scores;
      double top = -inf, total = 0;
      int64_t sequence = i / c.t;
      for (int64_t j = 0; j < std::min(capacity, limit(sequence)); ++j) {
        int64_t row = rowOf(sequence, j);
        if (row < 0 || keyPositions[row] < 0)
          continue;
        if (c.causal && keyPositions[row] > queryPositions[i])
          continue;
        if (c.window && queryPositions[i] - keyPositions[row] >=
                            static_cast<double>(c.window))
          continue;
        if (c.documents && queryDocuments[i] != keyDocuments[row])
          continue;
        double score = 0;
        for (int64_t x = 0; x < c.e; ++x)
          score += vq[(i * c.h + h) * c.e + x] * vk[(row * c.g + g) * c.e + x];
        score *= scale;
        if (c.softCap > 0)
          score = c.softCap * std::tanh(score / c.softCap);
        score += slopeOf(h) * (keyPositions[row] - queryPositions[i]);
        scores.push_back({row, score});
        top = std::max(top, score);
      }
      if (c.sinks && sinks[h] > -inf) {
        top = std::max(top, sinks[h]);
        total = std::exp(sinks[h] - top);
      }
      for (auto &[row, score] : scores)
        total += std::exp(score - top);
      if (total == 0)
        continue;
      wantLse[i * c.h + h] = top + std::log(total);
      for (auto &[row, score] : scores)
        for (int64_t x = 0; x < c.e; ++x)
          wantOut[(i * c.h + h) * c.e + x] +=
              std::exp(score - top) / total * vv[(row * c.g + g) * c.e + x];
    }
  size_t resultAt = arguments.size() + (c.partial ? 1 : 0);
  double unit = c.element == "f32" || c.partial ? 0 : 0x1p-8;
  expectNear(run.get(resultAt), wantOut, 1e-5, 1e-5 + unit,
             target + " " + nameOf(c));
  if (c.partial)
    expectNear(run.get(arguments.size()), wantLse, 2e-5, 1e-5,
               target + " lse " + nameOf(c));
}

Case make(int64_t b, int64_t t, int64_t h, int64_t g, int64_t e, int64_t s) {
  Case c;
  c.b = b;
  c.t = t;
  c.h = h;
  c.g = g;
  c.e = e;
  c.s = s;
  return c;
}

} // namespace

// One token and many, few keys and several blocks of them, grouped heads, odd
// widths.
TEST(AttentionKernel, Shapes) {
  for (const std::string &target : runnableTargets())
    for (int64_t t : {1, 3, 17, 70})
      for (auto [e, s] : {std::pair<int64_t, int64_t>{7, 150},
                          {20, 1},
                          {20, 20},
                          {64, 150}}) {
        check(target, make(1, t, 4, 2, e, s));
        if (t == 3)
          check(target, make(2, t, 3, 1, e, s));
      }
}

TEST(AttentionKernel, ManyGroupings) {
  for (const std::string &target : runnableTargets())
    for (auto [h, g] :
         {std::pair<int64_t, int64_t>{9, 3}, {5, 5}, {8, 1}, {14, 2}})
      for (int64_t t : {1, 2, 40})
        check(target, make(1, t, h, g, 32, 90));
}

TEST(AttentionKernel, MasksAndWindows) {
  for (const std::string &target : runnableTargets())
    for (bool causal : {false, true})
      for (int64_t window : {0, 1, 7, 64})
        for (int64_t t : {1, 67}) {
          Case c = make(1, t, 4, 2, 16, 140);
          c.causal = causal;
          c.window = window;
          check(target, c);
          c.firstQuery = 0; // most keys are ahead
          check(target, c);
        }
}

// Permuted block tables with a missing block, sequences shorter than their
// capacity, an empty one.
TEST(AttentionKernel, PagedPools) {
  for (const std::string &target : runnableTargets())
    for (int64_t block : {1, 8, 16, 64})
      for (int64_t t : {1, 3, 33}) {
        Case c = make(3, t, 4, 2, 16, 75);
        c.block = block;
        check(target, c);
        c.lengths = true;
        check(target, c);
        c.window = 20;
        check(target, c);
      }
}

TEST(AttentionKernel, LengthsWithoutPages) {
  for (const std::string &target : runnableTargets())
    for (int64_t t : {1, 18}) {
      Case c = make(3, t, 3, 3, 24, 80);
      c.lengths = true;
      check(target, c);
      c.causal = false;
      check(target, c);
    }
}

// Partial results in the other order of results, with empty rows.
TEST(AttentionKernel, Partial) {
  for (const std::string &target : runnableTargets())
    for (int64_t t : {1, 4, 35})
      for (bool paged : {false, true}) {
        Case c = make(3, t, 4, 2, 16, 70);
        c.partial = true;
        c.lengths = true;
        c.block = paged ? 16 : 0;
        check(target, c);
        c.window = 3;
        check(target, c);
      }
}

// Heads laid out by a table, with a padded head whose result is zero.
TEST(AttentionKernel, KeyHeadTables) {
  for (const std::string &target : runnableTargets())
    for (int64_t t : {1, 20})
      for (bool partial : {false, true}) {
        Case c = make(1, t, 5, 2, 16, 40);
        c.partial = partial;
        c.kvHeads = {{0, 0, 0, 1, 1}, {0, 1, 1, 1, -1}};
        check(target, c, 0);
        check(target, c, 1);
        c.kvHeads = {{0, 0, -1, 1, 1}, {0, 0, -1, 1, 1}};
        check(target, c);
      }
}

// Whatever bends the scores, with blocks of keys of which queries see all, some
// and none; for few queries and for many; a padded head among them.
TEST(AttentionKernel, Variants) {
  for (const std::string &target : runnableTargets())
    for (int64_t t : {1, 70})
      for (int64_t block : {0, 16}) {
        bool partial = (t == 1) == (block == 0);
        Case c = make(2, t, 12, 4, 16, 150);
        c.partial = partial;
        c.block = block;
        Case documents = c, sinks = c, cap = c, alibi = c;
        documents.documents = true;
        documents.causal = t == 1;
        check(target, documents);
        sinks.sinks = true;
        check(target, sinks);
        cap.softCap = 1.5;
        check(target, cap);
        alibi.alibi = 12;
        check(target, alibi);
        Case all = alibi;
        all.documents = all.sinks = true;
        all.softCap = 2;
        all.window = 3;
        check(target, all);
        all.kvHeads = {{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, -1}};
        all.alibiHeads = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, -1};
        check(target, all);
      }
}

TEST(AttentionKernel, HalfPrecision) {
  for (const std::string &target : runnableTargets())
    for (std::string element : {"bf16", "f16"})
      for (int64_t t : {1, 19})
        for (int64_t e : {20, 32}) {
          Case c = make(1, t, 4, 2, e, 50);
          c.element = element;
          check(target, c);
        }
}

// Scores far apart: the running maximum must carry the sum.
TEST(AttentionKernel, LargeScores) {
  for (const std::string &target : runnableTargets())
    for (int64_t t : {1, 30}) {
      Case c = make(1, t, 2, 1, 16, 200);
      c.scoreScale = 60;
      check(target, c);
    }
}

// What a later token holds does not reach earlier ones, not even as zero times
// infinity.
TEST(AttentionKernel, LaterInfinities) {
  for (const std::string &target : runnableTargets())
    for (int64_t t : {2, 12, 70}) {
      Case c = make(1, t, 2, 1, 16, 101);
      c.infiniteValue = true;
      c.scoreScale = 1;
      c.firstQuery = 103 - t; // the last row is an invalid one
      check(target, c);
    }
}
