//===- CasesSupport.cpp - Small programs as bundles -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CasesSupport.h"

#include "heddle/Target/Bundle/Bundle.h"
#include "heddle_rt/bundle.h"
#include "heddle_rt/communicator.h"
#include "heddle_rt/weights.h"

#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

#include <cstring>

using namespace mlir;
using namespace mlir::heddle;
using namespace heddle_test;
namespace rt = ::heddle::rt;

rt::HostTensor heddle_test::host(std::vector<int64_t> shape,
                                 const Floats &values) {
  rt::HostTensor tensor;
  tensor.shape = std::move(shape);
  tensor.bytes.resize(values.size() * sizeof(float));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

rt::HostTensor heddle_test::hostIntegers(std::vector<int64_t> shape,
                                         const std::vector<int32_t> &values) {
  rt::HostTensor tensor;
  tensor.dtype = rt::DType::i32;
  tensor.shape = std::move(shape);
  tensor.bytes.resize(values.size() * sizeof(int32_t));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

std::unique_ptr<MLIRContext> heddle_test::makeContext() {
  DialectRegistry registry;
  registerCompileDialects(registry);
  auto context =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

std::vector<uint8_t> heddle_test::bundleOf(ModuleOp module, Phase from,
                                           const CompileOptions &options) {
  if (failed(runPhases(module, from, Phase::Plan, options)))
    return {};
  FailureOr<llvm::json::Object> report = makeReport(module, 0);
  if (failed(report))
    return {};
  FailureOr<std::vector<uint8_t>> bytes =
      makeBundle(module, options, *report, "{}", "{}");
  return succeeded(bytes) ? *bytes : std::vector<uint8_t>();
}

Floats heddle_test::run(const std::string &text, const Inputs &inputs,
                        Phase from, const CompileOptions &compileOptions) {
  std::unique_ptr<MLIRContext> context = makeContext();
  auto module = parseSourceString<ModuleOp>(text, context.get());
  EXPECT_TRUE(module);
  if (!module)
    return {};
  std::vector<uint8_t> bytes = bundleOf(*module, from, compileOptions);
  EXPECT_FALSE(bytes.empty());
  auto bundle = rt::Bundle::parse(std::move(bytes));
  EXPECT_TRUE(bundle.ok()) << bundle.status().message();
  if (!bundle.ok())
    return {};
  auto comm = rt::createInProcessCommunicator((*bundle)->worldSize());
  rt::SessionOptions options;
  options.poison = 0x7fc00000u;
  auto session = rt::Session::create(*bundle, *comm, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok())
    return {};
  auto weights = rt::WeightSource::open("random:7");
  EXPECT_TRUE(weights.ok()) << weights.status().message();
  rt::Status loaded = (*session)->loadWeights(**weights, nullptr);
  EXPECT_TRUE(loaded.ok()) << loaded.message();
  for (const auto &[name, value] : inputs) {
    rt::Status status = (*session)->setInput("f", name, value);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  rt::Status status = (*session)->run("f");
  EXPECT_TRUE(status.ok()) << status.message();
  auto output = (*session)->output("f", "y");
  EXPECT_TRUE(output.ok()) << output.status().message();
  if (!output.ok())
    return {};
  Floats values(output->bytes.size() / sizeof(float));
  std::memcpy(values.data(), output->bytes.data(), output->bytes.size());
  return values;
}

std::string heddle_test::replaced(std::string text, const std::string &what,
                                  const std::string &with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos;
       at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

std::string heddle_test::annotate(const std::string &text) {
  std::unique_ptr<MLIRContext> context = makeContext();
  auto module = parseSourceString<ModuleOp>(text, context.get());
  EXPECT_TRUE(module);
  if (!module || failed(runPhases(*module, Phase::Import, Phase::Annotate, {})))
    return {};
  std::string annotated;
  llvm::raw_string_ostream(annotated) << *module;
  return annotated;
}
