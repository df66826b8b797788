// RUN: split-file %s %t
// RUN: not heddle-opt %t/no-mesh.mlir --heddle-verify-local 2>&1 | FileCheck %t/no-mesh.mlir
// RUN: not heddle-opt %t/scalar.mlir --heddle-annotate 2>&1 | FileCheck %t/scalar.mlir
// RUN: not heddle-opt %t/dynamic.mlir --heddle-annotate 2>&1 | FileCheck %t/dynamic.mlir
// RUN: not heddle-opt %t/sub-axis.mlir --heddle-verify-global 2>&1 | FileCheck %t/sub-axis.mlir

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
