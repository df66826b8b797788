//===- bundle_fuzzer.cpp - Hostile bundles --------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The first byte chooses: the rest is a whole container, or a plan (whose hash
// would otherwise stop every change at the border).
//
//===----------------------------------------------------------------------===//

#include "bundle/validate_plan.h"
#include "heddle_rt/bundle.h"

#include <cstring>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace heddle::rt;
  if (size == 0)
    return 0;
  std::vector<uint8_t> rest(data + 1, data + size);
  if (data[0] == 'B') {
    (void)Bundle::parse(std::move(rest));
    return 0;
  }
  (void)verifyPlan(std::string_view(reinterpret_cast<const char *>(rest.data()),
                                    rest.size()));
  return 0;
}
