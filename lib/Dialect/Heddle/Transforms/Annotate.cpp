//===- Annotate.cpp - Shardings on every tensor ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/Transforms/Passes.h"
#include "heddle/Dialect/Heddle/Transforms/Propagation.h"
#include "heddle/Dialect/Heddle/Transforms/Strategies.h"

#include "llvm/ADT/StringSet.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_ANNOTATEPASS
#include "heddle/Dialect/Heddle/Transforms/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;

namespace {

/// Writes the decisions into types, op by op in program order, and inserts a
/// reshard wherever a value is not as an op needs it.
class Finalizer {
public:
  Finalizer(Propagation &propagation, FlatSymbolRefAttr mesh)
      : propagation(propagation), mesh(mesh) {}

  void runOnFunction(func::FuncOp func);
  int64_t reshards = 0;

private:
  void runOnBlock(Block &block);
  void finishOp(Operation *op);
  void finishRepeat(RepeatOp repeat);
  void finishReturn(func::ReturnOp op);
  void splitBias(LinearOp linear);

  void setDims(Value value) {
    setSharding(value, ShardingAttr::get(value.getContext(), mesh,
                                         propagation.getDims(value)));
  }
  static void setSharding(Value value, ShardingAttr sharding) {
    value.setType(
        withSharding(cast<RankedTensorType>(value.getType()), sharding));
  }
  /// Makes an operand have `want`, through a reshard if it has not.
  void require(OpOperand &operand, ShardingAttr want, const Twine &reason);

  Propagation &propagation;
  FlatSymbolRefAttr mesh;
  DenseMap<std::pair<Value, Attribute>, ReshardOp> cache;
};

} // namespace

/// The two lay a tensor out in the same way (the unit of a replicated dimension
/// means nothing).
static bool sameDims(ShardingAttr a, ShardingAttr b) {
  for (auto [x, y] : llvm::zip(a.getDims(), b.getDims()))
    if (x != y && !(x.isReplicated() && y.isReplicated()))
      return false;
  return true;
}

void Finalizer::require(OpOperand &operand, ShardingAttr want,
                        const Twine &reason) {
  Value value = operand.get();
  ShardingAttr have = getSharding(value.getType());
  if (have == want)
    return;
  ReshardOp &reshard = cache[{value, want}];
  Operation *user = operand.getOwner();
  // Reuse an earlier reshard of the same value if it stands in the same block;
  // nothing is hoisted out of or into a repeat.
  // Numbers of tokens, which are small, are brought in place beside what they
  // come from: layers share them.
  bool integers = isa<IntegerType>(
      cast<RankedTensorType>(value.getType()).getElementType());
  if (!reshard || (!integers && reshard->getBlock() != user->getBlock())) {
    OpBuilder builder(user);
    if (integers)
      builder.setInsertionPointAfterValue(value);
    reshard = ReshardOp::create(
        builder, value.getLoc(),
        withSharding(cast<RankedTensorType>(value.getType()), want), value,
        builder.getStringAttr(reason));
    ++reshards;
  }
  operand.set(reshard.getResult());
}

void Finalizer::splitBias(LinearOp linear) {
  Value bias = linear.getBias();
  OpBuilder builder(linear);
  builder.setInsertionPointAfter(linear);
  auto add =
      BiasAddOp::create(builder, linear.getLoc(), linear.getResult().getType(),
                        linear.getResult(), bias);
  linear.getResult().replaceAllUsesExcept(add.getResult(), add);
  linear.getBiasMutable().clear();
  // The sum takes over what was decided for the product's result.
  for (auto [i, dim] : llvm::enumerate(propagation.getDims(linear.getResult())))
    propagation.mark(add.getResult(), i, dim);
}

/// True if no factor of an op is sharded over (a part of) these axes: ranks
/// along them then compute the same elements, from different terms.
static bool areFree(ArrayRef<AxisRefAttr> axes,
                    const FactorShardings &factors) {
  for (DimShardingAttr factor : factors)
    if (factor)
      for (AxisRefAttr used : factor.getAxes())
        for (AxisRefAttr axis : axes)
          if (used.getName() == axis.getName())
            return false;
  return true;
}

