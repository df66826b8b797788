//===- gemm.cpp - Matrix products on the CPU ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which primitive serves m rows? An exact one is best where oneDNN has code
// made for the shape (its brgemm kernels on AVX-512), but there are too many
// values of m to make one each. So: exact primitives for the row counts below
// (made at load) and one with m left open for all others; where oneDNN would
// run the same code for both ("gemm:jit" on AVX2, measured equal within noise)
// the open one serves every m > 1. A given m always takes the same primitive,
// so results do not depend on what ran before.
//
//===----------------------------------------------------------------------===//

#include "device/cpu/gemm.h"

#include "base/openmp.h"
#include "base/text.h"

#include <algorithm>
#include <array>
#include <atomic>

#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace heddle::rt {

PanelGemm::~PanelGemm() = default;

bool GemmShape::operator<(const GemmShape &other) const {
  auto key = [](const GemmShape &s) {
    return std::tie(s.maxRows, s.n, s.k, s.lda, s.ldb, s.ldc, s.panels);
  };
  return key(*this) < key(other);
}

PanelRange panelRange(int64_t n, int64_t panels, int64_t panel) {
  int64_t width = ((n + panels - 1) / panels + 15) / 16 * 16;
  return {std::min(n, panel * width), std::min(n, (panel + 1) * width)};
}

namespace {

constexpr int64_t kRowBuckets[] = {1, 8, 32, 128, 512};
constexpr int64_t kAnyRows = DNNL_RUNTIME_DIM_VAL;

dnnl::engine &engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

std::atomic<uint64_t> nextId{1};

/// One primitive and what a call of it needs.
struct Variant {
  uint64_t id = 0;
  int64_t rows = 0; // or kAnyRows
  int64_t columns = 0;
  dnnl::matmul primitive;
  dnnl::memory::desc b, scratchpad;
  std::string implementation;
};

/// A thread's memory objects for one variant; oneDNN objects are slow to make.
struct Binding {
  int64_t rows = -1;
  dnnl::memory a, b, c, scratchpad;
};

/// The OpenMP setting decides what oneDNN generates.
class OneThread {
public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }

private:
  int before_;
};

class OneDnnGemm final : public PanelGemm {
public:
  explicit OneDnnGemm(const GemmShape &shape) : shape_(shape) {}

  void prepare() {
    OneThread one;
    PanelRange first = panelRange(shape_.n, shape_.panels, 0);
    prepareWidth(first.end - first.begin);
    for (int64_t panel = 1; panel < shape_.panels; ++panel) {
      PanelRange range = panelRange(shape_.n, shape_.panels, panel);
      int64_t width = range.end - range.begin;
      if (width > 0 && width != first.end - first.begin)
        prepareWidth(width);
    }
  }

  Status run(const float *a, const float *b, float *c, int64_t m,
             int64_t panel) const override {
    PanelRange range = panelRange(shape_.n, shape_.panels, panel);
    int64_t width = range.end - range.begin;
    if (width <= 0 || m <= 0)
      return {};
    const Variant *variant = find(width, m);
    if (!variant)
      return Status(Code::internal, "no matrix product was prepared");
    try {
      call(*variant, a, b + range.begin * shape_.ldb, c + range.begin, m);
    } catch (const dnnl::error &error) {
      return Status(Code::internal,
                    concat("oneDNN cannot multiply: ", error.what()));
    }
    return {};
  }

private:
  void prepareWidth(int64_t width) {
    if (shape_.maxRows <= 0)
      return;
    add(width, 1);
    if (shape_.maxRows == 1)
      return;
    add(width, kAnyRows);
    std::string open = variants_.back()->implementation;
    add(width, shape_.maxRows);
    if (variants_.back()->implementation == open) {
      variants_.pop_back();
      return;
    }
    for (int64_t rows : kRowBuckets)
      if (rows > 1 && rows < shape_.maxRows)
        add(width, rows);
  }

