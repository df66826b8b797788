// RUN: heddle-opt %s --heddle-quantize-activations | FileCheck %s
// RUN: heddle-opt %s --heddle-quantize-activations --heddle-quantize-activations | FileCheck %s
// RUN: heddle-opt %s --heddle-quantize-activations --heddle-annotate --heddle-partition | FileCheck %s --check-prefix=LOCAL

heddle.mesh @m ["tp" = 3]

// One copy serves both products of %x; the product with fp32 weights keeps its
// input. Doing it twice changes nothing.
// CHECK-LABEL: func.func @mlp
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<1x4x64xf32>
// CHECK: %[[Q:.*]] = heddle.quantize %[[X]]
// CHECK-NEXT: %[[G:.*]] = heddle.linear %[[Q]],
// CHECK-NEXT: %[[U:.*]] = heddle.linear %[[Q]],
// CHECK-NEXT: %[[H:.*]] = heddle.glu silu %[[G]], %[[U]]
// CHECK-NEXT: %[[P:.*]] = heddle.quantize %[[H]]
// CHECK-NEXT: %[[D:.*]] = heddle.linear %[[P]],
// CHECK-NEXT: heddle.linear %[[D]],
// CHECK-NOT: heddle.quantize
// The hidden width is cut between blocks, and what is cut is quantised where it
// is made: nothing is gathered.
// LOCAL-LABEL: func.func @mlp
// LOCAL: heddle.glu silu {{.*}} -> tensor<1x4x64xf32>
// LOCAL-NEXT: heddle.quantize {{.*}} -> tensor<1x4x64x!heddle.q8>
// LOCAL-NEXT: heddle.linear
// LOCAL-NEXT: comm.all_reduce
// LOCAL-NOT: comm.all_gather
func.func @mlp(%x: tensor<1x4x64xf32>, %wg: tensor<192x64x!heddle.q4_1>, %wu: tensor<192x64x!heddle.q8_0>, %wd: tensor<64x192x!heddle.q4_0>, %w: tensor<7x64xf32>) -> tensor<1x4x7xf32> {
  %g = heddle.linear %x, %wg : (tensor<1x4x64xf32>, tensor<192x64x!heddle.q4_1>) -> tensor<1x4x192xf32>
  %u = heddle.linear %x, %wu : (tensor<1x4x64xf32>, tensor<192x64x!heddle.q8_0>) -> tensor<1x4x192xf32>
  %h = heddle.glu silu %g, %u : (tensor<1x4x192xf32>, tensor<1x4x192xf32>) -> tensor<1x4x192xf32>
  %d = heddle.linear %h, %wd : (tensor<1x4x192xf32>, tensor<64x192x!heddle.q4_0>) -> tensor<1x4x64xf32>
  %y = heddle.linear %d, %w : (tensor<1x4x64xf32>, tensor<7x64xf32>) -> tensor<1x4x7xf32>
  return %y : tensor<1x4x7xf32>
}
