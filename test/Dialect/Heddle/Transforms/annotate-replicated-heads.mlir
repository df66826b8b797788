// RUN: heddle-opt %s --heddle-annotate --heddle-verify-global | FileCheck %s

heddle.mesh @m ["tp" = 4]

// Two key/value heads on four ranks: the major half of the axis chooses the
// head, the minor half holds copies. No table is needed.
// CHECK-NOT: heddle.table
// CHECK-LABEL: func.func @attention
// CHECK-SAME: tensor<1x3x8x4xf32, #heddle.sharding<@m, [{}, {}, {tp}, {}]>>
// CHECK-SAME: tensor<1x5x2x4xf32, #heddle.sharding<@m, [{}, {}, {tp:(1)2}, {}]>>
func.func @attention(%q: tensor<1x3x8x4xf32>, %k: tensor<1x5x2x4xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>) -> tensor<1x3x8x4xf32> {
  %0 = heddle.attention %q, %k, %k pos(%qp, %kp) scale 0.5 causal
    : (tensor<1x3x8x4xf32>, tensor<1x5x2x4xf32>, tensor<1x5x2x4xf32>, tensor<1x3xi32>, tensor<1x5xi32>) -> tensor<1x3x8x4xf32>
  return %0 : tensor<1x3x8x4xf32>
}
