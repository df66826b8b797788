//===- SerializePlan.cpp - Plans as FlatBuffers ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/IR/Layout.h"
#include "heddle/Target/Bundle/Bundle.h"
#include "heddle_rt/bundle.h"
#include "heddle_rt/plan_generated.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::heddle;
namespace fb = ::heddle::rt::fb;

namespace {

class Serializer {
public:
  Serializer(ModuleOp module, const cpu::TargetRecord &target)
      : module(module), target(target) {}

  FailureOr<std::vector<uint8_t>> run(StringRef interface);

private:
  LogicalResult memory(fb::RankClassT &rankClass);
  LogicalResult tensor(plan::TensorOp op, fb::RankClassT &rankClass);
  FailureOr<std::unique_ptr<fb::ProgramT>> program(plan::ProgramOp op);
  LogicalResult block(Block &from, fb::BlockT &to);
  LogicalResult instruction(Operation *op, fb::BlockT &to);
  FailureOr<std::vector<std::unique_ptr<fb::DimShardT>>>
  dims(RankedTensorType global, bool dropFirst, Location loc);
  std::unique_ptr<fb::OperandT> operand(plan::RefAttr ref, ValueRange scalars);
  int32_t scalar(Value value) {
    auto [it, fresh] = scalars.try_emplace(value, nextScalar);
    nextScalar += fresh;
    return it->second;
  }
  int32_t constant(fb::BlockT &to, int64_t value);
  int32_t table(std::string name, int64_t rows, int64_t cols,
                std::vector<int64_t> data);
  int32_t text(StringRef string);
  template <typename T> void push(fb::BlockT &to, T body, Operation *origin);

  ModuleOp module;
  const cpu::TargetRecord &target;
  MeshOp mesh;
  fb::PlanT result;
  llvm::StringMap<int32_t> regions, strings, kernels;
  // Of the program at hand.
  DenseMap<Value, int32_t> scalars;
  DenseMap<int64_t, int32_t> events; // by id of the collective
  std::vector<std::unique_ptr<fb::ParamT>> params;
  int32_t nextScalar = 0;
};

} // namespace

static FailureOr<fb::DType> dtypeOf(Type type, Location loc) {
  fb::DType dtype = TypeSwitch<Type, fb::DType>(type)
                        .Case<Float32Type>([](auto) { return fb::DType_f32; })
                        .Case<Float16Type>([](auto) { return fb::DType_f16; })
                        .Case<BFloat16Type>([](auto) { return fb::DType_bf16; })
                        .Case<Q4_0Type>([](auto) { return fb::DType_q4_0; })
                        .Case<Q4_1Type>([](auto) { return fb::DType_q4_1; })
                        .Case<Q5_0Type>([](auto) { return fb::DType_q5_0; })
                        .Case<Q5_1Type>([](auto) { return fb::DType_q5_1; })
                        .Case<Q8_0Type>([](auto) { return fb::DType_q8_0; })
                        .Case<Q6_KType>([](auto) { return fb::DType_q6_k; })
                        .Default([](Type t) {
                          return t.isInteger(32)  ? fb::DType_i32
                                 : t.isInteger(8) ? fb::DType_i8
                                                  : fb::DType_boolean;
                        });
  if (dtype == fb::DType_boolean) {
    emitError(loc) << "expected an element type that bundles have, got "
                   << type;
    return failure();
  }
  return dtype;
}

/// "model.layers.self_attn.o_proj" or "file.mlir:12:4".
static std::string locationText(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName().str();
  if (auto file = dyn_cast<FileLineColLoc>(loc))
    return (file.getFilename().getValue() + ":" + Twine(file.getLine()) + ":" +
            Twine(file.getColumn()))
        .str();
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    std::string text;
    for (Location part : fused.getLocations()) {
      std::string one = locationText(part);
      if (!one.empty() && text.find(one) == std::string::npos)
        text += (text.empty() ? "" : ", ") + one;
    }
    return text;
  }
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return locationText(call.getCallee());
  return "";
}

//===----------------------------------------------------------------------===//
// Small pieces
//===----------------------------------------------------------------------===//

int32_t Serializer::text(StringRef string) {
  if (string.empty())
    return -1;
  auto [it, fresh] =
      strings.try_emplace(string, static_cast<int32_t>(result.strings.size()));
  if (fresh)
    result.strings.push_back(string.str());
  return it->second;
}

