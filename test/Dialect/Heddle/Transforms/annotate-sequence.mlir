// RUN: heddle-opt %s --heddle-annotate='strategy=tensor(tp);sequence(tp)' | FileCheck %s
// RUN: heddle-opt %s --heddle-annotate='strategy=tensor(tp);sequence(tp)' --heddle-partition | FileCheck %s --check-prefix=LOCAL
// RUN: sed 's/x6x/x1x/g' %s | heddle-opt --heddle-annotate='strategy=tensor(tp);sequence(tp)' 2>&1 | FileCheck %s --check-prefix=FEW

heddle.mesh @m ["tp" = 2]

// What tensor(tp) settled is not taken back: products keep their heads and
// widths, and see every token. Their pending sums go to the shards of the
// residual, which is a reduce-scatter instead of an all-reduce.
// CHECK-LABEL: func.func @mlp
// CHECK: heddle.rms_norm {{.*}} -> tensor<1x6x8xf32, #heddle.sharding<@m, [{}, {tp}, {}]>>
// CHECK: %[[X:.*]] = heddle.reshard {{.*}} because "heddle.linear needs another layout" : {{.*}} -> tensor<1x6x8xf32, #heddle.sharding<@m, [{}, {}, {}]>>
// CHECK: heddle.linear %[[X]]{{.*}} -> tensor<1x6x12xf32, #heddle.sharding<@m, [{}, {}, {tp}]>>
// CHECK: heddle.linear %[[X]]{{.*}} -> tensor<1x6x12xf32, #heddle.sharding<@m, [{}, {}, {tp}]>>
// CHECK: heddle.linear {{.*}} -> tensor<1x6x8xf32, #heddle.sharding<@m, [{}, {}, {}], partial = sum{tp}>>
// CHECK: heddle.reshard {{.*}} because "heddle.add needs a complete value" : {{.*}} -> tensor<1x6x8xf32, #heddle.sharding<@m, [{}, {tp}, {}]>>
// CHECK: heddle.add {{.*}} -> tensor<1x6x8xf32, #heddle.sharding<@m, [{}, {tp}, {}]>>
// The chosen rows are on some rank each: a sum of few rows.
// CHECK: heddle.gather_rows {{.*}} -> tensor<1x2x8xf32, #heddle.sharding<@m, [{}, {}, {}], partial = sum{tp}>>

// LOCAL-LABEL: func.func @mlp
// LOCAL: heddle.rms_norm {{.*}} -> tensor<1x3x8xf32>
// LOCAL: comm.all_gather {{.*}} dim 1 {{.*}} tensor<1x3x8xf32> -> tensor<1x6x8xf32>
// LOCAL-NOT: comm.
// LOCAL: comm.reduce_scatter sum {{.*}} dim 1 {{.*}} tensor<1x6x8xf32> -> tensor<1x3x8xf32>
// LOCAL-NOT: comm.
// LOCAL: heddle.local_index
// LOCAL: heddle.gather_rows
// LOCAL-NEXT: comm.all_reduce {{.*}} tensor<1x2x8xf32>
// LOCAL-NOT: comm.

// One token has nothing to share.
// FEW: warning: strategy sequence(tp) found nothing to split
func.func @mlp(%x: tensor<1x6x8xf32> {heddle.binding = #heddle.binding<input "x">}, %g: tensor<8xf32>, %wg: tensor<12x8xf32>, %wu: tensor<12x8xf32>, %wd: tensor<8x12xf32>, %last: tensor<1x2xi32>) -> tensor<1x2x8xf32> {
  %n = heddle.rms_norm %x, %g eps 1.0e-05 : (tensor<1x6x8xf32>, tensor<8xf32>) -> tensor<1x6x8xf32>
  %gate = heddle.linear %n, %wg : (tensor<1x6x8xf32>, tensor<12x8xf32>) -> tensor<1x6x12xf32>
  %up = heddle.linear %n, %wu : (tensor<1x6x8xf32>, tensor<12x8xf32>) -> tensor<1x6x12xf32>
  %h = heddle.glu silu %gate, %up : (tensor<1x6x12xf32>, tensor<1x6x12xf32>) -> tensor<1x6x12xf32>
  %d = heddle.linear %h, %wd : (tensor<1x6x12xf32>, tensor<8x12xf32>) -> tensor<1x6x8xf32>
  %y = heddle.add %x, %d : (tensor<1x6x8xf32>, tensor<1x6x8xf32>) -> tensor<1x6x8xf32>
  %t = heddle.gather_rows %y, %last : (tensor<1x6x8xf32>, tensor<1x2xi32>) -> tensor<1x2x8xf32>
  return %t : tensor<1x2x8xf32>
}
