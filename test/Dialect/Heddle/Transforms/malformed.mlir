// RUN: split-file %s %t
// RUN: not heddle-opt %t/no-mesh.mlir --heddle-verify-local 2>&1 | FileCheck %t/no-mesh.mlir
// RUN: not heddle-opt %t/scalar.mlir --heddle-annotate 2>&1 | FileCheck %t/scalar.mlir
// RUN: not heddle-opt %t/dynamic.mlir --heddle-annotate 2>&1 | FileCheck %t/dynamic.mlir
// RUN: not heddle-opt %t/sub-axis.mlir --heddle-verify-global 2>&1 | FileCheck %t/sub-axis.mlir
// RUN: not heddle-opt %t/element.mlir 2>&1 | FileCheck %t/element.mlir
// RUN: not heddle-opt %t/packed-element.mlir 2>&1 | FileCheck %t/packed-element.mlir
// RUN: not heddle-opt %t/yield.mlir 2>&1 | FileCheck %t/yield.mlir
// RUN: not heddle-opt %t/empty.mlir --heddle-annotate 2>&1 | FileCheck %t/empty.mlir
// RUN: not heddle-opt %t/huge.mlir --heddle-annotate 2>&1 | FileCheck %t/huge.mlir
// RUN: not heddle-opt %t/units.mlir --heddle-verify-global 2>&1 | FileCheck %t/units.mlir
// RUN: not heddle-opt %t/extent.mlir --heddle-partition 2>&1 | FileCheck %t/extent.mlir
// RUN: not heddle-opt %t/local.mlir --heddle-schedule 2>&1 | FileCheck %t/local.mlir
// RUN: not heddle-opt %t/body.mlir --convert-heddle-to-plan 2>&1 | FileCheck %t/body.mlir
// RUN: not heddle-opt %t/stack.mlir --convert-heddle-to-plan 2>&1 | FileCheck %t/stack.mlir
// RUN: not heddle-opt %t/kernel.mlir --heddle-codegen-cpu 2>&1 | FileCheck %t/kernel.mlir
// RUN: not heddle-opt %t/kernel-block.mlir --heddle-codegen-cpu 2>&1 | FileCheck %t/kernel-block.mlir

// Programs that no phase accepts. Each must be refused with a message, never by
// a crash and never silently.

//--- no-mesh.mlir
// A local function that names no mesh cannot be checked.
// CHECK: error:
func.func @no_mesh(%x: tensor<4xf32>) attributes {heddle.local} {
  return
}

//--- scalar.mlir
// Programs take and give tensors only.
// CHECK: error:
heddle.mesh @m ["tp" = 2]
func.func @scalar(%x: tensor<4xf32>, %n: i32) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

//--- dynamic.mlir
// Shapes are static in every program variant.
// CHECK: error:
heddle.mesh @m ["tp" = 2]
func.func @dynamic(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>) -> tensor<?x4xf32> {
  %0 = heddle.linear %x, %w : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

//--- sub-axis.mlir
// The product of a sub-axis' sizes overflows to 0.
// CHECK: error:
heddle.mesh @m ["tp" = 2]
func.func @sub_axis(%x: tensor<4xf32, #heddle.sharding<@m, [{tp:(4611686018427387904)4}]>>) attributes {heddle.mesh = @m} {
  return
}

//--- element.mlir
// The parser checks the encoding of a tensor whose element type is none.
// CHECK: error: unknown type `q3_1` in dialect `heddle`
func.func private @element(tensor<8x64x!heddle.q3_1, #heddle.sharding<@m, [{}, {tp, unit = 16}]>>)

//--- packed-element.mlir
// The same for a packed tensor.
// CHECK: error: unknown type `q3_1` in dialect `heddle`
func.func private @element(tensor<32x32x!heddle.q3_1, #heddle.packing<"panel16@1">>)

//--- yield.mlir
// A repeat looks into its regions only after their ops were checked.
// CHECK: error: 'heddle.yield' op operand count (1) does not match
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "yield"}> ({
  ^bb0(%x: tensor<4xf32>):
    %0 = "heddle.repeat"(%x) <{inoutKinds = array<i64>, operandSegmentSizes = array<i32: 1, 0, 0>, order = array<i64: 0>, paramKinds = array<i64>}> ({
    ^bb0(%c: tensor<4xf32>):
      "heddle.yield"(%c) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (tensor<4xf32>) -> ()
    }) : (tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%0) : (tensor<4xf32>) -> ()
  }) : () -> ()
}) : () -> ()

