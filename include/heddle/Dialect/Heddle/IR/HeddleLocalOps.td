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

    With `within` W the dimension is the inner one of two: index i is element
    i mod W of block i / W, and becomes i / W * (slots * unit) plus what is above.
    With `count` an index i says "the first i elements": the result says how many
    of them are this rank's (they are its first, where units ascend). Negative
    indices become -1.

    Constraints:
    - (C1) result has input's type.
    - (C2) unit is positive.
    - (C3) within is positive with `count`, and 0 (none) or more without.
  }];
  let arguments = (ins Heddle_IndexTensor:$input, Heddle_RankTable:$units,
                       I64Attr:$unit, DefaultValuedAttr<I64Attr, "0">:$within,
                       UnitAttr:$count);
  let results = (outs Heddle_IndexTensor:$result);
  let assemblyFormat = [{
    $input `units` $units `of` $unit (`within` $within^)? (`count` $count^)? attr-dict `:` type($input) `->` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "RankTableAttr":$units,
                                 "int64_t":$unit,
                                 CArg<"int64_t", "0">:$within,
                                 CArg<"bool", "false">:$count), [{
    build($_builder, $_state, input.getType(), input, units,
          $_builder.getI64IntegerAttr(unit),
          $_builder.getI64IntegerAttr(within),
          count ? $_builder.getUnitAttr() : UnitAttr());
  }]>];
  let extraClassDeclaration = [{
    /// With `within`: for element i of a block, what it becomes on row `row` of
    /// the table, for i from 0 to within - 1.
    ::llvm::SmallVector<int64_t> elementsWithin(int64_t row);
  }];
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
  let extraClassDeclaration = [{
    /// The first element of the result in the input, where the result is a
    /// range of it on every rank: then it is a view.
    std::optional<int64_t> getViewOffset();
  }];
  let arguments = (ins Heddle_Tensor:$input, I64Attr:$dim,
                       Heddle_RankTable:$slots, I64Attr:$unit);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = [{
    $input `dim` $dim `slots` $slots `of` $unit attr-dict `:` type($input) `->` type($result)
  }];
}

def Heddle_SplitChunksOp : Heddle_LocalOp<"split_chunks"> {
  let summary = "the chunks of a dimension, one after the other";
  let description = [{
    Dimension `dim` of extent n * c is cut into n chunks of c; result[i] is chunk
    i. What goes to different ranks lies apart: how an all-to-all wants it.

    Constraints:
    - (C1) the result has input's shape with dim divided by the extent of a new
      first dimension.
  }];
  let arguments = (ins Heddle_Tensor:$input, I64Attr:$dim);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = "$input `dim` $dim attr-dict `:` type($input) `->` type($result)";
  let extraClassDeclaration = [{
    /// The chunks are one after the other already.
    bool isView();
  }];
}

def Heddle_JoinChunksOp : Heddle_LocalOp<"join_chunks"> {
  let summary = "chunks side by side in a dimension";
  let description = [{
    The reverse of `heddle.split_chunks`: input[i] is chunk i of the result's
    dimension `dim`.

    Constraints:
    - (C1) the input has the result's shape with dim divided by the extent of
      its first dimension.
  }];
  let arguments = (ins Heddle_Tensor:$input, I64Attr:$dim);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = "$input `dim` $dim attr-dict `:` type($input) `->` type($result)";
  let extraClassDeclaration = [{
    /// The chunks are side by side already.
    bool isView();
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
