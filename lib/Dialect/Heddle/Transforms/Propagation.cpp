//===- Propagation.cpp - Shardings through factor rules ----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/Transforms/Propagation.h"

#include "llvm/ADT/SetVector.h"

#include <numeric>

using namespace mlir;
using namespace mlir::heddle;

static RankedTensorType tensorType(Value value) {
  return dyn_cast<RankedTensorType>(value.getType());
}

/// Elements along a dimension that are stored together: a quantisation block.
static int64_t blockOf(RankedTensorType type, int64_t dim) {
  return dim == type.getRank() - 1 ? getBlockElements(type.getElementType())
                                   : 1;
}

/// Number of elements of the factors after the first; 1 if there are none, as
/// in a dimension of size 0.
static int64_t minorSize(const FactorRule &rule, const DimFactors &factors) {
  int64_t size = 1;
  for (int f : ArrayRef<int>(factors).drop_front())
    size *= rule.factors[f].size;
  return std::max<int64_t>(size, 1);
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
  auto tie = [&](Value stack, Value part, bool isSlice) {
    tiesOf[stack].push_back(ties.size());
    tiesOf[part].push_back(ties.size());
    ties.push_back({stack, part, isSlice});
  };
  auto same = [&](Value a, Value b) { tie(a, b, false); };
  auto slice = [&](Value stack, Value part) { tie(stack, part, true); };
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
      // Inputs of two programs may differ in shape.
      if (binding.getKind() == BindingKind::Input ||
          binding.getKind() == BindingKind::Output)
        return;
      auto [it, fresh] = byName.try_emplace(binding.getIdentity(), value);
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
  if (sharding.getUnit() % blockOf(type, dim) != 0)
    return false;
  dims[dim] = sharding;
  return true;
}

bool Propagation::seed(Value value, int64_t dim, DimShardingAttr sharding) {
  RankedTensorType type = tensorType(value);
  if (!type || dim < 0 || dim >= type.getRank())
    return false;
  return mark(
      value, dim,
      sharding.withUnit(unitOfWholeBlocks(value, dim, sharding.getUnit())));
}

void Propagation::keepWhole(Value value, int64_t dim) {
  auto &dims = decided[value];
  dims.resize(tensorType(value).getRank());
  if (!dims[dim])
    dims[dim] = DimShardingAttr::get(module.getContext());
}

bool Propagation::settle(Operation *op, int factor, DimShardingAttr sharding) {
  FactorRule rule = cast<FactorRuleOpInterface>(op).getFactorRule();
  FactorShardings &factors = settled[op];
  factors.resize(rule.factors.size());
  ArrayRef<AxisRefAttr> axes = sharding.getAxes();
  if (DimShardingAttr now = factors[factor];
      now && axes.take_front(now.getAxes().size()) != now.getAxes())
    return false;
  for (auto [f, other] : llvm::enumerate(factors))
    if (other && static_cast<int>(f) != factor &&
        rule.factors[f].follows != factor)
      for (AxisRefAttr axis : other.getAxes())
        for (AxisRefAttr mine : axes)
          if (axis.getName() == mine.getName())
            return false;
  factors[factor] = sharding;
  for (auto [f, other] : llvm::enumerate(rule.factors))
    if (other.follows == factor)
      factors[f] = followHeads(sharding, rule.factors[factor], other,
                               unitOfFactor(op, rule, f));
  return true;
}

DimShardingAttr Propagation::getSettled(Operation *op, int factor) const {
  FactorShardings factors = settled.lookup(op);
  return factors.empty() ? DimShardingAttr() : factors[factor];
}

