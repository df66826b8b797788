//===- Chunk.cpp - MLPs over some tokens at a time ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/Transforms/Passes.h"
#include "heddle/Dialect/Heddle/Transforms/Strategies.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_CHUNKPASS
#include "heddle/Dialect/Heddle/Transforms/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Each row of the result comes from the same row of operand 0, and of operand
/// 1 of a gated unit; other operands are weights.
static bool isRowWise(Operation *op) {
  return isa<LinearOp, BiasAddOp, QuantizeOp, GluOp>(op);
}

static bool isRows(Operation *op, OpOperand &operand) {
  return operand.getOperandNumber() == 0 ||
         (isa<GluOp>(op) && operand.getOperandNumber() == 1);
}

namespace {

/// A gated unit, what makes its inputs and nothing else, and what its result
/// goes through.
class Unit {
public:
  explicit Unit(GluOp glu)
      : glu(glu), tokens(typeOf(glu.getResult()).getDimSize(1)) {
    members.insert(glu);
    // Backwards: growing while nothing else reads what is added.
    for (bool grown = true; grown;) {
      grown = false;
      for (Operation *op : llvm::to_vector(members))
        for (OpOperand &operand : op->getOpOperands())
          if (isRows(op, operand) && joins(operand.get().getDefiningOp()))
            grown |= members.insert(operand.get().getDefiningOp());
    }
    // Forwards: through the product, and its bias.
    for (Operation *last = glu; last->getResult(0).hasOneUse();) {
      OpOperand &use = *last->getResult(0).use_begin();
      Operation *user = use.getOwner();
      bool behind = isa<LinearOp>(last);
      if (!isRowWise(user) || !isRows(user, use) ||
          user->getBlock() != glu->getBlock() ||
          (behind && !isa<BiasAddOp>(user)))
        break;
      members.insert(user);
      last = user;
    }
  }

  int64_t getTokens() const { return tokens; }
  /// The same over chunks of `size` tokens.
  void loop(int64_t size);

private:
  bool joins(Operation *op) const {
    return op && isRowWise(op) && op->getBlock() == glu->getBlock() &&
           llvm::all_of(op->getUsers(), [&](Operation *user) {
             return members.contains(user);
           });
  }
  RankedTensorType ofChunk(Value value, int64_t size) const {
    SmallVector<int64_t> shape(typeOf(value).getShape());
    shape[1] = size;
    return RankedTensorType::get(shape, typeOf(value).getElementType());
  }

  GluOp glu;
  int64_t tokens;
  llvm::SetVector<Operation *> members;
};

} // namespace

void Unit::loop(int64_t size) {
  SmallVector<Operation *> ops(members.begin(), members.end());
  llvm::sort(ops,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  llvm::SetVector<Value> inputs, outputs;
  for (Operation *op : ops) {
    for (OpOperand &operand : op->getOpOperands())
      if (isRows(op, operand) &&
          !members.contains(operand.get().getDefiningOp()))
        inputs.insert(operand.get());
    for (Operation *user : op->getUsers())
      if (!members.contains(user))
        outputs.insert(op->getResult(0));
  }
  int64_t count = llvm::divideCeil(tokens, size);
  OpBuilder builder(ops.back());
  Location loc = ops.back()->getLoc();
  auto stack = [&](RankedTensorType part) {
    SmallVector<int64_t> shape = {count};
    shape.append(part.getShape().begin(), part.getShape().end());
    return RankedTensorType::get(shape, part.getElementType());
  };
  IntegerAttr dim = builder.getI64IntegerAttr(1);
  // The leading `extent` tokens, padded with zeros.
  auto resize = [&](Value value, int64_t extent, int64_t unit) -> Value {
    if (typeOf(value).getDimSize(1) == extent)
      return value;
    SmallVector<int64_t> units =
        llvm::to_vector(llvm::seq<int64_t>(0, llvm::divideCeil(extent, unit)));
    return TakeUnitsOp::create(
        builder, loc, ofChunk(value, extent), value, dim,
        RankTableAttr::get(builder.getContext(), {}, 1, units.size(), units),
        builder.getI64IntegerAttr(unit));
  };
  SmallVector<Value> stacks;
  for (Value input : inputs)
    stacks.push_back(
        SplitChunksOp::create(builder, loc, stack(ofChunk(input, size)),
                              resize(input, count * size, size), dim));
  SmallVector<Type> results;
  for (Value output : outputs)
    results.push_back(stack(ofChunk(output, size)));
  auto repeat = RepeatOp::create(
      builder, loc, results, ValueRange(), stacks, ValueRange(),
      builder.getDenseI64ArrayAttr(SmallVector<int64_t>(count, 0)),
      builder.getDenseI64ArrayAttr(SmallVector<int64_t>(stacks.size(), 0)),
      builder.getDenseI64ArrayAttr({}), UnitAttr(), 1u);
  auto *body = new Block();
  repeat.getKinds()[0].push_back(body);
  IRMapping mapping;
  for (Value input : inputs)
    mapping.map(input, body->addArgument(ofChunk(input, size), loc));
  OpBuilder inner = OpBuilder::atBlockEnd(body);
  for (Operation *op : ops) {
    Value result = inner.clone(*op, mapping)->getResult(0);
    result.setType(ofChunk(result, size));
  }
  SmallVector<Value> emits;
  for (Value output : outputs)
    emits.push_back(mapping.lookup(output));
  YieldOp::create(inner, loc, ValueRange(), ValueRange(), emits);
  for (size_t i = 0; i < outputs.size(); ++i) {
    Value output = outputs[i];
    Value all =
        resize(JoinChunksOp::create(builder, loc, ofChunk(output, count * size),
                                    repeat.getResult(i), dim),
               tokens, tokens);
    output.replaceUsesWithIf(
        all, [&](OpOperand &use) { return !members.contains(use.getOwner()); });
  }
  for (Operation *op : llvm::reverse(ops))
    op->erase();
}

/// At most `most` of `tokens`: a divisor, if one is not much smaller; otherwise
/// as even as it gets, and the last chunk is padded, which copies the inputs
/// once.
static int64_t sizeOfChunks(int64_t tokens, int64_t most) {
  for (int64_t size = most; size > most / 2; --size)
    if (tokens % size == 0)
      return size;
  return llvm::divideCeil(tokens, llvm::divideCeil(tokens, most));
}

namespace {

struct Chunk : heddle::impl::ChunkPassBase<Chunk> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    Attribute mark = func->getAttr(kChunkAttr);
    if (!mark || !isLocal(func))
      return;
    auto most = dyn_cast<IntegerAttr>(mark);
    if (!most || !most.getType().isInteger(64) || most.getInt() < 1) {
      func.emitError() << "expected '" << kChunkAttr
                       << "' to be a positive i64, got " << mark;
      return signalPassFailure();
    }
    if (failed(checkTensors(func)))
      return signalPassFailure();
    SmallVector<GluOp> units;
    func.walk([&](GluOp glu) {
      if (typeOf(glu.getResult()).getRank() == 3)
        units.push_back(glu);
    });
    for (GluOp glu : units) {
      Unit unit(glu);
      int64_t tokens = unit.getTokens(), n = most.getInt();
      if (tokens <= n)
        continue;
      unit.loop(sizeOfChunks(tokens, n));
      ++numLoops;
    }
    func->removeAttr(kChunkAttr);
  }
};

} // namespace
