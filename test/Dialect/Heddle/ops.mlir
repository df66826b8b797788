// RUN: heddle-opt %s | heddle-opt | FileCheck %s

// Every op parses, prints and parses again.

heddle.mesh @m ["dp" = 2, "tp" = 4]
heddle.table @kv [[0, 1], [1, 2], [2, 3], [3, -1]]

// CHECK-LABEL: func.func private @shardings
// CHECK-SAME: #heddle.sharding<@m, [{}, {}, {tp, unit = 64}], partial = sum{dp:(1)2} wire bf16>
// CHECK-SAME: #heddle.sharding<@m, [{}, {tp:(2)2}, {tp:(1)2, map = table @kv}]>
// CHECK-SAME: #heddle.sharding<@m, [{tp, unit = 2, map = cyclic(2)}], partial = sum{dp}>
func.func private @shardings(
  tensor<4x8x256xf32, #heddle.sharding<@m, [{}, {}, {tp, unit = 64}], partial = sum{dp:(1)2} acc f32 wire bf16>>,
  tensor<2x8x256xf32, #heddle.sharding<@m, [{}, {tp:(2)2}, {tp:(1)2, map = table @kv}]>>,
  tensor<8xf32, #heddle.sharding<@m, [{tp, unit = 2, map = cyclic(2)}], partial = sum{dp}>>) -> ()

// CHECK-LABEL: func.func @decode
func.func @decode(%ids: tensor<1x1xi32> {heddle.binding = #heddle.binding<input "tokens">},
    %pos: tensor<1x1xi32>, %blocks: tensor<1x4xi32>, %lengths: tensor<1xi32>,
    %emb: tensor<96x32x!heddle.q8_0> {heddle.binding = #heddle.binding<param "model.embed_tokens.weight" gguf "token_embd.weight">},
    %norm: tensor<2x32xf32> {heddle.binding = #heddle.binding<param "model.layers.{i}.input_layernorm.weight" layers [0, 1] offset 1.000000e+00>},
    %wq: tensor<2x32x32xf32>, %wk: tensor<2x16x32xf32>, %wv: tensor<2x16x32xf32>, %wo: tensor<2x32x32xf32>,
    %wg: tensor<2x64x32xf32>, %wu: tensor<2x64x32xf32>, %wd: tensor<2x32x64xf32>, %bd: tensor<2x32xf32>,
    %kc: tensor<2x4x8x2x8xf32>, %vc: tensor<2x4x8x2x8xf32>, %kp: tensor<4x8xi32>)
    -> (tensor<1x1xi32>, tensor<2x4x8x2x8xf32>, tensor<2x4x8x2x8xf32>, tensor<4x8xi32>) {
  // CHECK: heddle.embedding
  %x0 = heddle.embedding %ids, %emb : (tensor<1x1xi32>, tensor<96x32x!heddle.q8_0>) -> tensor<1x1x32xf32>
  // CHECK: heddle.rotary_table %{{.*}} <dim 8 theta 1.000000e+04 llama3 8.000000e+00 low 1.000000e+00 high 4.000000e+00 original 64>
  %cs = heddle.rotary_table %pos <dim 8 theta 1.0e+4 llama3 8.0 low 1.0 high 4.0 original 64> : (tensor<1x1xi32>) -> tensor<1x1x8xf32>
  // CHECK: heddle.cache_slots %{{.*}}, %{{.*}} size 8
  %slots = heddle.cache_slots %pos, %blocks size 8 : (tensor<1x1xi32>, tensor<1x4xi32>) -> tensor<1x1xi32>
  // CHECK: heddle.cache_append %{{.*}}, %{{.*}} at %{{.*}}
  %kp1 = heddle.cache_append %kp, %pos at %slots : (tensor<4x8xi32>, tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<4x8xi32>
  // CHECK: heddle.repeat order [0, 0] carry(%{{.*}} : tensor<1x1x32xf32>) params(%{{.*}} in 0 : tensor<2x32xf32>
  %x, %kc1, %vc1 = heddle.repeat order [0, 0] carry(%x0 : tensor<1x1x32xf32>)
      params(%norm in 0 : tensor<2x32xf32>, %wq in 0 : tensor<2x32x32xf32>, %wk in 0 : tensor<2x16x32xf32>, %wv in 0 : tensor<2x16x32xf32>,
             %wo in 0 : tensor<2x32x32xf32>, %wg in 0 : tensor<2x64x32xf32>, %wu in 0 : tensor<2x64x32xf32>, %wd in 0 : tensor<2x32x64xf32>, %bd in 0 : tensor<2x32xf32>)
      inout(%kc in 0 : tensor<2x4x8x2x8xf32>, %vc in 0 : tensor<2x4x8x2x8xf32>) {
    kind 0 (%c: tensor<1x1x32xf32>, %n: tensor<32xf32>, %q: tensor<32x32xf32>, %k: tensor<16x32xf32>, %v: tensor<16x32xf32>, %o: tensor<32x32xf32>,
            %g: tensor<64x32xf32>, %u: tensor<64x32xf32>, %d: tensor<32x64xf32>, %b: tensor<32xf32>, %ck: tensor<4x8x2x8xf32>, %cv: tensor<4x8x2x8xf32>) {
      // CHECK: heddle.rms_norm %{{.*}}, %{{.*}} eps {{.*}} : (tensor<1x1x32xf32>, tensor<32xf32>) -> tensor<1x1x32xf32>
      %h = heddle.rms_norm %c, %n eps 1.0e-5 : (tensor<1x1x32xf32>, tensor<32xf32>) -> tensor<1x1x32xf32>
      %q1 = heddle.linear %h, %q : (tensor<1x1x32xf32>, tensor<32x32xf32>) -> tensor<1x1x32xf32>
      %k1 = heddle.linear %h, %k : (tensor<1x1x32xf32>, tensor<16x32xf32>) -> tensor<1x1x16xf32>
      %v1 = heddle.linear %h, %v : (tensor<1x1x32xf32>, tensor<16x32xf32>) -> tensor<1x1x16xf32>
      // CHECK: heddle.split_heads %{{.*}} : tensor<1x1x32xf32> -> tensor<1x1x4x8xf32>
      %q2 = heddle.split_heads %q1 : tensor<1x1x32xf32> -> tensor<1x1x4x8xf32>
      %k2 = heddle.split_heads %k1 : tensor<1x1x16xf32> -> tensor<1x1x2x8xf32>
      %v2 = heddle.split_heads %v1 : tensor<1x1x16xf32> -> tensor<1x1x2x8xf32>
      // CHECK: heddle.rotary %{{.*}}, %{{.*}} : (tensor<1x1x4x8xf32>, tensor<1x1x8xf32>) -> tensor<1x1x4x8xf32>
      %q3 = heddle.rotary %q2, %cs : (tensor<1x1x4x8xf32>, tensor<1x1x8xf32>) -> tensor<1x1x4x8xf32>
      %k3 = heddle.rotary %k2, %cs : (tensor<1x1x2x8xf32>, tensor<1x1x8xf32>) -> tensor<1x1x2x8xf32>
      %ck1 = heddle.cache_append %ck, %k3 at %slots : (tensor<4x8x2x8xf32>, tensor<1x1x2x8xf32>, tensor<1x1xi32>) -> tensor<4x8x2x8xf32>
      %cv1 = heddle.cache_append %cv, %v2 at %slots : (tensor<4x8x2x8xf32>, tensor<1x1x2x8xf32>, tensor<1x1xi32>) -> tensor<4x8x2x8xf32>
      // CHECK: heddle.attention %{{.*}}, %{{.*}}, %{{.*}} pos(%{{.*}}, %{{.*}}) blocks(%{{.*}}) lengths(%{{.*}}) scale {{.*}} causal window 7
      %a = heddle.attention %q3, %ck1, %cv1 pos(%pos, %kp1) blocks(%blocks) lengths(%lengths) scale 0.35355339 causal window 7
        : (tensor<1x1x4x8xf32>, tensor<4x8x2x8xf32>, tensor<4x8x2x8xf32>, tensor<1x1xi32>, tensor<4x8xi32>, tensor<1x4xi32>, tensor<1xi32>) -> tensor<1x1x4x8xf32>
      // CHECK: heddle.merge_heads %{{.*}} : tensor<1x1x4x8xf32> -> tensor<1x1x32xf32>
      %a1 = heddle.merge_heads %a : tensor<1x1x4x8xf32> -> tensor<1x1x32xf32>
      %y = heddle.linear %a1, %o : (tensor<1x1x32xf32>, tensor<32x32xf32>) -> tensor<1x1x32xf32>
      %c1 = heddle.add %c, %y : (tensor<1x1x32xf32>, tensor<1x1x32xf32>) -> tensor<1x1x32xf32>
      %g1 = heddle.linear %c1, %g : (tensor<1x1x32xf32>, tensor<64x32xf32>) -> tensor<1x1x64xf32>
      %u1 = heddle.linear %c1, %u : (tensor<1x1x32xf32>, tensor<64x32xf32>) -> tensor<1x1x64xf32>
      // CHECK: heddle.glu silu
      %m = heddle.glu silu %g1, %u1 : (tensor<1x1x64xf32>, tensor<1x1x64xf32>) -> tensor<1x1x64xf32>
      // CHECK: heddle.linear %{{.*}}, %{{.*}} bias %{{.*}} :
      %z = heddle.linear %m, %d bias %b : (tensor<1x1x64xf32>, tensor<32x64xf32>, tensor<32xf32>) -> tensor<1x1x32xf32>
      %c2 = heddle.add %c1, %z : (tensor<1x1x32xf32>, tensor<1x1x32xf32>) -> tensor<1x1x32xf32>
      // CHECK: heddle.yield carry({{.*}}) inout(
      heddle.yield carry(%c2 : tensor<1x1x32xf32>) inout(%ck1, %cv1 : tensor<4x8x2x8xf32>, tensor<4x8x2x8xf32>)
    }
  }
  %l = heddle.linear %x, %emb : (tensor<1x1x32xf32>, tensor<96x32x!heddle.q8_0>) -> tensor<1x1x96xf32>
  // CHECK: heddle.argmax %{{.*}} : (tensor<1x1x96xf32>) -> tensor<1x1xi32>
  %t = heddle.argmax %l : (tensor<1x1x96xf32>) -> tensor<1x1xi32>
  return %t, %kc1, %vc1, %kp1 : tensor<1x1xi32>, tensor<2x4x8x2x8xf32>, tensor<2x4x8x2x8xf32>, tensor<4x8xi32>
}

// CHECK-LABEL: func.func @sample
func.func @sample(%l: tensor<2x1x96xf32>, %f: tensor<2xf32>, %i: tensor<2xi32>) -> tensor<2x1xi32> {
  // CHECK: heddle.sample %{{.*}} temperature %{{.*}} top_k %{{.*}} top_p %{{.*}} min_p %{{.*}} seed %{{.*}} position %{{.*}} : (
  %t = heddle.sample %l temperature %f top_k %i top_p %f min_p %f seed %i position %i : (tensor<2x1x96xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x1xi32>
  return %t : tensor<2x1xi32>
}

// CHECK-LABEL: func.func @local_sample
func.func @local_sample(%l: tensor<1x1x96xf32>, %f: tensor<1xf32>, %i: tensor<1xi32>) -> tensor<1x1xi32> attributes {heddle.local, heddle.mesh = @m} {
  // CHECK: heddle.sample {{.*}} sequences <{tp}, {{\[\[}}0], [1], [2], [-1]]> : (
  %t = heddle.sample %l temperature %f top_k %i top_p %f min_p %f seed %i position %i sequences <{tp}, [[0], [1], [2], [-1]]> : (tensor<1x1x96xf32>, tensor<1xf32>, tensor<1xi32>, tensor<1xf32>, tensor<1xf32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x1xi32>
  return %t : tensor<1x1xi32>
}

// CHECK-LABEL: func.func @local(
func.func @local(%ids: tensor<1x3xi32>, %x: tensor<1x3x8xf32>) -> tensor<1x3x4xf32> attributes {heddle.local, heddle.mesh = @m} {
  // CHECK: heddle.local_index %{{.*}} units <{tp}, {{\[\[}}0], [1], [2], [3]]> of 24
  %i = heddle.local_index %ids units <{tp}, [[0], [1], [2], [3]]> of 24 : tensor<1x3xi32> -> tensor<1x3xi32>
  // CHECK: comm.all_reduce sum %{{.*}} group [#heddle.axis<tp>] because "test"
  %r = comm.all_reduce sum %x group [#heddle.axis<tp>] because "test" : tensor<1x3x8xf32> -> tensor<1x3x8xf32>
  // CHECK: heddle.mask_pad %{{.*}} dim 2 units <{tp}, {{.*}}> of 4 size 27 identity 0
  %p = heddle.mask_pad %r dim 2 units <{tp}, [[0, 1], [2, 3], [4, 5], [6, -1]]> of 4 size 27 identity 0.0 : tensor<1x3x8xf32> -> tensor<1x3x8xf32>
  // CHECK: heddle.take_units %{{.*}} dim 2 slots <{tp}, {{.*}}> of 4
  %t = heddle.take_units %p dim 2 slots <{tp}, [[0], [1], [1], [0]]> of 4 : tensor<1x3x8xf32> -> tensor<1x3x4xf32>
  return %t : tensor<1x3x4xf32>
}

// CHECK-LABEL: func.func @quantised
// CHECK-SAME: tensor<32x64x!heddle.q4_1, #heddle.packing<"panel16@1">>
func.func @quantised(%x: tensor<1x3x64xf32>, %w: tensor<32x64x!heddle.q4_1, #heddle.packing<"panel16@1">>) -> tensor<1x3x32xf32> {
  // CHECK: heddle.quantize %{{.*}} : (tensor<1x3x64xf32>) -> tensor<1x3x64x!heddle.q8>
  %q = heddle.quantize %x : (tensor<1x3x64xf32>) -> tensor<1x3x64x!heddle.q8>
  %y = heddle.linear %q, %w : (tensor<1x3x64x!heddle.q8>, tensor<32x64x!heddle.q4_1, #heddle.packing<"panel16@1">>) -> tensor<1x3x32xf32>
  return %y : tensor<1x3x32xf32>
}

// CHECK-LABEL: func.func @parts
func.func @parts(%q: tensor<1x3x4x8xf32>, %k: tensor<1x6x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x6xi32>, %row: tensor<1x1xi32>) -> tensor<1x1x32xf32> {
  // CHECK: %[[A:.*]], %[[L:.*]] = heddle.attention_partial %{{.*}}, %{{.*}}, %{{.*}} pos(%{{.*}}, %{{.*}}) scale 4.000000e-01 causal
  %a, %l = heddle.attention_partial %q, %k, %k pos(%qp, %kp) scale 0.4 causal : (tensor<1x3x4x8xf32>, tensor<1x6x2x8xf32>, tensor<1x6x2x8xf32>, tensor<1x3xi32>, tensor<1x6xi32>) -> (tensor<1x3x4x8xf32>, tensor<1x3x4xf32>)
  // CHECK: heddle.merge_partials %[[A]], %[[L]], %[[A]], %[[L]] :
  %m, %n = heddle.merge_partials %a, %l, %a, %l : (tensor<1x3x4x8xf32>, tensor<1x3x4xf32>, tensor<1x3x4x8xf32>, tensor<1x3x4xf32>) -> (tensor<1x3x4x8xf32>, tensor<1x3x4xf32>)
  // CHECK: heddle.merge_heads
  %h = heddle.merge_heads %m : tensor<1x3x4x8xf32> -> tensor<1x3x32xf32>
  // CHECK: heddle.gather_rows %{{.*}}, %{{.*}} : (tensor<1x3x32xf32>, tensor<1x1xi32>) -> tensor<1x1x32xf32>
  %r = heddle.gather_rows %h, %row : (tensor<1x3x32xf32>, tensor<1x1xi32>) -> tensor<1x1x32xf32>
  %s = heddle.split_heads %r : tensor<1x1x32xf32> -> tensor<1x1x4x8xf32>
  %o = heddle.merge_heads %s : tensor<1x1x4x8xf32> -> tensor<1x1x32xf32>
  return %o : tensor<1x1x32xf32>
}

// CHECK-LABEL: @attention_variants
// CHECK-SAME: heddle.consecutive = #heddle.consecutive<below 4096 within "documents">
func.func @attention_variants(%q: tensor<1x3x4x8xf32>, %k: tensor<1x6x2x8xf32>, %qp: tensor<1x3xi32> {heddle.binding = #heddle.binding<input "positions">, heddle.consecutive = #heddle.consecutive<below 4096 within "documents">}, %kp: tensor<1x6xi32>, %qd: tensor<1x3xi32>, %kd: tensor<1x6xi32>, %s: tensor<4xf32>) {
  // CHECK: heddle.attention %{{.*}}, %{{.*}}, %{{.*}} pos(%{{.*}}, %{{.*}}) documents(%{{.*}}, %{{.*}}) sinks(%{{.*}}) scale 4.000000e-01 causal window 7 soft_cap 3.000000e+01 alibi <heads 4 bias 8.000000e+00> :
  %a = heddle.attention %q, %k, %k pos(%qp, %kp) documents(%qd, %kd) sinks(%s) scale 0.4 causal window 7 soft_cap 30.0 alibi <heads 4 bias 8.0> : (tensor<1x3x4x8xf32>, tensor<1x6x2x8xf32>, tensor<1x6x2x8xf32>, tensor<1x3xi32>, tensor<1x6xi32>, tensor<1x3xi32>, tensor<1x6xi32>, tensor<4xf32>) -> tensor<1x3x4x8xf32>
  return
}

// CHECK-LABEL: @attention_variants_local
func.func @attention_variants_local(%q: tensor<1x3x4x8xf32>, %k: tensor<1x6x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x6xi32>) attributes {heddle.local} {
  // CHECK: heddle.attention_partial %{{.*}}, %{{.*}}, %{{.*}} pos(%{{.*}}, %{{.*}}) scale 4.000000e-01 alibi <heads 7 bias 8.000000e+00> alibi_heads <{tp}, {{\[\[}}0, 1, 2, 3], [4, 5, 6, -1]]>
  %a, %l = heddle.attention_partial %q, %k, %k pos(%qp, %kp) scale 0.4 alibi <heads 7 bias 8.0> alibi_heads <{tp}, [[0, 1, 2, 3], [4, 5, 6, -1]]> : (tensor<1x3x4x8xf32>, tensor<1x6x2x8xf32>, tensor<1x6x2x8xf32>, tensor<1x3xi32>, tensor<1x6xi32>) -> (tensor<1x3x4x8xf32>, tensor<1x3x4xf32>)
  return
}
