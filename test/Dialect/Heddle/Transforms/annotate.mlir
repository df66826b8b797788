// RUN: sed s/TP/2/ %s | heddle-opt --heddle-annotate --heddle-verify-global | FileCheck %s
// RUN: sed s/TP/3/ %s | heddle-opt --heddle-annotate --heddle-verify-global | FileCheck %s
// RUN: sed s/TP/5/ %s | heddle-opt --heddle-annotate --heddle-verify-global | FileCheck %s
// RUN: sed s/TP/2/ %S/Inputs/decode.mlir | heddle-opt --heddle-annotate --heddle-verify-global | FileCheck %s --check-prefixes=DECODE,DECODE2
// RUN: sed s/TP/3/ %S/Inputs/decode.mlir | heddle-opt --heddle-annotate --heddle-verify-global | FileCheck %s --check-prefixes=DECODE,DECODE3
// RUN: sed s/TP/5/ %S/Inputs/decode.mlir | heddle-opt --heddle-annotate --heddle-verify-global | FileCheck %s --check-prefixes=DECODE,DECODE5

heddle.mesh @m ["tp" = TP]

// The gated unit decides: gate and up are cut by rows, down by columns, and the
// product is a pending sum. The bias must be added once, so it leaves the
// product and waits until the sum is complete; the residual adds to a complete
// value too. No degree changes this, whether or not it divides 12.
// CHECK-LABEL: func.func @mlp
// CHECK-SAME: %[[X:[^:]*]]: tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {}, {}]>>
// CHECK-SAME: %[[WG:[^:]*]]: tensor<12x8xf32, #heddle.sharding<@m, [{tp}, {}]>>
// CHECK-SAME: %[[WU:[^:]*]]: tensor<12x8xf32, #heddle.sharding<@m, [{tp}, {}]>>
// CHECK-SAME: %[[WD:[^:]*]]: tensor<8x12xf32, #heddle.sharding<@m, [{}, {tp}]>>
// CHECK-SAME: %[[BD:[^:]*]]: tensor<8xf32, #heddle.sharding<@m, [{}]>>
// CHECK-SAME: heddle.mesh = @m
func.func @mlp(%x: tensor<1x4x8xf32>, %wg: tensor<12x8xf32>, %wu: tensor<12x8xf32>, %wd: tensor<8x12xf32>, %bd: tensor<8xf32>) -> tensor<1x4x8xf32> {
  // CHECK: %[[G:.*]] = heddle.linear %[[X]], %[[WG]]
  // CHECK: %[[U:.*]] = heddle.linear %[[X]], %[[WU]]
  %g = heddle.linear %x, %wg : (tensor<1x4x8xf32>, tensor<12x8xf32>) -> tensor<1x4x12xf32>
  %u = heddle.linear %x, %wu : (tensor<1x4x8xf32>, tensor<12x8xf32>) -> tensor<1x4x12xf32>
  // CHECK: %[[H:.*]] = heddle.glu silu %[[G]], %[[U]] {{.*}} -> tensor<1x4x12xf32, #heddle.sharding<@m, [{}, {}, {tp}]>>
  %h = heddle.glu silu %g, %u : (tensor<1x4x12xf32>, tensor<1x4x12xf32>) -> tensor<1x4x12xf32>
  // CHECK: %[[D:.*]] = heddle.linear %[[H]], %[[WD]] : {{.*}} -> tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {}, {}], partial = sum{tp}>>
  // CHECK: %[[S:.*]] = heddle.reshard %[[D]] because "heddle.bias_add needs a complete value"
  // CHECK: %[[B:.*]] = heddle.bias_add %[[S]], %[[BD]]
  %d = heddle.linear %h, %wd bias %bd : (tensor<1x4x12xf32>, tensor<8x12xf32>, tensor<8xf32>) -> tensor<1x4x8xf32>
  // CHECK: %[[Y:.*]] = heddle.add %[[X]], %[[B]]
  %y = heddle.add %x, %d : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  // CHECK: return %[[Y]]
  return %y : tensor<1x4x8xf32>
}

