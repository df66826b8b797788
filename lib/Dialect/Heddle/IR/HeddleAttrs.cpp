//===- HeddleAttrs.cpp - Text forms and constraints of attributes ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/IR/HeddleDialect.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace mlir::heddle;

#include "heddle/Dialect/Heddle/IR/HeddleEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "heddle/Dialect/Heddle/IR/HeddleAttrs.cpp.inc"

void HeddleDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "heddle/Dialect/Heddle/IR/HeddleAttrs.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Shared pieces of syntax
//===----------------------------------------------------------------------===//

/// name | name:(pre)size
static FailureOr<AxisRefAttr> parseAxis(AsmParser &parser) {
  std::string name;
  if (parser.parseKeywordOrString(&name))
    return failure();
  int64_t pre = 1, size = 0;
  if (succeeded(parser.parseOptionalColon())) {
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseLParen() || parser.parseInteger(pre) ||
        parser.parseRParen() || parser.parseInteger(size))
      return failure();
    if (pre < 1 || size < 1)
      return parser.emitError(loc)
             << "expected positive sizes in sub-axis, got (" << pre << ")"
             << size;
  }
  return AxisRefAttr::get(parser.getContext(), name, pre, size);
}

static void printAxis(AsmPrinter &printer, AxisRefAttr axis) {
  printer.printKeywordOrString(axis.getName());
  if (!axis.isFull())
    printer << ":(" << axis.getPreSize() << ")" << axis.getSubSize();
}

/// { axis, … }
static ParseResult parseAxisSet(AsmParser &parser,
                                SmallVectorImpl<AxisRefAttr> &axes) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, [&]() {
    FailureOr<AxisRefAttr> axis = parseAxis(parser);
    if (failed(axis))
      return failure();
    axes.push_back(*axis);
    return success();
  });
}

static void printAxisSet(AsmPrinter &printer, ArrayRef<AxisRefAttr> axes) {
  printer << "{";
  llvm::interleaveComma(axes, printer,
                        [&](AxisRefAttr a) { printAxis(printer, a); });
  printer << "}";
}

/// {axis, …, unit = U, map = M}
static FailureOr<DimShardingAttr> parseDim(AsmParser &parser) {
  SmallVector<AxisRefAttr> axes;
  int64_t unit = 1, block = 1;
  MapKind map = MapKind::Block;
  FlatSymbolRefAttr table;
  SMLoc loc = parser.getCurrentLocation();
  auto parseOne = [&]() -> ParseResult {
    if (succeeded(parser.parseOptionalKeyword("unit")))
      return failure(parser.parseEqual() || parser.parseInteger(unit));
    if (succeeded(parser.parseOptionalKeyword("map"))) {
      StringRef keyword;
      SMLoc mapLoc;
      if (parser.parseEqual() || parser.getCurrentLocation(&mapLoc) ||
          parser.parseKeyword(&keyword))
        return failure();
      std::optional<MapKind> kind = symbolizeMapKind(keyword);
      if (!kind)
        return parser.emitError(mapLoc)
               << "expected a map: block, balanced, cyclic(b), zigzag, table "
                  "@t or data @t, got '"
               << keyword << "'";
      map = *kind;
      if (map == MapKind::Cyclic)
        return failure(parser.parseLParen() || parser.parseInteger(block) ||
                       parser.parseRParen());
      if (map == MapKind::Table || map == MapKind::Data) {
        StringAttr name;
        if (parser.parseSymbolName(name))
          return failure();
        table = FlatSymbolRefAttr::get(name);
      }
      return success();
    }
    FailureOr<AxisRefAttr> axis = parseAxis(parser);
    if (failed(axis))
      return failure();
    axes.push_back(*axis);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parseOne))
    return failure();
  auto attr = DimShardingAttr::getChecked(
      [&]() { return parser.emitError(loc); }, parser.getContext(), axes, unit,
      map, block, table);
  if (!attr)
    return failure();
  return attr;
}

