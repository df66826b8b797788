//===- Partition.cpp - Global tensors to local tensors ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LowerReshard.h"
#include "MergeAttention.h"
#include "RingAttention.h"
#include "heddle/Dialect/Heddle/Transforms/Passes.h"
#include "heddle/Dialect/Heddle/Transforms/Strategies.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/SmallSet.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_PARTITIONPASS
#include "heddle/Dialect/Heddle/Transforms/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;

namespace {

/// Builds the local twin of one function.
class Partitioner {
public:
  explicit Partitioner(MeshOp mesh) : mesh(mesh) {}

  FailureOr<func::FuncOp> run(func::FuncOp global);
  int64_t collectives = 0, masks = 0;
  /// A ring's hops, for the report.
  struct Ring {
    Location loc;
    int64_t window, ranks;
    double busiest;
    SmallVector<int64_t> hops;
  };
  SmallVector<Ring> rings;

private:
  LogicalResult convertBlock(Block &from, OpBuilder &builder,
                             IRMapping &mapping);
  LogicalResult convertOp(Operation *op, OpBuilder &builder,
                          IRMapping &mapping);
  LogicalResult convertRepeat(RepeatOp repeat, OpBuilder &builder,
                              IRMapping &mapping);
  FailureOr<RankedTensorType> localType(Type type, Location loc);
  FailureOr<Layout> layoutOf(Value global, size_t dim) {
    auto type = cast<RankedTensorType>(global.getType());
    return Layout::get(mesh, getSharding(type).getDims()[dim],
                       type.getDimSize(dim),
                       [&]() { return mlir::emitError(global.getLoc()); });
  }
  /// Padding of this global value is zero on every rank.
  bool padsZero(Value global, int depth = 0);
  FailureOr<RankTableAttr> kvHeadTable(Value query, Value key);
  /// The global element in every coordinate's local slots, -1 for padding.
  RankTableAttr elementTable(const Layout &layout);
  /// The elements within a block that are this rank's, or how many there are.
  Value indexWithin(Value operand, const Layout &layout,
                    const FactorRule::Index &index);
  /// Global number of every coordinate's local query heads; null: all are here.
  FailureOr<RankTableAttr> alibiHeadTable(Value query);
  FailureOr<Value> convertSpread(AttentionOp op, ArrayRef<Value> operands,
                                 RankedTensorType result, OpBuilder &builder);
  FailureOr<Value> convertMerge(AttentionOp op, LocalAttention &local,
                                OpBuilder &builder);
  FailureOr<Value> convertRing(AttentionOp op, LocalAttention &local,
                               OpBuilder &builder);
  /// The local value, with padding in dimension `dim` that is `identity`.
  FailureOr<Value> maskPadding(Value global, size_t dim, Value local,
                               double identity, OpBuilder &builder);
  FailureOr<RankTableAttr> sequenceTable(Value logits);

  MeshOp mesh;
  /// Inputs whose promises hops were left out for.
  llvm::SmallSet<unsigned, 2> relied;
  /// Made once, beside what they come from: layers share them.
  llvm::MapVector<std::tuple<Value, Attribute, int64_t, int64_t, int64_t>,
                  Value>
      indicesWithin;
};

} // namespace

FailureOr<RankedTensorType> Partitioner::localType(Type type, Location loc) {
  auto tensor = cast<RankedTensorType>(type);
  FailureOr<SmallVector<int64_t>> shape =
      getLocalShape(mesh, tensor, [&]() { return mlir::emitError(loc); });
  if (failed(shape))
    return failure();
  return RankedTensorType::get(*shape, tensor.getElementType());
}

//===----------------------------------------------------------------------===//
// Padding
//===----------------------------------------------------------------------===//

