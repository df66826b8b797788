// RUN: heddle-opt %s --heddle-annotate | FileCheck %s
// RUN: sed 's/"cp" = 2/"cp" = 3/' %s | heddle-opt --heddle-annotate="strategy=context(cp)" | FileCheck %s --check-prefix=THREE
// RUN: sed 's/"cp" = 2/"cp" = 5/' %s | heddle-opt --heddle-annotate="strategy=context(cp)" | FileCheck %s --check-prefix=FIVE
// RUN: sed 's/"cp" = 2/"cp" = 2, "tp" = 2/' %s | heddle-opt --heddle-annotate="strategy=tensor(tp);context(cp)" | FileCheck %s --check-prefix=TENSOR
// RUN: sed 's/"cp" = 2/"sp" = 2, "cp" = 2/' %s | heddle-opt --heddle-annotate | FileCheck %s --check-prefix=HEADS

// RUN: sed 's/"cp" = 2/"x" = 2, "y" = 2/' %s | heddle-opt --heddle-annotate="strategy=context(x);context(y)" | FileCheck %s --check-prefix=TWO
// RUN: sed 's/"cp" = 2/"cp" = 8/' %s | heddle-opt --heddle-annotate | FileCheck %s --check-prefix=CUT

// Of four heads, two of keys: on two ranks a ring sends 1 x 2 x 2 x 8 elements for a
// token and all-to-alls 1 x 2 x (2 + 1) x 8. On three, where heads are padded to 2
// and 1 a rank, 64 and 96.
// CHECK: heddle.choices = ["context(cp): ring, elements sent for a token: 32 by ring, 48 by ulysses"]
// CHECK: keys <ring {cp}>
// THREE: heddle.choices = ["context(cp): ring, elements sent for a token: 64 by ring, 96 by ulysses"]
// FIVE: heddle.choices = ["context(cp): ring, 5 ranks are more than 4 heads; elements sent for a token: 128 by ring"]
// With half of the heads each, 16 and 32.
// TENSOR: heddle.choices = ["context(cp): ring, elements sent for a token: 16 by ring, 32 by ulysses"]
// HEADS: heddle.choices = ["context(cp): ring, another axis moves heads already; elements sent for a token: 32 by ring"]
// TWO: heddle.choices = ["context(x): ring, elements sent for a token: 32 by ring, 48 by ulysses", "context(y): ulysses, another axis cuts the tokens of attention already"]
// Eight ranks: 7 x 32 round one ring; round a ring of 4 with half the heads each
// 3 x 16 = 48, and all-to-alls of two ranks 1 x 2 x (2 + 1) x 8 = 48 on both sides
// of it; over a ring of 2 and 4 ranks' all-to-alls 16 + 3 x 2 x (1 + 1) x 8.
// CUT: heddle.choices = ["context(cp): 2-D, a ring of 4 and heads over 2, 8 ranks are more than 4 heads; elements sent for a token: 224 by ring, 144 by 2-D (4 x 2), 160 by 2-D (2 x 4)"]
// CUT: heddle.mesh @m ["cp.ring" = 4, "cp.heads" = 2]
// CUT: keys <ring {cp.ring}>
heddle.mesh @m ["cp" = 2]

func.func @attention(%q: tensor<1x16x4x8xf32>, %k: tensor<1x16x2x8xf32>, %v: tensor<1x16x2x8xf32>, %p: tensor<1x16xi32>) -> tensor<1x16x4x8xf32> {
  %0 = heddle.attention %q, %k, %v pos(%p, %p) scale 0.5 causal
    : (tensor<1x16x4x8xf32>, tensor<1x16x2x8xf32>, tensor<1x16x2x8xf32>, tensor<1x16xi32>, tensor<1x16xi32>) -> tensor<1x16x4x8xf32>
  return %0 : tensor<1x16x4x8xf32>
}
