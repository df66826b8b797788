//===- VectorMath.cpp - Elementary functions in vector arithmetic ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "VectorMath.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

/// Horner's scheme, highest power first.
static Value polynomial(KernelBuilder &b, Value x, ArrayRef<double> c) {
  Value y = b.constant(x.getType(), c.front());
  for (double next : c.drop_front())
    y = b.fma(y, x, b.constant(x.getType(), next));
  return y;
}

Value cpu::buildExp(KernelBuilder &b, Value x) {
  Type type = x.getType(), bits = b.withElement(type, b.getI32Type());
  auto c = [&](double v) { return b.constant(type, v); };
  // Against a constant, maximumf is one instruction and lets NaN pass. The ends
  // give exponents of -127 (the scale is 0) and 128 (infinity).
  x = b.fmin(b.fmax(x, c(-88.0)), c(88.8));
  // 1.5 * 2^23 + 127: rounds to an integer in the low bits, with the bias.
  Value magic = c(12582912.0 + 127.0);
  Value t = b.fma(x, c(1.4426950408889634), magic);
  Value n = b.fsub(t, magic);
  Value r = b.fma(n, c(-0.693359375), x);
  r = b.fma(n, c(2.12194440e-4), r);
  Value p = polynomial(b, r,
                       {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3,
                        4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1});
  Value y = b.fadd(b.fma(p, b.fmul(r, r), r), c(1.0));
  Value scale = b.bitcast(b.shiftLeft(b.bitcast(t, bits), 23), type);
  return b.fmul(y, scale);
}

