//===- Passes.td - Passes within the model dialect -*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_TRANSFORMS_PASSES_TD
#define HEDDLE_DIALECT_HEDDLE_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def QuantizeActivationsPass : Pass<"heddle-quantize-activations", "::mlir::ModuleOp"> {
  let summary = "int8 inputs for products with quantised weights";
  let description = [{
    Before: model ops on tensors, global (before `heddle-annotate`) or local.

    Puts a `heddle.quantize` before every `heddle.linear` whose weight is in
    q4_0, q4_1 or q8_0; products of one value share it. This changes the numbers
    that the program stands for, which is why it is a pass of its own that users
    ask for (`--activations q8`), and why it runs before shardings are chosen:
    all later passes keep what it says.

    After: those products have inputs in q8.
  }];
  let statistics = [
    Statistic<"numQuantized", "quantized", "Number of values quantised">,
  ];
  let dependentDialects = ["::mlir::heddle::HeddleDialect"];
}

def AnnotatePass : Pass<"heddle-annotate", "::mlir::ModuleOp"> {
  let summary = "put shardings on every tensor, strategy by strategy";
  let description = [{
    Before: functions hold model ops on tensors without encodings, and the
    module one `heddle.mesh`.

    Runs the strategies in order. `tensor(tp)` shards attention by heads, gated
    units by their hidden width, embedding and logits by vocabulary (Megatron-LM,
    arXiv:1909.08053); `data(dp)` shards the batch; `sequence(tp)` the tokens of
    norms and the residual (arXiv:2205.05198); `ring(cp)` all tokens, with keys
    and values that go round (arXiv:2310.01889), or the blocks of a cache;
    `ulysses(sp)` tokens, and heads inside of attention (arXiv:2309.14509);
    `gather(cp)` tokens, and gathers keys and values; `context(cp)` is the cheapest
    of the three for each kind of layer.
    `chunk(N)` leaves a mark for `heddle-chunk`. After each, shardings are
    propagated through the ops' factor rules to a fixpoint; what an earlier
    strategy decided is never changed by a later one. Key/value heads follow the
    query heads that read them: by a sub-axis where ranks divide, by a table
    where they do not. A bias of a product that becomes a pending sum is split
    off, so that it is added once, after the reduction.

    After: every tensor carries a sharding; operands of every op agree with its
    factor rule; where a value is needed in another layout or a pending sum must
    be complete stands a `heddle.reshard` that says why.

    Left to partition: which collective a reshard becomes.
  }];
  let options = [
    Option<"strategy", "strategy", "std::string", /*default=*/"\"\"",
           "Strategies in order, as in \"tensor(tp);data(dp)\"; empty: the "
           "defaults of the mesh's axis names">,
    Option<"layout", "layout", "std::string", /*default=*/"\"\"",
           "How tokens are dealt to the ranks that share a sequence: zigzag "
           "(the default), striped, contiguous, cyclic">,
    Option<"topology", "topology", "std::string", /*default=*/"\"\"",
           "File of the mesh's links and devices (docs/strategies.md), for "
           "context(axis)">,
    Option<"strictDivisibility", "strict-divisibility", "bool",
           /*default=*/"false",
           "Refuse sizes that do not divide instead of padding">,
  ];
  let statistics = [
    Statistic<"numReshards", "reshards", "Number of reshards inserted">,
    Statistic<"numSharded", "sharded-values", "Number of values that are sharded">,
  ];
  let dependentDialects = ["::mlir::heddle::HeddleDialect"];
}

def PartitionPass : Pass<"heddle-partition", "::mlir::ModuleOp"> {
  let summary = "global tensors to local tensors and explicit collectives";
  let description = [{
    Before: every tensor carries a sharding (`heddle-annotate`).

    Gives every function the types that one rank holds, marks it
    `heddle.local`, and makes every reshard explicit: a pending sum becomes an
    all-reduce, or a reduce-scatter where the target shards a dimension by that
    axis; axes that disappear are gathered, axes that appear are sliced, an axis
    that moves between dimensions becomes an all-to-all. Indices into sharded
    dimensions become local (`heddle.local_index`); reduced factors with padding
    that is not proven to be zero are masked (`heddle.mask_pad`). Arguments and
    results keep their global type in the attribute `heddle.global`.

    After: no encoding and no `heddle.reshard` is left in a local function.
  }];
  let statistics = [
    Statistic<"numCollectives", "collectives", "Number of collectives inserted">,
    Statistic<"numMasks", "masks", "Number of padding masks inserted">,
  ];
  let dependentDialects = ["::mlir::heddle::HeddleDialect",
                           "::mlir::comm::CommDialect"];
}

