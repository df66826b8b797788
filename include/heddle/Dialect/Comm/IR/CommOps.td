//===- CommOps.td - Collectives on local tensors -*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_COMM_IR_COMMOPS_TD
#define HEDDLE_DIALECT_COMM_IR_COMMOPS_TD

include "heddle/Dialect/Heddle/IR/HeddleAttrs.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Comm_Dialect : Dialect {
  let name = "comm";
  let cppNamespace = "::mlir::comm";
  let summary = "collectives over named mesh axes";
  let description = [{
    What `partition` makes of every change of layout: nothing implicit is left.
    The ops live in functions marked `heddle.local`. The group of a rank is the
    ranks that differ from it only in the coordinates of `group`; members are
    ordered by ascending coordinate, row major over the axes as listed.
    Reductions accumulate in fp32 in that order. Ops are pure until `schedule`
    and never cross the border of a region.

    Version log:
    - 0.1: all_reduce, reduce_scatter, all_gather, all_to_all, permute.
    - 0.2: permute_start, wait.
  }];
  let dependentDialects = ["::mlir::heddle::HeddleDialect"];
}

class Comm_Op<string mnemonic> : Op<Comm_Dialect, mnemonic, [Pure]> {
  let hasVerifier = 1;
}

def Comm_Axes : TypedArrayAttrBase<Heddle_AxisRef, "mesh axes"> {
  let constBuilderCall = ?;
}

def Comm_AllReduceOp : Comm_Op<"all_reduce"> {
  let summary = "reduction over a group, the result on every rank";
  let description = [{
    Equivalent to: ncclAllReduce.

    Constraints:
    - (C1) the group is not empty and names no axis twice.
    - (C2) result has input's type.
  }];
  let arguments = (ins RankedTensorOf<[AnyType]>:$input, Heddle_PartialKindAttr:$kind,
                       Comm_Axes:$group, StrAttr:$reason);
  let results = (outs RankedTensorOf<[AnyType]>:$result);
  let assemblyFormat = [{
    $kind $input `group` $group `because` $reason attr-dict `:` type($input) `->` type($result)
  }];
}

def Comm_ReduceScatterOp : Comm_Op<"reduce_scatter"> {
  let summary = "reduction over a group, each rank keeps its chunk";
  let description = [{
    Dimension `dim` of the input holds the chunks of the group's ranks in order.
    Equivalent to: ncclReduceScatter.

    Constraints:
    - (C1) the group is not empty and names no axis twice.
    - (C2) result has input's type but for dim, whose input extent is a multiple
      of the result's.
  }];
  let arguments = (ins RankedTensorOf<[AnyType]>:$input, Heddle_PartialKindAttr:$kind,
                       I64Attr:$dim, Comm_Axes:$group, StrAttr:$reason);
  let results = (outs RankedTensorOf<[AnyType]>:$result);
  let assemblyFormat = [{
    $kind $input `dim` $dim `group` $group `because` $reason attr-dict `:` type($input) `->` type($result)
  }];
}

def Comm_AllGatherOp : Comm_Op<"all_gather"> {
  let summary = "every rank's chunk on every rank";
  let description = [{
    Dimension `dim` of the result holds the chunks of the group's ranks in
    order. Equivalent to: ncclAllGather.

    Constraints:
    - (C1) the group is not empty and names no axis twice.
    - (C2) result has input's type but for dim, whose result extent is a multiple
      of the input's.
  }];
  let arguments = (ins RankedTensorOf<[AnyType]>:$input, I64Attr:$dim, Comm_Axes:$group,
                       StrAttr:$reason);
  let results = (outs RankedTensorOf<[AnyType]>:$result);
  let assemblyFormat = [{
    $input `dim` $dim `group` $group `because` $reason attr-dict `:` type($input) `->` type($result)
  }];
}

def Comm_AllToAllOp : Comm_Op<"all_to_all"> {
  let summary = "splits one dimension, joins another";
  let description = [{
    The input is cut into n chunks along `split_dim`; chunk i goes to rank i of
    the group; what arrives is concatenated along `concat_dim` in rank order.
    With one dimension for both, chunks change places. Equivalent to: n ncclSend
    and n ncclRecv in one group.

    Constraints:
    - (C1) the group is not empty and names no axis twice.
    - (C2) split_dim's input extent is n times the result's, concat_dim's result
      extent n times the input's (of one dimension for both, the same); all others
      are equal.
  }];
  let arguments = (ins RankedTensorOf<[AnyType]>:$input, I64Attr:$split_dim,
                       I64Attr:$concat_dim, Comm_Axes:$group, StrAttr:$reason);
  let results = (outs RankedTensorOf<[AnyType]>:$result);
  let assemblyFormat = [{
    $input `split` $split_dim `concat` $concat_dim `group` $group `because` $reason attr-dict `:` type($input) `->` type($result)
  }];
}

def Comm_PermuteOp : Comm_Op<"permute"> {
  let summary = "each rank sends to the one `shift` coordinates further";
  let description = [{
    Rank r of the group receives from rank (r - shift) mod n: one hop of a ring.

    Constraints:
    - (C1) the group is not empty and names no axis twice.
    - (C2) result has input's type.
  }];
  let arguments = (ins RankedTensorOf<[AnyType]>:$input, I64Attr:$shift, Comm_Axes:$group,
                       StrAttr:$reason);
  let results = (outs RankedTensorOf<[AnyType]>:$result);
  let assemblyFormat = [{
    $input `shift` $shift `group` $group `because` $reason attr-dict `:` type($input) `->` type($result)
  }];
}

def Comm_PermuteStartOp : Comm_Op<"permute_start"> {
  let summary = "begins a permute";
  let description = [{
    The result is what `comm.wait` needs; until then nobody reads it, and nobody
    changes the input.

    Constraints:
    - (C1) the group is not empty and names no axis twice.
    - (C2) result has input's type.
  }];
  let arguments = (ins RankedTensorOf<[AnyType]>:$input, I64Attr:$shift, Comm_Axes:$group,
                       StrAttr:$reason);
  let results = (outs RankedTensorOf<[AnyType]>:$result);
  let assemblyFormat = [{
    $input `shift` $shift `group` $group `because` $reason attr-dict `:` type($input) `->` type($result)
  }];
}

def Comm_WaitOp : Comm_Op<"wait"> {
  let summary = "ends what was begun";
  let description = [{
    The result is what arrived. `source` is what `started` sends.

    Constraints:
    - (C1) started is the result of a `comm.permute_start` of source.
    - (C2) result has started's type.
  }];
  let arguments = (ins RankedTensorOf<[AnyType]>:$started,
                       RankedTensorOf<[AnyType]>:$source);
  let results = (outs RankedTensorOf<[AnyType]>:$result);
  let assemblyFormat = [{
    $started `from` $source attr-dict `:` functional-type(operands, results)
  }];
}

#endif // HEDDLE_DIALECT_COMM_IR_COMMOPS_TD
