//===- ProgramEmitter.h - A placed program as plan instructions -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===--------------------------------------------------------------------*- C++
//-*-===//

#ifndef HEDDLE_LIB_CONVERSION_HEDDLETOPLAN_PROGRAMEMITTER_H
#define HEDDLE_LIB_CONVERSION_HEDDLETOPLAN_PROGRAMEMITTER_H

#include "Placement.h"
#include "heddle/Dialect/Plan/IR/PlanDialect.h"
#include "heddle/Target/CPU/Kernels.h"

namespace mlir::heddle {

/// Emits one program's instructions. `nextId` numbers collectives over all
/// programs.
class ProgramEmitter {
public:
  ProgramEmitter(func::FuncOp program, const Placement &placement, MeshOp mesh,
                 const cpu::TargetRecord &target, int64_t &nextId)
      : program(program), placement(placement), mesh(mesh), target(target),
        nextId(nextId) {}

  LogicalResult run(OpBuilder &builder);
  int64_t instructions = 0, copies = 0;

private:
  /// Scalars that exist in the current body.
  struct LoopScalars {
    Value iteration, nextIteration, ordinal;
  };
  /// Collects the scalar operands of an instruction as its refs are made.
  struct Refs {
    SmallVector<Value> scalars;
  };

  plan::RefAttr ref(const Place &place, int64_t bytes, plan::Access access,
                    Refs &refs, int64_t extraStride = 0, Value extra = Value());
  LogicalResult emitBlock(Block &block, OpBuilder &builder);
  LogicalResult emitOp(Operation *op, OpBuilder &builder);
  LogicalResult emitCall(func::CallOp call, OpBuilder &builder);
  void emitGemm(LinearOp linear, OpBuilder &builder);
  LogicalResult emitCollective(Operation *op, OpBuilder &builder);
  LogicalResult emitRepeat(RepeatOp repeat, OpBuilder &builder);
  void emitCopies(Operation *op, OpBuilder &builder);
  Value constant(OpBuilder &builder, int64_t value);
  /// This rank's coordinate over the axes, row major.
  Value coordinate(ArrayRef<AxisRefAttr> axes);
  /// How many rows of the program's token axis the host asks for.
  Value validRows();
  /// … of a value, times `each`; null if its rows are not tokens of one
  /// sequence.
  Value validElements(RankedTensorType type, int64_t each);

  func::FuncOp program;
  const Placement &placement;
  MeshOp mesh;
  const cpu::TargetRecord &target;
  int64_t &nextId;
  /// Of the repeats around the current op.
  llvm::DenseMap<Operation *, LoopScalars> loops;
  /// Ids of collectives that were begun.
  llvm::DenseMap<Value, int64_t> begun;
  OpBuilder *entry = nullptr;
  SmallVector<std::pair<SmallVector<AxisRefAttr>, Value>> coordinates;
  Value extent;
  llvm::DenseMap<int64_t, Value> elements;
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_HEDDLETOPLAN_PROGRAMEMITTER_H
