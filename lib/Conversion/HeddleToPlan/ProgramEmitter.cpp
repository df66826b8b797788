//===- ProgramEmitter.cpp - A placed program as plan instructions ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramEmitter.h"

#include "heddle/Dialect/Heddle/IR/Layout.h"

using namespace mlir;
using namespace mlir::heddle;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static int64_t product(ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  return n;
}

//===----------------------------------------------------------------------===//
// Scalars and addresses
//===----------------------------------------------------------------------===//

Value ProgramEmitter::constant(OpBuilder &builder, int64_t value) {
  return plan::ConstOp::create(builder, program.getLoc(), builder.getI64Type(),
                               builder.getI64IntegerAttr(value));
}

Value ProgramEmitter::coordinate(ArrayRef<AxisRefAttr> axes) {
  for (auto &[known, value] : coordinates)
    if (ArrayRef<AxisRefAttr>(known) == axes)
      return value;
  OpBuilder &b = *entry;
  Location loc = program.getLoc();
  Type i64 = b.getI64Type();
  Value result;
  for (AxisRefAttr axis : axes) {
    Value c =
        plan::CoordOp::create(b, loc, i64, b.getStringAttr(axis.getName()));
    int64_t full = mesh.getAxisSize(axis.getName());
    int64_t size = full;
    if (!axis.isFull()) {
      size = axis.getSubSize();
      int64_t minor = full / (axis.getPreSize() * size);
      c = plan::BinaryOp::create(b, loc, i64, plan::BinaryKind::FloorDiv, c,
                                 constant(b, minor));
      c = plan::BinaryOp::create(b, loc, i64, plan::BinaryKind::Mod, c,
                                 constant(b, size));
    }
    if (result) {
      result = plan::BinaryOp::create(b, loc, i64, plan::BinaryKind::Mul,
                                      result, constant(b, size));
      result =
          plan::BinaryOp::create(b, loc, i64, plan::BinaryKind::Add, result, c);
    } else {
      result = c;
    }
  }
  coordinates.push_back({SmallVector<AxisRefAttr>(axes), result});
  return result;
}

Value ProgramEmitter::validRows() {
  if (!extent)
    extent = plan::ExtentOp::create(
        *entry, program.getLoc(), entry->getI64Type(),
        entry->getStringAttr("valid_rows"),
        program->getAttrOfType<IntegerAttr>(HeddleDialect::kExtentAttr));
  return extent;
}

Value ProgramEmitter::validElements(RankedTensorType type, int64_t each) {
  if (!hasRowsOfTokens(type.getShape(), program->getAttrOfType<IntegerAttr>(
                                            HeddleDialect::kExtentAttr)))
    return Value();
  if (each == 1)
    return validRows();
  Value &count = elements[each];
  if (!count)
    count = plan::BinaryOp::create(*entry, program.getLoc(),
                                   entry->getI64Type(), plan::BinaryKind::Mul,
                                   validRows(), constant(*entry, each));
  return count;
}

plan::RefAttr ProgramEmitter::ref(const Place &place, int64_t bytes,
                                  plan::Access access, Refs &refs,
                                  int64_t extraStride, Value extra) {
  const Storage &storage = placement.storages[place.storage];
  SmallVector<int64_t> strides, scalars, moduli;
  auto add = [&](int64_t stride, Value value, int64_t modulus) {
    auto *it = llvm::find(refs.scalars, value);
    strides.push_back(stride);
    scalars.push_back(it - refs.scalars.begin());
    moduli.push_back(modulus);
    if (it == refs.scalars.end())
      refs.scalars.push_back(value);
  };
  for (const AddressTerm &term : place.terms) {
    LoopScalars loop = loops.lookup(term.loop);
    Value value = term.scalar == LoopScalar::Iteration ? loop.iteration
                  : term.scalar == LoopScalar::NextIteration
                      ? loop.nextIteration
                      : loop.ordinal;
    add(term.stride, value, term.modulus);
  }
  if (extra)
    add(extraStride, extra, 0);
  return plan::RefAttr::get(
      program.getContext(), access,
      FlatSymbolRefAttr::get(program.getContext(), storage.region),
      storage.offset + place.offset, strides, scalars, moduli, bytes);
}