static void printDim(AsmPrinter &printer, DimShardingAttr dim) {
  printer << "{";
  bool first = true;
  auto comma = [&]() {
    if (!first)
      printer << ", ";
    first = false;
  };
  for (AxisRefAttr axis : dim.getAxes()) {
    comma();
    printAxis(printer, axis);
  }
  if (dim.getUnit() != 1) {
    comma();
    printer << "unit = " << dim.getUnit();
  }
  if (dim.getMap() != MapKind::Block) {
    comma();
    printer << "map = " << stringifyMapKind(dim.getMap());
    if (dim.getMap() == MapKind::Cyclic)
      printer << "(" << dim.getBlock() << ")";
    if (dim.getTable()) {
      printer << " ";
      printer.printSymbolName(dim.getTable().getValue());
    }
  }
  printer << "}";
}

/// Two references overlap if one axis coordinate decides both.
static bool overlap(AxisRefAttr a, AxisRefAttr b) {
  if (a.getName() != b.getName())
    return false;
  if (a.isFull() || b.isFull())
    return true;
  int64_t aEnd = a.getPreSize() * a.getSubSize();
  int64_t bEnd = b.getPreSize() * b.getSubSize();
  return a.getPreSize() < bEnd && b.getPreSize() < aEnd;
}

static LogicalResult verifyDistinct(function_ref<InFlightDiagnostic()> emit,
                                    ArrayRef<AxisRefAttr> axes) {
  for (size_t i = 0; i < axes.size(); ++i)
    for (size_t j = i + 1; j < axes.size(); ++j)
      if (overlap(axes[i], axes[j]))
        return emit() << "expected each axis at most once, got '"
                      << axes[i].getName() << "' twice";
  return success();
}

//===----------------------------------------------------------------------===//
// axis, dim
//===----------------------------------------------------------------------===//

Attribute AxisRefAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  FailureOr<AxisRefAttr> axis = parseAxis(parser);
  if (failed(axis) || parser.parseGreater())
    return {};
  return *axis;
}

void AxisRefAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printAxis(printer, *this);
  printer << ">";
}

Attribute DimShardingAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  FailureOr<DimShardingAttr> dim = parseDim(parser);
  if (failed(dim) || parser.parseGreater())
    return {};
  return *dim;
}

void DimShardingAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printDim(printer, *this);
  printer << ">";
}

LogicalResult DimShardingAttr::verify(function_ref<InFlightDiagnostic()> emit,
                                      ArrayRef<AxisRefAttr> axes, int64_t unit,
                                      MapKind map, int64_t block,
                                      FlatSymbolRefAttr table) {
  // dim_c1
  if (unit < 1)
    return emit() << "expected a positive unit, got " << unit;
  // dim_c2
  if (block < 1)
    return emit() << "expected a positive cyclic block, got " << block;
  // dim_c3
  if (map != MapKind::Block && axes.empty())
    return emit() << "expected an axis with map = " << stringifyMapKind(map)
                  << ", got none";
  // dim_c4
  return verifyDistinct(emit, axes);
}

DimShardingAttr DimShardingAttr::withUnit(int64_t unit) const {
  return get(getContext(), getAxes(), unit, getMap(), getBlock(), getTable());
}

//===----------------------------------------------------------------------===//
// sharding
//===----------------------------------------------------------------------===//

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  StringAttr mesh;
  SmallVector<DimShardingAttr> dims;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseSymbolName(mesh) ||
      parser.parseComma() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() {
        FailureOr<DimShardingAttr> dim = parseDim(parser);
        if (failed(dim))
          return failure();
        dims.push_back(*dim);
        return success();
      }))
    return {};
  SmallVector<AxisRefAttr> partial;
  PartialKind kind = PartialKind::Sum;
  Type wire;
  if (succeeded(parser.parseOptionalComma())) {
    StringRef keyword;
    SMLoc kindLoc;
    if (parser.parseKeyword("partial") || parser.parseEqual() ||
        parser.getCurrentLocation(&kindLoc) || parser.parseKeyword(&keyword))
      return {};
    std::optional<PartialKind> parsed = symbolizePartialKind(keyword);
    if (!parsed) {
      parser.emitError(kindLoc)
          << "expected sum or max, got '" << keyword << "'";
      return {};
    }
    kind = *parsed;
    if (parseAxisSet(parser, partial))
      return {};
    if (succeeded(parser.parseOptionalKeyword("acc")))
      if (parser.parseKeyword("f32"))
        return {};
    if (succeeded(parser.parseOptionalKeyword("wire")))
      if (parser.parseType(wire))
        return {};
  }
  if (parser.parseGreater())
    return {};
  return getChecked([&]() { return parser.emitError(loc); },
                    parser.getContext(), FlatSymbolRefAttr::get(mesh), dims,
                    partial, kind, wire);
}

void ShardingAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printSymbolName(getMesh().getValue());
  printer << ", [";
  llvm::interleaveComma(getDims(), printer,
                        [&](DimShardingAttr d) { printDim(printer, d); });
  printer << "]";
  if (isPartial()) {
    printer << ", partial = " << stringifyPartialKind(getPartialKind());
    printAxisSet(printer, getPartialAxes());
    if (getWire())
      printer << " wire " << getWire();
  }
  printer << ">";
}

LogicalResult PackingAttr::verify(function_ref<InFlightDiagnostic()> emit,
                                  StringRef format) {
  // packing_c1
  if (format == kPanel16)
    return success();
  return emit() << "expected the packing '" << kPanel16 << "', got '" << format
                << "'";
}

LogicalResult
PackingAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                            function_ref<InFlightDiagnostic()> emit) const {
  if (!elementType) // the parser has refused it, but asks all the same
    return failure();
  // packing_c2
  if (shape.size() < 2)
    return emit() << "expected a packed tensor of rank 2 or more, got rank "
                  << shape.size();
  if (!canHold(elementType))
    return emit() << "expected elements that '" << getFormat()
                  << "' can hold (f16, bf16, q4_0, q4_1, q8_0), got "
                  << elementType;
  return success();
}

bool PackingAttr::canHold(Type elementType) {
  return isa<Float16Type, BFloat16Type, Q4_0Type, Q4_1Type, Q8_0Type>(
      elementType);
}

LogicalResult ShardingAttr::verify(function_ref<InFlightDiagnostic()> emit,
                                   FlatSymbolRefAttr mesh,
                                   ArrayRef<DimShardingAttr> dims,
                                   ArrayRef<AxisRefAttr> partialAxes,
                                   PartialKind partialKind, Type wire) {
  // sharding_c2
  SmallVector<AxisRefAttr> all(partialAxes);
  for (DimShardingAttr dim : dims)
    all.append(dim.getAxes().begin(), dim.getAxes().end());
  return verifyDistinct(emit, all);
}

LogicalResult
ShardingAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                             function_ref<InFlightDiagnostic()> emit) const {
  if (!elementType) // the parser has refused it, but asks all the same
    return failure();
  // sharding_c1
  if (shape.size() != getDims().size())
    return emit() << "expected one sharding entry per dimension ("
                  << shape.size() << "), got " << getDims().size();
  // sharding_c3
  int64_t elements = getBlockElements(elementType);
  if (elements > 1 && !getDims().empty() && !getDims().back().isReplicated() &&
      getDims().back().getUnit() % elements != 0)
    return emit() << "expected the unit of the innermost dimension to be a "
                     "multiple of the block of "
                  << elements << " of " << elementType << ", got "
                  << getDims().back().getUnit();
  return success();
}

bool ShardingAttr::isReplicated() const {
  return !isPartial() && llvm::all_of(getDims(), [](DimShardingAttr d) {
    return d.isReplicated();
  });
}

ShardingAttr ShardingAttr::withoutPartial() const {
  return get(getContext(), getMesh(), getDims(), {}, PartialKind::Sum, Type());
}

ShardingAttr ShardingAttr::withPartial(ArrayRef<AxisRefAttr> axes) const {
  return get(getContext(), getMesh(), getDims(), axes, PartialKind::Sum,
             Type());
}

ShardingAttr ShardingAttr::withDims(ArrayRef<DimShardingAttr> dims) const {
  return get(getContext(), getMesh(), dims, getPartialAxes(), getPartialKind(),
             getWire());
}

ShardingAttr ShardingAttr::getReplicated(FlatSymbolRefAttr mesh, int64_t rank) {
  SmallVector<DimShardingAttr> dims(rank,
                                    DimShardingAttr::get(mesh.getContext()));
  return get(mesh.getContext(), mesh, dims);
}

//===----------------------------------------------------------------------===//
// rank_table
//===----------------------------------------------------------------------===//

