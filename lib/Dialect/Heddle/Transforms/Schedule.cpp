//===- Schedule.cpp - An order of fused groups ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Comm/IR/CommDialect.h"
#include "heddle/Dialect/Heddle/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_SCHEDULEPASS
#include "heddle/Dialect/Heddle/Transforms/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// A reshape of contiguous memory: it costs nothing and has no kernel.
static bool isView(Operation *op) {
  return isa<SplitHeadsOp, MergeHeadsOp>(op);
}

/// A part of a tensor, or its chunks, that is one range of its memory.
static bool isRange(Operation *op) {
  return TypeSwitch<Operation *, bool>(op)
      .Case([](TakeUnitsOp take) { return take.getViewOffset().has_value(); })
      .Case<SplitChunksOp, JoinChunksOp>(
          [](auto chunks) { return chunks.isView(); })
      .Default([](Operation *) { return false; });
}

/// The tokens (B, T) that a row-wise op runs over; none for other ops.
static std::optional<std::pair<int64_t, int64_t>> rowSpace(Operation *op) {
  Value rows;
  if (isa<RmsNormOp, AddOp, BiasAddOp, GluOp, RotaryOp, RotaryTableOp,
          EmbeddingOp, CacheSlotsOp, LocalIndexOp, MergePartialsOp, QuantizeOp,
          FillOp>(op))
    rows = op->getResult(0);
  else if (auto append = dyn_cast<CacheAppendOp>(op))
    rows = append.getValues();
  else if (auto mask = dyn_cast<MaskPadOp>(op); mask && mask.getDim() >= 2)
    rows = mask.getResult();
  else if (auto take = dyn_cast<TakeUnitsOp>(op);
           take && take.getDim() >= 2 && !isRange(op))
    rows = take.getResult();
  if (!rows || shapeOf(rows).size() < 2)
    return std::nullopt;
  return std::make_pair(shapeOf(rows)[0], shapeOf(rows)[1]);
}

/// Whether a group's rows are the tokens of one sequence.
static bool hasTokenRows(ArrayRef<Operation *> group, IntegerAttr extent) {
  return llvm::all_of(group, [&](Operation *op) {
    if (auto rows = rowSpace(op))
      return hasRowsOfTokens({rows->first, rows->second}, extent);
    if (isa<LinearOp, AttentionOp, AttentionPartialOp>(op))
      return hasRowsOfTokens(shapeOf(op->getOperand(0)), extent);
    return isView(op);
  });
}

/// Whether rows of `value` that nobody asks for have to be right all the same:
/// an index says which rows count, and tells it to other ranks too. Rows of
/// numbers are ignored by whoever has the index.
static bool needsAllRows(Value value, IntegerAttr extent) {
  return isa<IntegerType>(getElementTypeOrSelf(value.getType())) &&
         llvm::any_of(value.getUsers(), [&](Operation *user) {
           return !hasTokenRows(user, extent);
         });
}

/// Ops that need a kernel but do not fuse.
static bool isLoneKernel(Operation *op) {
  return isa<AttentionOp, AttentionPartialOp, ArgmaxOp, SampleOp, GatherRowsOp,
             MaskPadOp, TakeUnitsOp, LocalIndexOp, SplitChunksOp, JoinChunksOp,
             LinearOp>(op) &&
         !isRange(op);
}

/// Products for the library: those of many rows. Few rows are bound by reading
/// the weights, which a generated kernel does faster.
static bool isGemm(LinearOp linear) {
  constexpr int64_t kFewRows = 4;
  auto input = cast<RankedTensorType>(linear.getInput().getType());
  int64_t rows = 1;
  for (int64_t extent : input.getShape().drop_back())
    rows *= extent;
  if (rows <= kFewRows)
    return false;
  auto f32 = [](Value v) {
    return cast<RankedTensorType>(v.getType()).getElementType().isF32();
  };
  return f32(linear.getInput()) && f32(linear.getWeight()) &&
         f32(linear.getResult());
}

