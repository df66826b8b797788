//===- hf_folder.cpp - Reading Hugging Face folders -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implementation of hf_folder.h.
//
//===----------------------------------------------------------------------===//

#include "hf_folder.h"

#include "gguf.h"
#include "json_reader.h"
#include "safetensors.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace heddle::rt {
namespace fs = std::filesystem;
namespace {

constexpr const char *kIndexName = "model.safetensors.index.json";
constexpr const char *kSingleName = "model.safetensors";
constexpr int64_t kMaxIndexBytes = 100'000'000;

/// True for a relative path that stays below the folder it is relative to.
/// Symbolic links are followed: download caches consist of them.
bool staysInside(std::string_view name) {
  if (name.empty() || name[0] == '/' ||
      name.find_first_of(std::string_view("\\\0", 2)) != std::string_view::npos)
    return false;
  while (!name.empty()) {
    std::string_view part = name.substr(0, name.find('/'));
    if (part.empty() || part == "." || part == "..")
      return false;
    if (part.size() == name.size())
      return true;
    name.remove_prefix(part.size() + 1);
  }
  return false; // it ends in '/'
}

/// Keeps the weight_map, which is the member of that name of the root object.
class IndexHandler : public JsonHandler {
public:
  IndexHandler(std::string_view where, Problems &problems)
      : where(where), problems(problems) {}

  ShardMap shards;
  bool hasMap = false;

  void key(int depth, std::string_view name) override {
    if (depth == 1) {
      inMap = name == "weight_map";
      if (inMap && hasMap)
        fail("weight_map: expected once, got it again");
      hasMap |= inMap;
    } else if (depth == 2 && inMap) {
      tensor = name;
    }
  }

  void scalar(int depth, const JsonScalar &value) override {
    if (depth == 0)
      fail("expected a JSON object, got " + value.describe());
    else if (depth == 1 && inMap)
      fail("weight_map: expected an object, got " + value.describe());
    else if (depth == 2 && inMap)
      addTensor(value);
  }

  void begin(int depth, bool isArray) override {
    if (depth == 0 && isArray)
      fail("expected a JSON object, got an array");
    else if (depth == 1 && inMap && isArray)
      fail("weight_map: expected an object, got an array");
    else if (depth == 2 && inMap)
      fail("weight_map: tensor " + quote(tensor) +
           ": expected a file name, got a nested value");
  }

  void end(int, bool) override {}

private:
  void addTensor(const JsonScalar &value) {
    if (value.kind != JsonScalar::string)
      return fail("weight_map: tensor " + quote(tensor) +
                  ": expected a file name, got " + value.describe());
    if (!staysInside(value.text))
      return fail("weight_map: tensor " + quote(tensor) +
                  ": expected a file name inside the folder, got " +
                  quote(value.text));
    shards[std::string(value.text)].push_back(tensor);
  }

  void fail(std::string_view what) {
    problems.add(Code::invalid_argument, where, what);
  }

  std::string_view where;
  Problems &problems;
  bool inMap = false;
  std::string tensor;
};

/// Sorts the names of each shard and reports a tensor listed twice.
void checkUnique(ShardMap &shards, std::string_view where, Problems &problems) {
  std::vector<std::pair<std::string_view, std::string_view>> all;
  for (auto &[file, tensors] : shards) {
    std::sort(tensors.begin(), tensors.end());
    for (const std::string &tensor : tensors)
      all.emplace_back(tensor, file);
  }
  std::sort(all.begin(), all.end());
  for (size_t i = 1; i < all.size(); ++i)
    if (all[i].first == all[i - 1].first)
      problems.add(Code::invalid_argument, where,
                   "weight_map: tensor " + quote(all[i].first) +
                       ": expected one file, got " + quote(all[i - 1].second) +
                       " and " + quote(all[i].second));
}

/// Opens the shards and checks them against one another and the index.
class ShardSet {
public:
  ShardSet(const std::string &indexPath, const ShardMap &shards,
           Problems &problems)
      : indexPath(indexPath), folder(fs::path(indexPath).parent_path()),
        shards(shards), problems(problems) {}

  void read() {
    for (const auto &[name, names] : shards) {
      total += names.size();
      openShard(name);
    }
    reportMissing();
    for (auto &[name, file] : opened)
      readShard(name, *file);
    sortByName(all, problems);
    for (const auto &[name, names] : shards)
      checkShard(name, names);
  }

