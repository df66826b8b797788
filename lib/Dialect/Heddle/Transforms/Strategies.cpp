//===- Strategies.cpp - What to shard over which axis ----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/Transforms/Strategies.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::heddle;

namespace {
/// What a strategy may look at and mark.
struct Seeding {
  ModuleOp module;
  AxisRefAttr axis;
  TokenLayout layout;
  ArrayRef<Strategy> all;
  Propagation &propagation;

  Seeding(ModuleOp module, AxisRefAttr axis, TokenLayout layout,
          ArrayRef<Strategy> all, Propagation &propagation)
      : module(module), axis(axis), layout(layout), all(all),
        propagation(propagation) {}

  int64_t ranks() const { return ranksOf(axis.getName()); }
  int64_t ranksOf(StringRef name) const {
    return propagation.getMesh().getAxisSize(name);
  }
  /// Dealt in blocks.
  DimShardingAttr dim() const {
    return DimShardingAttr::get(axis.getContext(), ArrayRef<AxisRefAttr>(axis),
                                1);
  }
  /// Tokens as one of the strategies that cut them leaves them. Those that keep
  /// them together for less of a layer cut what the others have left: the
  /// ring's parts lie outside of attention over the axes of `ulysses` too, and
  /// those of norms and the residual over the axes of `sequence`.
  DimShardingAttr tokens(int64_t count, StringRef strategy);

private:
  /// Tables of parts can be as long as the sequence: made once.
  llvm::StringMap<DimShardingAttr> made;
};

struct StrategyInfo {
  StringRef name;
  /// Axis name for which it is the default.
  StringRef defaultAxis;
  StringRef summary;
  int64_t (*seed)(Seeding &);
};
} // namespace

DimShardingAttr mlir::heddle::dealTokens(AxisRefAttr ring, TokenLayout layout,
                                         int64_t ranks, int64_t count,
                                         int64_t minor) {
  constexpr int64_t kBlock = 64;
  auto dealt = [&](int64_t unit, MapKind map) {
    return DimShardingAttr::get(ring.getContext(), ArrayRef<AxisRefAttr>(ring),
                                unit, map, 1, FlatSymbolRefAttr());
  };
  int64_t part = llvm::divideCeil(count, ranks * minor);
  switch (layout) {
  case TokenLayout::Zigzag:
    return dealt(llvm::divideCeil(count, 2 * ranks * minor), MapKind::Zigzag);
  case TokenLayout::Striped:
    return dealt(1, MapKind::Cyclic);
  case TokenLayout::Contiguous:
    return dealt(minor == 1 ? 1 : part, MapKind::Block);
  case TokenLayout::Cyclic:
    return dealt(std::min(kBlock, part), MapKind::Cyclic);
  }
  llvm_unreachable("expected a layout");
}

DimShardingAttr Seeding::tokens(int64_t count, StringRef strategy) {
  DimShardingAttr &dim = made[(strategy + Twine(count)).str()];
  if (dim)
    return dim;
  static constexpr StringRef order[] = {"ring", "ulysses", "sequence"};
  // Methods whose queries lie as those of a ring do.
  auto isStrategy = [](const Strategy &other, StringRef name) {
    return other.name == name ||
           (name == order[0] &&
            (other.name == "gather" || other.name == "context"));
  };
  int64_t minor = 1;
  for (const Strategy &other : all)
    if (other.name == order[1] || other.name == order[2])
      minor *= ranksOf(other.axis);
  for (StringRef name : order) {
    for (const Strategy &other : all) {
      if (!isStrategy(other, name) || ranksOf(other.axis) == 1)
        continue;
      auto cut = AxisRefAttr::get(axis.getContext(), other.axis);
      dim = name == order[0]
                ? dealTokens(cut, layout, ranksOf(other.axis), count, minor)
                : propagation.divide(dim, cut, count);
    }
    if (name == strategy)
      break;
  }
  return dim;
}

//===----------------------------------------------------------------------===//
// tensor(axis)
//===----------------------------------------------------------------------===//

/// A product outside the layer stack whose result is sampled or leaves the
/// program: the logits.
static bool isLogits(LinearOp linear) {
  return isa<func::FuncOp>(linear->getParentOp()) &&
         llvm::any_of(linear.getResult().getUsers(), [](Operation *user) {
           return isa<ArgmaxOp, SampleOp, func::ReturnOp>(user);
         });
}