namespace {

struct Schedule : heddle::impl::SchedulePassBase<Schedule> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<func::FuncOp> programs;
    for (auto func : module.getOps<func::FuncOp>()) {
      if (func->hasAttr(HeddleDialect::kKernelAttr))
        continue;
      if (!isLocal(func)) {
        func.emitError() << "expected a local function: run heddle-partition "
                            "first";
        return signalPassFailure();
      }
      if (failed(checkTensors(func)))
        return signalPassFailure();
      programs.push_back(func);
    }
    for (func::FuncOp func : programs) {
      mesh = func->getAttr(HeddleDialect::kMeshAttr);
      extent = func->getAttrOfType<IntegerAttr>(HeddleDialect::kExtentAttr);
      splitBiases(func);
      splitAllToAlls(func);
      func.walk([&](Block *block) { scheduleBlock(*block); });
    }
  }

  /// The library's product has no bias; a row-wise op adds it.
  void splitBiases(func::FuncOp func) {
    func.walk([&](LinearOp linear) {
      if (!isGemm(linear))
        return;
      linear->setAttr(HeddleDialect::kGemmAttr, UnitAttr::get(&getContext()));
      if (!linear.getBias())
        return;
      OpBuilder builder(linear->getContext());
      builder.setInsertionPointAfter(linear);
      auto add = BiasAddOp::create(builder, linear.getLoc(),
                                   linear.getResult().getType(),
                                   linear.getResult(), linear.getBias());
      linear.getResult().replaceAllUsesExcept(add.getResult(), add);
      linear.getBiasMutable().clear();
    });
  }

  /// What goes to one rank is one range of memory, and what comes from one.
  void splitAllToAlls(func::FuncOp func) {
    func.walk([&](comm::AllToAllOp op) {
      int64_t split = op.getSplitDim(), concat = op.getConcatDim();
      if (split == 0 && concat == 0)
        return;
      auto in = cast<RankedTensorType>(op.getInput().getType());
      int64_t n = split == concat
                      ? 0
                      : in.getDimSize(split) /
                            cast<RankedTensorType>(op.getResult().getType())
                                .getDimSize(split);
      if (n == 0)
        return;
      SmallVector<int64_t> shape = {n};
      shape.append(in.getShape().begin(), in.getShape().end());
      shape[split + 1] /= n;
      auto type = RankedTensorType::get(shape, in.getElementType());
      OpBuilder builder(op);
      Location loc = op.getLoc();
      Value apart = SplitChunksOp::create(builder, loc, type, op.getInput(),
                                          builder.getI64IntegerAttr(split));
      Value arrived = comm::AllToAllOp::create(
          builder, loc, type, apart, builder.getI64IntegerAttr(0),
          builder.getI64IntegerAttr(0), op.getGroupAttr(), op.getReasonAttr());
      Value joined =
          JoinChunksOp::create(builder, loc, op.getResult().getType(), arrived,
                               builder.getI64IntegerAttr(concat));
      op.getResult().replaceAllUsesWith(joined);
      op.erase();
    });
  }

  void scheduleBlock(Block &block);
  void outline(ArrayRef<Operation *> group, Block &block);
  func::FuncOp kernelFor(ArrayRef<Operation *> group, ArrayRef<Value> inputs,
                         ArrayRef<Value> outputs, ArrayAttr aliases);

  // Of the program at hand.
  Attribute mesh;
  IntegerAttr extent;
  llvm::StringMap<func::FuncOp> kernels;
};

} // namespace

/// List scheduling: extend the open group; else start what is ready and is not
/// row-wise, so that the next group finds all its operands; else open a group;
/// else wait for what was begun, which had all that time.
void Schedule::scheduleBlock(Block &block) {
  SmallVector<Operation *> remaining;
  for (Operation &op : block.without_terminator())
    remaining.push_back(&op);
  llvm::DenseSet<Operation *> pending(remaining.begin(), remaining.end());
  SmallVector<SmallVector<Operation *>> steps;

  auto isReady = [&](Operation *op) {
    bool ready = true;
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (Operation *def = operand.getDefiningOp())
          ready &= !pending.contains(def);
    });
    return ready;
  };
  auto issue = [&](Operation *op) {
    pending.erase(op);
    llvm::erase(remaining, op);
  };
  while (!remaining.empty()) {
    // Everything ready that is not row-wise, in program order; products of one
    // input together.
    bool progress = false;
    llvm::DenseMap<Value, size_t> products; // the step of an input's products
    for (Operation *op : llvm::to_vector(remaining)) {
      if (rowSpace(op) || isa<comm::WaitOp>(op) || !isReady(op))
        continue;
      issue(op);
      progress = true;
      auto linear = dyn_cast<LinearOp>(op);
      if (linear && !op->hasAttr(HeddleDialect::kGemmAttr)) {
        auto [at, first] =
            products.try_emplace(linear.getInput(), steps.size());
        if (!first) {
          steps[at->second].push_back(op);
          continue;
        }
      }
      steps.push_back({op});
    }
    if (progress)
      continue;
    // A group from the first ready row-wise op on.
    SmallVector<Operation *> group;
    std::optional<std::pair<int64_t, int64_t>> space;
    bool grown = true;
    while (grown) {
      grown = false;
      for (Operation *op : llvm::to_vector(remaining)) {
        auto rows = rowSpace(op);
        bool joins =
            (rows && (!space || *rows == *space)) || (isView(op) && space);
        if (!joins || !isReady(op))
          continue;
        space = space ? space : rows;
        issue(op);
        group.push_back(op);
        grown = true;
      }
    }
    if (!group.empty()) {
      steps.push_back(group);
      continue;
    }
    for (Operation *op : llvm::to_vector(remaining))
      if (isa<comm::WaitOp>(op) && isReady(op)) {
        issue(op);
        steps.push_back({op});
      }
  }

  Operation *terminator =
      block.empty() || !block.back().hasTrait<OpTrait::IsTerminator>()
          ? nullptr
          : &block.back();
  for (auto &step : steps)
    for (Operation *op : step) {
      if (terminator)
        op->moveBefore(terminator);
      else
        op->moveBefore(&block, block.end());
    }
  for (auto &step : steps) {
    Operation *first = step.front();
    if (step.size() > 1 || rowSpace(first)) {
      // A trailing or leading reshape stays outside the kernel.
      while (step.size() > 1 && isView(step.back()))
        step.pop_back();
      outline(step, block);
    } else if (isLoneKernel(first) &&
               !first->hasAttr(HeddleDialect::kGemmAttr)) {
      outline(step, block);
    }
  }
}