  std::vector<std::shared_ptr<const MappedFile>> takeFiles() {
    std::vector<std::shared_ptr<const MappedFile>> files;
    for (auto &[name, file] : opened)
      files.push_back(file);
    return files;
  }

  /// The tensors that the index lists, sorted by name.
  std::vector<StoredTensor> takeTensors() {
    std::set<std::string_view> listed;
    for (const auto &[name, names] : shards)
      listed.insert(names.begin(), names.end());
    size_t before = all.size();
    all.erase(std::remove_if(all.begin(), all.end(),
                             [&](const StoredTensor &tensor) {
                               return !listed.count(tensor.info.name);
                             }),
              all.end());
    unlisted = before - all.size();
    return std::move(all);
  }

  /// How many tensors of the shards the index does not list.
  size_t unlisted = 0;

private:
  void openShard(const std::string &name) {
    auto file = MappedFile::open((folder / name).string());
    if (file)
      opened.emplace(name, file.take());
    else if (file.status().code() == Code::not_found)
      missing.push_back(name);
    else
      problems.add(file.status().code(), indexPath, file.status().message());
  }

  void reportMissing() {
    for (const std::string &name : missing)
      problems.add(Code::not_found, indexPath,
                   "expected the file " + quote(name) + ", which holds " +
                       std::to_string(shards.at(name).size()) + " of " +
                       std::to_string(total) +
                       " tensors, got no such file (incomplete download?)");
  }

  void readShard(const std::string &name, const MappedFile &file) {
    Problems own;
    std::vector<StoredTensor> tensors = readSafetensors(file, own);
    if (!own.empty()) {
      damaged.insert(name);
      return problems.append(own);
    }
    for (StoredTensor &tensor : tensors)
      all.push_back(std::move(tensor));
  }

  /// Checks that shard NAME holds the tensors NAMES.
  void checkShard(const std::string &name,
                  const std::vector<std::string> &names) {
    auto it = opened.find(name);
    if (it == opened.end() || damaged.count(name))
      return; // reported
    for (const std::string &tensor : names) {
      const StoredTensor *stored = findStored(tensor);
      if (stored && stored->file == it->second.get())
        continue;
      std::string got = stored ? "it in " + stored->file->path()
                               : std::string("no such tensor");
      problems.add(Code::data_loss, indexPath,
                   "weight_map: tensor " + quote(tensor) +
                       ": expected in the file " + quote(name) + ", got " +
                       got + " (stale index?)");
    }
  }

  const StoredTensor *findStored(const std::string &name) const {
    auto it = std::lower_bound(all.begin(), all.end(), name,
                               [](const StoredTensor &a, const std::string &b) {
                                 return a.info.name < b;
                               });
    return it != all.end() && it->info.name == name ? &*it : nullptr;
  }

  const std::string &indexPath;
  fs::path folder;
  const ShardMap &shards;
  Problems &problems;
  size_t total = 0;
  std::map<std::string, std::shared_ptr<const MappedFile>> opened;
  std::vector<std::string> missing;
  std::set<std::string> damaged;
  std::vector<StoredTensor> all;
};

bool endsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() &&
         text.substr(text.size() - suffix.size()) == suffix;
}

/// The names of the folder's files that end in SUFFIX, sorted.
std::vector<std::string> filesWithSuffix(const std::string &folder,
                                         std::string_view suffix) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::string name = it->path().filename().string();
    std::error_code ignored;
    if (endsWith(name, suffix) && !it->is_directory(ignored))
      names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string quotedList(const std::vector<std::string> &names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i == 8)
      return out + " and " + std::to_string(names.size() - i) + " more";
    out += (i ? ", " : "") + quote(names[i]);
  }
  return out;
}

/// Names the *.safetensors in FOLDER that were not read because READ were.
std::vector<std::string> strayNotes(const std::string &folder,
                                    const std::set<std::string> &read,
                                    std::string_view because) {
  std::vector<std::string> stray;
  for (std::string &name : filesWithSuffix(folder, ".safetensors"))
    if (!read.count(name))
      stray.push_back(std::move(name));
  if (stray.empty())
    return {};
  return {folder + ": not read: " + quotedList(stray) + " (" +
          std::string(because) + ")"};
}