static int64_t seedTensor(Seeding &seeding) {
  Propagation &propagation = seeding.propagation;
  DimShardingAttr dim = seeding.dim();
  int64_t taken = 0;
  seeding.module.walk([&](Operation *op) {
    if (auto attention = dyn_cast<AttentionOp>(op))
      taken += propagation.seed(attention.getQuery(), 2, dim);
    else if (auto partial = dyn_cast<AttentionPartialOp>(op))
      taken += propagation.seed(partial.getQuery(), 2, dim);
    else if (auto glu = dyn_cast<GluOp>(op))
      taken += propagation.seed(
          glu.getResult(),
          cast<RankedTensorType>(glu.getResult().getType()).getRank() - 1, dim);
    else if (auto embedding = dyn_cast<EmbeddingOp>(op))
      taken += propagation.seed(embedding.getTable(), 0, dim);
    else if (auto linear = dyn_cast<LinearOp>(op); linear && isLogits(linear))
      taken += propagation.seed(linear.getWeight(), 0, dim);
  });
  return taken;
}

//===----------------------------------------------------------------------===//
// data(axis)
//===----------------------------------------------------------------------===//

static int64_t seedData(Seeding &seeding) {
  int64_t taken = 0;
  for (auto func : seeding.module.getOps<func::FuncOp>())
    for (BlockArgument argument : func.getArguments()) {
      auto binding = func.getArgAttrOfType<BindingAttr>(
          argument.getArgNumber(), HeddleDialect::kBindingAttr);
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      if (binding && binding.getKind() == BindingKind::Input && type &&
          type.getRank() > 0)
        taken += seeding.propagation.seed(argument, 0, seeding.dim());
    }
  return taken;
}

//===----------------------------------------------------------------------===//
// sequence(axis)
//===----------------------------------------------------------------------===//

/// A program that generates; others see all their tokens at once.
static bool hasCache(func::FuncOp func) {
  WalkResult result = func.walk([](AttentionOp op) {
    return op.getBlocks() ? WalkResult::interrupt() : WalkResult::advance();
  });
  return result.wasInterrupted();
}

/// Norms and the residual on shards of the token axis, where the axis is not
/// used for something else, as inside of attention and the MLP after
/// `tensor(axis)`.
static int64_t seedResidual(Seeding &seeding, StringRef strategy) {
  int64_t taken = 0;
  seeding.module.walk([&](Operation *op) {
    if (!isa<RmsNormOp, AddOp>(op))
      return;
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    // A program of few tokens, such as decode, has nothing to share.
    if (type.getRank() != 3 || type.getDimSize(1) < seeding.ranks())
      return;
    // The parts of a ring are those of programs without a cache.
    DimShardingAttr dim = hasCache(op->getParentOfType<func::FuncOp>())
                              ? seeding.dim()
                              : seeding.tokens(type.getDimSize(1), strategy);
    taken += seeding.propagation.seed(op->getResult(0), 1, dim);
  });
  return taken;
}

static int64_t seedSequence(Seeding &seeding) {
  return seedResidual(seeding, "sequence");
}

//===----------------------------------------------------------------------===//
// Tokens outside of attention
//===----------------------------------------------------------------------===//

/// Products, gated units and ids, which stand in no order to one another: the
/// tokens of `ring` and `ulysses`.
static int64_t seedTokens(Seeding &seeding) {
  int64_t taken = 0;
  auto seed = [&](Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    taken += seeding.propagation.seed(
        value, 1, seeding.tokens(type.getDimSize(1), "ulysses"));
  };
  for (auto func : seeding.module.getOps<func::FuncOp>()) {
    if (hasCache(func))
      continue;
    // `--output last` leaves few tokens; those are on every rank.
    int64_t most = 0;
    func.walk([&](AttentionOp op) {
      most = std::max(
          most, cast<RankedTensorType>(op.getQuery().getType()).getDimSize(1));
    });
    func.walk([&](Operation *op) {
      Value value;
      if (auto embedding = dyn_cast<EmbeddingOp>(op))
        value = embedding.getIds();
      else if (isa<LinearOp, GluOp>(op))
        value = op->getResult(0);
      if (!value)
        return;
      auto type = cast<RankedTensorType>(value.getType());
      if (type.getRank() >= 2 && type.getDimSize(1) == most &&
          most >= seeding.ranks())
        seed(value);
    });
  }
  return taken;
}

