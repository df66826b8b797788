//===- session.h - Running a bundle -----------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A Session holds the ranks of this process (all of them in process, or one
// under MPI), their arenas and loaded weights, and runs programs of a bundle on
// them. Tensors are exchanged in their global shape; the session cuts and joins
// them by the layouts that the plan states.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_SESSION_H
#define HEDDLE_RT_SESSION_H

#include "heddle_rt/bundle.h"
#include "heddle_rt/weights.h"

#include <functional>
#include <optional>

namespace heddle::rt {

class Communicator;

/// A failure that a test asks for: `rank` stops before its instruction number
/// `instruction` (counted from 0 over all runs).
struct InjectedFault {
  int32_t rank = 0;
  int64_t instruction = 0;
  std::string message = "injected fault";
};

struct SessionOptions {
  /// Worker threads; 0 = one per processor of this process.
  int workers = 0;
  /// Filled with this 32-bit pattern before anything runs (tests use NaNs), or
  /// left as zero pages from the kernel.
  std::optional<uint32_t> poison;
  /// Write a Chrome/Perfetto trace here at the end ("" = none); see writeTrace.
  std::string tracePath;
  /// Order in which ready work is started: 0 = first come, otherwise the seed
  /// of a random order (finds missing dependencies).
  uint64_t scheduleSeed = 0;
  /// For tests.
  std::optional<InjectedFault> fault;
};

/// One tensor in its global shape, row major.
struct HostTensor {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
};

class Session {
public:
  virtual ~Session();

  /// `comm` decides which ranks live here (see communicator.h); it must outlive
  /// the session.
  static Result<std::unique_ptr<Session>>
  create(std::shared_ptr<const Bundle> bundle, Communicator &comm,
         const SessionOptions &options);

  /// Fills every parameter region by its recipe. `progress(done, total)` counts
  /// bytes and may be null.
  virtual Status
  loadWeights(const WeightSource &source,
              const std::function<void(int64_t, int64_t)> &progress) = 0;

  /// Puts every state tensor back to its initial value.
  virtual Status resetStates() = 0;

  /// Sets a program parameter for the next runs of `program`.
  virtual Status setParam(const std::string &program, const std::string &name,
                          int64_t value) = 0;
  /// Writes an input; the tensor has the global shape of the interface or less
  /// in any dimension. The rest, and padding, gets the poison pattern or zeros.
  /// It stays until it is written again; an input that never was holds zeros,
  /// or the poison pattern. Sampling inputs of such values are greedy.
  virtual Status setInput(const std::string &program, const std::string &name,
                          const HostTensor &value) = 0;
  /// Runs `program` on all ranks to its end. If a rank fails, every rank stops
  /// and the status names the rank and the instruction; the session and its
  /// communicator are spent then, and later runs fail.
  virtual Status run(const std::string &program) = 0;
  /// Reads an output in its global shape (the first owner of each unit). If
  /// ranks live in several processes, each of them calls this, in the same
  /// order.
  virtual Result<HostTensor> output(const std::string &program,
                                    const std::string &name) = 0;
  /// Reads a state tensor in its global shape, like `output`.
  virtual Result<HostTensor> state(const std::string &name) = 0;
  /// Writes the trace that the options ask for. The destructor does so too, but
  /// has nobody to tell if it fails.
  virtual Status writeTrace() = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RT_SESSION_H
