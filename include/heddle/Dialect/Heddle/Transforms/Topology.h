//===- Topology.h - Links and devices of a mesh -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_TRANSFORMS_TOPOLOGY_H
#define HEDDLE_DIALECT_HEDDLE_TRANSFORMS_TOPOLOGY_H

#include "heddle/Dialect/Heddle/IR/HeddleDialect.h"

#include "llvm/ADT/StringMap.h"

namespace mlir::heddle {

/// What a topology file says, for choices between methods:
///   {"device": {"tflops": 156, "memory_gb_per_s": 1555},
///    "axes": {"cp": {"gb_per_s": 300, "latency_us": 5}}}
/// Rates are those of one device, links those of one rank to the next one along
/// the axis; GB are 10^9 bytes.
struct Topology {
  struct Link {
    double bytesPerSecond = 0, latencySeconds = 0;
  };
  double flopsPerSecond = 0, memoryBytesPerSecond = 0;
  llvm::StringMap<Link> axes;

  /// Reads a file. Every problem is reported with the key it is at; axes that
  /// the mesh has and the file lacks are problems, the reverse is not.
  static FailureOr<Topology> read(StringRef path, MeshOp mesh,
                                  function_ref<InFlightDiagnostic()> emitError);
};

} // namespace mlir::heddle

#endif // HEDDLE_DIALECT_HEDDLE_TRANSFORMS_TOPOLOGY_H
