//===- HeddleToPlan.cpp - Scheduled programs to plans ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramEmitter.h"
#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Heddle/IR/Layout.h"

#include "llvm/ADT/StringMap.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_CONVERTHEDDLETOPLANPASS
#include "heddle/Conversion/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;

namespace {

/// A named tensor with a fixed place.
struct Named {
  BindingAttr binding;
  RankedTensorType local;
  Type global;
  FixedPlace place;
  int64_t bytes = 0;
  std::string program;
  Location loc;
  Attribute promise = {};
};

struct ConvertHeddleToPlan
    : heddle::impl::ConvertHeddleToPlanPassBase<ConvertHeddleToPlan> {
  using ConvertHeddleToPlanPassBase::ConvertHeddleToPlanPassBase;

  void runOnOperation() override {
    if (failed(convert()))
      signalPassFailure();
  }

  LogicalResult convert();
  FailureOr<FixedPlace> place(func::FuncOp program, BindingAttr binding,
                              Type type, Type global, Location loc);
  void emitMemory(OpBuilder &builder, int64_t workBytes);

  std::vector<Named> tensors;
  llvm::StringMap<size_t> byKey;
  /// Bytes of the regions param, state and io so far.
  int64_t paramBytes = 0, stateBytes = 0, ioBytes = 0;
};

} // namespace

static StringRef regionFor(BindingKind kind) {
  switch (kind) {
  case BindingKind::Param:
    return "param";
  case BindingKind::State:
    return "state";
  default:
    return "io";
  }
}

/// The fixed place of a named tensor: one for all programs, except that inputs
/// and outputs belong to a program.
FailureOr<FixedPlace> ConvertHeddleToPlan::place(func::FuncOp program,
                                                 BindingAttr binding, Type type,
                                                 Type global, Location loc) {
  auto local = cast<RankedTensorType>(type);
  BindingKind kind = binding.getKind();
  bool shared = kind == BindingKind::Param || kind == BindingKind::State;
  std::string key =
      (shared ? "" : program.getName().str()) + ":" + binding.getIdentity();
  auto [it, fresh] = byKey.try_emplace(key, tensors.size());
  if (!fresh) {
    Named &known = tensors[it->second];
    if (known.local != local || known.global != global) {
      InFlightDiagnostic diag = emitError(loc);
      diag << "expected '" << binding.getName() << "' to be " << known.global
           << " in every program, got " << global;
      diag.attachNote(known.loc) << "first seen here";
      return diag;
    }
    return known.place;
  }
  int64_t &used = kind == BindingKind::Param   ? paramBytes
                  : kind == BindingKind::State ? stateBytes
                                               : ioBytes;
  Named named{binding, local, global,
              {},      0,     shared ? "" : program.getName().str(),
              loc};
  named.place.region = regionFor(kind).str();
  named.place.offset = used;
  named.bytes = getTensorBytes(local);
  int64_t occupied = named.bytes;
  if (!binding.getLayers().empty()) {
    int64_t layers = binding.getLayers().size();
    if (local.getRank() < 1 || local.getDimSize(0) != layers)
      return emitError(loc)
             << "expected '" << binding.getName() << "' to be a stack of "
             << layers << " layers, got " << local;
    named.place.stride = alignUp(named.bytes / layers);
    occupied = named.place.stride * layers;
  }
  used = alignUp(used + occupied);
  tensors.push_back(named);
  return named.place;
}

void ConvertHeddleToPlan::emitMemory(OpBuilder &builder, int64_t workBytes) {
  Location loc = getOperation().getLoc();
  int64_t offset = 0;
  auto region = [&](StringRef name, int64_t size, plan::RegionKind kind) {
    plan::RegionOp::create(
        builder, loc, builder.getStringAttr(name), builder.getStringAttr("dev"),
        builder.getI64IntegerAttr(offset), builder.getI64IntegerAttr(size),
        plan::RegionKindAttr::get(&getContext(), kind));
    offset = alignUp(offset + size, 4096);
  };
  region("param", paramBytes, plan::RegionKind::Parameter);
  region("state", stateBytes, plan::RegionKind::State);
  region("io", ioBytes, plan::RegionKind::IO);
  region("work", workBytes, plan::RegionKind::Activation);
  for (const Named &named : tensors) {
    bool layered = !named.binding.getLayers().empty();
    auto access = named.binding.getKind() == BindingKind::Output
                      ? plan::Access::Write
                      : plan::Access::Read;
    int64_t bytes =
        layered ? named.bytes / named.local.getDimSize(0) : named.bytes;
    auto ref = plan::RefAttr::get(
        &getContext(), access,
        FlatSymbolRefAttr::get(&getContext(), named.place.region),
        named.place.offset, {}, {}, {}, bytes);
    PackingAttr packed = getPacking(named.local);
    StringRef packing =
        packed ? packed.getFormat() : StringRef(PackingAttr::kRowMajor);
    auto tensor = plan::TensorOp::create(
        builder, named.loc, named.binding, ref, TypeAttr::get(named.global),
        TypeAttr::get(named.local),
        builder.getI64IntegerAttr(named.place.stride),
        builder.getStringAttr(packing), builder.getStringAttr(named.program));
    if (named.promise)
      tensor->setAttr(HeddleDialect::kConsecutiveAttr, named.promise);
  }
}

