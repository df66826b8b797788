//===- PackWeights.cpp - Storage formats of parameters --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/Transforms/Passes.h"

#include "llvm/ADT/StringMap.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_PACKWEIGHTSPASS
#include "heddle/Dialect/Heddle/Transforms/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;

/// The slices of a stack inside a repeat: arguments of its kinds' regions.
static BlockArgument sliceOf(OpOperand &use) {
  auto repeat = dyn_cast<RepeatOp>(use.getOwner());
  if (!repeat)
    return {};
  for (auto [kind, region] : llvm::enumerate(repeat.getKinds())) {
    size_t carries = repeat.getCarries().size();
    for (auto [at, i] : llvm::enumerate(repeat.getParamsOf(kind)))
      if (&repeat.getParamsMutable()[i] == &use)
        return region.getArgument(carries + at);
  }
  return {};
}

namespace {

/// A parameter's value and its slices, and what reads them.
struct Uses {
  SmallVector<Value> values;
  bool inProduct = false;
  /// Read by something that knows only row-major memory.
  bool elsewhere = false;

  void add(Value value) {
    values.push_back(value);
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (BlockArgument slice = sliceOf(use))
        add(slice);
      else if (auto linear = dyn_cast<LinearOp>(user);
               linear && use == linear.getWeightMutable())
        inProduct = true;
      else if (auto embedding = dyn_cast<EmbeddingOp>(user);
               !embedding || use != embedding.getTableMutable())
        elsewhere = true;
    }
  }
};

struct PackWeights : heddle::impl::PackWeightsPassBase<PackWeights> {
  void runOnOperation() override {
    // A parameter has one format in all programs.
    llvm::StringMap<Uses> params;
    SmallVector<func::FuncOp> programs;
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func->hasAttr(HeddleDialect::kKernelAttr) || func.isDeclaration() ||
          !isLocal(func))
        continue;
      programs.push_back(func);
      for (BlockArgument argument : func.getArguments()) {
        auto binding = func.getArgAttrOfType<BindingAttr>(
            argument.getArgNumber(), HeddleDialect::kBindingAttr);
        auto type = dyn_cast<RankedTensorType>(argument.getType());
        if (binding && binding.getKind() == BindingKind::Param && type &&
            PackingAttr::canHold(type.getElementType()) && type.getRank() >= 2)
          params[binding.getIdentity()].add(argument);
      }
    }
    auto panels = PackingAttr::get(&getContext(), PackingAttr::kPanel16);
    for (auto &[identity, uses] : params) {
      if (!uses.inProduct || uses.elsewhere)
        continue;
      for (Value value : uses.values) {
        auto type = cast<RankedTensorType>(value.getType());
        value.setType(RankedTensorType::get(type.getShape(),
                                            type.getElementType(), panels));
      }
      ++numPacked;
    }
    for (func::FuncOp func : programs)
      func.setFunctionType(FunctionType::get(
          &getContext(), func.getBody().front().getArgumentTypes(),
          func.getResultTypes()));
  }
};

} // namespace
