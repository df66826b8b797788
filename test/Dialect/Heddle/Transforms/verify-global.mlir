// RUN: heddle-opt %s -split-input-file -verify-diagnostics --heddle-verify-global

// A function that annotate has not seen has no mesh.
heddle.mesh @m ["tp" = 2]
// expected-error @below {{illegal after annotate: expected attribute 'heddle.mesh'}}
func.func @no_mesh(%x: tensor<4xf32>) {
  return
}

// -----

// One tensor without a sharding would be taken for replicated by accident.
heddle.mesh @m ["tp" = 2]
// expected-error @below {{illegal after annotate: expected a sharding over @m, got 'tensor<4xf32>'}}
func.func @no_sharding(%x: tensor<4xf32>) attributes {heddle.mesh = @m} {
  return
}

// -----

// Axes are names; a name that the mesh has not is found here at the latest.
// expected-note @below {{the mesh is defined here}}
heddle.mesh @m ["tp" = 2]
// expected-error @below {{expected an axis of mesh @m, got 'ep'}}
func.func @unknown_axis(%x: tensor<4xf32, #heddle.sharding<@m, [{ep}]>>) attributes {heddle.mesh = @m} {
  return
}

// -----

// expected-note @below {{the mesh is defined here}}
heddle.mesh @m ["tp" = 6]
// expected-error @below {{expected a sub-axis that divides axis 'tp' of size 6, got (1)4}}
func.func @sub_axis(%x: tensor<4xf32, #heddle.sharding<@m, [{tp:(1)4}]>>) attributes {heddle.mesh = @m} {
  return
}

// -----

// A table has one row for each coordinate.
heddle.mesh @m ["tp" = 3]
// expected-note @below {{the table is defined here}}
heddle.table @t [[0, 1], [2, 3]]
// expected-error @below {{expected a table of 3 rows, one per coordinate, got 2}}
func.func @table_rows(%x: tensor<4xf32, #heddle.sharding<@m, [{tp, map = table @t}]>>) attributes {heddle.mesh = @m} {
  return
}

// -----

// An element that no rank holds would be lost.
heddle.mesh @m ["tp" = 2]
// expected-note @below {{the table is defined here}}
heddle.table @t [[0, 1], [1, 3]]
// expected-error @below {{expected every unit on some rank, but unit 2 is on none}}
func.func @table_hole(%x: tensor<4xf32, #heddle.sharding<@m, [{tp, map = table @t}]>>) attributes {heddle.mesh = @m} {
  return
}
