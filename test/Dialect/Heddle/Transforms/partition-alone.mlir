// RUN: heddle-opt %s --heddle-partition --heddle-verify-local | FileCheck %s

heddle.mesh @m ["tp" = 1]

// A group of one rank has nothing to say: a pending sum is the sum, a part is
// the whole.
// CHECK-LABEL: func.func @sum
// CHECK-NOT: comm.
// CHECK: return
func.func @sum(%x: tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {}, {}], partial = sum{tp}>>)
    -> tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {}, {}]>> attributes {heddle.mesh = @m} {
  %0 = heddle.reshard %x because "test" : tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {}, {}], partial = sum{tp}>> -> tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {}, {}]>>
  return %0 : tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {}, {}]>>
}

// CHECK-LABEL: func.func @scatter
// CHECK-NOT: comm.
// CHECK: return
func.func @scatter(%x: tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {}, {}], partial = sum{tp}>>)
    -> tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {tp}, {}]>> attributes {heddle.mesh = @m} {
  %0 = heddle.reshard %x because "test" : tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {}, {}], partial = sum{tp}>> -> tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {tp}, {}]>>
  return %0 : tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {tp}, {}]>>
}

// CHECK-LABEL: func.func @whole
// CHECK-NOT: comm.
// CHECK: return
func.func @whole(%x: tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {tp}, {}]>>)
    -> tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {}, {tp}]>> attributes {heddle.mesh = @m} {
  %0 = heddle.reshard %x because "test" : tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {tp}, {}]>> -> tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {}, {tp}]>>
  return %0 : tensor<1x4x8xf32, #heddle.sharding<@m, [{}, {}, {tp}]>>
}
