//===- Interpreter.cpp - Executes functions op by op on all ranks ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"

#include "llvm/ADT/DenseMap.h"

#include <memory>

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::reference;

namespace {

/// A value on every rank. Tensors are shared, never changed.
using RankValues = SmallVector<std::shared_ptr<const Tensor>, 4>;

class Interpreter {
public:
  Interpreter(MeshOp mesh, int64_t ranks, const ReferenceOptions &options)
      : mesh(mesh), ranks(ranks), options(options) {}

  void set(Value value, RankValues tensors) {
    values[value] = std::move(tensors);
  }
  const RankValues &get(Value value) { return values[value]; }

  /// Executes all ops of a block but its terminator.
  LogicalResult run(Block &block);

private:
  LogicalResult execute(Operation *op);
  LogicalResult repeat(RepeatOp op);
  LogicalResult communicate(Operation *op, const Registry::Entry &entry,
                            ArrayRef<SmallVector<const Tensor *>> operands,
                            MutableArrayRef<SmallVector<Tensor, 2>> results);

  /// The op's results on one rank, of zeros.
  FailureOr<SmallVector<Tensor, 2>> allocate(Operation *op);
  /// Gives the op's results on all ranks to its users.
  void finish(Operation *op, ArrayRef<SmallVector<const Tensor *>> operands,
              SmallVector<SmallVector<Tensor, 2>> results);
  SmallVector<SmallVector<const Tensor *>> operandsOf(Operation *op);

  MeshOp mesh; // null in global functions
  int64_t ranks;
  const ReferenceOptions &options;
  llvm::DenseMap<Value, RankValues> values;
};

} // namespace

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult Interpreter::run(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(execute(&op)))
      return failure();
  return success();
}

FailureOr<SmallVector<Tensor, 2>> Interpreter::allocate(Operation *op) {
  // Text may ask for anything; no result of a real model is near this.
  constexpr int64_t kMaxElements = int64_t(1) << 33;
  SmallVector<Tensor, 2> results;
  for (Type type : op->getResultTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return op->emitOpError("expected results of static shape, got ") << type;
    int64_t size = 1;
    for (int64_t extent : tensor.getShape()) {
      if (extent != 0 && size > kMaxElements / extent)
        return op->emitOpError("expected results of at most ")
               << kMaxElements << " elements, got " << type;
      size *= extent;
    }
    results.push_back(Tensor::filled(tensor.getShape(), 0));
  }
  return results;
}

SmallVector<SmallVector<const Tensor *>>
Interpreter::operandsOf(Operation *op) {
  SmallVector<SmallVector<const Tensor *>> operands(ranks);
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (Value operand : op->getOperands())
      operands[rank].push_back(values[operand][rank].get());
  return operands;
}

void Interpreter::finish(Operation *op,
                         ArrayRef<SmallVector<const Tensor *>> operands,
                         SmallVector<SmallVector<Tensor, 2>> results) {
  if (options.afterOp)
    for (int64_t rank = 0; rank < ranks; ++rank)
      options.afterOp(op, rank, operands[rank], results[rank]);
  for (auto [i, value] : llvm::enumerate(op->getResults())) {
    RankValues tensors;
    for (int64_t rank = 0; rank < ranks; ++rank)
      tensors.push_back(
          std::make_shared<const Tensor>(std::move(results[rank][i])));
    set(value, std::move(tensors));
  }
}

LogicalResult Interpreter::execute(Operation *op) {
  if (auto repeatOp = dyn_cast<RepeatOp>(op))
    return repeat(repeatOp);
  const Registry::Entry *entry =
      Registry::get().find(op->getName().getStringRef());
  if (!entry)
    return op->emitError("no reference for ") << op->getName();

  SmallVector<SmallVector<const Tensor *>> operands = operandsOf(op);
  SmallVector<SmallVector<Tensor, 2>> results;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    FailureOr<SmallVector<Tensor, 2>> tensors = allocate(op);
    if (failed(tensors))
      return failure();
    results.push_back(std::move(*tensors));
  }
  if (entry->communicate) {
    if (failed(communicate(op, *entry, operands, results)))
      return failure();
  } else {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      OpCall call(op, mesh, rank, operands[rank], results[rank]);
      if (failed(entry->execute(op, call)))
        return failure();
    }
  }
  finish(op, operands, std::move(results));
  return success();
}

