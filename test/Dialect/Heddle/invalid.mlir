// RUN: heddle-opt %s -split-input-file -verify-diagnostics

// One function per numbered constraint of an op, named after it. The sentence
// says what would go wrong later if the verifier let it pass.

// A mesh whose axes and sizes do not pair up has no rank order.
// expected-error @below {{'heddle.mesh' op expected one size per axis, got 1 names and 2 sizes}}
"heddle.mesh"() <{sym_name = "mesh_c1", names = ["tp"], sizes = array<i64: 2, 3>}> : () -> ()

// -----

// An empty axis would make every group empty.
// expected-error @below {{'heddle.mesh' op expected axis sizes between 1 and 1048576, got 0}}
heddle.mesh @mesh_c2 ["tp" = 0]

// -----

// The product may overflow even where every axis is small enough.
// expected-error @below {{'heddle.mesh' op expected at most 1048576 ranks, got more}}
heddle.mesh @mesh_c2_product ["dp" = 1048576, "tp" = 2]

// -----

// Shardings refer to axes by name, so a name twice is ambiguous.
// expected-error @below {{'heddle.mesh' op expected unique axis names that are not empty, got 'tp'}}
heddle.mesh @mesh_c3 ["tp" = 2, "tp" = 3]

// -----

// Rows of different lengths leave coordinates without slots.
// expected-error @below {{'heddle.table' op expected 2 x 2 entries, got 3}}
heddle.table @table_c1 [[0, 1], [2]]

// -----

// Only -1 means padding; other negative numbers would index before the tensor.
// expected-error @below {{'heddle.table' op expected units of -1 or more, got -2}}
heddle.table @table_c2 [[0, -2]]

// -----

func.func @embedding_c1(%ids: tensor<1x3xi32>, %table: tensor<16x8xf32>) {
  // expected-error @below {{'heddle.embedding' op expected result of shape 1x3x8, got 'tensor<1x3x4xf32>'}}
  %0 = heddle.embedding %ids, %table : (tensor<1x3xi32>, tensor<16x8xf32>) -> tensor<1x3x4xf32>
  return
}

// -----

// A block-quantised table is decoded by the lookup; its format does not go on.
func.func @embedding_c2(%ids: tensor<1x3xi32>, %table: tensor<16x32x!heddle.q8_0>) {
  // expected-error @below {{'heddle.embedding' op expected floating point result, got 'tensor<1x3x32x!heddle.q8_0>'}}
  %0 = heddle.embedding %ids, %table : (tensor<1x3xi32>, tensor<16x32x!heddle.q8_0>) -> tensor<1x3x32x!heddle.q8_0>
  return
}

// -----

// The weight is N x K, as checkpoints store it, not K x N.
func.func @linear_c1(%x: tensor<1x3x8xf32>, %w: tensor<8x16xf32>) {
  // expected-error @below {{'heddle.linear' op expected input to end in the weight's 16 columns, got 'tensor<1x3x8xf32>'}}
  %0 = heddle.linear %x, %w : (tensor<1x3x8xf32>, tensor<8x16xf32>) -> tensor<1x3x16xf32>
  return
}

// -----

func.func @linear_c1_result(%x: tensor<1x3x8xf32>, %w: tensor<16x8xf32>) {
  // expected-error @below {{'heddle.linear' op expected result of shape 1x3x16, got 'tensor<1x3x8xf32>'}}
  %0 = heddle.linear %x, %w : (tensor<1x3x8xf32>, tensor<16x8xf32>) -> tensor<1x3x8xf32>
  return
}

// -----

func.func @linear_c2(%x: tensor<1x3x8xf32>, %w: tensor<16x8xf32>, %b: tensor<8xf32>) {
  // expected-error @below {{'heddle.linear' op expected bias of shape 16, got 'tensor<8xf32>'}}
  %0 = heddle.linear %x, %w bias %b : (tensor<1x3x8xf32>, tensor<16x8xf32>, tensor<8xf32>) -> tensor<1x3x16xf32>
  return
}

// -----

// Weights in blocks do not make the product one.
func.func @linear_c3(%x: tensor<1x3x32xf32>, %w: tensor<32x32x!heddle.q4_1>) {
  // expected-error @below {{'heddle.linear' op expected floating point result, got 'tensor<1x3x32x!heddle.q4_1>'}}
  %0 = heddle.linear %x, %w : (tensor<1x3x32xf32>, tensor<32x32x!heddle.q4_1>) -> tensor<1x3x32x!heddle.q4_1>
  return
}

// -----

// Only formats whose integers fit the dot products.
func.func @linear_c4(%x: tensor<1x3x32x!heddle.q8>, %w: tensor<32x32x!heddle.q5_0>) {
  // expected-error @below {{'heddle.linear' op expected a weight in q4_0, q4_1 or q8_0 for quantised input, got 'tensor<32x32x!heddle.q5_0>'}}
  %0 = heddle.linear %x, %w : (tensor<1x3x32x!heddle.q8>, tensor<32x32x!heddle.q5_0>) -> tensor<1x3x32xf32>
  return
}

// -----

func.func @quantize_c1(%x: tensor<1x3x48xf32>) {
  // expected-error @below {{'heddle.quantize' op expected a last dimension of whole blocks of 32, got 'tensor<1x3x48xf32>'}}
  %0 = heddle.quantize %x : (tensor<1x3x48xf32>) -> tensor<1x3x48x!heddle.q8>
  return
}

// -----

func.func @quantize_c1_integers(%x: tensor<1x3x64xi32>) {
  // expected-error @below {{'heddle.quantize' op expected floating point input, got 'tensor<1x3x64xi32>'}}
  %0 = heddle.quantize %x : (tensor<1x3x64xi32>) -> tensor<1x3x64x!heddle.q8>
  return
}

// -----