DimShardingAttr Propagation::divide(DimShardingAttr outer, AxisRefAttr minor,
                                    int64_t size) {
  MLIRContext *context = module.getContext();
  if (!outer)
    return DimShardingAttr::get(context, ArrayRef<AxisRefAttr>(minor), 1);
  FailureOr<Layout> layout =
      Layout::get(mesh, outer, size, [&]() { return mesh.emitError(); });
  FailureOr<int64_t> parts =
      getAxesSize(mesh, minor, [&]() { return mesh.emitError(); });
  if (failed(layout) || failed(parts))
    return {};
  int64_t slots = llvm::divideCeil(layout->slots, *parts);
  SmallVector<int64_t> table;
  for (int64_t r = 0; r < layout->ranks; ++r)
    for (int64_t s = 0; s < *parts * slots; ++s)
      table.push_back(s < layout->slots ? layout->unitAt(r, s) : -1);
  SmallVector<AxisRefAttr> axes(outer.getAxes());
  axes.push_back(minor);
  return DimShardingAttr::get(context, axes, outer.getUnit(), MapKind::Table, 1,
                              tableFor("parts", table, layout->ranks * *parts));
}

//===----------------------------------------------------------------------===//
// Units of whole blocks
//===----------------------------------------------------------------------===//

static bool carriesSharding(FactorKind kind) {
  return kind == FactorKind::Parallel || kind == FactorKind::Sum;
}

int64_t Propagation::unitOfWholeBlocks(Value value, int64_t dim,
                                       int64_t unit) const {
  // Elements of each dimension that make one present unit.
  llvm::MapVector<std::pair<Value, int64_t>, int64_t> elements;
  auto reach = [&](Value v, int64_t d, int64_t n) {
    elements.try_emplace({v, d}, n);
  };
  auto throughOp = [&](Operation *op, Value v, int64_t d, int64_t n) {
    auto ruled = dyn_cast<FactorRuleOpInterface>(op);
    if (!ruled)
      return;
    FactorRule rule = ruled.getFactorRule();
    llvm::SmallSetVector<std::pair<int, int64_t>, 4> factors;
    auto find = [&](Value other, const TensorFactors &dims) {
      if (other != v || dims[d].empty())
        return;
      int64_t minor = minorSize(rule, dims[d]);
      if (n % minor == 0 && carriesSharding(rule.factors[dims[d][0]].kind))
        factors.insert({dims[d][0], n / minor});
    };
    auto follow = [&](Value other, const TensorFactors &dims) {
      for (auto [i, dimFactors] : llvm::enumerate(dims))
        for (auto [f, perUnit] : factors)
          if (!dimFactors.empty() && dimFactors[0] == f)
            reach(other, i, perUnit * minorSize(rule, dimFactors));
    };
    for (auto visit : {0, 1}) {
      auto each = [&](Value other, const TensorFactors &dims) {
        visit == 0 ? find(other, dims) : follow(other, dims);
      };
      for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands))
        each(operand, dims);
      for (auto [result, dims] : llvm::zip(op->getResults(), rule.results))
        each(result, dims);
    }
  };
  reach(value, dim, unit);
  int64_t factor = 1;
  for (size_t next = 0; next < elements.size(); ++next) {
    auto [at, n] = *(elements.begin() + next);
    auto [v, d] = at;
    int64_t block = blockOf(tensorType(v), d);
    factor = std::lcm(factor, block / std::gcd(block, n));
    if (Operation *op = v.getDefiningOp())
      throughOp(op, v, d, n);
    for (Operation *user : v.getUsers())
      throughOp(user, v, d, n);
    for (size_t tie : tiesOf.lookup(v)) {
      int64_t offset = ties[tie].isSlice ? 1 : 0;
      if (v == ties[tie].slice)
        reach(ties[tie].stack, d + offset, n);
      else if (d >= offset)
        reach(ties[tie].slice, d - offset, n);
    }
  }
  // A larger unit may pass where the smaller one did not.
  return factor == 1 ? unit : unitOfWholeBlocks(value, dim, unit * factor);
}

//===----------------------------------------------------------------------===//
// Factors
//===----------------------------------------------------------------------===//

/// The least unit of a factor that no dimension has decided yet.
int64_t Propagation::unitOfFactor(Operation *op, const FactorRule &rule,
                                  size_t factor) const {
  int64_t unit = 1;
  for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands))
    for (auto [i, factors] : llvm::enumerate(dims))
      if (!factors.empty() && factors[0] == static_cast<int>(factor)) {
        int64_t minor = minorSize(rule, factors);
        unit = std::lcm(unit, unitOfWholeBlocks(operand, i, minor) / minor);
      }
  return unit;
}