bool Partitioner::padsZero(Value global, int depth) {
  // A chain longer than this is not worth following; masking is always right.
  if (depth > 64)
    return false;
  if (auto argument = dyn_cast<BlockArgument>(global)) {
    Operation *parent = argument.getOwner()->getParentOp();
    if (auto func = dyn_cast<func::FuncOp>(parent)) {
      auto binding = func.getArgAttrOfType<BindingAttr>(
          argument.getArgNumber(), HeddleDialect::kBindingAttr);
      // The recipe fills the padding of parameters with zeros.
      return binding && binding.getKind() == BindingKind::Param;
    }
    auto repeat = dyn_cast<RepeatOp>(parent);
    if (!repeat)
      return false;
    int64_t kind = argument.getOwner()->getParent()->getRegionNumber();
    int64_t index = argument.getArgNumber() - repeat.getCarries().size();
    SmallVector<int64_t> params = repeat.getParamsOf(kind);
    if (index < 0 || index >= static_cast<int64_t>(params.size()))
      return false;
    return padsZero(repeat.getParams()[params[index]], depth + 1);
  }
  Operation *op = global.getDefiningOp();
  // Padded query heads give zeros by definition (kv_heads is -1 there).
  if (isa<AttentionOp, AttentionPartialOp>(op))
    return true;
  if (auto reshard = dyn_cast<ReshardOp>(op))
    return padsZero(reshard.getInput(), depth + 1);
  auto ruled = dyn_cast<FactorRuleOpInterface>(op);
  if (!ruled || !ruled.preservesZeroPadding())
    return false;
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    ShardingAttr sharding = getSharding(operand.getType());
    for (size_t i = 0; i < sharding.getDims().size(); ++i) {
      FailureOr<Layout> layout = layoutOf(operand, i);
      if (failed(layout) || layout->hasPadding())
        return padsZero(operand, depth + 1);
    }
    return true;
  });
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

RankTableAttr Partitioner::elementTable(const Layout &layout) {
  SmallVector<int64_t> table;
  for (int64_t rank = 0; rank < layout.ranks; ++rank)
    for (int64_t slot = 0; slot < layout.localExtent(); ++slot)
      table.push_back(layout.elementAt(rank, slot));
  return RankTableAttr::get(mesh.getContext(), layout.axes, layout.ranks,
                            layout.localExtent(), table);
}

/// For every coordinate and local query head, the local slot of its key/value
/// head; null if that is the plain grouping everywhere.
FailureOr<RankTableAttr> Partitioner::kvHeadTable(Value query, Value key) {
  FailureOr<Layout> q = layoutOf(query, 2), k = layoutOf(key, 2);
  if (failed(q) || failed(k))
    return failure();
  if (q->axes.empty())
    return RankTableAttr();
  int64_t group = q->size / k->size;
  int64_t queries = q->localExtent(), keys = k->localExtent();
  SmallVector<int64_t> table(q->ranks * queries, -1);
  bool plain = keys > 0 && queries % keys == 0;
  int64_t localGroup = plain ? queries / keys : 1;
  for (int64_t rank = 0; rank < mesh.getWorldSize(); ++rank) {
    int64_t cq = getCoordinate(mesh, q->axes, rank);
    int64_t ck = getCoordinate(mesh, k->axes, rank);
    for (int64_t s = 0; s < queries; ++s) {
      int64_t head = q->elementAt(cq, s);
      int64_t slot = -1;
      for (int64_t t = 0; head >= 0 && t < keys; ++t)
        if (k->elementAt(ck, t) == head / group)
          slot = t;
      if (head >= 0 && slot < 0) {
        mesh.emitError() << "expected key/value head " << head / group
                         << " on rank " << rank << " beside query head " << head
                         << ", but it is not there";
        return failure();
      }
      table[cq * queries + s] = slot;
      plain &= slot == s / localGroup;
    }
  }
  if (plain)
    return RankTableAttr();
  return RankTableAttr::get(mesh.getContext(), q->axes, q->ranks, queries,
                            table);
}

FailureOr<Value> Partitioner::maskPadding(Value global, size_t dim, Value local,
                                          double identity, OpBuilder &builder) {
  FailureOr<Layout> layout = layoutOf(global, dim);
  if (failed(layout))
    return failure();
  if (layout->axes.empty() || !layout->hasPadding() ||
      (identity == 0 && padsZero(global)))
    return local;
  *layout = layout->compact();
  ++masks;
  return MaskPadOp::create(builder, local.getLoc(), local.getType(), local,
                           builder.getI64IntegerAttr(dim),
                           layout->rankTable(builder.getContext()),
                           builder.getI64IntegerAttr(layout->unit),
                           builder.getI64IntegerAttr(layout->size),
                           builder.getF64FloatAttr(identity))
      .getResult();
}

FailureOr<RankTableAttr> Partitioner::alibiHeadTable(Value query) {
  FailureOr<Layout> heads = layoutOf(query, 2);
  if (failed(heads))
    return failure();
  return heads->axes.empty() ? RankTableAttr() : elementTable(*heads);
}