func.func @quantize_c2(%x: tensor<1x3x64xf32>) {
  // expected-error @below {{'heddle.quantize' op expected a result of '!heddle.q8', got 'tensor<1x3x64x!heddle.q8_0>'}}
  %0 = heddle.quantize %x : (tensor<1x3x64xf32>) -> tensor<1x3x64x!heddle.q8_0>
  return
}

// -----

func.func @quantize_c2_shape(%x: tensor<1x3x64xf32>) {
  // expected-error @below {{'heddle.quantize' op expected result of shape 1x3x64, got 'tensor<3x64x!heddle.q8>'}}
  %0 = heddle.quantize %x : (tensor<1x3x64xf32>) -> tensor<3x64x!heddle.q8>
  return
}

// -----

func.func @bias_add_c1(%x: tensor<1x3x8xf32>, %b: tensor<3xf32>) {
  // expected-error @below {{'heddle.bias_add' op expected bias of shape 8, got 'tensor<3xf32>'}}
  %0 = heddle.bias_add %x, %b : (tensor<1x3x8xf32>, tensor<3xf32>) -> tensor<1x3x8xf32>
  return
}

// -----

func.func @bias_add_c1_scalar(%x: tensor<f32>, %b: tensor<3xf32>) {
  // expected-error @below {{'heddle.bias_add' op expected input of rank 1 or more, got 'tensor<f32>'}}
  %0 = heddle.bias_add %x, %b : (tensor<f32>, tensor<3xf32>) -> tensor<f32>
  return
}

// -----

func.func @rms_norm_c1(%x: tensor<1x3x8xf32>, %w: tensor<4xf32>) {
  // expected-error @below {{'heddle.rms_norm' op expected weight of shape 8, got 'tensor<4xf32>'}}
  %0 = heddle.rms_norm %x, %w eps 1.0e-5 : (tensor<1x3x8xf32>, tensor<4xf32>) -> tensor<1x3x8xf32>
  return
}

// -----

// A negative eps makes the root of a small row NaN.
func.func @rms_norm_c2(%x: tensor<1x3x8xf32>, %w: tensor<8xf32>) {
  // expected-error @below {{'heddle.rms_norm' op expected eps of 0 or more, got -1.0}}
  %0 = heddle.rms_norm %x, %w eps -1.0 : (tensor<1x3x8xf32>, tensor<8xf32>) -> tensor<1x3x8xf32>
  return
}

// -----

func.func @split_heads_c1(%x: tensor<1x3x8xf32>) {
  // expected-error @below {{'heddle.split_heads' op expected merged heads of shape 1x3x12, got 'tensor<1x3x8xf32>'}}
  %0 = heddle.split_heads %x : tensor<1x3x8xf32> -> tensor<1x3x3x4xf32>
  return
}

// -----

func.func @merge_heads_c1(%x: tensor<1x3x2x4xf32>) {
  // expected-error @below {{'heddle.merge_heads' op expected merged heads of shape 1x3x8, got 'tensor<1x3x6xf32>'}}
  %0 = heddle.merge_heads %x : tensor<1x3x2x4xf32> -> tensor<1x3x6xf32>
  return
}

// -----

// The table's width is the rotary dim, not the head width.
func.func @rotary_table_c1(%p: tensor<1x3xi32>) {
  // expected-error @below {{'heddle.rotary_table' op expected result of shape 1x3x4, got 'tensor<1x3x8xf32>'}}
  %0 = heddle.rotary_table %p <dim 4 theta 1.0e+4> : (tensor<1x3xi32>) -> tensor<1x3x8xf32>
  return
}

// -----

func.func @rotary_c1(%x: tensor<1x3x2x4xf32>, %t: tensor<1x2x4xf32>) {
  // expected-error @below {{'heddle.rotary' op expected table of shape 1x3x4, got 'tensor<1x2x4xf32>'}}
  %0 = heddle.rotary %x, %t : (tensor<1x3x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x3x2x4xf32>
  return
}

// -----

// Partial rotary leaves the tail of a head alone; it never reaches past it.
func.func @rotary_c2(%x: tensor<1x3x2x4xf32>, %t: tensor<1x3x6xf32>) {
  // expected-error @below {{'heddle.rotary' op expected an even table width of at most 4, got 6}}
  %0 = heddle.rotary %x, %t : (tensor<1x3x2x4xf32>, tensor<1x3x6xf32>) -> tensor<1x3x2x4xf32>
  return
}

// -----

func.func @cache_slots_c1(%p: tensor<2x3xi32>, %b: tensor<1x4xi32>) {
  // expected-error @below {{'heddle.cache_slots' op expected blocks of shape 2x4, got 'tensor<1x4xi32>'}}
  %0 = heddle.cache_slots %p, %b size 8 : (tensor<2x3xi32>, tensor<1x4xi32>) -> tensor<2x3xi32>
  return
}

// -----

func.func @cache_slots_c2(%p: tensor<1x3xi32>, %b: tensor<1x4xi32>) {
  // expected-error @below {{'heddle.cache_slots' op expected a positive block size, got 0}}
  %0 = heddle.cache_slots %p, %b size 0 : (tensor<1x3xi32>, tensor<1x4xi32>) -> tensor<1x3xi32>
  return
}

// -----

func.func @cache_append_c1(%pool: tensor<4x8x2x4xf32>, %v: tensor<1x3x4xf32>, %s: tensor<1x3xi32>) {
  // expected-error @below {{'heddle.cache_append' op expected pool and values of one rank of 2 or more}}
  %0 = heddle.cache_append %pool, %v at %s : (tensor<4x8x2x4xf32>, tensor<1x3x4xf32>, tensor<1x3xi32>) -> tensor<4x8x2x4xf32>
  return
}

// -----

// The pool is updated in place, so the result cannot have another shape.
func.func @cache_append_c1_result(%pool: tensor<4x8xi32>, %v: tensor<1x3xi32>, %s: tensor<1x3xi32>) {
  // expected-error @below {{'heddle.cache_append' op expected result of shape 4x8, got 'tensor<4x9xi32>'}}
  %0 = heddle.cache_append %pool, %v at %s : (tensor<4x8xi32>, tensor<1x3xi32>, tensor<1x3xi32>) -> tensor<4x9xi32>
  return
}

// -----

func.func @attention_c1(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x2xi32>, %kp: tensor<1x5xi32>) {
  // expected-error @below {{'heddle.attention' op expected query positions of shape 1x3, got 'tensor<1x2xi32>'}}
  %0 = heddle.attention %q, %k, %k pos(%qp, %kp) scale 1.0 causal
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x2xi32>, tensor<1x5xi32>) -> tensor<1x3x4x8xf32>
  return
}

