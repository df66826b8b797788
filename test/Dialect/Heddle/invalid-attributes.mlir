// RUN: heddle-opt %s -split-input-file -verify-diagnostics

// One declaration per numbered constraint of an attribute, named after it.
// Attributes check themselves, so the error stands where the text is parsed.

// A unit of no elements cannot be dealt.
// expected-error @below {{expected a positive unit, got 0}}
func.func private @dim_c1(tensor<8xf32, #heddle.sharding<@m, [{tp, unit = 0}]>>)

// -----

// expected-error @below {{expected a positive cyclic block, got 0}}
func.func private @dim_c2(tensor<8xf32, #heddle.sharding<@m, [{tp, map = cyclic(0)}]>>)

// -----

// Without an axis there is one rank, and nothing to map.
// expected-error @below {{expected an axis with map = zigzag, got none}}
func.func private @dim_c3(tensor<8xf32, #heddle.sharding<@m, [{map = zigzag}]>>)

// -----

// expected-error @below {{expected each axis at most once, got 'tp' twice}}
func.func private @dim_c4(tensor<8xf32, #heddle.sharding<@m, [{tp, tp}]>>)

// -----

// A whole axis overlaps each part of it.
// expected-error @below {{expected each axis at most once, got 'tp' twice}}
func.func private @dim_c4_sub_axis(tensor<8xf32, #heddle.sharding<@m, [{tp, tp:(1)2}]>>)

// -----

// expected-error @below {{expected positive sizes in sub-axis, got (0)2}}
func.func private @axis_sizes(tensor<8xf32, #heddle.sharding<@m, [{tp:(0)2}]>>)

// -----

// expected-error @below {{expected a map: block, balanced, cyclic(b), zigzag, table @t or data @t, got 'spiral'}}
func.func private @dim_map(tensor<8xf32, #heddle.sharding<@m, [{tp, map = spiral}]>>)

// -----

// expected-error @below {{expected one sharding entry per dimension (2), got 1}}
func.func private @sharding_c1(tensor<8x8xf32, #heddle.sharding<@m, [{tp}]>>)

// -----

// One coordinate cannot choose a slice of two dimensions at once.
// expected-error @below {{expected each axis at most once, got 'tp' twice}}
func.func private @sharding_c2(tensor<8x8xf32, #heddle.sharding<@m, [{tp}, {tp}]>>)

// -----

// A rank that holds a slice does not hold a term of the whole.
// expected-error @below {{expected each axis at most once, got 'tp' twice}}
func.func private @sharding_c2_partial(tensor<8x8xf32, #heddle.sharding<@m, [{tp}, {}], partial = sum{tp}>>)

// -----

// Two parts of one axis that overlap in coordinates are the same axis twice.
// expected-error @below {{expected each axis at most once, got 'tp' twice}}
func.func private @sharding_c2_sub_axes(tensor<8x8xf32, #heddle.sharding<@m, [{tp:(1)4}, {tp:(2)2}]>>)

// -----

// 16 elements are half a block of q4_1: no rank could decode its part.
// expected-error @below {{expected the unit of the innermost dimension to be a multiple of the block of 32 of '!heddle.q4_1', got 16}}
func.func private @sharding_c3(tensor<8x64x!heddle.q4_1, #heddle.sharding<@m, [{}, {tp, unit = 16}]>>)

// -----

// expected-error @below {{expected sum or max, got 'product'}}
func.func private @sharding_kind(tensor<8xf32, #heddle.sharding<@m, [{}], partial = product{tp}>>)

// -----

// expected-error @below {{expected rows of 2 entries, got 1}}
func.func private @rank_table_c1() attributes {t = #heddle.rank_table<{tp}, [[0, 1], [1]]>}

// -----

// Ranks that no axis tells apart cannot have rows of their own.
// expected-error @below {{expected one row where there are no axes, got 2}}
func.func private @rank_table_c2() attributes {t = #heddle.rank_table<{}, [[0], [1]]>}

// -----

// A stacked name says which layers it stands for.
// expected-error @below {{expected 'layers' exactly on parameters whose name holds {i}, got "model.layers.{i}.w" with 0 layers}}
func.func private @binding_c1(tensor<8xf32> {heddle.binding = #heddle.binding<param "model.layers.{i}.w">})

// -----

// Only parameters are stacked.
// expected-error @below {{expected 'layers' exactly on parameters whose name holds {i}, got "cache.{i}" with 1 layers}}
func.func private @binding_c1_state(tensor<8xf32> {heddle.binding = #heddle.binding<state "cache.{i}" layers [0]>})

// -----

// expected-error @below {{expected a name, got none}}
func.func private @binding_c2(tensor<8xf32> {heddle.binding = #heddle.binding<input "">})

// -----

// expected-error @below {{expected param, input, state or output, got 'weight'}}
func.func private @binding_kind(tensor<8xf32> {heddle.binding = #heddle.binding<weight "w">})

// -----

// expected-error @below {{expected layers, gguf, rotary_rows, scale, offset or fill, got 'layout'}}
func.func private @binding_option(tensor<8xf32> {heddle.binding = #heddle.binding<param "w" layout 1>})

// -----

// expected-error @below {{expected the packing 'panel16@1', got 'panel8@1'}}
func.func private @packing_c1(tensor<32x32x!heddle.q8_0, #heddle.packing<"panel8@1">>)

// -----

// expected-error @below {{expected elements that 'panel16@1' can hold (f16, bf16, q4_0, q4_1, q8_0), got 'f32'}}
func.func private @packing_c2(tensor<32x32xf32, #heddle.packing<"panel16@1">>)

// -----

// expected-error @below {{expected a packed tensor of rank 2 or more, got rank 1}}
func.func private @packing_c2_rank(tensor<32x!heddle.q8_0, #heddle.packing<"panel16@1">>)

// -----

// Elements are rotated in pairs.
// expected-error @below {{expected an even rotary dim, got 7}}
func.func private @rope_c1() attributes {r = #heddle.rope<dim 7 theta 1.0e+04>}

// -----

// expected-error @below {{expected a positive theta, got 0.0}}
func.func private @rope_c2() attributes {r = #heddle.rope<dim 8 theta 0.0>}

// -----

// expected-error @below {{expected a positive scaling factor, got -2.0}}
func.func private @rope_c3() attributes {r = #heddle.rope<dim 8 theta 1.0e+04 linear -2.0>}

// -----

// With low = high the blend between the two bands would divide by zero.
// expected-error @below {{expected 0 < low < high and original > 0 for llama3 scaling}}
func.func private @rope_c4() attributes {r = #heddle.rope<dim 8 theta 1.0e+04 llama3 8.0 low 4.0 high 4.0 original 64>}

// -----

// expected-error @below {{expected slopes of 1 head or more, got 0}}
func.func private @alibi_c1() attributes {a = #heddle.alibi<heads 0 bias 8.0>}

// -----

// expected-error @below {{expected a positive bias, got -8.0}}
func.func private @alibi_c2() attributes {a = #heddle.alibi<heads 4 bias -8.0>}

// -----

// expected-error @below {{expected positions below a number from 1 to 2147483647, got 0}}
func.func private @consecutive_c1() attributes {c = #heddle.consecutive<below 0>}

// -----

// A promise is about an input.
// expected-error @below {{expected 'heddle.consecutive' to be a #heddle.consecutive on an input, got #heddle.consecutive<below 4> on argument 0}}
func.func private @consecutive_on_output(%p: tensor<1x4xi32> {heddle.consecutive = #heddle.consecutive<below 4>})

// -----

// expected-error @below {{expected 'heddle.consecutive' to be a #heddle.consecutive, got 4 : i64}}
func.func private @consecutive_number() attributes {heddle.consecutive = 4}

// -----

// expected-error @below {{expected at least one axis that keys go round}}
func.func private @keys_c1() attributes {k = #heddle.keys<ring {}>}
