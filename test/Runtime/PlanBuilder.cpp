//===- PlanBuilder.cpp - Plans for tests ----------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

namespace heddle::rt::test {

Builder::Builder(std::vector<std::pair<std::string, int32_t>> axes) {
  plan.version = kPlanVersion;
  for (auto &[name, size] : axes) {
    plan.axes.push_back(std::make_unique<fb::AxisT>());
    plan.axes.back()->name = name;
    plan.axes.back()->size = size;
  }
  plan.rank_class = {0};
  plan.kernels = {"test_add", "test_affine", "test_count", "test_nothing",
                  "test_meet"};
  plan.classes.push_back(std::make_unique<fb::RankClassT>());
  cls().name = "all";
  cls().spaces.push_back(std::make_unique<fb::SpaceT>());
  cls().spaces.back()->name = "dev";
  cls().programs.push_back(std::make_unique<fb::ProgramT>());
  program().name = "main";
  program().body = std::make_unique<fb::BlockT>();
  open_.push_back(program().body.get());
}

int32_t Builder::region(int64_t bytes) {
  fb::SpaceT &space = *cls().spaces[0];
  cls().regions.push_back(std::make_unique<fb::RegionT>());
  fb::RegionT &region = *cls().regions.back();
  region.name = "r" + std::to_string(cls().regions.size() - 1);
  region.offset = (space.bytes + 63) / 64 * 64;
  region.bytes = bytes;
  space.bytes = region.offset + bytes;
  return static_cast<int32_t>(cls().regions.size()) - 1;
}

int32_t Builder::table(int64_t rows, int64_t cols, std::vector<int64_t> data) {
  plan.tables.push_back(std::make_unique<fb::IntTableT>());
  plan.tables.back()->name = "t" + std::to_string(plan.tables.size() - 1);
  plan.tables.back()->rows = rows;
  plan.tables.back()->cols = cols;
  plan.tables.back()->data = std::move(data);
  return static_cast<int32_t>(plan.tables.size()) - 1;
}

int32_t Builder::string(const std::string &text) {
  plan.strings.push_back(text);
  return static_cast<int32_t>(plan.strings.size()) - 1;
}

int32_t Builder::param(const std::string &name, int64_t lo, int64_t hi,
                       int64_t initial) {
  auto param = std::make_unique<fb::ParamT>();
  param->name = name;
  param->scalar = scalar();
  param->lo = lo;
  param->hi = hi;
  param->initial = initial;
  program().params.push_back(std::move(param));
  return program().params.back()->scalar;
}

fb::InstrT &Builder::add(fb::BodyUnion body) {
  auto instr = std::make_unique<fb::InstrT>();
  instr->body = std::move(body);
  open_.back()->instrs.push_back(std::move(instr));
  return *open_.back()->instrs.back();
}

void Builder::set(int32_t dst, fb::ScalarOp op, int32_t a, int32_t b, int32_t c,
                  int64_t imm) {
  fb::ScalarInstrT instr;
  instr.dst = dst;
  instr.op = op;
  instr.a = a;
  instr.b = b;
  instr.c = c;
  instr.imm = imm;
  emit(std::move(instr));
}

int32_t Builder::constant(int64_t value) {
  int32_t dst = scalar();
  set(dst, fb::ScalarOp_constant, -1, -1, -1, value);
  return dst;
}

int32_t Builder::coord(int32_t axis) {
  int32_t dst = scalar();
  set(dst, fb::ScalarOp_coord, -1, -1, -1, axis);
  return dst;
}

int32_t Builder::arith(fb::ScalarOp op, int32_t a, int32_t b, int32_t c) {
  int32_t dst = scalar();
  set(dst, op, a, b, c);
  return dst;
}

fb::InstrT &Builder::launch(Kernel kernel, std::vector<Operand> operands,
                            std::vector<int32_t> scalars, int32_t tiles) {
  fb::LaunchT launch;
  launch.kernel = kernel;
  launch.operands = std::move(operands);
  launch.scalars = std::move(scalars);
  launch.tiles = tiles;
  return emit(std::move(launch));
}

fb::InstrT &Builder::collective(fb::CollectiveKind kind, Operand source,
                                Operand destination, int32_t elements,
                                int64_t maxElements, std::vector<int32_t> axes,
                                int32_t id, fb::DType dtype) {
  fb::CollectiveT collective;
  collective.kind = kind;
  collective.dtype = dtype;
  collective.source = std::move(source);
  collective.destination = std::move(destination);
  collective.elements = elements;
  collective.max_elements = maxElements;
  collective.axes = std::move(axes);
  collective.id = id;
  return emit(std::move(collective));
}

int32_t Builder::beginFor(int32_t lo, int32_t hi, int64_t maxTrips) {
  int32_t iv = scalar();
  fb::ForT loop;
  loop.iv = iv;
  loop.lo = lo;
  loop.hi = hi;
  loop.max_trips = maxTrips;
  loop.body = std::make_unique<fb::BlockT>();
  open_.push_back(emit(std::move(loop)).body.AsFor()->body.get());
  return iv;
}

void Builder::beginWhile(int32_t condition, int64_t maxTrips) {
  fb::WhileT loop;
  loop.condition = condition;
  loop.max_trips = maxTrips;
  loop.body = std::make_unique<fb::BlockT>();
  open_.push_back(emit(std::move(loop)).body.AsWhile()->body.get());
}

void Builder::beginIf(int32_t condition) {
  fb::IfT branch;
  branch.condition = condition;
  branch.then_block = std::make_unique<fb::BlockT>();
  open_.push_back(emit(std::move(branch)).body.AsIf()->then_block.get());
}

void Builder::beginElse() {
  open_.pop_back();
  fb::IfT *branch = open_.back()->instrs.back()->body.AsIf();
  branch->else_block = std::make_unique<fb::BlockT>();
  open_.push_back(branch->else_block.get());
}

void Builder::beginCase(int32_t selector) {
  fb::CaseT branch;
  branch.selector = selector;
  cases_.push_back(emit(std::move(branch)).body.AsCase());
  open_.push_back(nullptr);
}

void Builder::beginBlock() {
  cases_.back()->blocks.push_back(std::make_unique<fb::BlockT>());
  open_.back() = cases_.back()->blocks.back().get();
}

void Builder::end() {
  if (!cases_.empty() && !cases_.back()->blocks.empty() &&
      cases_.back()->blocks.back().get() == open_.back())
    cases_.pop_back();
  open_.pop_back();
}

static std::unique_ptr<fb::IOT> makeIO(const std::string &name, Operand operand,
                                       fb::DType dtype,
                                       std::vector<fb::DimShardT> dims) {
  auto io = std::make_unique<fb::IOT>();
  io->name = name;
  io->operand = std::move(operand);
  io->dtype = dtype;
  for (fb::DimShardT &dim : dims)
    io->dims.push_back(std::make_unique<fb::DimShardT>(std::move(dim)));
  return io;
}

void Builder::input(const std::string &name, Operand operand, fb::DType dtype,
                    std::vector<fb::DimShardT> dims) {
  program().inputs.push_back(
      makeIO(name, std::move(operand), dtype, std::move(dims)));
}

void Builder::output(const std::string &name, Operand operand, fb::DType dtype,
                     std::vector<fb::DimShardT> dims) {
  program().outputs.push_back(
      makeIO(name, std::move(operand), dtype, std::move(dims)));
}

std::vector<uint8_t> Builder::pack(bool kernels) {
  flatbuffers::FlatBufferBuilder builder;
  fb::FinishPlanBuffer(builder, fb::Plan::Pack(builder, &plan));
  std::vector<BundleSection> sections;
  sections.push_back({"plan", std::string_view(reinterpret_cast<const char *>(
                                                   builder.GetBufferPointer()),
                                               builder.GetSize())});
  std::string library = kernels ? testKernels() : std::string();
  if (kernels)
    sections.push_back({"kernels/x86_64", library});
  sections.push_back({"contract", "{}"});
  return serializeBundle(sections);
}

std::shared_ptr<const Bundle> Builder::bundle() {
  Result<std::shared_ptr<const Bundle>> bundle = Bundle::parse(pack());
  EXPECT_TRUE(bundle.ok()) << bundle.status().message();
  return bundle.ok() ? bundle.take() : nullptr;
}

Operand at(int32_t region, int64_t base, int64_t bytes,
           std::vector<fb::Term> terms) {
  auto operand = std::make_unique<fb::OperandT>();
  operand->region = region;
  operand->base = base;
  operand->bytes = bytes;
  operand->terms = std::move(terms);
  operand->access = fb::Access_read_write;
  return operand;
}

fb::DimShardT whole(int64_t size) { return cut(size, 1, size, {}); }

fb::DimShardT cut(int64_t size, int64_t unit, int64_t slots,
                  std::vector<int32_t> axes, int32_t map) {
  fb::DimShardT dim;
  dim.size = size;
  dim.unit = unit;
  dim.slots = slots;
  dim.axes = std::move(axes);
  dim.map = map;
  return dim;
}

HostTensor floats(std::vector<int64_t> shape,
                  const std::vector<float> &values) {
  HostTensor tensor;
  tensor.dtype = DType::f32;
  tensor.shape = std::move(shape);
  tensor.bytes.resize(values.size() * sizeof(float));
  if (!values.empty())
    std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

std::vector<float> asFloats(const HostTensor &tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  if (!values.empty())
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

std::string testKernels() {
  std::ifstream file(HEDDLE_TEST_KERNELS, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TestSession::TestSession(std::shared_ptr<const Bundle> bundle,
                         SessionOptions options) {
  if (!bundle)
    return;
  comm = createInProcessCommunicator(bundle->worldSize());
  Result<std::unique_ptr<Session>> made =
      Session::create(bundle, *comm, options);
  EXPECT_TRUE(made.ok()) << made.status().message();
  if (made.ok())
    session = made.take();
}

} // namespace heddle::rt::test
