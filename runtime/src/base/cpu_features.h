//===- cpu_features.h - What generated code may use -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BASE_CPU_FEATURES_H
#define HEDDLE_RT_BASE_CPU_FEATURES_H

#include "heddle_rt/status.h"

#include <string_view>

namespace heddle::rt {

/// Refuses a comma-separated list of CPU features (LLVM's names: "avx2",
/// "avx512vnni", …) that this processor lacks or this runtime does not know.
/// Asks the operating system for those that it gives on demand ("amx-tile").
Status checkCpuFeatures(std::string_view features);

} // namespace heddle::rt

#endif // HEDDLE_RT_BASE_CPU_FEATURES_H
