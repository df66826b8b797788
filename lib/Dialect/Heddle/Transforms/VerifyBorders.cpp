//===- VerifyBorders.cpp - What must hold between phases ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Comm/IR/CommDialect.h"
#include "heddle/Dialect/Heddle/IR/Layout.h"
#include "heddle/Dialect/Heddle/Transforms/Passes.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_VERIFYGLOBALPASS
#define GEN_PASS_DEF_VERIFYLOCALPASS
#include "heddle/Dialect/Heddle/Transforms/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;

/// Calls `check` for every tensor type that an op defines.
static void forEachType(func::FuncOp func,
                        function_ref<void(Operation *, Type)> check) {
  for (Type type : func.getArgumentTypes())
    check(func, type);
  func.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      check(op, type);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        if (op != func)
          for (Type type : block.getArgumentTypes())
            check(op, type);
  });
}

namespace {

struct VerifyGlobal : heddle::impl::VerifyGlobalPassBase<VerifyGlobal> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    bool ok = true;
    for (auto func : module.getOps<func::FuncOp>()) {
      if (func.isDeclaration() || isLocal(func))
        continue;
      if (failed(checkTensors(func))) {
        ok = false;
        continue;
      }
      auto symbol =
          func->getAttrOfType<FlatSymbolRefAttr>(HeddleDialect::kMeshAttr);
      auto mesh = symbol ? module.lookupSymbol<MeshOp>(symbol) : MeshOp();
      if (!mesh) {
        func.emitError() << "illegal after annotate: expected attribute '"
                         << HeddleDialect::kMeshAttr << "'";
        ok = false;
        continue;
      }
      forEachType(func, [&](Operation *op, Type type) {
        ShardingAttr sharding = getSharding(type);
        if (!sharding || sharding.getMesh() != symbol) {
          op->emitError() << "illegal after annotate: expected a sharding over "
                          << symbol << ", got " << type;
          ok = false;
          return;
        }
        if (failed(getLocalShape(mesh, cast<RankedTensorType>(type),
                                 [&]() { return op->emitError(); })))
          ok = false;
      });
    }
    if (!ok)
      signalPassFailure();
  }
};

struct VerifyLocal : heddle::impl::VerifyLocalPassBase<VerifyLocal> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    bool ok = true;
    for (auto func : module.getOps<func::FuncOp>()) {
      if (!isLocal(func)) {
        func.emitError() << "illegal after partition: function @"
                         << func.getName() << " is not local";
        ok = false;
        continue;
      }
      ok &= succeeded(checkTensors(func));
      forEachType(func, [&](Operation *op, Type type) {
        auto tensor = dyn_cast<RankedTensorType>(type);
        if (tensor && tensor.getEncoding()) {
          op->emitError() << "illegal after partition: " << type
                          << " carries an encoding";
          ok = false;
        }
      });
      auto symbol =
          func->getAttrOfType<FlatSymbolRefAttr>(HeddleDialect::kMeshAttr);
      auto mesh = symbol ? module.lookupSymbol<MeshOp>(symbol) : MeshOp();
      if (!mesh) {
        func.emitError() << "illegal after partition: expected attribute '"
                         << HeddleDialect::kMeshAttr << "'";
        ok = false;
        continue;
      }
      func.walk([&](Operation *op) {
        if (isa<ReshardOp>(op)) {
          op->emitError() << "illegal after partition: a reshard is left";
          ok = false;
        }
        auto group = op->getAttrOfType<ArrayAttr>("group");
        if (group && isa_and_nonnull<comm::CommDialect>(op->getDialect())) {
          SmallVector<AxisRefAttr> axes;
          for (Attribute axis : group)
            axes.push_back(cast<AxisRefAttr>(axis));
          if (failed(
                  getAxesSize(mesh, axes, [&]() { return op->emitError(); })))
            ok = false;
        }
      });
    }
    if (!ok)
      signalPassFailure();
  }
};

} // namespace
