//===- RingAttention.cpp - Attention whose keys go round ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RingAttention.h"

#include "heddle/Dialect/Comm/IR/CommDialect.h"

#include <algorithm>
#include <limits>

using namespace mlir;
using namespace mlir::heddle;

namespace {

/// What goes from hop to hop.
struct Hop {
  Value out, lse; // of the blocks so far
  /// The block at hand: keys, values, their positions, their documents if there
  /// are any.
  SmallVector<Value> block;

  SmallVector<Value> values() const {
    SmallVector<Value> all = {out, lse};
    llvm::append_range(all, block);
    return all;
  }
  static Hop of(ValueRange v) {
    return {v[0], v[1], SmallVector<Value>(v.drop_front(2))};
  }
};

class RingEmitter {
public:
  explicit RingEmitter(const LocalAttention &local)
      : local(local), loc(local.op.getLoc()) {}

  Value emit(OpBuilder &builder, ArrayRef<int64_t> hops, int64_t &collectives);

private:
  const LocalAttention &local;
  Location loc;

  Value fill(OpBuilder &builder, RankedTensorType type, double value) {
    return FillOp::create(builder, loc, type, builder.getF64FloatAttr(value));
  }
  /// The hop's out and lse with its block added, and the sinks with the last.
  std::pair<Value, Value> attend(OpBuilder &builder, const Hop &hop, bool last);
  /// A region of the loop: the next block comes from `shift` ranks before.
  void emitKind(Region &region, const Hop &like, int64_t shift,
                int64_t &collectives);
};

} // namespace

std::pair<Value, Value> RingEmitter::attend(OpBuilder &builder, const Hop &hop,
                                            bool last) {
  LocalAttention now = local;
  now.key = hop.block[0];
  now.value = hop.block[1];
  now.keyPositions = hop.block[2];
  if (now.keyDocuments)
    now.keyDocuments = hop.block[3];
  if (!last)
    now.sinks = Value();
  AttentionPartialOp part = now.part(builder);
  auto merged = MergePartialsOp::create(
      builder, loc, TypeRange{local.resultType, local.lseType()}, hop.out,
      hop.lse, part.getResult(), part.getLse());
  return {merged.getResult(), merged.getLse()};
}

void RingEmitter::emitKind(Region &region, const Hop &like, int64_t shift,
                           int64_t &collectives) {
  auto *body = new Block();
  region.push_back(body);
  for (Value v : like.values())
    body->addArgument(v.getType(), loc);
  OpBuilder builder = OpBuilder::atBlockEnd(body);
  Hop now = Hop::of(body->getArguments());
  StringAttr reason = builder.getStringAttr("keys and values go round");
  SmallVector<Value> started;
  for (Value v : now.block) {
    started.push_back(comm::PermuteStartOp::create(
        builder, loc, v.getType(), v, builder.getI64IntegerAttr(shift),
        local.group(), reason));
    ++collectives;
  }
  auto [out, lse] = attend(builder, now, /*last=*/false);
  SmallVector<Value> next = {out, lse};
  for (auto [begun, source] : llvm::zip(started, now.block))
    next.push_back(
        comm::WaitOp::create(builder, loc, begun.getType(), begun, source));
  YieldOp::create(builder, loc, next, ValueRange(), ValueRange());
}

Value RingEmitter::emit(OpBuilder &builder, ArrayRef<int64_t> hops,
                        int64_t &collectives) {
  Hop hop = {
      fill(builder, local.resultType, 0),
      fill(builder, local.lseType(), -std::numeric_limits<double>::infinity()),
      {local.key, local.value, local.keyPositions}};
  if (local.keyDocuments)
    hop.block.push_back(local.keyDocuments);
  // A kind of iteration for each distance that a block travels.
  SmallVector<int64_t> shifts, order;
  for (size_t i = 0; i + 1 < hops.size(); ++i) {
    int64_t shift = hops[i + 1] - hops[i];
    auto *kind = llvm::find(shifts, shift);
    order.push_back(kind - shifts.begin());
    if (kind == shifts.end())
      shifts.push_back(shift);
  }
  SmallVector<Value> first = hop.values();
  auto loop = RepeatOp::create(
      builder, loc, TypeRange(ValueRange(first)), first, ValueRange(),
      ValueRange(), builder.getDenseI64ArrayAttr(order),
      builder.getDenseI64ArrayAttr({}), builder.getDenseI64ArrayAttr({}),
      UnitAttr(), static_cast<unsigned>(shifts.size()));
  for (auto [region, shift] : llvm::zip(loop.getKinds(), shifts))
    emitKind(region, hop, shift, collectives);
  return attend(builder, Hop::of(loop.getResults()), /*last=*/true).first;
}

Value mlir::heddle::emitRingAttention(OpBuilder &builder,
                                      const LocalAttention &local,
                                      ArrayRef<int64_t> hops,
                                      int64_t &collectives) {
  // Nobody needs another's keys.
  if (hops.size() == 1)
    return local.whole(builder);
  return RingEmitter(local).emit(builder, hops, collectives);
}

