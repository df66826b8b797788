//===- dtype.cpp - Element formats and their decoding to float ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Names and sizes of the element formats, and their conversion to float. Block
// formats are decoded with ggml's arithmetic in ggml's order (all in float, no
// fused multiply-add), so that results agree bit for bit.
//
//===----------------------------------------------------------------------===//

#include "checked.h"
#include "heddle_rt/weights.h"

#include <algorithm>
#include <cassert>

namespace heddle::rt {
namespace {

struct Format {
  const char *name;
  int64_t elements;
  int64_t bytes;
};

Format formatOf(DType type) {
  switch (type) {
  case DType::f32:
    return {"f32", 1, 4};
  case DType::f16:
    return {"f16", 1, 2};
  case DType::bf16:
    return {"bf16", 1, 2};
  case DType::i8:
    return {"i8", 1, 1};
  case DType::i16:
    return {"i16", 1, 2};
  case DType::i32:
    return {"i32", 1, 4};
  case DType::i64:
    return {"i64", 1, 8};
  case DType::u8:
    return {"u8", 1, 1};
  case DType::f64:
    return {"f64", 1, 8};
  case DType::boolean:
    return {"bool", 1, 1};
  case DType::q4_0:
    return {"q4_0", 32, 18};
  case DType::q4_1:
    return {"q4_1", 32, 20};
  case DType::q5_0:
    return {"q5_0", 32, 22};
  case DType::q5_1:
    return {"q5_1", 32, 24};
  case DType::q8_0:
    return {"q8_0", 32, 34};
  case DType::q2_k:
    return {"q2_k", 256, 84};
  case DType::q3_k:
    return {"q3_k", 256, 110};
  case DType::q4_k:
    return {"q4_k", 256, 144};
  case DType::q5_k:
    return {"q5_k", 256, 176};
  case DType::q6_k:
    return {"q6_k", 256, 210};
  }
  // A number from a damaged bundle: no bytes, and no division by zero.
  return {"unknown", 1, 0};
}

float floatOfBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// IEEE binary16 to binary32, exact for every code. A NaN keeps its payload and
/// becomes quiet.
float halfToFloat(uint16_t half) {
  uint32_t sign = uint32_t(half & 0x8000) << 16;
  uint32_t exponent = (half >> 10) & 0x1F;
  uint32_t fraction = half & 0x3FF;
  if (exponent == 0x1F) {
    uint32_t quiet = fraction ? 0x00400000 : 0;
    return floatOfBits(sign | 0x7F800000 | quiet | fraction << 13);
  }
  if (exponent != 0)
    return floatOfBits(sign | (exponent + 112) << 23 | fraction << 13);
  // Zero and subnormals: fraction * 2^-24, exact in binary32.
  float magnitude = float(fraction) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

float halfAt(const uint8_t *bytes) {
  return halfToFloat(loadUnaligned<uint16_t>(bytes));
}

//===----------------------------------------------------------------------===//
// Blocks of 32: a scale, perhaps a minimum, perhaps a fifth bit, then nibbles.
// Low nibbles hold elements 0-15, high nibbles elements 16-31.
//===----------------------------------------------------------------------===//

void decodeQ4_0(const uint8_t *block, float *out) {
  float scale = halfAt(block);
  const uint8_t *nibbles = block + 2;
  for (int i = 0; i < 16; ++i) {
    out[i] = float((nibbles[i] & 0xF) - 8) * scale;
    out[i + 16] = float((nibbles[i] >> 4) - 8) * scale;
  }
}

void decodeQ4_1(const uint8_t *block, float *out) {
  float scale = halfAt(block), minimum = halfAt(block + 2);
  const uint8_t *nibbles = block + 4;
  for (int i = 0; i < 16; ++i) {
    out[i] = float(nibbles[i] & 0xF) * scale + minimum;
    out[i + 16] = float(nibbles[i] >> 4) * scale + minimum;
  }
}

/// The 5-bit code of element I (0-31) from the nibbles and the fifth bits.
int code5(const uint8_t *nibbles, uint32_t fifthBits, int i) {
  int low = i < 16 ? nibbles[i] & 0xF : nibbles[i - 16] >> 4;
  return low | int(fifthBits >> i & 1) << 4;
}

void decodeQ5_0(const uint8_t *block, float *out) {
  float scale = halfAt(block);
  uint32_t fifthBits = loadUnaligned<uint32_t>(block + 2);
  for (int i = 0; i < 32; ++i)
    out[i] = float(code5(block + 6, fifthBits, i) - 16) * scale;
}

void decodeQ5_1(const uint8_t *block, float *out) {
  float scale = halfAt(block), minimum = halfAt(block + 2);
  uint32_t fifthBits = loadUnaligned<uint32_t>(block + 4);
  for (int i = 0; i < 32; ++i)
    out[i] = float(code5(block + 8, fifthBits, i)) * scale + minimum;
}

void decodeQ8_0(const uint8_t *block, float *out) {
  float scale = halfAt(block);
  for (int i = 0; i < 32; ++i)
    out[i] = float(int8_t(block[2 + i])) * scale;
}

//===----------------------------------------------------------------------===//
// Super-blocks of 256: a half scale for the whole, small integer scales for
// groups of 16 or 32 elements.
//===----------------------------------------------------------------------===//

void decodeQ2_K(const uint8_t *block, float *out) {
  const uint8_t *groups = block; // 16: low nibble scale, high nibble minimum
  const uint8_t *codes = block + 16;
  float scale = halfAt(block + 80), minimum = halfAt(block + 82);
  for (int group = 0; group < 16; ++group) {
    // Eight groups share 32 bytes: two groups for each of the four bit pairs.
    const uint8_t *bytes = codes + group / 8 * 32 + group % 2 * 16;
    int shift = group % 8 / 2 * 2;
    float groupScale = scale * float(groups[group] & 0xF);
    float groupMinimum = minimum * float(groups[group] >> 4);
    for (int i = 0; i < 16; ++i)
      *out++ = groupScale * float(bytes[i] >> shift & 3) - groupMinimum;
  }
}

void decodeQ3_K(const uint8_t *block, float *out) {
  const uint8_t *highBits = block; // 32: bit k of byte i is of element 32k + i
  const uint8_t *codes = block + 32;
  const uint8_t *packed = block + 96; // 16 6-bit scales in 12 bytes
  float scale = halfAt(block + 108);
  for (int group = 0; group < 16; ++group) {
    int low = group < 8 ? packed[group] & 0xF : packed[group - 8] >> 4;
    int high = packed[8 + group % 4] >> (group / 4 * 2) & 3;
    float groupScale = scale * float((low | high << 4) - 32);
    int column = group % 2 * 16;
    const uint8_t *bytes = codes + group / 8 * 32 + column;
    int shift = group % 8 / 2 * 2;
    for (int i = 0; i < 16; ++i) {
      bool high3 = highBits[column + i] >> (group / 2) & 1;
      *out++ = groupScale * float((bytes[i] >> shift & 3) - (high3 ? 0 : 4));
    }
  }
}

struct ScaleAndMinimum {
  int scale;
  int minimum;
};

/// The 6-bit scale and minimum of group J (0-7) in the 12 bytes that q4_k and
/// q5_k share: the first four whole, the others split into 4 + 2 bits.
ScaleAndMinimum groupOf(const uint8_t *packed, int j) {
  if (j < 4)
    return {packed[j] & 63, packed[j + 4] & 63};
  return {(packed[j + 4] & 0xF) | (packed[j - 4] >> 6) << 4,
          (packed[j + 4] >> 4) | (packed[j] >> 6) << 4};
}

void decodeQ4_K(const uint8_t *block, float *out) {
  float scale = halfAt(block), minimum = halfAt(block + 2);
  const uint8_t *packed = block + 4, *nibbles = block + 16;
  for (int group = 0; group < 8; ++group) {
    ScaleAndMinimum sub = groupOf(packed, group);
    float groupScale = scale * float(sub.scale);
    float groupMinimum = minimum * float(sub.minimum);
    const uint8_t *bytes = nibbles + group / 2 * 32;
    int shift = group % 2 * 4;
    for (int i = 0; i < 32; ++i)
      *out++ = groupScale * float(bytes[i] >> shift & 0xF) - groupMinimum;
  }
}

void decodeQ5_K(const uint8_t *block, float *out) {
  float scale = halfAt(block), minimum = halfAt(block + 2);
  const uint8_t *packed = block + 4, *fifthBits = block + 16;
  const uint8_t *nibbles = block + 48;
  for (int group = 0; group < 8; ++group) {
    ScaleAndMinimum sub = groupOf(packed, group);
    float groupScale = scale * float(sub.scale);
    float groupMinimum = minimum * float(sub.minimum);
    const uint8_t *bytes = nibbles + group / 2 * 32;
    int shift = group % 2 * 4;
    for (int i = 0; i < 32; ++i) {
      int code = (bytes[i] >> shift & 0xF) | (fifthBits[i] >> group & 1) << 4;
      *out++ = groupScale * float(code) - groupMinimum;
    }
  }
}

void decodeQ6_K(const uint8_t *block, float *out) {
  const uint8_t *lowBits = block, *highBits = block + 128;
  const uint8_t *scales = block + 192; // 16 int8
  float scale = halfAt(block + 208);
  for (int group = 0; group < 16; ++group) {
    // Within each half of 128 elements: quarters of 32; the low nibbles of 64
    // bytes hold quarters 0 and 1, their high nibbles quarters 2 and 3.
    int half = group / 8, quarter = group % 8 / 2, column = group % 2 * 16;
    const uint8_t *low = lowBits + half * 64 + quarter % 2 * 32 + column;
    const uint8_t *high = highBits + half * 32 + column;
    float groupScale = scale * float(int8_t(scales[group]));
    for (int i = 0; i < 16; ++i) {
      int code = (low[i] >> (quarter / 2 * 4) & 0xF) |
                 (high[i] >> (quarter * 2) & 3) << 4;
      *out++ = groupScale * float(code - 32);
    }
  }
}

using DecodeBlock = void (*)(const uint8_t *, float *);

DecodeBlock blockDecoder(DType type) {
  switch (type) {
  case DType::q4_0:
    return decodeQ4_0;
  case DType::q4_1:
    return decodeQ4_1;
  case DType::q5_0:
    return decodeQ5_0;
  case DType::q5_1:
    return decodeQ5_1;
  case DType::q8_0:
    return decodeQ8_0;
  case DType::q2_k:
    return decodeQ2_K;
  case DType::q3_k:
    return decodeQ3_K;
  case DType::q4_k:
    return decodeQ4_K;
  case DType::q5_k:
    return decodeQ5_K;
  case DType::q6_k:
    return decodeQ6_K;
  default:
    return nullptr;
  }
}

void decodeBlocks(DType type, const uint8_t *row, int64_t first, int64_t count,
                  float *out) {
  DecodeBlock decode = blockDecoder(type);
  Format format = formatOf(type);
  const uint8_t *block = row + first / format.elements * format.bytes;
  for (; count >= format.elements; count -= format.elements) {
    decode(block, out);
    block += format.bytes;
    out += format.elements;
  }
  if (count > 0) {
    float whole[256];
    decode(block, whole);
    std::copy_n(whole, count, out);
  }
}

template <typename T>
void convert(const uint8_t *values, int64_t count, float *out) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = static_cast<float>(loadUnaligned<T>(values + i * sizeof(T)));
}

} // namespace

const char *dtypeName(DType type) { return formatOf(type).name; }
int64_t blockElements(DType type) { return formatOf(type).elements; }
int64_t blockBytes(DType type) { return formatOf(type).bytes; }

void decodeToFloat(DType type, const uint8_t *row, int64_t first, int64_t count,
                   float *out) {
  assert(first >= 0 && count >= 0 && first % blockElements(type) == 0 &&
         "expected to start at a block");
  if (blockDecoder(type))
    return decodeBlocks(type, row, first, count, out);
  const uint8_t *values = row + first * blockBytes(type);
  switch (type) {
  case DType::f32:
    if (count > 0)
      std::memcpy(out, values, size_t(count) * sizeof(float));
    return;
  case DType::f16:
    for (int64_t i = 0; i < count; ++i)
      out[i] = halfAt(values + i * 2);
    return;
  case DType::bf16:
    for (int64_t i = 0; i < count; ++i)
      out[i] =
          floatOfBits(uint32_t(loadUnaligned<uint16_t>(values + i * 2)) << 16);
    return;
  case DType::i8:
    return convert<int8_t>(values, count, out);
  case DType::i16:
    return convert<int16_t>(values, count, out);
  case DType::i32:
    return convert<int32_t>(values, count, out);
  case DType::i64:
    return convert<int64_t>(values, count, out);
  case DType::u8:
    return convert<uint8_t>(values, count, out);
  case DType::f64:
    return convert<double>(values, count, out);
  case DType::boolean:
    for (int64_t i = 0; i < count; ++i)
      out[i] = values[i] ? 1.0f : 0.0f;
    return;
  default:
    assert(false && "expected a known element format");
    std::fill_n(out, count, 0.0f);
  }
}

} // namespace heddle::rt
