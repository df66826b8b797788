//===- Propagation.cpp - Shardings through factor rules ----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/Transforms/Propagation.h"

using namespace mlir;
using namespace mlir::heddle;

static RankedTensorType tensorType(Value value) {
  return dyn_cast<RankedTensorType>(value.getType());
}

/// Number of elements of the factors after the first.
static int64_t minorSize(const FactorRule &rule, const DimFactors &factors) {
  int64_t size = 1;
  for (int f : ArrayRef<int>(factors).drop_front())
    size *= rule.factors[f].size;
  return size;
}

Propagation::Propagation(ModuleOp module, MeshOp mesh)
    : module(module), mesh(mesh) {
  module.walk([&](Operation *op) {
    if (isa<FactorRuleOpInterface>(op))
      ops.push_back(op);
  });
  collectTies(module);
}

//===----------------------------------------------------------------------===//
// Values that are the same tensor
//===----------------------------------------------------------------------===//

void Propagation::collectTies(ModuleOp module) {
  auto same = [&](Value a, Value b) { ties.push_back({a, b, false}); };
  auto slice = [&](Value stack, Value part) {
    ties.push_back({stack, part, true});
  };
  module.walk([&](RepeatOp repeat) {
    int64_t numCarries = repeat.getCarries().size();
    for (int64_t kind = 0; kind < (int64_t)repeat.getKinds().size(); ++kind) {
      Block &body = repeat.getKinds()[kind].front();
      auto yield = cast<YieldOp>(body.getTerminator());
      int64_t arg = 0;
      for (; arg < numCarries; ++arg) {
        same(repeat.getCarries()[arg], body.getArgument(arg));
        same(body.getArgument(arg), yield.getCarries()[arg]);
        same(repeat.getResult(arg), body.getArgument(arg));
      }
      for (int64_t i : repeat.getParamsOf(kind))
        slice(repeat.getParams()[i], body.getArgument(arg++));
      for (auto [n, i] : llvm::enumerate(repeat.getInoutsOf(kind))) {
        slice(repeat.getInouts()[i], body.getArgument(arg));
        same(body.getArgument(arg++), yield.getInouts()[n]);
        same(repeat.getInouts()[i], repeat.getResult(numCarries + i));
      }
    }
    int64_t result = numCarries + repeat.getInouts().size();
    for (Region &region : repeat.getKinds())
      for (Value emit :
           cast<YieldOp>(region.front().getTerminator()).getEmits())
        slice(repeat.getResult(result++), emit);
  });
  // The same parameter, input or state in several programs, and a state before
  // and after a program, are one tensor.
  llvm::StringMap<Value> byName;
  for (auto func : module.getOps<func::FuncOp>()) {
    if (func.isDeclaration())
      continue;
    auto visit = [&](BindingAttr binding, Value value) {
      if (!binding)
        return;
      std::string key =
          (stringifyBindingKind(binding.getKind()) + " " + binding.getName())
              .str();
      // Inputs of two programs may differ in shape.
      if (binding.getKind() == BindingKind::Input ||
          binding.getKind() == BindingKind::Output)
        return;
      auto [it, fresh] = byName.try_emplace(key, value);
      if (!fresh && it->second.getType() == value.getType())
        same(it->second, value);
    };
    for (BlockArgument argument : func.getArguments())
      visit(func.getArgAttrOfType<BindingAttr>(argument.getArgNumber(),
                                               HeddleDialect::kBindingAttr),
            argument);
    for (OpOperand &operand : func.front().getTerminator()->getOpOperands())
      visit(func.getResultAttrOfType<BindingAttr>(operand.getOperandNumber(),
                                                  HeddleDialect::kBindingAttr),
            operand.get());
  }
}

bool Propagation::runTies() {
  bool changed = false;
  for (const Tie &tie : ties) {
    int64_t offset = tie.isSlice ? 1 : 0;
    RankedTensorType type = tensorType(tie.slice);
    for (int64_t i = 0; i < type.getRank(); ++i) {
      DimShardingAttr a = get(tie.stack, i + offset), b = get(tie.slice, i);
      if (a && !b)
        changed |= mark(tie.slice, i, a);
      else if (b && !a)
        changed |= mark(tie.stack, i + offset, b);
    }
  }
  return changed;
}

