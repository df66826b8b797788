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

// A pending sum over an axis does not flow into a product whose own result that
// axis cuts.
// CHECK-LABEL: func.func @logits_of_pending_sum
// CHECK: %[[D:.*]] = heddle.linear {{.*}} partial = sum{tp}
// CHECK: %[[R:.*]] = heddle.reshard %[[D]]
// CHECK: heddle.linear %[[R]], {{.*}} -> tensor<1x4x6xf32, #heddle.sharding<@m, [{}, {}, {tp}]>>
func.func @logits_of_pending_sum(%g: tensor<1x4x12xf32>, %wd: tensor<8x12xf32>, %w: tensor<6x8xf32>) -> tensor<1x4x6xf32> {
  %h = heddle.glu silu %g, %g : (tensor<1x4x12xf32>, tensor<1x4x12xf32>) -> tensor<1x4x12xf32>
  %d = heddle.linear %h, %wd : (tensor<1x4x12xf32>, tensor<8x12xf32>) -> tensor<1x4x8xf32>
  %y = heddle.linear %d, %w : (tensor<1x4x8xf32>, tensor<6x8xf32>) -> tensor<1x4x6xf32>
  return %y : tensor<1x4x6xf32>
}
