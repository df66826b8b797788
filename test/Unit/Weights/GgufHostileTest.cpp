//===- GgufHostileTest.cpp - GGUF files that are wrong --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Crafted and damaged files: each gives a clean message that names what is
// wrong, without a crash or a large allocation.
//
//===----------------------------------------------------------------------===//

#include "FileBuilders.h"

#include "gtest/gtest.h"

using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

struct Bad {
  const char *name;
  std::string bytes;
  std::string message; // after the path; '@' starts each further line
};

class BadGguf : public testing::TestWithParam<Bad> {};

TEST_P(BadGguf, IsExplained) {
  TempFolder folder;
  std::string path = folder.write("m.gguf", GetParam().bytes);
  std::string message = "@" + GetParam().message;
  for (size_t at; (at = message.find('@')) != std::string::npos;)
    message.replace(at, 1, path + ": ");
  EXPECT_EQ(openError(path), message);
}

GgufBuilder withMagic(const std::string &magic, uint32_t version = 3) {
  GgufBuilder builder(version);
  builder.magic = magic;
  return builder;
}

std::string header(uint64_t tensors, uint64_t entries,
                   const std::string &rest) {
  return "GGUF" + bytesOf<uint32_t>(3) + bytesOf(tensors) + bytesOf(entries) +
         rest;
}

/// One F32 tensor 'w' of those dimensions and 64 bytes of data.
std::string oneTensor(std::vector<uint64_t> ne, uint32_t type = 0,
                      uint64_t offset = 0) {
  return GgufBuilder().describe("w", std::move(ne), type, offset).build() +
         std::string(64, '\0');
}

std::string alignment(uint32_t value) {
  return GgufBuilder().u32("general.alignment", value).build();
}

const char *kSupported =
    "F32, F16, BF16, F64, I8, I16, I32, I64, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, "
    "Q2_K, Q3_K, Q4_K, Q5_K, Q6_K";

std::string typeError(const char *got) {
  return std::string("tensor 'w': expected one of ") + kSupported + ", got " +
         got;
}

const char *kShort = ": the file was cut short (incomplete download?)";

