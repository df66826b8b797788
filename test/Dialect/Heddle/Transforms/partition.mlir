// RUN: sed s/TP/2/ %s | heddle-opt --heddle-annotate --heddle-partition --heddle-verify-local | FileCheck %s --check-prefixes=CHECK,TP2
// RUN: sed s/TP/3/ %s | heddle-opt --heddle-annotate --heddle-partition --heddle-verify-local | FileCheck %s --check-prefixes=CHECK,TP3
// RUN: sed s/TP/5/ %s | heddle-opt --heddle-annotate --heddle-partition --heddle-verify-local | FileCheck %s --check-prefixes=CHECK,TP5
// RUN: sed s/TP/2/ %S/Inputs/decode.mlir | heddle-opt --heddle-annotate --heddle-partition --heddle-verify-local | FileCheck %s --check-prefixes=DECODE,DECODE2
// RUN: sed s/TP/3/ %S/Inputs/decode.mlir | heddle-opt --heddle-annotate --heddle-partition --heddle-verify-local | FileCheck %s --check-prefixes=DECODE,DECODE3
// RUN: sed s/TP/5/ %S/Inputs/decode.mlir | heddle-opt --heddle-annotate --heddle-partition --heddle-verify-local | FileCheck %s --check-prefixes=DECODE,DECODE5

heddle.mesh @m ["tp" = TP]