def VerifyGlobalPass : Pass<"heddle-verify-global", "::mlir::ModuleOp"> {
  let summary = "illegal after annotate: a tensor without a sharding";
  let description = [{
    Checks what `heddle-annotate` promises: every tensor of a function that is
    not local carries a sharding over the function's mesh whose axes and tables
    exist.
  }];
}

def VerifyLocalPass : Pass<"heddle-verify-local", "::mlir::ModuleOp"> {
  let summary = "illegal after partition: anything global";
  let description = [{
    Checks what `heddle-partition` promises: every function is local, no tensor
    has an encoding, no `heddle.reshard` is left, and groups name axes of the
    mesh.
  }];
}

def ChunkPass : Pass<"heddle-chunk", "::mlir::func::FuncOp"> {
  let summary = "MLPs over some tokens at a time";
  let description = [{
    Before: local functions (`heddle-partition`); those with `heddle.chunk` N,
    which the strategy `chunk(N)` puts there, are changed.

    A gated unit with the products before and behind it (and what quantises and
    biases them) becomes a `heddle.repeat` over chunks of at most N tokens, so
    that the hidden width is never there for all tokens (Blockwise Parallel
    Transformers, arXiv:2305.19370). A chunk is the largest divisor of a rank's
    tokens from N / 2 to N; without one chunks are as even as they get, and the
    last is padded. Sums of its results stay behind the loop.

    After: local functions as before.
  }];
  let statistics = [
    Statistic<"numLoops", "loops", "Number of loops over chunks">,
  ];
  let dependentDialects = ["::mlir::heddle::HeddleDialect"];
}

def PackWeightsPass : Pass<"heddle-pack-weights", "::mlir::ModuleOp"> {
  let summary = "storage formats of parameters";
  let description = [{
    Before: local functions (`heddle-partition`).

    Gives every parameter in q4_0, q4_1 or q8_0 that is the weight of a product
    the encoding `#heddle.packing<"panel16@1">`, in all programs and in the
    regions of `heddle.repeat`: 16 rows lie together so that the lanes of a
    vector are rows (register tiles need no horizontal sums), and the loader
    packs them once. A table that is also looked up by `heddle.embedding` stays
    one copy. What other ops read stays row major.

    After: the encodings are what code generation reads and the bundle's recipes
    name.
  }];
  let statistics = [
    Statistic<"numPacked", "packed", "Number of parameters packed">,
  ];
  let dependentDialects = ["::mlir::heddle::HeddleDialect"];
}

def SchedulePass : Pass<"heddle-schedule", "::mlir::ModuleOp"> {
  let summary = "an order of fused groups, each outlined as a kernel";
  let description = [{
    Before: local functions (`heddle-partition`).

    Reorders each block within its data dependences so that row-wise ops over
    the same tokens stand together, and outlines every such group, and every op
    that is a kernel of its own (attention, argmax, sample, products of few rows or
    with stored weights), as a private function marked `heddle.kernel`, called with
    `func.call`. Equal kernels of all programs are one function. Other fp32 products
    stay `heddle.linear`, marked `heddle.gemm`, for the library; their bias is
    split off so that it fuses with what follows. Reshapes stay as they are:
    they alias their operand. Products of one input that are kernels are one.

    After: a program's block holds calls, gemms, reshapes, collectives and
    repeats, in the order in which they will run.

    Left to convert-heddle-to-plan: where values lie.
  }];
  let statistics = [
    Statistic<"numKernels", "kernels", "Number of distinct kernels">,
    Statistic<"numLaunches", "launches", "Number of launches">,
  ];
  let dependentDialects = ["::mlir::func::FuncDialect"];
}

#endif // HEDDLE_DIALECT_HEDDLE_TRANSFORMS_PASSES_TD
