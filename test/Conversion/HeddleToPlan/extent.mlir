// RUN: heddle-opt %s --heddle-annotate --heddle-partition --heddle-schedule --convert-heddle-to-plan=target=x86-64-v3 | FileCheck %s
// RUN: sed 's/tensor<1x40x/tensor<2x40x/g; s/tensor<1x2x/tensor<2x2x/g' %s | heddle-opt --heddle-annotate --heddle-partition --heddle-schedule --convert-heddle-to-plan=target=x86-64-v3 | FileCheck %s --check-prefix=TWO

// How many leading rows of the token axis count is one parameter of a program.
// Kernels read it, the library's products are cut to it, and it scales what a
// sum sends.

heddle.mesh @m ["tp" = 2]

// CHECK-LABEL: plan.program @prefill {
// CHECK-NEXT: %[[N:.*]] = plan.extent "valid_rows" max 40
// CHECK-DAG: %[[WIDTH:.*]] = plan.const 24
// CHECK-DAG: %[[SOME:.*]] = plan.binary mul %[[N]], %[[WIDTH]]
// CHECK: plan.launch @rms_norm {{.*}} scalars(%[[N]]) block 1
// CHECK: plan.gemm {{.*}} m 40 rows %[[N]] n 6
// CHECK: plan.launch @glu {{.*}} scalars(%[[N]]) block 1
// CHECK: plan.gemm {{.*}} m 40 rows %[[N]] n 24
// CHECK: plan.collective all_reduce {{.*}} elements 960 some %[[SOME]] group
// CHECK: plan.launch @add {{.*}} scalars(%[[N]]) block 1
// CHECK: plan.launch @gather_rows {{.*}} block 0

// Leading rows of two sequences are no leading rows of both: hosts find the
// parameter, nobody reads it.
// TWO-LABEL: plan.program @prefill {
// TWO-NEXT: %[[N:.*]] = plan.extent "valid_rows" max 40
// TWO-NOT: %[[N]]
// TWO: plan.gemm {{.*}} m 80 n 6
// TWO-NOT: %[[N]]
// TWO: plan.collective all_reduce {{.*}} elements 1920 group
// TWO-NOT: %[[N]]
// TWO: plan.launch @gather_rows
func.func @prefill(%x: tensor<1x40x24xf32> {heddle.binding = #heddle.binding<input "x">}, %g: tensor<24xf32> {heddle.binding = #heddle.binding<param "g">}, %wg: tensor<12x24xf32> {heddle.binding = #heddle.binding<param "wg">}, %wu: tensor<12x24xf32> {heddle.binding = #heddle.binding<param "wu">}, %wd: tensor<24x12xf32> {heddle.binding = #heddle.binding<param "wd">}, %last: tensor<1x2xi32> {heddle.binding = #heddle.binding<input "last">}) -> (tensor<1x2x24xf32> {heddle.binding = #heddle.binding<output "y">}) attributes {heddle.program = "prefill", heddle.extent = 40 : i64} {
  %n = heddle.rms_norm %x, %g eps 1.0e-05 : (tensor<1x40x24xf32>, tensor<24xf32>) -> tensor<1x40x24xf32>
  %gate = heddle.linear %n, %wg : (tensor<1x40x24xf32>, tensor<12x24xf32>) -> tensor<1x40x12xf32>
  %up = heddle.linear %n, %wu : (tensor<1x40x24xf32>, tensor<12x24xf32>) -> tensor<1x40x12xf32>
  %h = heddle.glu silu %gate, %up : (tensor<1x40x12xf32>, tensor<1x40x12xf32>) -> tensor<1x40x12xf32>
  %d = heddle.linear %h, %wd : (tensor<1x40x12xf32>, tensor<24x12xf32>) -> tensor<1x40x24xf32>
  %y = heddle.add %x, %d : (tensor<1x40x24xf32>, tensor<1x40x24xf32>) -> tensor<1x40x24xf32>
  %t = heddle.gather_rows %y, %last : (tensor<1x40x24xf32>, tensor<1x2xi32>) -> tensor<1x2x24xf32>
  return %t : tensor<1x2x24xf32>
}
