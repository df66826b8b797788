//===- PlanDialect.h - What each rank does, as data -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_PLAN_IR_PLANDIALECT_H
#define HEDDLE_DIALECT_PLAN_IR_PLANDIALECT_H

#include "heddle/Dialect/Heddle/IR/HeddleDialect.h"

#include "heddle/Dialect/Plan/IR/PlanDialect.h.inc"
#include "heddle/Dialect/Plan/IR/PlanEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "heddle/Dialect/Plan/IR/PlanAttrs.h.inc"
#define GET_OP_CLASSES
#include "heddle/Dialect/Plan/IR/PlanOps.h.inc"

#endif // HEDDLE_DIALECT_PLAN_IR_PLANDIALECT_H