void ProgramEmitter::emitCopies(Operation *op, OpBuilder &builder) {
  for (const NeededCopy &copy : placement.copiesBefore(op)) {
    Refs refs;
    auto from = ref(copy.from, copy.bytes, plan::Access::Read, refs);
    auto to = ref(copy.to, copy.bytes, plan::Access::Write, refs);
    plan::CopyOp::create(builder, op->getLoc(), from, to, refs.scalars);
    ++copies;
    ++instructions;
  }
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

LogicalResult ProgramEmitter::emitCall(func::CallOp call, OpBuilder &builder) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      call, call.getCalleeAttr());
  FailureOr<cpu::KernelInterface> interface =
      cpu::getKernelInterface(kernel, target);
  if (failed(interface))
    return failure();
  Refs refs;
  for (auto &axes : interface->coordinates)
    refs.scalars.push_back(coordinate(axes));
  if (interface->hasExtent) {
    Attribute rows = kernel->getAttr(HeddleDialect::kExtentAttr);
    if (program->getAttr(HeddleDialect::kExtentAttr) != rows)
      return call.emitOpError("expected '")
             << HeddleDialect::kExtentAttr << "' of the program to be " << rows
             << " as that of the kernel";
    refs.scalars.push_back(validRows());
  }
  int64_t block = refs.scalars.size();
  FailureOr<SmallVector<int64_t>> aliases = getKernelAliases(kernel);
  if (failed(aliases))
    return failure();
  SmallVector<Attribute> ranges;
  for (auto [i, operand] : llvm::enumerate(call.getOperands()))
    ranges.push_back(ref(placement.get(operand),
                         getTensorBytes(typeOf(operand)),
                         llvm::is_contained(*aliases, static_cast<int64_t>(i))
                             ? plan::Access::ReadWrite
                             : plan::Access::Read,
                         refs));
  for (auto [i, result] : llvm::enumerate(call.getResults()))
    if ((*aliases)[i] < 0)
      ranges.push_back(ref(placement.get(result),
                           getTensorBytes(typeOf(result)), plan::Access::Write,
                           refs));
  plan::LaunchOp::create(builder, call.getLoc(), call.getCalleeAttr(),
                         builder.getArrayAttr(ranges), refs.scalars,
                         builder.getI64IntegerAttr(block),
                         builder.getI64IntegerAttr(interface->tiles));
  ++instructions;
  return success();
}

void ProgramEmitter::emitGemm(LinearOp linear, OpBuilder &builder) {
  Refs refs;
  int64_t n = typeOf(linear.getWeight()).getDimSize(0);
  int64_t k = typeOf(linear.getWeight()).getDimSize(1);
  int64_t m = product(typeOf(linear.getResult()).getShape()) / n;
  auto place = [&](Value value, plan::Access access) {
    return ref(placement.get(value), getTensorBytes(typeOf(value)), access,
               refs);
  };
  auto a = place(linear.getInput(), plan::Access::Read);
  auto b = place(linear.getWeight(), plan::Access::Read);
  auto c = place(linear.getResult(), plan::Access::Write);
  // A panel is worth a task from about 2^19 multiply-adds on.
  int64_t panels = std::clamp<int64_t>(m * n * k >> 19, 1, 8);
  panels = std::min(panels, std::max<int64_t>(n / 16, 1));
  plan::GemmOp::create(
      builder, linear.getLoc(), a, b, c, refs.scalars,
      validElements(typeOf(linear.getResult()), 1),
      builder.getI64IntegerAttr(m), builder.getI64IntegerAttr(n),
      builder.getI64IntegerAttr(k), builder.getI64IntegerAttr(panels));
  ++instructions;
}

/// What a report should call the op that made a collective necessary.
static std::string originOf(Operation *op) {
  Operation *def = op->getOperand(0).getDefiningOp();
  if (!def)
    return op->getName().getStringRef().str();
  if (auto call = dyn_cast<func::CallOp>(def))
    return call.getCallee().str();
  return def->getName().stripDialect().str();
}

