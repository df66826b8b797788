//===- container.h - Sections of a bundle file ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BUNDLE_CONTAINER_H
#define HEDDLE_RT_BUNDLE_CONTAINER_H

#include "heddle_rt/bundle.h"

#include <cstddef>

namespace heddle::rt {

/// Checks the header page, every section's place and its hash. The sections
/// point into `bytes`.
Result<std::vector<BundleSection>> parseContainer(const uint8_t *bytes,
                                                  size_t length);

} // namespace heddle::rt

#endif // HEDDLE_RT_BUNDLE_CONTAINER_H