//===----------------------------------------------------------------------===//
// Decisions
//===----------------------------------------------------------------------===//

DimShardingAttr Propagation::get(Value value, int64_t dim) const {
  auto it = decided.find(value);
  return it == decided.end() ? DimShardingAttr() : it->second[dim];
}

SmallVector<DimShardingAttr> Propagation::getDims(Value value) const {
  RankedTensorType type = tensorType(value);
  SmallVector<DimShardingAttr> dims;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    DimShardingAttr dim = get(value, i);
    dims.push_back(dim ? dim : DimShardingAttr::get(value.getContext()));
  }
  return dims;
}

bool Propagation::mark(Value value, int64_t dim, DimShardingAttr sharding) {
  RankedTensorType type = tensorType(value);
  if (!type || dim >= type.getRank() || sharding.isReplicated())
    return false;
  auto &dims = decided[value];
  dims.resize(type.getRank());
  if (dims[dim])
    return false;
  for (DimShardingAttr other : dims)
    if (other)
      for (AxisRefAttr axis : other.getAxes())
        for (AxisRefAttr mine : sharding.getAxes())
          if (axis.getName() == mine.getName())
            return false;
  // A block-quantised dimension is cut between blocks only.
  int64_t block =
      dim == type.getRank() - 1 ? getBlockElements(type.getElementType()) : 1;
  if (sharding.getUnit() % block != 0)
    return false;
  dims[dim] = sharding;
  return true;
}

//===----------------------------------------------------------------------===//
// Factors
//===----------------------------------------------------------------------===//

static bool carriesSharding(FactorKind kind) {
  return kind == FactorKind::Parallel || kind == FactorKind::Sum;
}

FactorShardings Propagation::project(Operation *op, const FactorRule &rule) {
  FactorShardings result(rule.factors.size());
  // An axis serves one factor of an op; the first to claim it keeps it.
  auto taken = [&](DimShardingAttr dim) {
    for (DimShardingAttr other : result)
      if (other)
        for (AxisRefAttr axis : other.getAxes())
          for (AxisRefAttr mine : dim.getAxes())
            if (axis.getName() == mine.getName())
              return true;
    return false;
  };
  auto visit = [&](Value value, const TensorFactors &dims) {
    for (auto [i, factors] : llvm::enumerate(dims)) {
      DimShardingAttr dim = get(value, i);
      if (!dim || factors.empty())
        continue;
      int f = factors[0];
      int64_t minor = minorSize(rule, factors);
      if (result[f] || dim.getUnit() % minor != 0 ||
          !carriesSharding(rule.factors[f].kind) || taken(dim))
        continue;
      result[f] = dim.withUnit(dim.getUnit() / minor);
    }
  };
  for (auto [value, dims] : llvm::zip(op->getResults(), rule.results))
    visit(value, dims);
  for (auto [value, dims] : llvm::zip(op->getOperands(), rule.operands))
    visit(value, dims);
  // Factors that another one decides.
  for (auto [f, factor] : llvm::enumerate(rule.factors)) {
    if (factor.follows >= 0 && result[factor.follows] && !result[f])
      result[f] = followHeads(result[factor.follows],
                              rule.factors[factor.follows], factor);
    if (factor.alignedWith >= 0 && !result[f]) {
      DimShardingAttr with = result[factor.alignedWith];
      int64_t size = rule.factors[factor.alignedWith].size;
      if (with && with.getMap() == MapKind::Block && factor.size % size == 0)
        result[f] = with.withUnit(with.getUnit() * (factor.size / size));
    }
  }
  return result;
}

SmallVector<DimShardingAttr>
Propagation::dimsFrom(const FactorRule &rule, const TensorFactors &tensor,
                      const FactorShardings &factors) const {
  SmallVector<DimShardingAttr> dims;
  for (const DimFactors &dim : tensor) {
    DimShardingAttr sharding =
        dim.empty() ? DimShardingAttr() : factors[dim[0]];
    if (!sharding)
      dims.push_back(DimShardingAttr::get(mesh->getContext()));
    else
      dims.push_back(
          sharding.withUnit(sharding.getUnit() * minorSize(rule, dim)));
  }
  return dims;
}

