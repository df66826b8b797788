// RUN: heddle-opt %s --heddle-codegen-cpu=target=x86-64-v3 --canonicalize --cse | FileCheck %s
// RUN: not heddle-opt %s --heddle-codegen-cpu=target=z80 2>&1 | FileCheck %s --check-prefix=TARGET

// TARGET: error: expected target host (x86-64-v3 or better), x86-64-v3 or x86-64-v4, got 'z80'

// Memory is one tile of queries (3 heads share a key head: one vector of 8
// lanes) and one block of 66 keys, whatever the number of keys (4096 here); the
// running maxima and sums, a lane for each query, are carried from block to
// block. Keys in fp32 are read where they are.

// CHECK-LABEL: func.func @attention
// CHECK-DAG: memref.alloca() {{.*}} : memref<512xf32>
// CHECK-DAG: memref.alloca() {{.*}} : memref<528xf32>
// CHECK-DAG: memref.alloca() {{.*}} : memref<66xi32>
// CHECK-NOT: memref<4
// CHECK: scf.for {{.*}} iter_args({{.*}}) -> (vector<8xf32>, vector<8xf32>)
// Offsets of elements are as wide as an address.
// CHECK: arith.muli %{{.*}}, %{{.*}} : index
// CHECK: memref.load %{{.*}} : memref<786432xf32>
func.func private @attention(%q: tensor<1x1x9x64xf32>, %k: tensor<64x64x3x64xf32>, %v: tensor<64x64x3x64xf32>,
    %qp: tensor<1x1xi32>, %kp: tensor<64x64xi32>, %blocks: tensor<1x64xi32>, %lengths: tensor<1xi32>) -> tensor<1x1x9x64xf32>
    attributes {heddle.local, heddle.kernel} {
  %o = heddle.attention %q, %k, %v pos(%qp, %kp) blocks(%blocks) lengths(%lengths) scale 0.125 causal
    : (tensor<1x1x9x64xf32>, tensor<64x64x3x64xf32>, tensor<64x64x3x64xf32>, tensor<1x1xi32>, tensor<64x64xi32>, tensor<1x64xi32>, tensor<1xi32>) -> tensor<1x1x9x64xf32>
  return %o : tensor<1x1x9x64xf32>
}
