//===- PlanEnums.td - Enumerations of the plan -*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_PLAN_IR_PLANENUMS_TD
#define HEDDLE_DIALECT_PLAN_IR_PLANENUMS_TD

include "mlir/IR/EnumAttr.td"

def Plan_RegionKind : I32EnumAttr<"RegionKind", "what a region holds", [
  I32EnumAttrCase<"Parameter", 0, "parameter">,
  I32EnumAttrCase<"State", 1, "state">,
  I32EnumAttrCase<"Activation", 2, "activation">,
  I32EnumAttrCase<"Communication", 3, "communication">,
  I32EnumAttrCase<"Workspace", 4, "workspace">,
  I32EnumAttrCase<"IO", 5, "io">]> {
  let cppNamespace = "::mlir::plan";
}

def Plan_Access : I32EnumAttr<"Access", "read or written", [
  I32EnumAttrCase<"Read", 1, "r">, I32EnumAttrCase<"Write", 2, "w">,
  I32EnumAttrCase<"ReadWrite", 3, "rw">]> {
  let cppNamespace = "::mlir::plan";
  let genSpecializedAttr = 0;
}

def Plan_CollectiveKind : I32EnumAttr<"CollectiveKind", "collective", [
  I32EnumAttrCase<"AllReduce", 0, "all_reduce">,
  I32EnumAttrCase<"ReduceScatter", 1, "reduce_scatter">,
  I32EnumAttrCase<"AllGather", 2, "all_gather">,
  I32EnumAttrCase<"AllToAll", 3, "all_to_all">,
  I32EnumAttrCase<"Permute", 4, "permute">,
  I32EnumAttrCase<"Broadcast", 5, "broadcast">]> {
  let cppNamespace = "::mlir::plan";
}

def Plan_BinaryKind : I32EnumAttr<"BinaryKind", "integer arithmetic", [
  I32EnumAttrCase<"Add", 3, "add">, I32EnumAttrCase<"Sub", 4, "sub">,
  I32EnumAttrCase<"Mul", 5, "mul">, I32EnumAttrCase<"FloorDiv", 6, "floordiv">,
  I32EnumAttrCase<"Mod", 7, "mod">, I32EnumAttrCase<"Min", 8, "min">,
  I32EnumAttrCase<"Max", 9, "max">]> {
  let cppNamespace = "::mlir::plan";
}

#endif // HEDDLE_DIALECT_PLAN_IR_PLANENUMS_TD