/// Attention over the tokens of a pass, without a cache.
static void forEachAttention(Seeding &seeding,
                             function_ref<void(AttentionOp, int64_t)> each) {
  seeding.module.walk([&](AttentionOp attention) {
    int64_t tokens =
        cast<RankedTensorType>(attention.getQuery().getType()).getDimSize(1);
    auto keys = cast<RankedTensorType>(attention.getKey().getType());
    if (!attention.getBlocks() && !attention.getLengths() &&
        keys.getDimSize(1) == tokens && tokens >= seeding.ranks())
      each(attention, tokens);
  });
}

/// Queries, keys, values and the result as the tokens lie outside.
static void seedAttention(Seeding &seeding, AttentionOp attention,
                          int64_t tokens) {
  DimShardingAttr outside = seeding.tokens(tokens, "ulysses");
  for (Value value : {attention.getQuery(), attention.getKey(),
                      attention.getValue(), attention.getResult()})
    seeding.propagation.seed(value, 1, outside);
}

//===----------------------------------------------------------------------===//
// ring(axis)
//===----------------------------------------------------------------------===//

/// Every block of the cache is cut over the axis: appended tokens are dealt out
/// evenly whatever the length, and a rank attends to those that it has.
static int64_t seedCaches(Seeding &seeding) {
  int64_t taken = 0;
  seeding.module.walk([&](AttentionOp attention) {
    if (!attention.getBlocks() || attention.getKeys())
      return;
    // Not where the axis cuts something else of the cache.
    if (!seeding.propagation.seed(attention.getKey(), 1, seeding.dim()))
      return;
    seeding.propagation.seed(attention.getValue(), 1, seeding.dim());
    ++taken;
    attention.setKeysAttr(
        KeysAttr::get(attention.getContext(), KeyMethod::Merge, seeding.axis));
  });
  return taken;
}

/// Attention in which a rank's keys and values go round.
static bool seedRingAttention(Seeding &seeding, AttentionOp attention,
                              int64_t tokens) {
  int t = attention.getFactorRule().operands[0][1][0];
  if (attention.getKeys() ||
      !seeding.propagation.settle(attention, t, seeding.tokens(tokens, "ring")))
    return false;
  attention.setKeysAttr(
      KeysAttr::get(attention.getContext(), KeyMethod::Ring, seeding.axis));
  seedAttention(seeding, attention, tokens);
  return true;
}

/// Tokens are dealt out by the layout everywhere; attention over the tokens of
/// the same pass sends keys and values round. With a cache, keys and values
/// stay where they were put.
static int64_t seedRing(Seeding &seeding) {
  int64_t taken = seedCaches(seeding);
  if (taken > 0) {
    // Attention and the cache have what they need of the axis; what is left of
    // a prompt's work is dealt out by tokens.
    seeding.propagation.run();
    return taken + seedResidual(seeding, "ring");
  }
  forEachAttention(seeding, [&](AttentionOp attention, int64_t tokens) {
    taken += seedRingAttention(seeding, attention, tokens);
  });
  return taken == 0 ? 0 : taken + seedTokens(seeding);
}

//===----------------------------------------------------------------------===//
// gather(axis)
//===----------------------------------------------------------------------===//

/// Queries stay where they are, and meet all keys and values, which come from
/// all ranks before attention begins.
static bool seedGatherAttention(Seeding &seeding, AttentionOp attention,
                                int64_t tokens) {
  int t = attention.getFactorRule().operands[0][1][0];
  if (attention.getKeys() ||
      !seeding.propagation.settle(attention, t, seeding.tokens(tokens, "ring")))
    return false;
  seedAttention(seeding, attention, tokens);
  return true;
}

static int64_t seedGather(Seeding &seeding) {
  int64_t taken = 0;
  forEachAttention(seeding, [&](AttentionOp attention, int64_t tokens) {
    taken += seedGatherAttention(seeding, attention, tokens);
  });
  return taken == 0 ? 0 : taken + seedTokens(seeding);
}

//===----------------------------------------------------------------------===//
// ulysses(axis)
//===----------------------------------------------------------------------===//

