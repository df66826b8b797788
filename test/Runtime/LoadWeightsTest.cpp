//===- LoadWeightsTest.cpp - Parameters by their recipes ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "base/half.h"
#include "heddle_rt/convert.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <set>

using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

/// Tensors in memory.
class FakeSource final : public WeightSource {
public:
  explicit FakeSource(std::string format) : format_(std::move(format)) {}

  void add(const std::string &name, DType dtype, std::vector<int64_t> shape,
           std::vector<uint8_t> bytes) {
    TensorInfo info;
    info.name = name;
    info.dtype = dtype;
    info.shape = std::move(shape);
    info.bytes = static_cast<int64_t>(bytes.size());
    infos_.push_back(info);
    data_[name] = std::move(bytes);
  }
  /// f32 values 0, 1, 2, … plus `first`, stored as `dtype`.
  void addCounting(const std::string &name, DType dtype,
                   std::vector<int64_t> shape, float first = 0) {
    int64_t count = 1;
    for (int64_t extent : shape)
      count *= extent;
    std::vector<float> values(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i)
      values[static_cast<size_t>(i)] = first + static_cast<float>(i);
    std::vector<uint8_t> bytes(
        static_cast<size_t>(count / blockElements(dtype) * blockBytes(dtype)));
    encodeFromFloat(dtype, values.data(), count, bytes.data());
    add(name, dtype, std::move(shape), std::move(bytes));
  }

  const std::string &description() const override { return description_; }
  std::string_view format() const override { return format_; }
  const std::vector<TensorInfo> &tensors() const override { return infos_; }
  const TensorInfo *find(std::string_view name) const override {
    for (const TensorInfo &info : infos_)
      if (info.name == name)
        return &info;
    return nullptr;
  }
  Result<const uint8_t *> data(const TensorInfo &tensor) const override {
    return data_.at(tensor.name).data();
  }
  void release(const uint8_t *, int64_t bytes) const override {
    released += bytes;
  }
  mutable std::atomic<int64_t> released{0};

private:
  std::string description_ = "fake";
  std::string format_;
  std::vector<TensorInfo> infos_;
  std::map<std::string, std::vector<uint8_t>> data_;
};

/// One recipe; the parameter's region is an output "w" of raw bytes per rank.
struct RecipePlan {
  Builder b;
  fb::RecipeT *recipe;
  int64_t bytes;

  RecipePlan(std::vector<std::pair<std::string, int32_t>> axes, DType dtype,
             std::vector<fb::DimShardT> dims, int64_t layers = 0)
      : b(axes) {
    int64_t elements = 1, ranks = 1;
    for (const fb::DimShardT &dim : dims)
      elements *= dim.slots * dim.unit;
    for (auto &axis : axes)
      ranks *= axis.second;
    bytes = elements / blockElements(dtype) * blockBytes(dtype);
    int64_t total = bytes * std::max<int64_t>(layers, 1);
    int32_t region = b.region(total);
    auto owned = std::make_unique<fb::RecipeT>();
    recipe = owned.get();
    recipe->name = "w";
    recipe->gguf_name = "g";
    recipe->operand = at(region, 0, bytes);
    recipe->layer_stride = bytes;
    recipe->dtype = static_cast<fb::DType>(dtype);
    recipe->packing = "row_major@1";
    for (fb::DimShardT &dim : dims)
      recipe->dims.push_back(std::make_unique<fb::DimShardT>(dim));
    b.cls().recipes.push_back(std::move(owned));
    std::vector<int32_t> all;
    for (size_t i = 0; i < axes.size(); ++i)
      all.push_back(static_cast<int32_t>(i));
    b.output("w", at(region, 0, total), fb::DType_u8,
             {cut(ranks, 1, 1, all), whole(total)});
  }
};

/// Loads and gives back each rank's bytes as floats.
std::vector<float> loaded(RecipePlan &plan, const WeightSource &source,
                          int workers = 2) {
  SessionOptions options;
  options.poison = 0x7fc00000u;
  options.workers = workers;
  TestSession run(plan.b.bundle(), options);
  int64_t last = 0, all = 0;
  Status status = run->loadWeights(source, [&](int64_t done, int64_t total) {
    EXPECT_GT(done, last);
    last = done;
    all = total;
  });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(last, all);
  HostTensor w = *run->output("main", "w");
  DType dtype = static_cast<DType>(plan.recipe->dtype);
  int64_t count = static_cast<int64_t>(w.bytes.size()) / blockBytes(dtype) *
                  blockElements(dtype);
  std::vector<float> values(static_cast<size_t>(count));
  decodeToFloat(dtype, w.bytes.data(), 0, count, values.data());
  return values;
}

