// RUN: heddle-opt %s --heddle-annotate='strategy=data(dp);ring(cp)' | FileCheck %s
// RUN: heddle-opt %s --heddle-annotate='strategy=data(dp);ring(cp)' --heddle-partition | FileCheck %s --check-prefix=LOCAL

// An axis that has cut the heads of a cache does not cut its blocks.
// RUN: heddle-opt %s --heddle-annotate='strategy=tensor(cp);data(dp);ring(cp)' 2>&1 | FileCheck %s --check-prefix=TAKEN
// TAKEN: warning: strategy ring(cp) found nothing to split
// TAKEN-NOT: keys <

heddle.mesh @m ["dp" = 2, "cp" = 3]

// A cache of 2 sequences of 2 blocks: sequences over dp, each block of 8 places
// over cp, three to a rank.
// CHECK-LABEL: func.func @step
// CHECK: heddle.cache_append {{.*}} -> tensor<4x8x2x4xf32, #heddle.sharding<@m, [{dp, unit = 2}, {cp}, {}, {}]>>
// CHECK: heddle.attention {{.*}} keys <merge {cp}> {{.*}} -> tensor<2x1x4x4xf32, #heddle.sharding<@m, [{dp}, {}, {}, {}]>>

// LOCAL-LABEL: func.func @step
// LOCAL-SAME: tensor<2x3x2x4xf32>
// How many keys below the length are this rank's.
// LOCAL: %[[LENGTH:.*]] = heddle.local_index {{.*}} units <{cp}, {{.*}}> of 3 within 8 count : tensor<1xi32>
// Slots first become those of the sequences here, then of the places.
// LOCAL: %[[SLOT:.*]] = heddle.local_index {{.*}} units <{dp}, {{.*}}> of 16 :
// LOCAL: %[[MINE:.*]] = heddle.local_index %[[SLOT]] units <{cp}, {{.*}}> of 3 within 8 :
// LOCAL: heddle.cache_append {{.*}} at %[[MINE]]
// LOCAL: %[[OUT:.*]], %[[LSE:.*]] = heddle.attention_partial {{.*}} lengths(%[[LENGTH]])
// LOCAL: %[[OUTS:.*]] = comm.all_gather %[[OUT]] dim 0 group [#heddle.axis<cp>] {{.*}} tensor<1x1x4x4xf32> -> tensor<3x1x4x4xf32>
// LOCAL: %[[OUT0:.*]] = heddle.take_units %[[OUTS]] dim 0 slots <{}, {{.*}}0]]> of 1
// LOCAL: %[[OUT1:.*]] = heddle.take_units %[[OUTS]] dim 0
// LOCAL: %[[OUT2:.*]] = heddle.take_units %[[OUTS]] dim 0
// LOCAL: %[[LSES:.*]] = comm.all_gather %[[LSE]] dim 0
// LOCAL: %[[LSE0:.*]] = heddle.take_units %[[LSES]]
// LOCAL: %[[FIRST:.*]], %{{.*}} = heddle.merge_partials %[[OUT0]], %[[LSE0]], %[[OUT1]]
// LOCAL: heddle.merge_partials %[[FIRST]], {{.*}} %[[OUT2]]
func.func @step(%q: tensor<2x1x4x4xf32> {heddle.binding = #heddle.binding<input "q">},
                %k: tensor<2x1x2x4xf32> {heddle.binding = #heddle.binding<input "k">},
                %pos: tensor<2x1xi32> {heddle.binding = #heddle.binding<input "positions">},
                %blocks: tensor<2x2xi32> {heddle.binding = #heddle.binding<input "blocks">},
                %lengths: tensor<2xi32> {heddle.binding = #heddle.binding<input "lengths">},
                %keys: tensor<4x8x2x4xf32> {heddle.binding = #heddle.binding<state "keys">},
                %places: tensor<4x8xi32> {heddle.binding = #heddle.binding<state "places">})
    -> (tensor<2x1x4x4xf32>, tensor<4x8x2x4xf32> {heddle.binding = #heddle.binding<state "keys">},
        tensor<4x8xi32> {heddle.binding = #heddle.binding<state "places">}) {
  %slots = heddle.cache_slots %pos, %blocks size 8 : (tensor<2x1xi32>, tensor<2x2xi32>) -> tensor<2x1xi32>
  %0 = heddle.cache_append %places, %pos at %slots : (tensor<4x8xi32>, tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<4x8xi32>
  %1 = heddle.cache_append %keys, %k at %slots : (tensor<4x8x2x4xf32>, tensor<2x1x2x4xf32>, tensor<2x1xi32>) -> tensor<4x8x2x4xf32>
  %2 = heddle.attention %q, %1, %1 pos(%pos, %0) blocks(%blocks) lengths(%lengths) scale 0.5 causal
    : (tensor<2x1x4x4xf32>, tensor<4x8x2x4xf32>, tensor<4x8x2x4xf32>, tensor<2x1xi32>, tensor<4x8xi32>, tensor<2x2xi32>, tensor<2xi32>) -> tensor<2x1x4x4xf32>
  return %2, %1, %0 : tensor<2x1x4x4xf32>, tensor<4x8x2x4xf32>, tensor<4x8xi32>
}
