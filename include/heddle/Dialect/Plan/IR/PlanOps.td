//===- PlanOps.td - What each rank does, as data -*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_PLAN_IR_PLANOPS_TD
#define HEDDLE_DIALECT_PLAN_IR_PLANOPS_TD

include "heddle/Dialect/Heddle/IR/HeddleAttrs.td"
include "heddle/Dialect/Plan/IR/PlanEnums.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::mlir::plan";
  let summary = "launches, products and collectives over arena offsets";
  let description = [{
    The compiler's output: programs of instructions over one static arena per
    space. Ranks of a class share a plan and differ by coordinates and tables.
    The dialect is serialised as runtime/schema/plan.fbs, instruction for
    instruction.

    Version log:
    - 0.1: space, region, program; const, coord, binary, lookup; launch, gemm,
      collective, copy, for, case.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::heddle::HeddleDialect"];
}

def Plan_Ref : AttrDef<Plan_Dialect, "Ref"> {
  let mnemonic = "ref";
  let summary = "a range of an arena";
  let description = [{
    `r @work[64 + 1204224*s0 + 4096*s1 mod 2 : 552960]`: 552960 bytes of region
    @work, read, at 64 plus strides times the instruction's scalar operands 0
    and 1, the latter modulo 2.

    **Constraints:** base, strides and bytes are not negative; moduli are
    positive.
  }];
  let parameters = (ins "Access":$access, "::mlir::FlatSymbolRefAttr":$region,
                        "int64_t":$base, ArrayRefParameter<"int64_t">:$strides,
                        ArrayRefParameter<"int64_t">:$scalars,
                        ArrayRefParameter<"int64_t">:$moduli,
                        "int64_t":$bytes);
  let hasCustomAssemblyFormat = 1;
}

class Plan_Op<string mnemonic, list<Trait> traits = []>
    : Op<Plan_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

def Plan_RegionOp : Plan_Op<"region", [Symbol]> {
  let summary = "a named part of a space, at a fixed offset";
  let description = [{
    ```mlir
    plan.region @work in "dev" offset 65536 size 131072 activation
    ```

    Constraints:
    - (C1) offset and size are not negative; the offset is a multiple of 64.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$space,
                       I64Attr:$offset, I64Attr:$size, Plan_RegionKind:$kind);
  let assemblyFormat = [{
    $sym_name `in` $space `offset` $offset `size` $size $kind attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_TensorOp : Plan_Op<"tensor"> {
  let summary = "a tensor that hosts or recipes know by name";
  let description = [{
    A parameter, state, input or output: where each rank's part lies, the global
    type with its layout, and for a stacked parameter the bytes from layer to
    layer. `program` is the program of an input or output.

    Constraints:
    - (C1) the binding's layers and a positive stride go together.
  }];
  let arguments = (ins Heddle_Binding:$binding, Plan_Ref:$ref,
                       TypeAttr:$global, TypeAttr:$local, I64Attr:$stride,
                       StrAttr:$packing, StrAttr:$program);
  let assemblyFormat = [{
    $binding `at` $ref `global` $global `local` $local `stride` $stride
    `packing` $packing `program` $program attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_ProgramOp : Plan_Op<"program", [Symbol, SingleBlock, NoTerminator,
    IsolatedFromAbove]> {
  let summary = "one variant: instructions in order";
  let description = [{
    ```mlir
    plan.program @decode { ... }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name $body attr-dict";
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

def Plan_ConstOp : Plan_Op<"const", [Pure]> {
  let summary = "an integer";
  let arguments = (ins I64Attr:$value);
  let results = (outs I64:$result);
  let assemblyFormat = "$value attr-dict";
}

def Plan_CoordOp : Plan_Op<"coord", [Pure]> {
  let summary = "this rank's coordinate on a mesh axis";
  let arguments = (ins StrAttr:$axis);
  let results = (outs I64:$result);
  let assemblyFormat = "$axis attr-dict";
}

def Plan_ExtentOp : Plan_Op<"extent", [Pure]> {
  let summary = "how many leading rows of a program a host asks for";
  let description = [{
    ```mlir
    %n = plan.extent "valid_rows" max 128
    ```

    A number from 1 to `max` that the host gives with a run; all rows unless it
    gives one.

    Constraints:
    - (C1) max is positive.
  }];
  let arguments = (ins StrAttr:$name, I64Attr:$max);
  let results = (outs I64:$result);
  let assemblyFormat = "$name `max` $max attr-dict";
  let hasVerifier = 1;
}

def Plan_BinaryOp : Plan_Op<"binary", [Pure]> {
  let summary = "integer arithmetic";
  let arguments = (ins Plan_BinaryKind:$kind, I64:$lhs, I64:$rhs);
  let results = (outs I64:$result);
  let assemblyFormat = "$kind $lhs `,` $rhs attr-dict";
}

def Plan_LookupOp : Plan_Op<"lookup", [Pure]> {
  let summary = "an entry of a table of integers";
  let arguments = (ins DenseI64ArrayAttr:$values, I64:$index);
  let results = (outs I64:$result);
  let assemblyFormat = "$values `[` $index `]` attr-dict";
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

def Plan_Refs : TypedArrayAttrBase<Plan_Ref, "arena ranges">;

def Plan_LaunchOp : Plan_Op<"launch"> {
  let summary = "runs a generated kernel";
  let description = [{
    `scalars` are first the kernel's scalar block (`blockSize` of them), then
    what addresses need.

    Constraints:
    - (C1) tiles is positive.
    - (C2) refs name scalar operands that exist.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Plan_Refs:$refs,
                       Variadic<I64>:$scalars, I64Attr:$blockSize,
                       I64Attr:$tiles);
  let assemblyFormat = [{
    $kernel $refs (`scalars` `(` $scalars^ `)`)? `block` $blockSize `tiles` $tiles attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_GemmOp : Plan_Op<"gemm", [AttrSizedOperandSegments]> {
  let summary = "C = A B^T in fp32, through the library";
  let description = [{
    A is m x k, B is n x k, C is m x n, all row major without gaps. `rows`: how
    many of the m rows to compute.

    Constraints:
    - (C1) sizes and panels are positive.
    - (C2) refs name scalar operands that exist.
  }];
  let arguments = (ins Plan_Ref:$a, Plan_Ref:$b, Plan_Ref:$c,
                       Variadic<I64>:$scalars, Optional<I64>:$rows,
                       I64Attr:$m, I64Attr:$n, I64Attr:$k, I64Attr:$panels);
  let assemblyFormat = [{
    $a $b $c (`scalars` `(` $scalars^ `)`)? `m` $m (`rows` $rows^)? `n` $n
    `k` $k `panels` $panels attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_CollectiveOp : Plan_Op<"collective", [AttrSizedOperandSegments]> {
  let summary = "one rank's part of a collective";
  let description = [{
    With `async` the rank goes on; until a `plan.wait` of this id the source is
    not written and the destination neither read nor written.

    `elements` counts as in runtime/schema/plan.fbs; `some` says how many of
    them take part, the leading ones. `id` is the same on all ranks of a class.

    Constraints:
    - (C1) elements is positive.
    - (C2) refs name scalar operands that exist.
  }];
  let arguments = (ins Plan_CollectiveKind:$kind,
                       Plan_Ref:$source, Plan_Ref:$destination,
                       Variadic<I64>:$scalars, Optional<I64>:$some,
                       TypeAttr:$dtype,
                       I64Attr:$elements,
                       TypedArrayAttrBase<Heddle_AxisRef, "axes">:$group,
                       I64Attr:$id, I64Attr:$shift, StrAttr:$reduction,
                       StrAttr:$reason, StrAttr:$origin,
                       UnitAttr:$async);
  let assemblyFormat = [{
    $kind $source $destination (`scalars` `(` $scalars^ `)`)? $dtype
    `elements` $elements (`some` $some^)? `group` $group `id` $id `shift` $shift
    `reduction` $reduction `because` $reason `origin` $origin
    (`async` $async^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_WaitOp : Plan_Op<"wait"> {
  let summary = "waits for a collective that was begun";
  let description = [{
    ```mlir
    plan.wait 7
    ```

    Goes on when the collective with this id that the rank began last is
    complete.

    Constraints:
    - (C1) the program has a collective of this id, and it is `async`.
  }];
  let arguments = (ins I64Attr:$id);
  let assemblyFormat = "$id attr-dict";
  let hasVerifier = 1;
}

def Plan_CopyOp : Plan_Op<"copy"> {
  let summary = "copies bytes within the arena";
  let description = [{
    Constraints:
    - (C1) both ranges have the same bytes.
    - (C2) refs name scalar operands that exist.
  }];
  let arguments = (ins Plan_Ref:$source, Plan_Ref:$destination,
                       Variadic<I64>:$scalars);
  let assemblyFormat = "$source $destination (`scalars` `(` $scalars^ `)`)? attr-dict";
  let hasVerifier = 1;
}

def Plan_ForOp : Plan_Op<"for", [SingleBlock, NoTerminator]> {
  let summary = "a counted loop";
  let description = [{
    ```mlir
    plan.for 30 { ^bb0(%i: i64): ... }
    ```

    Constraints:
    - (C1) trips is positive.
    - (C2) the body has one i64 argument.
  }];
  let arguments = (ins I64Attr:$trips);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$trips $body attr-dict";
  let hasVerifier = 1;
}

def Plan_CaseOp : Plan_Op<"case", [NoTerminator]> {
  let summary = "the selected block";
  let description = [{
    Constraints:
    - (C1) there is at least one block.
  }];
  let arguments = (ins I64:$selector);
  let regions = (region VariadicRegion<SizedRegion<1>>:$blocks);
  let assemblyFormat = "$selector $blocks attr-dict";
  let hasVerifier = 1;
}

#endif // HEDDLE_DIALECT_PLAN_IR_PLANOPS_TD