//===----------------------------------------------------------------------===//
// Which hops
//===----------------------------------------------------------------------===//

namespace {
/// Tokens begin, …, end - 1.
struct Span {
  int64_t begin, end;
};
} // namespace

/// The tokens of each rank, ascending, neighbouring units as one.
static std::vector<SmallVector<Span>> spansOf(const Layout &tokens) {
  std::vector<SmallVector<Span>> result(tokens.ranks);
  for (int64_t rank = 0; rank < tokens.ranks; ++rank) {
    SmallVector<int64_t> units;
    for (int64_t slot = 0; slot < tokens.slots; ++slot)
      if (int64_t unit = tokens.unitAt(rank, slot); unit >= 0)
        units.push_back(unit);
    llvm::sort(units);
    for (int64_t unit : units) {
      int64_t begin = unit * tokens.unit;
      int64_t end = std::min(begin + tokens.unit, tokens.size);
      if (begin >= end)
        continue;
      if (!result[rank].empty() && result[rank].back().end == begin)
        result[rank].back().end = end;
      else
        result[rank].push_back({begin, end});
    }
  }
  return result;
}

/// Whether a query of `queries` may see a key of `keys`.
static bool sees(ArrayRef<Span> queries, ArrayRef<Span> keys, bool causal,
                 int64_t window) {
  return llvm::any_of(queries, [&](Span q) {
    // The last keys that causality allows are the nearest ones.
    const Span *after = llvm::partition_point(
        keys, [&](Span k) { return !causal || k.begin < q.end; });
    if (after == keys.begin())
      return false;
    return window == 0 || q.begin - (after[-1].end - 1) < window;
  });
}

double mlir::heddle::busiestRank(const Layout &tokens, bool causal,
                                 int64_t window) {
  // Keys that queries 0, ..., n - 1 see.
  auto seenBefore = [&](int64_t n) {
    auto t = static_cast<double>(n);
    if (!causal)
      return t * static_cast<double>(tokens.size);
    if (window == 0 || n <= window)
      return t * (t + 1) / 2;
    auto w = static_cast<double>(window);
    return w * (w + 1) / 2 + (t - w) * w;
  };
  double busiest = 0;
  for (ArrayRef<Span> spans : spansOf(tokens)) {
    double work = 0;
    for (Span span : spans)
      work += seenBefore(span.end) - seenBefore(span.begin);
    busiest = std::max(busiest, work);
  }
  return busiest * static_cast<double>(tokens.ranks) / seenBefore(tokens.size);
}

SmallVector<int64_t> mlir::heddle::neededHops(const Layout &tokens, bool causal,
                                              int64_t window) {
  std::vector<SmallVector<Span>> spans = spansOf(tokens);
  SmallVector<int64_t> hops = {0};
  for (int64_t hop = 1; hop < tokens.ranks; ++hop)
    for (int64_t rank = 0; rank < tokens.ranks; ++rank) {
      int64_t from = (rank - hop + tokens.ranks) % tokens.ranks;
      if (sees(spans[rank], spans[from], causal, window)) {
        hops.push_back(hop);
        break;
      }
    }
  return hops;
}

/// The function's argument that `value` is, wherever it lies; null if it was
/// computed.
static BlockArgument argumentOf(Value value) {
  if (!value)
    return {};
  while (auto reshard = value.getDefiningOp<ReshardOp>())
    value = reshard.getInput();
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && isa<func::FuncOp>(argument.getOwner()->getParentOp())
             ? argument
             : BlockArgument();
}

RingHops mlir::heddle::ringHops(AttentionOp op, const Layout &tokens) {
  RingHops all = {llvm::to_vector(llvm::seq(tokens.ranks)), std::nullopt};
  BlockArgument positions = argumentOf(op.getQueryPositions());
  if (!positions || positions != argumentOf(op.getKeyPositions()))
    return all;
  auto func = cast<func::FuncOp>(positions.getOwner()->getParentOp());
  auto promise = func.getArgAttrOfType<ConsecutiveAttr>(
      positions.getArgNumber(), HeddleDialect::kConsecutiveAttr);
  // Positions that may be anything let any key be seen, and a query without one
  // sees all keys if they need not be before it.
  if (!promise || !op.getCausal())
    return all;
  int64_t window = op.getWindow();
  if (StringAttr within = promise.getWithin()) {
    BlockArgument documents = argumentOf(op.getQueryDocuments());
    if (!documents || documents != argumentOf(op.getKeyDocuments()) ||
        func.getArgAttrOfType<BindingAttr>(documents.getArgNumber(),
                                           HeddleDialect::kBindingAttr)
                .getName() != within)
      return all;
    // A query sees its document alone, which is no longer than this.
    window = window ? std::min(window, promise.getBelow()) : promise.getBelow();
  }
  RingHops needed = {neededHops(tokens, /*causal=*/true, window), std::nullopt};
  if (needed.hops.size() < all.hops.size())
    needed.promise = positions.getArgNumber();
  return needed;
}