/// A sum over this layout would count units that several ranks hold more than
/// once.
static bool hasCopies(MeshOp mesh, DimShardingAttr dim, int64_t size) {
  if (dim.getMap() != MapKind::Table && dim.getMap() != MapKind::Data)
    return false;
  FailureOr<Layout> layout =
      Layout::get(mesh, dim, size, [&]() { return mesh.emitError(); });
  return succeeded(layout) && layout->hasCopies();
}

FactorShardings Propagation::project(Operation *op, const FactorRule &rule) {
  FactorShardings result = settled.lookup(op);
  result.resize(rule.factors.size());
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
      if (rule.factors[f].kind == FactorKind::Sum &&
          hasCopies(mesh, dim, tensorType(value).getDimSize(i)))
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
      result[f] =
          followHeads(result[factor.follows], rule.factors[factor.follows],
                      factor, unitOfFactor(op, rule, f));
    if (factor.alignedWith >= 0) {
      DimShardingAttr &with = result[factor.alignedWith];
      int64_t size = rule.factors[factor.alignedWith].size;
      if (factor.size % size != 0)
        continue;
      int64_t ratio = factor.size / size;
      auto carries = [&](DimShardingAttr dim) {
        return ratio == 1 || dim.getMap() == MapKind::Block;
      };
      if (with && !result[f] && carries(with))
        result[f] = with.withUnit(with.getUnit() * ratio);
      else if (!with && result[f] && carries(result[f]) &&
               result[f].getUnit() % ratio == 0)
        with = result[f].withUnit(result[f].getUnit() / ratio);
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
  for (Operation *op : ops)
    settled[op] = project(op, cast<FactorRuleOpInterface>(op).getFactorRule());
}

//===----------------------------------------------------------------------===//
// Key/value heads
//===----------------------------------------------------------------------===//

DimShardingAttr Propagation::followHeads(DimShardingAttr heads,
                                         const Factor &query, const Factor &kv,
                                         int64_t unit) {
  auto quiet = [&]() { return mesh.emitError(); };
  FailureOr<Layout> layout = Layout::get(mesh, heads, query.size, quiet);
  if (failed(layout))
    return {};
  // The units of key/value heads that each coordinate's query heads read,
  // ascending.
  SmallVector<SmallVector<int64_t>> needed(layout->ranks);
  size_t most = 1;
  for (int64_t r = 0; r < layout->ranks; ++r) {
    for (int64_t s = 0; s < layout->localExtent(); ++s) {
      int64_t head = layout->elementAt(r, s);
      if (head < 0)
        continue;
      int64_t group = head / kv.groupSize / unit;
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
  auto block = DimShardingAttr::get(context, heads.getAxes(), unit);
  if (matches(block))
    return block;
  AxisRefAttr axis = heads.getAxes()[0];
  int64_t units = llvm::divideCeil(kv.size, unit);
  if (heads.getAxes().size() == 1 && axis.isFull() &&
      layout->ranks % units == 0) {
    auto major = AxisRefAttr::get(context, axis.getName(), 1, units);
    auto replicated =
        DimShardingAttr::get(context, ArrayRef<AxisRefAttr>(major), unit);
    if (matches(replicated))
      return replicated;
  }
  return DimShardingAttr::get(context, heads.getAxes(), unit, MapKind::Table, 1,
                              tableFor("kv_heads", table, layout->ranks));
}

FlatSymbolRefAttr
Propagation::tableFor(StringRef stem, ArrayRef<int64_t> values, int64_t rows) {
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
  std::string name = stem.str();
  while (module.lookupSymbol(name))
    name = stem.str() + "_" + std::to_string(count++);
  auto table = TableOp::create(
      builder, mesh.getLoc(), builder.getStringAttr(name),
      builder.getI64IntegerAttr(rows), builder.getI64IntegerAttr(cols),
      builder.getDenseI64ArrayAttr(values));
  return FlatSymbolRefAttr::get(table.getSymNameAttr());
}