int32_t Serializer::table(std::string name, int64_t rows, int64_t cols,
                          std::vector<int64_t> data) {
  for (auto [i, known] : llvm::enumerate(result.tables))
    if (known->rows == rows && known->cols == cols && known->data == data)
      return static_cast<int32_t>(i);
  auto entry = std::make_unique<fb::IntTableT>();
  entry->name = std::move(name);
  entry->rows = rows;
  entry->cols = cols;
  entry->data = std::move(data);
  result.tables.push_back(std::move(entry));
  return static_cast<int32_t>(result.tables.size()) - 1;
}

template <typename T>
void Serializer::push(fb::BlockT &to, T body, Operation *origin) {
  auto instr = std::make_unique<fb::InstrT>();
  instr->body.Set(std::move(body));
  if (origin) {
    instr->op = text(origin->getName().getStringRef());
    instr->location = text(locationText(origin->getLoc()));
  }
  to.instrs.push_back(std::move(instr));
}

int32_t Serializer::constant(fb::BlockT &to, int64_t value) {
  fb::ScalarInstrT instr;
  instr.dst = nextScalar++;
  instr.op = fb::ScalarOp_constant;
  instr.imm = value;
  int32_t index = instr.dst;
  push(to, std::move(instr), nullptr);
  return index;
}

std::unique_ptr<fb::OperandT> Serializer::operand(plan::RefAttr ref,
                                                  ValueRange values) {
  auto result = std::make_unique<fb::OperandT>();
  result->region = regions.lookup(ref.getRegion().getValue());
  result->base = ref.getBase();
  result->bytes = ref.getBytes();
  result->access = static_cast<fb::Access>(ref.getAccess());
  for (size_t i = 0; i < ref.getStrides().size(); ++i)
    result->terms.push_back(fb::Term(ref.getStrides()[i], ref.getModuli()[i],
                                     scalar(values[ref.getScalars()[i]])));
  return result;
}

