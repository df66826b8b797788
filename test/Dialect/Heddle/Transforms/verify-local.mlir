// RUN: heddle-opt %s -split-input-file -verify-diagnostics --heddle-verify-local

// A function that partition has not seen is not local.
heddle.mesh @m ["tp" = 2]
// expected-error @below {{illegal after partition: function @not_local is not local}}
func.func @not_local(%x: tensor<4xf32>) {
  return
}

// -----

// A local function with a global tensor in it: one of the two is wrong.
heddle.mesh @m ["tp" = 2]
// expected-error @below {{carries an encoding}}
func.func @encoding(%x: tensor<4xf32, #heddle.sharding<@m, [{tp}]>>) attributes {heddle.local, heddle.mesh = @m} {
  return
}

// -----

// A group of an axis that does not exist would hang at run time.
// expected-note @below {{the mesh is defined here}}
heddle.mesh @m ["tp" = 2]
func.func @group(%x: tensor<4xf32>) attributes {heddle.local, heddle.mesh = @m} {
  // expected-error @below {{expected an axis of mesh @m, got 'ep'}}
  %0 = comm.all_reduce sum %x group [#heddle.axis<ep>] because "test" : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

// Nothing implicit is left after partition.
heddle.mesh @m ["tp" = 2]
// expected-error @below {{carries an encoding}}
func.func @reshard(%x: tensor<4xf32, #heddle.sharding<@m, [{tp}]>>) attributes {heddle.local, heddle.mesh = @m} {
  // expected-error @below {{a reshard is left}}
  // expected-error @below {{carries an encoding}}
  %0 = heddle.reshard %x because "test" : tensor<4xf32, #heddle.sharding<@m, [{tp}]>> -> tensor<4xf32, #heddle.sharding<@m, [{}]>>
  return
}

// -----

// Only collectives have groups: this attribute means nothing here.
heddle.mesh @m ["tp" = 2]
func.func @no_group(%x: tensor<4xf32>) attributes {heddle.local, heddle.mesh = @m} {
  %0 = heddle.add %x, %x {group = [1 : i32]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}
