//===- HeddleDialect.h - The model dialect -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLEDIALECT_H
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLEDIALECT_H

#include "heddle/Dialect/Heddle/IR/FactorRule.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "heddle/Dialect/Heddle/IR/HeddleDialect.h.inc"
#include "heddle/Dialect/Heddle/IR/HeddleEnums.h.inc"
#define GET_TYPEDEF_CLASSES
#include "heddle/Dialect/Heddle/IR/HeddleTypes.h.inc"
#define GET_ATTRDEF_CLASSES
#include "heddle/Dialect/Heddle/IR/HeddleAttrs.h.inc"
#include "heddle/Dialect/Heddle/IR/HeddleInterfaces.h.inc"
#define GET_OP_CLASSES
#include "heddle/Dialect/Heddle/IR/HeddleOps.h.inc"

namespace mlir::heddle {

/// Elements along the innermost dimension that a block of `type` covers: 1 for
/// plain types.
int64_t getBlockElements(Type type);
/// Bytes of one block of `type` (of one element for plain types).
int64_t getBlockBytes(Type type);
/// Bytes of a tensor with this static shape, blocks along the last dimension.
int64_t getTensorBytes(RankedTensorType type);
/// Checks that every value of the function is a tensor of static shape that is
/// not empty and not larger than any machine: sizes and offsets then fit into
/// 64 bits, and nothing is divided by 0.
LogicalResult checkTensors(func::FuncOp func);

/// The tensor's sharding, or null.
ShardingAttr getSharding(Type type);
/// The storage format of a local parameter; null = row major.
PackingAttr getPacking(Type type);
/// The same tensor with another sharding (null removes it).
RankedTensorType withSharding(RankedTensorType type, ShardingAttr sharding);

/// True in functions marked heddle.local.
bool isLocal(Operation *op);

/// True if a value of this shape has a row for each token of one sequence, all
/// of a program's extent (a function's `heddle.extent`; null: it has none).
bool hasRowsOfTokens(ArrayRef<int64_t> shape, IntegerAttr extent);

/// For each result of a kernel function the argument whose memory it updates,
/// or -1. Fails, with a message, if `heddle.aliases` is malformed.
FailureOr<SmallVector<int64_t>> getKernelAliases(func::FuncOp kernel);

} // namespace mlir::heddle

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLEDIALECT_H
