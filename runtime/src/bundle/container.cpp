//===- container.cpp - Sections of a bundle file --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/container.h"

#include "base/text.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace heddle::rt {
namespace {

constexpr uint64_t kPage = 4096;
constexpr char kMagic[8] = {'H', 'E', 'D', 'D', 'L', 'E', 'B', '1'};

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t count;
};
struct Entry {
  char id[32];
  uint64_t offset;
  uint64_t length;
  uint64_t hash;
};
static_assert(sizeof(Header) == 16 && sizeof(Entry) == 56);
constexpr uint32_t kMaxSections = (kPage - sizeof(Header)) / sizeof(Entry);

uint64_t roundUpToPage(uint64_t value) {
  return (value + kPage - 1) / kPage * kPage;
}

bool isSectionId(std::string_view id) {
  return !id.empty() && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '/' || c == '-' || c == '.';
  });
}

Status dataLoss(std::string message) {
  return Status(Code::data_loss, "bundle: " + std::move(message));
}

} // namespace

Result<std::vector<BundleSection>> parseContainer(const uint8_t *bytes,
                                                  size_t length) {
  if (length < kPage)
    return dataLoss(concat("expected a header page of ", kPage,
                           " bytes, got a file of ", length));
  Header header;
  std::memcpy(&header, bytes, sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0)
    return Status(Code::invalid_argument,
                  "bundle: expected a Heddle bundle (magic HEDDLEB1)");
  if (header.version != kBundleVersion)
    return Status(Code::incompatible,
                  concat("bundle: expected version ", kBundleVersion, ", got ",
                         header.version));
  if (header.count > kMaxSections)
    return dataLoss(concat("expected at most ", kMaxSections, " sections, got ",
                           header.count));

  std::vector<BundleSection> sections;
  uint64_t end = kPage; // sections are in order and do not overlap
  for (uint32_t i = 0; i < header.count; ++i) {
    Entry entry;
    std::memcpy(&entry, bytes + sizeof(Header) + i * sizeof(Entry),
                sizeof(entry));
    std::string_view id(entry.id, strnlen(entry.id, sizeof(entry.id)));
    if (id.size() == sizeof(entry.id) || !isSectionId(id))
      return dataLoss(concat("section ", i, " has no valid name"));
    for (const BundleSection &other : sections)
      if (other.id == id)
        return dataLoss(concat("section '", id, "' is there twice"));
    if (entry.offset % kPage != 0 || entry.offset < end)
      return dataLoss(concat(
          "section '", id, "': expected an offset that is a multiple of ",
          kPage, " and at least ", end, ", got ", entry.offset));
    if (entry.offset > length || entry.length > length - entry.offset)
      return dataLoss(concat("section '", id, "' ends at ", entry.offset, " + ",
                             entry.length, ", the file at ", length));
    uint64_t hash = XXH3_64bits(bytes + entry.offset, entry.length);
    if (hash != entry.hash)
      return dataLoss(concat("section '", id, "': expected hash ", std::hex,
                             entry.hash, ", got ", hash));
    end = entry.offset + entry.length;
    sections.push_back(
        {std::string(id),
         std::string_view(reinterpret_cast<const char *>(bytes) + entry.offset,
                          entry.length)});
  }
  return sections;
}

std::vector<uint8_t>
serializeBundle(const std::vector<BundleSection> &sections) {
  Header header;
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kBundleVersion;
  header.count =
      static_cast<uint32_t>(std::min<size_t>(sections.size(), kMaxSections));

  uint64_t end = kPage;
  std::vector<Entry> entries;
  for (uint32_t i = 0; i < header.count; ++i) {
    Entry entry = {};
    const BundleSection &section = sections[i];
    std::memcpy(entry.id, section.id.data(),
                std::min(section.id.size(), sizeof(entry.id) - 1));
    entry.offset = roundUpToPage(end);
    entry.length = section.bytes.size();
    entry.hash = XXH3_64bits(section.bytes.data(), section.bytes.size());
    end = entry.offset + entry.length;
    entries.push_back(entry);
  }

  std::vector<uint8_t> file(end);
  std::memcpy(file.data(), &header, sizeof(header));
  for (uint32_t i = 0; i < header.count; ++i) {
    std::memcpy(file.data() + sizeof(Header) + i * sizeof(Entry), &entries[i],
                sizeof(Entry));
    if (entries[i].length != 0)
      std::memcpy(file.data() + entries[i].offset, sections[i].bytes.data(),
                  entries[i].length);
  }
  return file;
}

/// Writes all of BYTES; false with errno if it cannot.
static bool writeAll(int file, const std::vector<uint8_t> &bytes) {
  for (size_t done = 0; done < bytes.size();) {
    ssize_t written = ::write(file, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return false;
    done += static_cast<size_t>(written);
  }
  return true;
}

Status writeFileAtomically(const std::string &path,
                           const std::vector<uint8_t> &bytes) {
  static std::atomic<unsigned> counter{0};
  std::string temporary =
      concat(path, ".", getpid(), ".", counter.fetch_add(1), ".tmp");
  // A rename would put a file in the place of a device or a pipe.
  struct stat existing;
  bool replaces =
      stat(path.c_str(), &existing) != 0 || S_ISREG(existing.st_mode);
  const std::string &target = replaces ? temporary : path;
  auto fail = [&](const char *what) {
    int error = errno;
    if (replaces)
      unlink(temporary.c_str());
    Code code = error == ENOSPC || error == EDQUOT ? Code::resource_exhausted
                                                   : Code::invalid_argument;
    return Status(
        code, concat("cannot ", what, " '", path, "': ", std::strerror(error)));
  };

  int create = replaces ? O_CREAT | O_EXCL : 0;
  int file = ::open(target.c_str(), O_WRONLY | O_CLOEXEC | create, 0666);
  if (file < 0)
    return fail("create");
  if (!writeAll(file, bytes)) {
    Status status = fail("write");
    close(file);
    return status;
  }
  if (replaces && fsync(file) != 0) {
    Status status = fail("sync");
    close(file);
    return status;
  }
  if (close(file) != 0)
    return fail("close");
  if (!replaces)
    return {};
  if (rename(temporary.c_str(), path.c_str()) != 0)
    return fail("rename to");

  // The new name is durable once its folder is.
  size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "."
                       : slash == 0               ? "/"
                                                  : path.substr(0, slash);
  int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle >= 0) {
    (void)fsync(handle);
    close(handle);
  }
  return {};
}

} // namespace heddle::rt