void Finalizer::finishOp(Operation *op) {
  auto ruled = cast<FactorRuleOpInterface>(op);
  FactorRule rule = ruled.getFactorRule();
  FactorShardings factors = propagation.project(op, rule);

  // Axes over which this op leaves a sum pending.
  SmallVector<AxisRefAttr> pending;
  for (auto [f, factor] : llvm::enumerate(rule.factors))
    if (factor.kind == FactorKind::Sum && factors[f])
      pending.append(factors[f].getAxes().begin(), factors[f].getAxes().end());
  if (auto linear = dyn_cast<LinearOp>(op);
      linear && linear.getBias() && !pending.empty()) {
    splitBias(linear);
    rule = ruled.getFactorRule();
    factors = propagation.project(op, rule);
  }

  int64_t resultBytes = 0;
  for (Value result : op->getResults())
    resultBytes += getTensorBytes(cast<RankedTensorType>(result.getType()));
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    ShardingAttr have = getSharding(operand.get().getType());
    ShardingAttr want = ShardingAttr::get(
        op->getContext(), mesh,
        propagation.dimsFrom(rule, rule.operands[index], factors));
    if (sameDims(want, have))
      want = want.withDims(have.getDims());
    // A pending sum flows on if the op is linear in it, its axes are free, and
    // reducing the result costs no more than reducing the operand.
    if (have.isPartial() && ruled.acceptsPartialSum(index) &&
        areFree(have.getPartialAxes(), factors) &&
        resultBytes <=
            getTensorBytes(cast<RankedTensorType>(operand.get().getType()))) {
      want = ShardingAttr::get(op->getContext(), mesh, want.getDims(),
                               have.getPartialAxes(), have.getPartialKind(),
                               have.getWire());
      for (AxisRefAttr axis : have.getPartialAxes())
        if (!llvm::is_contained(pending, axis))
          pending.push_back(axis);
    }
    require(operand, want,
            have.isPartial() && !want.isPartial()
                ? op->getName().getStringRef() + " needs a complete value"
                : op->getName().getStringRef() + " needs another layout");
  }
  for (auto [result, dims] : llvm::zip(op->getResults(), rule.results))
    setSharding(result,
                ShardingAttr::get(op->getContext(), mesh,
                                  propagation.dimsFrom(rule, dims, factors),
                                  pending, PartialKind::Sum, Type()));
}

void Finalizer::finishRepeat(RepeatOp repeat) {
  auto asDecided = [&](OpOperand &operand, StringRef reason) {
    ShardingAttr want = ShardingAttr::get(repeat.getContext(), mesh,
                                          propagation.getDims(operand.get()));
    require(operand, want, reason);
  };
  for (OpOperand &operand : repeat->getOpOperands())
    asDecided(operand, "heddle.repeat needs a complete value");
  for (Region &region : repeat.getKinds()) {
    for (BlockArgument argument : region.getArguments())
      setDims(argument);
    runOnBlock(region.front());
    auto yield = cast<YieldOp>(region.front().getTerminator());
    for (auto [i, operand] : llvm::enumerate(yield.getCarriesMutable()))
      require(operand, getSharding(region.getArgument(i).getType()),
              "the next iteration needs a complete value");
    auto inouts = region.getArguments().take_back(yield.getInouts().size());
    for (auto [operand, slice] : llvm::zip(yield.getInoutsMutable(), inouts))
      require(operand, getSharding(slice.getType()),
              "the state keeps its layout");
    for (OpOperand &operand : yield.getEmitsMutable())
      require(operand, getSharding(operand.get().getType()).withoutPartial(),
              "an emitted value must be complete");
  }
  for (Value result : repeat.getResults())
    setDims(result);
}

void Finalizer::finishReturn(func::ReturnOp op) {
  auto func = cast<func::FuncOp>(op->getParentOp());
  for (OpOperand &operand : op->getOpOperands()) {
    ShardingAttr have = getSharding(operand.get().getType());
    ShardingAttr want = have.withoutPartial();
    // A state leaves as it came.
    auto binding = func.getResultAttrOfType<BindingAttr>(
        operand.getOperandNumber(), HeddleDialect::kBindingAttr);
    if (binding && binding.getKind() == BindingKind::State)
      for (BlockArgument argument : func.getArguments())
        if (auto other = func.getArgAttrOfType<BindingAttr>(
                argument.getArgNumber(), HeddleDialect::kBindingAttr);
            other && other.getKind() == BindingKind::State &&
            other.getName() == binding.getName())
          want = getSharding(argument.getType());
    require(operand, want, "the program's result must be complete");
  }
}

