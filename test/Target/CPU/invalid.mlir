// RUN: heddle-opt %s --heddle-codegen-cpu=target=x86-64-v3 -split-input-file -verify-diagnostics

// An index has the width of a machine, which memory has not.
// expected-error @below {{expected numbers of known width in a kernel, got 'tensor<2x4x8xindex>'}}
func.func private @append(%pool: tensor<2x4x8xindex>, %x: tensor<1x3x8xf32>, %slots: tensor<1x3xi32>) -> tensor<2x4x8xindex> attributes {heddle.aliases = [array<i64: 0, 0>], heddle.kernel, heddle.local} {
  %0 = heddle.cache_append %pool, %x at %slots : (tensor<2x4x8xindex>, tensor<1x3x8xf32>, tensor<1x3xi32>) -> tensor<2x4x8xindex>
  return %0 : tensor<2x4x8xindex>
}
