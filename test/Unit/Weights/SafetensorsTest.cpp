//===- SafetensorsTest.cpp - Reading safetensors files --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Round trips, unusual files that are legal, and about thirty that are not,
// each with the message it must give.
//
//===----------------------------------------------------------------------===//

#include "FileBuilders.h"

#include "gtest/gtest.h"

#include <sys/stat.h>

using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

std::string entry(const std::string &name, const std::string &dtype,
                  const std::string &shape, const std::string &offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape +
         R"(,"data_offsets":)" + offsets + "}";
}

TEST(Safetensors, RoundTrip) {
  TempFolder folder;
  // Out of order in the header, and unaligned in the file.
  std::string header = "{" + entry("b", "F32", "[2,3]", "[3,27]") + "," +
                       entry("a", "I8", "[3]", "[0,3]") +
                       R"(,"__metadata__":{"format":"pt","":""}})";
  std::vector<float> floats = {1, 2, 3, 4, 5, 6.5};
  std::string path = folder.write(
      "m.safetensors",
      safetensors(header, bytesOf<int8_t>({-1, 0, 1}) + bytesOf(floats)));
  auto source = WeightSource::open(path);
  ASSERT_TRUE(source.ok()) << source.status().message();
  const WeightSource &weights = **source;
  EXPECT_EQ(weights.format(), "safetensors");
  EXPECT_EQ(weights.description(), path);
  EXPECT_EQ(weights.seed(), std::nullopt);
  ASSERT_EQ(weights.tensors().size(), 2u);
  EXPECT_EQ(weights.tensors()[0].name, "a");
  const TensorInfo *b = weights.find("b");
  ASSERT_EQ(b, &weights.tensors()[1]);
  EXPECT_EQ(b->dtype, DType::f32);
  EXPECT_EQ(b->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(b->bytes, 24);
  EXPECT_EQ(floatsOf(weights, "a"), (std::vector<float>{-1, 0, 1}));
  EXPECT_EQ(floatsOf(weights, "b"), floats);
  EXPECT_EQ(weights.find("c"), nullptr);
  EXPECT_EQ(weights.find(""), nullptr);
}

TEST(Safetensors, DataOfAForeignTensorIsRefused) {
  TempFolder folder;
  std::string path =
      folder.write("m.safetensors", safetensors({{"a", {1, 2}}}));
  auto source = WeightSource::open(path);
  ASSERT_TRUE(source.ok());
  TensorInfo info = (*source)->tensors()[0];
  EXPECT_TRUE((*source)->data(info).ok()); // a copy will do
  info.shape = {3};
  EXPECT_EQ((*source)->data(info).status().message(),
            path + ": tensor 'a': expected f32[2], got f32[3]");
  info.name = "b";
  EXPECT_EQ((*source)->data(info).status().code(), Code::not_found);
}

// Pages that were released read the same again, and ranges outside the file
// are ignored.
TEST(Safetensors, ReleaseKeepsTheValues) {
  TempFolder folder;
  std::vector<float> values(100'000);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(i);
  std::string path =
      folder.write("m.safetensors", safetensors({{"a", values}}));
  auto source = WeightSource::open(path);
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(floatsOf(**source, "a"), values);
  const uint8_t *data = *(*source)->data((*source)->tensors()[0]);
  (*source)->release(data, 400'000);
  (*source)->release(data + 5, 3);
  (*source)->release(data, 400'001);
  (*source)->release(data, -1);
  std::vector<uint8_t> own(8192, 1);
  (*source)->release(own.data(), 8192);
  EXPECT_EQ(own, std::vector<uint8_t>(8192, 1));
  EXPECT_EQ(floatsOf(**source, "a"), values);
}

TEST(Safetensors, AllTypes) {
  TempFolder folder;
  struct Known {
    const char *name;
    DType type;
  };
  for (Known known : {Known{"F64", DType::f64}, Known{"F32", DType::f32},
                      Known{"F16", DType::f16}, Known{"BF16", DType::bf16},
                      Known{"I64", DType::i64}, Known{"I32", DType::i32},
                      Known{"I16", DType::i16}, Known{"I8", DType::i8},
                      Known{"U8", DType::u8}, Known{"BOOL", DType::boolean}}) {
    std::string bytes(size_t(2 * blockBytes(known.type)), '\0');
    std::string path = folder.write(
        "m.safetensors",
        safetensors("{" +
                        entry("a", known.name, "[2]",
                              "[0," + std::to_string(bytes.size()) + "]") +
                        "}",
                    bytes));
    auto source = WeightSource::open(path);
    ASSERT_TRUE(source.ok()) << source.status().message();
    EXPECT_EQ((*source)->tensors()[0].dtype, known.type);
  }
}

struct Legal {
  const char *name;
  std::string bytes;
  size_t tensors;
};

class LegalSafetensors : public testing::TestWithParam<Legal> {};

TEST_P(LegalSafetensors, Opens) {
  TempFolder folder;
  auto source =
      WeightSource::open(folder.write("m.safetensors", GetParam().bytes));
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ((*source)->tensors().size(), GetParam().tensors);
  for (const TensorInfo &info : (*source)->tensors())
    EXPECT_TRUE((*source)->data(info).ok());
}

INSTANTIATE_TEST_SUITE_P(
    All, LegalSafetensors,
    testing::Values(
        Legal{"NoTensors", safetensors("{}", ""), 0},
        Legal{"OnlyMetadata", safetensors(R"({"__metadata__":{"a":"b"}})", ""),
              0},
        Legal{"NullMetadata", safetensors(R"({"__metadata__":null})", ""), 0},
        Legal{"PaddedHeader", safetensors("{}      ", ""), 0},
        Legal{"Scalar",
              safetensors("{" + entry("a", "F32", "[]", "[0,4]") + "}", "1234"),
              1},
        Legal{"Empty",
              safetensors("{" + entry("a", "F32", "[0,4]", "[0,0]") + "}", ""),
              1},
        // The product of the others overflows, but the tensor is empty.
        Legal{"EmptyThoughHuge",
              safetensors("{" +
                              entry("a", "F32", "[9223372036854775807,9,0]",
                                    "[0,0]") +
                              "}",
                          ""),
              1},
        Legal{"EmptyBetween",
              safetensors("{" + entry("c", "U8", "[1]", "[1,2]") + "," +
                              entry("b", "U8", "[0]", "[1,1]") + "," +
                              entry("a", "U8", "[1]", "[0,1]") + "}",
                          "12"),
              3},
        Legal{"UnknownMember",
              safetensors(R"({"a":{"dtype":"U8","shape":[1],"x":[{"y":[]}],)"
                          R"("data_offsets":[0,1]}})",
                          "1"),
              1},
        Legal{"EscapedName",
              safetensors("{" + entry("\\u00e9\\n", "U8", "[1]", "[0,1]") + "}",
                          "1"),
              1}),
    [](const auto &info) { return std::string(info.param.name); });

struct Bad {
  const char *name;
  std::string bytes;
  const char *message; // after the path
};

class BadSafetensors : public testing::TestWithParam<Bad> {};

TEST_P(BadSafetensors, IsExplained) {
  TempFolder folder;
  std::string path = folder.write("m.safetensors", GetParam().bytes);
  // '@' stands for the path that starts each further line.
  std::string message = std::string("@") + GetParam().message;
  for (size_t at; (at = message.find('@')) != std::string::npos;)
    message.replace(at, 1, path + ": ");
  EXPECT_EQ(openError(path), message);
}

std::string one(const std::string &dtype, const std::string &shape,
                const std::string &offsets, const std::string &data) {
  return safetensors("{" + entry("a", dtype, shape, offsets) + "}", data);
}

INSTANTIATE_TEST_SUITE_P(
    Header, BadSafetensors,
    testing::Values(
        Bad{"NoFile", "",
            "expected a safetensors file of at least 8 bytes, "
            "got 0"},
        Bad{"HalfALength", "1234",
            "expected a safetensors file of at least 8 bytes, got 4"},
        Bad{"LengthZero", bytesOf<uint64_t>(0),
            "header: expected a JSON object, got nothing"},
        Bad{"LengthHuge", bytesOf<uint64_t>(UINT64_MAX) + "{}",
            "header: expected at most 100000000 bytes, got "
            "18446744073709551615"},
        Bad{"LengthAboveLimit", bytesOf<uint64_t>(100'000'001) + "{}",
            "header: expected at most 100000000 bytes, got 100000001"},
        Bad{"LengthPastEnd", bytesOf<uint64_t>(3) + "{}",
            "header: expected 3 bytes, got 2: the file was cut short "
            "(incomplete download?)"},
        Bad{"Array", safetensors("[]", ""),
            "header: expected a JSON object, got '[]'"},
        Bad{"LeadingSpace", safetensors(" {}", ""),
            "header: expected a JSON object, got ' {}'"},
        Bad{"Syntax", safetensors("{\"a\":}", ""),
            "header: expected well-formed JSON, got a syntax error at byte 6"},
        Bad{"TwoValues", safetensors("{}{}", ""),
            "header: expected well-formed JSON, got a syntax error at byte 3"},
        Bad{"NotUtf8", safetensors("{\"\xff\":1}", ""),
            "header: expected well-formed JSON, got a syntax error at byte 3"},
        Bad{"Nul", safetensors(std::string("{}\0x", 4), ""),
            "header: expected JSON text, got a NUL byte at byte 3"},
        Bad{"HugeNumber", safetensors("{\"a\":1e999}", ""),
            "header: expected well-formed JSON, got a syntax error at byte "
            "10"},
        Bad{"Deep", safetensors("{\"a\":" + std::string(100'000, '['), ""),
            "tensor 'a': expected an object, got an array\n"
            "@header: expected JSON nested at most 16 deep, got more"},
        Bad{"DeepUnknownMember",
            safetensors("{\"a\":{\"x\":" + std::string(100'000, '['), ""),
            "header: expected JSON nested at most 16 deep, got more"},
        Bad{"MetadataArray", safetensors("{\"__metadata__\":[]}", ""),
            "__metadata__: expected an object, got an array"},
        Bad{"MetadataNumber", safetensors("{\"__metadata__\":{\"k\":3}}", ""),
            "__metadata__.'k': expected a string, got 3"},
        Bad{"MetadataNested", safetensors("{\"__metadata__\":{\"k\":{}}}", ""),
            "__metadata__.'k': expected a string, got a nested value"},
        Bad{"MetadataTwice",
            safetensors("{\"__metadata__\":{},\"__metadata__\":{}}", ""),
            "__metadata__: expected once, got it again"}),
    [](const auto &info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Tensor, BadSafetensors,
    testing::Values(
        Bad{"NotAnObject", safetensors("{\"a\":\"x\"}", ""),
            "tensor 'a': expected an object, got the string 'x'"},
        Bad{"NoKeys", safetensors("{\"a\":{}}", ""),
            "tensor 'a': expected the key dtype, got none\n"
            "@tensor 'a': expected the key shape, got none\n"
            "@tensor 'a': expected the key data_offsets, got none"},
        Bad{"KeyTwice",
            safetensors("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[]"
                        ",\"data_offsets\":[0,1]}}",
                        "1"),
            "tensor 'a': dtype: expected once, got it again"},
        Bad{"DtypeNumber",
            safetensors("{\"a\":{\"dtype\":8,\"shape\":[],\"data_offsets\":"
                        "[0,1]}}",
                        "1"),
            "tensor 'a': dtype: expected a string, got 8"},
        Bad{"ShapeObject", one("U8", "{}", "[0,1]", "1"),
            "tensor 'a': shape: expected an array, got an object"},
        Bad{"ShapeNumber", one("U8", "1", "[0,1]", "1"),
            "tensor 'a': shape: expected an array, got 1"},
        Bad{"ShapeNested", one("U8", "[[1]]", "[0,1]", "1"),
            "tensor 'a': shape: expected integers, got a nested value"},
        Bad{"ShapeNegative", one("U8", "[-1]", "[0,1]", "1"),
            "tensor 'a': shape: expected integers from 0 to 2^63 - 1, got "
            "-1"},
        Bad{"ShapeFloat", one("U8", "[1.5]", "[0,1]", "1"),
            "tensor 'a': shape: expected integers from 0 to 2^63 - 1, got "
            "1.5"},
        Bad{"ShapeTwoTo63",
            one("F32", "[9223372036854775808,2]", "[0,4]", "1234"),
            "tensor 'a': shape: expected integers from 0 to 2^63 - 1, got "
            "9223372036854775808"},
        Bad{"ShapeOverflow",
            one("F32", "[4294967296,4294967296]", "[0,4]", "1234"),
            "tensor 'a': expected more than 2^63 bytes for F32 [4294967296, "
            "4294967296], got 4 (data_offsets [0, 4])"},
        Bad{"ShapeRank",
            one("U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]", "1"),
            "tensor 'a': shape: expected at most 16 dimensions, got more"},
        Bad{"SizeDisagrees", one("F32", "[1000,1000]", "[0,4]", "1234"),
            "tensor 'a': expected 4000000 bytes for F32 [1000, 1000], got 4 "
            "(data_offsets [0, 4])"},
        Bad{"OneOffset", one("U8", "[1]", "[0]", "1"),
            "tensor 'a': data_offsets: expected 2 integers, got 1"},
        Bad{"ThreeOffsets", one("U8", "[1]", "[0,1,2]", "1"),
            "tensor 'a': data_offsets: expected 2 integers, got 3"},
        Bad{"OffsetsBackwards", one("U8", "[4]", "[8,4]", "12345678"),
            "tensor 'a': data_offsets: expected begin <= end, got [8, 4]"},
        Bad{"OffsetsHuge",
            one("U8", "[9223372036854775807]", "[0,9223372036854775807]", ""),
            "expected a file of more than 2^63 bytes, got 97: it was cut "
            "short (incomplete download?)"},
        Bad{"UnknownDtype", one("F33", "[1]", "[0,4]", "1234"),
            "tensor 'a': expected one of F64, F32, F16, BF16, I64, I32, I16, "
            "I8, U8, BOOL, got 'F33'"},
        Bad{"DuplicateName",
            safetensors("{" + entry("a", "U8", "[1]", "[0,1]") + "," +
                            entry("a", "U8", "[1]", "[1,2]") + "}",
                        "12"),
            "tensor 'a': expected one tensor of this name, got 2"},
        Bad{"Overlap",
            safetensors("{" + entry("a", "U8", "[2]", "[0,2]") + "," +
                            entry("b", "U8", "[2]", "[1,3]") + "}",
                        "123"),
            "tensor 'b': data_offsets: expected to begin at 2, the end of "
            "tensor 'a', got [1, 3]: they overlap"},
        Bad{"Hole",
            safetensors("{" + entry("a", "U8", "[1]", "[0,1]") + "," +
                            entry("b", "U8", "[1]", "[2,3]") + "}",
                        "123"),
            "tensor 'b': data_offsets: expected to begin at 1, the end of "
            "tensor 'a', got [2, 3]: bytes between are unused"},
        Bad{"HoleAtStart", one("U8", "[1]", "[1,2]", "12"),
            "tensor 'a': data_offsets: expected to begin at 0, the start of "
            "the data, got [1, 2]: bytes between are unused"}),
    [](const auto &info) { return std::string(info.param.name); });

// Reading past a short file gives zeros or a signal: it must be seen at once.
TEST(Safetensors, CutShort) {
  TempFolder folder;
  std::string bytes = safetensors({{"a", {1, 2}}, {"b", {3, 4}}});
  std::string whole = std::to_string(bytes.size());
  for (size_t cut : {1, 8, 15}) {
    std::string path =
        folder.write("m.safetensors", bytes.substr(0, bytes.size() - cut));
    EXPECT_EQ(openError(path), path + ": expected a file of " + whole +
                                   " bytes, got " +
                                   std::to_string(bytes.size() - cut) +
                                   ": it was cut short (incomplete "
                                   "download?)");
    EXPECT_EQ(WeightSource::open(path).status().code(), Code::data_loss);
  }
  std::string path = folder.write("m.safetensors", bytes + "xx");
  EXPECT_EQ(openError(path), path + ": expected a file of " + whole +
                                 " bytes, got " +
                                 std::to_string(bytes.size() + 2) +
                                 ": its last bytes belong to no tensor");
}

// Every prefix of a good file is an error and never a crash.
TEST(Safetensors, EveryPrefixIsRefused) {
  TempFolder folder;
  std::string bytes = safetensors({{"a", {1, 2}}, {"b", {3}}});
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_NE(openError(folder.write("m.safetensors", bytes.substr(0, size))),
              "")
        << size;
}

// All problems are reported together; one format is reported once.
TEST(Safetensors, ProblemsAreCollected) {
  TempFolder folder;
  std::string header = "{" + entry("a", "F8_E4M3", "[1]", "[0,1]") + "," +
                       entry("b", "F8_E4M3", "[1]", "[1,2]") + "," +
                       entry("c", "F4", "[2]", "[2,3]") + "," +
                       entry("d", "U8", "[2]", "[3,4]") + "}";
  std::string path =
      folder.write("m.safetensors", safetensors(header, "12345"));
  std::string at = path + ": ";
  std::string types = "F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL";
  EXPECT_EQ(openError(path),
            at +
                "expected a file of 231 bytes, got 232: its last bytes belong "
                "to no tensor\n" +
                at +
                "tensor 'd': expected 2 bytes for U8 [2], got 1 (data_offsets "
                "[3, 4])\n" +
                at + "tensor 'c': expected one of " + types + ", got 'F4'\n" +
                at + "tensor 'a' and 1 more: expected one of " + types +
                ", got 'F8_E4M3'");
}

TEST(Safetensors, ReportsAreBounded) {
  TempFolder folder;
  std::string header = "{";
  for (int i = 0; i < 1000; ++i)
    header += (i ? ",\"" : "\"") + std::to_string(i) + std::string(1000, 'x') +
              "\":7";
  std::string error =
      openError(folder.write("m.safetensors", safetensors(header + "}", "")));
  EXPECT_LT(error.size(), 10'000u);
  EXPECT_NE(error.find("\nand 980 more problems"), std::string::npos);
  EXPECT_NE(error.find("xxx...': expected an object, got 7"),
            std::string::npos);
}

TEST(Open, PathsThatAreNoModel) {
  TempFolder folder;
  EXPECT_EQ(openError(folder / "none.safetensors"),
            folder / "none.safetensors: cannot open: No such file or "
                     "directory");
  EXPECT_EQ(WeightSource::open(folder / "none.gguf").status().code(),
            Code::not_found);
  std::string text = folder.write("x.txt", "hello");
  EXPECT_EQ(openError(text),
            text + ": expected a folder, a .safetensors or a .gguf file, got a "
                   "file of unknown format");
  std::string zip = folder.write("x.bin", "PK\x03\x04zzzz");
  EXPECT_EQ(openError(zip),
            zip + ": expected a folder, a .safetensors or a .gguf file, got a "
                  "zip archive (a PyTorch checkpoint?)");
  EXPECT_EQ(openError(""), ": cannot open: No such file or directory");
  // A pipe without a writer must not block.
  std::string pipe = folder / "pipe.safetensors";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(openError(pipe),
            pipe + ": expected a regular file, got a special file");
}

// Download caches name files by hash.
TEST(Open, ByContent) {
  TempFolder folder;
  auto source =
      WeightSource::open(folder.write("0a1b2c", safetensors({{"a", {1, 2}}})));
  ASSERT_TRUE(source.ok());
  EXPECT_EQ((*source)->format(), "safetensors");
  source = WeightSource::open(folder.write("3d4e5f", GgufBuilder().build()));
  ASSERT_TRUE(source.ok());
  EXPECT_EQ((*source)->format(), "gguf");
}

} // namespace
