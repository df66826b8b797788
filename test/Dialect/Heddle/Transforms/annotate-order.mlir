// RUN: heddle-opt %s --heddle-annotate | FileCheck %s
// RUN: heddle-opt %s --heddle-annotate='strategy=tensor(tp);data(dp)' | FileCheck %s

heddle.mesh @m ["dp" = 2, "tp" = 2]

// Two strategies take different dimensions, in either order; an axis that is
// not in a tensor's sharding holds copies of it.
// CHECK-LABEL: func.func @mlp
// CHECK-SAME: tensor<4x3x8xf32, #heddle.sharding<@m, [{dp}, {}, {}]>>
// CHECK-SAME: tensor<12x8xf32, #heddle.sharding<@m, [{tp}, {}]>>
func.func @mlp(%x: tensor<4x3x8xf32> {heddle.binding = #heddle.binding<input "x">}, %wg: tensor<12x8xf32>, %wd: tensor<8x12xf32>) -> tensor<4x3x8xf32> {
  %g = heddle.linear %x, %wg : (tensor<4x3x8xf32>, tensor<12x8xf32>) -> tensor<4x3x12xf32>
  // CHECK: heddle.glu {{.*}} -> tensor<4x3x12xf32, #heddle.sharding<@m, [{dp}, {}, {tp}]>>
  %h = heddle.glu silu %g, %g : (tensor<4x3x12xf32>, tensor<4x3x12xf32>) -> tensor<4x3x12xf32>
  // CHECK: heddle.linear {{.*}} -> tensor<4x3x8xf32, #heddle.sharding<@m, [{dp}, {}, {}], partial = sum{tp}>>
  %d = heddle.linear %h, %wd : (tensor<4x3x12xf32>, tensor<8x12xf32>) -> tensor<4x3x8xf32>
  // CHECK: heddle.reshard {{.*}} because "heddle.add needs a complete value" : {{.*}} -> tensor<4x3x8xf32, #heddle.sharding<@m, [{dp}, {}, {}]>>
  %y = heddle.add %x, %d : (tensor<4x3x8xf32>, tensor<4x3x8xf32>) -> tensor<4x3x8xf32>
  return %y : tensor<4x3x8xf32>
}
