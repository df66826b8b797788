//===- Strategies.cpp - What to shard over which axis ----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/Transforms/Strategies.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::heddle;

namespace {
/// What a strategy may look at and mark.
struct Seeding {
  ModuleOp module;
  AxisRefAttr axis;
  TokenLayout layout;
  Propagation &propagation;

  int64_t ranks() const {
    return propagation.getMesh().getAxisSize(axis.getName());
  }
  /// Dealt in blocks.
  DimShardingAttr dim() const {
    return DimShardingAttr::get(axis.getContext(), ArrayRef<AxisRefAttr>(axis),
                                1);
  }
  /// Dealt by the layout.
  DimShardingAttr tokens(int64_t count) const;
};

struct StrategyInfo {
  StringRef name;
  /// Axis name for which it is the default.
  StringRef defaultAxis;
  StringRef summary;
  int64_t (*seed)(Seeding &);
};
} // namespace

DimShardingAttr Seeding::tokens(int64_t count) const {
  constexpr int64_t kBlock = 64;
  auto dealt = [&](int64_t unit, MapKind map) {
    return DimShardingAttr::get(axis.getContext(), ArrayRef<AxisRefAttr>(axis),
                                unit, map, 1, FlatSymbolRefAttr());
  };
  switch (layout) {
  case TokenLayout::Zigzag:
    return dealt(llvm::divideCeil(count, 2 * ranks()), MapKind::Zigzag);
  case TokenLayout::Striped:
    return dealt(1, MapKind::Cyclic);
  case TokenLayout::Contiguous:
    return dim();
  case TokenLayout::Cyclic:
    return dealt(std::min<int64_t>(kBlock, llvm::divideCeil(count, ranks())),
                 MapKind::Cyclic);
  }
  llvm_unreachable("expected a layout");
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

/// Norms and the residual on shards of the token axis, where the axis is not
/// used for something else, as inside of attention and the MLP after
/// `tensor(axis)`.
static int64_t seedSequence(Seeding &seeding) {
  int64_t taken = 0;
  seeding.module.walk([&](Operation *op) {
    if (!isa<RmsNormOp, AddOp>(op))
      return;
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    // A program of few tokens, such as decode, has nothing to share.
    if (type.getRank() == 3 && type.getDimSize(1) >= seeding.ranks())
      taken += seeding.propagation.seed(op->getResult(0), 1, seeding.dim());
  });
  return taken;
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
    for (Value keys : {attention.getKey(), attention.getValue()})
      taken += seeding.propagation.seed(keys, 1, seeding.dim());
    attention.setKeysAttr(
        KeysAttr::get(attention.getContext(), KeyMethod::Merge, seeding.axis));
  });
  return taken;
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
    return taken + seedSequence(seeding);
  }
  seeding.module.walk([&](AttentionOp attention) {
    Value query = attention.getQuery();
    int64_t tokens = cast<RankedTensorType>(query.getType()).getDimSize(1);
    auto keys = cast<RankedTensorType>(attention.getKey().getType());
    if (attention.getBlocks() || attention.getLengths() ||
        keys.getDimSize(1) != tokens || attention.getKeys())
      return;
    if (!seeding.propagation.seed(query, 1, seeding.tokens(tokens)))
      return;
    attention.setKeysAttr(
        KeysAttr::get(attention.getContext(), KeyMethod::Ring, seeding.axis));
    ++taken;
  });
  return taken;
}

//===----------------------------------------------------------------------===//
// The list
//===----------------------------------------------------------------------===//

static constexpr StrategyInfo strategies[] = {
    {"tensor", "tp", "heads, hidden widths and vocabulary", seedTensor},
    {"data", "dp", "the batch", seedData},
    {"ring", "cp", "tokens; keys and values go round", seedRing},
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

void mlir::heddle::seedStrategy(const Strategy &strategy, TokenLayout layout,
                                ModuleOp module, Propagation &propagation) {
  auto axis = AxisRefAttr::get(module.getContext(), strategy.axis);
  Seeding seeding = {module, axis, layout, propagation};
  int64_t taken = find(strategy.name)->seed(seeding);
  if (taken == 0)
    propagation.getMesh().emitWarning()
        << "strategy " << strategy.name << "(" << strategy.axis
        << ") found nothing to split";
}
