//===- bundle.cpp - The one file that the compiler makes ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle_rt/bundle.h"

#include "base/cpu_features.h"
#include "base/text.h"
#include "bundle/container.h"
#include "bundle/kernel_library.h"
#include "bundle/validate_plan.h"
#include "heddle_rt/plan_generated.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace heddle::rt {

Bundle::~Bundle() = default;

namespace {

constexpr std::string_view kKernelSection = "kernels/x86_64";

/// Bytes of a file in place, or a buffer of our own.
class Storage {
public:
  Storage() = default;
  explicit Storage(std::vector<uint8_t> bytes) : owned_(std::move(bytes)) {}
  Storage(void *address, size_t length) : mapped_(address), length_(length) {}
  Storage(Storage &&other) noexcept
      : owned_(std::move(other.owned_)),
        mapped_(std::exchange(other.mapped_, nullptr)),
        length_(std::exchange(other.length_, 0)) {}
  Storage &operator=(Storage &&) = delete;
  ~Storage() {
    if (mapped_)
      munmap(mapped_, length_);
  }

  const uint8_t *data() const {
    return mapped_ ? static_cast<const uint8_t *>(mapped_) : owned_.data();
  }
  size_t size() const { return mapped_ ? length_ : owned_.size(); }

private:
  std::vector<uint8_t> owned_;
  void *mapped_ = nullptr;
  size_t length_ = 0;
};

class VerifiedBundle final : public Bundle {
public:
  explicit VerifiedBundle(Storage storage) : storage_(std::move(storage)) {}

  Status verify() {
    Result<std::vector<BundleSection>> sections =
        parseContainer(storage_.data(), storage_.size());
    if (!sections)
      return sections.status();
    sections_ = sections.take();

    std::string_view plan = section("plan");
    if (plan.empty())
      return Status(Code::data_loss, "bundle: expected a section 'plan'");
    Result<const fb::Plan *> verified = verifyPlan(plan);
    if (!verified)
      return Status(verified.status().code(),
                    "bundle: " + verified.status().message());
    plan_ = *verified;
    bool needsKernels = plan_->kernels() && plan_->kernels()->size() > 0;
    if (needsKernels && section(kKernelSection).empty())
      return Status(Code::data_loss,
                    concat("bundle: the plan names ", plan_->kernels()->size(),
                           " kernels, expected a section '", kKernelSection,
                           "'"));
    worldSize_ = worldSizeOf(*plan_);
    return {};
  }

  const fb::Plan &plan() const override { return *plan_; }
  int64_t worldSize() const override { return worldSize_; }

  std::string_view section(std::string_view id) const override {
    for (const BundleSection &section : sections_)
      if (section.id == id)
        return section.bytes;
    return {};
  }

  Result<std::vector<KernelFn>> kernels() const override {
    std::call_once(loadOnce_, [&] { loadStatus_ = loadKernels(); });
    if (!loadStatus_.ok())
      return loadStatus_;
    return kernels_;
  }

private:
  Status loadKernels() const {
    HEDDLE_RT_RETURN_IF_ERROR(
        checkCpuFeatures(plan_->cpu() ? plan_->cpu()->string_view() : ""));
    if (!plan_->kernels() || plan_->kernels()->size() == 0)
      return {};
    HEDDLE_RT_RETURN_IF_ERROR(library_.load(section(kKernelSection)));
    for (const flatbuffers::String *symbol : *plan_->kernels()) {
      KernelFn function = library_.find(symbol->str());
      if (!function)
        return Status(Code::data_loss, concat("bundle: the kernel library has "
                                              "no symbol '",
                                              symbol->str(), "'"));
      kernels_.push_back(function);
    }
    return {};
  }

  Storage storage_;
  std::vector<BundleSection> sections_;
  const fb::Plan *plan_ = nullptr;
  int64_t worldSize_ = 0;
  mutable std::once_flag loadOnce_;
  mutable Status loadStatus_;
  mutable KernelLibrary library_;
  mutable std::vector<KernelFn> kernels_;
};

Result<std::shared_ptr<const Bundle>> makeBundle(Storage storage) {
  auto bundle = std::make_shared<VerifiedBundle>(std::move(storage));
  HEDDLE_RT_RETURN_IF_ERROR(bundle->verify());
  return std::shared_ptr<const Bundle>(std::move(bundle));
}

} // namespace

Result<std::shared_ptr<const Bundle>> Bundle::open(const std::string &path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return Status(errno == ENOENT ? Code::not_found : Code::invalid_argument,
                  concat("cannot open '", path, "': ", std::strerror(errno)));
  struct stat info = {};
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size <= 0) {
    bool empty = S_ISREG(info.st_mode);
    close(file);
    return Status(empty ? Code::data_loss : Code::invalid_argument,
                  concat("cannot open '", path, "': expected a bundle, got ",
                         empty ? "an empty file" : "no regular file"));
  }
  size_t length = static_cast<size_t>(info.st_size);
  void *address = mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file, 0);
  int error = errno;
  close(file);
  if (address == MAP_FAILED)
    return Status(Code::resource_exhausted,
                  concat("cannot map '", path, "': ", std::strerror(error)));
  Result<std::shared_ptr<const Bundle>> bundle =
      makeBundle(Storage(address, length));
  if (!bundle)
    return Status(bundle.status().code(),
                  concat("'", path, "': ", bundle.status().message()));
  return bundle;
}

Result<std::shared_ptr<const Bundle>>
Bundle::parse(std::vector<uint8_t> bytes) {
  return makeBundle(Storage(std::move(bytes)));
}

} // namespace heddle::rt
