//===- HfFolderTest.cpp - Reading Hugging Face folders --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sharded models: the index wins, and whatever does not fit it is named.
//
//===----------------------------------------------------------------------===//

#include "FileBuilders.h"

#include "gtest/gtest.h"

#include <filesystem>

using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

constexpr const char *kIndex = "model.safetensors.index.json";

std::string index(const std::string &map) {
  return R"({"metadata":{"total_size":12},"weight_map":{)" + map + "}}";
}

/// Three shards of tensors a, b and c, d and e.
class Sharded : public testing::Test {
protected:
  void SetUp() override {
    folder.write("m-1.safetensors", safetensors({{"a", {1}}, {"b", {2}}}));
    folder.write("m-2.safetensors", safetensors({{"c", {3}}}));
    folder.write("m-3.safetensors", safetensors({{"d", {4}}, {"e", {5}}}));
    writeIndex(R"("a":"m-1.safetensors","e":"m-3.safetensors",)"
               R"("c":"m-2.safetensors","d":"m-3.safetensors",)"
               R"("b":"m-1.safetensors")");
  }

  void writeIndex(const std::string &map) { folder.write(kIndex, index(map)); }
  std::string indexPath() const { return folder / kIndex; }

  TempFolder folder;
};

TEST_F(Sharded, RoundTrip) {
  for (std::string path : {folder.path(), indexPath()}) {
    auto source = WeightSource::open(path);
    ASSERT_TRUE(source.ok()) << source.status().message();
    EXPECT_EQ((*source)->description(), path);
    EXPECT_EQ((*source)->format(), "safetensors");
    ASSERT_EQ((*source)->tensors().size(), 5u);
    const char *names[] = {"a", "b", "c", "d", "e"};
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ((*source)->tensors()[size_t(i)].name, names[i]);
      EXPECT_EQ(floatsOf(**source, names[i]), std::vector<float>{i + 1.0f});
    }
    EXPECT_TRUE((*source)->notes().empty());
  }
}

// An interrupted download must not leave weights uninitialised.
TEST_F(Sharded, MissingShardIsNamedWithItsTensors) {
  folder.remove("m-3.safetensors");
  EXPECT_EQ(openError(folder.path()),
            indexPath() + ": expected the file 'm-3.safetensors', which holds "
                          "2 of 5 tensors, got no such file (incomplete "
                          "download?)");
  EXPECT_EQ(WeightSource::open(folder.path()).status().code(), Code::not_found);
  folder.remove("m-2.safetensors");
  EXPECT_EQ(openError(folder.path()),
            indexPath() +
                ": expected the file 'm-2.safetensors', which holds "
                "1 of 5 tensors, got no such file (incomplete "
                "download?)\n" +
                indexPath() +
                ": expected the file 'm-3.safetensors', which holds 2 of 5 "
                "tensors, got no such file (incomplete download?)");
}

// Shards that are cut short are reported beside one that is missing.
TEST_F(Sharded, DamagedAndMissingTogether) {
  folder.remove("m-1.safetensors");
  std::string bytes = safetensors({{"c", {3}}});
  std::string shard =
      folder.write("m-2.safetensors", bytes.substr(0, bytes.size() - 1));
  EXPECT_EQ(openError(folder.path()),
            indexPath() +
                ": expected the file 'm-1.safetensors', which holds "
                "2 of 5 tensors, got no such file (incomplete "
                "download?)\n" +
                shard + ": expected a file of " + std::to_string(bytes.size()) +
                " bytes, got " + std::to_string(bytes.size() - 1) +
                ": it was cut short (incomplete download?)");
}

TEST_F(Sharded, StaleIndex) {
  writeIndex(R"("a":"m-1.safetensors","b":"m-1.safetensors",)"
             R"("c":"m-2.safetensors","d":"m-2.safetensors",)"
             R"("e":"m-3.safetensors","x":"m-3.safetensors")");
  EXPECT_EQ(openError(folder.path()),
            indexPath() +
                ": weight_map: tensor 'd': expected in the file "
                "'m-2.safetensors', got it in " +
                folder / "m-3.safetensors" + " (stale index?)\n" + indexPath() +
                ": weight_map: tensor 'x': expected in the file "
                "'m-3.safetensors', got no such tensor (stale index?)");
}

TEST_F(Sharded, TensorInTwoFiles) {
  folder.write("m-2.safetensors", safetensors({{"a", {9}}, {"c", {3}}}));
  EXPECT_EQ(openError(folder.path()),
            folder / "m-1.safetensors" +
                ": tensor 'a': expected one tensor of this name, got 2, the "
                "second in " +
                folder / "m-2.safetensors");
}

// Files outside the index are never mixed in, but a person is told.
TEST_F(Sharded, StrayFileIsIgnoredWithANote) {
  folder.write("model.safetensors", safetensors({{"a", {100}}}));
  auto source = WeightSource::open(folder.path());
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ(floatsOf(**source, "a"), std::vector<float>{1});
  EXPECT_EQ((*source)->notes(),
            std::vector<std::string>{folder.path() +
                                     ": not read: 'model.safetensors' (the "
                                     "index does not name them)"});
}

TEST_F(Sharded, UnlistedTensorIsIgnoredWithANote) {
  folder.write("m-2.safetensors", safetensors({{"c", {3}}, {"z", {3}}}));
  auto source = WeightSource::open(folder.path());
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ((*source)->find("z"), nullptr);
  EXPECT_EQ((*source)->tensors().size(), 5u);
  EXPECT_EQ(
      (*source)->notes(),
      std::vector<std::string>{
          indexPath() + ": not read: 1 tensors that the index does not list"});
}

