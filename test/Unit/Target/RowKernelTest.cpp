//===- RowKernelTest.cpp - Norms, sums, gated units, rotary, argmax -----===//
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

const double kInf = std::numeric_limits<double>::infinity();

Numbers rmsNorm(const Numbers &x, const Numbers &w, double eps) {
  Numbers y(x.size());
  size_t d = w.size();
  for (size_t r = 0; r < x.size() / d; ++r) {
    double squares = 0;
    for (size_t i = 0; i < d; ++i)
      squares += x[r * d + i] * x[r * d + i];
    double root = std::sqrt(squares / static_cast<double>(d) + eps);
    for (size_t i = 0; i < d; ++i)
      y[r * d + i] = x[r * d + i] / root * w[i];
  }
  return y;
}

Numbers plus(const Numbers &a, const Numbers &b) {
  Numbers y(a);
  for (size_t i = 0; i < y.size(); ++i)
    y[i] += b[i % b.size()];
  return y;
}

double activate(const std::string &kind, double x) {
  if (kind == "silu")
    return x / (1 + std::exp(-x));
  if (kind == "gelu")
    return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  if (kind == "gelu_tanh")
    return 0.5 * x *
           (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return x > 0 ? x : 0;
}

struct Shape {
  int64_t b, t, d;
};
std::string nameOf(const Shape &s) {
  return std::to_string(s.b) + "x" + std::to_string(s.t) + "x" +
         std::to_string(s.d);
}

/// Widths around the lanes of both vector lengths, with and without tails.
std::vector<Shape> rowShapes() {
  std::vector<Shape> shapes;
  for (int64_t d : {1, 7, 8, 15, 16, 17, 64, 172, 2037})
    for (int64_t t : {1, 3, 17})
      shapes.push_back({t == 3 ? 2 : 1, t, d});
  return shapes;
}

} // namespace

// A reduction and a sweep that needs its result, on every kind of tail.
TEST(RowKernel, RmsNorm) {
  for (const std::string &target : runnableTargets())
    for (Shape s : rowShapes()) {
      std::string x = tensor({s.b, s.t, s.d}, "f32"), w = tensor({s.d}, "f32");
      KernelRun k(kernel({x, w},
                         "%r = heddle.rms_norm %0, %1 eps 1.0e-5 : (" + x +
                             ", " + w + ") -> " + x + "\n return %r : " + x,
                         {x}),
                  target);
      Numbers vx = k.setRandom(0, 3), vw = k.setRandom(1);
      k.run();
      expectNear(k.get(2), rmsNorm(vx, vw, 1e-5), 1e-6, 1e-6,
                 target + " " + nameOf(s));
    }
}

// One head at a time: groups within a row.
TEST(RowKernel, RmsNormOfHeads) {
  for (const std::string &target : runnableTargets())
    for (int64_t e : {1, 8, 17, 64})
      for (int64_t heads : {1, 3}) {
        std::string x = tensor({2, 3, heads, e}, "f32"), w = tensor({e}, "f32");
        std::string merged = tensor({2, 3, heads * e}, "f32");
        KernelRun k(
            kernel({merged, w},
                   "%h = heddle.split_heads %0 : " + merged + " -> " + x +
                       "\n%r = heddle.rms_norm %h, %1 eps 1.0e-6 : (" + x +
                       ", " + w + ") -> " + x + "\n return %r : " + x,
                   {x}),
            target);
        Numbers vx = k.setRandom(0, 2), vw = k.setRandom(1);
        k.run();
        expectNear(k.get(2), rmsNorm(vx, vw, 1e-6), 1e-6, 1e-6, target);
      }
}

static std::vector<std::string> targetsAndStreams() {
  std::vector<std::string> targets = runnableTargets();
  targets.push_back(targetWithStreams());
  return targets;
}