LogicalResult ProgramEmitter::emitCollective(Operation *op,
                                             OpBuilder &builder) {
  Value in = op->getOperand(0), out = op->getResult(0);
  RankedTensorType inType = typeOf(in), outType = typeOf(out);
  plan::CollectiveKind kind;
  // A dimension further in is gathered row by row: the chunks of one row are
  // contiguous.
  int64_t dim = 0, shift = 0;
  PartialKind reduction = PartialKind::Sum;
  if (auto reduce = dyn_cast<comm::AllReduceOp>(op)) {
    kind = plan::CollectiveKind::AllReduce;
    reduction = reduce.getKind();
  } else if (auto scatter = dyn_cast<comm::ReduceScatterOp>(op)) {
    kind = plan::CollectiveKind::ReduceScatter;
    reduction = scatter.getKind();
    dim = scatter.getDim();
  } else if (auto gather = dyn_cast<comm::AllGatherOp>(op)) {
    kind = plan::CollectiveKind::AllGather;
    dim = gather.getDim();
  } else if (auto exchange = dyn_cast<comm::AllToAllOp>(op);
             exchange && exchange.getSplitDim() == 0 &&
             exchange.getConcatDim() == 0) {
    kind = plan::CollectiveKind::AllToAll;
  } else if (auto permute = dyn_cast<comm::PermuteOp>(op)) {
    kind = plan::CollectiveKind::Permute;
    shift = permute.getShift();
  } else if (auto start = dyn_cast<comm::PermuteStartOp>(op)) {
    kind = plan::CollectiveKind::Permute;
    shift = start.getShift();
    begun[start.getResult()] = nextId;
  } else {
    return op->emitOpError("expected a collective that plans have: all_reduce, "
                           "reduce_scatter, all_gather, permute, or all_to_all "
                           "of chunks in the first dimension");
  }
  int64_t rows = product(inType.getShape().take_front(dim));
  int64_t elements =
      std::min(inType.getNumElements(), outType.getNumElements()) / rows;
  if (kind == plan::CollectiveKind::AllToAll)
    elements /= inType.getDimSize(0); // of one peer
  // What only travels may be bytes.
  Type dtype = inType.getElementType();
  if (int64_t block = getBlockElements(dtype); block > 1) {
    elements = elements / block * getBlockBytes(dtype);
    dtype = builder.getI8Type();
  }
  int64_t inBytes = getTensorBytes(inType) / rows;
  int64_t outBytes = getTensorBytes(outType) / rows;
  OpBuilder inner = builder;
  Value row;
  if (rows > 1) {
    auto loopOp = plan::ForOp::create(builder, op->getLoc(),
                                      builder.getI64IntegerAttr(rows));
    Block *body = new Block();
    loopOp.getBody().push_back(body);
    row = body->addArgument(builder.getI64Type(), op->getLoc());
    inner = OpBuilder::atBlockEnd(body);
  }
  Refs refs;
  bool inPlace = placement.get(in) == placement.get(out);
  auto source = ref(placement.get(in), inBytes,
                    inPlace ? plan::Access::ReadWrite : plan::Access::Read,
                    refs, inBytes, row);
  auto destination =
      ref(placement.get(out), outBytes,
          inPlace ? plan::Access::ReadWrite : plan::Access::Write, refs,
          outBytes, row);
  // Rows that come last are left out of sums.
  Value some;
  if (kind == plan::CollectiveKind::AllReduce)
    some = validElements(
        inType,
        inType.getRank() < 2 ? 0 : product(inType.getShape().drop_front(2)));
  auto reason = op->getAttrOfType<StringAttr>("reason");
  plan::CollectiveOp::create(
      inner, op->getLoc(),
      plan::CollectiveKindAttr::get(inner.getContext(), kind), source,
      destination, refs.scalars, some, TypeAttr::get(dtype),
      inner.getI64IntegerAttr(elements), op->getAttrOfType<ArrayAttr>("group"),
      inner.getI64IntegerAttr(nextId++), inner.getI64IntegerAttr(shift),
      inner.getStringAttr(stringifyPartialKind(reduction)), reason,
      inner.getStringAttr(originOf(op)),
      isa<comm::PermuteStartOp>(op) ? inner.getUnitAttr() : UnitAttr());
  ++instructions;
  return success();
}

