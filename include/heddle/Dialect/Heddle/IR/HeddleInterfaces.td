//===- HeddleInterfaces.td - What every model op answers -*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLEINTERFACES_TD
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLEINTERFACES_TD

include "mlir/IR/OpBase.td"

def Heddle_FactorRuleOpInterface : OpInterface<"FactorRuleOpInterface"> {
  let cppNamespace = "::mlir::heddle";
  let description = [{
    An op's dimensions written as factors (see FactorRule.h). Propagation and
    partitioning know nothing else about an op.
  }];
  let methods = [
    InterfaceMethod<"The op's factor rule.", "::mlir::heddle::FactorRule",
                    "getFactorRule">,
    InterfaceMethod<[{
      True if zero padding in operand dimensions that share a factor with a
      result dimension gives zero padding in that result dimension.
    }], "bool", "preservesZeroPadding", (ins), "", [{ return false; }]>,
    InterfaceMethod<[{
      True if the op may consume operand `index` while it is a pending sum over
      ranks (the op is linear in it and the other operands are complete).
    }], "bool", "acceptsPartialSum", (ins "unsigned":$index), "",
    [{ return false; }]>,
  ];
}

def Heddle_CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::mlir::heddle";
  let description = "Arithmetic of one execution on the op's own shapes.";
  let methods = [
    InterfaceMethod<"Floating point operations (a fused multiply-add is two).",
                    "int64_t", "getFlops">,
  ];
}

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLEINTERFACES_TD
