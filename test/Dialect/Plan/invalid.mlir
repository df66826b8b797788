// RUN: heddle-opt %s -split-input-file -verify-diagnostics

// One op per numbered constraint, named after it where it has a name. The plan
// is what the runtime executes without asking again.

// Kernels load whole vectors from the start of a region.
// expected-error @below {{'plan.region' op expected an offset that is a multiple of 64 and a size, got 32 and 64}}
plan.region @region_c1 in "dev" offset 32 size 64 activation

// -----

// Without a stride all layers would be read from one place.
plan.region @tensor_c1 in "dev" offset 0 size 64 parameter
// expected-error @below {{'plan.tensor' op expected a stride exactly on stacked parameters, got 0}}
plan.tensor <param "model.layers.{i}.w" layers [0, 1]> at <r @tensor_c1[0 : 32]> global tensor<2x8xf32> local tensor<2x8xf32> stride 0 packing "row_major@1" program ""

// -----

plan.program @extent_c1 {
  // expected-error @below {{'plan.extent' op expected at least one row, got 0}}
  %n = plan.extent "valid_rows" max 0
}

// -----

plan.program @launch_c1 {
  // expected-error @below {{'plan.launch' op expected at least one tile, got 0}}
  plan.launch @kernel [#plan.ref<r @work[0 : 64]>] block 0 tiles 0
}

// -----

// s0 is the first scalar operand, and there is none.
plan.program @launch_c2 {
  // expected-error @below {{'plan.launch' op expected scalar operands below 0, got}}
  plan.launch @kernel [#plan.ref<r @work[0 + 64 * s0 : 64]>] block 0 tiles 1
}

// -----

plan.program @gemm_c1 {
  // expected-error @below {{'plan.gemm' op expected positive sizes, got 0}}
  plan.gemm <r @work[0 : 64]> <r @par[0 : 64]> <w @work[64 : 64]> m 0 n 4 k 4 panels 1
}

// -----

plan.program @gemm_c2 {
  // expected-error @below {{'plan.gemm' op expected scalar operands below 0, got}}
  plan.gemm <r @work[0 : 64]> <r @par[0 + 64 * s1 : 64]> <w @work[64 : 64]> m 4 n 4 k 4 panels 1
}

// -----

plan.program @collective_c1 {
  // expected-error @below {{'plan.collective' op expected at least one element, got 0}}
  plan.collective all_reduce <rw @work[0 : 64]> <rw @work[0 : 64]> f32 elements 0 group [#heddle.axis<tp>] id 0 shift 0 reduction "sum" because "test" origin "heddle.linear"
}

// -----

// Offsets before the region are another region's memory.
plan.program @collective_c2 {
  // expected-error @below {{'plan.collective' op expected a range that is not negative, got}}
  plan.collective all_reduce <rw @work[-64 : 64]> <rw @work[-64 : 64]> f32 elements 16 group [#heddle.axis<tp>] id 0 shift 0 reduction "sum" because "test" origin "heddle.linear"
}

// -----

plan.program @wait_c1 {
  // expected-error @below {{'plan.wait' op expected an async collective with id 3 in the program, got none}}
  plan.wait 3
}

// -----

plan.program @copy_c1 {
  // expected-error @below {{'plan.copy' op expected ranges of one size, got}}
  plan.copy <r @work[0 : 64]> <w @work[64 : 128]>
}

// -----

plan.program @copy_c2 {
  // expected-error @below {{'plan.copy' op expected scalar operands below 0, got}}
  plan.copy <r @work[0 : 64]> <w @work[64 + 64 * s0 mod 2 : 64]>
}

// -----

plan.program @for_c1 {
  // expected-error @below {{'plan.for' op expected at least one trip, got 0}}
  plan.for 0 {
  ^bb0(%i: i64):
  }
}

// -----

plan.program @for_c2 {
  // expected-error @below {{'plan.for' op expected a body with one i64 argument}}
  plan.for 3 {
  ^bb0(%i: i32):
  }
}

// -----

plan.program @case_c1 {
  %0 = plan.const 0
  // expected-error @below {{'plan.case' op expected at least one block}}
  "plan.case"(%0) : (i64) -> ()
}
