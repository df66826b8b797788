//===- HeddleOpBase.td - Shared by the op files -*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLEOPBASE_TD
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLEOPBASE_TD

include "heddle/Dialect/Heddle/IR/HeddleAttrs.td"
include "heddle/Dialect/Heddle/IR/HeddleInterfaces.td"
include "heddle/Dialect/Heddle/IR/HeddleTypes.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Heddle_Op<string mnemonic, list<Trait> traits = []>
    : Op<Heddle_Dialect, mnemonic, traits>;

/// A layer of a model: pure on tensors, with a factor rule and a cost.
class Heddle_LayerOp<string mnemonic, list<Trait> traits = []>
    : Heddle_Op<mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<Heddle_CostOpInterface>], traits)> {
  let hasVerifier = 1;
}

def Heddle_Rule : DeclareOpInterfaceMethods<Heddle_FactorRuleOpInterface>;
/// Zero padding goes through the op.
def Heddle_ZeroRule : DeclareOpInterfaceMethods<Heddle_FactorRuleOpInterface,
    ["preservesZeroPadding"]>;
/// … and the op is linear in some operands.
def Heddle_LinearRule : DeclareOpInterfaceMethods<Heddle_FactorRuleOpInterface,
    ["preservesZeroPadding", "acceptsPartialSum"]>;

def Heddle_Tensor : RankedTensorOf<[AnyType]>;
def Heddle_IndexTensor : RankedTensorOf<[I32]>;

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLEOPBASE_TD
