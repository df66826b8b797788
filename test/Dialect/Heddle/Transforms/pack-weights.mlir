// RUN: heddle-opt %s --heddle-pack-weights | FileCheck %s

heddle.mesh @m ["tp" = 1]

// Weights of products are packed, in the stack and in the region; a table that
// is also looked up is one packed copy; one that is only looked up, one in a
// format that panels cannot hold and plain ones stay row major.
// CHECK: func.func @f
// CHECK-SAME: tensor<2x32x32x!heddle.q4_1, #heddle.packing<"panel16@1">>
// CHECK-SAME: tensor<40x32x!heddle.q8_0, #heddle.packing<"panel16@1">>
// CHECK-SAME: tensor<40x32x!heddle.q8_0> {
// CHECK-SAME: tensor<32x32x!heddle.q5_0> {
// CHECK-SAME: tensor<32x32xf32> {
// CHECK: kind 0
// CHECK-SAME: tensor<32x32x!heddle.q4_1, #heddle.packing<"panel16@1">>
func.func @f(
    %stack: tensor<2x32x32x!heddle.q4_1> {heddle.binding = #heddle.binding<param "l.{i}.w" layers [0, 1]>, heddle.global = tensor<2x32x32x!heddle.q4_1>},
    %tied: tensor<40x32x!heddle.q8_0> {heddle.binding = #heddle.binding<param "tied">, heddle.global = tensor<40x32x!heddle.q8_0>},
    %table: tensor<40x32x!heddle.q8_0> {heddle.binding = #heddle.binding<param "table">, heddle.global = tensor<40x32x!heddle.q8_0>},
    %five: tensor<32x32x!heddle.q5_0> {heddle.binding = #heddle.binding<param "five">, heddle.global = tensor<32x32x!heddle.q5_0>},
    %plain: tensor<32x32xf32> {heddle.binding = #heddle.binding<param "plain">, heddle.global = tensor<32x32xf32>},
    %ids: tensor<1x3xi32> {heddle.binding = #heddle.binding<input "ids">, heddle.global = tensor<1x3xi32>})
    -> (tensor<1x3x40xf32> {heddle.binding = #heddle.binding<output "y">, heddle.global = tensor<1x3x40xf32>})
    attributes {heddle.local, heddle.mesh = @m} {
  %e = heddle.embedding %ids, %tied : (tensor<1x3xi32>, tensor<40x32x!heddle.q8_0>) -> tensor<1x3x32xf32>
  %e2 = heddle.embedding %ids, %table : (tensor<1x3xi32>, tensor<40x32x!heddle.q8_0>) -> tensor<1x3x32xf32>
  %s = heddle.add %e, %e2 : (tensor<1x3x32xf32>, tensor<1x3x32xf32>) -> tensor<1x3x32xf32>
  %r = heddle.repeat order [0, 0] carry(%s : tensor<1x3x32xf32>) params(%stack in 0 : tensor<2x32x32x!heddle.q4_1>) {
    kind 0 (%c: tensor<1x3x32xf32>, %w: tensor<32x32x!heddle.q4_1>) {
      %p = heddle.linear %c, %w : (tensor<1x3x32xf32>, tensor<32x32x!heddle.q4_1>) -> tensor<1x3x32xf32>
      heddle.yield carry(%p : tensor<1x3x32xf32>)
    }
  }
  %a = heddle.linear %r, %five : (tensor<1x3x32xf32>, tensor<32x32x!heddle.q5_0>) -> tensor<1x3x32xf32>
  %b = heddle.linear %a, %plain : (tensor<1x3x32xf32>, tensor<32x32xf32>) -> tensor<1x3x32xf32>
  %y = heddle.linear %b, %tied : (tensor<1x3x32xf32>, tensor<40x32x!heddle.q8_0>) -> tensor<1x3x40xf32>
  return %y : tensor<1x3x40xf32>
}
