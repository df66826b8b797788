//===- communicator_cts.h - Conformance of communicators --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One suite for every communicator. A test program instantiates it:
//
//   INSTANTIATE_TEST_SUITE_P(Mpi, CommunicatorCts, communicatorCases({...}));
//
// Each test starts the calls of the local ranks only and checks their results
// only, so that it also runs with one rank per process, all processes running
// the same test with worldSize() processes.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_CTS_COMMUNICATOR_CTS_H
#define HEDDLE_RT_CTS_COMMUNICATOR_CTS_H

#include "heddle_rt/communicator.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace heddle::rt::cts {

struct CommunicatorFactory {
  std::string name;
  /// World sizes that this process can take part in.
  std::vector<int64_t> worldSizes;
  std::function<std::unique_ptr<Communicator>(int64_t worldSize)> create;
};

struct CommunicatorCase {
  CommunicatorFactory factory;
  int workers;
  /// Order of ready work, see SessionOptions::scheduleSeed.
  uint64_t seed;
};

/// What messages of failed tests show.
void PrintTo(const CommunicatorCase &params, std::ostream *out);

/// `factory` with 1, 2 and 5 workers, in order and at random.
std::vector<CommunicatorCase> communicatorCases(CommunicatorFactory factory);
std::string caseName(const ::testing::TestParamInfo<CommunicatorCase> &info);

class CommunicatorCts : public ::testing::TestWithParam<CommunicatorCase> {};

} // namespace heddle::rt::cts

#endif // HEDDLE_RT_CTS_COMMUNICATOR_CTS_H
