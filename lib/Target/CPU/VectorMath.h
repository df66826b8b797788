//===- VectorMath.h - Elementary functions in vector arithmetic -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Polynomials, so that no kernel calls libm and results are the same bits
// wherever there is a fused multiply-add. Arguments are fp32 scalars or vectors
// of any width. NaN in gives NaN out.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TARGET_CPU_VECTORMATH_H
#define HEDDLE_LIB_TARGET_CPU_VECTORMATH_H

#include "KernelBuilder.h"

namespace mlir::heddle::cpu {

/// e^x within 1.5 ulp; 0 below -87.3, inf from 88.4 on.
Value buildExp(KernelBuilder &b, Value x);
/// The natural logarithm of a positive normal number, within 2 ulp.
Value buildLog(KernelBuilder &b, Value x);
/// The error function, within 2e-7.
Value buildErf(KernelBuilder &b, Value x);
/// The hyperbolic tangent, within 3 ulp.
Value buildTanh(KernelBuilder &b, Value x);
/// x / (1 + e^-x).
Value buildSilu(KernelBuilder &b, Value x);
/// Sine and cosine of an fp64 angle of up to about 1e9, rounded to fp32 with an
/// absolute error below 1.5e-7.
std::pair<Value, Value> buildSinCos(KernelBuilder &b, Value angle);
/// The activation of a gated unit.
Value buildActivation(KernelBuilder &b, GluKind kind, Value x);

} // namespace mlir::heddle::cpu

#endif // HEDDLE_LIB_TARGET_CPU_VECTORMATH_H