// Rows and columns cut with padding: pads are zero although the arena was
// poisoned, and pages are given back once.
TEST(LoadWeights, CutsAndPads) {
  RecipePlan plan({{"dp", 1}, {"tp", 2}}, DType::f32,
                  {cut(3, 1, 2, {1}), whole(2)});
  FakeSource source("safetensors");
  source.addCounting("w", DType::f32, {3, 2});
  EXPECT_EQ(loaded(plan, source),
            (std::vector<float>{0, 1, 2, 3, /*rank 1*/ 4, 5, 0, 0}));
  EXPECT_EQ(source.released, 24);

  RecipePlan columns({{"tp", 2}}, DType::f32, {whole(2), cut(5, 2, 2, {0})});
  FakeSource wide("safetensors");
  wide.addCounting("w", DType::f32, {2, 5});
  EXPECT_EQ(loaded(columns, wide),
            (std::vector<float>{0, 1, 2, 3, 5, 6, 7, 8, //
                                4, 0, 0, 0, 9, 0, 0, 0}));
}

TEST(LoadWeights, Maps) {
  RecipePlan plan({{"ep", 2}}, DType::f32, {cut(3, 1, 2, {0}, 0), whole(2)});
  plan.b.table(2, 2, {2, 0, -1, 1});
  FakeSource source("safetensors");
  source.addCounting("w", DType::f32, {3, 2});
  EXPECT_EQ(loaded(plan, source), (std::vector<float>{4, 5, 0, 1, 0, 0, 2, 3}));
}

// Layers of a stack, by number, for replicas on another axis too.
TEST(LoadWeights, Layers) {
  RecipePlan plan({{"dp", 2}}, DType::f32, {whole(2)}, 3);
  plan.recipe->name = "model.{i}.w";
  plan.recipe->layers = {1, 3, 10};
  FakeSource source("safetensors");
  for (int layer : {1, 3, 10})
    source.addCounting("model." + std::to_string(layer) + ".w", DType::f32, {2},
                       static_cast<float>(100 * layer));
  for (int workers : {1, 5})
    EXPECT_EQ(loaded(plan, source, workers),
              (std::vector<float>{100, 101, 300, 301, 1000, 1001, //
                                  100, 101, 300, 301, 1000, 1001}));
}

// Every plain format from every format that holds the values exactly.
TEST(LoadWeights, Converts) {
  for (DType from : {DType::f32, DType::f16, DType::bf16})
    for (DType to : {DType::f32, DType::f16, DType::bf16}) {
      RecipePlan plan({}, to, {whole(4), whole(8)});
      FakeSource source("safetensors");
      source.addCounting("w", from, {4, 8});
      std::vector<float> got = loaded(plan, source);
      for (size_t i = 0; i < 32; ++i)
        EXPECT_EQ(got[i], static_cast<float>(i));
    }
}

// Blocks are copied bit by bit where the plan stores the same format, also
// cut between blocks, and decoded where it does not, also cut inside a block.
TEST(LoadWeights, Blocks) {
  FakeSource source("gguf");
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 2 * 2 * 20; ++i)
    bytes.push_back(static_cast<uint8_t>(i % 19 == 3 ? 0x30 : i));
  source.add("g", DType::q4_1, {2, 64}, bytes);
  std::vector<float> expected(128);
  decodeToFloat(DType::q4_1, bytes.data(), 0, 128, expected.data());

  RecipePlan same({{"tp", 2}}, DType::q4_1, {whole(2), cut(64, 32, 1, {0})});
  std::vector<float> got = loaded(same, source);
  RecipePlan decoded({{"tp", 2}}, DType::f32, {whole(2), cut(64, 8, 5, {0})});
  std::vector<float> floats = loaded(decoded, source);
  auto equal = [](float a, float b) {
    return std::memcmp(&a, &b, 4) == 0 || (std::isnan(a) && std::isnan(b));
  };
  for (size_t rank = 0; rank < 2; ++rank)
    for (size_t row = 0; row < 2; ++row) {
      for (size_t col = 0; col < 32; ++col)
        EXPECT_TRUE(equal(got[(rank * 2 + row) * 32 + col],
                          expected[row * 64 + rank * 32 + col]));
      for (size_t col = 0; col < 40; ++col) {
        size_t global = rank * 40 + col;
        EXPECT_TRUE(equal(floats[(rank * 2 + row) * 40 + col],
                          global < 64 ? expected[row * 64 + global] : 0.0f));
      }
    }
}

