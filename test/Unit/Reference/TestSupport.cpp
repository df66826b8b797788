//===- TestSupport.cpp - Programs, numbers and diagnostics of the tests ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "mlir/Parser/Parser.h"

#include <cmath>
#include <random>
#include <utility>

using namespace heddle_test;
using namespace mlir;
using namespace mlir::heddle;

Tensor heddle_test::randomTensor(ArrayRef<int64_t> shape, uint64_t seed) {
  std::mt19937_64 engine(seed);
  Tensor result = Tensor::filled(shape, 0);
  for (double &value : result.data)
    value = static_cast<double>(engine() >> 11) * 0x1p-52 - 1;
  return result;
}

Tensor heddle_test::tensor(ArrayRef<int64_t> shape, std::vector<double> data) {
  Tensor result = Tensor::filled(shape, 0);
  EXPECT_EQ(result.data.size(), data.size());
  result.data = std::move(data);
  return result;
}

Tensor heddle_test::scalarStack(std::vector<double> data) {
  int64_t size = static_cast<int64_t>(data.size());
  return tensor({size}, std::move(data));
}

testing::AssertionResult
heddle_test::close(const Tensor &got, const Tensor &want, double tolerance) {
  if (got.shape != want.shape)
    return testing::AssertionFailure()
           << "shape " << testing::PrintToString(got.shape) << " instead of "
           << testing::PrintToString(want.shape);
  for (int64_t i = 0; i < want.size(); ++i) {
    double a = got.data[i], b = want.data[i];
    if (a == b || std::abs(a - b) <= tolerance ||
        (std::isnan(a) && std::isnan(b)))
      continue;
    return testing::AssertionFailure()
           << a << " instead of " << b << " at element " << i << " of shape "
           << testing::PrintToString(want.shape);
  }
  return testing::AssertionSuccess();
}

std::string heddle_test::substitute(
    std::string text, std::vector<std::pair<std::string, std::string>> values) {
  for (auto &[name, value] : values)
    for (size_t at = 0; (at = text.find("$" + name, at)) != std::string::npos;
         at += value.size())
      text.replace(at, name.size() + 1, value);
  return text;
}

ReferenceTest::ReferenceTest() {
  context.loadDialect<HeddleDialect, comm::CommDialect, func::FuncDialect>();
  context.printOpOnDiagnostic(false);
  context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    llvm::raw_string_ostream os(diagnostics);
    os << (diagnostic.getSeverity() == DiagnosticSeverity::Error ? "error: "
                                                                 : "other: ")
       << diagnostic << "\n";
    for (Diagnostic &note : diagnostic.getNotes())
      os << "note: " << note << "\n";
  });
}

func::FuncOp ReferenceTest::function(StringRef name) {
  auto result = module->lookupSymbol<func::FuncOp>(name);
  EXPECT_TRUE(result) << "no function " << name.str();
  return result;
}

MeshOp ReferenceTest::mesh() { return *module->getOps<MeshOp>().begin(); }

func::FuncOp ReferenceTest::parse(StringRef text, StringRef name) {
  module = parseSourceString<ModuleOp>(text, &context);
  if (!module) {
    ADD_FAILURE() << diagnostics << text.str();
    std::abort();
  }
  return function(name);
}

std::vector<Tensor> ReferenceTest::evaluate(StringRef text,
                                            ArrayRef<Tensor> arguments) {
  FailureOr<std::vector<Tensor>> results =
      reference::evaluate(parse(text), arguments);
  EXPECT_TRUE(succeeded(results)) << diagnostics;
  return succeeded(results) ? std::move(*results)
                            : std::vector<Tensor>(8, Tensor());
}

std::vector<std::vector<Tensor>>
ReferenceTest::evaluateRanks(StringRef text,
                             ArrayRef<std::vector<Tensor>> arguments) {
  FailureOr<std::vector<std::vector<Tensor>>> results =
      reference::evaluateRanks(parse(text), arguments);
  EXPECT_TRUE(succeeded(results)) << diagnostics;
  return succeeded(results) ? std::move(*results)
                            : std::vector<std::vector<Tensor>>(
                                  arguments.size(), std::vector<Tensor>(8));
}

std::string ReferenceTest::failure(StringRef text, ArrayRef<Tensor> arguments) {
  EXPECT_TRUE(failed(reference::evaluate(parse(text), arguments)));
  return std::exchange(diagnostics, "");
}

std::string
ReferenceTest::rankFailure(StringRef text,
                           ArrayRef<std::vector<Tensor>> arguments) {
  EXPECT_TRUE(failed(reference::evaluateRanks(parse(text), arguments)));
  return std::exchange(diagnostics, "");
}
