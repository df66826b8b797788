// RUN: heddle-opt %s -split-input-file -verify-diagnostics

// One function per numbered constraint, named after it. Groups of different
// ranks must agree, so what they say is checked before any rank exists.

func.func @all_reduce_c1(%x: tensor<4xf32>) attributes {heddle.local} {
  // expected-error @below {{'comm.all_reduce' op expected at least one axis in the group}}
  %0 = comm.all_reduce sum %x group [] because "test" : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @all_reduce_c2(%x: tensor<4xf32>) attributes {heddle.local} {
  // expected-error @below {{'comm.all_reduce' op expected result type 'tensor<4xf32>', got 'tensor<8xf32>'}}
  %0 = comm.all_reduce sum %x group [#heddle.axis<tp>] because "test" : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

func.func @reduce_scatter_c1(%x: tensor<4xf32>) attributes {heddle.local} {
  // expected-error @below {{'comm.reduce_scatter' op expected each axis at most once, got 'tp' twice}}
  %0 = comm.reduce_scatter sum %x dim 0 group [#heddle.axis<tp>, #heddle.axis<tp>] because "test" : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

// Chunks have one size; the caller pads where they would not.
func.func @reduce_scatter_c2(%x: tensor<5xf32>) attributes {heddle.local} {
  // expected-error @below {{'comm.reduce_scatter' op expected equal extents but a multiple in dimension 0, got 'tensor<5xf32>' and 'tensor<2xf32>'}}
  %0 = comm.reduce_scatter sum %x dim 0 group [#heddle.axis<tp>] because "test" : tensor<5xf32> -> tensor<2xf32>
  return
}

// -----

func.func @reduce_scatter_c2_dim(%x: tensor<4xf32>) attributes {heddle.local} {
  // expected-error @below {{'comm.reduce_scatter' op expected types of one rank and element type with dimension 1, got 'tensor<4xf32>' and 'tensor<2xf32>'}}
  %0 = comm.reduce_scatter sum %x dim 1 group [#heddle.axis<tp>] because "test" : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

func.func @all_gather_c1(%x: tensor<2xf32>) attributes {heddle.local} {
  // expected-error @below {{'comm.all_gather' op expected at least one axis in the group}}
  %0 = comm.all_gather %x dim 0 group [] because "test" : tensor<2xf32> -> tensor<4xf32>
  return
}

// -----

// A gather does not change the element type on the way.
func.func @all_gather_c2(%x: tensor<2xf32>) attributes {heddle.local} {
  // expected-error @below {{'comm.all_gather' op expected types of one rank and element type with dimension 0, got 'tensor<4xbf16>' and 'tensor<2xf32>'}}
  %0 = comm.all_gather %x dim 0 group [#heddle.axis<tp>] because "test" : tensor<2xf32> -> tensor<4xbf16>
  return
}

// -----

func.func @all_to_all_c1(%x: tensor<4x6xf32>) attributes {heddle.local} {
  // expected-error @below {{'comm.all_to_all' op expected each axis at most once, got 'tp' twice}}
  %0 = comm.all_to_all %x split 0 concat 1 group [#heddle.axis<tp>, #heddle.axis<tp>] because "test" : tensor<4x6xf32> -> tensor<2x12xf32>
  return
}

// -----

// What leaves by one dimension comes back by the other: sizes are conserved.
func.func @all_to_all_c2(%x: tensor<4x6xf32>) attributes {heddle.local} {
  // expected-error @below {{'comm.all_to_all' op expected one dimension divided and another multiplied by the group's size, got 'tensor<4x6xf32>' and 'tensor<2x6xf32>'}}
  %0 = comm.all_to_all %x split 0 concat 1 group [#heddle.axis<tp>] because "test" : tensor<4x6xf32> -> tensor<2x6xf32>
  return
}

// -----

func.func @permute_c1(%x: tensor<4xf32>) attributes {heddle.local} {
  // expected-error @below {{'comm.permute' op expected at least one axis in the group}}
  %0 = comm.permute %x shift 1 group [] because "test" : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @permute_c2(%x: tensor<4xf32>) attributes {heddle.local} {
  // expected-error @below {{'comm.permute' op expected result type 'tensor<4xf32>', got 'tensor<4xf64>'}}
  %0 = comm.permute %x shift 1 group [#heddle.axis<tp>] because "test" : tensor<4xf32> -> tensor<4xf64>
  return
}

// -----

func.func @permute_start_c1(%x: tensor<4xf32>) attributes {heddle.local} {
  // expected-error @below {{'comm.permute_start' op expected at least one axis in the group}}
  %0 = comm.permute_start %x shift 1 group [] because "test" : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @permute_start_c2(%x: tensor<4xf32>) attributes {heddle.local} {
  // expected-error @below {{'comm.permute_start' op expected result type 'tensor<4xf32>', got 'tensor<4xf64>'}}
  %0 = comm.permute_start %x shift 1 group [#heddle.axis<tp>] because "test" : tensor<4xf32> -> tensor<4xf64>
  return
}

// -----

// What is sent has to be known: it must not change before.
func.func @wait_c1(%x: tensor<4xf32>, %y: tensor<4xf32>) attributes {heddle.local} {
  %0 = comm.permute_start %x shift 1 group [#heddle.axis<tp>] because "test" : tensor<4xf32> -> tensor<4xf32>
  // expected-error @below {{'comm.wait' op expected the result of a comm.permute_start of 'tensor<4xf32>' and its input}}
  %1 = comm.wait %0 from %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @wait_c2(%x: tensor<4xf32>) attributes {heddle.local} {
  %0 = comm.permute_start %x shift 1 group [#heddle.axis<tp>] because "test" : tensor<4xf32> -> tensor<4xf32>
  // expected-error @below {{'comm.wait' op expected result type 'tensor<4xf32>', got 'tensor<4xf64>'}}
  %1 = comm.wait %0 from %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf64>
  return
}
