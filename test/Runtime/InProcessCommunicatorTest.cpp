//===- InProcessCommunicatorTest.cpp - The in-process communicator --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "communicator_cts.h"

namespace heddle::rt::cts {

INSTANTIATE_TEST_SUITE_P(
    InProcess, CommunicatorCts,
    ::testing::ValuesIn(communicatorCases(
        {"inprocess", {1, 2, 3, 4, 6}, createInProcessCommunicator})),
    caseName);

} // namespace heddle::rt::cts
