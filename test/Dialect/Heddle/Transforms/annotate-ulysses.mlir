// RUN: heddle-opt %s --heddle-annotate='strategy=ulysses(sp);ring(cp)' | FileCheck %s
// RUN: heddle-opt %s --heddle-annotate='strategy=ulysses(sp);ring(cp)' --heddle-partition | FileCheck %s --check-prefix=LOCAL

heddle.mesh @m ["sp" = 2, "cp" = 2]

// Outside, the parts of a ring are cut again over sp; inside, a rank has some
// heads of what its part of the ring has. Four heads share two of keys.
// CHECK: heddle.table @[[$PARTS:.*]] {{\[\[}}0, 1], [6, 7], [2, 3], [4, 5{{\]\]}}
// CHECK-LABEL: func.func @attention
// CHECK-SAME: tensor<1x16x4x8xf32, #heddle.sharding<@m, [{}, {cp, sp, unit = 2, map = table @[[$PARTS]]}, {}, {}]>>
// CHECK: %[[Q:.*]] = heddle.reshard {{.*}} -> tensor<1x16x4x8xf32, #heddle.sharding<@m, [{}, {cp, unit = 2, map = zigzag}, {sp}, {}]>>
// CHECK: heddle.attention %[[Q]], {{.*}} keys <ring {cp}>

// LOCAL-LABEL: func.func @attention
// The positions of a part of the ring.
// LOCAL-DAG: comm.all_gather {{.*}} dim 1 group [#heddle.axis<sp>] {{.*}} tensor<1x4xi32> -> tensor<1x8xi32>
// Nothing is picked or dropped: sizes divide.
// LOCAL-DAG: comm.all_to_all {{.*}} split 2 concat 1 group [#heddle.axis<sp>] {{.*}} tensor<1x4x4x8xf32> -> tensor<1x8x2x8xf32>
// LOCAL-DAG: comm.all_to_all {{.*}} split 2 concat 1 group [#heddle.axis<sp>] {{.*}} tensor<1x4x2x8xf32> -> tensor<1x8x1x8xf32>
// LOCAL: comm.permute_start
// LOCAL: comm.all_to_all {{.*}} split 1 concat 2 group [#heddle.axis<sp>] {{.*}} tensor<1x8x2x8xf32> -> tensor<1x4x4x8xf32>
// LOCAL-NOT: comm.
func.func @attention(%q: tensor<1x16x4x8xf32>, %k: tensor<1x16x2x8xf32>, %v: tensor<1x16x2x8xf32>, %p: tensor<1x16xi32>) -> tensor<1x16x32xf32> {
  %0 = heddle.rotary_table %p <dim 8 theta 10000.0> : (tensor<1x16xi32>) -> tensor<1x16x8xf32>
  %1 = heddle.rotary %q, %0 : (tensor<1x16x4x8xf32>, tensor<1x16x8xf32>) -> tensor<1x16x4x8xf32>
  %2 = heddle.attention %1, %k, %v pos(%p, %p) scale 0.5 causal
    : (tensor<1x16x4x8xf32>, tensor<1x16x2x8xf32>, tensor<1x16x2x8xf32>, tensor<1x16xi32>, tensor<1x16xi32>) -> tensor<1x16x4x8xf32>
  %3 = heddle.merge_heads %2 : tensor<1x16x4x8xf32> -> tensor<1x16x32xf32>
  return %3 : tensor<1x16x32xf32>
}
