//===- heddle-opt.cpp - Runs passes on MLIR text --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Comm/IR/CommDialect.h"
#include "heddle/Dialect/Heddle/IR/HeddleDialect.h"
#include "heddle/Dialect/Heddle/Transforms/Passes.h"
#include "heddle/Dialect/Plan/IR/PlanDialect.h"
#include "heddle/Dialect/Plan/Transforms/Passes.h"
#include "heddle/Target/CPU/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::heddle::HeddleDialect, mlir::comm::CommDialect,
                  mlir::plan::PlanDialect, mlir::func::FuncDialect>();
  mlir::registerTransformsPasses();
  mlir::heddle::registerHeddleTransformsPasses();
  mlir::heddle::registerHeddleConversionPasses();
  mlir::plan::registerPlanTransformsPasses();
  mlir::heddle::registerHeddleTargetCPUPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Heddle pass tool\n", registry));
}
