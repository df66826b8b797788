//===- HeddleOps.td - All ops of the model dialect -*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

include "heddle/Dialect/Heddle/IR/HeddleLayerOps.td"
include "heddle/Dialect/Heddle/IR/HeddleLocalOps.td"
include "heddle/Dialect/Heddle/IR/HeddleStructureOps.td"