void Schedule::outline(ArrayRef<Operation *> group, Block &block) {
  llvm::DenseSet<Operation *> members(group.begin(), group.end());
  llvm::SetVector<Value> inputs, outputs;
  for (Operation *op : group) {
    for (Value operand : op->getOperands())
      if (!members.contains(operand.getDefiningOp()))
        inputs.insert(operand);
    for (Value result : op->getResults())
      for (Operation *user : result.getUsers())
        if (!members.contains(user))
          outputs.insert(result);
  }
  SmallVector<Attribute> aliases;
  OpBuilder builder(&getContext());
  for (Operation *op : group)
    if (auto append = dyn_cast<CacheAppendOp>(op)) {
      auto out = llvm::find(outputs, append.getResult());
      auto in = llvm::find(inputs, append.getPool());
      if (out != outputs.end() && in != inputs.end())
        aliases.push_back(builder.getDenseI64ArrayAttr(
            {out - outputs.begin(), in - inputs.begin()}));
    }
  func::FuncOp kernel =
      kernelFor(group, inputs.getArrayRef(), outputs.getArrayRef(),
                builder.getArrayAttr(aliases));
  SmallVector<Location> locations;
  for (Operation *op : group)
    locations.push_back(op->getLoc());
  builder.setInsertionPointAfter(group.back());
  auto call = func::CallOp::create(builder, builder.getFusedLoc(locations),
                                   kernel, inputs.getArrayRef());
  for (auto [i, result] : llvm::enumerate(call.getResults())) {
    Value output = outputs[i];
    output.replaceUsesWithIf(result, [&](OpOperand &use) {
      return !members.contains(use.getOwner());
    });
  }
  for (Operation *op : llvm::reverse(group))
    op->erase();
  ++numLaunches;
}

func::FuncOp Schedule::kernelFor(ArrayRef<Operation *> group,
                                 ArrayRef<Value> inputs,
                                 ArrayRef<Value> outputs, ArrayAttr aliases) {
  ModuleOp module = getOperation();
  OpBuilder builder(&getContext());
  auto type = builder.getFunctionType(TypeRange(ValueRange(inputs)),
                                      TypeRange(ValueRange(outputs)));
  auto kernel =
      func::FuncOp::create(builder, builder.getUnknownLoc(), "kernel", type);
  kernel.setPrivate();
  kernel->setAttr(HeddleDialect::kKernelAttr, builder.getUnitAttr());
  kernel->setAttr(HeddleDialect::kLocalAttr, builder.getUnitAttr());
  kernel->setAttr(HeddleDialect::kMeshAttr, mesh);
  if (extent && hasTokenRows(group, extent) &&
      llvm::none_of(outputs,
                    [&](Value output) { return needsAllRows(output, extent); }))
    kernel->setAttr(HeddleDialect::kExtentAttr, extent);
  if (!aliases.empty())
    kernel->setAttr(HeddleDialect::kAliasesAttr, aliases);
  Block *entry = kernel.addEntryBlock();
  IRMapping mapping;
  mapping.map(inputs, entry->getArguments());
  builder.setInsertionPointToEnd(entry);
  std::string name;
  for (Operation *op : group) {
    builder.clone(*op, mapping);
    if (isView(op))
      continue;
    StringRef stem = op->getName().stripDialect();
    if (!StringRef(name).contains(stem) && name.size() < 40)
      name += (name.empty() ? "" : "_") + stem.str();
  }
  SmallVector<Value> results;
  for (Value output : outputs)
    results.push_back(mapping.lookup(output));
  func::ReturnOp::create(builder, builder.getUnknownLoc(), results);

  // Equal kernels are one. The text, which leaves out locations, is the key.
  std::string text;
  llvm::raw_string_ostream stream(text);
  kernel->print(stream, OpPrintingFlags().useLocalScope());
  auto [it, fresh] = kernels.try_emplace(text, kernel);
  if (!fresh) {
    kernel->erase();
    return it->second;
  }
  std::string unique = name;
  for (int64_t n = 1; module.lookupSymbol(unique); ++n)
    unique = name + "_" + std::to_string(n);
  kernel.setName(unique);
  module.push_back(kernel);
  ++numKernels;
  return kernel;
}