// -----

// Grouping is by whole heads: 4 query heads cannot share 3 key/value heads.
func.func @attention_c2(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x3x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>) {
  // expected-error @below {{'heddle.attention' op expected a number of key/value heads that divides 4 query heads, got 3}}
  %0 = heddle.attention %q, %k, %k pos(%qp, %kp) scale 1.0 causal
    : (tensor<1x3x4x8xf32>, tensor<1x5x3x8xf32>, tensor<1x5x3x8xf32>, tensor<1x3xi32>, tensor<1x5xi32>) -> tensor<1x3x4x8xf32>
  return
}

// -----

func.func @attention_c2_width(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x4xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>) {
  // expected-error @below {{'heddle.attention' op expected keys with the query's head width 8, got 4}}
  %0 = heddle.attention %q, %k, %k pos(%qp, %kp) scale 1.0 causal
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x4xf32>, tensor<1x5x2x4xf32>, tensor<1x3xi32>, tensor<1x5xi32>) -> tensor<1x3x4x8xf32>
  return
}

// -----

func.func @attention_c2_kv_heads(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>)
    attributes {heddle.local} {
  // expected-error @below {{'heddle.attention' op expected kv_heads between -1 and 1, got 2}}
  %0 = heddle.attention %q, %k, %k pos(%qp, %kp) scale 1.0 causal kv_heads <{tp}, [[0, 0, 1, 2]]>
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x3xi32>, tensor<1x5xi32>) -> tensor<1x3x4x8xf32>
  return
}

// -----

func.func @attention_c3(%q: tensor<2x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<2x3xi32>, %kp: tensor<1x5xi32>) {
  // expected-error @below {{'heddle.attention' op expected keys for 2 sequences, got 1}}
  %0 = heddle.attention %q, %k, %k pos(%qp, %kp) scale 1.0 causal
    : (tensor<2x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<2x3xi32>, tensor<1x5xi32>) -> tensor<2x3x4x8xf32>
  return
}

// -----

// Every key has a position of its own, in the pool's shape.
func.func @attention_c3_positions(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x4xi32>) {
  // expected-error @below {{'heddle.attention' op expected key positions of shape 1x5, got 'tensor<1x4xi32>'}}
  %0 = heddle.attention %q, %k, %k pos(%qp, %kp) scale 1.0 causal
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x3xi32>, tensor<1x4xi32>) -> tensor<1x3x4x8xf32>
  return
}

// -----

func.func @attention_c4(%q: tensor<1x3x4x8xf32>, %k: tensor<6x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<6x5xi32>, %b: tensor<2x4xi32>) {
  // expected-error @below {{'heddle.attention' op expected blocks of shape 1x4, got 'tensor<2x4xi32>'}}
  %0 = heddle.attention %q, %k, %k pos(%qp, %kp) blocks(%b) scale 1.0 causal
    : (tensor<1x3x4x8xf32>, tensor<6x5x2x8xf32>, tensor<6x5x2x8xf32>, tensor<1x3xi32>, tensor<6x5xi32>, tensor<2x4xi32>) -> tensor<1x3x4x8xf32>
  return
}

// -----

func.func @attention_c5(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>) {
  // expected-error @below {{'heddle.attention' op expected a window of 0 (none) or more, got -1}}
  %0 = heddle.attention %q, %k, %k pos(%qp, %kp) scale 1.0 causal window -1
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x3xi32>, tensor<1x5xi32>) -> tensor<1x3x4x8xf32>
  return
}

// -----

func.func @attention_c7(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>, %d: tensor<1x4xi32>) {
  // expected-error @below {{'heddle.attention' op expected query documents of shape 1x3, got 'tensor<1x4xi32>'}}
  %0 = heddle.attention %q, %k, %k pos(%qp, %kp) documents(%d, %d) scale 1.0 causal
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x3xi32>, tensor<1x5xi32>, tensor<1x4xi32>, tensor<1x4xi32>) -> tensor<1x3x4x8xf32>
  return
}

// -----

// A sink for each query head, not for each key head.
func.func @attention_c8(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>, %s: tensor<2xf32>) {
  // expected-error @below {{'heddle.attention' op expected sinks of shape 4, got 'tensor<2xf32>'}}
  %0 = heddle.attention %q, %k, %k pos(%qp, %kp) sinks(%s) scale 1.0 causal
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x3xi32>, tensor<1x5xi32>, tensor<2xf32>) -> tensor<1x3x4x8xf32>
  return
}

// -----

func.func @attention_c9(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>) {
  // expected-error @below {{'heddle.attention' op expected a soft cap of 0 (none) or more, got -2.0}}
  %0 = heddle.attention %q, %k, %k pos(%qp, %kp) scale 1.0 causal soft_cap -2.0
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x3xi32>, tensor<1x5xi32>) -> tensor<1x3x4x8xf32>
  return
}

// -----

func.func @attention_c10(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>) {
  // expected-error @below {{'heddle.attention' op expected linear biases of 4 heads, got #heddle.alibi<heads 8 bias 8.000000e+00>}}
  %0 = heddle.attention %q, %k, %k pos(%qp, %kp) scale 1.0 causal alibi <heads 8 bias 8.0>
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x3xi32>, tensor<1x5xi32>) -> tensor<1x3x4x8xf32>
  return
}

