//===- safetensors.cpp - Reading safetensors files ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implementation of safetensors.h.
//
//===----------------------------------------------------------------------===//

#include "safetensors.h"

#include "checked.h"
#include "json_reader.h"

#include <algorithm>

namespace heddle::rt {
namespace {

/// The limit of the format's reference implementation.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
/// More dimensions than any model has; keeps shapes small.
constexpr size_t kMaxRank = 16;
constexpr const char *kMetadataKey = "__metadata__";
constexpr const char *kSupported =
    "F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL";

std::optional<DType> dtypeOf(std::string_view name) {
  static constexpr std::pair<std::string_view, DType> table[] = {
      {"F64", DType::f64},     {"F32", DType::f32}, {"F16", DType::f16},
      {"I64", DType::i64},     {"I32", DType::i32}, {"I16", DType::i16},
      {"I8", DType::i8},       {"U8", DType::u8},   {"BF16", DType::bf16},
      {"BOOL", DType::boolean}};
  for (const auto &[known, type] : table)
    if (known == name)
      return type;
  return std::nullopt;
}

/// One tensor's entry as written.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<int64_t> offsets;
  bool hasDtype = false, hasShape = false, hasOffsets = false;
  bool valid = true;

  int64_t begin() const { return offsets[0]; }
  int64_t end() const { return offsets[1]; }
};

/// Builds the entries. Depth 0 is the document, 1 the members of the root
/// object, 2 the members of a tensor (or of the metadata), 3 the elements of
/// its arrays. Members that the format does not define are skipped.
class HeaderHandler : public JsonHandler {
public:
  HeaderHandler(std::string_view where, Problems &problems)
      : where(where), problems(problems) {}

  std::vector<Entry> entries;
  /// True if every entry has usable offsets.
  bool wellFormed = true;

  void key(int depth, std::string_view name) override {
    if (depth == 1)
      beginMember(name);
    else if (depth == 2 && part == Part::tensor)
      beginField(name);
    else if (depth == 2 && part == Part::metadata)
      metadataKey = name;
  }

  void scalar(int depth, const JsonScalar &value) override {
    if (depth == 0)
      fail("header: expected a JSON object, got " + value.describe());
    else if (depth == 1 && part == Part::metadata &&
             value.kind != JsonScalar::null)
      fail("__metadata__: expected an object, got " + value.describe());
    else if (depth == 1 && part == Part::tensor)
      failEntry("expected an object, got " + value.describe());
    else if (depth == 2 && part == Part::metadata &&
             value.kind != JsonScalar::string)
      fail("__metadata__." + quote(metadataKey) + ": expected a string, got " +
           value.describe());
    else if (depth == 2 && part == Part::tensor)
      tensorScalar(value);
    else if (depth == 3 && part == Part::tensor)
      tensorElement(value);
  }

  void begin(int depth, bool isArray) override {
    if (depth == 0 && isArray)
      fail("header: expected a JSON object, got an array");
    else if (depth == 1 && isArray && part == Part::metadata)
      fail("__metadata__: expected an object, got an array");
    else if (depth == 1 && isArray && part == Part::tensor)
      failEntry("expected an object, got an array");
    else if (depth == 2 && part == Part::metadata)
      fail("__metadata__." + quote(metadataKey) +
           ": expected a string, got a nested value");
    else if (depth == 2 && part == Part::tensor)
      beginArray(isArray);
    else if (depth == 3 && part == Part::tensor &&
             (field == Field::shape || field == Field::offsets))
      failEntry(std::string(fieldName()) +
                ": expected integers, got a nested value");
  }

  void end(int depth, bool) override {
    if (depth == 2 && part == Part::tensor)
      endArray();
    if (depth == 1 && part == Part::tensor)
      endEntry();
  }

private:
  enum class Part { none, metadata, tensor };
  enum class Field { other, dtype, shape, offsets };

  Entry &entry() { return entries.back(); }

  const char *fieldName() const {
    return field == Field::dtype   ? "dtype"
           : field == Field::shape ? "shape"
                                   : "data_offsets";
  }

  void fail(std::string_view what, Code code = Code::invalid_argument) {
    wellFormed = false;
    problems.add(code, where, what);
  }

  void failEntry(std::string_view what) {
    entry().valid = false;
    fail("tensor " + quote(entry().name) + ": " + std::string(what));
  }

