// Three sequences on two ranks: draws are numbered by the whole batch, the slot
// that holds no sequence is -1. Split vocabularies are whole before a draw.
// RUN: heddle-opt %s --heddle-annotate --heddle-partition | FileCheck %s

heddle.mesh @m ["dp" = 2, "tp" = 2]

// CHECK-LABEL: func.func @decode
// CHECK: %[[L:.*]] = heddle.linear
// CHECK: %[[ALL:.*]] = comm.all_gather %[[L]]
// CHECK: heddle.sample %[[ALL]] {{.*}} sequences <{dp}, {{\[\[}}0, 1], [2, -1]]> : (tensor<2x1x10xf32>, tensor<2xf32>,
// CHECK-SAME: -> tensor<2x1xi32>
func.func @decode(
    %x: tensor<3x1x4xf32> {heddle.binding = #heddle.binding<input "x">},
    %t: tensor<3xf32> {heddle.binding = #heddle.binding<input "temperature">},
    %k: tensor<3xi32> {heddle.binding = #heddle.binding<input "top_k">},
    %p: tensor<3xf32> {heddle.binding = #heddle.binding<input "top_p">},
    %n: tensor<3xf32> {heddle.binding = #heddle.binding<input "min_p">},
    %s: tensor<3xi32> {heddle.binding = #heddle.binding<input "seed">},
    %len: tensor<3xi32> {heddle.binding = #heddle.binding<input "lengths">},
    %w: tensor<10x4xf32> {heddle.binding = #heddle.binding<param "lm_head.weight">})
    -> (tensor<3x1xi32> {heddle.binding = #heddle.binding<output "next">}) attributes {heddle.mesh = @m, heddle.program = "decode"} {
  %l = heddle.linear %x, %w : (tensor<3x1x4xf32>, tensor<10x4xf32>) -> tensor<3x1x10xf32>
  %r = heddle.sample %l temperature %t top_k %k top_p %p min_p %n seed %s position %len : (tensor<3x1x10xf32>, tensor<3xf32>, tensor<3xi32>, tensor<3xf32>, tensor<3xf32>, tensor<3xi32>, tensor<3xi32>) -> tensor<3x1xi32>
  return %r : tensor<3x1xi32>
}