// -----

func.func @attention_c10_local(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>) attributes {heddle.local} {
  // expected-error @below {{'heddle.attention' op expected alibi_heads between -1 and 7, got 8}}
  %0 = heddle.attention %q, %k, %k pos(%qp, %kp) scale 1.0 causal alibi <heads 8 bias 8.0> alibi_heads <{tp}, [[0, 1, 2, 8]]>
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x3xi32>, tensor<1x5xi32>) -> tensor<1x3x4x8xf32>
  return
}

// -----

func.func @attention_c10_global(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>) {
  // expected-error @below {{'heddle.attention' op expected alibi_heads beside alibi, in a local function}}
  %0 = heddle.attention %q, %k, %k pos(%qp, %kp) scale 1.0 causal alibi <heads 4 bias 8.0> alibi_heads <{tp}, [[0, 1, 2, 3]]>
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x3xi32>, tensor<1x5xi32>) -> tensor<1x3x4x8xf32>
  return
}

// -----

func.func @attention_partial_c1(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x2xi32>, %kp: tensor<1x5xi32>) {
  // expected-error @below {{'heddle.attention_partial' op expected query positions of shape 1x3, got 'tensor<1x2xi32>'}}
  %0, %1 = heddle.attention_partial %q, %k, %k pos(%qp, %kp) scale 1.0 causal
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x2xi32>, tensor<1x5xi32>) -> (tensor<1x3x4x8xf32>, tensor<1x3x4xf32>)
  return
}

// -----

func.func @attention_partial_c2(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %v: tensor<1x5x2x4xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>) {
  // expected-error @below {{'heddle.attention_partial' op expected value of shape 1x5x2x8, got 'tensor<1x5x2x4xf32>'}}
  %0, %1 = heddle.attention_partial %q, %k, %v pos(%qp, %kp) scale 1.0 causal
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x4xf32>, tensor<1x3xi32>, tensor<1x5xi32>) -> (tensor<1x3x4x8xf32>, tensor<1x3x4xf32>)
  return
}

// -----

func.func @attention_partial_c3(%q: tensor<1x3x4x8xf32>, %k: tensor<2x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<2x5xi32>) {
  // expected-error @below {{'heddle.attention_partial' op expected keys for 1 sequences, got 2}}
  %0, %1 = heddle.attention_partial %q, %k, %k pos(%qp, %kp) scale 1.0 causal
    : (tensor<1x3x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<1x3xi32>, tensor<2x5xi32>) -> (tensor<1x3x4x8xf32>, tensor<1x3x4xf32>)
  return
}

// -----

func.func @attention_partial_c4(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>, %l: tensor<2xi32>) {
  // expected-error @below {{'heddle.attention_partial' op expected lengths of shape 1, got 'tensor<2xi32>'}}
  %0, %1 = heddle.attention_partial %q, %k, %k pos(%qp, %kp) lengths(%l) scale 1.0 causal
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x3xi32>, tensor<1x5xi32>, tensor<2xi32>) -> (tensor<1x3x4x8xf32>, tensor<1x3x4xf32>)
  return
}

// -----

func.func @attention_partial_c5(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>) {
  // expected-error @below {{'heddle.attention_partial' op expected a window of 0 (none) or more, got -4}}
  %0, %1 = heddle.attention_partial %q, %k, %k pos(%qp, %kp) scale 1.0 window -4
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x3xi32>, tensor<1x5xi32>) -> (tensor<1x3x4x8xf32>, tensor<1x3x4xf32>)
  return
}

// -----

func.func @attention_partial_c7(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>, %d: tensor<1x4xi32>) {
  // expected-error @below {{'heddle.attention_partial' op expected query documents of shape 1x3, got 'tensor<1x4xi32>'}}
  %0, %1 = heddle.attention_partial %q, %k, %k pos(%qp, %kp) documents(%d, %d) scale 1.0 causal
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x3xi32>, tensor<1x5xi32>, tensor<1x4xi32>, tensor<1x4xi32>) -> (tensor<1x3x4x8xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// A sink for each query head, not for each key head.
func.func @attention_partial_c8(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>, %s: tensor<2xf32>) {
  // expected-error @below {{'heddle.attention_partial' op expected sinks of shape 4, got 'tensor<2xf32>'}}
  %0, %1 = heddle.attention_partial %q, %k, %k pos(%qp, %kp) sinks(%s) scale 1.0 causal
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x3xi32>, tensor<1x5xi32>, tensor<2xf32>) -> (tensor<1x3x4x8xf32>, tensor<1x3x4xf32>)
  return
}

// -----

func.func @attention_partial_c9(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>) {
  // expected-error @below {{'heddle.attention_partial' op expected a soft cap of 0 (none) or more, got -2.0}}
  %0, %1 = heddle.attention_partial %q, %k, %k pos(%qp, %kp) scale 1.0 causal soft_cap -2.0
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x3xi32>, tensor<1x5xi32>) -> (tensor<1x3x4x8xf32>, tensor<1x3x4xf32>)
  return
}

// -----

func.func @attention_partial_c10(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>) {
  // expected-error @below {{'heddle.attention_partial' op expected linear biases of 4 heads, got #heddle.alibi<heads 8 bias 8.000000e+00>}}
  %0, %1 = heddle.attention_partial %q, %k, %k pos(%qp, %kp) scale 1.0 causal alibi <heads 8 bias 8.0>
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x3xi32>, tensor<1x5xi32>) -> (tensor<1x3x4x8xf32>, tensor<1x3x4xf32>)
  return
}

// -----