FailureOr<Value> Partitioner::convertRing(AttentionOp op, LocalAttention &local,
                                          OpBuilder &builder) {
  FailureOr<Layout> queries = layoutOf(op.getQuery(), 1);
  if (failed(queries))
    return failure();
  ShardingAttr query = getSharding(op.getQuery().getType());
  if (queries->axes != op.getKeysAttr().getAxes() ||
      query.getDims()[1] != getSharding(op.getKey().getType()).getDims()[1])
    return op.emitOpError("expected queries and keys that lie in one way over "
                          "the axes of ")
           << op.getKeysAttr() << ", got " << op.getQuery().getType() << " and "
           << op.getKey().getType();
  if (queries->ranks == 1)
    return local.whole(builder);
  // A token that does not exist is no key.
  FailureOr<Value> keyPositions =
      maskPadding(op.getKeyPositions(), 1, local.keyPositions, -1, builder);
  if (failed(keyPositions))
    return failure();
  local.keyPositions = *keyPositions;
  RingHops ring = ringHops(op, *queries);
  if (ring.promise)
    relied.insert(*ring.promise);
  rings.push_back(
      {op.getLoc(), static_cast<int64_t>(op.getWindow()), queries->ranks,
       busiestRank(*queries, op.getCausal(), op.getWindow()), ring.hops});
  return emitRingAttention(builder, local, ring.hops, collectives);
}

FailureOr<Value> Partitioner::convertMerge(AttentionOp op,
                                           LocalAttention &local,
                                           OpBuilder &builder) {
  FailureOr<Layout> keys = layoutOf(op.getKey(), 1);
  if (failed(keys))
    return failure();
  if (keys->axes != op.getKeysAttr().getAxes())
    return op.emitOpError("expected blocks that lie over the axes of ")
           << op.getKeysAttr() << ", got " << op.getKey().getType();
  return emitMergeAttention(builder, local, keys->ranks, collectives);
}

/// Attention whose keys lie over ranks.
FailureOr<Value> Partitioner::convertSpread(AttentionOp op,
                                            ArrayRef<Value> operands,
                                            RankedTensorType result,
                                            OpBuilder &builder) {
  FailureOr<RankTableAttr> kvHeads = kvHeadTable(op.getQuery(), op.getKey());
  if (failed(kvHeads))
    return failure();
  FailureOr<RankTableAttr> alibiHeads =
      op.getAlibiAttr() ? alibiHeadTable(op.getQuery()) : RankTableAttr();
  if (failed(alibiHeads))
    return failure();
  if (!result.getElementType().isF32())
    return op.emitOpError("expected a result in f32, got ") << result;
  LocalAttention local(op, operands, result, *kvHeads, *alibiHeads);
  return op.getKeys()->getMethod() == KeyMethod::Ring
             ? convertRing(op, local, builder)
             : convertMerge(op, local, builder);
}

Value Partitioner::indexWithin(Value operand, const Layout &layout,
                               const FactorRule::Index &index) {
  RankTableAttr units = layout.rankTable(mesh.getContext());
  Value &made = indicesWithin[{operand, units, layout.unit, index.within,
                               int64_t{index.counts}}];
  if (!made) {
    OpBuilder builder(mesh.getContext());
    builder.setInsertionPointAfterValue(operand);
    made = LocalIndexOp::create(builder, operand.getLoc(), operand, units,
                                layout.unit, index.within, index.counts);
  }
  return made;
}

//===----------------------------------------------------------------------===//
// Sampling
//===----------------------------------------------------------------------===//