INSTANTIATE_TEST_SUITE_P(
    Header, BadGguf,
    testing::Values(
        Bad{"Empty", "",
            std::string("magic: expected 4 bytes at offset 0, got 0") + kShort},
        Bad{"Magic", withMagic("GGUX").build(),
            "magic: expected 'GGUF', got 'GGUX'"},
        Bad{"OldGgml", withMagic("tjgg").build(),
            "magic: expected 'GGUF', got 'tjgg', a GGML file older than GGUF: "
            "convert it"},
        Bad{"Version1", withMagic("GGUF", 1).build(),
            "version: expected 2 or 3, got 1"},
        Bad{"Version4", withMagic("GGUF", 4).build(),
            "version: expected 2 or 3, got 4"},
        Bad{"BigEndian", withMagic("GGUF", 0x03000000).build(),
            "version: expected 2 or 3, got 3 in big-endian order, which is "
            "not supported"},
        Bad{"MetadataCount", header(0, UINT64_MAX, ""),
            "metadata count: expected at most 0 in a file of this size, got "
            "18446744073709551615"},
        Bad{"TensorCount", header(uint64_t(1) << 61, 0, std::string(50, 'x')),
            "tensor count: expected at most 2 in a file of this size, got "
            "2305843009213693952"}),
    [](const auto &info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Metadata, BadGguf,
    testing::Values(
        Bad{"EmptyKey", GgufBuilder().u32("", 1).u32("k", 1).build(),
            "metadata key: expected 1 to 65535 bytes, got 0"},
        Bad{"KeyLength",
            header(0, 1, bytesOf(uint64_t(1) << 63) + std::string(20, 'x')),
            "metadata key: expected 1 to 65535 bytes, got "
            "9223372036854775808"},
        Bad{"KeyPastEnd",
            header(0, 1, bytesOf(uint64_t(100)) + std::string(20, 'x')),
            std::string("metadata key: expected 100 bytes at offset 32, got "
                        "20") +
                kShort},
        Bad{"KeyNotUtf8", GgufBuilder().u32("k\xff", 1).build(),
            "metadata key: expected UTF-8, got 'k\\xFF'"},
        Bad{"KeyTwice", GgufBuilder().u32("k", 1).u32("k", 1).build(),
            "metadata key 'k': expected once, got it again"},
        Bad{"ValueType", GgufBuilder().value("k", 13, "x").build(),
            "metadata key 'k': expected a value type from 0 to 12, got 13"},
        Bad{"Bool", GgufBuilder().value("k", 7, "\7").build(),
            "metadata key 'k': expected a bool of 0 or 1, got 7"},
        Bad{"StringLength",
            GgufBuilder().value("k", 8, bytesOf(uint64_t(1) << 30)).build(),
            std::string("metadata key 'k': string: expected 1073741824 bytes "
                        "at offset 45, got 0") +
                kShort},
        Bad{"ArrayCount",
            GgufBuilder()
                .value("k", 9,
                       bytesOf<uint32_t>(4) + bytesOf(uint64_t(1) << 61) +
                           "1234")
                .build(),
            std::string("metadata key 'k': expected at most 1 elements of type "
                        "u32, got 2305843009213693952") +
                kShort},
        Bad{"ArrayOfStringsCount",
            GgufBuilder()
                .value("k", 9,
                       bytesOf<uint32_t>(8) + bytesOf<uint64_t>(3) +
                           std::string(16, '\0'))
                .build(),
            std::string("metadata key 'k': expected at most 2 elements of type "
                        "string, got 3") +
                kShort},
        Bad{"ArrayOfStringsElement",
            GgufBuilder()
                .value("k", 9,
                       bytesOf<uint32_t>(8) + bytesOf<uint64_t>(1) +
                           bytesOf<uint64_t>(UINT64_MAX))
                .build(),
            std::string("metadata key 'k': string: expected "
                        "18446744073709551615 bytes at offset 57, got 0") +
                kShort},
        Bad{"ArrayOfBools",
            GgufBuilder().array<uint8_t>("k", 7, {0, 2}).build(),
            "metadata key 'k': expected a bool of 0 or 1, got 2"},
        Bad{"ArrayType", GgufBuilder().array<uint8_t>("k", 99, {0}).build(),
            "metadata key 'k': expected an element type from 0 to 12, got 99"},
        Bad{"NestedArrays", GgufBuilder().array<uint8_t>("k", 9, {0}).build(),
            "metadata key 'k': expected an array of scalars or strings, got "
            "nested arrays"},
        Bad{"Alignment0", alignment(0),
            "metadata key 'general.alignment': expected a power of two from 8 "
            "to 65536, got 0"},
        Bad{"Alignment3", alignment(3),
            "metadata key 'general.alignment': expected a power of two from 8 "
            "to 65536, got 3"},
        Bad{"Alignment2To31", alignment(uint32_t(1) << 31),
            "metadata key 'general.alignment': expected a power of two from 8 "
            "to 65536, got 2147483648"},
        Bad{"AlignmentType",
            GgufBuilder().string("general.alignment", "32").build(),
            "metadata key 'general.alignment': expected a u32, got string"}),
    [](const auto &info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Tensor, BadGguf,
    testing::Values(
        Bad{"NoDescription", header(1, 0, std::string(25, '\0')),
            "tensor name: expected 1 to 65535 bytes, got 0"},
        Bad{"CutInDescription",
            header(1, 0,
                   ggufString("w") + bytesOf<uint32_t>(2) +
                       std::string(12, '\1')),
            std::string("tensor 'w': dimension: expected 8 bytes at offset 45, "
                        "got 4") +
                kShort},
        Bad{"DimensionCount",
            header(1, 0,
                   ggufString("w") + bytesOf<uint32_t>(UINT32_MAX) +
                       std::string(12, '\1')),
            "tensor 'w': expected at most 4 dimensions, got 4294967295"},
        Bad{"DimensionZero", oneTensor({1, 0}),
            "tensor 'w': dimension 1: expected 1 to 2^63 - 1, got 0"},
        Bad{"DimensionHuge", oneTensor({UINT64_MAX, 2}),
            "tensor 'w': dimension 0: expected 1 to 2^63 - 1, got "
            "18446744073709551615"},
        // Wraps to 4 bytes in 64-bit arithmetic.
        Bad{"ProductWraps", oneTensor({(uint64_t(1) << 62) + 1, 4}),
            "tensor 'w': expected a size below 2^63 bytes, got shape [4, "
            "4611686018427387905] of F32"},
        Bad{"BytesWrap", oneTensor({uint64_t(1) << 61, 2}),
            "tensor 'w': expected a size below 2^63 bytes, got shape [2, "
            "2305843009213693952] of F32"},
        Bad{"RowOfQ8_0", oneTensor({48}, 8),
            "tensor 'w': expected a row length that is a multiple of 32 for "
            "Q8_0, got 48"},
        Bad{"RowOfQ4_K", oneTensor({4544, 2}, 12),
            "tensor 'w': expected a row length that is a multiple of 256 for "
            "Q4_K, got 4544"},
        Bad{"ScalarQ8_0", oneTensor({}, 8),
            "tensor 'w': expected a row length that is a multiple of 32 for "
            "Q8_0, got 1"},
        Bad{"OffsetUnaligned", oneTensor({1}, 0, 4),
            "tensor 'w': offset: expected a multiple of 32, got 4"},
        Bad{"OffsetHuge", oneTensor({1}, 0, UINT64_MAX - 31),
            "tensor 'w': offset: expected below 2^63, got "
            "18446744073709551584"},
        Bad{"OffsetPlusSizeOverflows",
            oneTensor({16}, 0, uint64_t(INT64_MAX) - 31),
            "tensor 'w': offset: expected below 2^63, got "
            "9223372036854775776"},
        Bad{"OffsetPastEnd", oneTensor({1}, 0, 64),
            std::string("expected a file of at least 132 bytes, the end of "
                        "tensor 'w', got 128") +
                kShort},
        Bad{"Overlap",
            GgufBuilder()
                    .describe("v", {16}, 0, 0)
                    .describe("w", {1}, 0, 32)
                    .build() +
                std::string(64, '\0'),
            "tensor 'w': expected an offset of 64 or more, the end of tensor "
            "'v', got 32: they overlap"},
        Bad{"DuplicateName",
            GgufBuilder()
                .tensor("w", {1}, 0, "1234")
                .tensor("w", {1}, 0, "1234")
                .build(),
            "tensor 'w': expected one tensor of this name, got 2"}),
    [](const auto &info) { return std::string(info.param.name); });

// The type is named even if we cannot tell its size; the reader must not drift.
INSTANTIATE_TEST_SUITE_P(
    Type, BadGguf,
    testing::Values(Bad{"T9", oneTensor({32}, 9), typeError("Q8_1 (9)")},
                    Bad{"T16", oneTensor({256}, 16), typeError("IQ2_XXS (16)")},
                    Bad{"T20", oneTensor({32}, 20), typeError("IQ4_NL (20)")},
                    Bad{"T36", oneTensor({32}, 36),
                        typeError("IQ4_NL_4_4 (36)")},
                    Bad{"T39", oneTensor({32}, 39), typeError("MXFP4 (39)")},
                    Bad{"T200", oneTensor({32}, 200), typeError("type 200")}),
    [](const auto &info) { return std::string(info.param.name); });

// Many tensors of one foreign type are one problem, beside the others.
TEST(GgufHostile, ProblemsAreCollected) {
  TempFolder folder;
  GgufBuilder builder;
  for (int i = 0; i < 50; ++i)
    builder.describe("t" + std::to_string(i), {32}, 39, 0);
  builder.describe("u", {3, 0}, 0, 0).describe("v", {33}, 8, 0);
  std::string path = folder.write("m.gguf", builder.build());
  EXPECT_EQ(openError(path),
            path +
                ": tensor 'u': dimension 1: expected 1 to 2^63 - 1, got 0\n" +
                path +
                ": tensor 'v': expected a row length that is a multiple of 32 "
                "for Q8_0, got 33\n" +
                path + ": tensor 't0' and 49 more: expected one of " +
                kSupported + ", got MXFP4 (39)");
}

TEST(GgufHostile, CutShort) {
  TempFolder folder;
  std::string bytes =
      GgufBuilder()
          .string("k", "v")
          .strings("ss", {"a", "bc"})
          .tensor("w", {8}, 0, bytesOf(std::vector<float>(8, 1.0f)))
          .tensor("v", {8}, 0, bytesOf(std::vector<float>(8, 1.0f)))
          .build();
  std::string path = folder.write("m.gguf", bytes.substr(0, bytes.size() - 1));
  EXPECT_EQ(openError(path), path + ": expected a file of at least " +
                                 std::to_string(bytes.size()) +
                                 " bytes, the end of tensor 'v', "
                                 "got " +
                                 std::to_string(bytes.size() - 1) + kShort);
  EXPECT_EQ(WeightSource::open(path).status().code(), Code::data_loss);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_NE(openError(folder.write("m.gguf", bytes.substr(0, size))), "")
        << size;
}

// Any byte may be anything: no crash, and what opens can be read.
TEST(GgufHostile, EveryByteChanged) {
  TempFolder folder;
  std::string good = GgufBuilder()
                         .value("b", 7, "\1")
                         .strings("ss", {"a", "bc"})
                         .tensor("w", {32, 1}, 8, std::string(34, '\0'))
                         .build();
  for (size_t i = 0; i < good.size(); ++i)
    for (int value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
      std::string bytes = good;
      bytes[i] = char(value);
      auto source = WeightSource::open(folder.write("m.gguf", bytes));
      if (!source.ok()) {
        EXPECT_NE(source.status().message(), "");
        continue;
      }
      for (const TensorInfo &info : (*source)->tensors())
        floatsOf(**source, info.name);
    }
}

} // namespace
