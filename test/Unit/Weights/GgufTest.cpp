//===- GgufTest.cpp - Reading GGUF models ---------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Round trips through single files and split sets, and typed lookups in the
// metadata.
//
//===----------------------------------------------------------------------===//

#include "heddle_rt/gguf.h"
#include "FileBuilders.h"

#include "gtest/gtest.h"

using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

GgufMetadata metadataOf(const std::string &path) {
  auto metadata = GgufMetadata::open(path);
  EXPECT_TRUE(metadata.ok()) << metadata.status().message();
  return metadata.ok() ? *metadata : GgufMetadata(nullptr);
}

TEST(Gguf, RoundTrip) {
  TempFolder folder;
  std::string block = bytesOf<uint16_t>(0x3C00) + std::string(32, '\2');
  for (uint32_t version : {2u, 3u}) {
    GgufBuilder builder(version);
    builder.string("general.architecture", "llama")
        .tensor("w", {32, 2}, 8, block + block)
        .tensor("b", {3}, 0, bytesOf<float>({1, 2, 3}))
        .tensor("s", {}, 0, bytesOf<float>(7.0f));
    std::string path = folder.write("m.gguf", builder.build());
    auto source = WeightSource::open(path);
    ASSERT_TRUE(source.ok()) << source.status().message();
    const WeightSource &weights = **source;
    EXPECT_EQ(weights.format(), "gguf");
    EXPECT_EQ(weights.description(), path);
    ASSERT_EQ(weights.tensors().size(), 3u);
    const TensorInfo *w = weights.find("w");
    ASSERT_NE(w, nullptr);
    EXPECT_EQ(w->dtype, DType::q8_0);
    EXPECT_EQ(w->shape, (std::vector<int64_t>{2, 32})); // outermost first
    EXPECT_EQ(w->bytes, 68);
    EXPECT_EQ(floatsOf(weights, "w"), std::vector<float>(64, 2.0f));
    EXPECT_EQ(floatsOf(weights, "b"), (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(floatsOf(weights, "s"), std::vector<float>{7});
    const GgufMetadata *metadata = ggufMetadata(weights);
    ASSERT_NE(metadata, nullptr);
    EXPECT_EQ(*metadata->getString("general.architecture"), "llama");
  }
}

TEST(Gguf, EverySupportedType) {
  TempFolder folder;
  const std::pair<uint32_t, DType> types[] = {
      {0, DType::f32},   {1, DType::f16},   {2, DType::q4_0},
      {3, DType::q4_1},  {6, DType::q5_0},  {7, DType::q5_1},
      {8, DType::q8_0},  {10, DType::q2_k}, {11, DType::q3_k},
      {12, DType::q4_k}, {13, DType::q5_k}, {14, DType::q6_k},
      {24, DType::i8},   {25, DType::i16},  {26, DType::i32},
      {27, DType::i64},  {28, DType::f64},  {30, DType::bf16}};
  for (auto [number, type] : types) {
    uint64_t row = uint64_t(blockElements(type));
    std::string path = folder.write(
        "m.gguf", GgufBuilder()
                      .tensor("w", {row, 3}, number,
                              std::string(size_t(3 * blockBytes(type)), '\0'))
                      .build());
    auto source = WeightSource::open(path);
    ASSERT_TRUE(source.ok()) << source.status().message();
    EXPECT_EQ((*source)->tensors()[0].dtype, type);
    EXPECT_EQ((*source)->tensors()[0].bytes, 3 * blockBytes(type));
  }
}

TEST(Gguf, AlignmentIsRead) {
  TempFolder folder;
  GgufBuilder builder;
  builder.alignment = 4096;
  builder.u32("general.alignment", 4096)
      .tensor("a", {1}, 0, bytesOf<float>(1.0f))
      .tensor("b", {1}, 0, bytesOf<float>(2.0f));
  auto source = WeightSource::open(folder.write("m.gguf", builder.build()));
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ(floatsOf(**source, "a"), std::vector<float>{1});
  EXPECT_EQ(floatsOf(**source, "b"), std::vector<float>{2});
}

// A vocabulary file has no tensors, and a file may have no keys: a tokenizer
// is not needed to compile.
TEST(Gguf, NothingIsRequired) {
  TempFolder folder;
  EXPECT_EQ(openError(folder.write("a.gguf", GgufBuilder().build())), "");
  EXPECT_EQ(openError(folder.write(
                "b.gguf", GgufBuilder().strings("tokens", {"a"}).build())),
            "");
}

TEST(GgufMetadata, EveryValueType) {
  TempFolder folder;
  GgufMetadata metadata = metadataOf(folder.write(
      "m.gguf", GgufBuilder()
                    .value("u8", 0, bytesOf<uint8_t>(255))
                    .value("i8", 1, bytesOf<int8_t>(-128))
                    .value("u16", 2, bytesOf<uint16_t>(65535))
                    .value("i16", 3, bytesOf<int16_t>(-32768))
                    .value("u32", 4, bytesOf<uint32_t>(4294967295))
                    .value("i32", 5, bytesOf<int32_t>(-2147483647))
                    .value("f32", 6, bytesOf<float>(0.5f))
                    .value("bool", 7, bytesOf<uint8_t>(1))
                    .string("string", std::string("a\0b", 3))
                    .value("u64", 10, bytesOf<uint64_t>(UINT64_MAX))
                    .value("i64", 11, bytesOf<int64_t>(INT64_MIN))
                    .value("f64", 12, bytesOf<double>(0.1))
                    .strings("strings", {"x", "", "yz"})
                    .array<int32_t>("i32s", 5, {-1, 2})
                    .array<uint16_t>("u16s", 2, {1, 65535})
                    .array<float>("f32s", 6, {0.5f, -1.5f})
                    .array<uint8_t>("bools", 7, {0, 1})
                    .array<uint32_t>("none", 4, {})
                    .build()));
  EXPECT_EQ(metadata.keys().size(), 18u);
  EXPECT_EQ(metadata.keys()[8], "string"); // the file's order
  EXPECT_EQ(*metadata.getUnsigned("u8"), 255u);
  EXPECT_EQ(*metadata.getInteger("i8"), -128);
  EXPECT_EQ(*metadata.getUnsigned("u16"), 65535u);
  EXPECT_EQ(*metadata.getInteger("i16"), -32768);
  EXPECT_EQ(*metadata.getInteger("u32"), 4294967295);
  EXPECT_EQ(*metadata.getInteger("i32"), -2147483647);
  EXPECT_EQ(*metadata.getUnsigned("u64"), UINT64_MAX);
  EXPECT_EQ(*metadata.getInteger("i64"), INT64_MIN);
  EXPECT_EQ(*metadata.getFloat("f32"), 0.5);
  EXPECT_EQ(*metadata.getFloat("f64"), 0.1);
  EXPECT_EQ(*metadata.getFloat("i32"), -2147483647.0);
  EXPECT_TRUE(*metadata.getBool("bool"));
  EXPECT_EQ(*metadata.getString("string"), std::string("a\0b", 3));
  EXPECT_EQ(*metadata.getStrings("strings"),
            (std::vector<std::string>{"x", "", "yz"}));
  EXPECT_EQ(*metadata.getIntegers("i32s"), (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(*metadata.getIntegers("u16s"), (std::vector<int64_t>{1, 65535}));
  EXPECT_EQ(*metadata.getFloats("f32s"), (std::vector<float>{0.5f, -1.5f}));
  EXPECT_EQ(*metadata.getFloats("i32s"), (std::vector<float>{-1, 2}));
  EXPECT_TRUE(metadata.getIntegers("none")->empty());
  EXPECT_EQ(metadata.type("f64"), GgufMetadata::Type::f64);
  EXPECT_EQ(metadata.elementType("bools"), GgufMetadata::Type::boolean);
  EXPECT_EQ(metadata.arraySize("strings"), std::optional<int64_t>(3));
  EXPECT_EQ(metadata.type("x"), std::nullopt);
  EXPECT_EQ(metadata.elementType("u8"), std::nullopt);
  EXPECT_EQ(metadata.arraySize("u8"), std::nullopt);
}

// A wrong type and a missing key are told apart and name file, key and value.
TEST(GgufMetadata, FailedLookups) {
  TempFolder folder;
  std::string path = folder.write(
      "m.gguf", GgufBuilder()
                    .value("n", 5, bytesOf<int32_t>(-3))
                    .value("big", 10, bytesOf<uint64_t>(UINT64_MAX))
                    .string("s", "x")
                    .strings("ss", {"a", "b"})
                    .array<uint64_t>("bigs", 10, {1, UINT64_MAX})
                    .build());
  GgufMetadata metadata = metadataOf(path);
  auto message = [&](const Status &status) {
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_EQ(status.message().substr(0, path.size()), path);
    return status.message().substr(path.size());
  };
  EXPECT_EQ(metadata.getUnsigned("x").status().code(), Code::not_found);
  EXPECT_EQ(metadata.getUnsigned("x").status().message(),
            path + ": metadata key 'x': expected a non-negative integer, got "
                   "no such key");
  EXPECT_EQ(message(metadata.getUnsigned("n").status()),
            ": metadata key 'n': expected a non-negative integer, got i32 -3");
  EXPECT_EQ(message(metadata.getInteger("big").status()),
            ": metadata key 'big': expected an integer below 2^63, got u64 "
            "18446744073709551615");
  EXPECT_EQ(message(metadata.getBool("n").status()),
            ": metadata key 'n': expected a bool, got i32 -3");
  EXPECT_EQ(message(metadata.getFloat("s").status()),
            ": metadata key 's': expected a number, got a value of type "
            "string");
  EXPECT_EQ(message(metadata.getString("ss").status()),
            ": metadata key 'ss': expected a string, got an array of 2 "
            "string");
  EXPECT_EQ(message(metadata.getStrings("s").status()),
            ": metadata key 's': expected an array of strings, got a value of "
            "type string");
  EXPECT_EQ(message(metadata.getIntegers("ss").status()),
            ": metadata key 'ss': expected an array of integers below 2^63, "
            "got an array of 2 string");
  EXPECT_FALSE(metadata.getIntegers("bigs").ok());
  EXPECT_FALSE(metadata.getFloats("ss").ok());
}

// To compile one needs the metadata only, and a copy outlives the original.
TEST(GgufMetadata, OpensAFileWhoseDataIsMissing) {
  TempFolder folder;
  std::string bytes = GgufBuilder()
                          .string("k", "v")
                          .tensor("w", {1000}, 0, std::string(4000, 'x'))
                          .build();
  std::string path =
      folder.write("m.gguf", bytes.substr(0, bytes.size() - 4000));
  EXPECT_NE(openError(path), "");
  GgufMetadata copy(nullptr);
  {
    GgufMetadata metadata = metadataOf(path);
    copy = metadata;
  }
  EXPECT_EQ(copy.path(), path);
  EXPECT_EQ(*copy.getString("k"), "v");
}

TEST(GgufMetadata, OtherSourcesHaveNone) {
  EXPECT_EQ(ggufMetadata(**WeightSource::open("random:1")), nullptr);
}

/// Three files of tensors a, b and c; the first has the architecture.
class Split : public testing::Test {
protected:
  static std::string name(int number) {
    return "m-0000" + std::to_string(number) + "-of-00003.gguf";
  }

  static GgufBuilder file(uint16_t index, uint16_t count = 3,
                          int32_t total = 3) {
    GgufBuilder builder;
    builder.value("split.no", 2, bytesOf(index))
        .value("split.count", 2, bytesOf(count))
        .value("split.tensors.count", 5, bytesOf(total));
    if (index == 0)
      builder.string("general.architecture", "llama");
    return builder;
  }

  void SetUp() override {
    for (uint16_t i = 0; i < 3; ++i)
      folder.write(name(i + 1), withTensor(file(i), i));
  }

  static std::string withTensor(GgufBuilder builder, int i) {
    return builder
        .tensor(std::string(1, char('a' + i)), {1}, 0, bytesOf(float(i)))
        .build();
  }

  TempFolder folder;
};

TEST_F(Split, AnyFileOrTheFolderOpensTheSet) {
  for (std::string path :
       {folder / name(1), folder / name(2), folder / name(3), folder.path()}) {
    auto source = WeightSource::open(path);
    ASSERT_TRUE(source.ok()) << source.status().message();
    EXPECT_EQ((*source)->description(), path);
    EXPECT_EQ((*source)->tensors().size(), 3u);
    EXPECT_EQ(floatsOf(**source, "a"), std::vector<float>{0});
    EXPECT_EQ(floatsOf(**source, "c"), std::vector<float>{2});
    EXPECT_EQ(*ggufMetadata(**source)->getString("general.architecture"),
              "llama");
  }
  EXPECT_EQ(metadataOf(folder / name(3)).path(), folder / name(1));
}

TEST_F(Split, MissingFile) {
  folder.remove(name(3));
  EXPECT_EQ(openError(folder / name(1)),
            folder / name(3) + ": expected file 3 of a split set of 3, got no "
                               "such file (incomplete download?)");
  folder.remove(name(1));
  std::string expected = folder / name(1) +
                         ": expected file 1 of a split set of 3, got no such "
                         "file (incomplete download?)\n" +
                         folder / name(3) +
                         ": expected file 3 of a split set of 3, got no such "
                         "file (incomplete download?)";
  EXPECT_EQ(openError(folder / name(2)), expected);
  EXPECT_EQ(openError(folder.path()), expected);
}

TEST_F(Split, CountsThatDisagree) {
  folder.write(name(2), withTensor(file(1, 4), 1));
  folder.write(name(3), withTensor(file(0), 2));
  EXPECT_EQ(openError(folder / name(1)),
            folder / name(2) +
                ": metadata key 'split.count': expected 3, got "
                "4\n" +
                folder / name(3) +
                ": metadata key 'split.no': expected 2, got 0");
}

TEST_F(Split, TotalThatDisagrees) {
  folder.write(name(1), withTensor(file(0, 3, 5), 0));
  EXPECT_EQ(openError(folder / name(1)),
            folder / name(1) +
                ": metadata key 'split.tensors.count': expected 3, got 5");
}

TEST_F(Split, TensorInTwoFiles) {
  folder.write(name(3), withTensor(file(2), 0));
  EXPECT_EQ(openError(folder / name(1)),
            folder / name(1) +
                ": tensor 'a': expected one tensor of this "
                "name, got 2, the second in " +
                folder / name(3));
}

TEST_F(Split, FileWithoutTheKeys) {
  folder.write(name(2), withTensor(GgufBuilder(), 1));
  EXPECT_EQ(openError(folder / name(1)),
            folder / name(2) +
                ": metadata key 'split.no': expected 1, got no such key\n" +
                folder / name(2) +
                ": metadata key 'split.count': expected 3, got no such key");
}

// The set cannot be found from a file that was renamed.
TEST_F(Split, RenamedFile) {
  std::string path = folder.write("renamed.gguf", withTensor(file(0), 0));
  EXPECT_EQ(openError(path),
            path + ": metadata key 'split.count': expected a file name that "
                   "ends in -NNNNN-of-NNNNN.gguf for a set of 3, got "
                   "'renamed.gguf'");
}

TEST_F(Split, FolderWithTwoModels) {
  folder.write("other.gguf", GgufBuilder().build());
  EXPECT_EQ(openError(folder.path()),
            folder.path() +
                ": expected *.safetensors files or one GGUF model, "
                "got '" +
                name(1) + "', '" + name(2) + "', '" + name(3) +
                "', 'other.gguf'");
}

} // namespace
