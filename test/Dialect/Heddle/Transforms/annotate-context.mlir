// RUN: heddle-opt %s --heddle-annotate | FileCheck %s
// RUN: sed 's/"cp" = 2/"cp" = 3/' %s | heddle-opt --heddle-annotate="strategy=context(cp)" | FileCheck %s --check-prefix=THREE
// RUN: sed 's/"cp" = 2/"cp" = 5/' %s | heddle-opt --heddle-annotate="strategy=context(cp)" | FileCheck %s --check-prefix=FIVE
// RUN: sed 's/"cp" = 2/"cp" = 2, "tp" = 2/' %s | heddle-opt --heddle-annotate="strategy=tensor(tp);context(cp)" | FileCheck %s --check-prefix=TENSOR
// RUN: sed 's/"cp" = 2/"sp" = 2, "cp" = 2/' %s | heddle-opt --heddle-annotate | FileCheck %s --check-prefix=HEADS

// RUN: sed 's/"cp" = 2/"x" = 2, "y" = 2/' %s | heddle-opt --heddle-annotate="strategy=context(x);context(y)" | FileCheck %s --check-prefix=TWO

// Of four heads, two of keys: on two ranks a ring sends 1 x 2 x 2 x 8 elements for a
// token and all-to-alls 1 x 2 x (2 + 1) x 8. On three, where heads are padded to 2
// and 1 a rank, 64 and 96.
// CHECK: heddle.choices = ["context(cp): ring, keys and values that go round are 32 elements for each of a rank's tokens, all-to-alls 48"]
// CHECK: keys <ring {cp}>
// THREE: heddle.choices = ["context(cp): ring, keys and values that go round are 64 elements for each of a rank's tokens, all-to-alls 96"]
// FIVE: heddle.choices = ["context(cp): ring, 5 ranks are more than 4 heads; keys and values that go round are 128 elements for each of a rank's tokens"]
// With half of the heads each, 16 and 32.
// TENSOR: heddle.choices = ["context(cp): ring, keys and values that go round are 16 elements for each of a rank's tokens, all-to-alls 32"]
// HEADS: heddle.choices = ["context(cp): ring, another axis moves heads already; keys and values that go round are 32 elements for each of a rank's tokens"]
// TWO: heddle.choices = ["context(x): ring, keys and values that go round are 32 {{.*}}", "context(y): ulysses, another axis cuts the tokens of attention already"]
heddle.mesh @m ["cp" = 2]

func.func @attention(%q: tensor<1x16x4x8xf32>, %k: tensor<1x16x2x8xf32>, %v: tensor<1x16x2x8xf32>, %p: tensor<1x16xi32>) -> tensor<1x16x4x8xf32> {
  %0 = heddle.attention %q, %k, %v pos(%p, %p) scale 0.5 causal
    : (tensor<1x16x4x8xf32>, tensor<1x16x2x8xf32>, tensor<1x16x2x8xf32>, tensor<1x16xi32>, tensor<1x16xi32>) -> tensor<1x16x4x8xf32>
  return %0 : tensor<1x16x4x8xf32>
}