  void beginMember(std::string_view name) {
    if (name == kMetadataKey) {
      if (hasMetadata)
        fail("__metadata__: expected once, got it again");
      hasMetadata = true;
      part = Part::metadata;
      return;
    }
    part = Part::tensor;
    entries.emplace_back();
    entry().name = name;
  }

  void beginField(std::string_view name) {
    field = name == "dtype"          ? Field::dtype
            : name == "shape"        ? Field::shape
            : name == "data_offsets" ? Field::offsets
                                     : Field::other;
    if (field == Field::other)
      return;
    bool &seen = field == Field::dtype   ? entry().hasDtype
                 : field == Field::shape ? entry().hasShape
                                         : entry().hasOffsets;
    if (seen)
      failEntry(std::string(fieldName()) + ": expected once, got it again");
    seen = true;
  }

  void tensorScalar(const JsonScalar &value) {
    if (field == Field::dtype) {
      if (value.kind == JsonScalar::string)
        entry().dtype = value.text;
      else
        failEntry("dtype: expected a string, got " + value.describe());
    } else if (field != Field::other) {
      failEntry(std::string(fieldName()) + ": expected an array, got " +
                value.describe());
    }
  }

  void beginArray(bool isArray) {
    overlong = false;
    if (field == Field::dtype)
      failEntry("dtype: expected a string, got a nested value");
    else if (field != Field::other && !isArray)
      failEntry(std::string(fieldName()) +
                ": expected an array, got an object");
    else if (field == Field::shape)
      entry().shape.clear();
    else if (field == Field::offsets)
      entry().offsets.clear();
  }

  void tensorElement(const JsonScalar &value) {
    if (field != Field::shape && field != Field::offsets)
      return;
    std::vector<int64_t> &values =
        field == Field::shape ? entry().shape : entry().offsets;
    if (value.kind != JsonScalar::unsignedInteger) {
      failEntry(std::string(fieldName()) +
                ": expected integers from 0 to 2^63 - 1, got " +
                value.describe());
      values.push_back(0); // keep the count right
      return;
    }
    if (values.size() <= kMaxRank)
      values.push_back(value.integer);
    else
      overlong = true;
  }

  void endArray() {
    if (field == Field::offsets && entry().offsets.size() != 2)
      failEntry("data_offsets: expected 2 integers, got " +
                (overlong ? "more than " + std::to_string(kMaxRank)
                          : std::to_string(entry().offsets.size())));
    if (field == Field::shape && entry().shape.size() > kMaxRank)
      failEntry("shape: expected at most " + std::to_string(kMaxRank) +
                " dimensions, got more");
    field = Field::other;
  }

  void endEntry() {
    if (!entry().hasDtype)
      failEntry("expected the key dtype, got none");
    if (!entry().hasShape)
      failEntry("expected the key shape, got none");
    if (!entry().hasOffsets)
      failEntry("expected the key data_offsets, got none");
    if (entry().valid && entry().begin() > entry().end())
      failEntry("data_offsets: expected begin <= end, got " +
                shapeText(entry().offsets));
    part = Part::none;
  }

  std::string_view where;
  Problems &problems;
  Part part = Part::none;
  Field field = Field::other;
  std::string metadataKey;
  bool hasMetadata = false;
  bool overlong = false;
};

/// Checks that the byte ranges tile [0, DATABYTES) exactly.
void checkTiling(std::vector<Entry> &entries, int64_t dataBegin,
                 const MappedFile &file, Problems &problems) {
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return a.offsets != b.offsets ? a.offsets < b.offsets : a.name < b.name;
  });
  int64_t next = 0;
  const Entry *previous = nullptr;
  for (const Entry &entry : entries) {
    if (entry.begin() != next) {
      std::string before = previous
                               ? "the end of tensor " + quote(previous->name)
                               : std::string("the start of the data");
      problems.add(Code::data_loss, file.path(),
                   "tensor " + quote(entry.name) +
                       ": data_offsets: expected to begin at " +
                       std::to_string(next) + ", " + before + ", got " +
                       shapeText(entry.offsets) +
                       (entry.begin() < next ? ": they overlap"
                                             : ": bytes between are unused"));
    }
    next = std::max(next, entry.end());
    previous = &entry;
  }
  std::optional<int64_t> wanted = checkedAdd(dataBegin, next);
  if (wanted && *wanted == file.size())
    return;
  std::string expected = wanted ? std::to_string(*wanted) + " bytes"
                                : std::string("more than 2^63 bytes");
  bool shorter = !wanted || *wanted > file.size();
  problems.add(Code::data_loss, file.path(),
               "expected a file of " + expected + ", got " +
                   std::to_string(file.size()) + ": " +
                   (shorter ? "it was cut short (incomplete download?)"
                            : "its last bytes belong to no tensor"));
}

