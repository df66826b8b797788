//===- Equivalence.cpp - Partitioned programs against their global twins
//---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Reference/Equivalence.h"

#include "heddle_rt/weights.h"

#include <cmath>
#include <limits>
#include <optional>
#include <random>

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::reference;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static void draw(StringRef name, uint64_t seed, BindingAttr binding,
                 double *data, int64_t count) {
  std::vector<float> values(count);
  ::heddle::rt::drawRandom(
      seed, std::string_view(name.data(), name.size()), 0, count,
      static_cast<float>(binding.getScale().convertToDouble()),
      static_cast<float>(binding.getOffset().convertToDouble()), values.data());
  llvm::copy(values, data);
}

Tensor reference::drawParameter(BindingAttr binding, ArrayRef<int64_t> shape,
                                uint64_t seed) {
  Tensor result = Tensor::filled(shape, 0);
  ArrayRef<int64_t> layers = binding.getLayers();
  if (layers.empty()) {
    draw(binding.getName(), seed, binding, result.data.data(), result.size());
    return result;
  }
  int64_t size = result.size() / static_cast<int64_t>(layers.size());
  auto [prefix, suffix] = binding.getName().split("{i}");
  for (auto [i, layer] : llvm::enumerate(layers)) {
    std::string name = (prefix + std::to_string(layer) + suffix).str();
    draw(name, seed, binding, result.data.data() + i * size, size);
  }
  return result;
}

/// The number that a state's 32-bit fill pattern stands for.
static double decodeFill(int64_t fill, Type elementType) {
  uint32_t bits = static_cast<uint32_t>(fill);
  auto floatType = dyn_cast<FloatType>(elementType);
  if (!floatType)
    return static_cast<int32_t>(bits);
  unsigned width = floatType.getWidth();
  if (width > 32)
    return 0;
  const llvm::fltSemantics &semantics = floatType.getFloatSemantics();
  llvm::APFloat value(semantics, llvm::APInt(32, bits).trunc(width));
  bool inexact;
  value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven,
                &inexact);
  return value.convertToDouble();
}

Tensor reference::initialState(BindingAttr binding, RankedTensorType type) {
  return Tensor::filled(type.getShape(),
                        decodeFill(binding.getFill(), type.getElementType()));
}

/// How one sequence samples: every filter is on, and cuts something off.
static double drawSampling(StringRef name, std::mt19937_64 &random) {
  if (name == "seed")
    return static_cast<int32_t>(random());
  if (name == "top_k")
    return static_cast<double>(8 + random() % 32);
  // Quarters, which fp32 holds.
  double quarter = static_cast<double>(random() % 4) / 4;
  if (name == "temperature")
    return 0.5 + quarter;
  if (name == "top_p")
    return 0.125 + quarter;
  return quarter / 32; // min_p
}

/// Documents packed into sequences: for each token its number, and its place in
/// it. Lengths are random, up to the most that the program allows.
static std::vector<std::pair<int64_t, int64_t>>
drawDocuments(int64_t batch, int64_t width, int64_t most, uint64_t seed) {
  std::vector<std::pair<int64_t, int64_t>> tokens;
  std::mt19937_64 random(seed);
  for (int64_t b = 0; b < batch; ++b) {
    int64_t number = 3, place = 0;
    auto draw = [&] { return 1 + static_cast<int64_t>(random() % most); };
    for (int64_t j = 0, length = draw(); j < width; ++j, ++place) {
      if (place == length) {
        number += 1 + static_cast<int64_t>(random() % 5);
        place = 0;
        length = draw();
      }
      tokens.push_back({number, place});
    }
  }
  return tokens;
}

