//===- library.h - MPI as the process has it --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_SRC_COMM_MPI_LIBRARY_H
#define HEDDLE_RT_SRC_COMM_MPI_LIBRARY_H

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

namespace heddle::rt::mpi {

/// MPI can be initialised once in a process: by the first communicator, unless
/// the host did it, and finalised at exit.
struct Library {
  std::mutex mutex;
  bool owned = false;
  std::atomic<bool> inUse{false};
  std::atomic<bool> aborted{false};

  ~Library();
};

Library &library();
std::string errorText(int error);

} // namespace heddle::rt::mpi

#endif // HEDDLE_RT_SRC_COMM_MPI_LIBRARY_H
