// RUN: not heddle-opt %s --heddle-annotate='strategy=bogus(tp)' 2>&1 | FileCheck %s --check-prefix=STRATEGY
// RUN: not heddle-opt %s --heddle-annotate='strategy=tensor(xp)' 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: not heddle-opt %s --heddle-annotate='strategy=data(dp)' 2>&1 | FileCheck %s --check-prefix=UNUSED
// RUN: not heddle-opt %s --heddle-annotate='strategy=tensor' 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: sed s/tp/zz/ %s | not heddle-opt --heddle-annotate 2>&1 | FileCheck %s --check-prefix=DEFAULT
// RUN: not heddle-opt %s --heddle-annotate=strict-divisibility 2>&1 | FileCheck %s --check-prefix=STRICT
// RUN: heddle-opt %s --heddle-annotate='strategy=tensor(tp);data(dp)' 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: sed /mesh/d %s | not heddle-opt --heddle-annotate 2>&1 | FileCheck %s --check-prefix=MESH
// RUN: not heddle-opt %s --heddle-annotate --heddle-annotate 2>&1 | FileCheck %s --check-prefix=TWICE

// Every problem of a strategy list is reported, each with what would work.

// A name that is not a strategy; the axes it leaves over are reported too.
// STRATEGY-DAG: error: expected one of the strategies tensor(axis), data(axis){{.*}}, got 'bogus'
// STRATEGY-DAG: error: expected a strategy that uses mesh axis 'dp' of size 2, got 'bogus(tp)'

// An axis that the mesh has not.
// AXIS: error: expected strategy 'tensor' to name a mesh axis, one of "dp", "tp", got 'xp'

// An axis that nothing uses would run copies of the same work.
// UNUSED: error: expected a strategy that uses mesh axis 'tp' of size 5, got 'data(dp)'

// FORM: error: expected a strategy of the form name(axis), got 'tensor'

// Only known axis names have a default.
// DEFAULT: error: expected a strategy for mesh axis 'zz', which has no default; give one of tensor(axis), data(axis)

// With strict divisibility padding is refused: the tensor, the dimension, its
// units, the degree, and the degrees that would work. All tensors are named.
// STRICT: error: 'gate': dimension 0 has 12 units of 1, which do not divide over the axes 'tp' of size 5; degrees that divide: 1, 2, 3, 4, 6, 12
// STRICT: error: 'down': dimension 1 has 12 units of 1, which do not divide over the axes 'tp' of size 5; degrees that divide: 1, 2, 3, 4, 6, 12

// A strategy that finds nothing says so, and does no harm.
// NOTHING: warning: strategy data(dp) found nothing to split

// MESH: error: expected one heddle.mesh, got 0

// What annotate writes it does not read: shardings are decided once.
// TWICE: error: 'heddle.reshard' op expected an op with a factor rule before annotate

heddle.mesh @m ["dp" = 2, "tp" = 5]
func.func @mlp(
    %x: tensor<1x4x8xf32>,
    %wg: tensor<12x8xf32> {heddle.binding = #heddle.binding<param "gate">},
    %wd: tensor<8x12xf32> {heddle.binding = #heddle.binding<param "down">})
    -> tensor<1x4x8xf32> {
  %g = heddle.linear %x, %wg : (tensor<1x4x8xf32>, tensor<12x8xf32>) -> tensor<1x4x12xf32>
  %h = heddle.glu silu %g, %g : (tensor<1x4x12xf32>, tensor<1x4x12xf32>) -> tensor<1x4x12xf32>
  %d = heddle.linear %h, %wd : (tensor<1x4x12xf32>, tensor<8x12xf32>) -> tensor<1x4x8xf32>
  %y = heddle.add %x, %d : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  return %y : tensor<1x4x8xf32>
}