LogicalResult
Interpreter::communicate(Operation *op, const Registry::Entry &entry,
                         ArrayRef<SmallVector<const Tensor *>> operands,
                         MutableArrayRef<SmallVector<Tensor, 2>> results) {
  if (!mesh)
    return op->emitOpError("expected to be in a function marked '")
           << HeddleDialect::kLocalAttr << "'";
  SmallVector<AxisRefAttr> axes(entry.group(op).getAsRange<AxisRefAttr>());
  FailureOr<std::vector<std::vector<int64_t>>> groups =
      getGroups(mesh, axes, [&] { return op->emitOpError(); });
  if (failed(groups))
    return failure();
  for (const std::vector<int64_t> &group : *groups) {
    SmallVector<const Tensor *> inputs;
    SmallVector<Tensor *> outputs;
    for (int64_t rank : group) {
      inputs.push_back(operands[rank].front());
      outputs.push_back(&results[rank].front());
    }
    GroupCall call{inputs, outputs};
    if (failed(entry.communicate(op, call)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// repeat
//===----------------------------------------------------------------------===//

static std::shared_ptr<const Tensor> getSlice(const Tensor &stack,
                                              int64_t index) {
  auto slice = std::make_shared<Tensor>();
  slice->shape.assign(stack.shape.begin() + 1, stack.shape.end());
  int64_t size = stack.size() / stack.shape[0];
  slice->data.assign(stack.data.begin() + index * size,
                     stack.data.begin() + (index + 1) * size);
  return slice;
}

static void setSlice(Tensor &stack, int64_t index, const Tensor &slice) {
  llvm::copy(slice.data, stack.data.begin() + index * slice.size());
}

LogicalResult Interpreter::repeat(RepeatOp op) {
  SmallVector<SmallVector<const Tensor *>> operands = operandsOf(op);
  // Per rank: carries, inout stacks, emitted stacks kind by kind. The carries
  // are filled in at the end.
  SmallVector<SmallVector<Tensor, 2>> results;
  int64_t carries = op.getCarries().size(), inouts = op.getInouts().size();
  for (int64_t rank = 0; rank < ranks; ++rank) {
    FailureOr<SmallVector<Tensor, 2>> tensors = allocate(op);
    if (failed(tensors))
      return failure();
    results.push_back(std::move(*tensors));
    for (auto [i, stack] : llvm::enumerate(op.getInouts()))
      results[rank][carries + i] = *values[stack][rank];
  }
  SmallVector<int64_t> firstEmit;
  int64_t next = carries + inouts;
  for (Region &region : op.getKinds()) {
    firstEmit.push_back(next);
    next += cast<YieldOp>(region.front().getTerminator()).getEmits().size();
  }

  SmallVector<RankValues> carried;
  for (Value carry : op.getCarries())
    carried.push_back(get(carry));
  int64_t count = op.getOrder().size();
  for (int64_t step = 0; step < count; ++step) {
    int64_t i = op.getReverse() ? count - 1 - step : step;
    int64_t kind = op.getOrder()[i], ordinal = op.getOrdinal(i);
    Block &block = op.getKinds()[kind].front();

    unsigned argument = 0;
    for (RankValues &carry : carried)
      set(block.getArgument(argument++), carry);
    for (int64_t p : op.getParamsOf(kind)) {
      RankValues slices;
      for (const std::shared_ptr<const Tensor> &stack : get(op.getParams()[p]))
        slices.push_back(getSlice(*stack, ordinal));
      set(block.getArgument(argument++), std::move(slices));
    }
    for (int64_t s : op.getInoutsOf(kind)) {
      RankValues slices;
      for (int64_t rank = 0; rank < ranks; ++rank)
        slices.push_back(getSlice(results[rank][carries + s], ordinal));
      set(block.getArgument(argument++), std::move(slices));
    }

    if (failed(run(block)))
      return failure();

    auto yield = cast<YieldOp>(block.getTerminator());
    for (auto [carry, value] : llvm::zip(carried, yield.getCarries()))
      carry = get(value);
    for (auto [s, value] : llvm::zip(op.getInoutsOf(kind), yield.getInouts()))
      for (int64_t rank = 0; rank < ranks; ++rank)
        setSlice(results[rank][carries + s], ordinal, *get(value)[rank]);
    for (auto [e, value] : llvm::enumerate(yield.getEmits()))
      for (int64_t rank = 0; rank < ranks; ++rank)
        setSlice(results[rank][firstEmit[kind] + e], ordinal,
                 *get(value)[rank]);
  }
  for (auto [c, carry] : llvm::enumerate(carried))
    for (int64_t rank = 0; rank < ranks; ++rank)
      results[rank][c] = *carry[rank];
  finish(op, operands, std::move(results));
  return success();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Executes `function` on arguments[rank].
static FailureOr<std::vector<std::vector<Tensor>>>
evaluateFunction(func::FuncOp function, MeshOp mesh,
                 ArrayRef<ArrayRef<Tensor>> arguments,
                 const ReferenceOptions &options) {
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitOpError("expected a body of one block, got ")
           << function.getBody().getBlocks().size();
  int64_t ranks = arguments.size();
  Interpreter interpreter(mesh, ranks, options);
  for (int64_t rank = 0; rank < ranks; ++rank)
    if (arguments[rank].size() != function.getNumArguments())
      return function.emitOpError("expected ")
             << function.getNumArguments() << " arguments, got "
             << arguments[rank].size();
  for (BlockArgument argument : function.getArguments()) {
    RankValues tensors;
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const Tensor &tensor = arguments[rank][argument.getArgNumber()];
      if (!type || ArrayRef<int64_t>(tensor.shape) != type.getShape()) {
        InFlightDiagnostic diag = function.emitOpError("expected argument ");
        diag << argument.getArgNumber() << " of type " << argument.getType()
             << ", got a tensor of shape ";
        llvm::interleave(tensor.shape, diag, "x");
        return diag;
      }
      // The caller's tensor outlives the evaluation: not copied, not owned.
      tensors.push_back(std::shared_ptr<const Tensor>(
          std::shared_ptr<const Tensor>(), &tensor));
    }
    interpreter.set(argument, std::move(tensors));
  }
  Block &body = function.getBody().front();
  if (failed(interpreter.run(body)))
    return failure();
  std::vector<std::vector<Tensor>> results(ranks);
  for (Value value : body.getTerminator()->getOperands())
    for (int64_t rank = 0; rank < ranks; ++rank)
      results[rank].push_back(*interpreter.get(value)[rank]);
  return results;
}

FailureOr<std::vector<Tensor>>
reference::evaluate(func::FuncOp function, ArrayRef<Tensor> arguments,
                    const ReferenceOptions &options) {
  if (isLocal(function))
    return function.emitOpError("expected a global function, got one marked '")
           << HeddleDialect::kLocalAttr << "'";
  FailureOr<std::vector<std::vector<Tensor>>> results =
      evaluateFunction(function, MeshOp(), arguments, options);
  if (failed(results))
    return failure();
  return std::move(results->front());
}

FailureOr<std::vector<std::vector<Tensor>>>
reference::evaluateRanks(func::FuncOp function,
                         ArrayRef<std::vector<Tensor>> arguments,
                         const ReferenceOptions &options) {
  if (!isLocal(function))
    return function.emitOpError("expected a function marked '")
           << HeddleDialect::kLocalAttr << "'";
  MeshOp mesh;
  if (auto name =
          function->getAttrOfType<FlatSymbolRefAttr>(HeddleDialect::kMeshAttr))
    mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(function, name);
  if (!mesh)
    return function.emitOpError("expected '")
           << HeddleDialect::kMeshAttr << "' to name a heddle.mesh";
  if (static_cast<int64_t>(arguments.size()) != mesh.getWorldSize())
    return function.emitOpError("expected arguments for ")
           << mesh.getWorldSize() << " ranks, got " << arguments.size();
  SmallVector<ArrayRef<Tensor>> views(arguments.begin(), arguments.end());
  return evaluateFunction(function, mesh, views, options);
}
