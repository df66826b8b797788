// RUN: heddle-opt %s --pass-pipeline="builtin.module(func.func(heddle-chunk))" -verify-diagnostics | FileCheck %s
// RUN: sed "s/chunk = 4/chunk = 0/" %s | not heddle-opt --pass-pipeline="builtin.module(func.func(heddle-chunk))" 2>&1 | FileCheck %s --check-prefix=MARK
// RUN: not heddle-opt %s --heddle-annotate="strategy=chunk(0)" 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not heddle-opt %s --heddle-annotate="strategy=chunk(rows=4)" 2>&1 | FileCheck %s --check-prefix=KEY

// ZERO: error: expected chunk(N) with a number of tokens of at least 1, got 'chunk(0)'
// KEY: error: expected chunk(N) with a number of tokens of at least 1, got 'chunk(rows=4)'
// MARK: error: expected 'heddle.chunk' to be a positive i64, got 0 : i64
heddle.mesh @m ["tp" = 1]

// Six tokens of at most 4 are two chunks of 3. The norm, whose result is read
// elsewhere, and the sum stay outside; the bias comes along.
// CHECK-LABEL: func.func @mlp
// CHECK-NOT: heddle.chunk
// CHECK: %[[N:.*]] = heddle.rms_norm
// CHECK-NEXT: %[[PARTS:.*]] = heddle.split_chunks %[[N]] dim 1 : tensor<1x6x8xf32> -> tensor<2x1x3x8xf32>
// CHECK-NEXT: %[[ALL:.*]] = heddle.repeat order [0, 0] carry() params(%[[PARTS]] in 0 : tensor<2x1x3x8xf32>) emits(tensor<2x1x3x8xf32>)
// CHECK: heddle.linear {{.*}} -> tensor<1x3x12xf32>
// CHECK: heddle.linear {{.*}} -> tensor<1x3x12xf32>
// CHECK: heddle.glu silu {{.*}} -> tensor<1x3x12xf32>
// CHECK: %[[D:.*]] = heddle.linear {{.*}} -> tensor<1x3x8xf32>
// CHECK: %[[B:.*]] = heddle.bias_add %[[D]]
// CHECK: heddle.yield carry() emit(%[[B]] : tensor<1x3x8xf32>)
// CHECK: %[[Y:.*]] = heddle.join_chunks %[[ALL]] dim 1 : tensor<2x1x3x8xf32> -> tensor<1x6x8xf32>
// CHECK-NEXT: heddle.add %[[N]], %[[Y]]
func.func @mlp(%x: tensor<1x6x8xf32>, %g: tensor<8xf32>, %wg: tensor<12x8xf32>, %wu: tensor<12x8xf32>, %wd: tensor<8x12xf32>, %b: tensor<8xf32>) -> tensor<1x6x8xf32> attributes {heddle.local, heddle.mesh = @m, heddle.chunk = 4 : i64} {
  %n = heddle.rms_norm %x, %g eps 1.0e-05 : (tensor<1x6x8xf32>, tensor<8xf32>) -> tensor<1x6x8xf32>
  %gate = heddle.linear %n, %wg : (tensor<1x6x8xf32>, tensor<12x8xf32>) -> tensor<1x6x12xf32>
  %up = heddle.linear %n, %wu : (tensor<1x6x8xf32>, tensor<12x8xf32>) -> tensor<1x6x12xf32>
  %h = heddle.glu silu %gate, %up : (tensor<1x6x12xf32>, tensor<1x6x12xf32>) -> tensor<1x6x12xf32>
  %d = heddle.linear %h, %wd : (tensor<1x6x12xf32>, tensor<8x12xf32>) -> tensor<1x6x8xf32>
  %e = heddle.bias_add %d, %b : (tensor<1x6x8xf32>, tensor<8xf32>) -> tensor<1x6x8xf32>
  %y = heddle.add %n, %e : (tensor<1x6x8xf32>, tensor<1x6x8xf32>) -> tensor<1x6x8xf32>
  return %y : tensor<1x6x8xf32>
}

// 37 has no divisor near 16: three chunks of 13, the last one padded.
// CHECK-LABEL: @prime
// CHECK: heddle.take_units %{{.*}} dim 1 slots <{}, {{\[\[}}0, 1, 2]]> of 13 : tensor<1x37x8xf32> -> tensor<1x39x8xf32>
// CHECK: heddle.split_chunks %{{.*}} dim 1 : tensor<1x39x8xf32> -> tensor<3x1x13x8xf32>
// CHECK: heddle.glu silu {{.*}} -> tensor<1x13x8xf32>
// CHECK: heddle.join_chunks %{{.*}} dim 1 : tensor<3x1x13x8xf32> -> tensor<1x39x8xf32>
// CHECK: heddle.take_units %{{.*}} dim 1 slots <{}, {{\[\[}}0]]> of 37 : tensor<1x39x8xf32> -> tensor<1x37x8xf32>
func.func @prime(%x: tensor<1x37x8xf32>, %wd: tensor<8x8xf32>) -> tensor<1x37x8xf32> attributes {heddle.local, heddle.mesh = @m, heddle.chunk = 16 : i64} {
  %h = heddle.glu silu %x, %x : (tensor<1x37x8xf32>, tensor<1x37x8xf32>) -> tensor<1x37x8xf32>
  %d = heddle.linear %h, %wd : (tensor<1x37x8xf32>, tensor<8x8xf32>) -> tensor<1x37x8xf32>
  return %d : tensor<1x37x8xf32>
}