void Finalizer::runOnBlock(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto repeat = dyn_cast<RepeatOp>(op))
      finishRepeat(repeat);
    else if (auto ret = dyn_cast<func::ReturnOp>(op))
      finishReturn(ret);
    else if (isa<FactorRuleOpInterface>(op)) {
      finishOp(&op);
      // A bias split off just now comes next; it is not in the range yet.
      if (auto linear = dyn_cast<LinearOp>(op))
        if (auto add = dyn_cast_or_null<BiasAddOp>(op.getNextNode());
            add && add.getInput() == linear.getResult() &&
            !getSharding(add.getResult().getType()))
          finishOp(add);
    }
  }
}

void Finalizer::runOnFunction(func::FuncOp func) {
  for (BlockArgument argument : func.getArguments())
    setDims(argument);
  runOnBlock(func.front());
  SmallVector<Type> results(func.front().getTerminator()->getOperandTypes());
  func.setType(FunctionType::get(func.getContext(),
                                 func.front().getArgumentTypes(), results));
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {

struct Annotate : heddle::impl::AnnotatePassBase<Annotate> {
  using AnnotatePassBase::AnnotatePassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto meshes = llvm::to_vector(module.getOps<MeshOp>());
    if (meshes.size() != 1) {
      module.emitError() << "expected one heddle.mesh, got " << meshes.size();
      return signalPassFailure();
    }
    MeshOp mesh = meshes[0];
    if (failed(checkInput(module)))
      return signalPassFailure();
    FailureOr<SmallVector<Strategy>> strategies =
        parseStrategies(strategy, mesh);
    if (failed(strategies))
      return signalPassFailure();

    FailureOr<TokenLayout> tokens =
        parseTokenLayout(layout, [&]() { return mesh.emitError(); });
    if (failed(tokens))
      return signalPassFailure();

    std::optional<Topology> known;
    if (!topology.empty()) {
      FailureOr<Topology> read = Topology::read(topology, mesh, [&]() {
        return emitError(UnknownLoc::get(&getContext()));
      });
      if (failed(read))
        return signalPassFailure();
      known = *read;
    }
    if (failed(resolveContext(*strategies, *tokens, module, mesh,
                              known ? &*known : nullptr)))
      return signalPassFailure();
    Propagation propagation(module, mesh);
    for (const Strategy &s : *strategies) {
      // One rank has nothing to share, and needs no collective.
      if (mesh.getAxisSize(s.axis) == 1)
        continue;
      seedStrategy(s, *strategies, *tokens, module, propagation);
      propagation.run();
    }
    Finalizer finalizer(propagation,
                        FlatSymbolRefAttr::get(mesh.getSymNameAttr()));
    for (auto func : module.getOps<func::FuncOp>())
      if (!func.isDeclaration()) {
        func->setAttr(HeddleDialect::kMeshAttr,
                      FlatSymbolRefAttr::get(mesh.getSymNameAttr()));
        finalizer.runOnFunction(func);
      }
    numReshards += finalizer.reshards;
    if (failed(checkLayouts(module, mesh)))
      return signalPassFailure();
  }

  LogicalResult checkInput(ModuleOp module) {
    for (auto func : module.getOps<func::FuncOp>())
      if (failed(checkTensors(func)))
        return failure();
    WalkResult result = module.walk([&](Operation *op) {
      if (isa<ModuleOp, MeshOp, TableOp, func::FuncOp, func::ReturnOp, RepeatOp,
              YieldOp, FactorRuleOpInterface>(op))
        return WalkResult::advance();
      op->emitOpError("expected an op with a factor rule before annotate");
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  /// Every layout resolves; with strictDivisibility none has padding. All
  /// problems are reported, each tensor once.
  LogicalResult checkLayouts(ModuleOp module, MeshOp mesh) {
    bool ok = true;
    for (auto func : module.getOps<func::FuncOp>()) {
      for (BlockArgument argument : func.getArguments()) {
        auto binding = func.getArgAttrOfType<BindingAttr>(
            argument.getArgNumber(), HeddleDialect::kBindingAttr);
        std::string name =
            binding ? binding.getName().str()
                    : "argument " + std::to_string(argument.getArgNumber());
        ok &= succeeded(checkLayout(func, argument, name, mesh));
        func.removeArgAttr(argument.getArgNumber(), HeddleDialect::kSizesAttr);
      }
      func.walk([&](Operation *op) {
        if (auto reshard = dyn_cast<ReshardOp>(op))
          ok &= succeeded(checkBlocks(reshard, mesh));
        for (Value result : op->getResults())
          if (ShardingAttr s = getSharding(result.getType()))
            numSharded += !s.isReplicated();
      });
    }
    return success(ok);
  }

  LogicalResult checkLayout(func::FuncOp func, BlockArgument argument,
                            StringRef name, MeshOp mesh) {
    auto type = cast<RankedTensorType>(argument.getType());
    ShardingAttr sharding = getSharding(type);
    // Imported arguments have a name for a location, the mesh has the file.
    Location loc = isa<FileLineColLoc>(argument.getLoc()) ? argument.getLoc()
                                                          : mesh.getLoc();
    bool ok = true;
    for (auto [i, dim] : llvm::enumerate(sharding.getDims())) {
      FailureOr<Layout> layout =
          Layout::get(mesh, dim, type.getDimSize(i),
                      [&]() { return mlir::emitError(loc); });
      if (failed(layout)) {
        ok = false;
        continue;
      }
      bool replicated = layout->ranks * layout->slots > layout->units &&
                        !layout->hasPadding();
      if (!strictDivisibility || (!layout->hasPadding() && !replicated))
        continue;
      ok = false;
      // What divides by itself has padding for what it follows, which is
      // reported instead.
      if (layout->units % layout->ranks == 0)
        continue;
      // Several tensors have a size of that name: one message says it.
      StringRef size = sizeName(func, argument, i);
      std::string where = (name + "#" + Twine(i)).str();
      std::string key =
          size.empty()
              ? where
              : (size + "#" + Twine(layout->ranks) + "#" + Twine(layout->units))
                    .str();
      if (!reported.insert(key).second)
        continue;
      InFlightDiagnostic diag = mlir::emitError(loc);
      if (size.empty())
        diag << "'" << name << "': dimension " << i;
      else
        diag << "'" << size << "' ('" << name << "', dimension " << i << ")";
      diag << " has " << layout->units << " units of " << layout->unit
           << ", which do not divide over the axes ";
      llvm::interleaveComma(dim.getAxes(), diag, [&](AxisRefAttr axis) {
        diag << "'" << axis.getName() << "'";
      });
      diag << " of size " << layout->ranks << "; degrees that divide: ";
      SmallVector<int64_t> divisors;
      for (int64_t d = 1; d <= std::min<int64_t>(layout->units, 64); ++d)
        if (layout->units % d == 0)
          divisors.push_back(d);
      llvm::interleaveComma(divisors, diag);
      if (reported.size() == 1)
        diag.attachNote(loc) << "without strict divisibility whole units are "
                                "padded, and the report lists the waste";
    }
    return success(ok);
  }

  /// A weight in blocks is cut when it is loaded, in one way, and rows of
  /// blocks may travel: nothing at run time gathers blocks of a row and cuts
  /// them again.
  LogicalResult checkBlocks(ReshardOp reshard, MeshOp mesh) {
    auto type = cast<RankedTensorType>(reshard.getResult().getType());
    int64_t block = getBlockElements(type.getElementType());
    ShardingAttr have = getSharding(reshard.getInput().getType());
    bool wholeRows =
        reshard.getInput().getDefiningOp() &&
        have.getDims().back() == getSharding(type).getDims().back();
    if (block == 1 || wholeRows)
      return success();
    std::string name = "a quantised value";
    if (auto loc = dyn_cast<NameLoc>(reshard.getLoc()))
      name = "'" + loc.getName().str() + "'";
    if (!reported.insert(name + "#blocks").second)
      return failure();
    return mlir::emitError(isa<FileLineColLoc>(reshard.getLoc())
                               ? reshard.getLoc()
                               : mesh.getLoc())
           << name << ": expected one layout of blocks of " << block
           << " columns, got " << have << " where " << getSharding(type)
           << " is needed; weights stored as f32 or bf16 have no blocks";
  }

  /// What the user calls the size of a dimension, or nothing.
  static StringRef sizeName(func::FuncOp func, BlockArgument argument,
                            size_t dim) {
    auto names = func.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(),
                                                  HeddleDialect::kSizesAttr);
    auto name = names && dim < names.size() ? dyn_cast<StringAttr>(names[dim])
                                            : StringAttr();
    return name ? name.getValue() : "";
  }

  llvm::StringSet<> reported;
};

} // namespace