Result<std::unique_ptr<WeightSource>> openOne(const std::string &folder,
                                              const std::string &name,
                                              std::vector<std::string> notes) {
  auto file = MappedFile::open((fs::path(folder) / name).string());
  if (!file)
    return file.status();
  Problems problems;
  std::vector<StoredTensor> tensors = readSafetensors(**file, problems);
  if (!problems.empty())
    return problems.status();
  return std::unique_ptr<WeightSource>(std::make_unique<FileWeights>(
      folder, "safetensors",
      std::vector<std::shared_ptr<const MappedFile>>{file.take()},
      std::move(tensors), std::move(notes)));
}

/// A file of the single GGUF model among NAMES, empty if there are several: a
/// split set is one model.
std::string onlyGguf(const std::vector<std::string> &names) {
  std::map<std::string, std::string> models; // set or file -> a file of it
  for (const std::string &name : names) {
    std::optional<SplitName> split = parseSplitName(name);
    models.emplace(split ? split->prefix : name, name);
  }
  return models.size() == 1 ? models.begin()->second : std::string();
}

} // namespace

ShardMap readIndex(std::string_view text, std::string_view where,
                   Problems &problems) {
  IndexHandler handler(where, problems);
  if (!readJson(text, where, handler, problems))
    return {};
  if (problems.empty() && !handler.hasMap)
    problems.add(Code::invalid_argument, where,
                 "expected the key weight_map, got none");
  checkUnique(handler.shards, where, problems);
  return std::move(handler.shards);
}

Result<std::unique_ptr<WeightSource>>
openIndexed(const std::string &description, const std::string &indexPath) {
  auto index = MappedFile::open(indexPath);
  if (!index)
    return index.status();
  const MappedFile &file = **index;
  if (file.size() > kMaxIndexBytes)
    return Status(Code::invalid_argument, indexPath + ": expected at most " +
                                              std::to_string(kMaxIndexBytes) +
                                              " bytes, got " +
                                              std::to_string(file.size()));
  Problems problems;
  ShardMap shards =
      readIndex(file.size() ? file.text(0, file.size()) : std::string_view(),
                indexPath, problems);
  if (!problems.empty())
    return problems.status();

  ShardSet set(indexPath, shards, problems);
  set.read();
  if (!problems.empty())
    return problems.status();
  std::vector<StoredTensor> tensors = set.takeTensors();

  fs::path folder = fs::path(indexPath).parent_path();
  std::set<std::string> read;
  for (const auto &[name, names] : shards)
    read.insert(name);
  std::vector<std::string> notes =
      strayNotes(folder.empty() ? "." : folder.string(), read,
                 "the index does not name them");
  if (set.unlisted)
    notes.push_back(indexPath + ": not read: " + std::to_string(set.unlisted) +
                    " tensors that the index does not list");
  return std::unique_ptr<WeightSource>(
      std::make_unique<FileWeights>(description, "safetensors", set.takeFiles(),
                                    std::move(tensors), std::move(notes)));
}

Result<std::unique_ptr<WeightSource>> openFolder(const std::string &folder) {
  std::error_code ignored;
  fs::path index = fs::path(folder) / kIndexName;
  if (fs::exists(index, ignored))
    return openIndexed(folder, index.string());

  std::vector<std::string> names = filesWithSuffix(folder, ".safetensors");
  if (std::count(names.begin(), names.end(), kSingleName))
    return openOne(
        folder, kSingleName,
        strayNotes(folder, {kSingleName}, "model.safetensors comes first"));
  if (names.size() == 1)
    return openOne(folder, names[0], {});
  if (names.size() > 1)
    return Status(Code::invalid_argument,
                  folder + ": expected " + kIndexName + ", " + kSingleName +
                      " or a single *.safetensors file, got " +
                      quotedList(names));

  std::vector<std::string> ggufs = filesWithSuffix(folder, ".gguf");
  if (std::string name = onlyGguf(ggufs); !name.empty())
    return openGguf(folder, (fs::path(folder) / name).string());
  std::string got = "none";
  if (!ggufs.empty())
    got = quotedList(ggufs);
  else if (std::vector<std::string> bins = filesWithSuffix(folder, ".bin");
           !bins.empty())
    got = quotedList(bins) + ", which is not read: convert it to safetensors";
  return Status(ggufs.empty() ? Code::not_found : Code::invalid_argument,
                folder +
                    ": expected *.safetensors files or one GGUF model, "
                    "got " +
                    got);
}

} // namespace heddle::rt