  dnnl::memory::desc matrix(int64_t rows, int64_t columns, int64_t ld) const {
    return dnnl::memory::desc({rows, columns}, dnnl::memory::data_type::f32,
                              dnnl::memory::dims{ld, 1});
  }

  void add(int64_t width, int64_t rows) {
    auto variant = std::make_unique<Variant>();
    variant->id = nextId.fetch_add(1);
    variant->rows = rows;
    variant->columns = width;
    variant->b =
        dnnl::memory::desc({shape_.k, width}, dnnl::memory::data_type::f32,
                           dnnl::memory::dims{1, shape_.ldb});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::matmul::primitive_desc descriptor(
        dnnl::matmul::desc(matrix(rows, shape_.k, shape_.lda), variant->b,
                           matrix(rows, width, shape_.ldc)),
        attributes, engine());
    variant->primitive = dnnl::matmul(descriptor);
    variant->scratchpad = descriptor.scratchpad_desc();
    variant->implementation = descriptor.impl_info_str();
    variants_.push_back(std::move(variant));
  }

  const Variant *find(int64_t width, int64_t m) const {
    const Variant *open = nullptr;
    for (const std::unique_ptr<Variant> &variant : variants_) {
      if (variant->columns != width)
        continue;
      if (variant->rows == m)
        return variant.get();
      if (variant->rows == kAnyRows)
        open = variant.get();
    }
    return open;
  }

  void call(const Variant &variant, const float *a, const float *b, float *c,
            int64_t m) const {
    thread_local dnnl::stream stream(engine());
    thread_local std::unordered_map<uint64_t, Binding> bindings;
    thread_local std::vector<uint8_t> scratchpad;
    Binding &binding = bindings[variant.id];
    if (binding.rows != m) {
      binding.rows = m;
      binding.a = dnnl::memory(matrix(m, shape_.k, shape_.lda), engine(),
                               DNNL_MEMORY_NONE);
      binding.b = dnnl::memory(variant.b, engine(), DNNL_MEMORY_NONE);
      binding.c = dnnl::memory(matrix(m, variant.columns, shape_.ldc), engine(),
                               DNNL_MEMORY_NONE);
      binding.scratchpad =
          dnnl::memory(variant.scratchpad, engine(), DNNL_MEMORY_NONE);
    }
    if (scratchpad.size() < variant.scratchpad.get_size() + 64)
      scratchpad.resize(variant.scratchpad.get_size() + 64);
    uintptr_t aligned =
        (reinterpret_cast<uintptr_t>(scratchpad.data()) + 63) / 64 * 64;
    binding.a.set_data_handle(const_cast<float *>(a));
    binding.b.set_data_handle(const_cast<float *>(b));
    binding.c.set_data_handle(c);
    binding.scratchpad.set_data_handle(reinterpret_cast<void *>(aligned));
    dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_SRC, binding.a.get()},
        {DNNL_ARG_WEIGHTS, binding.b.get()},
        {DNNL_ARG_DST, binding.c.get()},
        {DNNL_ARG_SCRATCHPAD, binding.scratchpad.get()},
    };
    dnnl::error::wrap_c_api(dnnl_primitive_execute(variant.primitive.get(),
                                                   stream.get(), 4, arguments),
                            "could not execute a matrix product");
  }

  GemmShape shape_;
  std::vector<std::unique_ptr<Variant>> variants_;
};

} // namespace

Result<std::unique_ptr<PanelGemm>> PanelGemm::create(const GemmShape &shape) {
  auto gemm = std::make_unique<OneDnnGemm>(shape);
  try {
    gemm->prepare();
  } catch (const dnnl::error &error) {
    return Status(Code::incompatible,
                  concat("oneDNN cannot multiply ", shape.maxRows, " x ",
                         shape.k, " by ", shape.n, " x ", shape.k,
                         " transposed: ", error.what()));
  }
  return std::unique_ptr<PanelGemm>(std::move(gemm));
}

} // namespace heddle::rt
