// RUN: heddle-opt %s --heddle-schedule | FileCheck %s
// RUN: sed 's/heddle.extent = 40 : i64/heddle.extent = 40 : i32/' %s | not heddle-opt --heddle-schedule 2>&1 | FileCheck %s --check-prefix=TYPE

// A host may ask for the leading rows of a program's token axis. Kernels whose
// rows are tokens of one sequence take part; what has other rows (here the two
// that leave) is computed whole.

heddle.mesh @m ["tp" = 2]

// CHECK-LABEL: func.func @prefill
// CHECK: call @[[$NORM:rms_norm]](
// CHECK: heddle.gemm
// CHECK: call @[[$ADD:add]](
// CHECK: call @[[$TAIL:gather_rows]](
func.func @prefill(%x: tensor<1x40x24xf32>, %g: tensor<24xf32>, %w: tensor<24x24xf32>, %last: tensor<1x2xi32>) -> tensor<1x2x24xf32> attributes {heddle.local, heddle.mesh = @m, heddle.extent = 40 : i64} {
  %n = heddle.rms_norm %x, %g eps 1.0e-05 : (tensor<1x40x24xf32>, tensor<24xf32>) -> tensor<1x40x24xf32>
  %p = heddle.linear %n, %w : (tensor<1x40x24xf32>, tensor<24x24xf32>) -> tensor<1x40x24xf32>
  %s = comm.all_reduce sum %p group [#heddle.axis<tp>] because "x" : tensor<1x40x24xf32> -> tensor<1x40x24xf32>
  %y = heddle.add %x, %s : (tensor<1x40x24xf32>, tensor<1x40x24xf32>) -> tensor<1x40x24xf32>
  %t = heddle.gather_rows %y, %last : (tensor<1x40x24xf32>, tensor<1x2xi32>) -> tensor<1x2x24xf32>
  return %t : tensor<1x2x24xf32>
}

// Slots say which rows count. Where they go to another rank they have to be
// right for every row.
// CHECK-LABEL: func.func @slots
// CHECK: call @[[$SLOTS:cache_slots]](
// CHECK: comm.all_gather
func.func @slots(%p: tensor<1x40xi32>, %b: tensor<1x3xi32>) -> tensor<2x40xi32> attributes {heddle.local, heddle.mesh = @m, heddle.extent = 40 : i64} {
  %0 = heddle.cache_slots %p, %b size 16 : (tensor<1x40xi32>, tensor<1x3xi32>) -> tensor<1x40xi32>
  %1 = comm.all_gather %0 dim 0 group [#heddle.axis<tp>] because "x" : tensor<1x40xi32> -> tensor<2x40xi32>
  return %1 : tensor<2x40xi32>
}

// CHECK: func.func private @[[$NORM]]({{.*}}heddle.extent = 40 : i64
// CHECK: func.func private @[[$ADD]]({{.*}}heddle.extent = 40 : i64
// CHECK: func.func private @[[$TAIL]](
// CHECK-NOT: heddle.extent
// CHECK: func.func private @[[$SLOTS]](
// CHECK-NOT: heddle.extent
// CHECK: {{^}}}

// TYPE: expected 'heddle.extent' to be a positive i64 on a func.func, got 40 : i32
