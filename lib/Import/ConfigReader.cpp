//===- ConfigReader.cpp - From a path to a model's description ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ConfigReader.h"

#include "ParamTable.h"
#include "heddle_rt/weights.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::heddle;
namespace rt = ::heddle::rt;
namespace fs = llvm::sys::fs;

static constexpr uint64_t kMaxConfigBytes = uint64_t(16) << 20;

void mlir::heddle::checkHeads(const ModelConfig &config, const HeadKeys &keys,
                              Problems &problems) {
  if (config.heads > 0 && config.kvHeads > 0 &&
      config.heads % config.kvHeads != 0)
    problems.add(keys.heads, "expected a multiple of '" + keys.kvHeads + "' (" +
                                 Twine(config.kvHeads) + "), got " +
                                 Twine(config.heads));
  if (config.headDim % 2 != 0)
    problems.add(keys.headDim,
                 "expected an even number for rotary positions, got " +
                     Twine(config.headDim));
  if (config.heads * config.headDim > kMaxWidth)
    problems.add(keys.headDim, "expected at most " + Twine(kMaxWidth) + " / '" +
                                   keys.heads + "' (" + Twine(config.heads) +
                                   "), got " + Twine(config.headDim));
}

/// The file's text, or a problem.
static std::unique_ptr<llvm::MemoryBuffer> readText(const std::string &path,
                                                    Problems &problems) {
  fs::file_status status;
  if (std::error_code error = fs::status(path, status)) {
    problems.add("cannot be read: " + error.message());
    return nullptr;
  }
  // Devices and pipes have no end, or none soon.
  if (!fs::is_regular_file(status)) {
    problems.add("expected a file, a folder with a config.json, or a .gguf "
                 "file, got something else");
    return nullptr;
  }
  if (status.getSize() > kMaxConfigBytes) {
    problems.add("expected a config.json of at most " + Twine(kMaxConfigBytes) +
                 " bytes, got " + Twine(status.getSize()));
    return nullptr;
  }
  auto text = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  if (!text) {
    problems.add("cannot be read: " + text.getError().message());
    return nullptr;
  }
  return std::move(*text);
}

/// Takes note of the types of the tensors that lie beside a config.json, and
/// checks the one that a tie decides about.
static void readStoredTypes(StringRef folder, ModelConfig &config,
                            Problems &problems) {
  bool any = false;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; it != end && !error;
       it.increment(error))
    any |= StringRef(it->path()).ends_with(".safetensors");
  if (!any)
    return;
  auto source = rt::WeightSource::open(folder.str());
  if (!source) {
    // The description is enough to compile; running will insist.
    problems.warn("weights beside it are not looked at: " +
                  Twine(source.status().message()));
    return;
  }
  for (const rt::TensorInfo &tensor : (*source)->tensors())
    config.storedTypes.emplace_back(tensor.name, rt::dtypeName(tensor.dtype));
  if (!config.tiedEmbeddings && !(*source)->find("lm_head.weight"))
    problems.add("tie_word_embeddings",
                 "expected true for weights without lm_head.weight, got false");
}

FailureOr<ModelConfig> mlir::heddle::readModelConfig(StringRef path,
                                                     Location loc) {
  ModelConfig config;
  config.source = path.str();
  Problems problems(path);
  bool isFolder = fs::is_directory(path);
  std::string file = path.str();
  if (isFolder) {
    SmallString<128> inside(path);
    llvm::sys::path::append(inside, "config.json");
    if (fs::exists(inside))
      file = std::string(inside);
  }
  bool isGguf = StringRef(file).ends_with_insensitive(".gguf");
  if (isGguf || (isFolder && file == path)) {
    auto source = rt::WeightSource::open(file);
    if (!source && isFolder)
      problems.add("expected a config.json or one .gguf model in this folder, "
                   "got neither");
    else if (!source)
      problems.add(source.status().message());
    else if ((*source)->format() != "gguf")
      problems.add("expected a config.json beside the weights, got none");
    else
      readGgufConfig(**source, config, problems);
  } else if (auto text = readText(file, problems)) {
    readHfConfig(text->getBuffer(), config, problems);
    if (isFolder && problems.empty())
      readStoredTypes(path, config, problems);
  }
  if (failed(problems.report(loc)))
    return failure();
  return config;
}
