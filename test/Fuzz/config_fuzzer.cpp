//===- config_fuzzer.cpp - Fuzzes the reader of config.json ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whatever is accepted is a model: its parameters can be counted, and a small
// one of its make can be imported. Half of the inputs are made by edits of the
// JSON: changes of bytes alone hardly ever give an object that two keys of it
// disagree about.
//
//===----------------------------------------------------------------------===//

#include "../../lib/Import/ConfigReader.h"
#include "../../lib/Import/JsonObject.h"

#include <cstdlib>
#include <random>

using namespace mlir;
using namespace mlir::heddle;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ModelConfig config;
  Problems problems("input");
  readHfConfig(StringRef(reinterpret_cast<const char *>(data), size), config,
               problems);
  if (!problems.empty())
    return 0;
  if (config.parameterCount() < 1)
    std::abort();
  ModelConfig small = shrink(config);
  // Shrinking keeps head counts and kinds of layers, which may be thousands.
  if (small.heads > 64 || small.layers > 8)
    return 0;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  ImportOptions options;
  options.sequence = 8;
  options.chunk = 4;
  options.mesh = {{"tp", 2}};
  if (failed(importModel(&context, small, options)))
    std::abort();
  return 0;
}

//===----------------------------------------------------------------------===//
// Edits
//===----------------------------------------------------------------------===//

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

static Json parse(const uint8_t *data, size_t size) {
  return Json::parse(data, data + size, nullptr, /*allow_exceptions=*/false);
}

/// Writes VALUE; 0 if it does not fit.
static size_t write(const Json &value, uint8_t *data, size_t maxSize) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > maxSize)
    return 0;
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

/// Every value in VALUE, and VALUE.
static void collect(Json &value, std::vector<Json *> &all) {
  all.push_back(&value);
  if (value.is_structured())
    for (Json &element : value)
      collect(element, all);
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  std::minstd_rand random(seed);
  auto pick = [&](size_t count) { return random() % count; };
  Json root = parse(data, size);
  if (!root.is_object() || root.empty() || pick(2) == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  static const Json plain[] = {nullptr,
                               true,
                               false,
                               0,
                               -1,
                               1,
                               2,
                               64,
                               0.5,
                               1e300,
                               int64_t(1) << 40,
                               "",
                               "default",
                               "llama3",
                               "linear",
                               "llama",
                               "mistral",
                               "qwen2",
                               "qwen3",
                               Json::array(),
                               Json::object()};
  for (size_t edits = 1 + pick(3); edits > 0; --edits) {
    std::vector<Json *> all;
    collect(root, all);
    // A key of the description, wherever it stands, gets another value or
    // another's, in the same object or another one.
    std::vector<Json *> objects;
    std::vector<std::string> keys = {"rope_theta", "rope_scaling",
                                     "rope_parameters"};
    for (Json *value : all)
      if (value->is_object()) {
        objects.push_back(value);
        for (auto it = value->begin(); it != value->end(); ++it)
          keys.push_back(it.key());
      }
    Json value =
        pick(2) ? *all[pick(all.size())] : plain[pick(std::size(plain))];
    Json &object = *objects[pick(objects.size())];
    const std::string &key = keys[pick(keys.size())];
    if (pick(4) == 0)
      object.erase(key);
    else
      object[key] = std::move(value);
  }
  size_t written = write(root, data, maxSize);
  return written != 0 ? written : LLVMFuzzerMutate(data, size, maxSize);
}

/// Members of the second description, over those of the first.
static void mix(Json &to, const Json &from, std::minstd_rand &random) {
  for (auto it = from.begin(); it != from.end(); ++it) {
    if (random() % 3 != 0)
      continue;
    if (it->is_object() && to.contains(it.key()) && to[it.key()].is_object() &&
        random() % 2 == 0)
      mix(to[it.key()], *it, random);
    else
      to[it.key()] = *it;
  }
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *first,
                                            size_t firstSize,
                                            const uint8_t *second,
                                            size_t secondSize, uint8_t *out,
                                            size_t maxSize, unsigned seed) {
  std::minstd_rand random(seed);
  Json a = parse(first, firstSize), b = parse(second, secondSize);
  if (!a.is_object() || !b.is_object())
    return 0;
  mix(a, b, random);
  return write(a, out, maxSize);
}
