//===- heddle-check.cpp - Proves a plan against the reference -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles a model for a mesh, executes it on CPU ranks and compares every
// output and state, element by element, with the float64 reference of the
// program before annotation: at `partition` the local programs are executed by
// the reference itself on simulated ranks, at `plan` the bundle is executed by
// the runtime on in-process ranks whose memory was filled with NaNs.
//
//===----------------------------------------------------------------------===//

#include "../heddle-compile/ModelInput.h"
#include "heddle/Reference/Equivalence.h"
#include "heddle/Target/Bundle/Bundle.h"
#include "heddle_rt/bundle.h"
#include "heddle_rt/communicator.h"
#include "heddle_rt/convert.h"
#include "heddle_rt/session.h"

#include "mlir/Parser/Parser.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/SourceMgr.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace mlir::heddle;
namespace ref = mlir::heddle::reference;
namespace rt = ::heddle::rt;

namespace {

/// One call of a program: how many tokens each sequence had and brings.
struct Call {
  std::string program;
  SmallVector<int64_t> past, valid;
};

class Checker {
public:
  Checker(const CommandLine &cl, const ModelConfig &config, ModuleOp global,
          ModuleOp local)
      : cl(cl), config(config), global(global), local(local) {}

  /// 0 if everything agrees.
  int atPartition();
  int atPlan(const llvm::json::Object &report);

private:
  SmallVector<Call> calls();
  FailureOr<std::vector<ref::Tensor>> reference(const Call &call,
                                                const ref::ProgramInputs &in);
  bool compare(const Call &call, StringRef name, const ref::Tensor &want,
               const rt::HostTensor &got);

  const CommandLine &cl;
  const ModelConfig &config;
  ModuleOp global, local;
  std::map<std::string, ref::Tensor> params, states;
  int64_t elements = 0;
  double worst = 0;
};

} // namespace

/// Prompts of unequal length, in two chunks, then two decodes.
SmallVector<Call> Checker::calls() {
  SmallVector<Call> result;
  if (cl.program == "forward") {
    // The first sequence is whole, the others are shorter.
    SmallVector<int64_t> valid;
    for (int64_t b = 0; b < cl.batch; ++b)
      valid.push_back(std::max<int64_t>(1, cl.sequence - 2 * b));
    result.push_back({"forward", SmallVector<int64_t>(cl.batch, 0), valid});
    return result;
  }
  int64_t chunk = std::min(cl.chunk, cl.sequence);
  SmallVector<int64_t> past(cl.batch, 0);
  auto add = [&](StringRef program, SmallVector<int64_t> valid) {
    result.push_back({program.str(), past, valid});
    for (size_t b = 0; b < past.size(); ++b)
      past[b] += valid[b];
  };
  SmallVector<int64_t> first, second;
  for (int64_t b = 0; b < cl.batch; ++b) {
    first.push_back(chunk);
    second.push_back(std::max<int64_t>(1, chunk - 2 - b % 3));
  }
  if (chunk + chunk + 2 <= cl.sequence)
    add("prefill", first);
  add("prefill", second);
  SmallVector<int64_t> one(cl.batch, 1);
  for (int i = 0; i < 2; ++i)
    if (past[0] + 1 <= cl.sequence)
      add("decode", one);
  return result;
}

//===----------------------------------------------------------------------===//
// After partition: the reference on simulated ranks
//===----------------------------------------------------------------------===//

int Checker::atPartition() {
  SmallVector<ref::EquivalenceRun> runs;
  for (const Call &call : calls()) {
    auto g = global.lookupSymbol<func::FuncOp>(call.program);
    auto l = local.lookupSymbol<func::FuncOp>(call.program);
    if (!g || !l) {
      llvm::errs() << "error: expected a program '" << call.program << "'\n";
      return 1;
    }
    FailureOr<ref::ProgramInputs> inputs = ref::drawInputs(
        g, call.past, call.valid, config.vocabulary, cl.seed + runs.size());
    if (failed(inputs))
      return 1;
    runs.push_back({g, l, *inputs});
  }
  ref::EquivalenceOptions options;
  options.seed = cl.seed;
  FailureOr<ref::EquivalenceReport> report =
      ref::checkEquivalence(runs, options);
  if (failed(report))
    return 1;
  llvm::outs() << llvm::formatv(
      "equal at partition: {0} runs, {1} tensors, {2} elements, largest "
      "difference {3:E2} of the largest magnitude\n",
      report->runs, report->results, report->elements, report->worst);
  return 0;
}

//===----------------------------------------------------------------------===//
// The bundle itself
//===----------------------------------------------------------------------===//

/// What the loader stores of drawn values, and kernels read of it.
static void roundToStored(ref::Tensor &tensor, Type element) {
  std::optional<rt::DType> dtype;
  if (element.isBF16())
    dtype = rt::DType::bf16;
  else if (isa<Q8_0Type>(element))
    dtype = rt::DType::q8_0;
  if (!dtype)
    return;
  std::vector<float> values(tensor.data.begin(), tensor.data.end());
  int64_t count = static_cast<int64_t>(values.size());
  std::vector<uint8_t> stored(static_cast<size_t>(
      count / rt::blockElements(*dtype) * rt::blockBytes(*dtype)));
  rt::encodeFromFloat(*dtype, values.data(), count, stored.data());
  rt::decodeToFloat(*dtype, stored.data(), 0, count, values.data());
  tensor.data.assign(values.begin(), values.end());
}