// Two results and a value that passes from one sweep to the next in a result.
TEST(RowKernel, ResidualAndNorm) {
  for (const std::string &target : targetsAndStreams())
    for (Shape s : rowShapes())
      for (std::string element : {"f32", "bf16", "f16"}) {
        std::string x = tensor({s.b, s.t, s.d}, element);
        std::string w = tensor({s.d}, element), bias = tensor({s.d}, "f32");
        std::string f32 = tensor({s.b, s.t, s.d}, "f32");
        KernelRun k(kernel({x, x, w, bias},
                           "%a = heddle.add %0, %1 : (" + x + ", " + x +
                               ") -> " + f32 +
                               "\n%c = heddle.bias_add %a, %3 : (" + f32 +
                               ", " + bias + ") -> " + f32 +
                               "\n%r = heddle.rms_norm %c, %2 eps 1.0e-5 : (" +
                               f32 + ", " + w + ") -> " + x +
                               "\n return %r, %c : " + x + ", " + f32,
                           {x, f32}),
                    target);
        Numbers a = k.setRandom(0, 3), b = k.setRandom(1), vw = k.setRandom(2);
        Numbers vb = k.setRandom(3);
        k.run();
        Numbers sum = plus(plus(a, b), vb);
        std::string what = target + " " + nameOf(s) + " " + element;
        double unit = element == "f32"    ? 0
                      : element == "bf16" ? 0x1p-8
                                          : 0x1p-11;
        expectNear(k.get(5), sum, 1e-6, 1e-6, what + " sum");
        expectNear(k.get(4), rmsNorm(sum, vw, 1e-5), 2e-6, 2e-6 + unit, what);
      }
}

// The intermediate value is not a result: it lies in the row's scratch.
TEST(RowKernel, NormOfSumThatIsNotAResult) {
  for (const std::string &target : runnableTargets()) {
    std::string x = tensor({1, 3, 172}, "f32"), w = tensor({172}, "f32");
    KernelRun k(kernel({x, x, w},
                       "%a = heddle.add %0, %1 : (" + x + ", " + x + ") -> " +
                           x + "\n%r = heddle.rms_norm %a, %2 eps 0.0 : (" + x +
                           ", " + w + ") -> " + x +
                           "\n%s = heddle.add %r, %a : (" + x + ", " + x +
                           ") -> " + x + "\n return %s : " + x,
                       {x}),
                target);
    Numbers a = k.setRandom(0), b = k.setRandom(1), w1 = k.setRandom(2);
    k.run();
    Numbers sum = plus(a, b);
    expectNear(k.get(3), plus(rmsNorm(sum, w1, 0), sum), 1e-6, 1e-6, target);
  }
}

// NaN and infinity in one row stay in that row.
TEST(RowKernel, NormKeepsNaNInItsRow) {
  for (const std::string &target : runnableTargets()) {
    std::string x = tensor({1, 3, 20}, "f32"), w = tensor({20}, "f32");
    KernelRun k(kernel({x, w},
                       "%r = heddle.rms_norm %0, %1 eps 1.0e-5 : (" + x + ", " +
                           w + ") -> " + x + "\n return %r : " + x,
                       {x}),
                target);
    Numbers vx = randomNumbers(60, 5), vw = k.setRandom(1);
    vx[19] = NAN;
    k.set(0, vx);
    k.run();
    vx = k.get(0);
    expectNear(k.get(2), rmsNorm(vx, vw, 1e-5), 1e-6, 1e-6, target);
  }
}

