//===- onednn_rates.cpp - Matrix products of oneDNN -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The time of one product C = A B^T of oneDNN as JSON, in fp32 or with both
// inputs in bf16 (C is fp32). oneDNN chooses the layout of B, which is packed
// before the clock starts, so this is what it can do at best. OMP_NUM_THREADS
// sets the threads, ONEDNN_MAX_CPU_ISA the instructions.
//
//   onednn_rates --type bf16 --rows 512 --cols 8192 --depth 2048
//
//===----------------------------------------------------------------------===//

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

namespace {

using memory = dnnl::memory;

struct Options {
  std::string type = "f32";
  int64_t rows = 512, cols = 2048, depth = 2048;
  int runs = 20;
};

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Numbers in [-1, 1), never all alike: zeros would be faster.
memory filled(const dnnl::engine &engine, dnnl::stream &stream,
              const memory::dims &dims, memory::data_type type) {
  memory plain({dims, memory::data_type::f32, memory::format_tag::ab}, engine);
  float *data = static_cast<float *>(plain.get_data_handle());
  uint32_t state = 1;
  for (int64_t i = 0; i < dims[0] * dims[1]; ++i) {
    state = state * 1664525u + 1013904223u;
    data[i] =
        static_cast<float>(static_cast<int32_t>(state)) * (1.0f / 2147483648.f);
  }
  memory stored({dims, type, memory::format_tag::ab}, engine);
  dnnl::reorder(plain, stored).execute(stream, plain, stored);
  stream.wait();
  return stored;
}

nlohmann::json measure(const Options &options) {
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  auto type =
      options.type == "bf16" ? memory::data_type::bf16 : memory::data_type::f32;
  memory a = filled(engine, stream, {options.rows, options.depth}, type);
  memory plain = filled(engine, stream, {options.depth, options.cols}, type);
  memory c({{options.rows, options.cols},
            memory::data_type::f32,
            memory::format_tag::ab},
           engine);
  dnnl::matmul::primitive_desc descriptor(
      dnnl::matmul::desc(a.get_desc(),
                         memory::desc({options.depth, options.cols}, type,
                                      memory::format_tag::any),
                         c.get_desc()),
      engine);
  memory b(descriptor.weights_desc(), engine);
  dnnl::reorder(plain, b).execute(stream, plain, b);
  dnnl::matmul product(descriptor);
  nlohmann::json result = {{"implementation", descriptor.impl_info_str()}};
  for (int run = -2; run < options.runs; ++run) { // two to warm up
    double start = now();
    product.execute(
        stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
    stream.wait();
    if (run >= 0)
      result["seconds"].push_back(now() - start);
  }
  return result;
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app("Matrix products of oneDNN");
  app.add_option("--type", options.type)->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--rows", options.rows, "Rows of A and C");
  app.add_option("--cols", options.cols, "Columns of C, rows of B");
  app.add_option("--depth", options.depth, "Columns of A and B");
  app.add_option("--runs", options.runs)->check(CLI::Range(1, 1000000));
  CLI11_PARSE(app, argc, argv);
  try {
    std::printf("%s\n", measure(options).dump().c_str());
  } catch (const dnnl::error &error) {
    std::fprintf(stderr, "onednn_rates: error: %s\n", error.what());
    return 1;
  }
  return 0;
}