/// Adds the tensor of ENTRY, whose range is good, if its size is too.
void addTensor(const Entry &entry, int64_t dataBegin, const MappedFile &file,
               Problems &problems, UnsupportedTypes &unsupported,
               std::vector<StoredTensor> &tensors) {
  std::optional<DType> dtype = dtypeOf(entry.dtype);
  if (!dtype)
    return unsupported.add(quote(entry.dtype), entry.name);
  std::optional<int64_t> elements = checkedElements(entry.shape);
  std::optional<int64_t> bytes =
      elements ? checkedMul(*elements, blockBytes(*dtype)) : std::nullopt;
  if (!bytes || *bytes != entry.end() - entry.begin()) {
    std::string expected =
        bytes ? std::to_string(*bytes) : std::string("more than 2^63");
    problems.add(Code::data_loss, file.path(),
                 "tensor " + quote(entry.name) + ": expected " + expected +
                     " bytes for " + entry.dtype + " " +
                     shapeText(entry.shape) + ", got " +
                     std::to_string(entry.end() - entry.begin()) +
                     " (data_offsets " + shapeText(entry.offsets) + ")");
    return;
  }
  StoredTensor tensor;
  tensor.info = {entry.name, *dtype, entry.shape, *bytes};
  // A range past the end of the file is a problem reported by checkTiling.
  if (entry.end() <= file.size() - dataBegin)
    tensor.data = file.data() + dataBegin + entry.begin();
  tensor.file = &file;
  tensors.push_back(std::move(tensor));
}

/// The bytes of the header, or nothing and a problem.
std::optional<std::string_view> headerOf(const MappedFile &file,
                                         Problems &problems) {
  if (file.size() < 8) {
    problems.add(Code::data_loss, file.path(),
                 "expected a safetensors file of at least 8 bytes, got " +
                     std::to_string(file.size()));
    return std::nullopt;
  }
  uint64_t length = loadUnaligned<uint64_t>(file.data());
  if (length > kMaxHeaderBytes) {
    problems.add(Code::invalid_argument, file.path(),
                 "header: expected at most " + std::to_string(kMaxHeaderBytes) +
                     " bytes, got " + std::to_string(length));
    return std::nullopt;
  }
  if (length > uint64_t(file.size() - 8)) {
    problems.add(Code::data_loss, file.path(),
                 "header: expected " + std::to_string(length) + " bytes, got " +
                     std::to_string(file.size() - 8) +
                     ": the file was cut short (incomplete download?)");
    return std::nullopt;
  }
  std::string_view header = file.text(8, int64_t(length));
  if (header.empty() || header[0] != '{') {
    problems.add(Code::invalid_argument, file.path(),
                 "header: expected a JSON object, got " +
                     (header.empty() ? std::string("nothing")
                                     : quote(header.substr(0, 16))));
    return std::nullopt;
  }
  return header;
}

} // namespace

std::vector<StoredTensor> readSafetensors(const MappedFile &file,
                                          Problems &problems) {
  std::vector<StoredTensor> tensors;
  std::optional<std::string_view> header = headerOf(file, problems);
  if (!header)
    return tensors;
  HeaderHandler handler(file.path(), problems);
  std::string where = file.path() + ": header";
  if (!readJson(*header, where, handler, problems))
    return tensors;
  int64_t dataBegin = 8 + int64_t(header->size());
  if (handler.wellFormed)
    checkTiling(handler.entries, dataBegin, file, problems);
  UnsupportedTypes unsupported;
  for (const Entry &entry : handler.entries)
    if (entry.valid)
      addTensor(entry, dataBegin, file, problems, unsupported, tensors);
  unsupported.report(problems, file.path(), kSupported);
  sortByName(tensors, problems);
  return tensors;
}

Result<std::unique_ptr<WeightSource>> openSafetensors(const std::string &path) {
  auto file = MappedFile::open(path);
  if (!file)
    return file.status();
  Problems problems;
  std::vector<StoredTensor> tensors = readSafetensors(**file, problems);
  if (!problems.empty())
    return problems.status();
  return std::unique_ptr<WeightSource>(std::make_unique<FileWeights>(
      path, "safetensors",
      std::vector<std::shared_ptr<const MappedFile>>{file.take()},
      std::move(tensors)));
}

} // namespace heddle::rt
