//===- random_source.cpp - Weights drawn at random ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The random source and drawRandom, whose generator weights.h specifies.
//
//===----------------------------------------------------------------------===//

#include "random_source.h"

#include "problems.h"

#include <array>
#include <cassert>
#include <charconv>
#include <cmath>

namespace heddle::rt {
namespace {

constexpr std::string_view kPrefix = "random:";

class RandomSource final : public WeightSource {
public:
  RandomSource(std::string description, uint64_t seed)
      : description_(std::move(description)), seed_(seed) {}

  const std::string &description() const override { return description_; }
  std::string_view format() const override { return "random"; }
  const std::vector<TensorInfo> &tensors() const override { return none; }
  const TensorInfo *find(std::string_view) const override { return nullptr; }
  Result<const uint8_t *> data(const TensorInfo &tensor) const override {
    return Status(Code::not_found,
                  description_ + ": tensor " + quote(tensor.name) +
                      ": expected a stored tensor, got a random source");
  }
  std::optional<uint64_t> seed() const override { return seed_; }

private:
  std::string description_;
  uint64_t seed_;
  std::vector<TensorInfo> none;
};

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (char c : text)
    hash = (hash ^ uint8_t(c)) * 0x100000001B3;
  return hash;
}

/// Philox4x32 with ten rounds (Salmon et al., SC 2011).
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, uint64_t key) {
  uint32_t key0 = uint32_t(key), key1 = uint32_t(key >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = uint64_t(counter[0]) * 0xD2511F53;
    uint64_t product1 = uint64_t(counter[2]) * 0xCD9E8D57;
    counter = {uint32_t(product1 >> 32) ^ counter[1] ^ key0, uint32_t(product1),
               uint32_t(product0 >> 32) ^ counter[3] ^ key1,
               uint32_t(product0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

/// Standard-normal elements 2 * PAIR and 2 * PAIR + 1.
std::array<double, 2> normalPair(uint64_t seed, uint64_t hash, uint64_t pair) {
  std::array<uint32_t, 4> bits = philox({uint32_t(pair), uint32_t(pair >> 32),
                                         uint32_t(hash), uint32_t(hash >> 32)},
                                        seed);
  uint64_t a = bits[0] | uint64_t(bits[1]) << 32;
  uint64_t b = bits[2] | uint64_t(bits[3]) << 32;
  double u = (double(a >> 11) + 1) * 0x1p-53; // never 0
  double v = double(b >> 11) * 0x1p-53;
  double radius = std::sqrt(-2 * std::log(u));
  double angle = 2 * 3.14159265358979323846 * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

} // namespace

bool isRandomPath(std::string_view path) {
  return path.substr(0, kPrefix.size()) == kPrefix;
}

Result<std::unique_ptr<WeightSource>> openRandom(const std::string &path) {
  std::string_view digits = std::string_view(path).substr(kPrefix.size());
  uint64_t seed = 0;
  auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), seed);
  if (error != std::errc() || end != digits.data() + digits.size())
    return Status(Code::invalid_argument,
                  "random source: expected random:SEED with a decimal seed "
                  "from 0 to 2^64 - 1, got " +
                      quote(path));
  return std::unique_ptr<WeightSource>(
      std::make_unique<RandomSource>(path, seed));
}

void drawRandom(uint64_t seed, std::string_view globalName,
                int64_t firstElement, int64_t count, float scale, float offset,
                float *out) {
  assert(firstElement >= 0 && count >= 0 && "expected a range of elements");
  uint64_t hash = fnv1a(globalName);
  for (int64_t i = 0; i < count;) {
    uint64_t index = uint64_t(firstElement) + uint64_t(i);
    std::array<double, 2> pair = normalPair(seed, hash, index / 2);
    for (size_t half = index % 2; half < 2 && i < count; ++half)
      out[i++] = float(double(offset) + double(scale) * pair[half]);
  }
}

} // namespace heddle::rt
