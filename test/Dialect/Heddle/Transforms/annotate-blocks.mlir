// RUN: sed s/TP/2/ %s | heddle-opt --heddle-annotate --heddle-verify-global --split-input-file --verify-diagnostics | FileCheck %s --check-prefixes=CHECK,TP2
// RUN: sed s/TP/3/ %s | heddle-opt --heddle-annotate --heddle-verify-global --split-input-file --verify-diagnostics | FileCheck %s --check-prefixes=CHECK,TP3

// Blocks of quantised tensors stay whole: the unit of a cut is the smallest
// that makes whole blocks wherever the cut reaches.

heddle.mesh @m ["tp" = TP]

// Of heads of 16 columns two make a block of 32. Key/value heads are rows of
// their weights, so they are held one by one, where a query head reads them.
// TP2: heddle.table @kv_heads {{\[\[}}0, 1], [1, -1]]
// TP3: heddle.table @kv_heads {{\[\[}}0, -1], [0, 1], [1, -1]]
// CHECK-LABEL: func.func @heads
func.func @heads(%q: tensor<1x4x6x16xf32>, %k: tensor<1x4x2x16xf32>, %p: tensor<1x4xi32>, %wo: tensor<8x96x!heddle.q8_0>) -> tensor<1x4x8xf32> {
  // CHECK: heddle.attention {{.*}} -> tensor<1x4x6x16xf32, #heddle.sharding<@m, [{}, {}, {tp, unit = 2}, {}]>>
  %a = heddle.attention %q, %k, %k pos(%p, %p) scale 0.25
    : (tensor<1x4x6x16xf32>, tensor<1x4x2x16xf32>, tensor<1x4x2x16xf32>, tensor<1x4xi32>, tensor<1x4xi32>) -> tensor<1x4x6x16xf32>
  // CHECK: heddle.merge_heads {{.*}} -> tensor<1x4x96xf32, #heddle.sharding<@m, [{}, {}, {tp, unit = 32}]>>
  %m = heddle.merge_heads %a : tensor<1x4x6x16xf32> -> tensor<1x4x96xf32>
  // CHECK: heddle.linear {{.*}}tensor<8x96x!heddle.q8_0, #heddle.sharding<@m, [{}, {tp, unit = 32}]>>
  %y = heddle.linear %m, %wo : (tensor<1x4x96xf32>, tensor<8x96x!heddle.q8_0>) -> tensor<1x4x8xf32>
  %z = heddle.add %y, %y : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  return %z : tensor<1x4x8xf32>
}

// Heads of 48 columns: two are three blocks. A quantised copy of the heads has
// blocks of its own, so the weight need not have any for the unit to be two.
// CHECK-LABEL: func.func @quantised_heads
func.func @quantised_heads(%q: tensor<1x4x4x48xf32>, %p: tensor<1x4xi32>) -> tensor<1x4x192x!heddle.q8> {
  // CHECK: heddle.attention {{.*}} -> tensor<1x4x4x48xf32, #heddle.sharding<@m, [{}, {}, {tp, unit = 2}, {}]>>
  %a = heddle.attention %q, %q, %q pos(%p, %p) scale 0.25
    : (tensor<1x4x4x48xf32>, tensor<1x4x4x48xf32>, tensor<1x4x4x48xf32>, tensor<1x4xi32>, tensor<1x4xi32>) -> tensor<1x4x4x48xf32>
  %m = heddle.merge_heads %a : tensor<1x4x4x48xf32> -> tensor<1x4x192xf32>
  // CHECK: heddle.quantize {{.*}} -> tensor<1x4x192x!heddle.q8, #heddle.sharding<@m, [{}, {}, {tp, unit = 96}]>>
  %y = heddle.quantize %m : (tensor<1x4x192xf32>) -> tensor<1x4x192x!heddle.q8>
  return %y : tensor<1x4x192x!heddle.q8>
}

// Heads of 64 columns are whole blocks: one by one, as without blocks. Blocks
// along columns say nothing about a cut by rows.
// CHECK-LABEL: func.func @whole_heads
func.func @whole_heads(%x: tensor<1x4x32xf32>, %wq: tensor<192x32x!heddle.q8_0>, %p: tensor<1x4xi32>, %wo: tensor<8x192x!heddle.q8_0>) -> tensor<1x4x8xf32> {
  // CHECK: heddle.linear {{.*}}tensor<192x32x!heddle.q8_0, #heddle.sharding<@m, [{tp, unit = 64}, {}]>>
  %n = heddle.linear %x, %wq : (tensor<1x4x32xf32>, tensor<192x32x!heddle.q8_0>) -> tensor<1x4x192xf32>
  %q = heddle.split_heads %n : tensor<1x4x192xf32> -> tensor<1x4x3x64xf32>
  // CHECK: heddle.attention {{.*}} -> tensor<1x4x3x64xf32, #heddle.sharding<@m, [{}, {}, {tp}, {}]>>
  %a = heddle.attention %q, %q, %q pos(%p, %p) scale 0.25
    : (tensor<1x4x3x64xf32>, tensor<1x4x3x64xf32>, tensor<1x4x3x64xf32>, tensor<1x4xi32>, tensor<1x4xi32>) -> tensor<1x4x3x64xf32>
  %m = heddle.merge_heads %a : tensor<1x4x3x64xf32> -> tensor<1x4x192xf32>
  %y = heddle.linear %m, %wo : (tensor<1x4x192xf32>, tensor<8x192x!heddle.q8_0>) -> tensor<1x4x8xf32>
  %z = heddle.add %y, %y : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  return %z : tensor<1x4x8xf32>
}

// -----

// One weight that one product needs cut by columns, another by rows.
heddle.mesh @m ["tp" = TP]
func.func @two_layouts(%g: tensor<1x4x64xf32>, %x: tensor<1x4x64xf32>,
    // expected-error @below {{a quantised value: expected one layout of blocks of 32 columns, got #heddle.sharding<@m, [{tp}, {}]> where #heddle.sharding<@m, [{}, {tp, unit = 32}]> is needed; weights stored as f32 or bf16 have no blocks}}
    %w: tensor<64x64x!heddle.q8_0>) -> (tensor<1x4x64xf32>, tensor<1x4x64xf32>) {
  %h = heddle.glu silu %g, %g : (tensor<1x4x64xf32>, tensor<1x4x64xf32>) -> tensor<1x4x64xf32>
  %y = heddle.linear %h, %w : (tensor<1x4x64xf32>, tensor<64x64x!heddle.q8_0>) -> tensor<1x4x64xf32>
  %z = heddle.add %y, %y : (tensor<1x4x64xf32>, tensor<1x4x64xf32>) -> tensor<1x4x64xf32>
  %l = heddle.linear %x, %w : (tensor<1x4x64xf32>, tensor<64x64x!heddle.q8_0>) -> tensor<1x4x64xf32>
  return %z, %l : tensor<1x4x64xf32>, tensor<1x4x64xf32>
}
