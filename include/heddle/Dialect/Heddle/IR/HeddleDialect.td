//===- HeddleDialect.td - The model dialect -*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLEDIALECT_TD
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLEDIALECT_TD

include "mlir/IR/OpBase.td"

def Heddle_Dialect : Dialect {
  let name = "heddle";
  let cppNamespace = "::mlir::heddle";
  let summary = "Transformer layers on sharded tensors over named mesh axes";
  let description = [{
    The dialect describes whole models. Tensors are *global* when their type
    carries a `#heddle.sharding` encoding (or before `annotate`, when they carry
    none and their function is not marked local); after `partition` the same ops
    work on *local* tensors, in functions marked `heddle.local`, beside ops of
    the `comm` dialect.

    Version log:
    - 0.1: mesh, table, repeat, reshard; embedding, linear, rms_norm, rotary,
      attention and its partial forms, gated units, residual, sampling.
    - 0.2: sample (temperature, top-k, top-p, min-p) beside argmax.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let dependentDialects = ["::mlir::func::FuncDialect"];
  let extraClassDeclaration = [{
    /// Marks a function whose tensors are one rank's local parts.
    static constexpr ::llvm::StringLiteral kLocalAttr = "heddle.local";
    /// The mesh (a symbol) that a function's shardings refer to.
    static constexpr ::llvm::StringLiteral kMeshAttr = "heddle.mesh";
    /// The program variant's name ("decode", "prefill") on a function.
    static constexpr ::llvm::StringLiteral kProgramAttr = "heddle.program";
    /// What a function argument or result is: a `#heddle.binding`.
    static constexpr ::llvm::StringLiteral kBindingAttr = "heddle.binding";
    /// Layout of the global tensor on arguments and results of local functions.
    static constexpr ::llvm::StringLiteral kGlobalAttr = "heddle.global";
    /// On an argument before annotate: what the user calls the size of each
    /// dimension ("" = nothing). For messages; annotate drops it.
    static constexpr ::llvm::StringLiteral kSizesAttr = "heddle.sizes";
    /// Marks a kernel function: what `schedule` outlines for code generation.
    static constexpr ::llvm::StringLiteral kKernelAttr = "heddle.kernel";
    /// Results of a kernel that share the memory of an argument: an array of
    /// array<i64: result, argument>.
    static constexpr ::llvm::StringLiteral kAliasesAttr = "heddle.aliases";
    /// Marks a linear op that the library computes.
    static constexpr ::llvm::StringLiteral kGemmAttr = "heddle.gemm";
    /// On a program: the size of its token axis, dimension 1, of which a host
    /// may ask for the leading rows only. On a kernel: how many rows it has,
    /// tokens of one sequence; a launch says how many are valid.
    static constexpr ::llvm::StringLiteral kExtentAttr = "heddle.extent";
    /// On an input of positions, a `#heddle.consecutive`: what they promise.
    static constexpr ::llvm::StringLiteral kConsecutiveAttr =
        "heddle.consecutive";
    void registerTypes();
    void registerAttributes();
  }];
}

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLEDIALECT_TD
