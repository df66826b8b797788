//===- RealFilesTest.cpp - Files of real models ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Opens models that are too large to keep with the sources, where HEDDLE_SHARED
// says they are; skipped elsewhere.
//
//===----------------------------------------------------------------------===//

#include "FileBuilders.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>

using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

TEST(RealFiles, Stories260K) {
  const char *shared = std::getenv("HEDDLE_SHARED");
  std::string folder = std::string(shared ? shared : "") + "/data/stories260K";
  std::error_code ignored;
  if (!shared || !std::filesystem::exists(folder, ignored))
    GTEST_SKIP() << "HEDDLE_SHARED holds no data/stories260K";
  auto source = WeightSource::open(folder);
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ((*source)->tensors().size(), 47u);
  const TensorInfo *embedding = (*source)->find("model.embed_tokens.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->dtype, DType::f32);
  EXPECT_EQ(embedding->shape, (std::vector<int64_t>{512, 64}));
  int64_t elements = 0;
  for (const TensorInfo &info : (*source)->tensors()) {
    elements += info.elements();
    for (float value : floatsOf(**source, info.name))
      ASSERT_TRUE(std::isfinite(value)) << info.name;
  }
  EXPECT_EQ(elements, 260'032);
}

} // namespace
