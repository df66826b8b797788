//===- Strategies.h - What to shard over which axis -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// A strategy marks a few values; propagation does the rest. To add one: write a
// seed function, add it to the table in Strategies.cpp, document it in
// docs/strategies.md.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_TRANSFORMS_STRATEGIES_H
#define HEDDLE_DIALECT_HEDDLE_TRANSFORMS_STRATEGIES_H

#include "heddle/Dialect/Heddle/Transforms/Propagation.h"
#include "heddle/Dialect/Heddle/Transforms/Topology.h"

namespace mlir::heddle {

/// How tokens are dealt to the ranks that share a sequence.
enum class TokenLayout {
  /// 2n parts for n ranks; rank r has parts r and 2n - 1 - r, so that causal
  /// attention is the same work for all.
  Zigzag,
  /// Token i is rank i mod n's (Striped Attention, arXiv:2311.09431).
  Striped,
  Contiguous,
  /// Blocks of 64 tokens, dealt in turn.
  Cyclic,
};

/// By the names "zigzag", "striped", "contiguous", "cyclic"; empty: zigzag.
FailureOr<TokenLayout>
parseTokenLayout(StringRef name, function_ref<InFlightDiagnostic()> emitError);

struct Strategy {
  std::string name;
  std::string axis;
  /// Of `chunk`, which has no axis.
  int64_t tokens = 0;
};

/// On functions: at most how many tokens an MLP sees at a time
/// (`heddle-chunk`).
inline constexpr llvm::StringLiteral kChunkAttr = "heddle.chunk";

/// Parses "tensor(tp);data(dp)" or, if empty, takes the defaults of the mesh's
/// axis names. Every problem is reported: unknown strategies and axes, axes
/// that no strategy uses.
FailureOr<SmallVector<Strategy>> parseStrategies(StringRef text, MeshOp mesh);

/// On modules: what `context(axis)` chose and why, in sentences for the report.
inline constexpr llvm::StringLiteral kChoicesAttr = "heddle.choices";

/// On the module: the rings that partition made, as dictionaries of the program
/// (`variant`), `location`, `window` (0: none), `ranks`, `hops`: from how many
/// ranks before a block comes, 0 first; the others were left out; and
/// `busiest`: attention of the busiest rank over that of the mean.
inline constexpr llvm::StringLiteral kRingsAttr = "heddle.rings";

/// On attention while annotate runs: what `context(axis)` chose for it, where
/// not all have the same, "ring", "gather" or "ulysses".
inline constexpr llvm::StringLiteral kMethodAttr = "heddle.method";

/// `count` tokens dealt to the `ranks` of an axis, in units that `minor` ranks
/// can share.
DimShardingAttr dealTokens(AxisRefAttr axis, TokenLayout layout, int64_t ranks,
                           int64_t count, int64_t minor);

/// Replaces each `context(axis)` by `ring(axis)`, `gather(axis)` or
/// `ulysses(axis)`, or by the first and the last of these on two parts of the
/// axis (which are axes of the mesh then): what sends less or, with a topology,
/// takes less time, from the heads, windows and tokens of the module's
/// attention, the number of ranks and the other strategies; and leaves the
/// reasons on the module. Where kinds of layers differ it stays, and each
/// attention has a method.
LogicalResult resolveContext(SmallVectorImpl<Strategy> &strategies,
                             TokenLayout layout, ModuleOp module, MeshOp mesh,
                             const Topology *topology);

/// Marks the values that the strategy, one of `all`, decides. Warns if it finds
/// none.
void seedStrategy(const Strategy &strategy, ArrayRef<Strategy> all,
                  TokenLayout layout, ModuleOp module,
                  Propagation &propagation);

} // namespace mlir::heddle

#endif // HEDDLE_DIALECT_HEDDLE_TRANSFORMS_STRATEGIES_H