// The width of a gated unit is cut between blocks of the weight that contracts
// it, because a block is decoded whole: 96 = 3 blocks.
// CHECK-LABEL: func.func @blocks
func.func @blocks(%x: tensor<1x4x32xf32>, %wg: tensor<96x32x!heddle.q8_0>, %wd: tensor<32x96x!heddle.q8_0>) -> tensor<1x4x32xf32> {
  // CHECK: heddle.linear {{.*}} -> tensor<1x4x96xf32, #heddle.sharding<@m, [{}, {}, {tp, unit = 32}]>>
  %g = heddle.linear %x, %wg : (tensor<1x4x32xf32>, tensor<96x32x!heddle.q8_0>) -> tensor<1x4x96xf32>
  %h = heddle.glu silu %g, %g : (tensor<1x4x96xf32>, tensor<1x4x96xf32>) -> tensor<1x4x96xf32>
  // CHECK: heddle.linear {{.*}}tensor<32x96x!heddle.q8_0, #heddle.sharding<@m, [{}, {tp, unit = 32}]>>
  %d = heddle.linear %h, %wd : (tensor<1x4x96xf32>, tensor<32x96x!heddle.q8_0>) -> tensor<1x4x32xf32>
  %y = heddle.add %x, %d : (tensor<1x4x32xf32>, tensor<1x4x32xf32>) -> tensor<1x4x32xf32>
  return %y : tensor<1x4x32xf32>
}

// Key/value heads follow the query heads that read them. With tp = 2 a group
// lies on one rank and blocks do; with tp = 3 rank 1 reads both heads; with
// tp = 5 the last two ranks read none. A table says so, head by head.
// DECODE2-NOT: heddle.table
// DECODE3: heddle.table @kv_heads {{\[\[}}0, -1], [0, 1], [1, -1]]
// DECODE5: heddle.table @kv_heads {{\[\[}}0, -1], [0, 1], [1, -1], [-1, -1], [-1, -1]]
// DECODE-LABEL: func.func @decode
// DECODE: heddle.embedding {{.*}}tensor<10x24xf32, #heddle.sharding<@m, [{tp}, {}]>>) -> tensor<1x1x24xf32, #heddle.sharding<@m, [{}, {}, {}], partial = sum{tp}>>
// DECODE: heddle.reshard {{.*}} because "heddle.repeat needs a complete value"
// DECODE: heddle.repeat order [0, 0, 0]
// DECODE: heddle.split_heads {{.*}} -> tensor<1x1x6x4xf32, #heddle.sharding<@m, [{}, {}, {tp}, {}]>>
// DECODE2: heddle.split_heads {{.*}} -> tensor<1x1x2x4xf32, #heddle.sharding<@m, [{}, {}, {tp}, {}]>>
// DECODE3: heddle.split_heads {{.*}} -> tensor<1x1x2x4xf32, #heddle.sharding<@m, [{}, {}, {tp, map = table @kv_heads}, {}]>>
// DECODE5: heddle.split_heads {{.*}} -> tensor<1x1x2x4xf32, #heddle.sharding<@m, [{}, {}, {tp, map = table @kv_heads}, {}]>>
// DECODE: heddle.attention
// DECODE: heddle.merge_heads {{.*}} -> tensor<1x1x24xf32, #heddle.sharding<@m, [{}, {}, {tp, unit = 4}]>>
// DECODE: heddle.linear {{.*}} partial = sum{tp}>>
// DECODE: heddle.reshard {{.*}} because "heddle.add needs a complete value"
// DECODE: heddle.yield

// The logits are cut by words, as the tied table is; the sampler sees them all.
// DECODE: heddle.linear {{.*}} -> tensor<1x1x10xf32, #heddle.sharding<@m, [{}, {}, {tp}]>>
// DECODE: heddle.reshard {{.*}} because "heddle.argmax needs another layout"
// DECODE: heddle.argmax