Attribute KeysAttr::parse(AsmParser &parser, Type) {
  StringRef keyword;
  SmallVector<AxisRefAttr> axes;
  SMLoc loc;
  if (parser.parseLess() || parser.getCurrentLocation(&loc) ||
      parser.parseKeyword(&keyword))
    return {};
  std::optional<KeyMethod> method = symbolizeKeyMethod(keyword);
  if (!method) {
    parser.emitError(loc) << "expected ring or merge, got '" << keyword << "'";
    return {};
  }
  if (parseAxisSet(parser, axes) || parser.parseGreater())
    return {};
  return getChecked([&]() { return parser.emitError(loc); },
                    parser.getContext(), *method, axes);
}

void KeysAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyKeyMethod(getMethod()) << " ";
  printAxisSet(printer, getAxes());
  printer << ">";
}

LogicalResult KeysAttr::verify(function_ref<InFlightDiagnostic()> emit,
                               KeyMethod, ArrayRef<AxisRefAttr> axes) {
  // keys_c1
  if (axes.empty())
    return emit() << "expected at least one axis that keys go round";
  return success();
}

Attribute RankTableAttr::parse(AsmParser &parser, Type) {
  SmallVector<AxisRefAttr> axes;
  SmallVector<int64_t> values;
  int64_t rows = 0, cols = -1;
  SMLoc loc = parser.getCurrentLocation();
  auto parseRow = [&]() -> ParseResult {
    int64_t count = 0;
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() {
          ++count;
          return parser.parseInteger(values.emplace_back());
        }))
      return failure();
    // rank_table_c1
    if (cols != -1 && cols != count)
      return parser.emitError(parser.getCurrentLocation())
             << "expected rows of " << cols << " entries, got " << count;
    cols = count;
    ++rows;
    return success();
  };
  if (parser.parseLess() || parseAxisSet(parser, axes) || parser.parseComma() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseRow) ||
      parser.parseGreater())
    return {};
  return getChecked([&]() { return parser.emitError(loc); },
                    parser.getContext(), axes, rows, std::max<int64_t>(cols, 0),
                    values);
}

void RankTableAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printAxisSet(printer, getAxes());
  printer << ", [";
  for (int64_t row = 0; row < getRows(); ++row) {
    printer << (row ? ", [" : "[");
    llvm::interleaveComma(getValues().slice(row * getCols(), getCols()),
                          printer);
    printer << "]";
  }
  printer << "]>";
}

LogicalResult RankTableAttr::verify(function_ref<InFlightDiagnostic()> emit,
                                    ArrayRef<AxisRefAttr> axes, int64_t rows,
                                    int64_t cols, ArrayRef<int64_t> values) {
  // rank_table_c1
  if (rows * cols != static_cast<int64_t>(values.size()))
    return emit() << "expected " << rows << " x " << cols << " entries, got "
                  << values.size();
  // rank_table_c2
  if (rows < 1 || (axes.empty() && rows != 1))
    return emit() << "expected one row where there are no axes, got " << rows;
  return success();
}

bool RankTableAttr::isUniform() const {
  for (int64_t row = 1; row < getRows(); ++row)
    if (getValues().slice(row * getCols(), getCols()) !=
        getValues().take_front(getCols()))
      return false;
  return true;
}

bool RankTableAttr::isIdentity() const {
  for (int64_t row = 0; row < getRows(); ++row)
    for (int64_t col = 0; col < getCols(); ++col)
      if (at(row, col) != col)
        return false;
  return true;
}

bool RankTableAttr::hasPadding() const {
  return llvm::any_of(getValues(), [](int64_t v) { return v < 0; });
}

//===----------------------------------------------------------------------===//
// binding
//===----------------------------------------------------------------------===//

