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
struct StrategyInfo {
  StringRef name;
  /// Axis name for which it is the default.
  StringRef defaultAxis;
  StringRef summary;
  int64_t (*seed)(ModuleOp, DimShardingAttr, Propagation &);
};
} // namespace

static DimShardingAttr withAxes(AxisRefAttr axis, int64_t unit) {
  return DimShardingAttr::get(axis.getContext(), ArrayRef<AxisRefAttr>(axis),
                              unit);
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

static int64_t seedTensor(ModuleOp module, DimShardingAttr dim,
                          Propagation &propagation) {
  int64_t taken = 0;
  module.walk([&](Operation *op) {
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

static int64_t seedData(ModuleOp module, DimShardingAttr dim,
                        Propagation &propagation) {
  int64_t taken = 0;
  for (auto func : module.getOps<func::FuncOp>())
    for (BlockArgument argument : func.getArguments()) {
      auto binding = func.getArgAttrOfType<BindingAttr>(
          argument.getArgNumber(), HeddleDialect::kBindingAttr);
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      if (binding && binding.getKind() == BindingKind::Input && type &&
          type.getRank() > 0)
        taken += propagation.seed(argument, 0, dim);
    }
  return taken;
}

//===----------------------------------------------------------------------===//
// sequence(axis)
//===----------------------------------------------------------------------===//

/// Norms and the residual on shards of the token axis, where the axis is not
/// used for something else, as inside of attention and the MLP after
/// `tensor(axis)`.
static int64_t seedSequence(ModuleOp module, DimShardingAttr dim,
                            Propagation &propagation) {
  int64_t ranks = propagation.getMesh().getAxisSize(dim.getAxes()[0].getName());
  int64_t taken = 0;
  module.walk([&](Operation *op) {
    if (!isa<RmsNormOp, AddOp>(op))
      return;
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    // A program of few tokens, such as decode, has nothing to share.
    if (type.getRank() == 3 && type.getDimSize(1) >= ranks)
      taken += propagation.seed(op->getResult(0), 1, dim);
  });
  return taken;
}

//===----------------------------------------------------------------------===//
// The list
//===----------------------------------------------------------------------===//

static constexpr StrategyInfo strategies[] = {
    {"tensor", "tp", "heads, hidden widths and vocabulary", seedTensor},
    {"data", "dp", "the batch", seedData},
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

void mlir::heddle::seedStrategy(const Strategy &strategy, ModuleOp module,
                                Propagation &propagation) {
  auto axis = AxisRefAttr::get(module.getContext(), strategy.axis);
  int64_t taken =
      find(strategy.name)->seed(module, withAxes(axis, 1), propagation);
  if (taken == 0)
    propagation.getMesh().emitWarning()
        << "strategy " << strategy.name << "(" << strategy.axis
        << ") found nothing to split";
}