LogicalResult ConvertHeddleToPlan::convert() {
  ModuleOp module = getOperation();
  FailureOr<cpu::TargetRecord> record = cpu::TargetRecord::get(target);
  if (failed(record))
    return module.emitError()
           << "expected target host, x86-64-v3 or x86-64-v4, got '" << target
           << "'";
  auto meshes = llvm::to_vector(module.getOps<MeshOp>());
  if (meshes.size() != 1)
    return module.emitError()
           << "expected one heddle.mesh, got " << meshes.size();
  SmallVector<func::FuncOp> programs;
  for (auto func : module.getOps<func::FuncOp>()) {
    if (failed(checkTensors(func)))
      return failure();
    if (func->hasAttr(HeddleDialect::kKernelAttr))
      continue;
    if (func.isDeclaration())
      return func.emitError() << "expected a program with a body, got none";
    programs.push_back(func);
  }

  struct Placed {
    func::FuncOp program;
    SmallVector<FixedPlace> arguments, results;
    std::unique_ptr<Placement> placement;
  };
  std::vector<Placed> all;
  for (func::FuncOp program : programs) {
    Placed placed;
    placed.program = program;
    for (BlockArgument argument : program.getArguments()) {
      unsigned i = argument.getArgNumber();
      auto binding =
          program.getArgAttrOfType<BindingAttr>(i, HeddleDialect::kBindingAttr);
      auto global =
          program.getArgAttrOfType<TypeAttr>(i, HeddleDialect::kGlobalAttr);
      if (!binding || !global)
        return program.emitError() << "expected argument " << i << " to have '"
                                   << HeddleDialect::kBindingAttr << "' and '"
                                   << HeddleDialect::kGlobalAttr << "'";
      FailureOr<FixedPlace> at = place(program, binding, argument.getType(),
                                       global.getValue(), argument.getLoc());
      if (failed(at))
        return failure();
      if (Attribute promise =
              program.getArgAttr(i, HeddleDialect::kConsecutiveAttr))
        tensors.back().promise = promise;
      placed.arguments.push_back(*at);
    }
    for (unsigned i = 0; i < program.getNumResults(); ++i) {
      auto binding = program.getResultAttrOfType<BindingAttr>(
          i, HeddleDialect::kBindingAttr);
      auto global =
          program.getResultAttrOfType<TypeAttr>(i, HeddleDialect::kGlobalAttr);
      if (!binding || !global)
        return program.emitError() << "expected result " << i << " to have '"
                                   << HeddleDialect::kBindingAttr << "' and '"
                                   << HeddleDialect::kGlobalAttr << "'";
      FailureOr<FixedPlace> at =
          place(program, binding, program.getResultTypes()[i],
                global.getValue(), program.getLoc());
      if (failed(at))
        return failure();
      placed.results.push_back(*at);
    }
    all.push_back(std::move(placed));
  }

  int64_t workBytes = 0, nextId = 0;
  int64_t peakActivation = 0, peakCommunication = 0;
  OpBuilder builder(&getContext());
  builder.setInsertionPointToEnd(module.getBody());
  SmallVector<Operation *> emitted;
  for (Placed &placed : all) {
    placed.placement = std::make_unique<Placement>(
        placed.program, placed.arguments, placed.results);
    if (failed(placed.placement->run()))
      return failure();
    int64_t peakAt = 0;
    int64_t bytes = allocateArena(placed.placement->storages, peakAt);
    if (bytes > workBytes) {
      workBytes = bytes;
      peakActivation = peakCommunication = 0;
      for (const Storage &s : placed.placement->storages)
        if (!s.fixed && s.bytes && s.first <= peakAt && peakAt <= s.last)
          (s.communication ? peakCommunication : peakActivation) += s.bytes;
    }
  }
  emitMemory(builder, workBytes);
  for (Placed &placed : all) {
    ProgramEmitter emitter(placed.program, *placed.placement, meshes[0],
                           *record, nextId);
    if (failed(emitter.run(builder)))
      return failure();
    numInstructions += emitter.instructions;
    numCopies += emitter.copies;
  }
  for (Placed &placed : all)
    placed.program.erase();

  int64_t arena = 0;
  for (auto region : module.getOps<plan::RegionOp>())
    arena =
        std::max(arena, alignUp(region.getOffset() + region.getSize(), 4096));
  module->setAttr(
      "plan.peak",
      builder.getDictionaryAttr(
          {builder.getNamedAttr("activation",
                                builder.getI64IntegerAttr(peakActivation)),
           builder.getNamedAttr("communication",
                                builder.getI64IntegerAttr(peakCommunication)),
           builder.getNamedAttr("arena", builder.getI64IntegerAttr(arena))}));
  module->setAttr("plan.target", builder.getStringAttr(target));
  if (memoryBudget > 0 && arena > memoryBudget)
    return module.emitError()
           << "expected an arena of at most "
           << static_cast<int64_t>(memoryBudget) << " bytes per rank, got "
           << arena << ": parameters " << paramBytes << ", state " << stateBytes
           << ", inputs and outputs " << ioBytes << ", work " << workBytes
           << "; use more ranks, a shorter sequence or a smaller batch";
  return success();
}
