// RUN: heddle-opt %s --heddle-codegen-cpu=target=x86-64-v3 --canonicalize --cse --split-input-file | FileCheck %s
// RUN: heddle-opt %s --heddle-codegen-cpu=target=x86-64-v4 --canonicalize --cse --split-input-file | FileCheck %s --check-prefix=WIDE

// The sum is formed in the sweep that squares it, stored once, and read again by
// the sweep that scales it. 64 of 72 columns go in steps of four vectors; the
// fifth needs no mask. The row statistics are outside of both loops.

// CHECK-LABEL: func.func @residual_norm
// CHECK-SAME: %[[X:[a-z0-9]+]]: memref<288xf32> {llvm.noalias}, %[[Y:[a-z0-9]+]]: memref<288xf32>
// CHECK-SAME: %[[W:[a-z0-9]+]]: memref<72xf32> {llvm.noalias}, %[[H:[a-z0-9]+]]: memref<288xf32> {llvm.noalias}, %[[N:[a-z0-9]+]]: memref<288xf32>
// CHECK-SAME: %{{.*}}: index, %{{.*}}: index)
// CHECK: scf.for %[[ROW:.*]] =
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK: %[[SUM:.*]] = arith.addf %{{.*}}, %{{.*}} : vector<8xf32>
// CHECK-NEXT: vector.store %[[SUM]], %[[H]]
// CHECK-NEXT: math.fma %[[SUM]], %[[SUM]], %{{.*}} : vector<8xf32>
// CHECK-COUNT-3: math.fma
// CHECK: scf.yield
// CHECK-NOT: vector.maskedload
// CHECK: math.sqrt %{{.*}} : f32
// CHECK: scf.for
// CHECK-NOT: vector.load %[[X]]
// CHECK: vector.load %[[H]]
// CHECK: vector.load %[[W]]
// CHECK-NOT: memref.alloc

// With 16 lanes the last half vector is the only masked one.
// WIDE-LABEL: func.func @residual_norm
// WIDE-NOT: vector.maskedload
// WIDE: math.fma %{{.*}} : vector<16xf32>
// WIDE: vector.constant_mask [8] : vector<16xi1>
// WIDE: vector.maskedload
func.func private @residual_norm(%x: tensor<1x4x72xf32>, %y: tensor<1x4x72xf32>, %w: tensor<72xf32>)
    -> (tensor<1x4x72xf32>, tensor<1x4x72xf32>) attributes {heddle.local, heddle.kernel} {
  %h = heddle.add %x, %y : (tensor<1x4x72xf32>, tensor<1x4x72xf32>) -> tensor<1x4x72xf32>
  %n = heddle.rms_norm %h, %w eps 1.0e-5 : (tensor<1x4x72xf32>, tensor<72xf32>) -> tensor<1x4x72xf32>
  return %h, %n : tensor<1x4x72xf32>, tensor<1x4x72xf32>
}

// -----

// More than the caches hold is stored past them; what the second sweep reads
// again stays in the row's scratch.

// CHECK-LABEL: func.func @past_the_caches
// CHECK-SAME: %[[H:[a-z0-9]+]]: memref<8650752xf32> {llvm.noalias}, %[[N:[a-z0-9]+]]: memref<8650752xf32> {llvm.noalias}, %{{[a-z0-9]+}}: index, %{{[a-z0-9]+}}: index)
// CHECK: %[[ROW:.*]] = memref.alloca() {alignment = 64 : i64} : memref<1056xf32>
// CHECK: vector.store %[[SUM:.*]], %[[H]][%{{.*}}] {alignment = 32 : i64, nontemporal = true}
// CHECK: vector.store %[[SUM]], %[[ROW]]
// CHECK-NOT: vector.load %[[H]]
// CHECK: vector.store %{{.*}}, %[[N]][%{{.*}}] {alignment = 32 : i64, nontemporal = true}
// CHECK: llvm.call_intrinsic "llvm.x86.sse.sfence"()
func.func private @past_the_caches(%x: tensor<1x8192x1056xf32>, %y: tensor<1x8192x1056xf32>, %w: tensor<1056xf32>)
    -> (tensor<1x8192x1056xf32>, tensor<1x8192x1056xf32>) attributes {heddle.local, heddle.kernel} {
  %h = heddle.add %x, %y : (tensor<1x8192x1056xf32>, tensor<1x8192x1056xf32>) -> tensor<1x8192x1056xf32>
  %n = heddle.rms_norm %h, %w eps 1.0e-5 : (tensor<1x8192x1056xf32>, tensor<1056xf32>) -> tensor<1x8192x1056xf32>
  return %h, %n : tensor<1x8192x1056xf32>, tensor<1x8192x1056xf32>
}

// -----

// What differs by rank is a constant table; its row is the coordinate argument.
// The pool is updated in place and is one operand.

// CHECK: memref.global "private" constant @append.table.0 : memref<{{[0-9]+}}xi32> = dense<
// CHECK-LABEL: func.func @append
// CHECK-SAME: (%[[POOL:.*]]: memref<64xf32> {{.*}}, %{{.*}}: memref<24xf32> {{.*}}, %[[SLOTS:.*]]: memref<3xi32> {{.*}}, %[[TP:.*]]: index, %{{.*}}: index, %{{.*}}: index)
// CHECK: memref.get_global @append.table.0
// CHECK: scf.if
// CHECK: vector.store %{{.*}}, %[[POOL]]
func.func private @append(%pool: tensor<2x4x8xf32>, %v: tensor<1x3x8xf32>, %slots: tensor<1x3xi32>) -> tensor<2x4x8xf32>
    attributes {heddle.local, heddle.kernel, heddle.aliases = [array<i64: 0, 0>]} {
  %s = heddle.local_index %slots units <{tp}, [[0], [1]]> of 8 : tensor<1x3xi32> -> tensor<1x3xi32>
  %r = heddle.cache_append %pool, %v at %s : (tensor<2x4x8xf32>, tensor<1x3x8xf32>, tensor<1x3xi32>) -> tensor<2x4x8xf32>
  return %r : tensor<2x4x8xf32>
}
