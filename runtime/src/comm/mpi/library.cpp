//===- library.cpp - MPI as the process has it ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/mpi/library.h"

#include <thread>

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <unistd.h>

using namespace heddle::rt;
using namespace heddle::rt::mpi;

/// Patience with MPI_Finalize after an abort.
static constexpr std::chrono::seconds kFinalize{3};

Library::~Library() {
  int finalized = 0;
  // A process that exits without destroying its communicator takes the job
  // with it: mpirun ends the other ranks.
  if (!owned || inUse.load() || MPI_Finalized(&finalized) || finalized)
    return;
  if (aborted.load())
    std::thread([] {
      std::this_thread::sleep_for(kFinalize);
      _exit(1);
    }).detach();
  MPI_Finalize();
}

Library &mpi::library() {
  static Library instance;
  return instance;
}

std::string mpi::errorText(int error) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(error, text, &length);
  return text;
}
