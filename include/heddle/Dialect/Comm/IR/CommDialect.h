//===- CommDialect.h - Collectives on local tensors -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_COMM_IR_COMMDIALECT_H
#define HEDDLE_DIALECT_COMM_IR_COMMDIALECT_H

#include "heddle/Dialect/Heddle/IR/HeddleDialect.h"

#include "heddle/Dialect/Comm/IR/CommDialect.h.inc"
#define GET_OP_CLASSES
#include "heddle/Dialect/Comm/IR/CommOps.h.inc"

#endif // HEDDLE_DIALECT_COMM_IR_COMMDIALECT_H
