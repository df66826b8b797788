//===- EmitKernels.cpp - Classes of kernels, their interfaces and bodies ===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelEmission.h"
#include "RowEmitter.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

namespace {

/// A kernel function with its class.
struct KernelPlan {
  KernelFunction kernel;
  /// The ops of a kernel that is no row program: one, or linears.
  SmallVector<Operation *> lone;
  std::unique_ptr<RowProgram> rows;
  int64_t tiles = 1;
};

} // namespace

/// Ops that no row program holds.
static bool isLone(Operation *op) {
  return isa<LinearOp, AttentionOp, AttentionPartialOp, SampleOp>(op);
}

/// A kernel of one op, or of linears with one input, and views of its operands
/// and results.
static LogicalResult planLone(KernelPlan &plan, const TargetRecord &target) {
  SmallVector<LinearOp> linears;
  for (Operation *op : plan.kernel.ops)
    if (auto linear = dyn_cast<LinearOp>(op))
      linears.push_back(linear);
  bool ofOneInput = linears.size() == plan.kernel.ops.size() &&
                    llvm::all_of(linears, [&](LinearOp linear) {
                      return linear.getInput() == linears[0].getInput();
                    });
  if (plan.kernel.ops.size() != 1 && !ofOneInput)
    return (*llvm::find_if(plan.kernel.ops, isLone))
        ->emitOpError("expected to be alone in its kernel, with views "
                      "of its operands and results");
  for (Operation *op : plan.kernel.ops)
    for (Value result : op->getResults())
      if (plan.kernel.resultsOf(result).size() != 1)
        return op->emitOpError(
            "expected every result to leave the kernel once");
  plan.lone.assign(plan.kernel.ops.begin(), plan.kernel.ops.end());
  if (!linears.empty()) {
    plan.tiles = linearTiles(linears, target);
    for (LinearOp linear : linears)
      if (failed(checkLinear(plan.kernel, linear)))
        return failure();
    return success();
  }
  Operation *op = plan.lone.front();
  if (auto sample = dyn_cast<SampleOp>(op)) {
    plan.tiles = sampleTiles(sample);
    return success(); // the op's verifier has seen all that matters
  }
  plan.tiles = attentionTiles(op, target);
  return checkAttention(plan.kernel, op);
}

static FailureOr<std::unique_ptr<KernelPlan>>
planKernel(func::FuncOp func, const TargetRecord &target) {
  FailureOr<KernelFunction> kernel = KernelFunction::get(func);
  if (failed(kernel))
    return failure();
  auto plan = std::make_unique<KernelPlan>();
  plan->kernel = std::move(*kernel);
  if (llvm::any_of(plan->kernel.ops, isLone)) {
    if (failed(planLone(*plan, target)))
      return failure();
    return plan;
  }
  FailureOr<std::unique_ptr<RowProgram>> rows = RowProgram::get(plan->kernel);
  if (failed(rows))
    return failure();
  plan->rows = std::move(*rows);
  plan->tiles = plan->rows->tiles;
  return plan;
}

FailureOr<KernelInterface> cpu::getKernelInterface(func::FuncOp kernel,
                                                   const TargetRecord &target) {
  FailureOr<std::unique_ptr<KernelPlan>> plan = planKernel(kernel, target);
  if (failed(plan))
    return failure();
  KernelInterface interface;
  interface.coordinates = (*plan)->kernel.coordinates;
  interface.hasExtent = (*plan)->kernel.extent > 0;
  interface.tiles = (*plan)->tiles;
  return interface;
}

FailureOr<OwningOpRef<ModuleOp>> cpu::emitKernels(ModuleOp module,
                                                  const TargetRecord &target) {
  module.getContext()
      ->loadDialect<arith::ArithDialect, func::FuncDialect, LLVM::LLVMDialect,
                    math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
                    vector::VectorDialect>();
  OwningOpRef<ModuleOp> emitted = ModuleOp::create(module.getLoc());
  for (auto func : module.getOps<func::FuncOp>()) {
    if (!func->hasAttr(HeddleDialect::kKernelAttr))
      continue;
    FailureOr<std::unique_ptr<KernelPlan>> plan = planKernel(func, target);
    if (failed(plan))
      return failure();
    KernelBuilder builder(*emitted, (*plan)->kernel, target);
    ArrayRef<Operation *> lone = (*plan)->lone;
    if ((*plan)->rows)
      (*plan)->rows->emit(builder);
    else if (isa<LinearOp>(lone.front()))
      emitLinears(builder, llvm::map_to_vector(lone, [](Operation *op) {
                    return cast<LinearOp>(op);
                  }));
    else if (auto sample = dyn_cast<SampleOp>(lone.front()))
      emitSample(builder, sample);
    else
      emitAttention(builder, lone.front());
  }
  return emitted;
}