Value cpu::buildLog(KernelBuilder &b, Value x) {
  Type type = x.getType(), bits = b.withElement(type, b.getI32Type());
  auto c = [&](double v) { return b.constant(type, v); };
  // x = m 2^e with sqrt(1/2) <= m < sqrt(2): 0x3f3504f3 is sqrt(1/2).
  Value raw = b.bitcast(x, bits);
  Value shifted = b.iadd(raw, 0x3f800000 - 0x3f3504f3);
  Value e = arith::SIToFPOp::create(
      b, type, b.iadd(b.shiftRight(shifted, b.constantInt(bits, 23)), -127));
  Value m = b.bitcast(b.iadd(b.iand(shifted, 0x007fffff), 0x3f3504f3), type);
  Value f = b.fsub(m, c(1.0)), z = b.fmul(f, f);
  Value p = polynomial(b, f,
                       {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1,
                        -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
                        2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
  Value y = b.fmul(b.fmul(p, f), z);
  y = b.fma(e, c(-2.12194440e-4), y);
  y = b.fma(z, c(-0.5), y);
  y = b.fadd(y, f);
  return b.fma(e, c(0.693359375), y);
}

Value cpu::buildErf(KernelBuilder &b, Value x) {
  Type type = x.getType();
  // A rational minimax approximation; erf is 1 in fp32 from 4 on.
  x = b.fmin(b.fmax(x, b.constant(type, -4.0)), b.constant(type, 4.0));
  Value z = b.fmul(x, x);
  Value p = polynomial(b, z,
                       {-2.72614225801306e-10, 2.77068142495902e-08,
                        -2.10102402082508e-06, -5.69250639462346e-05,
                        -7.34990630326855e-04, -2.95459980854025e-03,
                        -1.60960333262415e-02});
  Value q = polynomial(b, z,
                       {-1.45660718464996e-05, -2.13374055278905e-04,
                        -1.68282697438203e-03, -7.37332916720468e-03,
                        -1.42647390514189e-02});
  return b.fdiv(b.fmul(x, p), q);
}

Value cpu::buildTanh(KernelBuilder &b, Value x) {
  Type type = x.getType(), bits = b.withElement(type, b.getI32Type());
  auto c = [&](double v) { return b.constant(type, v); };
  Value raw = b.bitcast(x, bits);
  Value magnitude = b.bitcast(b.iand(raw, 0x7fffffff), type);
  Value sign = b.iand(raw, std::numeric_limits<int32_t>::min());
  // Far from zero 1 - 2 / (e^2x + 1); near it that would cancel, and a
  // polynomial, fitted at Chebyshev's nodes of x^2 in [0, 0.4], is exact
  // enough.
  Value far =
      b.fsub(c(1.0),
             b.fdiv(c(2.0),
                    b.fadd(buildExp(b, b.fadd(magnitude, magnitude)), c(1.0))));
  far = b.bitcast(arith::OrIOp::create(b, b.bitcast(far, bits), sign), type);
  Value z = b.fmul(x, x);
  Value p = polynomial(b, z,
                       {-6.0536973929e-3, 2.0968186977e-2, -5.3844988974e-2,
                        1.3332732790e-1, -3.3333328611e-1});
  Value near = b.fma(b.fmul(p, z), x, x);
  return b.select(b.fcmp(arith::CmpFPredicate::OLT, z, c(0.4)), near, far);
}

/// x / (1 + e^t), for finite t.
static Value logisticTimes(KernelBuilder &b, Value x, Value t) {
  Type type = x.getType();
  auto c = [&](double v) { return b.constant(type, v); };
  auto vector = dyn_cast<VectorType>(type);
  if (!vector || b.target.nativeLanes != 16 || vector.getNumElements() != 16)
    return b.fdiv(x, b.fadd(buildExp(b, t), c(1.0)));
  // Divisions of 16 lanes take as long as all the rest: an estimate of 14 bits
  // and a Newton step instead. The reciprocal of 1 + e^87 is a normal number.
  Value d = b.fadd(buildExp(b, b.fmin(t, c(87.0))), c(1.0));
  Value r = b.intrinsic("llvm.x86.avx512.rcp14.ps.512", type,
                        {d, c(0.0), b.constantInt(b.getI16Type(), -1)});
  r = b.fma(b.fma(b.fneg(d), r, c(1.0)), r, r);
  return b.fmul(x, r);
}

Value cpu::buildSilu(KernelBuilder &b, Value x) {
  return logisticTimes(b, x, b.fneg(x));
}

std::pair<Value, Value> cpu::buildSinCos(KernelBuilder &b, Value angle) {
  Type wide = angle.getType();
  Type type = b.withElement(wide, b.getF32Type());
  Type bits = b.withElement(wide, b.getI32Type());
  auto c = [&](double v) { return b.constant(wide, v); };
  // k = round(angle 2/pi) sits in the low bits of t.
  Value magic = c(6755399441055744.0); // 1.5 * 2^52
  Value t = b.fma(angle, c(0.63661977236758138), magic);
  Value n = b.fsub(t, magic);
  Value r64 = b.fma(n, c(-1.5707963267948966), angle);
  r64 = b.fma(n, c(-6.123233995736766e-17), r64);
  Value k = arith::TruncIOp::create(
      b, bits, b.bitcast(t, b.withElement(wide, b.getI64Type())));
  Value r = arith::TruncFOp::create(b, type, r64);
  Value z = b.fmul(r, r);
  Value sine =
      polynomial(b, z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1});
  sine = b.fma(b.fmul(sine, z), r, r);
  Value cosine = polynomial(b, z,
                            {2.443315711809948e-5, -1.388731625493765e-3,
                             4.166664568298827e-2, -0.5});
  cosine = b.fma(cosine, z, b.constant(type, 1.0));
  // Quadrants 1 and 3 swap the two; signs follow bit 1 of k and of k + 1.
  Value zero = b.constantInt(bits, 0);
  Value swap = b.icmp(arith::CmpIPredicate::ne, b.iand(k, 1), zero);
  auto signedBy = [&](Value v, Value quadrant) {
    Value sign = b.shiftLeft(b.iand(quadrant, 2), 30);
    return b.bitcast(arith::XOrIOp::create(b, b.bitcast(v, bits), sign), type);
  };
  return {signedBy(b.select(swap, cosine, sine), k),
          signedBy(b.select(swap, sine, cosine), b.iadd(k, 1))};
}

Value cpu::buildActivation(KernelBuilder &b, GluKind kind, Value x) {
  Type type = x.getType();
  auto c = [&](double v) { return b.constant(type, v); };
  switch (kind) {
  case GluKind::Silu:
    return buildSilu(b, x);
  case GluKind::Gelu: {
    Value e = buildErf(b, b.fmul(x, c(0.70710678118654752)));
    Value half = b.fmul(x, c(0.5));
    return b.fma(half, e, half);
  }
  case GluKind::GeluTanh: {
    // (1 + tanh u) / 2 is the logistic function of 2 u.
    Value inner = b.fma(b.fmul(b.fmul(x, x), c(0.044715)), x, x);
    return logisticTimes(b, x, b.fmul(inner, c(-2 * 0.79788456080286536)));
  }
  case GluKind::Relu:
    // NaN stays NaN.
    return b.select(b.fcmp(arith::CmpFPredicate::OLT, x, c(0.0)), c(0.0), x);
  }
  return x;
}
