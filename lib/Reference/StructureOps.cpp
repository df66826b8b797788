//===- StructureOps.cpp - Reshard -----------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::reference;

/// Global evaluation knows no layouts.
static LogicalResult reshard(ReshardOp op, OpCall &call) {
  call.result().data = call[op.getInput()].data;
  return success();
}

void reference::registerStructureOps(Registry &registry) {
  registry.add<ReshardOp>(reshard);
}