// Megatron's MLP: one all-reduce, before the bias. With tp = 5 a rank has room
// for 3 of 12 columns and the last rank has only padding; the weights' padding
// is zero because recipes fill it, so the product needs no mask.
// CHECK-LABEL: func.func @mlp
// TP2-SAME: tensor<6x8xf32> {{{.*}}heddle.global = tensor<12x8xf32, #heddle.sharding<@m, [{tp}, {}]>>
// TP3-SAME: tensor<4x8xf32> {{{.*}}heddle.global = tensor<12x8xf32, #heddle.sharding<@m, [{tp}, {}]>>
// TP5-SAME: tensor<3x8xf32> {{{.*}}heddle.global = tensor<12x8xf32, #heddle.sharding<@m, [{tp}, {}]>>
// CHECK-SAME: heddle.local
func.func @mlp(
    %x: tensor<1x4x8xf32>,
    %wg: tensor<12x8xf32> {heddle.binding = #heddle.binding<param "gate">},
    %wu: tensor<12x8xf32> {heddle.binding = #heddle.binding<param "up">},
    %wd: tensor<8x12xf32> {heddle.binding = #heddle.binding<param "down">},
    %bd: tensor<8xf32> {heddle.binding = #heddle.binding<param "bias">}) -> tensor<1x4x8xf32> {
  %g = heddle.linear %x, %wg : (tensor<1x4x8xf32>, tensor<12x8xf32>) -> tensor<1x4x12xf32>
  %u = heddle.linear %x, %wu : (tensor<1x4x8xf32>, tensor<12x8xf32>) -> tensor<1x4x12xf32>
  // CHECK: %[[H:.*]] = heddle.glu
  %h = heddle.glu silu %g, %u : (tensor<1x4x12xf32>, tensor<1x4x12xf32>) -> tensor<1x4x12xf32>
  // CHECK: %[[D:.*]] = heddle.linear %[[H]],
  // CHECK: %[[S:.*]] = comm.all_reduce sum %[[D]] group [#heddle.axis<tp>] because "heddle.bias_add needs a complete value"
  // CHECK: %[[B:.*]] = heddle.bias_add %[[S]]
  %d = heddle.linear %h, %wd bias %bd : (tensor<1x4x12xf32>, tensor<8x12xf32>, tensor<8xf32>) -> tensor<1x4x8xf32>
  // CHECK: heddle.add {{.*}}, %[[B]]
  // CHECK-NOT: comm.
  %y = heddle.add %x, %d : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  return %y : tensor<1x4x8xf32>
}

// Nothing is known of the padding of these weights, and 0 times NaN is NaN, so
// both factors of the contraction are masked, but only where there is padding.
// CHECK-LABEL: func.func @unknown_padding
func.func @unknown_padding(%x: tensor<1x4x8xf32>, %wg: tensor<12x8xf32>, %wd: tensor<8x12xf32>) -> tensor<1x4x8xf32> {
  %g = heddle.linear %x, %wg : (tensor<1x4x8xf32>, tensor<12x8xf32>) -> tensor<1x4x12xf32>
  // TP2-NOT: heddle.mask_pad
  // TP3-NOT: heddle.mask_pad
  // TP5: %[[H:.*]] = heddle.glu
  // TP5: %[[HM:.*]] = heddle.mask_pad %[[H]] dim 2 units <{tp}, {{\[\[}}0], [1], [2], [3], [-1]]> of 3 size 12 identity 0.0
  // TP5: %[[WM:.*]] = heddle.mask_pad %{{.*}} dim 1 units <{tp}, {{\[\[}}0], [1], [2], [3], [-1]]> of 3 size 12 identity 0.0
  // TP5: heddle.linear %[[HM]], %[[WM]]
  %h = heddle.glu silu %g, %g : (tensor<1x4x12xf32>, tensor<1x4x12xf32>) -> tensor<1x4x12xf32>
  %d = heddle.linear %h, %wd : (tensor<1x4x12xf32>, tensor<8x12xf32>) -> tensor<1x4x8xf32>
  %y = heddle.add %x, %d : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  return %y : tensor<1x4x8xf32>
}

// Vocabulary-parallel embedding: each rank answers for its own words and the
// others get zero rows. The table of units has one column, whatever the size of
// the vocabulary.
// DECODE-LABEL: func.func @decode
// DECODE2: heddle.local_index %{{.*}} units <{tp}, {{\[\[}}0], [1]]> of 5
// DECODE3: heddle.local_index %{{.*}} units <{tp}, {{\[\[}}0], [1], [2]]> of 4
// DECODE5: heddle.local_index %{{.*}} units <{tp}, {{\[\[}}0], [1], [2], [3], [4]]> of 2
// DECODE: comm.all_reduce sum

// Query head h reads key/value head h / 3. Where the local grouping is not
// that, kv_heads says which slot; -1 is a padded head.
// DECODE: heddle.repeat
// DECODE2: heddle.attention {{.*}} causal : (tensor<1x1x3x4xf32>, tensor<4x8x1x4xf32>
// DECODE3: heddle.attention {{.*}} kv_heads <{tp}, {{\[\[}}0, 0], [0, 1], [0, 0]]> : (tensor<1x1x2x4xf32>, tensor<4x8x2x4xf32>
// DECODE5: heddle.attention {{.*}} kv_heads <{tp}, {{\[\[}}0, 0], [0, 1], [0, 0], [-1, -1], [-1, -1]]> : (tensor<1x1x2x4xf32>, tensor<4x8x2x4xf32>
// DECODE-NOT: heddle.mask_pad
// DECODE: comm.all_reduce sum
// DECODE: heddle.yield

// Logits are gathered; 10 words on 3 ranks leave padding that must not win.
// DECODE2: comm.all_gather {{.*}} -> tensor<1x1x10xf32>
// DECODE2-NEXT: heddle.argmax
// DECODE3: comm.all_gather {{.*}} -> tensor<1x1x12xf32>
// DECODE3-NEXT: heddle.take_units %{{.*}} dim 2 slots <{}, {{\[\[}}0]]> of 12 : tensor<1x1x12xf32> -> tensor<1x1x10xf32>
// DECODE3-NEXT: heddle.argmax
// DECODE5: comm.all_gather {{.*}} -> tensor<1x1x10xf32>
// DECODE5-NEXT: heddle.argmax
// DECODE-NOT: comm.
