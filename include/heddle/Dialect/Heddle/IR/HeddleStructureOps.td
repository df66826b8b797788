//===- HeddleStructureOps.td - Meshes, the repeated layer, reshard -*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLESTRUCTUREOPS_TD
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLESTRUCTUREOPS_TD

include "heddle/Dialect/Heddle/IR/HeddleOpBase.td"

def Heddle_MeshOp : Heddle_Op<"mesh", [Symbol]> {
  let summary = "named axes of ranks";
  let description = [{
    Rank order is axis order, the last axis fastest: in `["dp" = 2, "tp" = 3]`
    rank 4 has dp = 1, tp = 1.

    ```mlir
    heddle.mesh @m ["dp" = 2, "tp" = 3]
    ```

    Constraints:
    - (C1) `names` and `sizes` have the same length.
    - (C2) sizes are positive and their product is at most 2^20.
    - (C3) names are unique and not empty.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$names,
                       DenseI64ArrayAttr:$sizes);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getWorldSize();
    /// Size of an axis, or 0 if there is none of this name.
    int64_t getAxisSize(::llvm::StringRef name);
  }];
}

def Heddle_TableOp : Heddle_Op<"table", [Symbol]> {
  let summary = "a map from (coordinate, slot) to unit";
  let description = [{
    The target of `map = table @t` in a sharding.

    ```mlir
    heddle.table @kv_heads [[0, 1], [1, 2]]
    ```

    Constraints:
    - (C1) `values` holds rows * cols entries, rows and cols positive.
    - (C2) entries are -1 (padding) or unit numbers.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$rows, I64Attr:$cols,
                       DenseI64ArrayAttr:$values);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Heddle_RepeatOp : Heddle_Op<"repeat", [AttrSizedOperandSegments,
    RecursiveMemoryEffects]> {
  let summary = "the layer stack: an order of layer kinds over stacked values";
  let description = [{
    Iteration i runs the region of kind order[i] on slice
    ord(i) = #{j < i : order[j] = order[i]} of that kind's stacks. `carry`
    values go from iteration to iteration; `params` (weights, or outputs that an
    earlier repeat emitted) are read; `inout` stacks are updated in place, one
    slice an iteration. What a kind emits is stacked along a new dimension 0.
    Results are the final carries, the updated inout stacks, then the emitted
    stacks, kind by kind. Values from outside may be read by every kind. With
    `reverse` the iterations run from the last to the first.

    ```mlir
    %y, %k1 = heddle.repeat order [0, 0] carry(%x : tensor<1x4x8xf32>)
        params(%w in 0 : tensor<2x8x8xf32>) inout(%k in 0 : tensor<2x4x8xf32>) {
      kind 0 (%c: tensor<1x4x8xf32>, %wi: tensor<8x8xf32>, %ki: tensor<4x8xf32>) {
        ...
        heddle.yield carry(%c2 : tensor<1x4x8xf32>) inout(%k2 : tensor<4x8xf32>)
      }
    }
    ```

    Constraints:
    - (C1) order is not empty and its entries name regions, all of them used.
    - (C2) a region's arguments are the carries, then the slices of its own
      params, then those of its own inouts.
    - (C3) dimension 0 of a stack is the number of its kind's iterations and is
      not sharded.
    - (C4) a region yields the carry types, its own inout slice types, and its
      emits; results have the carry types, the inout types, the stacked emits.
    - (C5) an inout slice has one live version: it is used by one op at most,
      and what is yielded in its place descends from it.
  }];
  let arguments = (ins Variadic<Heddle_Tensor>:$carries,
                       Variadic<Heddle_Tensor>:$params,
                       Variadic<Heddle_Tensor>:$inouts,
                       DenseI64ArrayAttr:$order,
                       DenseI64ArrayAttr:$paramKinds,
                       DenseI64ArrayAttr:$inoutKinds,
                       UnitAttr:$reverse);
  let results = (outs Variadic<Heddle_Tensor>:$results);
  let regions = (region VariadicRegion<SizedRegion<1>>:$kinds);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1; // what the regions hold has been verified
  let extraClassDeclaration = [{
    /// Iterations of a kind.
    int64_t getTrips(int64_t kind);
    /// Slice number of iteration i: how many earlier ones are of its kind.
    int64_t getOrdinal(int64_t i);
    /// Operand indices (into params / inouts) that belong to `kind`, in order.
    ::llvm::SmallVector<int64_t> getParamsOf(int64_t kind);
    ::llvm::SmallVector<int64_t> getInoutsOf(int64_t kind);
  }];
}

def Heddle_YieldOp : Heddle_Op<"yield", [Terminator, Pure,
    AttrSizedOperandSegments, ParentOneOf<["RepeatOp"]>]> {
  let summary = "end of an iteration of a repeat";
  let description = [{
    Gives the next carries, the updated inout slices of this kind, and what the
    kind emits. Checked by `heddle.repeat`.
  }];
  let arguments = (ins Variadic<Heddle_Tensor>:$carries,
                       Variadic<Heddle_Tensor>:$inouts,
                       Variadic<Heddle_Tensor>:$emits);
  let assemblyFormat = [{
    attr-dict `carry` `(` ($carries^ `:` type($carries))? `)`
    (`inout` `(` $inouts^ `:` type($inouts) `)`)?
    (`emit` `(` $emits^ `:` type($emits) `)`)?
  }];
}

def Heddle_ReshardOp : Heddle_Op<"reshard", [Pure, SameOperandsAndResultShape,
    SameOperandsAndResultElementType]> {
  let summary = "change of layout of a global tensor";
  let description = [{
    The value is unchanged; where it lies changes. `partition` turns a reshard
    into collectives: a pending sum becomes a reduce-scatter if the target
    shards a dimension by that axis and an all-reduce otherwise; axes that
    disappear are gathered, axes that appear are sliced, an axis that moves
    between dimensions is an all-to-all.

    ```mlir
    %z = heddle.reshard %y because "add needs a complete value" : T1 -> T2
    ```

    Constraints:
    - (C1) both types carry shardings over the same mesh.
    - (C2) the target has no pending reduction that the source has not.
  }];
  let arguments = (ins Heddle_Tensor:$input, StrAttr:$reason);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = [{
    $input `because` $reason attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLESTRUCTUREOPS_TD
