//===- gemm.h - Matrix products on the CPU ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// C[m, n] = A[m, k] B[n, k]^T in fp32 through oneDNN, cut along n into panels.
// A panel is one sequential primitive, so panels run side by side on the
// executor's workers and the result does not depend on their number.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_DEVICE_CPU_GEMM_H
#define HEDDLE_RT_DEVICE_CPU_GEMM_H

#include "heddle_rt/status.h"

#include <cstdint>
#include <memory>

namespace heddle::rt {

struct GemmShape {
  int64_t maxRows = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t lda = 0;
  int64_t ldb = 0;
  int64_t ldc = 0;
  int64_t panels = 1;

  bool operator<(const GemmShape &other) const;
};

class PanelGemm {
public:
  virtual ~PanelGemm();

  /// Creates the primitives of every panel width for the usual row counts.
  static Result<std::unique_ptr<PanelGemm>> create(const GemmShape &shape);

  /// Computes columns of panel `panel` for the first `m` rows. May be called
  /// from several threads at once; each must have OpenMP set to one thread.
  virtual Status run(const float *a, const float *b, float *c, int64_t m,
                     int64_t panel) const = 0;
};

/// Columns [begin, end) of a panel: equal widths, rounded up to 16.
struct PanelRange {
  int64_t begin;
  int64_t end;
};
PanelRange panelRange(int64_t n, int64_t panels, int64_t panel);

} // namespace heddle::rt

#endif // HEDDLE_RT_DEVICE_CPU_GEMM_H