TEST(LoadWeights, QuantisesToQ8_0) {
  RecipePlan plan({}, DType::q8_0, {whole(1), whole(64)});
  FakeSource source("safetensors");
  source.addCounting("w", DType::f32, {1, 64}, -20);
  std::vector<float> got = loaded(plan, source);
  for (size_t i = 0; i < 64; ++i)
    EXPECT_NEAR(got[i], static_cast<float>(i) - 20, 43.0f / 127);
}

// Every block format that a plan may hold can be drawn: half a step of the
// coarsest group away from the values, and all codes are used.
TEST(LoadWeights, DrawsEveryBlockFormat) {
  std::unique_ptr<WeightSource> source = WeightSource::open("random:7").take();
  RecipePlan plain({}, DType::f32, {whole(3), whole(256)});
  plain.recipe->random_offset = 0.25f;
  std::vector<float> exact = loaded(plain, *source);
  struct Format {
    DType dtype;
    float steps; // in a block, from end to end
    size_t block;
  };
  for (Format format :
       {Format{DType::q4_0, 16, 32}, Format{DType::q4_1, 15, 32},
        Format{DType::q5_0, 32, 32}, Format{DType::q5_1, 31, 32},
        Format{DType::q8_0, 254, 32}, Format{DType::q6_k, 64, 16}}) {
    SCOPED_TRACE(dtypeName(format.dtype));
    RecipePlan plan({}, format.dtype, {whole(3), whole(256)});
    plan.recipe->random_offset = 0.25f;
    std::vector<float> got = loaded(plan, *source);
    ASSERT_EQ(got.size(), exact.size());
    std::set<float> codes;
    for (size_t first = 0; first < exact.size(); first += format.block) {
      auto begin = exact.begin() + static_cast<std::ptrdiff_t>(first);
      auto [lo, hi] = std::minmax_element(
          begin, begin + static_cast<std::ptrdiff_t>(format.block));
      bool minimum = format.dtype == DType::q4_1 || format.dtype == DType::q5_1;
      float range =
          minimum ? *hi - *lo : 2 * std::max(std::fabs(*lo), std::fabs(*hi));
      // One end of the symmetric formats has a code less; the scales of q6_k
      // have eight bits.
      float step = range / format.steps;
      for (size_t i = first; i < first + format.block; ++i) {
        EXPECT_NEAR(got[i], exact[i], minimum ? 0.51f * step : 1.02f * step)
            << i;
        if (first / format.block == 0)
          codes.insert(got[i]);
      }
    }
    EXPECT_GT(codes.size(), 5u);
  }
  // Weights of a file are not made coarser on the way.
  RecipePlan plan({}, DType::q4_0, {whole(1), whole(64)});
  FakeSource file("safetensors");
  file.addCounting("w", DType::f32, {1, 64}, -20);
  TestSession run(plan.b.bundle());
  Status status = run->loadWeights(file, nullptr);
  EXPECT_NE(status.message().find("expected q4_0 elements, found f32"),
            std::string::npos)
      << status.message();
}

