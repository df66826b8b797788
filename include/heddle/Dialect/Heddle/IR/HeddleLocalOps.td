//===- HeddleLocalOps.td - Ops that partition introduces -*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLELOCALOPS_TD
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLELOCALOPS_TD

include "heddle/Dialect/Heddle/IR/HeddleOpBase.td"

/// Legal in functions marked `heddle.local` only.
class Heddle_LocalOp<string mnemonic> : Heddle_LayerOp<mnemonic> {
}

def Heddle_LocalIndexOp : Heddle_LocalOp<"local_index"> {
  let summary = "global indices to this rank's";
  let description = [{
    The indices name elements of a dimension that is sharded. `units` lists,
    for each coordinate, the unit in each slot (-1 is padding); an index i of
    unit u = i / unit found in slot s becomes s * unit + i mod unit, any other
    becomes -1.

    Constraints:
    - (C1) result has input's type.
    - (C2) unit is positive.
  }];
  let arguments = (ins Heddle_IndexTensor:$input, Heddle_RankTable:$units,
                       I64Attr:$unit);
  let results = (outs Heddle_IndexTensor:$result);
  let assemblyFormat = [{
    $input `units` $units `of` $unit attr-dict `:` type($input) `->` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "RankTableAttr":$units,
                                 "int64_t":$unit), [{
    build($_builder, $_state, input.getType(), input, units,
          $_builder.getI64IntegerAttr(unit));
  }]>];
}

def Heddle_MaskPadOp : Heddle_LocalOp<"mask_pad"> {
  let summary = "gives padding a known value";
  let description = [{
    Elements of dimension `dim` in slots whose entry of `units` is -1, and
    elements whose global index (unit number * unit + offset) is not below
    `global_size`, become `identity`; others are copied, whatever the padding
    held (NaN included).

    Constraints:
    - (C1) result has input's type; dim is one of its dimensions.
    - (C2) the dimension's extent is the table's columns times unit.
  }];
  let arguments = (ins Heddle_Tensor:$input, I64Attr:$dim,
                       Heddle_RankTable:$units, I64Attr:$unit,
                       I64Attr:$global_size, F64Attr:$identity);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = [{
    $input `dim` $dim `units` $units `of` $unit `size` $global_size
    `identity` $identity attr-dict `:` type($input) `->` type($result)
  }];
}

def Heddle_TakeUnitsOp : Heddle_LocalOp<"take_units"> {
  let summary = "chosen units of one dimension";
  let description = [{
    Unit s of the result is unit `slots[s]` of the input along `dim`; -1 gives
    zeros; the result keeps its first `size` elements of the dimension. Slicing a
    replicated value (each rank its own units) and removing the padding of a
    gathered one are both this op.

    Constraints:
    - (C1) shapes are equal except at dim.
    - (C2) the input's extent is a multiple of unit, or its last unit is short.
    - (C3) the result's extent is at most columns * unit and more than
      (columns - 1) * unit.
    - (C4) entries are below the input's number of units.
  }];
  let arguments = (ins Heddle_Tensor:$input, I64Attr:$dim,
                       Heddle_RankTable:$slots, I64Attr:$unit);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = [{
    $input `dim` $dim `slots` $slots `of` $unit attr-dict `:` type($input) `->` type($result)
  }];
}

def Heddle_FillOp : Heddle_LocalOp<"fill"> {
  let summary = "one value everywhere";
  let description = [{
    What a merge of partial attentions begins with: results of 0, and log-sum-exp
    of minus infinity.

    Constraints:
    - (C1) result is f32.
  }];
  let arguments = (ins F64Attr:$value);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
}

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLELOCALOPS_TD
