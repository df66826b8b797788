// RUN: heddle-opt %s --heddle-partition --heddle-verify-local | FileCheck %s

heddle.mesh @m ["tp" = 2]

// A pending sum whose target is cut over the same axis is reduced and cut in
// one step (sequence parallelism's half of an all-reduce).
// CHECK-LABEL: func.func @reduce_scatter
// CHECK: comm.reduce_scatter sum %{{.*}} dim 1 group [#heddle.axis<tp>] because "test" : tensor<1x4x8xf32> -> tensor<1x2x8xf32>
func.func @reduce_scatter(%x: tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {}, {}], partial = sum{tp}>>)
    -> tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {tp}, {}]>> attributes {heddle.mesh = @m} {
  %0 = heddle.reshard %x because "test" : tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {}, {}], partial = sum{tp}>> -> tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {tp}, {}]>>
  return %0 : tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {tp}, {}]>>
}

// An axis that moves from tokens to heads is an all-to-all.
// CHECK-LABEL: func.func @all_to_all
// CHECK: comm.all_to_all %{{.*}} split 2 concat 1 group [#heddle.axis<tp>] because "test" : tensor<1x2x8xf32> -> tensor<1x4x4xf32>
func.func @all_to_all(%x: tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {tp}, {}]>>)
    -> tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {}, {tp}]>> attributes {heddle.mesh = @m} {
  %0 = heddle.reshard %x because "test" : tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {tp}, {}]>> -> tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {}, {tp}]>>
  return %0 : tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {}, {tp}]>>
}

// A replicated value is cut without communication.
// CHECK-LABEL: func.func @slice
// CHECK-NOT: comm.
// CHECK: heddle.take_units %{{.*}} dim 1 slots <{tp}, {{\[\[}}0], [1]]> of 2 : tensor<1x4x8xf32> -> tensor<1x2x8xf32>
func.func @slice(%x: tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {}, {}]>>)
    -> tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {tp}, {}]>> attributes {heddle.mesh = @m} {
  %0 = heddle.reshard %x because "test" : tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {}, {}]>> -> tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {tp}, {}]>>
  return %0 : tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {tp}, {}]>>
}

// Zigzag deals blocks 0 and 3 to rank 0, 1 and 2 to rank 1; the gather puts
// them back into global order.
// CHECK-LABEL: func.func @gather_zigzag
// CHECK: %[[G:.*]] = comm.all_gather %{{.*}} dim 1 group [#heddle.axis<tp>] because "test" : tensor<1x4x8xf32> -> tensor<1x8x8xf32>
// CHECK: heddle.take_units %[[G]] dim 1 slots <{}, {{\[\[}}0, 1, 4, 5, 6, 7, 2, 3]]> of 1
func.func @gather_zigzag(%x: tensor<1x8x8xf32, #heddle.sharding<@m, [{}, {tp, map = zigzag}, {}]>>)
    -> tensor<1x8x8xf32, #heddle.sharding<@m, [{}, {}, {}]>> attributes {heddle.mesh = @m} {
  %0 = heddle.reshard %x because "test" : tensor<1x8x8xf32, #heddle.sharding<@m, [{}, {tp, map = zigzag}, {}]>> -> tensor<1x8x8xf32, #heddle.sharding<@m, [{}, {}, {}]>>
  return %0 : tensor<1x8x8xf32, #heddle.sharding<@m, [{}, {}, {}]>>
}
