//===- KernelBuilder.cpp - Arithmetic and control flow of a kernel --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

Type cpu::storageType(Type element) {
  if (element.isF16() || element.isBF16())
    return IntegerType::get(element.getContext(), 16);
  if (isa<Q8Type>(element))
    return IntegerType::get(element.getContext(), 32);
  if (getBlockElements(element) > 1)
    return IntegerType::get(element.getContext(), 8);
  return element;
}

Type cpu::laneType(Type element) {
  return isa<IntegerType>(element)
             ? element
             : Type(Float32Type::get(element.getContext()));
}

/// One-dimensional memory for a tensor.
static MemRefType memoryOf(RankedTensorType type) {
  Type element = storageType(type.getElementType());
  int64_t bytes = getTensorBytes(type);
  return MemRefType::get({bytes / ((element.getIntOrFloatBitWidth() + 7) / 8)},
                         element);
}

KernelBuilder::KernelBuilder(ModuleOp module, const KernelFunction &kernel,
                             const TargetRecord &target)
    : ImplicitLocOpBuilder(kernel.func.getLoc(), module.getContext()),
      kernel(kernel), target(target), module(module) {
  setInsertionPointToEnd(module.getBody());
  SmallVector<Type> types;
  for (RankedTensorType type : kernel.operands)
    types.push_back(memoryOf(type));
  size_t memories = types.size();
  size_t scalars = kernel.coordinates.size() + (kernel.extent ? 1 : 0);
  types.append(scalars + 2, getIndexType());
  auto function =
      func::FuncOp::create(*this, kernel.func.getSymName(),
                           FunctionType::get(getContext(), types, TypeRange()));
  function->setAttr(HeddleDialect::kKernelAttr, getUnitAttr());
  for (size_t i = 0; i < memories; ++i)
    function.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                        getUnitAttr());
  entry = function.addEntryBlock();
  setInsertionPointToStart(entry);
  func::ReturnOp::create(*this);
  setInsertionPoint(entry->getTerminator());
  for (size_t i = 0; i < memories; ++i)
    operands.push_back({entry->getArgument(i),
                        kernel.operands[i].getElementType(),
                        static_cast<bool>(getPacking(kernel.operands[i]))});
  for (size_t i = 0; i < kernel.coordinates.size(); ++i)
    coordinates.push_back(entry->getArgument(memories + i));
  if (kernel.extent)
    validRows = entry->getArgument(memories + scalars - 1);
  tile = entry->getArgument(types.size() - 2);
  tiles = entry->getArgument(types.size() - 1);
}

Value KernelBuilder::tileBegin(Value t, Value units) {
  return arith::DivUIOp::create(*this, imul(t, units), tiles);
}

Value KernelBuilder::rowsToCompute(int64_t rows) {
  if (!validRows || rows != kernel.extent)
    return index(rows);
  return arith::MinUIOp::create(*this, validRows, index(rows));
}

void KernelBuilder::forRowTiles(int64_t rows, int64_t size,
                                function_ref<void(Value, int64_t)> body) {
  int64_t whole = rows / size, rest = rows % size;
  auto tile = [&](Value i, ValueRange) {
    body(imul(i, size), size);
    return SmallVector<Value>();
  };
  auto last = [&] { body(index(whole * size), rest); };
  if (!validRows) {
    staticLoop(whole, 1, ValueRange(), tile);
    if (rest)
      last();
    return;
  }
  Value some = blocksToCompute(rows, size);
  Value end = arith::MinUIOp::create(*this, some, index(whole));
  loop(index(0), end, 1, ValueRange(), tile);
  if (rest)
    ifThen(icmp(arith::CmpIPredicate::ugt, some, index(whole)), last);
}

//===----------------------------------------------------------------------===//
// Types and constants
//===----------------------------------------------------------------------===//

VectorType KernelBuilder::lanesOf(Type element) const {
  return VectorType::get({target.lanes}, element);
}

