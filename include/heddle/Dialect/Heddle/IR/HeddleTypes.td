//===- HeddleTypes.td - Block-quantised element types -*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLETYPES_TD
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLETYPES_TD

include "heddle/Dialect/Heddle/IR/HeddleDialect.td"
include "mlir/IR/AttrTypeBase.td"

class Heddle_BlockType<string cppName, string name, int elements, int bytes>
    : TypeDef<Heddle_Dialect, cppName> {
  let mnemonic = name;
  let summary = "element of a " # name # " block: " # elements #
                " values along the innermost dimension in " # bytes # " bytes";
  let description = [{
    Element type of a tensor whose innermost dimension is stored in ggml's
    blocks of this format. A dimension in such blocks may be cut only between
    blocks.
  }];
}

def Heddle_Q4_0 : Heddle_BlockType<"Q4_0", "q4_0", 32, 18>;
def Heddle_Q4_1 : Heddle_BlockType<"Q4_1", "q4_1", 32, 20>;
def Heddle_Q5_0 : Heddle_BlockType<"Q5_0", "q5_0", 32, 22>;
def Heddle_Q5_1 : Heddle_BlockType<"Q5_1", "q5_1", 32, 24>;
def Heddle_Q8_0 : Heddle_BlockType<"Q8_0", "q8_0", 32, 34>;
def Heddle_Q6_K : Heddle_BlockType<"Q6_K", "q6_k", 256, 210>;

def Heddle_Q8 : TypeDef<Heddle_Dialect, "Q8"> {
  let mnemonic = "q8";
  let summary = "element of a block of 32 activations in 48 bytes";
  let description = [{
    Element type of quantised activations: per block of 32 values along the
    innermost dimension an fp32 scale, the i32 sum of the integers, scale * sum
    in fp32, and 32 signed bytes. Values are scale * integer. Made by `heddle.quantize`, read by
    `heddle.linear`; never a parameter or a host's tensor.
  }];
}

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLETYPES_TD