//--- empty.mlir
// A unit of a dimension of 0 would have 0 elements.
// CHECK: error: expected tensors that are not empty, got 'tensor<4x0xf32>'
heddle.mesh @m ["tp" = 2]
func.func @empty(%x: tensor<4x0xf32>) -> tensor<4x0xf32> {
  return %x : tensor<4x0xf32>
}

//--- huge.mlir
// Bytes of this tensor do not fit into 64 bits.
// CHECK: error: expected tensors of at most 281474976710656 elements
heddle.mesh @m ["tp" = 2]
func.func @huge(%x: tensor<1x4611686018427387904xf32>) -> tensor<1x4611686018427387904xf32> {
  return %x : tensor<1x4611686018427387904xf32>
}

//--- units.mlir
// A layout lists its units, and this one would fill the memory.
// CHECK: error: expected at most 16777216 units to deal out
heddle.mesh @m ["tp" = 2]
func.func @units(%x: tensor<2147483647xf32, #heddle.sharding<@m, [{tp}]>>) attributes {heddle.mesh = @m} {
  return
}

//--- extent.mlir
// Padding to whole units must not overflow.
// CHECK: error: expected a dimension and its unit to be of 1 to 2147483648 elements, got 8 and 9223372036854775807
heddle.mesh @m ["tp" = 2]
func.func @extent(%x: tensor<8xf32, #heddle.sharding<@m, [{tp, unit = 9223372036854775807}]>>) attributes {heddle.mesh = @m} {
  return
}

//--- local.mlir
// Local programs may be written by hand, too.
// CHECK: error: expected tensors of static shape, got 'tensor<?xf32>'
heddle.mesh @m ["tp" = 2]
func.func @local(%x: tensor<?xf32>) attributes {heddle.local, heddle.mesh = @m} {
  return
}

//--- body.mlir
// A declaration has no instructions.
// CHECK: error: expected a program with a body, got none
heddle.mesh @m ["tp" = 2]
func.func private @body(tensor<4xf32>)

//--- stack.mlir
// A parameter of layers is a stack of them.
// CHECK: error: expected 'l.{i}.w' to be a stack of 2 layers, got 'tensor<f32>'
heddle.mesh @m ["tp" = 1]
func.func @stack(%w: tensor<f32> {heddle.binding = #heddle.binding<param "l.{i}.w" layers [0, 1]>, heddle.global = tensor<f32>}) attributes {heddle.local, heddle.mesh = @m} {
  return
}

//--- kernel.mlir
// Kernels may be written by hand, too.
// CHECK: error: expected tensors of at most 281474976710656 elements
func.func @kernel(%x: tensor<1x4x9223372036854775807xf32>) -> tensor<1x4x9223372036854775807xf32> attributes {heddle.local, heddle.kernel} {
  %0 = heddle.add %x, %x : (tensor<1x4x9223372036854775807xf32>, tensor<1x4x9223372036854775807xf32>) -> tensor<1x4x9223372036854775807xf32>
  return %0 : tensor<1x4x9223372036854775807xf32>
}

//--- kernel-block.mlir
// A block lies along the last dimension, and there is none.
// CHECK: error: expected whole blocks of 32 elements, got 'tensor<!heddle.q8_0>'
func.func @kernel(%x: tensor<!heddle.q8_0>) attributes {heddle.local, heddle.kernel} {
  return
}