TEST(RowKernel, GatedUnits) {
  for (const std::string &target : targetsAndStreams())
    for (std::string kind : {"silu", "gelu", "gelu_tanh", "relu"})
      for (Shape s : {Shape{1, 1, 5}, {1, 3, 172}, {2, 2, 64}, {1, 1, 2037}})
        for (std::string element : {"f32", "bf16"}) {
          std::string x = tensor({s.b, s.t, s.d}, element);
          KernelRun k(kernel({x, x},
                             "%r = heddle.glu " + kind + " %0, %1 : (" + x +
                                 ", " + x + ") -> " + x + "\n return %r : " + x,
                             {x}),
                      target);
          // From deep in both tails of the activation to its middle.
          Numbers gate = randomNumbers(k.sizeOf(0), 3, 12);
          gate[0] = 0;
          if (gate.size() > 64) {
            gate[1] = 100;
            gate[2] = -100;
            gate[3] = NAN;
            gate[4] = 1e-30;
          }
          gate = k.set(0, gate);
          Numbers up = k.setRandom(1), want;
          k.run();
          for (size_t i = 0; i < gate.size(); ++i)
            want.push_back(
                std::isnan(gate[i]) ? NAN : activate(kind, gate[i]) * up[i]);
          double unit = element == "f32" ? 2e-6 : 0x1p-8;
          expectNear(k.get(2), want, 1e-6, unit,
                     target + " " + kind + " " + nameOf(s));
        }
}

// Angles of a million positions to 1e-6, and those of invalid rows.
TEST(RowKernel, RotaryTable) {
  for (const std::string &target : runnableTargets())
    for (int64_t dim : {2, 6, 64, 80}) {
      std::string p = tensor({1, 9}, "i32"), r = tensor({1, 9, dim}, "f32");
      KernelRun k(kernel({p},
                         "%r = heddle.rotary_table %0 <dim " +
                             std::to_string(dim) + " theta 1.0e+4> : (" + p +
                             ") -> " + r + "\n return %r : " + r,
                         {r}),
                  target);
      Numbers positions = {0, 1, 2, 77, 1023, 65536, 999999, -1, 1048575};
      k.set(0, positions);
      k.run();
      Numbers want;
      for (double position : positions)
        for (int64_t i = 0; i < dim; ++i) {
          int64_t f = i % (dim / 2);
          double angle = std::max(position, 0.0) *
                         std::pow(1e4, -2.0 * static_cast<double>(f) /
                                           static_cast<double>(dim));
          want.push_back(i < dim / 2 ? std::cos(angle) : std::sin(angle));
        }
      expectNear(k.get(1), want, 1e-6, 0, target + " " + std::to_string(dim));
    }
}

// Rotation of part of each head, of two values with different heads, by a table
// that the same kernel computes.
TEST(RowKernel, Rotary) {
  for (const std::string &target : runnableTargets())
    for (int64_t width : {8, 17, 64})
      for (int64_t dim : {2, 6, 8, 64}) {
        if (dim > width)
          continue;
        int64_t heads = 3, groups = 2, tokens = 5;
        std::string p = tensor({1, tokens}, "i32");
        std::string r = tensor({1, tokens, dim}, "f32");
        std::string q = tensor({1, tokens, heads, width}, "f32");
        std::string g = tensor({1, tokens, groups, width}, "f32");
        KernelRun k(kernel({p, q, g},
                           "%r = heddle.rotary_table %0 <dim " +
                               std::to_string(dim) + " theta 5.0e+5> : (" + p +
                               ") -> " + r + "\n%a = heddle.rotary %1, %r : (" +
                               q + ", " + r + ") -> " + q +
                               "\n%b = heddle.rotary %2, %r : (" + g + ", " +
                               r + ") -> " + g + "\n return %a, %b : " + q +
                               ", " + g,
                           {q, g}),
                    target);
        Numbers positions = {3, 0, 100, -1, 4000};
        k.set(0, positions);
        Numbers in[2] = {k.setRandom(1), k.setRandom(2)};
        k.run();
        for (int which : {0, 1}) {
          int64_t h = which ? groups : heads;
          Numbers want = in[which];
          for (int64_t t = 0; t < tokens; ++t)
            for (int64_t j = 0; j < h; ++j)
              for (int64_t i = 0; i < dim / 2; ++i) {
                double angle = std::max(positions[t], 0.0) *
                               std::pow(5e5, -2.0 * static_cast<double>(i) /
                                                 static_cast<double>(dim));
                size_t a = (t * h + j) * width + i, b = a + dim / 2;
                double x = in[which][a], y = in[which][b];
                want[a] = x * std::cos(angle) - y * std::sin(angle);
                want[b] = y * std::cos(angle) + x * std::sin(angle);
              }
          expectNear(k.get(3 + which), want, 2e-6, 0, target);
        }
      }
}