Attribute BindingAttr::parse(AsmParser &parser, Type) {
  StringRef keyword;
  std::string name, gguf;
  SmallVector<int64_t> layers;
  int64_t heads = 0, fill = 0;
  double scale = 0.02, offset = 0;
  SMLoc loc;
  if (parser.parseLess() || parser.getCurrentLocation(&loc) ||
      parser.parseKeyword(&keyword))
    return {};
  std::optional<BindingKind> kind = symbolizeBindingKind(keyword);
  if (!kind) {
    parser.emitError(loc) << "expected param, input, state or output, got '"
                          << keyword << "'";
    return {};
  }
  if (parser.parseString(&name))
    return {};
  while (failed(parser.parseOptionalGreater())) {
    loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&keyword))
      return {};
    ParseResult ok = failure();
    if (keyword == "layers")
      ok = parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() {
        return parser.parseInteger(layers.emplace_back());
      });
    else if (keyword == "gguf")
      ok = parser.parseString(&gguf);
    else if (keyword == "rotary_rows")
      ok = parser.parseInteger(heads);
    else if (keyword == "scale")
      ok = parser.parseFloat(scale);
    else if (keyword == "offset")
      ok = parser.parseFloat(offset);
    else if (keyword == "fill")
      ok = parser.parseInteger(fill);
    else
      parser.emitError(loc) << "expected layers, gguf, rotary_rows, scale, "
                               "offset or fill, got '"
                            << keyword << "'";
    if (ok)
      return {};
  }
  return getChecked([&]() { return parser.emitError(loc); },
                    parser.getContext(), *kind, name, layers, gguf, heads,
                    APFloat(scale), APFloat(offset), fill);
}

void BindingAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyBindingKind(getKind()) << " ";
  printer.printString(getName());
  if (!getLayers().empty()) {
    printer << " layers [";
    llvm::interleaveComma(getLayers(), printer);
    printer << "]";
  }
  if (!getGgufName().empty()) {
    printer << " gguf ";
    printer.printString(getGgufName());
  }
  if (getRotaryHeads())
    printer << " rotary_rows " << getRotaryHeads();
  if (getScale().convertToDouble() != 0.02) {
    printer << " scale ";
    printer.printFloat(getScale());
  }
  if (!getOffset().isZero()) {
    printer << " offset ";
    printer.printFloat(getOffset());
  }
  if (getFill())
    printer << " fill " << getFill();
  printer << ">";
}

std::string BindingAttr::getIdentity() const {
  std::string identity;
  llvm::raw_string_ostream os(identity);
  os << stringifyBindingKind(getKind()) << " " << getName();
  for (int64_t layer : getLayers())
    os << " " << layer;
  return identity;
}

LogicalResult BindingAttr::verify(function_ref<InFlightDiagnostic()> emit,
                                  BindingKind kind, StringRef name,
                                  ArrayRef<int64_t> layers, StringRef gguf,
                                  int64_t rotaryHeads, APFloat scale,
                                  APFloat offset, int64_t fill) {
  // binding_c1
  if (layers.empty() == name.contains("{i}") ||
      (!layers.empty() && kind != BindingKind::Param))
    return emit() << "expected 'layers' exactly on parameters whose name holds "
                     "{i}, got \""
                  << name << "\" with " << layers.size() << " layers";
  // binding_c2
  if (name.empty())
    return emit() << "expected a name, got none";
  return success();
}

//===----------------------------------------------------------------------===//
// rope
//===----------------------------------------------------------------------===//

Attribute RopeAttr::parse(AsmParser &parser, Type) {
  int64_t dim = 0, original = 0;
  double theta = 0, factor = 1, low = 1, high = 1;
  RopeScaling scaling = RopeScaling::None;
  SMLoc loc;
  if (parser.parseLess() || parser.getCurrentLocation(&loc) ||
      parser.parseKeyword("dim") || parser.parseInteger(dim) ||
      parser.parseKeyword("theta") || parser.parseFloat(theta))
    return {};
  if (succeeded(parser.parseOptionalKeyword("linear"))) {
    scaling = RopeScaling::Linear;
    if (parser.parseFloat(factor))
      return {};
  } else if (succeeded(parser.parseOptionalKeyword("llama3"))) {
    scaling = RopeScaling::Llama3;
    if (parser.parseFloat(factor) || parser.parseKeyword("low") ||
        parser.parseFloat(low) || parser.parseKeyword("high") ||
        parser.parseFloat(high) || parser.parseKeyword("original") ||
        parser.parseInteger(original))
      return {};
  }
  if (parser.parseGreater())
    return {};
  return getChecked([&]() { return parser.emitError(loc); },
                    parser.getContext(), dim, APFloat(theta), scaling,
                    APFloat(factor), APFloat(low), APFloat(high), original);
}

void RopeAttr::print(AsmPrinter &printer) const {
  auto number = [&](const APFloat &v) { printer.printFloat(v); };
  printer << "<dim " << getDim() << " theta ";
  number(getTheta());
  if (getScaling() == RopeScaling::Linear) {
    printer << " linear ";
    number(getFactor());
  } else if (getScaling() == RopeScaling::Llama3) {
    printer << " llama3 ";
    number(getFactor());
    printer << " low ";
    number(getLowFactor());
    printer << " high ";
    number(getHighFactor());
    printer << " original " << getOriginalPositions();
  }
  printer << ">";
}

