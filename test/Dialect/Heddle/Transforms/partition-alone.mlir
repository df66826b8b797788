// RUN: heddle-opt %s --heddle-annotate="strategy=tensor(tp)" --heddle-partition | FileCheck %s

heddle.mesh @m ["tp" = 1]

// A group of one rank has nothing to say: pending sums are sums, parts are
// wholes.
// CHECK-LABEL: func.func @mlp
// CHECK-NOT: comm.
// CHECK: return
func.func @mlp(%x: tensor<2x5x8xf32>, %wg: tensor<12x8xf32>, %wu: tensor<12x8xf32>, %wd: tensor<8x12xf32>) -> tensor<2x5x8xf32> attributes {heddle.mesh = @m} {
  %g = heddle.linear %x, %wg : (tensor<2x5x8xf32>, tensor<12x8xf32>) -> tensor<2x5x12xf32>
  %u = heddle.linear %x, %wu : (tensor<2x5x8xf32>, tensor<12x8xf32>) -> tensor<2x5x12xf32>
  %h = heddle.glu silu %g, %u : (tensor<2x5x12xf32>, tensor<2x5x12xf32>) -> tensor<2x5x12xf32>
  %d = heddle.linear %h, %wd : (tensor<2x5x12xf32>, tensor<8x12xf32>) -> tensor<2x5x8xf32>
  return %d : tensor<2x5x8xf32>
}
