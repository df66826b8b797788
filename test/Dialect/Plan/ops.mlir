// RUN: heddle-opt %s | heddle-opt | FileCheck %s

// Every op parses, prints and parses again.

heddle.mesh @m ["tp" = 2]

// CHECK: plan.region @par in "dev" offset 0 size 4096 parameter
plan.region @par in "dev" offset 0 size 4096 parameter
// CHECK: plan.region @work in "dev" offset 4096 size 1024 activation
plan.region @work in "dev" offset 4096 size 1024 activation

// CHECK: plan.tensor <param "model.layers.{i}.w" layers [0, 1]> at <r @par[64 : 32]> global tensor<2x8xf32> local tensor<2x8xf32> stride 64 packing "row_major@1" program ""
plan.tensor <param "model.layers.{i}.w" layers [0, 1]> at <r @par[64 : 32]> global tensor<2x8xf32> local tensor<2x8xf32> stride 64 packing "row_major@1" program ""

// CHECK: plan.program @decode {
plan.program @decode {
  // CHECK-NEXT: %[[RANK:.*]] = plan.coord "tp"
  %rank = plan.coord "tp"
  // CHECK-NEXT: %[[FIRST:.*]] = plan.lookup {{\[}}5, 7, -1][%[[RANK]]]
  %first = plan.lookup [5, 7, -1][%rank]
  // CHECK-NEXT: %[[ROWS:.*]] = plan.extent "valid_rows" max 3
  %rows = plan.extent "valid_rows" max 3
  // CHECK-NEXT: plan.for 3 {
  plan.for 3 {
  // CHECK-NEXT: ^bb0(%[[I:.*]]: i64):
  ^bb0(%i: i64):
    // CHECK-NEXT: %[[ONE:.*]] = plan.const 1
    %one = plan.const 1
    // CHECK-NEXT: %[[NEXT:.*]] = plan.binary add %[[I]], %[[ONE]]
    %next = plan.binary add %i, %one
    // CHECK-NEXT: plan.launch @norm [#plan.ref<r @work[0 + 128 * s0 mod 2 : 96]>, #plan.ref<w @work[256 : 96]>] scalars(%[[I]], %[[FIRST]]) block 1 tiles 4
    plan.launch @norm [#plan.ref<r @work[0 + 128 * s0 mod 2 : 96]>, #plan.ref<w @work[256 : 96]>] scalars(%i, %first) block 1 tiles 4
    // CHECK-NEXT: plan.gemm <r @work[256 : 96]> <r @par[0 + 512 * s0 : 384]> <w @work[512 : 64]> scalars(%[[I]]) m 3 n 4 k 8 panels 1
    plan.gemm <r @work[256 : 96]> <r @par[0 + 512 * s0 : 384]> <w @work[512 : 64]> scalars(%i) m 3 n 4 k 8 panels 1
    // CHECK-NEXT: plan.collective all_reduce <rw @work[512 : 48]> <rw @work[512 : 48]> f32 elements 12 group [#heddle.axis<tp>] id 4 shift 0 reduction "sum" because "heddle.add needs a complete value" origin "layers.{i}.down_proj"
    plan.collective all_reduce <rw @work[512 : 48]> <rw @work[512 : 48]> f32 elements 12 group [#heddle.axis<tp>] id 4 shift 0 reduction "sum" because "heddle.add needs a complete value" origin "layers.{i}.down_proj"
    // CHECK-NEXT: plan.gemm {{.*}} m 3 rows %[[ROWS]] n 4 k 8 panels 1
    plan.gemm <r @work[256 : 96]> <r @par[0 : 384]> <w @work[512 : 64]> m 3 rows %rows n 4 k 8 panels 1
    // CHECK-NEXT: plan.collective all_reduce {{.*}} elements 3 some %[[ROWS]] group
    plan.collective all_reduce <rw @work[512 : 12]> <rw @work[512 : 12]> f32 elements 3 some %rows group [#heddle.axis<tp>] id 5 shift 0 reduction "sum" because "x" origin "y"
    // CHECK-NEXT: plan.collective permute {{.*}} id 6 shift 1 {{.*}} async
    plan.collective permute <r @work[512 : 12]> <w @work[528 : 12]> f32 elements 3 group [#heddle.axis<tp>] id 6 shift 1 reduction "sum" because "x" origin "y" async
    // CHECK-NEXT: plan.wait 6
    plan.wait 6
    // CHECK-NEXT: plan.copy <r @work[512 : 48]> <w @work[0 + 128 * s0 mod 2 : 48]> scalars(%[[NEXT]])
    plan.copy <r @work[512 : 48]> <w @work[0 + 128 * s0 mod 2 : 48]> scalars(%next)
    // CHECK-NEXT: %[[KIND:.*]] = plan.lookup {{\[}}0, 1, 0][%[[I]]]
    %kind = plan.lookup [0, 1, 0][%i]
    // CHECK-NEXT: plan.case %[[KIND]] {
    plan.case %kind {
      // CHECK-NEXT: plan.copy <r @work[0 : 4]> <w @work[8 : 4]>
      plan.copy <r @work[0 : 4]> <w @work[8 : 4]>
    }, {
      // CHECK: plan.copy <r @work[4 : 4]> <w @work[8 : 4]>
      plan.copy <r @work[4 : 4]> <w @work[8 : 4]>
    }
  }
}