FailureOr<std::vector<std::unique_ptr<fb::DimShardT>>>
Serializer::dims(RankedTensorType global, bool dropFirst, Location loc) {
  std::vector<std::unique_ptr<fb::DimShardT>> result;
  ShardingAttr sharding = getSharding(global);
  for (int64_t i = dropFirst ? 1 : 0; i < global.getRank(); ++i) {
    auto dim = std::make_unique<fb::DimShardT>();
    dim->size = global.getDimSize(i);
    dim->unit = 1;
    dim->slots = dim->size;
    if (sharding && !sharding.getDims()[i].isReplicated()) {
      FailureOr<Layout> layout =
          Layout::get(mesh, sharding.getDims()[i], dim->size,
                      [&]() { return emitError(loc); });
      if (failed(layout))
        return failure();
      dim->unit = layout->unit;
      dim->slots = layout->slots;
      // Whole axes; a sub-axis is written as a table over its axis.
      SmallVector<AxisRefAttr> whole;
      bool sub = false;
      for (AxisRefAttr axis : layout->axes) {
        sub |= !axis.isFull();
        auto full = AxisRefAttr::get(axis.getContext(), axis.getName());
        if (!llvm::is_contained(whole, full))
          whole.push_back(full);
      }
      int64_t rows = 1;
      for (AxisRefAttr axis : whole) {
        for (auto [n, name] : llvm::enumerate(mesh.getNames()))
          if (cast<StringAttr>(name).getValue() == axis.getName())
            dim->axes.push_back(static_cast<int32_t>(n));
        rows *= mesh.getAxisSize(axis.getName());
      }
      if (!layout->blocked || sub) {
        std::vector<int64_t> data(rows * layout->slots, -1);
        for (int64_t rank = 0; rank < mesh.getWorldSize(); ++rank)
          for (int64_t s = 0; s < layout->slots; ++s)
            data[getCoordinate(mesh, whole, rank) * layout->slots + s] =
                layout->unitAt(getCoordinate(mesh, layout->axes, rank), s);
        dim->map = table("layout_" + std::to_string(this->result.tables.size()),
                         rows, layout->slots, std::move(data));
      }
    }
    result.push_back(std::move(dim));
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Memory and named tensors
//===----------------------------------------------------------------------===//

LogicalResult Serializer::memory(fb::RankClassT &rankClass) {
  int64_t arena = 0;
  for (auto op : module.getOps<plan::RegionOp>()) {
    auto region = std::make_unique<fb::RegionT>();
    region->name = op.getSymName().str();
    region->space = 0;
    region->offset = op.getOffset();
    region->bytes = op.getSize();
    region->kind = static_cast<fb::RegionKind>(op.getKind());
    regions[region->name] = static_cast<int32_t>(rankClass.regions.size());
    arena = std::max<int64_t>(arena, op.getOffset() + op.getSize());
    rankClass.regions.push_back(std::move(region));
  }
  auto space = std::make_unique<fb::SpaceT>();
  space->name = "dev";
  space->kind = fb::SpaceKind_device;
  space->bytes = (arena + 4095) / 4096 * 4096;
  rankClass.spaces.push_back(std::move(space));
  return success();
}

LogicalResult Serializer::tensor(plan::TensorOp op, fb::RankClassT &rankClass) {
  BindingAttr binding = op.getBinding();
  auto global = cast<RankedTensorType>(op.getGlobal());
  FailureOr<fb::DType> dtype = dtypeOf(global.getElementType(), op.getLoc());
  bool stacked = !binding.getLayers().empty();
  auto layout = dims(global, stacked, op.getLoc());
  if (failed(dtype) || failed(layout))
    return failure();
  switch (binding.getKind()) {
  case BindingKind::Param: {
    auto recipe = std::make_unique<fb::RecipeT>();
    recipe->name = binding.getName().str();
    recipe->gguf_name = binding.getGgufName().str();
    if (binding.getRotaryHeads()) {
      recipe->gguf_transform = fb::SourceTransform_deinterleave_rows;
      recipe->heads = binding.getRotaryHeads();
    }
    for (int64_t layer : binding.getLayers())
      recipe->layers.push_back(static_cast<int32_t>(layer));
    recipe->operand = operand(op.getRef(), {});
    recipe->layer_stride = op.getStride();
    recipe->dtype = *dtype;
    recipe->packing = op.getPacking().str();
    recipe->dims = std::move(*layout);
    recipe->random_scale =
        static_cast<float>(binding.getScale().convertToDouble());
    recipe->random_offset =
        static_cast<float>(binding.getOffset().convertToDouble());
    rankClass.recipes.push_back(std::move(recipe));
    return success();
  }
  case BindingKind::State: {
    auto state = std::make_unique<fb::StateT>();
    state->name = binding.getName().str();
    state->operand = operand(op.getRef(), {});
    state->dtype = *dtype;
    state->dims = std::move(*layout);
    state->fill = static_cast<uint32_t>(binding.getFill());
    rankClass.states.push_back(std::move(state));
    return success();
  }
  case BindingKind::Input:
  case BindingKind::Output: {
    auto io = std::make_unique<fb::IOT>();
    io->name = binding.getName().str();
    io->operand = operand(op.getRef(), {});
    io->dtype = *dtype;
    io->dims = std::move(*layout);
    if (auto promise = op->getAttrOfType<ConsecutiveAttr>(
            HeddleDialect::kConsecutiveAttr)) {
      io->consecutive = promise.getBelow();
      if (promise.getWithin())
        io->within = promise.getWithin().str();
    }
    for (auto &program : rankClass.programs)
      if (program->name == op.getProgram())
        (binding.getKind() == BindingKind::Input ? program->inputs
                                                 : program->outputs)
            .push_back(std::move(io));
    return success();
  }
  }
  return failure();
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

LogicalResult Serializer::instruction(Operation *op, fb::BlockT &to) {
  auto define = [&](fb::ScalarInstrT instr) {
    instr.dst = scalar(op->getResult(0));
    push(to, std::move(instr), nullptr);
    return success();
  };
  if (auto c = dyn_cast<plan::ConstOp>(op)) {
    fb::ScalarInstrT instr;
    instr.op = fb::ScalarOp_constant;
    instr.imm = c.getValue();
    return define(std::move(instr));
  }
  if (auto c = dyn_cast<plan::CoordOp>(op)) {
    fb::ScalarInstrT instr;
    instr.op = fb::ScalarOp_coord;
    for (auto [n, name] : llvm::enumerate(mesh.getNames()))
      if (cast<StringAttr>(name).getValue() == c.getAxis())
        instr.imm = n;
    return define(std::move(instr));
  }
  if (auto extent = dyn_cast<plan::ExtentOp>(op)) {
    auto param = std::make_unique<fb::ParamT>();
    param->name = extent.getName().str();
    param->scalar = scalar(extent.getResult());
    param->lo = 1;
    param->hi = param->initial = extent.getMax();
    params.push_back(std::move(param));
    return success();
  }
  if (auto b = dyn_cast<plan::BinaryOp>(op)) {
    fb::ScalarInstrT instr;
    instr.op = static_cast<fb::ScalarOp>(b.getKind());
    instr.a = scalar(b.getLhs());
    instr.b = scalar(b.getRhs());
    return define(std::move(instr));
  }
  if (auto lookup = dyn_cast<plan::LookupOp>(op)) {
    fb::ScalarInstrT instr;
    instr.op = fb::ScalarOp_table;
    ArrayRef<int64_t> values = lookup.getValues();
    instr.imm = table("order_" + std::to_string(result.tables.size()),
                      values.size(), 1, {values.begin(), values.end()});
    instr.a = scalar(lookup.getIndex());
    instr.b = constant(to, 0);
    return define(std::move(instr));
  }
  if (auto launch = dyn_cast<plan::LaunchOp>(op)) {
    fb::LaunchT body;
    auto [it, fresh] = kernels.try_emplace(
        launch.getKernel(), static_cast<int32_t>(result.kernels.size()));
    if (fresh)
      result.kernels.push_back(launch.getKernel().str());
    body.kernel = it->second;
    for (Attribute ref : launch.getRefs())
      body.operands.push_back(
          operand(cast<plan::RefAttr>(ref), launch.getScalars()));
    for (Value value : launch.getScalars().take_front(launch.getBlockSize()))
      body.scalars.push_back(scalar(value));
    body.tiles = static_cast<int32_t>(launch.getTiles());
    push(to, std::move(body), op);
    return success();
  }
  if (auto gemm = dyn_cast<plan::GemmOp>(op)) {
    fb::GemmT body;
    body.a = operand(gemm.getA(), gemm.getScalars());
    body.b = operand(gemm.getB(), gemm.getScalars());
    body.c = operand(gemm.getC(), gemm.getScalars());
    body.m =
        gemm.getRows() ? scalar(gemm.getRows()) : constant(to, gemm.getM());
    body.m_max = gemm.getM();
    body.n = gemm.getN();
    body.k = gemm.getK();
    body.lda = body.ldb = gemm.getK();
    body.ldc = gemm.getN();
    body.panels = static_cast<int32_t>(gemm.getPanels());
    push(to, std::move(body), op);
    return success();
  }
  if (auto collective = dyn_cast<plan::CollectiveOp>(op)) {
    fb::CollectiveT body;
    FailureOr<fb::DType> dtype = dtypeOf(collective.getDtype(), op->getLoc());
    if (failed(dtype))
      return failure();
    body.kind = static_cast<fb::CollectiveKind>(collective.getKind());
    body.reduction = collective.getReduction() == "max" ? fb::Reduction_max
                                                        : fb::Reduction_sum;
    body.dtype = *dtype;
    body.source = operand(collective.getSource(), collective.getScalars());
    body.destination =
        operand(collective.getDestination(), collective.getScalars());
    body.elements = collective.getSome()
                        ? scalar(collective.getSome())
                        : constant(to, collective.getElements());
    body.max_elements = collective.getElements();
    for (Attribute attr : collective.getGroup()) {
      auto axis = cast<AxisRefAttr>(attr);
      if (!axis.isFull())
        return op->emitOpError(
                   "expected whole axes in a group, got a part of '")
               << axis.getName() << "'";
      for (auto [n, name] : llvm::enumerate(mesh.getNames()))
        if (cast<StringAttr>(name).getValue() == axis.getName())
          body.axes.push_back(static_cast<int32_t>(n));
    }
    body.id = static_cast<int32_t>(collective.getId());
    body.shift = static_cast<int32_t>(collective.getShift());
    push(to, std::move(body), op);
    if (collective.getAsync()) {
      // Each on a stream of its own, as far as there are some: none waits for
      // another one.
      constexpr int32_t kCommStreams = 7;
      auto event = static_cast<int32_t>(events.size());
      events[collective.getId()] = event;
      auto stream = static_cast<uint8_t>(1 + event % kCommStreams);
      to.instrs.back()->stream = stream;
      fb::RecordT record;
      record.event = event;
      push(to, std::move(record), op);
      to.instrs.back()->stream = stream;
    }
    return success();
  }
  if (auto wait = dyn_cast<plan::WaitOp>(op)) {
    fb::WaitT body;
    body.event = events.lookup(wait.getId());
    push(to, std::move(body), op);
    return success();
  }
  if (auto copy = dyn_cast<plan::CopyOp>(op)) {
    fb::CopyT body;
    body.source = operand(copy.getSource(), copy.getScalars());
    body.destination = operand(copy.getDestination(), copy.getScalars());
    push(to, std::move(body), op);
    return success();
  }
  if (auto loop = dyn_cast<plan::ForOp>(op)) {
    fb::ForT body;
    body.iv = scalar(loop.getBody().getArgument(0));
    body.lo = constant(to, 0);
    body.hi = constant(to, loop.getTrips());
    body.max_trips = loop.getTrips();
    body.body = std::make_unique<fb::BlockT>();
    if (failed(block(loop.getBody().front(), *body.body)))
      return failure();
    push(to, std::move(body), op);
    return success();
  }
  if (auto select = dyn_cast<plan::CaseOp>(op)) {
    fb::CaseT body;
    body.selector = scalar(select.getSelector());
    for (Region &region : select.getBlocks()) {
      body.blocks.push_back(std::make_unique<fb::BlockT>());
      if (failed(block(region.front(), *body.blocks.back())))
        return failure();
    }
    push(to, std::move(body), op);
    return success();
  }
  return op->emitOpError("expected an instruction that bundles have");
}

LogicalResult Serializer::block(Block &from, fb::BlockT &to) {
  for (Operation &op : from)
    if (failed(instruction(&op, to)))
      return failure();
  return success();
}

FailureOr<std::unique_ptr<fb::ProgramT>>
Serializer::program(plan::ProgramOp op) {
  auto program = std::make_unique<fb::ProgramT>();
  program->name = op.getSymName().str();
  program->body = std::make_unique<fb::BlockT>();
  scalars.clear();
  params.clear();
  events.clear();
  nextScalar = 0;
  if (failed(block(op.getBody().front(), *program->body)))
    return failure();
  program->scalars = nextScalar;
  program->params = std::move(params);
  return program;
}

FailureOr<std::vector<uint8_t>> Serializer::run(StringRef interface) {
  auto meshes = llvm::to_vector(module.getOps<MeshOp>());
  if (meshes.size() != 1) {
    module.emitError() << "expected one heddle.mesh, got " << meshes.size();
    return failure();
  }
  mesh = meshes[0];
  result.version = ::heddle::rt::kPlanVersion;
  for (auto [name, size] : llvm::zip(mesh.getNames(), mesh.getSizes())) {
    auto axis = std::make_unique<fb::AxisT>();
    axis->name = cast<StringAttr>(name).getValue().str();
    axis->size = static_cast<int32_t>(size);
    result.axes.push_back(std::move(axis));
  }
  result.rank_class = {0};
  auto rankClass = std::make_unique<fb::RankClassT>();
  rankClass->name = "all";
  if (failed(memory(*rankClass)))
    return failure();
  for (auto op : module.getOps<plan::ProgramOp>()) {
    FailureOr<std::unique_ptr<fb::ProgramT>> one = program(op);
    if (failed(one))
      return failure();
    rankClass->programs.push_back(std::move(*one));
  }
  for (auto op : module.getOps<plan::TensorOp>())
    if (failed(tensor(op, *rankClass)))
      return failure();
  result.classes.push_back(std::move(rankClass));
  result.cpu = llvm::join(target.required, ",");
  result.interface = interface.str();
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::Plan::Pack(builder, &result), fb::PlanIdentifier());
  return std::vector<uint8_t>(builder.GetBufferPointer(),
                              builder.GetBufferPointer() + builder.GetSize());
}

FailureOr<std::vector<uint8_t>>
mlir::heddle::serializePlan(ModuleOp module, const cpu::TargetRecord &target,
                            StringRef interface) {
  Serializer serializer(module, target);
  return serializer.run(interface);
}