/// For every coordinate and local sequence, its global number; null if no rank
/// holds a part only.
FailureOr<RankTableAttr> Partitioner::sequenceTable(Value logits) {
  FailureOr<Layout> batch = layoutOf(logits, 0);
  if (failed(batch))
    return failure();
  if (batch->axes.empty())
    return RankTableAttr();
  return elementTable(*batch);
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult Partitioner::convertOp(Operation *op, OpBuilder &builder,
                                     IRMapping &mapping) {
  Location loc = op->getLoc();
  if (auto reshard = dyn_cast<ReshardOp>(op)) {
    FailureOr<Value> value =
        lowerReshard(builder, loc, mapping.lookup(reshard.getInput()),
                     cast<RankedTensorType>(reshard.getInput().getType()),
                     cast<RankedTensorType>(reshard.getResult().getType()),
                     mesh, reshard.getReason(), collectives);
    if (failed(value))
      return failure();
    mapping.map(reshard.getResult(), *value);
    return success();
  }
  if (auto repeat = dyn_cast<RepeatOp>(op))
    return convertRepeat(repeat, builder, mapping);

  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(mapping.lookup(operand));
  SmallVector<Type> results;
  for (Value result : op->getResults()) {
    FailureOr<RankedTensorType> type = localType(result.getType(), loc);
    if (failed(type))
      return failure();
    results.push_back(*type);
  }

  if (auto ruled = dyn_cast<FactorRuleOpInterface>(op)) {
    FactorRule rule = ruled.getFactorRule();
    // Indices into sharded dimensions become this rank's.
    llvm::SmallBitVector done(rule.indices.size());
    for (auto [n, index] : llvm::enumerate(rule.indices))
      for (auto [value, dims] : llvm::zip(op->getOperands(), rule.operands))
        for (auto [i, factors] : llvm::enumerate(dims)) {
          if (factors.empty() || factors[0] != index.factor ||
              &dims == &rule.operands[index.operand])
            continue;
          FailureOr<Layout> layout = layoutOf(value, i);
          if (failed(layout))
            return failure();
          *layout = layout->compact();
          Value &operand = operands[index.operand];
          if (index.within > 0) {
            if (!layout->axes.empty() && !done.test(n))
              operand = indexWithin(operand, *layout, index);
            done.set(n);
            continue;
          }
          if (layout->axes.empty() ||
              isa_and_nonnull<LocalIndexOp>(operand.getDefiningOp()))
            continue;
          operand = LocalIndexOp::create(builder, loc, operand,
                                         layout->rankTable(op->getContext()),
                                         layout->unit * index.scale);
        }
    auto isIndexed = [&](int factor) {
      return llvm::any_of(rule.indices, [&](const FactorRule::Index &index) {
        return index.factor == factor;
      });
    };
    // What is summed over must not see padding; no index points to any.
    for (auto [n, dims] : llvm::enumerate(rule.operands))
      for (auto [i, factors] : llvm::enumerate(dims)) {
        if (factors.empty() ||
            rule.factors[factors[0]].kind != FactorKind::Sum ||
            isIndexed(factors[0]))
          continue;
        FailureOr<Value> masked =
            maskPadding(op->getOperand(n), i, operands[n], 0, builder);
        if (failed(masked))
          return failure();
        operands[n] = *masked;
      }
  }

  if (auto attention = dyn_cast<AttentionOp>(op);
      attention && attention.getKeys()) {
    FailureOr<Value> value = convertSpread(
        attention, operands, cast<RankedTensorType>(results[0]), builder);
    if (failed(value))
      return failure();
    mapping.map(op->getResult(0), *value);
    return success();
  }
  OperationState state(loc, op->getName(), operands, results, op->getAttrs());
  state.propertiesAttr = op->getPropertiesAsAttribute();
  Operation *local = builder.create(state);
  if (isa<AttentionOp, AttentionPartialOp>(op)) {
    FailureOr<RankTableAttr> table =
        kvHeadTable(op->getOperand(0), op->getOperand(1));
    if (failed(table))
      return failure();
    if (*table)
      local->setAttr("kv_heads", *table);
  }
  if (local->hasAttr("alibi")) {
    FailureOr<RankTableAttr> table = alibiHeadTable(op->getOperand(0));
    if (failed(table))
      return failure();
    if (*table)
      local->setAttr("alibi_heads", *table);
  }
  if (auto sample = dyn_cast<SampleOp>(op)) {
    FailureOr<RankTableAttr> table = sequenceTable(sample.getLogits());
    if (failed(table))
      return failure();
    if (*table)
      local->setAttr("sequences", *table);
  }
  mapping.map(op->getResults(), local->getResults());
  return success();
}

LogicalResult Partitioner::convertRepeat(RepeatOp repeat, OpBuilder &builder,
                                         IRMapping &mapping) {
  Location loc = repeat.getLoc();
  SmallVector<Value> operands;
  for (Value operand : repeat->getOperands())
    operands.push_back(mapping.lookup(operand));
  SmallVector<Type> results;
  for (Value result : repeat.getResults()) {
    FailureOr<RankedTensorType> type = localType(result.getType(), loc);
    if (failed(type))
      return failure();
    results.push_back(*type);
  }
  OperationState state(loc, repeat->getName(), operands, results,
                       repeat->getAttrs());
  state.propertiesAttr = repeat->getPropertiesAsAttribute();
  for (size_t i = 0; i < repeat.getKinds().size(); ++i)
    state.addRegion();
  auto local = cast<RepeatOp>(builder.create(state));
  for (auto [from, to] : llvm::zip(repeat.getKinds(), local.getKinds())) {
    Block *block = new Block();
    to.push_back(block);
    for (BlockArgument argument : from.getArguments()) {
      FailureOr<RankedTensorType> type =
          localType(argument.getType(), argument.getLoc());
      if (failed(type))
        return failure();
      mapping.map(argument, block->addArgument(*type, argument.getLoc()));
    }
    OpBuilder inner = OpBuilder::atBlockEnd(block);
    if (failed(convertBlock(from.front(), inner, mapping)))
      return failure();
  }
  mapping.map(repeat.getResults(), local.getResults());
  return success();
}

LogicalResult Partitioner::convertBlock(Block &from, OpBuilder &builder,
                                        IRMapping &mapping) {
  for (Operation &op : from)
    if (failed(convertOp(&op, builder, mapping)))
      return failure();
  return success();
}

FailureOr<func::FuncOp> Partitioner::run(func::FuncOp global) {
  OpBuilder builder(global);
  SmallVector<Type> arguments, results;
  for (Type type : global.getArgumentTypes()) {
    FailureOr<RankedTensorType> local = localType(type, global.getLoc());
    if (failed(local))
      return failure();
    arguments.push_back(*local);
  }
  for (Type type : global.getResultTypes()) {
    FailureOr<RankedTensorType> local = localType(type, global.getLoc());
    if (failed(local))
      return failure();
    results.push_back(*local);
  }
  auto local =
      func::FuncOp::create(builder, global.getLoc(), global.getName(),
                           builder.getFunctionType(arguments, results));
  local->setDiscardableAttrs(global->getDiscardableAttrDictionary());
  local.setVisibility(global.getVisibility());
  if (ArrayAttr attrs = global.getArgAttrsAttr())
    local.setArgAttrsAttr(attrs);
  if (ArrayAttr attrs = global.getResAttrsAttr())
    local.setResAttrsAttr(attrs);
  local->setAttr(HeddleDialect::kLocalAttr, builder.getUnitAttr());
  for (auto [i, type] : llvm::enumerate(global.getArgumentTypes()))
    local.setArgAttr(i, HeddleDialect::kGlobalAttr, TypeAttr::get(type));
  for (auto [i, type] : llvm::enumerate(global.getResultTypes()))
    local.setResultAttr(i, HeddleDialect::kGlobalAttr, TypeAttr::get(type));

  Block *entry = local.addEntryBlock();
  IRMapping mapping;
  mapping.map(global.getArguments(), entry->getArguments());
  OpBuilder inner = OpBuilder::atBlockEnd(entry);
  if (failed(convertBlock(global.front(), inner, mapping)))
    return failure();
  for (BlockArgument argument : local.getArguments())
    if (!relied.contains(argument.getArgNumber()))
      local.removeArgAttr(argument.getArgNumber(),
                          HeddleDialect::kConsecutiveAttr);
  return local;
}

namespace {

struct Partition : heddle::impl::PartitionPassBase<Partition> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto func :
         llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
      if (func.isDeclaration() || isLocal(func))
        continue;
      if (failed(checkTensors(func)))
        return signalPassFailure();
      auto symbol =
          func->getAttrOfType<FlatSymbolRefAttr>(HeddleDialect::kMeshAttr);
      if (!symbol) {
        func.emitError() << "expected attribute '" << HeddleDialect::kMeshAttr
                         << "': run heddle-annotate first";
        return signalPassFailure();
      }
      for (Type type : func.getArgumentTypes())
        if (!getSharding(type)) {
          func.emitError() << "expected every tensor to carry a sharding, got "
                           << type << ": run heddle-annotate first";
          return signalPassFailure();
        }
      auto mesh = module.lookupSymbol<MeshOp>(symbol);
      Partitioner partitioner(mesh);
      if (failed(partitioner.run(func)))
        return signalPassFailure();
      for (const Partitioner::Ring &ring : partitioner.rings)
        rings.push_back(describe(func, ring));
      numCollectives += partitioner.collectives;
      numMasks += partitioner.masks;
      func.erase();
    }
    if (!rings.empty())
      module->setAttr(kRingsAttr, ArrayAttr::get(&getContext(), rings));
  }

  DictionaryAttr describe(func::FuncOp func, const Partitioner::Ring &ring) {
    Builder b(&getContext());
    std::string where;
    if (auto name = dyn_cast<NameLoc>(ring.loc))
      where = name.getName().str();
    return b.getDictionaryAttr(
        {b.getNamedAttr("variant", b.getStringAttr(func.getName())),
         b.getNamedAttr("location", b.getStringAttr(where)),
         b.getNamedAttr("window", b.getI64IntegerAttr(ring.window)),
         b.getNamedAttr("ranks", b.getI64IntegerAttr(ring.ranks)),
         b.getNamedAttr("busiest", b.getF64FloatAttr(ring.busiest)),
         b.getNamedAttr("hops", b.getDenseI64ArrayAttr(ring.hops))});
  }

  SmallVector<Attribute> rings;
};

} // namespace