LogicalResult RopeAttr::verify(function_ref<InFlightDiagnostic()> emit,
                               int64_t dim, APFloat theta, RopeScaling scaling,
                               APFloat factor, APFloat low, APFloat high,
                               int64_t original) {
  auto positive = [](const APFloat &v) {
    return v.isFinite() && !v.isNegative() && !v.isZero();
  };
  // rope_c1
  if (dim < 2 || dim % 2)
    return emit() << "expected an even rotary dim, got " << dim;
  // rope_c2
  if (!positive(theta))
    return emit() << "expected a positive theta, got "
                  << theta.convertToDouble();
  // rope_c3
  if (!positive(factor))
    return emit() << "expected a positive scaling factor, got "
                  << factor.convertToDouble();
  // rope_c4
  if (scaling == RopeScaling::Llama3 &&
      (!positive(low) || !(high > low) || original < 1))
    return emit() << "expected 0 < low < high and original > 0 for llama3 "
                     "scaling, got low "
                  << low.convertToDouble() << ", high "
                  << high.convertToDouble() << ", original " << original;
  return success();
}

Attribute AlibiAttr::parse(AsmParser &parser, Type) {
  int64_t heads = 0;
  double bias = 0;
  SMLoc loc;
  if (parser.parseLess() || parser.getCurrentLocation(&loc) ||
      parser.parseKeyword("heads") || parser.parseInteger(heads) ||
      parser.parseKeyword("bias") || parser.parseFloat(bias) ||
      parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    heads, APFloat(bias));
}

void AlibiAttr::print(AsmPrinter &printer) const {
  printer << "<heads " << getHeads() << " bias ";
  printer.printFloat(getBias());
  printer << ">";
}

LogicalResult AlibiAttr::verify(function_ref<InFlightDiagnostic()> emit,
                                int64_t heads, APFloat bias) {
  // alibi_c1
  if (heads < 1)
    return emit() << "expected slopes of 1 head or more, got " << heads;
  // alibi_c2
  if (!bias.isFinite() || bias.isNegative() || bias.isZero())
    return emit() << "expected a positive bias, got " << bias.convertToDouble();
  return success();
}

SmallVector<double> AlibiAttr::slopes() const {
  double bias = getBias().convertToDouble();
  auto power =
      static_cast<int64_t>(llvm::bit_floor(static_cast<uint64_t>(getHeads())));
  SmallVector<double> result;
  for (int64_t i = 0; i < getHeads(); ++i) {
    // Slopes of 2 * power heads: the even-numbered ones are those of `power`.
    int64_t step = i < power ? 2 * (i + 1) : 2 * (i - power) + 1;
    result.push_back(std::exp2(-bias * static_cast<double>(step) /
                               static_cast<double>(2 * power)));
  }
  return result;
}

LogicalResult ConsecutiveAttr::verify(function_ref<InFlightDiagnostic()> emit,
                                      int64_t below, StringAttr within) {
  // consecutive_c1
  if (below < 1 || below > std::numeric_limits<int32_t>::max())
    return emit() << "expected positions below a number from 1 to 2147483647, "
                     "got "
                  << below;
  return success();
}

SmallVector<double> RopeAttr::inverseFrequencies() const {
  SmallVector<double> result;
  double theta = getTheta().convertToDouble();
  double factor = getFactor().convertToDouble();
  double low = getLowFactor().convertToDouble();
  double high = getHighFactor().convertToDouble();
  double original = static_cast<double>(getOriginalPositions());
  for (int64_t i = 0; i < getDim() / 2; ++i) {
    double f = std::pow(theta, -2.0 * i / getDim());
    if (getScaling() == RopeScaling::Linear)
      f /= factor;
    if (getScaling() == RopeScaling::Llama3) {
      double wavelength = 2 * M_PI / f;
      if (wavelength > original / low) {
        f /= factor;
      } else if (wavelength > original / high) {
        double smooth = (original / wavelength - low) / (high - low);
        f = (1 - smooth) * f / factor + smooth * f;
      }
    }
    result.push_back(f);
  }
  return result;
}