FailureOr<ProgramInputs> reference::drawInputs(func::FuncOp program,
                                               ArrayRef<int64_t> past,
                                               ArrayRef<int64_t> valid,
                                               int64_t vocabulary,
                                               uint64_t seed) {
  ProgramInputs inputs;
  if (vocabulary < 1)
    return program.emitOpError("expected a vocabulary of 1 or more, got ")
           << vocabulary;
  // Of programs that take documents: how long they may be.
  int64_t longest = 0;
  for (unsigned i = 0; i < program.getNumArguments(); ++i) {
    auto binding =
        program.getArgAttrOfType<BindingAttr>(i, HeddleDialect::kBindingAttr);
    if (binding && binding.getKind() == BindingKind::Input &&
        binding.getName() == "documents")
      longest = std::max<int64_t>(longest, 7);
    if (auto promise = program.getArgAttrOfType<ConsecutiveAttr>(
            i, HeddleDialect::kConsecutiveAttr);
        promise && promise.getWithin())
      longest = promise.getBelow();
  }
  for (unsigned i = 0; i < program.getNumArguments(); ++i) {
    auto binding =
        program.getArgAttrOfType<BindingAttr>(i, HeddleDialect::kBindingAttr);
    if (!binding || binding.getKind() != BindingKind::Input)
      continue;
    StringRef name = binding.getName();
    bool rows = name == "tokens" || name == "positions" || name == "documents";
    bool samples = name == "temperature" || name == "top_k" ||
                   name == "top_p" || name == "min_p" || name == "seed";
    if (!rows && !samples && name != "blocks" && name != "lengths" &&
        name != "last")
      continue;
    auto type = dyn_cast<RankedTensorType>(program.getArgumentTypes()[i]);
    int64_t rank = samples || name == "lengths" ? 1 : 2;
    if (!type || !type.hasStaticShape() || type.getRank() != rank)
      return program.emitOpError("expected input \"")
             << name << "\" of rank " << rank << ", got "
             << program.getArgumentTypes()[i];
    int64_t batch = type.getDimSize(0);
    int64_t width = rank == 2 ? type.getDimSize(1) : 1;
    if (static_cast<int64_t>(past.size()) != batch ||
        static_cast<int64_t>(valid.size()) != batch)
      return program.emitOpError("expected past and valid counts of ")
             << batch << " sequences, got " << past.size() << " and "
             << valid.size();
    Tensor tensor = Tensor::filled(type.getShape(), 0);
    std::mt19937_64 random(seed);
    std::vector<std::pair<int64_t, int64_t>> documents;
    if (rows && longest > 0)
      documents = drawDocuments(batch, width, longest, seed);
    for (int64_t b = 0; b < batch; ++b) {
      if (rows && valid[b] > width)
        return program.emitOpError("expected at most ")
               << width << " new tokens, got " << valid[b];
      for (int64_t j = 0; j < width; ++j) {
        double &value = tensor.data[b * width + j];
        if (name == "tokens")
          value = static_cast<double>(random() % vocabulary);
        else if (name == "documents")
          value = static_cast<double>(documents[b * width + j].first);
        else if (name == "positions" && j >= valid[b])
          value = -1;
        else if (name == "positions" && longest > 0)
          value = static_cast<double>(documents[b * width + j].second);
        else if (name == "positions")
          value = static_cast<double>(past[b] + j);
        else if (name == "blocks")
          value = static_cast<double>(b * width + j);
        else if (name == "lengths")
          value = static_cast<double>(past[b] + valid[b]);
        else if (samples)
          value = drawSampling(name, random);
        else
          value = static_cast<double>(std::max<int64_t>(valid[b] - 1, 0));
      }
    }
    inputs[name.str()] = std::move(tensor);
  }
  return inputs;
}

//===----------------------------------------------------------------------===//
// Matching
//===----------------------------------------------------------------------===//

namespace {

/// An argument or result of the global function and its local twin.
struct Pair {
  BindingAttr binding;
  unsigned global = 0, local = 0;
  /// Type of the global tensor, with the sharding that the local one has.
  RankedTensorType type;
};

/// Arguments and results look alike from here.
struct Side {
  func::FuncOp function;
  bool results;

  StringRef what() { return results ? "result" : "argument"; }
  TypeRange types() {
    return results ? TypeRange(function.getResultTypes())
                   : TypeRange(function.getArgumentTypes());
  }
  template <typename AttrTy> AttrTy attr(unsigned i, StringRef name) {
    return results ? function.getResultAttrOfType<AttrTy>(i, name)
                   : function.getArgAttrOfType<AttrTy>(i, name);
  }
  InFlightDiagnostic emitError() { return function.emitOpError(); }
};

} // namespace