TEST_F(Sharded, ShardsInASubfolder) {
  folder.write("sub/m-2.safetensors", safetensors({{"c", {30}}}));
  writeIndex(R"("c":"sub/m-2.safetensors")");
  auto source = WeightSource::open(folder.path());
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ(floatsOf(**source, "c"), std::vector<float>{30});
}

struct Bad {
  const char *name;
  std::string text;
  const char *message;
};

class BadIndex : public testing::TestWithParam<Bad> {};

TEST_P(BadIndex, IsExplained) {
  TempFolder folder;
  std::string path = folder.write(kIndex, GetParam().text);
  std::string message = std::string("@") + GetParam().message;
  for (size_t at; (at = message.find('@')) != std::string::npos;)
    message.replace(at, 1, path + ": ");
  EXPECT_EQ(openError(folder.path()), message);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadIndex,
    testing::Values(
        Bad{"Empty", "",
            "expected well-formed JSON, got a syntax error at byte 1"},
        Bad{"Array", "[]", "expected a JSON object, got an array"},
        Bad{"Number", "3", "expected a JSON object, got 3"},
        Bad{"NoMap", "{}", "expected the key weight_map, got none"},
        Bad{"MapArray", R"({"weight_map":[]})",
            "weight_map: expected an object, got an array"},
        Bad{"MapNull", R"({"weight_map":null})",
            "weight_map: expected an object, got null"},
        Bad{"MapTwice", R"({"weight_map":{},"weight_map":{}})",
            "weight_map: expected once, got it again"},
        Bad{"NumberForFile", index(R"("a":3)"),
            "weight_map: tensor 'a': expected a file name, got 3"},
        Bad{"ArrayForFile", index(R"("a":["x"])"),
            "weight_map: tensor 'a': expected a file name, got a nested "
            "value"},
        Bad{"Parent", index(R"("a":"../x.safetensors")"),
            "weight_map: tensor 'a': expected a file name inside the folder, "
            "got '../x.safetensors'"},
        Bad{"ParentInside", index(R"("a":"s/../../x")"),
            "weight_map: tensor 'a': expected a file name inside the folder, "
            "got 's/../../x'"},
        Bad{"Absolute", index(R"("a":"/etc/passwd")"),
            "weight_map: tensor 'a': expected a file name inside the folder, "
            "got '/etc/passwd'"},
        Bad{"EmptyName", index(R"("a":"")"),
            "weight_map: tensor 'a': expected a file name inside the folder, "
            "got ''"},
        Bad{"Folder", index(R"("a":"s/")"),
            "weight_map: tensor 'a': expected a file name inside the folder, "
            "got 's/'"},
        Bad{"NulInName", index(R"("a":"x\u0000y")"),
            "weight_map: tensor 'a': expected a file name inside the folder, "
            "got 'x\\x00y'"},
        Bad{"TensorTwice", index(R"("a":"x","a":"y")"),
            "weight_map: tensor 'a': expected one file, got 'x' and 'y'"},
        Bad{"SeveralProblems", index(R"("a":3,"b":"/x")"),
            "weight_map: tensor 'a': expected a file name, got 3\n"
            "@weight_map: tensor 'b': expected a file name inside the folder, "
            "got '/x'"},
        Bad{"Deep", "{\"x\":" + std::string(100'000, '['),
            "expected JSON nested at most 16 deep, got more"}),
    [](const auto &info) { return std::string(info.param.name); });

TEST(HfFolder, SingleFile) {
  TempFolder folder;
  folder.write("model.safetensors", safetensors({{"a", {1}}}));
  folder.write("adapter.safetensors", safetensors({{"a", {2}}}));
  auto source = WeightSource::open(folder.path());
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ(floatsOf(**source, "a"), std::vector<float>{1});
  EXPECT_EQ((*source)->notes(),
            std::vector<std::string>{folder.path() +
                                     ": not read: 'adapter.safetensors' "
                                     "(model.safetensors comes first)"});
}

TEST(HfFolder, SingleFileOfAnotherName) {
  TempFolder folder;
  folder.write("weights.safetensors", safetensors({{"a", {1}}}));
  auto source = WeightSource::open(folder.path() + "/");
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ(floatsOf(**source, "a"), std::vector<float>{1});
}

TEST(HfFolder, SeveralFilesWithoutAnIndex) {
  TempFolder folder;
  folder.write("x.safetensors", safetensors({{"a", {1}}}));
  folder.write("y.safetensors", safetensors({{"b", {1}}}));
  EXPECT_EQ(openError(folder.path()),
            folder.path() + ": expected model.safetensors.index.json, "
                            "model.safetensors or a single *.safetensors file, "
                            "got 'x.safetensors', 'y.safetensors'");
}

TEST(HfFolder, NoWeights) {
  TempFolder folder;
  EXPECT_EQ(openError(folder.path()),
            folder.path() + ": expected *.safetensors files or one GGUF model, "
                            "got none");
  folder.write("pytorch_model.bin", "x");
  EXPECT_EQ(openError(folder.path()),
            folder.path() + ": expected *.safetensors files or one GGUF model, "
                            "got 'pytorch_model.bin', which is not read: "
                            "convert it to safetensors");
}

// Download caches keep the files elsewhere and link to them.
TEST(HfFolder, LinksAreFollowed) {
  TempFolder folder;
  folder.write("blobs/1", safetensors({{"a", {1}}}));
  folder.write("snapshot/config.json", "{}");
  std::error_code error;
  std::filesystem::create_symlink("../blobs/1",
                                  folder / "snapshot/model.safetensors", error);
  ASSERT_FALSE(error);
  auto source = WeightSource::open(folder / "snapshot");
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ(floatsOf(**source, "a"), std::vector<float>{1});
}

} // namespace
