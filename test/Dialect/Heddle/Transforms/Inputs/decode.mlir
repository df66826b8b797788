// One decoder layer, three times, between an embedding and tied logits: 6 query
// heads that share 2 key/value heads of width 4, and 10 words. Tests replace TP
// by a degree: 2 divides everything; 3 cuts the query heads evenly, but not the
// groups; 5 leaves ranks without heads.
heddle.mesh @m ["tp" = TP]
func.func @decode(
    %ids: tensor<1x1xi32> {heddle.binding = #heddle.binding<input "tokens">},
    %pos: tensor<1x1xi32> {heddle.binding = #heddle.binding<input "positions">},
    %blocks: tensor<1x4xi32> {heddle.binding = #heddle.binding<input "blocks">},
    %lengths: tensor<1xi32> {heddle.binding = #heddle.binding<input "lengths">},
    %emb: tensor<10x24xf32> {heddle.binding = #heddle.binding<param "embed">},
    %norm: tensor<3x24xf32> {heddle.binding = #heddle.binding<param "{i}.norm" layers [0, 1, 2]>},
    %wq: tensor<3x24x24xf32> {heddle.binding = #heddle.binding<param "{i}.q" layers [0, 1, 2]>},
    %wk: tensor<3x8x24xf32> {heddle.binding = #heddle.binding<param "{i}.k" layers [0, 1, 2]>},
    %wv: tensor<3x8x24xf32> {heddle.binding = #heddle.binding<param "{i}.v" layers [0, 1, 2]>},
    %wo: tensor<3x24x24xf32> {heddle.binding = #heddle.binding<param "{i}.o" layers [0, 1, 2]>},
    %kc: tensor<3x4x8x2x4xf32> {heddle.binding = #heddle.binding<state "k">},
    %vc: tensor<3x4x8x2x4xf32> {heddle.binding = #heddle.binding<state "v">},
    %kp: tensor<4x8xi32> {heddle.binding = #heddle.binding<state "key_positions" fill 4294967295>})
    -> (tensor<1x1xi32> {heddle.binding = #heddle.binding<output "next">},
        tensor<3x4x8x2x4xf32> {heddle.binding = #heddle.binding<state "k">},
        tensor<3x4x8x2x4xf32> {heddle.binding = #heddle.binding<state "v">},
        tensor<4x8xi32> {heddle.binding = #heddle.binding<state "key_positions" fill 4294967295>}) {
  %x0 = heddle.embedding %ids, %emb : (tensor<1x1xi32>, tensor<10x24xf32>) -> tensor<1x1x24xf32>
  %cs = heddle.rotary_table %pos <dim 4 theta 1.0e+4> : (tensor<1x1xi32>) -> tensor<1x1x4xf32>
  %slots = heddle.cache_slots %pos, %blocks size 8 : (tensor<1x1xi32>, tensor<1x4xi32>) -> tensor<1x1xi32>
  %kp1 = heddle.cache_append %kp, %pos at %slots : (tensor<4x8xi32>, tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<4x8xi32>
  %x, %kc1, %vc1 = heddle.repeat order [0, 0, 0] carry(%x0 : tensor<1x1x24xf32>)
      params(%norm in 0 : tensor<3x24xf32>, %wq in 0 : tensor<3x24x24xf32>, %wk in 0 : tensor<3x8x24xf32>, %wv in 0 : tensor<3x8x24xf32>, %wo in 0 : tensor<3x24x24xf32>)
      inout(%kc in 0 : tensor<3x4x8x2x4xf32>, %vc in 0 : tensor<3x4x8x2x4xf32>) {
    kind 0 (%c: tensor<1x1x24xf32>, %n: tensor<24xf32>, %q: tensor<24x24xf32>, %k: tensor<8x24xf32>, %v: tensor<8x24xf32>, %o: tensor<24x24xf32>, %ck: tensor<4x8x2x4xf32>, %cv: tensor<4x8x2x4xf32>) {
      %h = heddle.rms_norm %c, %n eps 1.0e-5 : (tensor<1x1x24xf32>, tensor<24xf32>) -> tensor<1x1x24xf32>
      %q1 = heddle.linear %h, %q : (tensor<1x1x24xf32>, tensor<24x24xf32>) -> tensor<1x1x24xf32>
      %k1 = heddle.linear %h, %k : (tensor<1x1x24xf32>, tensor<8x24xf32>) -> tensor<1x1x8xf32>
      %v1 = heddle.linear %h, %v : (tensor<1x1x24xf32>, tensor<8x24xf32>) -> tensor<1x1x8xf32>
      %q2 = heddle.split_heads %q1 : tensor<1x1x24xf32> -> tensor<1x1x6x4xf32>
      %k2 = heddle.split_heads %k1 : tensor<1x1x8xf32> -> tensor<1x1x2x4xf32>
      %v2 = heddle.split_heads %v1 : tensor<1x1x8xf32> -> tensor<1x1x2x4xf32>
      %q3 = heddle.rotary %q2, %cs : (tensor<1x1x6x4xf32>, tensor<1x1x4xf32>) -> tensor<1x1x6x4xf32>
      %k3 = heddle.rotary %k2, %cs : (tensor<1x1x2x4xf32>, tensor<1x1x4xf32>) -> tensor<1x1x2x4xf32>
      %ck1 = heddle.cache_append %ck, %k3 at %slots : (tensor<4x8x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1xi32>) -> tensor<4x8x2x4xf32>
      %cv1 = heddle.cache_append %cv, %v2 at %slots : (tensor<4x8x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1xi32>) -> tensor<4x8x2x4xf32>
      %a = heddle.attention %q3, %ck1, %cv1 pos(%pos, %kp1) blocks(%blocks) lengths(%lengths) scale 0.5 causal
        : (tensor<1x1x6x4xf32>, tensor<4x8x2x4xf32>, tensor<4x8x2x4xf32>, tensor<1x1xi32>, tensor<4x8xi32>, tensor<1x4xi32>, tensor<1xi32>) -> tensor<1x1x6x4xf32>
      %a1 = heddle.merge_heads %a : tensor<1x1x6x4xf32> -> tensor<1x1x24xf32>
      %y = heddle.linear %a1, %o : (tensor<1x1x24xf32>, tensor<24x24xf32>) -> tensor<1x1x24xf32>
      %c1 = heddle.add %c, %y : (tensor<1x1x24xf32>, tensor<1x1x24xf32>) -> tensor<1x1x24xf32>
      heddle.yield carry(%c1 : tensor<1x1x24xf32>) inout(%ck1, %cv1 : tensor<4x8x2x4xf32>, tensor<4x8x2x4xf32>)
    }
  }
  %l = heddle.linear %x, %emb : (tensor<1x1x24xf32>, tensor<10x24xf32>) -> tensor<1x1x10xf32>
  %t = heddle.argmax %l : (tensor<1x1x10xf32>) -> tensor<1x1xi32>
  return %t, %kc1, %vc1, %kp1 : tensor<1x1xi32>, tensor<3x4x8x2x4xf32>, tensor<3x4x8x2x4xf32>, tensor<4x8xi32>
}
