//===- CasesSupport.h - Small programs as bundles ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_CASES_CASESSUPPORT_H
#define HEDDLE_TEST_CASES_CASESSUPPORT_H

#include "heddle/Pipelines/Compile.h"
#include "heddle_rt/session.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace heddle_test {

using Floats = std::vector<float>;
using Inputs = std::map<std::string, heddle::rt::HostTensor>;

heddle::rt::HostTensor host(std::vector<int64_t> shape, const Floats &values);
heddle::rt::HostTensor hostIntegers(std::vector<int64_t> shape,
                                    const std::vector<int32_t> &values);

std::unique_ptr<mlir::MLIRContext> makeContext();

/// The bundle of a module that has been through `from`; empty if it has none.
std::vector<uint8_t> bundleOf(mlir::ModuleOp module, mlir::heddle::Phase from,
                              const mlir::heddle::CompileOptions &options = {});

/// Runs program @f of text that has been through `from`, with the inputs by
/// name and parameters drawn at random, on in-process ranks with poisoned
/// memory, and gives output "y" as the ranks' first owners hold it.
Floats run(const std::string &text, const Inputs &inputs,
           mlir::heddle::Phase from = mlir::heddle::Phase::Annotate,
           const mlir::heddle::CompileOptions &options = {});

/// Every `what` replaced.
std::string replaced(std::string text, const std::string &what,
                     const std::string &with);

/// What annotate makes of a program; empty if it refuses it.
std::string annotate(const std::string &text);

} // namespace heddle_test

#endif // HEDDLE_TEST_CASES_CASESSUPPORT_H
