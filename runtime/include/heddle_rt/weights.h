//===- weights.h - Tensors of a model file, by name -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A WeightSource gives the tensors of one model, memory-mapped and never copied
// as a whole: a safetensors file, a Hugging Face folder (single file or
// sharded with an index), a GGUF file or split set, or values drawn at random
// per global tensor name.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_WEIGHTS_H
#define HEDDLE_RT_WEIGHTS_H

#include "heddle_rt/status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::rt {

/// Element formats of stored tensors. Block formats hold `blockElements(t)`
/// consecutive elements of the innermost dimension in `blockBytes(t)` bytes,
/// laid out as ggml lays them out.
enum class DType : uint8_t {
  f32 = 0,
  f16 = 1,
  bf16 = 2,
  i8 = 3,
  i16 = 4,
  i32 = 5,
  i64 = 6,
  u8 = 7,
  f64 = 8,
  boolean = 9,
  q4_0 = 16,
  q4_1 = 17,
  q5_0 = 18,
  q5_1 = 19,
  q8_0 = 20,
  q2_k = 21,
  q3_k = 22,
  q4_k = 23,
  q5_k = 24,
  q6_k = 25,
};

const char *dtypeName(DType type);
/// Elements in a block: 1 for plain types, 32 or 256 for block formats.
int64_t blockElements(DType type);
/// Bytes of a block.
int64_t blockBytes(DType type);

/// One stored tensor. `shape` is outermost dimension first (row major), so a
/// GGUF tensor of ne = [in, out] has shape {out, in}.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  int64_t bytes = 0;

  int64_t elements() const;
};

/// Read-only access to a model's tensors. Implementations are safe to use from
/// several threads.
class WeightSource {
public:
  virtual ~WeightSource();

  /// What a person calls this source: its path, or "random:7".
  virtual const std::string &description() const = 0;

  /// "safetensors", "gguf" or "random".
  virtual std::string_view format() const = 0;

  /// Every tensor, sorted by name. Empty for random sources.
  virtual const std::vector<TensorInfo> &tensors() const = 0;

  /// Finds a tensor by its stored name; null if there is none.
  virtual const TensorInfo *find(std::string_view name) const = 0;

  /// The tensor's bytes, in place; they may be unaligned. Valid as long as the
  /// source.
  virtual Result<const uint8_t *> data(const TensorInfo &tensor) const = 0;

  /// What was unusual about the files but not wrong, such as a file that the
  /// index does not name; a line each, for a person to see.
  virtual std::vector<std::string> notes() const;

  /// The seed of a random source, for drawRandom; nothing for others.
  virtual std::optional<uint64_t> seed() const;

  /// Tells the kernel that [begin, begin + bytes) is not needed any more, so
  /// that the page cache's copy does not count against this process.
  virtual void release(const uint8_t *begin, int64_t bytes) const;

  /// Opens PATH: a folder with *.safetensors (and possibly an index) or with
  /// one GGUF model, a .safetensors file, a .safetensors.index.json file, a
  /// .gguf file (or any of a split set), or "random:SEED". Every problem of the
  /// headers is found here: truncated files, offsets that disagree with shapes,
  /// overlaps, missing shards, unknown types, sizes that overflow.
  static Result<std::unique_ptr<WeightSource>> open(const std::string &path);
};

/// Decodes `count` elements starting at element `first` (a multiple of
/// blockElements(type)) of one contiguous row into float. Exact for every
/// format that float can hold.
void decodeToFloat(DType type, const uint8_t *row, int64_t first, int64_t count,
                   float *out);

/// Draws elements [firstElement, firstElement + count) of the tensor that the
/// whole model calls `globalName`: `offset + scale * z` with z standard normal.
/// An element's value depends on the seed, the name and its index in the global
/// (unsharded, row-major) tensor and on nothing else, so that any rank can draw
/// any slice and every mesh sees the same model.
///
/// Philox4x32-10 with the seed as key (low word first) and the counter {low and
/// high word of index / 2, low and high word of the name's hash}; the hash is
/// 64-bit FNV-1a. Its 128 bits are two 64-bit words a and b (low word first),
/// u = (a / 2^11 + 1) / 2^53 and v = (b / 2^11) / 2^53 (integer division by
/// 2^11), and z = sqrt(-2 ln u) times cos(2 pi v) for even, sin(2 pi v) for odd
/// indices, all in double and then rounded to float.
void drawRandom(uint64_t seed, std::string_view globalName,
                int64_t firstElement, int64_t count, float scale, float offset,
                float *out);

} // namespace heddle::rt

#endif // HEDDLE_RT_WEIGHTS_H