func.func @attention_partial_c10_local(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>) attributes {heddle.local} {
  // expected-error @below {{'heddle.attention_partial' op expected alibi_heads between -1 and 7, got 8}}
  %0, %1 = heddle.attention_partial %q, %k, %k pos(%qp, %kp) scale 1.0 causal alibi <heads 8 bias 8.0> alibi_heads <{tp}, [[0, 1, 2, 8]]>
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x3xi32>, tensor<1x5xi32>) -> (tensor<1x3x4x8xf32>, tensor<1x3x4xf32>)
  return
}

// -----

func.func @attention_partial_c10_global(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>) {
  // expected-error @below {{'heddle.attention_partial' op expected alibi_heads beside alibi, in a local function}}
  %0, %1 = heddle.attention_partial %q, %k, %k pos(%qp, %kp) scale 1.0 causal alibi <heads 4 bias 8.0> alibi_heads <{tp}, [[0, 1, 2, 3]]>
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x3xi32>, tensor<1x5xi32>) -> (tensor<1x3x4x8xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// Parts are joined in fp32 whatever the model computes in.
func.func @attention_partial_c6(%q: tensor<1x3x4x8xbf16>, %k: tensor<1x5x2x8xbf16>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>) {
  // expected-error @below {{'heddle.attention_partial' op expected f32 results, got 'tensor<1x3x4x8xbf16>' and 'tensor<1x3x4xf32>'}}
  %0, %1 = heddle.attention_partial %q, %k, %k pos(%qp, %kp) scale 1.0 causal
    : (tensor<1x3x4x8xbf16>, tensor<1x5x2x8xbf16>, tensor<1x5x2x8xbf16>, tensor<1x3xi32>, tensor<1x5xi32>) -> (tensor<1x3x4x8xbf16>, tensor<1x3x4xf32>)
  return
}

// -----

func.func @merge_partials_c1(%o: tensor<1x3x4x8xf32>, %l: tensor<1x3x4xf32>, %m: tensor<1x3x2xf32>) {
  // expected-error @below {{'heddle.merge_partials' op expected lse2 of shape 1x3x4, got 'tensor<1x3x2xf32>'}}
  %0, %1 = heddle.merge_partials %o, %l, %o, %m
    : (tensor<1x3x4x8xf32>, tensor<1x3x4xf32>, tensor<1x3x4x8xf32>, tensor<1x3x2xf32>) -> (tensor<1x3x4x8xf32>, tensor<1x3x4xf32>)
  return
}

// -----

func.func @glu_c1(%g: tensor<1x3x8xf32>, %u: tensor<1x3x4xf32>) {
  // expected-error @below {{'heddle.glu' op expected up of shape 1x3x8, got 'tensor<1x3x4xf32>'}}
  %0 = heddle.glu silu %g, %u : (tensor<1x3x8xf32>, tensor<1x3x4xf32>) -> tensor<1x3x8xf32>
  return
}

// -----

// There is no broadcasting; a bias has an op of its own.
func.func @add_c1(%x: tensor<1x3x8xf32>, %y: tensor<1x1x8xf32>) {
  // expected-error @below {{'heddle.add' op expected rhs of shape 1x3x8, got 'tensor<1x1x8xf32>'}}
  %0 = heddle.add %x, %y : (tensor<1x3x8xf32>, tensor<1x1x8xf32>) -> tensor<1x3x8xf32>
  return
}

// -----

func.func @gather_rows_c1(%x: tensor<2x3x8xf32>, %r: tensor<2x1xi32>) {
  // expected-error @below {{'heddle.gather_rows' op expected result of shape 2x1x8, got 'tensor<2x3x8xf32>'}}
  %0 = heddle.gather_rows %x, %r : (tensor<2x3x8xf32>, tensor<2x1xi32>) -> tensor<2x3x8xf32>
  return
}

// -----

func.func @argmax_c1(%l: tensor<2x1x9xf32>) {
  // expected-error @below {{'heddle.argmax' op expected result of shape 2x1, got 'tensor<2xi32>'}}
  %0 = heddle.argmax %l : (tensor<2x1x9xf32>) -> tensor<2xi32>
  return
}

// -----

// Logits without rows, and a result that keeps the vocabulary.
func.func @sample_c1(%0: tensor<2x9xf32>, %1: tensor<2xf32>, %2: tensor<2xi32>, %3: tensor<2xf32>, %4: tensor<2xf32>, %5: tensor<2xi32>, %6: tensor<2xi32>) {
  // expected-error @below {{'heddle.sample' op expected logits of rank 3, got 'tensor<2x9xf32>'}}
  %r = heddle.sample %0 temperature %1 top_k %2 top_p %3 min_p %4 seed %5 position %6 : (tensor<2x9xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x1xi32>
  return
}

// -----

func.func @sample_c1_result(%0: tensor<2x1x9xf32>, %1: tensor<2xf32>, %2: tensor<2xi32>, %3: tensor<2xf32>, %4: tensor<2xf32>, %5: tensor<2xi32>, %6: tensor<2xi32>) {
  // expected-error @below {{'heddle.sample' op expected result of shape 2x1, got 'tensor<2x9xi32>'}}
  %r = heddle.sample %0 temperature %1 top_k %2 top_p %3 min_p %4 seed %5 position %6 : (tensor<2x1x9xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x9xi32>
  return
}

// -----

func.func @sample_c1_element(%0: tensor<2x1x9xbf16>, %1: tensor<2xf32>, %2: tensor<2xi32>, %3: tensor<2xf32>, %4: tensor<2xf32>, %5: tensor<2xi32>, %6: tensor<2xi32>) {
  // expected-error @below {{'heddle.sample' op expected logits of element type f32, got 'tensor<2x1x9xbf16>'}}
  %r = heddle.sample %0 temperature %1 top_k %2 top_p %3 min_p %4 seed %5 position %6 : (tensor<2x1x9xbf16>, tensor<2xf32>, tensor<2xi32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x1xi32>
  return
}

// -----

// One value for each sequence, not for each row.
func.func @sample_c2(%0: tensor<2x1x9xf32>, %1: tensor<1xf32>, %2: tensor<2xi32>, %3: tensor<2xf32>, %4: tensor<2xf32>, %5: tensor<2xi32>, %6: tensor<2xi32>) {
  // expected-error @below {{'heddle.sample' op expected temperature of shape 2, got 'tensor<1xf32>'}}
  %r = heddle.sample %0 temperature %1 top_k %2 top_p %3 min_p %4 seed %5 position %6 : (tensor<2x1x9xf32>, tensor<1xf32>, tensor<2xi32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x1xi32>
  return
}

// -----

func.func @sample_c2_top_p(%0: tensor<2x1x9xf32>, %1: tensor<2xf32>, %2: tensor<2xi32>, %3: tensor<2x1xf32>, %4: tensor<2xf32>, %5: tensor<2xi32>, %6: tensor<2xi32>) {
  // expected-error @below {{'heddle.sample' op expected top_p of shape 2, got 'tensor<2x1xf32>'}}
  %r = heddle.sample %0 temperature %1 top_k %2 top_p %3 min_p %4 seed %5 position %6 : (tensor<2x1x9xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2x1xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x1xi32>
  return
}

// -----

func.func @sample_c2_min_p(%0: tensor<2x1x9xf32>, %1: tensor<2xf32>, %2: tensor<2xi32>, %3: tensor<2xf32>, %4: tensor<2xf16>, %5: tensor<2xi32>, %6: tensor<2xi32>) {
  // expected-error @below {{'heddle.sample' op expected min_p of element type f32, got 'tensor<2xf16>'}}
  %r = heddle.sample %0 temperature %1 top_k %2 top_p %3 min_p %4 seed %5 position %6 : (tensor<2x1x9xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xf32>, tensor<2xf16>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x1xi32>
  return
}

// -----

func.func @sample_c3(%0: tensor<2x1x9xf32>, %1: tensor<2xf32>, %2: tensor<3xi32>, %3: tensor<2xf32>, %4: tensor<2xf32>, %5: tensor<2xi32>, %6: tensor<2xi32>) {
  // expected-error @below {{'heddle.sample' op expected top_k of shape 2, got 'tensor<3xi32>'}}
  %r = heddle.sample %0 temperature %1 top_k %2 top_p %3 min_p %4 seed %5 position %6 : (tensor<2x1x9xf32>, tensor<2xf32>, tensor<3xi32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x1xi32>
  return
}

// -----

func.func @sample_c3_seed(%0: tensor<2x1x9xf32>, %1: tensor<2xf32>, %2: tensor<2xi32>, %3: tensor<2xf32>, %4: tensor<2xf32>, %5: tensor<2x1xi32>, %6: tensor<2xi32>) {
  // expected-error @below {{'heddle.sample' op expected seed of shape 2, got 'tensor<2x1xi32>'}}
  %r = heddle.sample %0 temperature %1 top_k %2 top_p %3 min_p %4 seed %5 position %6 : (tensor<2x1x9xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xf32>, tensor<2xf32>, tensor<2x1xi32>, tensor<2xi32>) -> tensor<2x1xi32>
  return
}

// -----

func.func @sample_c3_position(%0: tensor<2x1x9xf32>, %1: tensor<2xf32>, %2: tensor<2xi32>, %3: tensor<2xf32>, %4: tensor<2xf32>, %5: tensor<2xi32>, %6: tensor<2x1xi32>) {
  // expected-error @below {{'heddle.sample' op expected position of shape 2, got 'tensor<2x1xi32>'}}
  %r = heddle.sample %0 temperature %1 top_k %2 top_p %3 min_p %4 seed %5 position %6 : (tensor<2x1x9xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2x1xi32>) -> tensor<2x1xi32>
  return
}

// -----

// Global programs number their sequences themselves.
func.func @sample_c4(%0: tensor<2x1x9xf32>, %1: tensor<2xf32>, %2: tensor<2xi32>, %3: tensor<2xf32>, %4: tensor<2xf32>, %5: tensor<2xi32>, %6: tensor<2xi32>) {
  // expected-error @below {{'heddle.sample' op expected 'sequences' in a function marked 'heddle.local' only}}
  %r = heddle.sample %0 temperature %1 top_k %2 top_p %3 min_p %4 seed %5 position %6 sequences <{}, [[0, 1]]> : (tensor<2x1x9xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x1xi32>
  return
}

// -----

func.func @sample_c4_columns(%0: tensor<2x1x9xf32>, %1: tensor<2xf32>, %2: tensor<2xi32>, %3: tensor<2xf32>, %4: tensor<2xf32>, %5: tensor<2xi32>, %6: tensor<2xi32>) attributes {heddle.local} {
  // expected-error @below {{'heddle.sample' op expected 'sequences' of 2 columns, got 3}}
  %r = heddle.sample %0 temperature %1 top_k %2 top_p %3 min_p %4 seed %5 position %6 sequences <{}, [[0, 1, 2]]> : (tensor<2x1x9xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x1xi32>
  return
}

// -----

// What partition inserts has no meaning on global tensors.
func.func @local_index_global(%i: tensor<3xi32>) {
  // expected-error @below {{'heddle.local_index' op expected to be in a function marked 'heddle.local'}}
  %0 = heddle.local_index %i units <{tp}, [[0], [1]]> of 4 : tensor<3xi32> -> tensor<3xi32>
  return
}

// -----

func.func @local_index_c1(%i: tensor<3xi32>) attributes {heddle.local} {
  // expected-error @below {{'heddle.local_index' op expected result type 'tensor<3xi32>', got 'tensor<4xi32>'}}
  %0 = heddle.local_index %i units <{tp}, [[0], [1]]> of 4 : tensor<3xi32> -> tensor<4xi32>
  return
}

// -----

func.func @local_index_c3(%i: tensor<3xi32>) attributes {heddle.local} {
  // expected-error @below {{'heddle.local_index' op expected within to be positive with count, and 0 or more without, got 0}}
  %0 = heddle.local_index %i units <{tp}, [[0], [1]]> of 2 count : tensor<3xi32> -> tensor<3xi32>
  return
}

// -----

func.func @local_index_c2(%i: tensor<3xi32>) attributes {heddle.local} {
  // expected-error @below {{'heddle.local_index' op expected a positive unit, got 0}}
  %0 = heddle.local_index %i units <{tp}, [[0], [1]]> of 0 : tensor<3xi32> -> tensor<3xi32>
  return
}

// -----

func.func @split_chunks_c1(%x: tensor<2x6x8xf32>) attributes {heddle.local} {
  // expected-error @below {{'heddle.split_chunks' op expected chunks of dimension 1 of 'tensor<2x6x8xf32>', got 'tensor<3x2x3x8xf32>'}}
  %0 = heddle.split_chunks %x dim 1 : tensor<2x6x8xf32> -> tensor<3x2x3x8xf32>
  return
}

// -----

func.func @join_chunks_c1(%x: tensor<3x2x2x8xf32>) attributes {heddle.local} {
  // expected-error @below {{'heddle.join_chunks' op expected chunks of dimension 2 of 'tensor<2x6x8xf32>', got 'tensor<3x2x2x8xf32>'}}
  %0 = heddle.join_chunks %x dim 2 : tensor<3x2x2x8xf32> -> tensor<2x6x8xf32>
  return
}

// -----

func.func @mask_pad_c1(%x: tensor<2x8xf32>) attributes {heddle.local} {
  // expected-error @below {{'heddle.mask_pad' op expected a dimension below 2, got 2}}
  %0 = heddle.mask_pad %x dim 2 units <{tp}, [[0], [1]]> of 8 size 15 identity 0.0 : tensor<2x8xf32> -> tensor<2x8xf32>
  return
}

// -----

func.func @mask_pad_c2(%x: tensor<2x8xf32>) attributes {heddle.local} {
  // expected-error @below {{'heddle.mask_pad' op expected an extent of 6 in dimension 1, got 'tensor<2x8xf32>'}}
  %0 = heddle.mask_pad %x dim 1 units <{tp}, [[0, 1], [2, -1]]> of 3 size 9 identity 0.0 : tensor<2x8xf32> -> tensor<2x8xf32>
  return
}

// -----

func.func @take_units_c1(%x: tensor<2x8xf32>) attributes {heddle.local} {
  // expected-error @below {{'heddle.take_units' op expected result of shape 2x4, got 'tensor<3x4xf32>'}}
  %0 = heddle.take_units %x dim 1 slots <{tp}, [[0], [1]]> of 4 : tensor<2x8xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @take_units_c3(%x: tensor<2x8xf32>) attributes {heddle.local} {
  // expected-error @below {{'heddle.take_units' op expected a result extent of more than 4 and at most 8, got 4}}
  %0 = heddle.take_units %x dim 1 slots <{tp}, [[0, 1], [1, 0]]> of 4 : tensor<2x8xf32> -> tensor<2x4xf32>
  return
}

// -----

// 7 elements are two units of 4, the second one short: there is no third.
func.func @take_units_c4(%x: tensor<2x7xf32>) attributes {heddle.local} {
  // expected-error @below {{'heddle.take_units' op expected units between -1 and 1, got 2}}
  %0 = heddle.take_units %x dim 1 slots <{tp}, [[0], [2]]> of 4 : tensor<2x7xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @repeat_c1(%x: tensor<4xf32>) {
  // expected-error @below {{'heddle.repeat' op expected kind 1 to be in order}}
  %0 = heddle.repeat order [0, 0] carry(%x : tensor<4xf32>) {
    kind 0 (%c: tensor<4xf32>) {
      heddle.yield carry(%c : tensor<4xf32>)
    }
    kind 1 (%c: tensor<4xf32>) {
      heddle.yield carry(%c : tensor<4xf32>)
    }
  }
  return
}

// -----

func.func @repeat_c1_empty(%x: tensor<4xf32>) {
  // expected-error @below {{'heddle.repeat' op expected an order with at least one iteration}}
  %0 = heddle.repeat order [] carry(%x : tensor<4xf32>) {
    kind 0 (%c: tensor<4xf32>) {
      heddle.yield carry(%c : tensor<4xf32>)
    }
  }
  return
}

// -----

// A kind sees slices of its own stacks only.
func.func @repeat_c2(%x: tensor<4xf32>, %w: tensor<2x3xf32>) {
  // expected-error @below {{'heddle.repeat' op expected arguments 'tensor<4xf32>', 'tensor<3xf32>' of kind 0, got 'tensor<4xf32>'}}
  %0 = heddle.repeat order [0, 0] carry(%x : tensor<4xf32>) params(%w in 0 : tensor<2x3xf32>) {
    kind 0 (%c: tensor<4xf32>) {
      heddle.yield carry(%c : tensor<4xf32>)
    }
  }
  return
}

// -----

func.func @repeat_c3(%x: tensor<4xf32>, %w: tensor<3x4xf32>) {
  // expected-error @below {{'heddle.repeat' op expected param of kind 0 to be a stack of 2, got 'tensor<3x4xf32>'}}
  %0 = heddle.repeat order [0, 0] carry(%x : tensor<4xf32>) params(%w in 0 : tensor<3x4xf32>) {
    kind 0 (%c: tensor<4xf32>, %p: tensor<4xf32>) {
      heddle.yield carry(%c : tensor<4xf32>)
    }
  }
  return
}

// -----

// Layers are not dealt to ranks by a sharding (stages are slices of the order).
heddle.mesh @m ["tp" = 2]
func.func @repeat_c3_sharded(%x: tensor<4xf32>, %w: tensor<2x4xf32, #heddle.sharding<@m, [{tp}, {}]>>) {
  // expected-error @below {{'heddle.repeat' op expected dimension 0 of param not to be sharded}}
  %0 = heddle.repeat order [0, 0] carry(%x : tensor<4xf32>) params(%w in 0 : tensor<2x4xf32, #heddle.sharding<@m, [{tp}, {}]>>) {
    kind 0 (%c: tensor<4xf32>, %p: tensor<4xf32, #heddle.sharding<@m, [{}]>>) {
      heddle.yield carry(%c : tensor<4xf32>)
    }
  }
  return
}

// -----

func.func @repeat_c4(%x: tensor<4xf32>, %y: tensor<5xf32>) {
  // expected-error @below {{'heddle.repeat' op expected kind 0 to yield carries 'tensor<4xf32>', got 'tensor<5xf32>'}}
  %0 = heddle.repeat order [0, 0] carry(%x : tensor<4xf32>) {
    kind 0 (%c: tensor<4xf32>) {
      // expected-note @below {{yielded here}}
      heddle.yield carry(%y : tensor<5xf32>)
    }
  }
  return
}

// -----

// What a kind emits is stacked by its own number of iterations.
func.func @repeat_c4_emits(%x: tensor<4xf32>) {
  // expected-error @below {{'heddle.repeat' op expected results 'tensor<4xf32>', 'tensor<2x4xf32>', got 'tensor<4xf32>', 'tensor<3x4xf32>'}}
  %0, %1 = heddle.repeat order [0, 0] carry(%x : tensor<4xf32>) emits(tensor<3x4xf32>) {
    kind 0 (%c: tensor<4xf32>) {
      heddle.yield carry(%c : tensor<4xf32>) emit(%c : tensor<4xf32>)
    }
  }
  return
}

// -----

// The old cache is read after it was overwritten in place.
func.func @repeat_c5(%x: tensor<1x1xi32>, %pool: tensor<2x4x8xi32>, %s: tensor<1x1xi32>) {
  // expected-error @below {{'heddle.repeat' op expected one live version of inout slice 1 of kind 0, but its old value is used beside its update}}
  %0, %1, %2 = heddle.repeat order [0, 0] carry(%x : tensor<1x1xi32>) inout(%pool in 0 : tensor<2x4x8xi32>) emits(tensor<2x4x8xi32>) {
    kind 0 (%c: tensor<1x1xi32>, %p: tensor<4x8xi32>) {
      %p1 = heddle.cache_append %p, %c at %s : (tensor<4x8xi32>, tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<4x8xi32>
      heddle.yield carry(%c : tensor<1x1xi32>) inout(%p1 : tensor<4x8xi32>) emit(%p : tensor<4x8xi32>)
    }
  }
  return
}

// -----

heddle.mesh @m ["tp" = 2]
heddle.mesh @n ["tp" = 2]
func.func @reshard_c1(%x: tensor<4xf32, #heddle.sharding<@m, [{tp}]>>) {
  // expected-error @below {{'heddle.reshard' op expected shardings over one mesh}}
  %0 = heddle.reshard %x because "test" : tensor<4xf32, #heddle.sharding<@m, [{tp}]>> -> tensor<4xf32, #heddle.sharding<@n, [{}]>>
  return
}

// -----

// A complete value cannot be turned into terms of a sum.
heddle.mesh @m ["tp" = 2]
func.func @reshard_c2(%x: tensor<4xf32, #heddle.sharding<@m, [{}]>>) {
  // expected-error @below {{'heddle.reshard' op expected no new pending reduction, got 'tp'}}
  %0 = heddle.reshard %x because "test" : tensor<4xf32, #heddle.sharding<@m, [{}]>> -> tensor<4xf32, #heddle.sharding<@m, [{}], partial = sum{tp}>>
  return
}

// -----

// The marks that phases rely on are checked where they stand.
// expected-error @below {{'builtin.module' op expected 'heddle.local' on a func.func only}}
module attributes {heddle.local} {}

// -----

// expected-error @below {{expected 'heddle.mesh' to name a heddle.mesh, got @missing}}
func.func private @mesh_mark() attributes {heddle.mesh = @missing}

// -----

// What is merged are the parts of a cache's blocks.
func.func @attention_c6_merge(%q: tensor<1x3x4x8xf32>, %k: tensor<1x3x2x8xf32>, %p: tensor<1x3xi32>) {
  // expected-error @below {{'heddle.attention' op expected blocks of a cache whose parts are merged, got keys of 'tensor<1x3x2x8xf32>'}}
  %0 = heddle.attention %q, %k, %k pos(%p, %p) scale 1.0 causal keys <merge {cp}>
    : (tensor<1x3x4x8xf32>, tensor<1x3x2x8xf32>, tensor<1x3x2x8xf32>, tensor<1x3xi32>, tensor<1x3xi32>) -> tensor<1x3x4x8xf32>
  return
}

// -----

// Keys of a cache are not those of the queries' tokens.
func.func @attention_c6(%q: tensor<1x3x4x8xf32>, %k: tensor<1x5x2x8xf32>, %qp: tensor<1x3xi32>, %kp: tensor<1x5xi32>) {
  // expected-error @below {{'heddle.attention' op expected keys that are spread over ranks to be those of the queries' tokens}}
  %0 = heddle.attention %q, %k, %k pos(%qp, %kp) scale 1.0 causal keys <ring {cp}>
    : (tensor<1x3x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x8xf32>, tensor<1x3xi32>, tensor<1x5xi32>) -> tensor<1x3x4x8xf32>
  return
}

// -----

func.func @fill_c1() attributes {heddle.local} {
  // expected-error @below {{'heddle.fill' op expected an f32 result, got 'tensor<4xbf16>'}}
  %0 = heddle.fill 0.0 : tensor<4xbf16>
  return
}
