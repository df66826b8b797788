// RUN: heddle-opt %s | heddle-opt | FileCheck %s

heddle.mesh @m ["dp" = 2, "tp" = 4]

// Every collective parses, prints and parses again; a group may be several axes
// or a part of one.
// CHECK-LABEL: func.func @collectives
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>)
func.func @collectives(%x: tensor<4x8xf32>) attributes {heddle.local, heddle.mesh = @m} {
  // CHECK: comm.all_reduce sum %[[X]] group [#heddle.axis<dp>, #heddle.axis<tp>] because "residual" : tensor<4x8xf32> -> tensor<4x8xf32>
  %0 = comm.all_reduce sum %x group [#heddle.axis<dp>, #heddle.axis<tp>] because "residual" : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK: comm.all_reduce max %[[X]] group [#heddle.axis<tp:(1)2>]
  %1 = comm.all_reduce max %x group [#heddle.axis<tp:(1)2>] because "major half of tp" : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK: comm.reduce_scatter sum %[[X]] dim 1 group [#heddle.axis<tp>] because "r" : tensor<4x8xf32> -> tensor<4x2xf32>
  %2 = comm.reduce_scatter sum %x dim 1 group [#heddle.axis<tp>] because "r" : tensor<4x8xf32> -> tensor<4x2xf32>
  // CHECK: comm.all_gather %[[X]] dim 0 group [#heddle.axis<tp>] because "g" : tensor<4x8xf32> -> tensor<16x8xf32>
  %3 = comm.all_gather %x dim 0 group [#heddle.axis<tp>] because "g" : tensor<4x8xf32> -> tensor<16x8xf32>
  // CHECK: comm.all_to_all %[[X]] split 0 concat 1 group [#heddle.axis<tp>] because "a" : tensor<4x8xf32> -> tensor<1x32xf32>
  %4 = comm.all_to_all %x split 0 concat 1 group [#heddle.axis<tp>] because "a" : tensor<4x8xf32> -> tensor<1x32xf32>
  // CHECK: comm.permute %[[X]] shift -1 group [#heddle.axis<tp>] because "p" : tensor<4x8xf32> -> tensor<4x8xf32>
  %5 = comm.permute %x shift -1 group [#heddle.axis<tp>] because "p" : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}
