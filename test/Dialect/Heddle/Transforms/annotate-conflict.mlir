// RUN: heddle-opt %s --heddle-annotate --heddle-verify-global | FileCheck %s

heddle.mesh @m ["tp" = 2]

// The product of a gated unit is at the same time taken for logits, so tensor
// parallelism would cut both factors of one product over one axis. One of the
// two must give way: the result has the axis once, and a reshard says why.
// CHECK-LABEL: func.func @logits_of_gated_unit
// CHECK: heddle.reshard
// CHECK: return
func.func @logits_of_gated_unit(%g: tensor<1x4x12xf32>, %w: tensor<8x12xf32>) -> tensor<1x4x8xf32> {
  %h = heddle.glu silu %g, %g : (tensor<1x4x12xf32>, tensor<1x4x12xf32>) -> tensor<1x4x12xf32>
  %y = heddle.linear %h, %w : (tensor<1x4x12xf32>, tensor<8x12xf32>) -> tensor<1x4x8xf32>
  return %y : tensor<1x4x8xf32>
}
