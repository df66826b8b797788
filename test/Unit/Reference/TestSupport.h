//===- TestSupport.h - Programs, numbers and diagnostics of the tests ---*- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_REFERENCE_TESTSUPPORT_H
#define HEDDLE_TEST_UNIT_REFERENCE_TESTSUPPORT_H

#include "heddle/Reference/Equivalence.h"
#include "heddle/Reference/Reference.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include "gtest/gtest.h"

#include <limits>
#include <string>

namespace heddle_test {

using mlir::ArrayRef;
using mlir::FailureOr;
using mlir::StringRef;
using mlir::heddle::reference::Tensor;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

/// Numbers between -1 and 1, the same on every machine.
Tensor randomTensor(ArrayRef<int64_t> shape, uint64_t seed);
Tensor tensor(ArrayRef<int64_t> shape, std::vector<double> data);
Tensor scalarStack(std::vector<double> data); // of rank 1

/// Equal shapes, every element within `tolerance` (NaN equals NaN).
testing::AssertionResult close(const Tensor &got, const Tensor &want,
                               double tolerance = 1e-13);
#define EXPECT_CLOSE(...) EXPECT_TRUE(::heddle_test::close(__VA_ARGS__))

/// Replaces every `$name` in text.
std::string substitute(std::string text,
                       std::vector<std::pair<std::string, std::string>> values);

/// A context with the dialects; diagnostics go to `diagnostics`.
class ReferenceTest : public testing::Test {
protected:
  ReferenceTest();

  /// Parses and verifies a module (fails the test if it cannot) and finds a
  /// function in it.
  mlir::func::FuncOp parse(StringRef text, StringRef name = "f");
  mlir::func::FuncOp function(StringRef name);
  mlir::heddle::MeshOp mesh();

  /// Results of a global function of one block that holds `body`.
  std::vector<Tensor> evaluate(StringRef text, ArrayRef<Tensor> arguments);
  std::vector<std::vector<Tensor>>
  evaluateRanks(StringRef text, ArrayRef<std::vector<Tensor>> arguments);
  /// The messages of a module whose evaluation must fail.
  std::string failure(StringRef text, ArrayRef<Tensor> arguments);
  std::string rankFailure(StringRef text,
                          ArrayRef<std::vector<Tensor>> arguments);

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// "error: …" and "note: …" lines.
  std::string diagnostics;
};

} // namespace heddle_test

#endif // HEDDLE_TEST_UNIT_REFERENCE_TESTSUPPORT_H