// GGUF's interleaved rows, against the definition written out for one head of
// 4: stored 0 1 2 3 are rows 0, 2 (the second half's first), 1, 3.
TEST(LoadWeights, UnpermutesRotaryRows) {
  RecipePlan plan({{"tp", 2}}, DType::f32, {cut(8, 4, 1, {0}), whole(1)});
  plan.recipe->gguf_transform = fb::SourceTransform_deinterleave_rows;
  plan.recipe->heads = 2;
  FakeSource gguf("gguf");
  gguf.addCounting("g", DType::f32, {8, 1});
  EXPECT_EQ(loaded(plan, gguf), (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
  // Other formats are in order already.
  FakeSource folder("safetensors");
  folder.addCounting("w", DType::f32, {8, 1});
  EXPECT_EQ(loaded(plan, folder), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
  // A bias has rows of one element.
  RecipePlan bias({}, DType::f32, {whole(8)});
  bias.recipe->gguf_transform = fb::SourceTransform_deinterleave_rows;
  bias.recipe->heads = 1;
  FakeSource biases("gguf");
  biases.addCounting("g", DType::f32, {8});
  EXPECT_EQ(loaded(bias, biases), (std::vector<float>{0, 2, 4, 6, 1, 3, 5, 7}));
}

// Random weights do not depend on the mesh.
TEST(LoadWeights, RandomByGlobalIndex) {
  std::unique_ptr<WeightSource> source = WeightSource::open("random:7").take();
  RecipePlan one({}, DType::f32, {whole(6), whole(5)});
  one.recipe->random_scale = 0.5f;
  one.recipe->random_offset = 1;
  std::vector<float> all = loaded(one, *source);
  RecipePlan two({{"tp", 2}}, DType::f32, {cut(6, 1, 3, {0}), whole(5)});
  two.recipe->random_scale = 0.5f;
  two.recipe->random_offset = 1;
  EXPECT_EQ(loaded(two, *source), all);
  std::vector<float> expected(30);
  drawRandom(7, "w", 0, 30, 0.5f, 1, expected.data());
  EXPECT_EQ(all, expected);
}

// All problems at once, and nothing is written.
TEST(LoadWeights, ReportsAllProblemsTogether) {
  RecipePlan plan({}, DType::f32, {whole(2), whole(3)}, 3);
  plan.recipe->name = "l.{i}.w";
  plan.recipe->layers = {0, 1, 2};
  auto second = std::make_unique<fb::RecipeT>(*plan.recipe);
  second->name = "embed";
  second->layers.clear();
  second->dtype = fb::DType_i32;
  plan.b.cls().recipes.push_back(std::move(second));
  FakeSource source("safetensors");
  source.addCounting("l.1.w", DType::f32, {3, 2});
  source.addCounting("l.2.w", DType::f32, {2, 3});
  source.addCounting("embed", DType::f32, {2, 3});
  TestSession run(plan.b.bundle());
  Status status = run->loadWeights(source, nullptr);
  EXPECT_EQ(status.code(), Code::not_found);
  EXPECT_EQ(status.message(),
            "'fake' does not have the bundle's weights:\n"
            "tensor 'l.0.w': expected shape [2, 3], found no such tensor\n"
            "tensor 'l.1.w': expected shape [2, 3], found [3, 2]\n"
            "tensor 'embed': expected i32 elements, found f32");
  HostTensor w = *run->output("main", "w");
  for (uint8_t byte : w.bytes)
    EXPECT_EQ(byte, 0);
}

TEST(LoadWeights, RefusesToCutBlocks) {
  RecipePlan plan({{"tp", 2}}, DType::q8_0, {whole(2), cut(96, 16, 4, {0}, 0)});
  plan.b.table(2, 4, {2, 1, 0, 3, 4, 5, -1, -1});
  FakeSource source("safetensors");
  source.addCounting("w", DType::f32, {2, 96});
  TestSession run(plan.b.bundle());
  EXPECT_EQ(run->loadWeights(source, nullptr).message(),
            "'fake' does not have the bundle's weights:\n"
            "tensor 'w': expected ranks to hold whole blocks of 32 columns, "
            "got columns 32 to 48 on rank 0");
}

// 16-bit formats round to nearest, ties to even, over all bit patterns.
TEST(Half, RoundTripsAndRounds) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    uint16_t half = static_cast<uint16_t>(bits);
    float value = fromF16(half);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(fromF16(toF16(value))));
    else
      EXPECT_EQ(toF16(value), half);
    value = fromBf16(half);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(fromBf16(toBf16(value))));
    else
      EXPECT_EQ(toBf16(value), half);
  }
  // The middle between two neighbours goes to the even one.
  for (uint16_t half : {uint16_t{0x0000}, uint16_t{0x0001}, uint16_t{0x03ff},
                        uint16_t{0x3c00}, uint16_t{0x3c01}, uint16_t{0x7bfe}}) {
    float low = fromF16(half), high = fromF16(static_cast<uint16_t>(half + 1));
    float middle = low + (high - low) / 2;
    uint16_t even = half % 2 == 0 ? half : static_cast<uint16_t>(half + 1);
    EXPECT_EQ(toF16(middle), even) << half;
    EXPECT_EQ(toF16(std::nextafter(middle, 1e9f)), half + 1);
    EXPECT_EQ(toF16(std::nextafter(middle, -1.0f)), half);
  }
  EXPECT_EQ(toF16(65519.0f), 0x7bff);
  EXPECT_EQ(toF16(65520.0f), 0x7c00);     // infinity
  EXPECT_EQ(toBf16(1.00390625f), 0x3f80); // 1 + 2^-8: tie to even
  EXPECT_EQ(toBf16(1.01171875f), 0x3f82); // 1 + 3 * 2^-8: tie to even
}

} // namespace