bool Propagation::runOp(Operation *op) {
  FactorRule rule = cast<FactorRuleOpInterface>(op).getFactorRule();
  FactorShardings factors = project(op, rule);
  bool changed = false;
  auto visit = [&](Value value, const TensorFactors &dims) {
    for (auto [i, sharding] : llvm::enumerate(dimsFrom(rule, dims, factors)))
      changed |= mark(value, i, sharding);
  };
  for (auto [value, dims] : llvm::zip(op->getOperands(), rule.operands))
    visit(value, dims);
  for (auto [value, dims] : llvm::zip(op->getResults(), rule.results))
    visit(value, dims);
  return changed;
}

void Propagation::run() {
  bool changed = true;
  while (changed) {
    changed = runTies();
    for (Operation *op : ops)
      changed |= runOp(op);
  }
}

//===----------------------------------------------------------------------===//
// Key/value heads
//===----------------------------------------------------------------------===//

DimShardingAttr Propagation::followHeads(DimShardingAttr heads,
                                         const Factor &query,
                                         const Factor &kv) {
  auto quiet = [&]() { return mesh.emitError(); };
  FailureOr<Layout> layout = Layout::get(mesh, heads, query.size, quiet);
  if (failed(layout) || layout->unit != 1)
    return {};
  // The key/value heads that each coordinate's query heads read, ascending.
  SmallVector<SmallVector<int64_t>> needed(layout->ranks);
  size_t most = 1;
  for (int64_t r = 0; r < layout->ranks; ++r) {
    for (int64_t s = 0; s < layout->slots; ++s) {
      int64_t head = layout->unitAt(r, s);
      if (head < 0)
        continue;
      int64_t group = head / kv.groupSize;
      if (!llvm::is_contained(needed[r], group))
        needed[r].push_back(group);
    }
    llvm::sort(needed[r]);
    most = std::max(most, needed[r].size());
  }
  SmallVector<int64_t> table;
  for (auto &row : needed) {
    row.resize(most, -1);
    table.append(row);
  }
  // The plain forms first: block, then a sub-axis that replicates.
  MLIRContext *context = module.getContext();
  auto matches = [&](DimShardingAttr candidate) {
    FailureOr<Layout> other = Layout::get(mesh, candidate, kv.size, quiet);
    if (failed(other) || other->slots != static_cast<int64_t>(most))
      return false;
    int64_t repeat = layout->ranks / other->ranks;
    for (int64_t r = 0; r < layout->ranks; ++r)
      for (size_t s = 0; s < most; ++s)
        if (other->unitAt(r / repeat, s) != needed[r][s])
          return false;
    return true;
  };
  auto block = DimShardingAttr::get(context, heads.getAxes(), 1);
  if (matches(block))
    return block;
  AxisRefAttr axis = heads.getAxes()[0];
  if (heads.getAxes().size() == 1 && axis.isFull() &&
      layout->ranks % kv.size == 0) {
    auto major = AxisRefAttr::get(context, axis.getName(), 1, kv.size);
    auto replicated =
        DimShardingAttr::get(context, ArrayRef<AxisRefAttr>(major), 1);
    if (matches(replicated))
      return replicated;
  }
  return DimShardingAttr::get(context, heads.getAxes(), 1, MapKind::Table, 1,
                              tableFor(table, layout->ranks));
}

FlatSymbolRefAttr Propagation::tableFor(ArrayRef<int64_t> values,
                                        int64_t rows) {
  int64_t cols = static_cast<int64_t>(values.size()) / rows;
  int64_t count = 0;
  for (auto table : module.getOps<TableOp>()) {
    if (static_cast<int64_t>(table.getRows()) == rows &&
        table.getValues() == values)
      return FlatSymbolRefAttr::get(table.getSymNameAttr());
    ++count;
  }
  OpBuilder builder(module.getContext());
  builder.setInsertionPointAfter(mesh);
  std::string name = "kv_heads";
  while (module.lookupSymbol(name))
    name = "kv_heads_" + std::to_string(count++);
  auto table = TableOp::create(
      builder, mesh.getLoc(), builder.getStringAttr(name),
      builder.getI64IntegerAttr(rows), builder.getI64IntegerAttr(cols),
      builder.getDenseI64ArrayAttr(values));
  return FlatSymbolRefAttr::get(table.getSymNameAttr());
}