/// What the heads of `tensor(axis)`, if there are any, become.
static bool settleHeads(Seeding &seeding, AttentionOp attention) {
  int h = attention.getFactorRule().operands[0][2][0];
  int64_t heads =
      cast<RankedTensorType>(attention.getQuery().getType()).getDimSize(2);
  DimShardingAttr mine = seeding.propagation.divide(
      seeding.propagation.getSettled(attention, h), seeding.axis, heads);
  return seeding.propagation.settle(attention, h, mine);
}

/// With a cache: a rank has the keys and values of its heads. What goes there,
/// and to attention, comes in shards of the tokens or, where those are few,
/// whole; its heads are not cut, which would cut weights.
static int64_t seedUlyssesCaches(Seeding &seeding) {
  int64_t taken = 0;
  seeding.module.walk([&](AttentionOp attention) {
    if (!attention.getBlocks() || !settleHeads(seeding, attention))
      return;
    SmallVector<Value> outside = {attention.getQuery(), attention.getResult()};
    for (Value pool : {attention.getKey(), attention.getValue()})
      if (auto append = pool.getDefiningOp<CacheAppendOp>())
        outside.push_back(append.getValues());
    int64_t tokens =
        cast<RankedTensorType>(attention.getQuery().getType()).getDimSize(1);
    for (Value value : outside)
      if (tokens >= seeding.ranks())
        seeding.propagation.seed(value, 1, seeding.dim());
      else
        seeding.propagation.keepWhole(value, 2);
    ++taken;
  });
  return taken;
}

/// All tokens of some heads inside of attention, some of the tokens outside.
static int64_t seedUlysses(Seeding &seeding) {
  int64_t taken = seedUlyssesCaches(seeding);
  forEachAttention(seeding, [&](AttentionOp attention, int64_t tokens) {
    if (!settleHeads(seeding, attention))
      return;
    seedAttention(seeding, attention, tokens);
    ++taken;
  });
  return taken == 0
             ? 0
             : taken + seedResidual(seeding, "ulysses") + seedTokens(seeding);
}

//===----------------------------------------------------------------------===//
// context(axis)
//===----------------------------------------------------------------------===//

/// Kinds of layers with methods of their own (resolveContext). Outside of
/// attention tokens lie as those of a ring do.
static int64_t seedContext(Seeding &seeding) {
  int64_t taken = 0;
  forEachAttention(seeding, [&](AttentionOp attention, int64_t tokens) {
    auto method = attention->getAttrOfType<StringAttr>(kMethodAttr);
    if (!method)
      return;
    if (method == "ring") {
      taken += seedRingAttention(seeding, attention, tokens);
    } else if (method == "gather") {
      taken += seedGatherAttention(seeding, attention, tokens);
    } else if (settleHeads(seeding, attention)) {
      seedAttention(seeding, attention, tokens);
      ++taken;
    }
  });
  seeding.module.walk([](AttentionOp op) { op->removeAttr(kMethodAttr); });
  return taken == 0
             ? 0
             : taken + seedResidual(seeding, "ulysses") + seedTokens(seeding);
}

//===----------------------------------------------------------------------===//
// The list
//===----------------------------------------------------------------------===//

static constexpr StrategyInfo strategies[] = {
    {"tensor", "tp", "heads, hidden widths and vocabulary", seedTensor},
    {"data", "dp", "the batch", seedData},
    {"ulysses", "sp", "tokens; heads inside of attention", seedUlysses},
    // Replaced by another one where all attention is alike (resolveContext).
    {"context", "cp", "ring, ulysses or gather, whichever is cheapest",
     seedContext},
    {"ring", "", "tokens; keys and values go round", seedRing},
    {"gather", "", "tokens; keys and values of all ranks are gathered",
     seedGather},
    {"sequence", "", "tokens of norms and the residual", seedSequence},
};

static const StrategyInfo *find(StringRef name) {
  for (const StrategyInfo &info : strategies)
    if (info.name == name)
      return &info;
  return nullptr;
}

