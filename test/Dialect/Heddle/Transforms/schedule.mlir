// RUN: sed s/TP/2/ %s | heddle-opt --heddle-annotate --heddle-partition --heddle-schedule | FileCheck %s
// RUN: sed s/TP/3/ %s | heddle-opt --heddle-annotate --heddle-partition --heddle-schedule | FileCheck %s
// RUN: sed s/TP/2/ %S/Inputs/decode.mlir | heddle-opt --heddle-annotate --heddle-partition --heddle-schedule | FileCheck %s --check-prefix=DECODE
// RUN: not heddle-opt %S/Inputs/global.mlir --heddle-schedule 2>&1 | FileCheck %s --check-prefix=GLOBAL

heddle.mesh @m ["tp" = TP]

// fp32 products go to the library; the bias and the residual are one pass over
// the rows, after the all-reduce. The two layers use the same two kernels.
// CHECK-LABEL: func.func @mlp
// CHECK: heddle.linear {{.*}}{heddle.gemm}
// CHECK: heddle.linear {{.*}}{heddle.gemm}
// CHECK: %[[H:.*]] = call @[[GLU:glu[_0-9]*]](
// CHECK: %[[D:.*]] = heddle.linear %[[H]], {{.*}}{heddle.gemm}
// CHECK: %[[S:.*]] = comm.all_reduce sum %[[D]]
// CHECK: %[[Y:.*]] = call @[[ADD:.*]](%[[S]],
// CHECK: call @[[GLU]](
// CHECK: call @[[ADD]](
// CHECK-NOT: heddle.bias_add
// CHECK: return
// CHECK-COUNT-2: func.func private @{{.*}}heddle.kernel
// CHECK-NOT: func.func private
func.func @mlp(%x: tensor<1x5x8xf32>, %wg: tensor<12x8xf32>, %wu: tensor<12x8xf32>, %wd: tensor<8x12xf32>, %bd: tensor<8xf32>) -> tensor<1x5x8xf32> {
  %g = heddle.linear %x, %wg : (tensor<1x5x8xf32>, tensor<12x8xf32>) -> tensor<1x5x12xf32>
  %u = heddle.linear %x, %wu : (tensor<1x5x8xf32>, tensor<12x8xf32>) -> tensor<1x5x12xf32>
  %h = heddle.glu silu %g, %u : (tensor<1x5x12xf32>, tensor<1x5x12xf32>) -> tensor<1x5x12xf32>
  %d = heddle.linear %h, %wd bias %bd : (tensor<1x5x12xf32>, tensor<8x12xf32>, tensor<8xf32>) -> tensor<1x5x8xf32>
  %y = heddle.add %x, %d : (tensor<1x5x8xf32>, tensor<1x5x8xf32>) -> tensor<1x5x8xf32>
  %g1 = heddle.linear %y, %wg : (tensor<1x5x8xf32>, tensor<12x8xf32>) -> tensor<1x5x12xf32>
  %u1 = heddle.linear %y, %wu : (tensor<1x5x8xf32>, tensor<12x8xf32>) -> tensor<1x5x12xf32>
  %h1 = heddle.glu silu %g1, %u1 : (tensor<1x5x12xf32>, tensor<1x5x12xf32>) -> tensor<1x5x12xf32>
  %d1 = heddle.linear %h1, %wd bias %bd : (tensor<1x5x12xf32>, tensor<8x12xf32>, tensor<8xf32>) -> tensor<1x5x8xf32>
  %y1 = heddle.add %y, %d1 : (tensor<1x5x8xf32>, tensor<1x5x8xf32>) -> tensor<1x5x8xf32>
  return %y1 : tensor<1x5x8xf32>
}

// A decode step launches one kernel before the layers and, in each, four beside
// the products: the norm, rotary with both cache updates, attention, the
// residual. Products of a few rows are kernels, too (the library is for many),
// those of one input a single one.
// Caches are updated in place: the kernel's results share the memory of its
// arguments.
// DECODE-LABEL: func.func @decode
// DECODE: call @[[HEAD:.*embedding.*]](
// DECODE: comm.all_reduce
// DECODE: heddle.repeat
// DECODE: call @rms_norm(
// DECODE-NOT: heddle.gemm
// DECODE: :3 = func.call @linear(
// DECODE-NOT: call @linear
// DECODE-COUNT-3: heddle.split_heads
// DECODE: call @[[CACHE:rotary_cache_append]](
// DECODE-NEXT: call @attention(
// DECODE-NEXT: heddle.merge_heads
// DECODE-NEXT: call @linear_1(
// DECODE-NEXT: comm.all_reduce
// DECODE-NEXT: call @add(
// DECODE-NEXT: heddle.yield
// DECODE: call @linear_2(
// DECODE-NEXT: comm.all_gather
// DECODE-NEXT: call @argmax(
// DECODE: func.func private @[[CACHE]](
// DECODE-SAME: heddle.aliases = [array<i64: 1, 3>, array<i64: 2, 5>]

// GLOBAL: error: expected a local function: run heddle-partition first