LogicalResult ProgramEmitter::emitRepeat(RepeatOp repeat, OpBuilder &builder) {
  Location loc = repeat.getLoc();
  ArrayRef<int64_t> order = repeat.getOrder();
  auto loopOp = plan::ForOp::create(builder, loc,
                                    builder.getI64IntegerAttr(order.size()));
  Block *body = new Block();
  loopOp.getBody().push_back(body);
  Type i64 = builder.getI64Type();
  LoopScalars loop;
  loop.iteration = body->addArgument(i64, loc);
  OpBuilder inner = OpBuilder::atBlockEnd(body);
  loop.nextIteration =
      plan::BinaryOp::create(inner, loc, i64, plan::BinaryKind::Add,
                             loop.iteration, constant(inner, 1));
  if (repeat.getKinds().size() == 1) {
    loop.ordinal = loop.iteration;
    loops[repeat] = loop;
    if (failed(emitBlock(repeat.getKinds()[0].front(), inner)))
      return failure();
  } else {
    SmallVector<int64_t> ordinals;
    for (size_t i = 0; i < order.size(); ++i)
      ordinals.push_back(repeat.getOrdinal(i));
    loop.ordinal = plan::LookupOp::create(
        inner, loc, i64, inner.getDenseI64ArrayAttr(ordinals), loop.iteration);
    loops[repeat] = loop;
    Value kind = plan::LookupOp::create(
        inner, loc, i64, inner.getDenseI64ArrayAttr(order), loop.iteration);
    auto caseOp =
        plan::CaseOp::create(inner, loc, kind, repeat.getKinds().size());
    for (auto [from, to] : llvm::zip(repeat.getKinds(), caseOp.getBlocks())) {
      Block *block = new Block();
      to.push_back(block);
      OpBuilder b = OpBuilder::atBlockEnd(block);
      if (failed(emitBlock(from.front(), b)))
        return failure();
    }
  }
  ++instructions;
  return success();
}

LogicalResult ProgramEmitter::emitOp(Operation *op, OpBuilder &builder) {
  // Places, no work: others are in kernels.
  if (isa<SplitHeadsOp, MergeHeadsOp, TakeUnitsOp, SplitChunksOp, JoinChunksOp>(
          op))
    return success();
  if (auto repeat = dyn_cast<RepeatOp>(op))
    return emitRepeat(repeat, builder);
  if (auto call = dyn_cast<func::CallOp>(op))
    return emitCall(call, builder);
  if (auto linear = dyn_cast<LinearOp>(op);
      linear && linear->hasAttr(HeddleDialect::kGemmAttr)) {
    emitGemm(linear, builder);
    return success();
  }
  if (auto wait = dyn_cast<comm::WaitOp>(op)) {
    plan::WaitOp::create(
        builder, op->getLoc(),
        builder.getI64IntegerAttr(begun.lookup(wait.getStarted())));
    ++instructions;
    return success();
  }
  if (op->getDialect()->getNamespace() == "comm")
    return emitCollective(op, builder);
  return op->emitOpError("expected a scheduled program: run heddle-schedule "
                         "first");
}

LogicalResult ProgramEmitter::emitBlock(Block &block, OpBuilder &builder) {
  for (Operation &op : block) {
    emitCopies(&op, builder);
    if (op.hasTrait<OpTrait::IsTerminator>())
      break;
    if (failed(emitOp(&op, builder)))
      return failure();
  }
  return success();
}

LogicalResult ProgramEmitter::run(OpBuilder &builder) {
  auto planOp = plan::ProgramOp::create(
      builder, program.getLoc(), builder.getStringAttr(program.getName()));
  Block *block = new Block();
  planOp.getBody().push_back(block);
  // Coordinates stand before everything that uses them.
  OpBuilder body = OpBuilder::atBlockEnd(block);
  Operation *mark = plan::ConstOp::create(
      body, program.getLoc(), body.getI64Type(), body.getI64IntegerAttr(0));
  OpBuilder first(mark);
  entry = &first;
  // Hosts find it in every program that has one.
  if (program->hasAttr(HeddleDialect::kExtentAttr))
    validRows();
  LogicalResult result = emitBlock(program.front(), body);
  mark->erase();
  return result;
}