TEST(RowKernel, MergePartials) {
  for (const std::string &target : runnableTargets())
    for (int64_t e : {3, 16, 64}) {
      std::string o = tensor({1, 4, 2, e}, "f32"), l = tensor({1, 4, 2}, "f32");
      KernelRun k(kernel({o, l, o, l},
                         "%r, %s = heddle.merge_partials %0, %1, %2, %3 : (" +
                             o + ", " + l + ", " + o + ", " + l + ") -> (" + o +
                             ", " + l + ")\n return %r, %s : " + o + ", " + l,
                         {o, l}),
                  target);
      Numbers a = k.setRandom(0), b = k.setRandom(2);
      Numbers la = k.set(1, {0, 5, -kInf, -kInf, 100, -100, 88, 1.5});
      Numbers lb = k.set(3, {0, -3, 2, -kInf, -100, 100, 88.5, -kInf});
      k.run();
      Numbers out, lse;
      for (size_t i = 0; i < la.size(); ++i) {
        double top = std::max(la[i], lb[i]);
        double wa = top == -kInf ? 0 : std::exp(la[i] - top);
        double wb = top == -kInf ? 0 : std::exp(lb[i] - top);
        lse.push_back(top == -kInf ? -kInf : top + std::log(wa + wb));
        for (int64_t j = 0; j < e; ++j)
          out.push_back(top == -kInf ? 0
                                     : (a[i * e + j] * wa + b[i * e + j] * wb) /
                                           (wa + wb));
      }
      expectNear(k.get(4), out, 1e-6, 1e-6, target);
      expectNear(k.get(5), lse, 1e-6, 1e-6, target);
    }
}

// Ties, infinities and NaN in every place where a lane or tail could lose them.
TEST(RowKernel, Argmax) {
  for (const std::string &target : runnableTargets())
    for (int64_t v : {1, 5, 8, 17, 64, 100, 2037}) {
      int64_t rows = 12;
      std::string x = tensor({2, rows / 2, v}, "f32");
      std::string r = tensor({2, rows / 2}, "i32");
      KernelRun k(kernel({x},
                         "%r = heddle.argmax %0 : (" + x + ") -> " + r +
                             "\n return %r : " + r,
                         {r}),
                  target);
      Numbers logits = randomNumbers(rows * v, 9);
      auto row = [&](int64_t i) { return logits.begin() + i * v; };
      std::fill(row(0), row(1), NAN);
      std::fill(row(1), row(2), -kInf);
      std::fill(row(2), row(3), -kInf);
      *row(2) = NAN;
      std::fill(row(3), row(4), 2.0);
      *(row(5) - 1) = 9; // last of row 4
      *row(5) = 9;       // first of row 5
      for (int64_t i = 0; i < v; i += 3)
        row(6)[i] = 7; // ties in several lanes
      row(7)[v / 2] = kInf;
      for (int64_t i = 0; i < v; i += 2)
        row(8)[i] = NAN;
      logits = k.set(0, logits);
      k.run();
      Numbers want;
      for (int64_t i = 0; i < rows; ++i) {
        int64_t best = -1;
        for (int64_t j = 0; j < v; ++j) {
          double x = logits[i * v + j];
          if (!std::isnan(x) && (best < 0 || x > logits[i * v + best]))
            best = j;
        }
        want.push_back(static_cast<double>(std::max<int64_t>(best, 0)));
      }
      expectNear(k.get(1), want, 0, 0, target + " " + std::to_string(v));
    }
}