Value KernelBuilder::index(int64_t value) {
  return arith::ConstantIndexOp::create(*this, value);
}

/// The scalar, or a vector of it.
static TypedAttr constantOf(Type type, TypedAttr scalar) {
  if (auto vector = dyn_cast<VectorType>(type))
    return DenseElementsAttr::get(vector, static_cast<Attribute>(scalar));
  return scalar;
}

Value KernelBuilder::constant(Type type, double value) {
  return arith::ConstantOp::create(
      *this, constantOf(type, getFloatAttr(getElementTypeOrSelf(type), value)));
}

Value KernelBuilder::constantInt(Type type, int64_t value) {
  return arith::ConstantOp::create(
      *this,
      constantOf(type, getIntegerAttr(getElementTypeOrSelf(type), value)));
}

Value KernelBuilder::splat(Value scalar, VectorType type) {
  return vector::BroadcastOp::create(*this, type, scalar);
}

Value KernelBuilder::iota() {
  SmallVector<int32_t> values(lanes());
  for (int64_t i = 0; i < lanes(); ++i)
    values[i] = static_cast<int32_t>(i);
  return arith::ConstantOp::create(
      *this, DenseElementsAttr::get(lanesOf(getI32Type()), ArrayRef(values)));
}

Value KernelBuilder::tailMask(int64_t count) {
  return vector::ConstantMaskOp::create(*this, lanesOf(getI1Type()),
                                        ArrayRef<int64_t>{count});
}