/// Pairs every argument (or result) of `global` with that of the same kind and
/// name of `local`, in the order of `global`.
static FailureOr<std::vector<Pair>> match(Side global, Side local) {
  auto find = [](Side side, BindingAttr binding) -> std::optional<unsigned> {
    for (unsigned i = 0; i < side.types().size(); ++i) {
      auto other = side.attr<BindingAttr>(i, HeddleDialect::kBindingAttr);
      if (other && other.getIdentity() == binding.getIdentity())
        return i;
    }
    return std::nullopt;
  };
  for (Side side : {global, local})
    for (unsigned i = 0; i < side.types().size(); ++i) {
      auto binding = side.attr<BindingAttr>(i, HeddleDialect::kBindingAttr);
      if (!binding)
        return side.emitError() << "expected '" << HeddleDialect::kBindingAttr
                                << "' on " << side.what() << " " << i;
      if (find(side, binding) != i)
        return side.emitError() << "expected one " << side.what() << " named \""
                                << binding.getName() << "\", got two";
    }
  if (global.types().size() != local.types().size())
    return local.emitError()
           << "expected " << global.types().size() << " " << global.what()
           << "s as @" << global.function.getSymName() << " has, got "
           << local.types().size();
  std::vector<Pair> pairs;
  for (unsigned i = 0; i < global.types().size(); ++i) {
    Pair pair;
    pair.binding = global.attr<BindingAttr>(i, HeddleDialect::kBindingAttr);
    pair.global = i;
    std::optional<unsigned> twin = find(local, pair.binding);
    if (!twin)
      return local.emitError()
             << "expected " << stringifyBindingKind(pair.binding.getKind())
             << " \"" << pair.binding.getName() << "\" among the "
             << local.what() << "s";
    pair.local = *twin;
    auto attr = local.attr<TypeAttr>(*twin, HeddleDialect::kGlobalAttr);
    pair.type =
        attr ? dyn_cast<RankedTensorType>(attr.getValue()) : RankedTensorType();
    auto type = dyn_cast<RankedTensorType>(global.types()[i]);
    if (!pair.type || !type || pair.type.getShape() != type.getShape()) {
      InFlightDiagnostic diag = local.emitError();
      diag << "expected '" << HeddleDialect::kGlobalAttr << "' of "
           << local.what() << " " << *twin << " to be " << global.types()[i]
           << " with a sharding, got ";
      if (attr)
        diag << attr.getValue();
      else
        diag << "none";
      return diag;
    }
    pairs.push_back(pair);
  }
  return pairs;
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

namespace {

/// A state between two runs, in both forms.
struct State {
  Tensor global;
  std::vector<Tensor> local; // by rank
  RankedTensorType type;
};

class Checker {
public:
  explicit Checker(const EquivalenceOptions &options) : options(options) {}

  LogicalResult run(const EquivalenceRun &run);
  EquivalenceReport report;

private:
  FailureOr<std::vector<Tensor>> shardAll(const Tensor &tensor,
                                          RankedTensorType type, double pad);
  /// Gives an argument its value in both forms.
  LogicalResult bind(const Pair &pair, const EquivalenceRun &run,
                     Tensor &global, std::vector<Tensor> &local);
  LogicalResult compare(const Pair &pair, const EquivalenceRun &run,
                        const Tensor &want, ArrayRef<Tensor> parts);

  const EquivalenceOptions &options;
  MeshOp mesh;
  std::map<std::string, State> states;
};

} // namespace

FailureOr<std::vector<Tensor>>
Checker::shardAll(const Tensor &tensor, RankedTensorType type, double pad) {
  std::vector<Tensor> parts;
  for (int64_t rank = 0; rank < mesh.getWorldSize(); ++rank) {
    FailureOr<Tensor> part = shard(tensor, type, mesh, rank, pad);
    if (failed(part))
      return failure();
    parts.push_back(std::move(*part));
  }
  return parts;
}

LogicalResult Checker::bind(const Pair &pair, const EquivalenceRun &run,
                            Tensor &global, std::vector<Tensor> &local) {
  BindingAttr binding = pair.binding;
  StringRef name = binding.getName();
  ArrayRef<int64_t> shape = pair.type.getShape();
  bool isFloat = !isa<IntegerType>(pair.type.getElementType());
  double pad = isFloat ? std::numeric_limits<double>::quiet_NaN() : -1;
  auto it = states.find(name.str());
  switch (binding.getKind()) {
  case BindingKind::Param:
    if (!binding.getLayers().empty() &&
        (shape.empty() ||
         shape[0] != static_cast<int64_t>(binding.getLayers().size())))
      return run.global->emitOpError("expected parameter \"")
             << name << "\" to be a stack of " << binding.getLayers().size()
             << ", got " << pair.type;
    global = drawParameter(binding, shape, options.seed);
    pad = 0;
    break;
  case BindingKind::Input: {
    auto given = run.inputs.find(name.str());
    if (given != run.inputs.end()) {
      global = given->second;
      if (ArrayRef<int64_t>(global.shape) != shape)
        return run.global->emitOpError("expected a value of type ")
               << pair.type << " for input \"" << name
               << "\", got another shape";
    } else if (isFloat) {
      global =
          drawParameter(binding, shape,
                        options.seed + 1 + static_cast<uint64_t>(report.runs));
    } else {
      return run.global->emitOpError("expected a value for input \"")
             << name << "\", got none";
    }
    break;
  }
  case BindingKind::State:
    if (it != states.end()) {
      if (it->second.type != pair.type)
        return run.local->emitOpError("expected state \"")
               << name << "\" of type " << it->second.type
               << " as in earlier runs, got " << pair.type;
      global = it->second.global;
      local = it->second.local;
      return success();
    }
    global = initialState(binding, pair.type);
    break;
  case BindingKind::Output:
    return run.global->emitOpError("expected no argument bound as output, got "
                                   "\"")
           << name << "\"";
  }
  FailureOr<std::vector<Tensor>> parts = shardAll(global, pair.type, pad);
  if (failed(parts))
    return failure();
  local = std::move(*parts);
  return success();
}

/// Where a function's result comes from.
static Location resultLoc(func::FuncOp function, unsigned index) {
  return function.getBody().front().getTerminator()->getOperand(index).getLoc();
}

LogicalResult Checker::compare(const Pair &pair, const EquivalenceRun &run,
                               const Tensor &want, ArrayRef<Tensor> parts) {
  double largest = 0;
  for (double value : want.data)
    if (std::isfinite(value))
      largest = std::max(largest, std::abs(value));
  double tolerance = options.tolerance * largest;

  std::string what;
  llvm::raw_string_ostream(what)
      << stringifyBindingKind(pair.binding.getKind()) << " \""
      << pair.binding.getName() << "\" of @"
      << func::FuncOp(run.local).getSymName() << " in run " << report.runs;
  Location loc = resultLoc(run.local, pair.local);
  FailureOr<Tensor> got = unshard(parts, pair.type, mesh, tolerance, loc, what);
  if (failed(got))
    return failure();
  for (int64_t i = 0; i < want.size(); ++i) {
    double a = want.data[i], b = got->data[i];
    ++report.elements;
    if (a == b)
      continue;
    // Infinities and NaN are never close to anything.
    if (!(std::abs(a - b) <= tolerance)) {
      SmallVector<int64_t> index(want.shape.size());
      for (int64_t rest = i, d = want.rank(); d-- > 0; rest /= want.shape[d])
        index[d] = rest % want.shape[d];
      InFlightDiagnostic diag = mlir::emitError(loc);
      diag << "expected " << formatNumber(a) << " at [";
      llvm::interleaveComma(index, diag);
      diag << "] of " << what << ", got " << formatNumber(b);
      diag.attachNote(resultLoc(run.global, pair.global))
          << "the reference computes it here";
      return diag;
    }
    report.worst = std::max(report.worst, std::abs(a - b) / largest);
  }
  ++report.results;
  return success();
}

LogicalResult Checker::run(const EquivalenceRun &run) {
  func::FuncOp global = run.global, local = run.local;
  for (func::FuncOp function : {global, local})
    if (!llvm::hasSingleElement(function.getBody()))
      return function.emitOpError("expected a body of one block");
  auto meshName =
      local->getAttrOfType<FlatSymbolRefAttr>(HeddleDialect::kMeshAttr);
  mesh = meshName
             ? SymbolTable::lookupNearestSymbolFrom<MeshOp>(local, meshName)
             : MeshOp();
  if (!mesh)
    return local.emitOpError("expected '")
           << HeddleDialect::kMeshAttr << "' to name a heddle.mesh";
  FailureOr<std::vector<Pair>> arguments =
      match({global, /*results=*/false}, {local, /*results=*/false});
  FailureOr<std::vector<Pair>> results =
      match({global, /*results=*/true}, {local, /*results=*/true});
  if (failed(arguments) || failed(results))
    return failure();

  std::vector<Tensor> globalArguments(arguments->size());
  std::vector<std::vector<Tensor>> localArguments(
      mesh.getWorldSize(), std::vector<Tensor>(arguments->size()));
  for (const Pair &pair : *arguments) {
    std::vector<Tensor> parts;
    if (failed(bind(pair, run, globalArguments[pair.global], parts)))
      return failure();
    for (auto [rank, part] : llvm::enumerate(parts))
      localArguments[rank][pair.local] = std::move(part);
  }

  FailureOr<std::vector<Tensor>> want = evaluate(global, globalArguments);
  if (failed(want))
    return failure();
  FailureOr<std::vector<std::vector<Tensor>>> got =
      evaluateRanks(local, localArguments, options.local);
  if (failed(got))
    return failure();

  for (const Pair &pair : *results) {
    std::vector<Tensor> parts;
    for (std::vector<Tensor> &rank : *got)
      parts.push_back(std::move(rank[pair.local]));
    if (failed(compare(pair, run, (*want)[pair.global], parts)))
      return failure();
    if (pair.binding.getKind() == BindingKind::State)
      states[pair.binding.getName().str()] = {std::move((*want)[pair.global]),
                                              std::move(parts), pair.type};
  }
  ++report.runs;
  return success();
}

FailureOr<EquivalenceReport>
reference::checkEquivalence(ArrayRef<EquivalenceRun> runs,
                            const EquivalenceOptions &options) {
  Checker checker(options);
  for (const EquivalenceRun &run : runs)
    if (failed(checker.run(run)))
      return failure();
  return checker.report;
}
