//===- openmp.h - Threads of oneDNN -----------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The two functions of OpenMP that we need, declared here so that any compiler
// will do: they come from the library that oneDNN itself uses.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BASE_OPENMP_H
#define HEDDLE_RT_BASE_OPENMP_H

extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);
}

#endif // HEDDLE_RT_BASE_OPENMP_H