FailureOr<SmallVector<Strategy>> mlir::heddle::parseStrategies(StringRef text,
                                                               MeshOp mesh) {
  SmallVector<Strategy> result;
  bool ok = true;
  auto listAll = [](InFlightDiagnostic &diag) {
    llvm::interleaveComma(strategies, diag, [&](const StrategyInfo &info) {
      diag << info.name << "(axis)";
    });
    diag << ", chunk(tokens)";
  };
  if (text.trim().empty()) {
    for (Attribute attr : mesh.getNames()) {
      StringRef axis = cast<StringAttr>(attr).getValue();
      auto *info = llvm::find_if(strategies, [&](const StrategyInfo &s) {
        return s.defaultAxis == axis;
      });
      if (info == std::end(strategies)) {
        InFlightDiagnostic diag = mesh.emitError();
        diag << "expected a strategy for mesh axis '" << axis
             << "', which has no default; give one of ";
        listAll(diag);
        ok = false;
        continue;
      }
      result.push_back({info->name.str(), axis.str()});
    }
    if (!ok)
      return failure();
    return result;
  }
  SmallVector<StringRef> parts;
  text.split(parts, ';', -1, /*KeepEmpty=*/false);
  llvm::StringSet<> used;
  for (StringRef part : parts) {
    part = part.trim();
    auto [name, rest] = part.split('(');
    StringRef axis = rest.trim();
    if (!axis.consume_back(")")) {
      mesh.emitError() << "expected a strategy of the form name(axis), got '"
                       << part << "'";
      ok = false;
      continue;
    }
    name = name.trim();
    axis = axis.trim();
    if (name == "chunk") {
      // chunk(4096) or chunk(tokens=4096).
      auto [key, after] = axis.split('=');
      StringRef count = after.empty() ? axis : after.trim();
      int64_t tokens = 0;
      if ((!after.empty() && key.trim() != "tokens") ||
          count.getAsInteger(10, tokens) || tokens < 1) {
        mesh.emitError() << "expected chunk(N) with a number of tokens of at "
                            "least 1, got '"
                         << part << "'";
        ok = false;
      }
      result.push_back({"chunk", "", tokens});
      continue;
    }
    if (!find(name)) {
      InFlightDiagnostic diag = mesh.emitError();
      diag << "expected one of the strategies ";
      listAll(diag);
      diag << ", got '" << name << "'";
      ok = false;
    }
    if (mesh.getAxisSize(axis) == 0) {
      InFlightDiagnostic diag = mesh.emitError();
      diag << "expected strategy '" << name << "' to name a mesh axis, one of ";
      llvm::interleaveComma(mesh.getNames(), diag);
      diag << ", got '" << axis << "'";
      ok = false;
    }
    used.insert(axis);
    result.push_back({name.str(), axis.str()});
  }
  for (auto [attr, size] : llvm::zip(mesh.getNames(), mesh.getSizes())) {
    StringRef axis = cast<StringAttr>(attr).getValue();
    if (!used.contains(axis) && size > 1) {
      mesh.emitError() << "expected a strategy that uses mesh axis '" << axis
                       << "' of size " << size << ", got '" << text << "'";
      ok = false;
    }
  }
  if (!ok)
    return failure();
  return result;
}

FailureOr<TokenLayout>
mlir::heddle::parseTokenLayout(StringRef name,
                               function_ref<InFlightDiagnostic()> emitError) {
  auto layout = llvm::StringSwitch<std::optional<TokenLayout>>(name)
                    .Cases({"", "zigzag"}, TokenLayout::Zigzag)
                    .Case("striped", TokenLayout::Striped)
                    .Case("contiguous", TokenLayout::Contiguous)
                    .Case("cyclic", TokenLayout::Cyclic)
                    .Default(std::nullopt);
  if (layout)
    return *layout;
  return emitError() << "expected a layout of tokens, one of zigzag, striped, "
                        "contiguous, cyclic, got '"
                     << name << "'";
}

void mlir::heddle::seedStrategy(const Strategy &strategy,
                                ArrayRef<Strategy> all, TokenLayout layout,
                                ModuleOp module, Propagation &propagation) {
  if (strategy.name == "chunk") {
    for (auto func : module.getOps<func::FuncOp>())
      func->setAttr(kChunkAttr,
                    OpBuilder(func).getI64IntegerAttr(strategy.tokens));
    return;
  }
  auto axis = AxisRefAttr::get(module.getContext(), strategy.axis);
  Seeding seeding(module, axis, layout, all, propagation);
  int64_t taken = find(strategy.name)->seed(seeding);
  if (taken == 0)
    propagation.getMesh().emitWarning()
        << "strategy " << strategy.name << "(" << strategy.axis
        << ") found nothing to split";
}
