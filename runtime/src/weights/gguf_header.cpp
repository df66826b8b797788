//===- gguf_header.cpp - The header of one GGUF file ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implementation of gguf_header.h.
//
//===----------------------------------------------------------------------===//

#include "gguf_header.h"

#include "checked.h"

#include <algorithm>

namespace heddle::rt {

using Type = GgufMetadata::Type;

namespace {

/// The format's limit on keys; we hold tensor names to it too.
constexpr uint64_t kMaxNameBytes = 65535;
constexpr uint32_t kMaxDims = 4;
constexpr int64_t kDefaultAlignment = 32;
constexpr int64_t kMaxAlignment = 65536;
/// The least bytes that a key-value pair and a tensor description take.
constexpr int64_t kMinEntryBytes = 8 + 1 + 4 + 1;
constexpr int64_t kMinTensorBytes = 8 + 1 + 4 + 4 + 8;
constexpr const char *kCutShort =
    ": the file was cut short (incomplete download?)";
constexpr const char *kSupported =
    "F32, F16, BF16, F64, I8, I16, I32, I64, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, "
    "Q2_K, Q3_K, Q4_K, Q5_K, Q6_K";

struct TensorType {
  const char *name = nullptr;
  std::optional<DType> dtype;
};

/// What the number of a tensor type stands for; no name if nobody told us.
TensorType tensorTypeOf(uint32_t number) {
  switch (number) {
  case 0:
    return {"F32", DType::f32};
  case 1:
    return {"F16", DType::f16};
  case 2:
    return {"Q4_0", DType::q4_0};
  case 3:
    return {"Q4_1", DType::q4_1};
  case 4:
    return {"Q4_2", std::nullopt};
  case 5:
    return {"Q4_3", std::nullopt};
  case 6:
    return {"Q5_0", DType::q5_0};
  case 7:
    return {"Q5_1", DType::q5_1};
  case 8:
    return {"Q8_0", DType::q8_0};
  case 9:
    return {"Q8_1", std::nullopt};
  case 10:
    return {"Q2_K", DType::q2_k};
  case 11:
    return {"Q3_K", DType::q3_k};
  case 12:
    return {"Q4_K", DType::q4_k};
  case 13:
    return {"Q5_K", DType::q5_k};
  case 14:
    return {"Q6_K", DType::q6_k};
  case 24:
    return {"I8", DType::i8};
  case 25:
    return {"I16", DType::i16};
  case 26:
    return {"I32", DType::i32};
  case 27:
    return {"I64", DType::i64};
  case 28:
    return {"F64", DType::f64};
  case 30:
    return {"BF16", DType::bf16};
  }
  static constexpr std::pair<uint32_t, const char *> others[] = {
      {15, "Q8_K"},       {16, "IQ2_XXS"},    {17, "IQ2_XS"},
      {18, "IQ3_XXS"},    {19, "IQ1_S"},      {20, "IQ4_NL"},
      {21, "IQ3_S"},      {22, "IQ2_S"},      {23, "IQ4_XS"},
      {29, "IQ1_M"},      {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"},
      {33, "Q4_0_8_8"},   {34, "TQ1_0"},      {35, "TQ2_0"},
      {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"},
      {39, "MXFP4"},      {40, "NVFP4"}};
  for (auto [known, name] : others)
    if (known == number)
      return {name, std::nullopt};
  return {};
}

/// Reads the header from front to back. The first thing that makes the rest
/// unreadable adds a problem and stops; every read function then returns
/// nothing.
class HeaderReader {
public:
  HeaderReader(const MappedFile &file, Problems &problems)
      : file(file), problems(problems) {}

  bool readCounts();
  bool readEntries(GgufMetadata::Impl &metadata);
  bool readTensors(int64_t alignment, std::vector<StoredTensor> &tensors);

private:
  struct RawTensor {
    std::string_view name;
    uint32_t rank = 0;
    uint64_t dims[kMaxDims]; // innermost first
    uint32_t type = 0;
    uint64_t offset = 0;
  };
  struct Range {
    int64_t begin;
    int64_t end;
    std::string_view tensor;
  };

  int64_t left() const { return file.size() - position; }
  std::string what(std::string_view text) const;
  bool fail(std::string_view text, Code code = Code::invalid_argument);
  bool need(uint64_t bytes, std::string_view of);
  template <typename T> bool read(T &value, std::string_view of);
  bool readName(std::string_view &name, std::string_view of);
  bool readEntry(GgufEntry &entry);
  bool readArray(GgufEntry &entry);
  bool skipStrings(int64_t count);
  bool checkBools(const uint8_t *values, int64_t count);
  bool readTensor(RawTensor &tensor);
  std::optional<int64_t> bytesOf(const RawTensor &raw, TensorInfo &info);
  void locate(const std::vector<RawTensor> &raws, int64_t dataBegin,
              int64_t alignment, std::vector<StoredTensor> &tensors);
  void checkRanges(std::vector<Range> ranges, int64_t dataBegin);

  const MappedFile &file;
  Problems &problems;
  int64_t position = 0;
  int64_t tensorCount = 0;
  int64_t entryCount = 0;
  /// What is being read, for messages: "metadata key" and its name.
  const char *kind = nullptr;
  std::string_view subject;
};

std::string HeaderReader::what(std::string_view text) const {
  std::string out;
  if (kind)
    out = std::string(kind) + " " + quote(subject) + ": ";
  return out.append(text);
}

bool HeaderReader::fail(std::string_view text, Code code) {
  problems.add(code, file.path(), what(text));
  return false;
}

/// Checks that BYTES more are there for OF.
bool HeaderReader::need(uint64_t bytes, std::string_view of) {
  if (bytes <= uint64_t(left()))
    return true;
  return fail(std::string(of) + ": expected " + std::to_string(bytes) +
                  " bytes at offset " + std::to_string(position) + ", got " +
                  std::to_string(left()) + kCutShort,
              Code::data_loss);
}

template <typename T> bool HeaderReader::read(T &value, std::string_view of) {
  if (!need(sizeof(T), of))
    return false;
  value = loadUnaligned<T>(file.data() + position);
  position += sizeof(T);
  return true;
}

bool HeaderReader::readName(std::string_view &name, std::string_view of) {
  uint64_t length;
  if (!read(length, of))
    return false;
  if (length == 0 || length > kMaxNameBytes)
    return fail(std::string(of) + ": expected 1 to " +
                std::to_string(kMaxNameBytes) + " bytes, got " +
                std::to_string(length));
  if (!need(length, of))
    return false;
  name = file.text(position, int64_t(length));
  position += int64_t(length);
  if (!isUtf8(name))
    return fail(std::string(of) + ": expected UTF-8, got " + quote(name));
  return true;
}

bool HeaderReader::readCounts() {
  if (!need(4, "magic"))
    return false;
  std::string_view magic = file.text(0, 4);
  position = 4;
  if (magic != "GGUF") {
    bool old = magic == "tjgg" || magic == "lmgg" || magic == "fmgg" ||
               magic == "algg" || magic == "ggjt" || magic == "ggml";
    return fail("magic: expected 'GGUF', got " + quote(magic) +
                (old ? ", a GGML file older than GGUF: convert it" : ""));
  }
  uint32_t version;
  if (!read(version, "version"))
    return false;
  if (version != 2 && version != 3) {
    uint32_t swapped = __builtin_bswap32(version);
    return fail("version: expected 2 or 3, got " +
                (swapped >= 1 && swapped <= 3
                     ? std::to_string(swapped) +
                           " in big-endian order, which is not supported"
                     : std::to_string(version)));
  }
  uint64_t tensors, entries;
  if (!read(tensors, "tensor count") || !read(entries, "metadata count"))
    return false;
  if (entries > uint64_t(left() / kMinEntryBytes))
    return fail("metadata count: expected at most " +
                std::to_string(left() / kMinEntryBytes) +
                " in a file of this size, got " + std::to_string(entries));
  if (tensors > uint64_t(left() / kMinTensorBytes))
    return fail("tensor count: expected at most " +
                std::to_string(left() / kMinTensorBytes) +
                " in a file of this size, got " + std::to_string(tensors));
  tensorCount = int64_t(tensors);
  entryCount = int64_t(entries);
  return true;
}

bool HeaderReader::checkBools(const uint8_t *values, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (values[i] > 1)
      return fail("expected a bool of 0 or 1, got " +
                  std::to_string(values[i]));
  return true;
}

bool HeaderReader::skipStrings(int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint64_t length;
    if (!read(length, "string length") || !need(length, "string"))
      return false;
    position += int64_t(length);
  }
  return true;
}

bool HeaderReader::readArray(GgufEntry &entry) {
  uint32_t type;
  uint64_t count;
  if (!read(type, "element type"))
    return false;
  if (type == uint32_t(Type::array))
    return fail("expected an array of scalars or strings, got nested arrays");
  if (type > uint32_t(Type::f64))
    return fail("expected an element type from 0 to 12, got " +
                std::to_string(type));
  if (!read(count, "array size"))
    return false;
  entry.elementType = Type(type);
  bool strings = entry.elementType == Type::string;
  int64_t least = strings ? 8 : ggufTypeBytes(entry.elementType);
  if (count > uint64_t(left() / least))
    return fail("expected at most " + std::to_string(left() / least) +
                    " elements of type " + ggufTypeName(entry.elementType) +
                    ", got " + std::to_string(count) + kCutShort,
                Code::data_loss);
  entry.count = int64_t(count);
  entry.value = file.data() + position;
  if (strings)
    return skipStrings(entry.count);
  position += entry.count * least;
  return entry.elementType != Type::boolean ||
         checkBools(entry.value, entry.count);
}

bool HeaderReader::readEntry(GgufEntry &entry) {
  kind = nullptr;
  if (!readName(entry.key, "metadata key"))
    return false;
  kind = "metadata key";
  subject = entry.key;
  uint32_t type;
  if (!read(type, "value type"))
    return false;
  if (type > uint32_t(Type::f64))
    return fail("expected a value type from 0 to 12, got " +
                std::to_string(type));
  entry.type = Type(type);
  if (entry.type == Type::array)
    return readArray(entry);
  if (entry.type == Type::string) {
    uint64_t length;
    if (!read(length, "string length") || !need(length, "string"))
      return false;
    entry.count = int64_t(length);
  } else if (!need(uint64_t(ggufTypeBytes(entry.type)), "value")) {
    return false;
  }
  entry.value = file.data() + position;
  position +=
      entry.type == Type::string ? entry.count : ggufTypeBytes(entry.type);
  return entry.type != Type::boolean || checkBools(entry.value, 1);
}

bool HeaderReader::readEntries(GgufMetadata::Impl &metadata) {
  for (int64_t i = 0; i < entryCount; ++i) {
    GgufEntry entry;
    if (!readEntry(entry))
      return false;
    metadata.byKey.push_back(uint32_t(metadata.entries.size()));
    metadata.keys.push_back(entry.key);
    metadata.entries.push_back(entry);
  }
  kind = nullptr;
  std::vector<uint32_t> &byKey = metadata.byKey;
  const std::vector<std::string_view> &keys = metadata.keys;
  std::sort(byKey.begin(), byKey.end(),
            [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
  for (size_t i = 1; i < byKey.size(); ++i)
    if (keys[byKey[i]] == keys[byKey[i - 1]])
      fail("metadata key " + quote(keys[byKey[i]]) +
           ": expected once, got it again");
  return true;
}

bool HeaderReader::readTensor(RawTensor &tensor) {
  kind = nullptr;
  if (!readName(tensor.name, "tensor name"))
    return false;
  kind = "tensor";
  subject = tensor.name;
  if (!read(tensor.rank, "dimension count"))
    return false;
  if (tensor.rank > kMaxDims)
    return fail("expected at most " + std::to_string(kMaxDims) +
                " dimensions, got " + std::to_string(tensor.rank));
  for (uint32_t i = 0; i < tensor.rank; ++i)
    if (!read(tensor.dims[i], "dimension"))
      return false;
  return read(tensor.type, "type") && read(tensor.offset, "offset");
}

/// Fills INFO's type, shape and size, and returns the size; nothing and a
/// problem if they do not fit together. The type must be supported.
std::optional<int64_t> HeaderReader::bytesOf(const RawTensor &raw,
                                             TensorInfo &info) {
  TensorType type = tensorTypeOf(raw.type);
  info.dtype = *type.dtype;
  for (uint32_t i = raw.rank; i-- > 0;) {
    if (raw.dims[i] == 0 || raw.dims[i] > uint64_t(INT64_MAX)) {
      fail("dimension " + std::to_string(i) + ": expected 1 to 2^63 - 1, got " +
           std::to_string(raw.dims[i]));
      return std::nullopt;
    }
    info.shape.push_back(int64_t(raw.dims[i]));
  }
  int64_t row = info.shape.empty() ? 1 : info.shape.back();
  int64_t block = blockElements(info.dtype);
  if (row % block != 0) {
    fail("expected a row length that is a multiple of " +
         std::to_string(block) + " for " + type.name + ", got " +
         std::to_string(row));
    return std::nullopt;
  }
  std::optional<int64_t> elements = checkedElements(info.shape);
  std::optional<int64_t> bytes =
      elements ? checkedMul(*elements / block, blockBytes(info.dtype))
               : std::nullopt;
  if (!bytes) {
    fail("expected a size below 2^63 bytes, got shape " +
         shapeText(info.shape) + " of " + type.name);
    return std::nullopt;
  }
  info.bytes = *bytes;
  return bytes;
}

void HeaderReader::checkRanges(std::vector<Range> ranges, int64_t dataBegin) {
  kind = nullptr;
  std::sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) {
    return a.begin != b.begin ? a.begin < b.begin : a.tensor < b.tensor;
  });
  const Range *furthest = nullptr;
  for (const Range &range : ranges) {
    if (furthest && range.begin < furthest->end)
      fail("tensor " + quote(range.tensor) + ": expected an offset of " +
               std::to_string(furthest->end) + " or more, the end of tensor " +
               quote(furthest->tensor) + ", got " +
               std::to_string(range.begin) + ": they overlap",
           Code::data_loss);
    if (!furthest || range.end > furthest->end)
      furthest = &range;
  }
  if (!furthest)
    return;
  std::optional<int64_t> wanted = checkedAdd(dataBegin, furthest->end);
  if (wanted && *wanted <= file.size())
    return;
  fail("expected a file of at least " +
           (wanted ? std::to_string(*wanted) + " bytes"
                   : std::string("2^63 bytes")) +
           ", the end of tensor " + quote(furthest->tensor) + ", got " +
           std::to_string(file.size()) + kCutShort,
       Code::data_loss);
}

void HeaderReader::locate(const std::vector<RawTensor> &raws, int64_t dataBegin,
                          int64_t alignment,
                          std::vector<StoredTensor> &tensors) {
  UnsupportedTypes unsupported;
  std::vector<Range> ranges;
  for (const RawTensor &raw : raws) {
    kind = "tensor";
    subject = raw.name;
    TensorType type = tensorTypeOf(raw.type);
    if (!type.dtype) {
      std::string number = std::to_string(raw.type);
      unsupported.add(type.name ? type.name + (" (" + number + ")")
                                : "type " + number,
                      raw.name);
      continue;
    }
    StoredTensor tensor;
    tensor.info.name = raw.name;
    tensor.file = &file;
    std::optional<int64_t> bytes = bytesOf(raw, tensor.info);
    if (!bytes)
      continue;
    if (raw.offset % uint64_t(alignment) != 0) {
      fail("offset: expected a multiple of " + std::to_string(alignment) +
           ", got " + std::to_string(raw.offset));
      continue;
    }
    std::optional<int64_t> end;
    if (raw.offset <= uint64_t(INT64_MAX))
      end = checkedAdd(int64_t(raw.offset), *bytes);
    if (!end) {
      fail("offset: expected below 2^63, got " + std::to_string(raw.offset));
      continue;
    }
    ranges.push_back({int64_t(raw.offset), *end, raw.name});
    if (dataBegin <= file.size() && *end <= file.size() - dataBegin)
      tensor.data = file.data() + dataBegin + raw.offset;
    tensors.push_back(std::move(tensor));
  }
  unsupported.report(problems, file.path(), kSupported);
  checkRanges(std::move(ranges), dataBegin);
}

bool HeaderReader::readTensors(int64_t alignment,
                               std::vector<StoredTensor> &tensors) {
  std::vector<RawTensor> raws;
  for (int64_t i = 0; i < tensorCount; ++i) {
    RawTensor raw;
    if (!readTensor(raw))
      return false;
    raws.push_back(raw);
  }
  // Cannot overflow: the position is at most the size of a mapped file.
  int64_t dataBegin = (position + alignment - 1) / alignment * alignment;
  locate(raws, dataBegin, alignment, tensors);
  sortByName(tensors, problems);
  return true;
}

/// The alignment that METADATA asks for; nothing and a problem if it is odd.
std::optional<int64_t> alignmentOf(const GgufMetadata::Impl &metadata,
                                   Problems &problems) {
  const GgufEntry *entry = metadata.find("general.alignment");
  if (!entry)
    return kDefaultAlignment;
  const std::string where =
      metadata.file->path() + ": metadata key 'general.alignment'";
  if (entry->type != Type::u32) {
    problems.add(Code::invalid_argument, where,
                 std::string("expected a u32, got ") +
                     ggufTypeName(entry->type));
    return std::nullopt;
  }
  int64_t alignment = loadUnaligned<uint32_t>(entry->value);
  if (alignment < 8 || alignment > kMaxAlignment ||
      (alignment & (alignment - 1)) != 0) {
    problems.add(Code::invalid_argument, where,
                 "expected a power of two from 8 to " +
                     std::to_string(kMaxAlignment) + ", got " +
                     std::to_string(alignment));
    return std::nullopt;
  }
  return alignment;
}

} // namespace

const char *ggufTypeName(Type type) {
  static constexpr const char *names[] = {
      "u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
      "bool", "string", "array", "u64", "i64", "f64"};
  return uint32_t(type) < std::size(names) ? names[uint32_t(type)] : "unknown";
}

int64_t ggufTypeBytes(Type type) {
  switch (type) {
  case Type::u8:
  case Type::i8:
  case Type::boolean:
    return 1;
  case Type::u16:
  case Type::i16:
    return 2;
  case Type::u32:
  case Type::i32:
  case Type::f32:
    return 4;
  case Type::u64:
  case Type::i64:
  case Type::f64:
    return 8;
  case Type::string:
  case Type::array:
    return 0;
  }
  return 0;
}

const GgufEntry *GgufMetadata::Impl::find(std::string_view key) const {
  auto it = std::lower_bound(
      byKey.begin(), byKey.end(), key,
      [&](uint32_t index, std::string_view key) { return keys[index] < key; });
  return it != byKey.end() && keys[*it] == key ? &entries[*it] : nullptr;
}

GgufHeader readGgufHeader(std::shared_ptr<const MappedFile> file,
                          bool withTensors, Problems &problems) {
  auto metadata = std::make_shared<GgufMetadata::Impl>();
  metadata->file = std::move(file);
  GgufHeader header;
  header.metadata = metadata;
  HeaderReader reader(*metadata->file, problems);
  if (!reader.readCounts() || !reader.readEntries(*metadata))
    return header;
  std::optional<int64_t> alignment = alignmentOf(*metadata, problems);
  if (withTensors)
    reader.readTensors(alignment.value_or(kDefaultAlignment), header.tensors);
  return header;
}

} // namespace heddle::rt