Type KernelBuilder::withElement(Type like, Type element) {
  if (auto vector = dyn_cast<VectorType>(like))
    return VectorType::get(vector.getShape(), element);
  return element;
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

Value KernelBuilder::iadd(Value a, Value b) {
  return arith::AddIOp::create(*this, a, b);
}
Value KernelBuilder::iadd(Value a, int64_t b) {
  return iadd(a, constantInt(a.getType(), b));
}
Value KernelBuilder::isub(Value a, Value b) {
  return arith::SubIOp::create(*this, a, b);
}
Value KernelBuilder::imul(Value a, Value b) {
  return arith::MulIOp::create(*this, a, b);
}
Value KernelBuilder::imul(Value a, int64_t b) {
  return imul(a, constantInt(a.getType(), b));
}
Value KernelBuilder::idiv(Value a, int64_t b) {
  return arith::DivUIOp::create(*this, a, constantInt(a.getType(), b));
}
Value KernelBuilder::irem(Value a, int64_t b) {
  return arith::RemUIOp::create(*this, a, constantInt(a.getType(), b));
}
Value KernelBuilder::iand(Value a, int64_t b) {
  return arith::AndIOp::create(*this, a, constantInt(a.getType(), b));
}
Value KernelBuilder::shiftRight(Value a, Value b) {
  return arith::ShRUIOp::create(*this, a, b);
}
Value KernelBuilder::shiftLeft(Value a, int64_t b) {
  return arith::ShLIOp::create(*this, a, constantInt(a.getType(), b));
}
Value KernelBuilder::icmp(arith::CmpIPredicate predicate, Value a, Value b) {
  return arith::CmpIOp::create(*this, predicate, a, b);
}
Value KernelBuilder::inRange(Value a, int64_t limit) {
  return icmp(arith::CmpIPredicate::ult, a, constantInt(a.getType(), limit));
}
Value KernelBuilder::toIndex(Value a) {
  return arith::IndexCastOp::create(*this, getIndexType(), a);
}
Value KernelBuilder::toI32(Value a) {
  return arith::IndexCastOp::create(*this, getI32Type(), a);
}
Value KernelBuilder::both(Value a, Value b) {
  return arith::AndIOp::create(*this, a, b);
}

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

Value KernelBuilder::fadd(Value a, Value b) {
  return arith::AddFOp::create(*this, a, b);
}
Value KernelBuilder::fsub(Value a, Value b) {
  return arith::SubFOp::create(*this, a, b);
}
Value KernelBuilder::fmul(Value a, Value b) {
  return arith::MulFOp::create(*this, a, b);
}
Value KernelBuilder::fdiv(Value a, Value b) {
  return arith::DivFOp::create(*this, a, b);
}
Value KernelBuilder::fma(Value a, Value b, Value c) {
  return math::FmaOp::create(*this, a, b, c);
}
Value KernelBuilder::fneg(Value a) { return arith::NegFOp::create(*this, a); }
Value KernelBuilder::sqrt(Value a) { return math::SqrtOp::create(*this, a); }
Value KernelBuilder::fcmp(arith::CmpFPredicate predicate, Value a, Value b) {
  return arith::CmpFOp::create(*this, predicate, a, b);
}
Value KernelBuilder::fmax(Value a, Value b) {
  return arith::MaximumFOp::create(*this, a, b);
}
Value KernelBuilder::fmin(Value a, Value b) {
  return arith::MinimumFOp::create(*this, a, b);
}
Value KernelBuilder::select(Value condition, Value a, Value b) {
  return arith::SelectOp::create(*this, condition, a, b);
}
Value KernelBuilder::bitcast(Value v, Type type) {
  return arith::BitcastOp::create(*this, type, v);
}

Value KernelBuilder::reduceTo(int64_t n, Value v,
                              function_ref<Value(Value, Value)> combine) {
  int64_t lanes = cast<VectorType>(v.getType()).getNumElements();
  while (lanes > n) {
    lanes /= 2;
    SmallVector<int64_t> low(lanes), high(lanes);
    for (int64_t i = 0; i < lanes; ++i) {
      low[i] = i;
      high[i] = lanes + i;
    }
    Value a = vector::ShuffleOp::create(*this, v, v, low);
    Value b = vector::ShuffleOp::create(*this, v, v, high);
    v = combine(a, b);
  }
  return v;
}

Value KernelBuilder::reduce(Value v,
                            function_ref<Value(Value, Value)> combine) {
  return vector::ExtractOp::create(*this, reduceTo(1, v, combine),
                                   ArrayRef<int64_t>{0});
}

Value KernelBuilder::reduceAdd(Value v) {
  return reduce(v, [&](Value a, Value b) { return fadd(a, b); });
}

void KernelBuilder::transpose(MutableArrayRef<Value> rows) {
  int64_t n = static_cast<int64_t>(rows.size());
  assert(n == lanes() && llvm::isPowerOf2_64(n));
  // Swaps the off-diagonal quarters of ever smaller blocks.
  for (int64_t half = n / 2; half > 0; half /= 2) {
    SmallVector<int64_t> upper(n), lower(n);
    for (int64_t i = 0; i < n; ++i) {
      upper[i] = i & half ? n + i - half : i;
      lower[i] = i & half ? n + i : i + half;
    }
    for (int64_t i = 0; i < n; ++i) {
      if (i & half)
        continue;
      Value a = rows[i], b = rows[i + half];
      rows[i] = vector::ShuffleOp::create(*this, a, b, upper);
      rows[i + half] = vector::ShuffleOp::create(*this, a, b, lower);
    }
  }
}

//===----------------------------------------------------------------------===//
// What processors have instructions for
//===----------------------------------------------------------------------===//

Value KernelBuilder::intrinsic(StringRef name, Type type,
                               ValueRange arguments) {
  StringAttr callee = getStringAttr(name);
  if (type)
    return LLVM::CallIntrinsicOp::create(*this, type, callee, arguments)
        .getResults();
  LLVM::CallIntrinsicOp::create(*this, callee, arguments);
  return {};
}

Value KernelBuilder::byRegisters(
    ArrayRef<Value> operands,
    function_ref<Value(ArrayRef<Value>)> instruction) {
  int64_t width = target.nativeLanes;
  if (lanes() <= width)
    return instruction(operands);
  Value whole;
  for (int64_t first = 0; first < lanes(); first += width) {
    SmallVector<Value> parts;
    for (Value v : operands)
      parts.push_back(vector::ExtractStridedSliceOp::create(
          *this, v, ArrayRef<int64_t>{first}, ArrayRef<int64_t>{width},
          ArrayRef<int64_t>{1}));
    Value part = instruction(parts);
    if (!whole) {
      auto type = VectorType::get({lanes()}, getElementTypeOrSelf(part));
      whole = arith::ConstantOp::create(*this, getZeroAttr(type));
    }
    whole = vector::InsertStridedSliceOp::create(
        *this, part, whole, ArrayRef<int64_t>{first}, ArrayRef<int64_t>{1});
  }
  return whole;
}

Value KernelBuilder::dot4(Value sum, Value u, Value s, int64_t most) {
  bool wide = target.nativeLanes == 16;
  return byRegisters({sum, u, s}, [&](ArrayRef<Value> v) -> Value {
    auto vectorOf = [&](int64_t width) {
      return VectorType::get({target.nativeLanes * 32 / width},
                             getIntegerType(width));
    };
    VectorType pairs = vectorOf(16), quads = vectorOf(32);
    Value u8 = bitcastVector(v[1], vectorOf(8));
    Value s8 = bitcastVector(v[2], vectorOf(8));
    if (target.vnni)
      return intrinsic("llvm.x86.avx512.vpdpbusd.512", quads, {v[0], u8, s8});
    StringRef join =
        wide ? "llvm.x86.avx512.pmaddw.d.512" : "llvm.x86.avx2.pmadd.wd";
    // Pairs of products in 16 bits, where they cannot saturate.
    if (most * 128 * 2 <= INT16_MAX) {
      Value products = intrinsic(wide ? "llvm.x86.avx512.pmaddubs.w.512"
                                      : "llvm.x86.avx2.pmadd.ub.sw",
                                 pairs, {u8, s8});
      return iadd(v[0],
                  intrinsic(join, quads, {products, constantInt(pairs, 1)}));
    }
    // Even and odd bytes, widened.
    Value eight = constantInt(pairs, 8);
    Value u16 = bitcastVector(v[1], pairs), s16 = bitcastVector(v[2], pairs);
    Value even = arith::ShRSIOp::create(*this, shiftLeft(s16, 8), eight);
    Value odd = arith::ShRSIOp::create(*this, s16, eight);
    Value total = iadd(v[0], intrinsic(join, quads, {iand(u16, 255), even}));
    return iadd(total, intrinsic(join, quads, {shiftRight(u16, eight), odd}));
  });
}

Value KernelBuilder::lookup16(ArrayRef<float> values, Value index) {
  if (target.nativeLanes == 16) {
    Value table = arith::ConstantOp::create(
        *this, DenseElementsAttr::get(lanesOf(getF32Type()), values));
    return intrinsic("llvm.x86.avx512.permvar.sf.512", table.getType(),
                     {table, index});
  }
  // No table of 16 fits a register: the values are steps of one.
  assert(llvm::all_of(llvm::enumerate(values), [&](auto v) {
    return v.value() == values[0] + static_cast<float>(v.index());
  }));
  return arith::SIToFPOp::create(
      *this, lanesOf(getF32Type()),
      iadd(iand(index, 15), static_cast<int64_t>(values[0])));
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

SmallVector<Value> KernelBuilder::loop(Value from, Value to, int64_t step,
                                       ValueRange carry, LoopBody body) {
  auto loop = scf::ForOp::create(*this, from, to, index(step), carry);
  OpBuilder::InsertionGuard guard(*this);
  if (carry.empty())
    setInsertionPoint(loop.getBody()->getTerminator());
  else
    setInsertionPointToEnd(loop.getBody());
  SmallVector<Value> next =
      body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!carry.empty())
    scf::YieldOp::create(*this, next);
  return SmallVector<Value>(loop.getResults());
}

void KernelBuilder::loop(Value from, Value to, int64_t step,
                         function_ref<void(Value)> body) {
  loop(from, to, step, ValueRange(), [&](Value iv, ValueRange) {
    body(iv);
    return SmallVector<Value>();
  });
}

SmallVector<Value> KernelBuilder::staticLoop(int64_t trips, int64_t unroll,
                                             ValueRange carry, LoopBody body) {
  if (trips > unroll)
    return loop(index(0), index(trips), 1, carry, body);
  SmallVector<Value> values(carry);
  for (int64_t i = 0; i < trips; ++i)
    values = body(index(i), values);
  return values;
}

void KernelBuilder::sweep(int64_t extent,
                          function_ref<void(Value at, Value mask)> body) {
  int64_t width = lanes(), whole = extent / width;
  staticLoop(whole, /*unroll=*/4, ValueRange(), [&](Value i, ValueRange) {
    body(imul(i, width), Value());
    return SmallVector<Value>();
  });
  if (int64_t tail = extent % width)
    body(index(whole * width), tailMask(tail));
}

SmallVector<Value> KernelBuilder::sweep(int64_t extent, int64_t unroll,
                                        ArrayRef<Value> initial, SweepStep step,
                                        SweepJoin join) {
  int64_t width = lanes();
  unroll = std::min(unroll, (extent + width - 1) / width);
  size_t count = initial.size();
  SmallVector<Value> carry;
  for (int64_t u = 0; u < unroll; ++u)
    llvm::append_range(carry, initial);
  auto set = [&](SmallVector<Value> &all, int64_t u) {
    return MutableArrayRef<Value>(all).slice(u * count, count);
  };
  int64_t trips = extent / (unroll * width);
  carry = staticLoop(trips, /*unroll=*/1, carry,
                     [&](Value trip, ValueRange values) {
                       SmallVector<Value> all(values);
                       Value at = imul(trip, unroll * width);
                       for (int64_t u = 0; u < unroll; ++u)
                         step(iadd(at, u * width), Value(), set(all, u));
                       return all;
                     });
  int64_t done = trips * unroll * width, u = 0;
  for (; done + width <= extent; done += width, ++u)
    step(index(done), Value(), set(carry, u));
  if (done < extent)
    step(index(done), tailMask(extent - done), set(carry, u));
  for (int64_t stride = 1; stride < unroll; stride *= 2)
    for (int64_t v = 0; v + stride < unroll; v += 2 * stride)
      join(set(carry, v), set(carry, v + stride));
  carry.truncate(count);
  return carry;
}

void KernelBuilder::ifThen(Value condition, function_ref<void()> then) {
  auto op = scf::IfOp::create(*this, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPoint(op.thenBlock()->getTerminator());
  then();
}

SmallVector<Value>
KernelBuilder::ifElse(Value condition, TypeRange types,
                      function_ref<SmallVector<Value>()> then,
                      function_ref<SmallVector<Value>()> otherwise) {
  auto op = scf::IfOp::create(*this, types, condition,
                              /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToEnd(op.thenBlock());
  scf::YieldOp::create(*this, then());
  setInsertionPointToEnd(op.elseBlock());
  scf::YieldOp::create(*this, otherwise());
  return SmallVector<Value>(op.getResults());
}

//===----------------------------------------------------------------------===//
// Rank tables
//===----------------------------------------------------------------------===//

Value KernelBuilder::tableRow(RankTableAttr attr) {
  int64_t coordinate = kernel.coordinateOf(attr);
  return coordinate < 0 ? index(0) : coordinates[coordinate];
}

Value KernelBuilder::tableEntry(RankTableAttr attr, Value column) {
  size_t used = tableRows(attr) * attr.getCols();
  Buffer values = table(attr.getValues().take_front(used), getI32Type());
  return loadScalar(values, iadd(imul(tableRow(attr), attr.getCols()), column));
}
