//===- StructureOps.cpp - Meshes, tables, reshard ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpHelpers.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::heddle;

//===----------------------------------------------------------------------===//
// mesh
//===----------------------------------------------------------------------===//

ParseResult MeshOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  SmallVector<Attribute> names;
  SmallVector<int64_t> sizes;
  if (parser.parseSymbolName(name, SymbolTable::getSymbolAttrName(),
                             result.attributes) ||
      parser.parseCommaSeparatedList(
          AsmParser::Delimiter::Square, [&]() -> ParseResult {
            std::string axis;
            if (parser.parseString(&axis) || parser.parseEqual())
              return failure();
            names.push_back(parser.getBuilder().getStringAttr(axis));
            return parser.parseInteger(sizes.emplace_back());
          }))
    return failure();
  result.addAttribute("names", parser.getBuilder().getArrayAttr(names));
  result.addAttribute("sizes", parser.getBuilder().getDenseI64ArrayAttr(sizes));
  return parser.parseOptionalAttrDict(result.attributes);
}

void MeshOp::print(OpAsmPrinter &printer) {
  printer << " ";
  printer.printSymbolName(getSymName());
  printer << " [";
  llvm::interleaveComma(
      llvm::zip(getNames(), getSizes()), printer, [&](auto pair) {
        printer << std::get<0>(pair) << " = " << std::get<1>(pair);
      });
  printer << "]";
  printer.printOptionalAttrDict((*this)->getAttrs(),
                                {"sym_name", "names", "sizes"});
}

LogicalResult MeshOp::verify() {
  // mesh_c1
  if (getNames().size() != getSizes().size())
    return emitOpError("expected one size per axis, got ")
           << getNames().size() << " names and " << getSizes().size()
           << " sizes";
  // mesh_c2
  int64_t world = 1;
  for (int64_t size : getSizes()) {
    if (size < 1 || size > (1 << 20))
      return emitOpError("expected axis sizes between 1 and 1048576, got ")
             << size;
    world *= size;
    if (world > (1 << 20))
      return emitOpError("expected at most 1048576 ranks, got more");
  }
  // mesh_c3
  llvm::StringSet<> seen;
  for (Attribute name : getNames()) {
    StringRef value = cast<StringAttr>(name).getValue();
    if (value.empty() || !seen.insert(value).second)
      return emitOpError("expected unique axis names that are not empty, got '")
             << value << "'";
  }
  return success();
}

int64_t MeshOp::getWorldSize() { return product(getSizes()); }

int64_t MeshOp::getAxisSize(StringRef name) {
  for (auto [axis, size] : llvm::zip(getNames(), getSizes()))
    if (cast<StringAttr>(axis).getValue() == name)
      return size;
  return 0;
}

//===----------------------------------------------------------------------===//
// table
//===----------------------------------------------------------------------===//

ParseResult TableOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  SmallVector<int64_t> values;
  int64_t rows = 0, cols = 0;
  if (parser.parseSymbolName(name, SymbolTable::getSymbolAttrName(),
                             result.attributes) ||
      parser.parseCommaSeparatedList(
          AsmParser::Delimiter::Square, [&]() -> ParseResult {
            size_t before = values.size();
            if (parser.parseCommaSeparatedList(
                    AsmParser::Delimiter::Square, [&]() {
                      return parser.parseInteger(values.emplace_back());
                    }))
              return failure();
            cols = rows == 0 ? values.size() - before : cols;
            ++rows;
            return success();
          }))
    return failure();
  Builder &b = parser.getBuilder();
  result.addAttribute("rows", b.getI64IntegerAttr(rows));
  result.addAttribute("cols", b.getI64IntegerAttr(cols));
  result.addAttribute("values", b.getDenseI64ArrayAttr(values));
  return parser.parseOptionalAttrDict(result.attributes);
}

void TableOp::print(OpAsmPrinter &printer) {
  printer << " ";
  printer.printSymbolName(getSymName());
  printer << " [";
  for (int64_t r = 0; r < static_cast<int64_t>(getRows()); ++r) {
    printer << (r ? ", [" : "[");
    llvm::interleaveComma(getValues().slice(r * getCols(), getCols()), printer);
    printer << "]";
  }
  printer << "]";
  printer.printOptionalAttrDict((*this)->getAttrs(),
                                {"sym_name", "rows", "cols", "values"});
}

LogicalResult TableOp::verify() {
  // table_c1
  if (getRows() < 1 || getCols() < 1 ||
      getRows() * getCols() != getValues().size())
    return emitOpError("expected ") << getRows() << " x " << getCols()
                                    << " entries, got " << getValues().size();
  // table_c2
  for (int64_t unit : getValues())
    if (unit < -1)
      return emitOpError("expected units of -1 or more, got ") << unit;
  return success();
}

//===----------------------------------------------------------------------===//
// reshard
//===----------------------------------------------------------------------===//

LogicalResult ReshardOp::verify() {
  // reshard_c1
  ShardingAttr from = getSharding(getInput().getType());
  ShardingAttr to = getSharding(getResult().getType());
  if (!from || !to || from.getMesh() != to.getMesh())
    return emitOpError("expected shardings over one mesh, got ")
           << getInput().getType() << " and " << getResult().getType();
  // reshard_c2
  for (AxisRefAttr axis : to.getPartialAxes())
    if (!llvm::is_contained(from.getPartialAxes(), axis))
      return emitOpError("expected no new pending reduction, got '")
             << axis.getName() << "'";
  return success();
}