/// Executes the global program; parameters are drawn once, as the runtime
/// draws them, and rounded to their stored type.
FailureOr<std::vector<ref::Tensor>>
Checker::reference(const Call &call, const ref::ProgramInputs &inputs) {
  auto func = global.lookupSymbol<func::FuncOp>(call.program);
  std::vector<ref::Tensor> arguments;
  for (BlockArgument argument : func.getArguments()) {
    auto binding = func.getArgAttrOfType<BindingAttr>(
        argument.getArgNumber(), HeddleDialect::kBindingAttr);
    auto type = cast<RankedTensorType>(argument.getType());
    std::string name = binding.getName().str();
    if (binding.getKind() == BindingKind::Input) {
      arguments.push_back(inputs.at(name));
      continue;
    }
    auto &known = binding.getKind() == BindingKind::Param ? params : states;
    if (binding.getKind() == BindingKind::Param)
      name = binding.getIdentity();
    auto it = known.find(name);
    if (it == known.end()) {
      bool isParam = binding.getKind() == BindingKind::Param;
      ref::Tensor tensor =
          isParam ? ref::drawParameter(binding, type.getShape(), cl.seed)
                  : ref::initialState(binding, type);
      if (isParam)
        roundToStored(tensor, type.getElementType());
      it = known.emplace(name, std::move(tensor)).first;
    }
    arguments.push_back(it->second);
  }
  FailureOr<std::vector<ref::Tensor>> results = ref::evaluate(func, arguments);
  if (failed(results))
    return failure();
  for (unsigned i = 0; i < func.getNumResults(); ++i) {
    auto binding =
        func.getResultAttrOfType<BindingAttr>(i, HeddleDialect::kBindingAttr);
    if (binding.getKind() == BindingKind::State)
      states[binding.getName().str()] = (*results)[i];
  }
  return results;
}

/// fp32 execution against float64: the tolerance is relative to the largest
/// magnitude of the reference's tensor.
bool Checker::compare(const Call &call, StringRef name, const ref::Tensor &want,
                      const rt::HostTensor &got) {
  constexpr double tolerance = 1e-5;
  double largest = 0;
  for (double v : want.data)
    largest = std::max(largest, std::fabs(v));
  bool isInteger = got.dtype == rt::DType::i32;
  if (got.bytes.size() != want.data.size() * 4) {
    llvm::errs() << "error: '" << name << "' of " << call.program
                 << ": expected " << want.data.size() << " elements, got "
                 << got.bytes.size() / 4 << "\n";
    return false;
  }
  for (size_t i = 0; i < want.data.size(); ++i) {
    double value;
    if (isInteger) {
      int32_t v;
      std::memcpy(&v, got.bytes.data() + 4 * i, 4);
      value = v;
    } else {
      float v;
      std::memcpy(&v, got.bytes.data() + 4 * i, 4);
      value = v;
    }
    double difference = std::fabs(value - want.data[i]);
    bool equal = isInteger ? difference == 0
                           : difference <= tolerance * std::max(largest, 1e-30);
    if (!equal) {
      std::string index;
      size_t rest = i;
      for (size_t d = want.shape.size(); d-- > 0;) {
        index = std::to_string(rest % want.shape[d]) +
                (index.empty() ? "" : ", ") + index;
        rest /= want.shape[d];
      }
      llvm::errs() << "error: '" << name << "' of " << call.program
                   << " differs first at [" << index << "]: expected "
                   << llvm::formatv("{0:E8}", want.data[i]) << ", got "
                   << llvm::formatv("{0:E8}", value)
                   << llvm::formatv(" (largest magnitude {0:E2})\n", largest);
      return false;
    }
    if (!isInteger && largest > 0)
      worst = std::max(worst, difference / largest);
  }
  elements += want.data.size();
  return true;
}

static rt::HostTensor toHost(const ref::Tensor &tensor, bool isInteger) {
  rt::HostTensor host;
  host.dtype = isInteger ? rt::DType::i32 : rt::DType::f32;
  host.shape = tensor.shape;
  host.bytes.resize(tensor.data.size() * 4);
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    if (isInteger) {
      int32_t v = static_cast<int32_t>(tensor.data[i]);
      std::memcpy(host.bytes.data() + 4 * i, &v, 4);
    } else {
      float v = static_cast<float>(tensor.data[i]);
      std::memcpy(host.bytes.data() + 4 * i, &v, 4);
    }
  }
  return host;
}

