//===- CApiTest.cpp - The C interface -------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "heddle_rt/heddle.h"

#include <gtest/gtest.h>

using namespace heddle::rt;
using namespace heddle::rt::test;

extern "C" int heddle_test_c_client(const void *bytes, size_t length, int64_t n,
                                    float *out_y, int *out_progress,
                                    char *message, size_t size);

namespace {

std::vector<uint8_t> doubler() {
  Builder b({{"tp", 2}});
  int32_t x = b.region(16), y = b.region(16), w = b.region(16);
  int32_t n = b.param("n", 0, 4, 0);
  b.input("x", at(x, 0, 16), fb::DType_f32, {whole(4)});
  b.output("y", at(y, 0, 16), fb::DType_f32, {whole(4)});
  b.launch(kAdd, operands(at(x, 0, 16), at(x, 0, 16), at(y, 0, 16)), {n});
  auto recipe = std::make_unique<fb::RecipeT>();
  recipe->name = "w";
  recipe->operand = at(w, 0, 16);
  recipe->packing = "row_major@1";
  recipe->dims.push_back(std::make_unique<fb::DimShardT>(whole(4)));
  b.cls().recipes.push_back(std::move(recipe));
  return b.pack();
}

TEST(CApi, RunsFromC) {
  std::vector<uint8_t> bytes = doubler();
  float y[4] = {};
  int progress = 0;
  char message[256] = "";
  EXPECT_EQ(heddle_test_c_client(bytes.data(), bytes.size(), 3, y, &progress,
                                 message, sizeof(message)),
            HEDDLE_OK)
      << message;
  EXPECT_STREQ(message, "");
  EXPECT_EQ(std::vector<float>(y, y + 4), (std::vector<float>{2, 4, 6, 0}));
  EXPECT_EQ(progress, 1);
}

TEST(CApi, FailuresCarryCodeAndMessage) {
  std::vector<uint8_t> bytes = doubler();
  float y[4];
  int progress = 0;
  char message[256] = "";
  EXPECT_EQ(heddle_test_c_client(bytes.data(), bytes.size(), 5, y, &progress,
                                 message, sizeof(message)),
            HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(message,
               "parameter 'n' of program 'main': expected 0 to 4, got 5");
  EXPECT_EQ(heddle_test_c_client(bytes.data(), 100, 5, y, &progress, message,
                                 sizeof(message)),
            HEDDLE_DATA_LOSS);
  heddle_bundle *bundle = nullptr;
  heddle_status status = heddle_bundle_open(nullptr, &bundle);
  EXPECT_EQ(heddle_status_code(status), HEDDLE_INVALID_ARGUMENT);
  heddle_status_free(status);
  status = heddle_session_run(nullptr, "main");
  EXPECT_STREQ(heddle_status_message(status),
               "expected a session and a program, got null");
  heddle_status_free(status);
  EXPECT_EQ(heddle_status_code(nullptr), HEDDLE_OK);
  EXPECT_STREQ(heddle_status_message(nullptr), "");
}

} // namespace