int Checker::atPlan(const llvm::json::Object &report) {
  auto refuse = [](const rt::Status &status) {
    llvm::errs() << "error: " << status.message() << "\n";
    return 1;
  };
  FailureOr<std::vector<uint8_t>> bytes = makeBundle(
      local, compileOptions(cl), report, interfaceJson(config, cl), "{}");
  if (failed(bytes))
    return 1;
  auto bundle = rt::Bundle::parse(std::move(*bytes));
  if (!bundle)
    return refuse(bundle.status());
  auto weights = rt::WeightSource::open("random:" + std::to_string(cl.seed));
  if (!weights)
    return refuse(weights.status());
  auto comm = rt::createInProcessCommunicator((*bundle)->worldSize());
  rt::SessionOptions sessionOptions;
  sessionOptions.poison = 0x7fc00000u;
  auto session = rt::Session::create(*bundle, *comm, sessionOptions);
  if (!session)
    return refuse(session.status());
  if (rt::Status s = (*session)->loadWeights(**weights, nullptr); !s.ok())
    return refuse(s);
  if (rt::Status s = (*session)->resetStates(); !s.ok())
    return refuse(s);

  int64_t tensors = 0, runs = 0;
  for (const Call &call : calls()) {
    auto func = global.lookupSymbol<func::FuncOp>(call.program);
    FailureOr<ref::ProgramInputs> inputs = ref::drawInputs(
        func, call.past, call.valid, config.vocabulary, cl.seed + runs);
    if (failed(inputs))
      return 1;
    // A draw in fp32 may be another one than in float64: where both are greedy
    // they differ only with the logits. Draws are compared at `partition`.
    if (auto it = inputs->find("temperature"); it != inputs->end())
      llvm::fill(it->second.data, 0.0);
    for (auto [i, type] : llvm::enumerate(func.getArgumentTypes())) {
      auto binding =
          func.getArgAttrOfType<BindingAttr>(i, HeddleDialect::kBindingAttr);
      auto input = inputs->find(binding.getName().str());
      if (binding.getKind() != BindingKind::Input || input == inputs->end())
        continue;
      bool isInteger =
          isa<IntegerType>(cast<RankedTensorType>(type).getElementType());
      if (rt::Status s = (*session)->setInput(call.program, input->first,
                                              toHost(input->second, isInteger));
          !s.ok())
        return refuse(s);
    }
    if (func->hasAttr(HeddleDialect::kExtentAttr))
      if (rt::Status s = (*session)->setParam(call.program, "valid_rows",
                                              *llvm::max_element(call.valid));
          !s.ok())
        return refuse(s);
    if (rt::Status s = (*session)->run(call.program); !s.ok())
      return refuse(s);
    FailureOr<std::vector<ref::Tensor>> want = reference(call, *inputs);
    if (failed(want))
      return 1;
    ++runs;
    for (unsigned i = 0; i < func.getNumResults(); ++i) {
      auto binding =
          func.getResultAttrOfType<BindingAttr>(i, HeddleDialect::kBindingAttr);
      std::string name = binding.getName().str();
      auto got = binding.getKind() == BindingKind::State
                     ? (*session)->state(name)
                     : (*session)->output(call.program, name);
      if (!got)
        return refuse(got.status());
      ref::Tensor expected = (*want)[i];
      // Rows of a forward that are invalid hold nothing.
      if (!compare(call, name, expected, *got))
        return 1;
      ++tensors;
    }
  }
  llvm::outs() << llvm::formatv(
      "equal at plan: {0} ranks, {1} runs, {2} tensors, {3} elements, largest "
      "difference {4:E2} of the largest magnitude\n",
      (*bundle)->worldSize(), runs, tensors, elements, worst);
  return 0;
}

static int run(CommandLine &cl) {
  DialectRegistry registry;
  registerCompileDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  // Messages name what is wrong; whole operations are for heddle-opt.
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context, llvm::errs());

  Location loc = FileLineColLoc::get(&context, cl.model, 1, 1);
  FailureOr<ModelConfig> read = readModelConfig(cl.model, loc);
  if (failed(read))
    return 1;
  ModelConfig config = cl.shrink ? shrink(*read) : *read;
  applyAttention(config, cl);
  FailureOr<OwningOpRef<ModuleOp>> global =
      importModel(&context, config, importOptions(cl));
  if (failed(global))
    return 1;
  CompileOptions options = compileOptions(cl);
  // int8 activations are part of what the program means.
  if (failed(runActivations(**global, options)))
    return 1;
  OwningOpRef<ModuleOp> local;
  Phase from = Phase::Import;
  Phase to = cl.at == "partition" ? Phase::Partition : Phase::Plan;
  if (cl.local.empty()) {
    local = (*global)->clone();
  } else {
    local = parseSourceFile<ModuleOp>(cl.local, sources, &context);
    from = Phase::Partition;
  }
  if (!local || failed(runPhases(*local, from, to, options)))
    return 1;
  Checker checker(cl, config, **global, *local);
  if (to == Phase::Partition)
    return checker.atPartition();
  FailureOr<llvm::json::Object> report =
      makeReport(*local, config.parameterCount());
  if (failed(report))
    return 1;
  return checker.atPlan(*report);
}

int main(int argc, char **argv) {
  CommandLine options;
  options.sequence = 24;
  options.chunk = 7;
  options.blockSize = 5;
  options.weights = "f32";
  int status = parseCommandLine(argc, argv, "heddle-check", options);
  return status >= 0 ? status : run(options);
}
