//===- ModelBuilder.cpp - Programs of a decoder ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DecoderLayer.h"
#include "Problems.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::heddle;

namespace {

/// The 32-bit pattern of -1, the position of a slot that holds nothing.
constexpr int64_t kNoPosition = 4294967295;
constexpr StringLiteral kMeshName = "mesh";
constexpr StringLiteral kDocuments = "documents";

int64_t blocksPerSequence(const ImportOptions &options) {
  return (options.sequence + options.blockSize - 1) / options.blockSize;
}

/// Layers with the same body.
struct LayerKind {
  int64_t window = 0;
  /// What tells its states from another kind's; empty if there is no other.
  StringRef suffix;
  SmallVector<int64_t> layers;
};

/// A function's arguments or results, with what they are to the host.
struct Signature {
  SmallVector<Type> types;
  SmallVector<BindingAttr> bindings;
  SmallVector<Location> locs;
  /// The dimensions that a mesh may cut, and what the user calls their sizes.
  using Size = std::pair<int64_t, StringRef>;
  SmallVector<SmallVector<Size, 2>> sizes;

  size_t add(Type type, BindingAttr binding, Location loc,
             ArrayRef<Size> cut = {}) {
    types.push_back(type);
    bindings.push_back(binding);
    locs.push_back(loc);
    sizes.emplace_back(cut);
    return types.size() - 1;
  }
};

/// Decides what all programs of a model share, and builds the module.
class ModelBuilder {
public:
  ModelBuilder(MLIRContext *context, const ModelConfig &config,
               const ImportOptions &options)
      : context(context), config(config), options(options), builder(context),
        params(listParams(config)) {}

  OwningOpRef<ModuleOp> build();

private:
  friend class ProgramBuilder;

  void findKinds();
  void findTypes();
  Type chooseType(const ParamSpec &param, ArrayRef<int64_t> ofLayers);
  Type storedType(const ParamSpec &param, ArrayRef<int64_t> ofLayers);

  MLIRContext *context;
  const ModelConfig &config;
  const ImportOptions &options;
  OpBuilder builder;
  std::vector<ParamSpec> params;
  SmallVector<LayerKind> kinds;
  SmallVector<int64_t> order;
  /// Element types: [parameter][kind], one entry for what is not layered.
  std::vector<SmallVector<Type>> types;
  SmallVector<std::string> notes;
};

/// Builds one function: @forward, or @prefill or @decode with a cache.
class ProgramBuilder {
public:
  ProgramBuilder(ModelBuilder &model, StringRef name, int64_t tokens,
                 bool cached)
      : model(model), config(model.config), options(model.options),
        builder(model.builder), layers(builder, config), name(name),
        tokens(tokens), cached(cached),
        last(cached || options.output == "last"),
        hidden(!cached && options.output == "hidden"),
        paramArgs(model.kinds.size()) {}

  void build();

private:
  /// Sequences are several documents.
  bool packed() const { return !cached && options.packed > 0; }
  void declareInputs();
  void declareParams();
  void declareStates();
  void createFunction();
  void buildBeforeLayers();
  void buildLayers();
  void buildLayer(Region &region, size_t kind, ValueRange caches);
  void buildAfterLayers();
  void finishFunction();

  RankedTensorType ints(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, builder.getI32Type());
  }
  BindingAttr binding(BindingKind kind, StringRef what, int64_t fill = 0) {
    return BindingAttr::get(model.context, kind, what, {}, "", 0, APFloat(0.02),
                            APFloat(0.0), fill);
  }
  size_t addInput(StringRef what, RankedTensorType type) {
    return args.add(type, binding(BindingKind::Input, what), layers.at(what),
                    Signature::Size(0, "--batch"));
  }
  size_t addInput(StringRef what, ArrayRef<int64_t> shape) {
    return addInput(what, ints(shape));
  }
  size_t addParam(const ParamSpec &param, size_t kind);
  Signature::Size cutSize(ParamId id) const;
  void addResult(Value value, BindingKind kind, StringRef what) {
    returned.push_back(value);
    results.add(value.getType(), binding(kind, what), value.getLoc());
  }

  Value arg(size_t index) {
    return function.getBody().front().getArgument(index);
  }
  Value param(ParamId id, size_t kind = 0) {
    return arg(paramArgs[kind][static_cast<size_t>(id)]);
  }

  ModelBuilder &model;
  const ModelConfig &config;
  const ImportOptions &options;
  OpBuilder &builder;
  LayerBuilder layers;
  StringRef name;
  int64_t tokens;
  /// With a cache; logits of one row a sequence; no logits.
  bool cached, last, hidden;

  Signature args, results;
  size_t tokensArg = 0, positionsArg = 0, blocksArg = 0, lengthsArg = 0,
         lastArg = 0, keyPositionsArg = 0, documentsArg = 0;
  /// How to sample, with a cache.
  size_t temperatureArg = 0, topKArg = 0, topPArg = 0, minPArg = 0, seedArg = 0;
  /// [kind][id]; what is not layered is with kind 0.
  SmallVector<std::array<size_t, kParamIds>> paramArgs;
  /// Keys and values of each kind in turn.
  SmallVector<size_t> cacheArgs;
  func::FuncOp function;
  LayerInputs inputs;
  /// The residual stream as it goes.
  Value stream;
  SmallVector<Value> updatedCaches, returned;
};

/// Bits an element, to say which of two formats holds more.
double widthOf(StringRef type) {
  return llvm::StringSwitch<double>(type)
      .Case("f64", 64)
      .Case("f32", 32)
      .Cases({"f16", "bf16"}, 16)
      .Case("q8_0", 8.5)
      .Case("q6_k", 6.5625)
      .Case("q5_1", 6)
      .Case("q5_k", 5.5)
      .Case("q5_0", 5.5)
      .Case("q4_1", 5)
      .Case("q4_k", 4.5)
      .Case("q4_0", 4.5)
      .Case("q3_k", 3.4375)
      .Case("q2_k", 2.625)
      .Default(0);
}

/// The dialect's type of this name; null if it has none.
Type elementType(StringRef name, MLIRContext *context) {
  return llvm::StringSwitch<Type>(name)
      .Case("f32", Float32Type::get(context))
      .Case("f16", Float16Type::get(context))
      .Case("bf16", BFloat16Type::get(context))
      .Case("q4_0", Q4_0Type::get(context))
      .Case("q4_1", Q4_1Type::get(context))
      .Case("q5_0", Q5_0Type::get(context))
      .Case("q5_1", Q5_1Type::get(context))
      .Case("q8_0", Q8_0Type::get(context))
      .Case("q6_k", Q6_KType::get(context))
      .Default(Type());
}

} // namespace

//===----------------------------------------------------------------------===//
// Layers and element types
//===----------------------------------------------------------------------===//

void ModelBuilder::findKinds() {
  if (config.windowLayers.empty()) {
    LayerKind &kind = kinds.emplace_back();
    kind.window = config.window;
    for (int64_t i = 0; i < config.layers; ++i)
      kind.layers.push_back(i);
    order.assign(config.layers, 0);
    return;
  }
  for (auto [i, slides] : llvm::enumerate(config.windowLayers)) {
    int64_t window = slides ? config.window : 0;
    auto *kind = llvm::find_if(
        kinds, [&](const LayerKind &k) { return k.window == window; });
    if (kind == kinds.end()) {
      kinds.emplace_back();
      kind = &kinds.back();
      kind->window = window;
    }
    kind->layers.push_back(static_cast<int64_t>(i));
    order.push_back(kind - kinds.begin());
  }
  if (kinds.size() > 1)
    for (LayerKind &kind : kinds)
      kind.suffix = kind.window ? ".window" : ".full";
}

void ModelBuilder::findTypes() {
  for (const ParamSpec &param : params) {
    SmallVector<Type> &ofKinds = types.emplace_back();
    if (!param.isLayered())
      ofKinds.push_back(chooseType(param, {0}));
    else
      for (const LayerKind &kind : kinds)
        ofKinds.push_back(chooseType(param, kind.layers));
  }
}

Type ModelBuilder::chooseType(const ParamSpec &param,
                              ArrayRef<int64_t> ofLayers) {
  Type f32 = builder.getF32Type();
  if (options.weights == "f32" || param.role != ParamRole::Matrix)
    return f32;
  if (options.weights == "bf16")
    return builder.getBF16Type();
  Type type = options.weights == "keep" ? storedType(param, ofLayers)
                                        : Type(Q8_0Type::get(context));
  // A row is a whole number of blocks, or has none.
  if (param.shape.back() % getBlockElements(type) != 0)
    return builder.getBF16Type();
  return type;
}

/// One type for all layers of a stack. Files may mix types over layers: then
/// it is the widest of them, as far as there is an encoder for it.
Type ModelBuilder::storedType(const ParamSpec &param,
                              ArrayRef<int64_t> ofLayers) {
  llvm::StringSet<> seen;
  StringRef widest;
  bool f16 = false, bf16 = false;
  for (int64_t layer : ofLayers) {
    std::string name = nameOfLayer(param.name, layer);
    StringRef type = config.defaultWeight;
    auto it = llvm::lower_bound(
        config.storedTypes, name,
        [](const auto &entry, StringRef n) { return entry.first < n; });
    if (it != config.storedTypes.end() && it->first == name)
      type = it->second;
    seen.insert(type);
    f16 |= type == "f16";
    bf16 |= type == "bf16";
    if (widest.empty() || widthOf(type) > widthOf(widest))
      widest = type;
  }
  Type type = elementType(widest, context);
  if (seen.size() == 1 && type)
    return type;
  // What there is an encoder for: f32, f16, bf16 and q8_0.
  if (widthOf(widest) > 16 || (f16 && bf16))
    type = builder.getF32Type();
  else if (widthOf(widest) < 16)
    type = Q8_0Type::get(context);
  SmallVector<StringRef> names(seen.keys());
  llvm::sort(names);
  std::string text;
  llvm::raw_string_ostream os(text);
  os << param.name << ": stored as " << llvm::join(names, ", ")
     << ", compiled as " << type;
  notes.push_back(text);
  return type;
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

void ProgramBuilder::build() {
  // Arguments are inputs, parameters, states, in this order.
  declareInputs();
  declareParams();
  if (cached)
    declareStates();
  createFunction();
  buildBeforeLayers();
  buildLayers();
  buildAfterLayers();
  finishFunction();
}

void ProgramBuilder::declareInputs() {
  int64_t batch = options.batch;
  tokensArg = addInput("tokens", {batch, tokens});
  positionsArg = addInput("positions", {batch, tokens});
  if (packed())
    documentsArg = addInput(kDocuments, {batch, tokens});
  if (cached) {
    blocksArg = addInput("blocks", {batch, blocksPerSequence(options)});
    lengthsArg = addInput("lengths", {batch});
  }
  if (last)
    lastArg = addInput("last", {batch, 1});
  if (cached) {
    auto floats = RankedTensorType::get({batch}, builder.getF32Type());
    temperatureArg = addInput("temperature", floats);
    topKArg = addInput("top_k", {batch});
    topPArg = addInput("top_p", floats);
    minPArg = addInput("min_p", floats);
    seedArg = addInput("seed", {batch});
  }
}

size_t ProgramBuilder::addParam(const ParamSpec &param, size_t kind) {
  SmallVector<int64_t> shape;
  ArrayRef<int64_t> ofLayers;
  if (param.isLayered()) {
    ofLayers = model.kinds[kind].layers;
    shape.push_back(static_cast<int64_t>(ofLayers.size()));
  }
  llvm::append_range(shape, param.shape);
  Type element = model.types[&param - model.params.data()][kind];
  auto attr = BindingAttr::get(model.context, BindingKind::Param, param.name,
                               ofLayers, param.ggufName, param.rotaryHeads,
                               APFloat(param.scale), APFloat(param.offset), 0);
  Signature::Size size = cutSize(param.id);
  size.first += param.isLayered();
  return args.add(RankedTensorType::get(shape, element), attr,
                  layers.at(param.name), size);
}

/// The dimension of one layer's parameter that tensor parallelism cuts.
Signature::Size ProgramBuilder::cutSize(ParamId id) const {
  switch (id) {
  case ParamId::Embedding:
  case ParamId::Head:
    return {0, config.keys.vocabulary};
  case ParamId::Query:
  case ParamId::QueryBias:
    return {0, config.keys.heads};
  case ParamId::Key:
  case ParamId::KeyBias:
  case ParamId::Value:
  case ParamId::ValueBias:
    return {0, config.keys.kvHeads};
  case ParamId::Sinks:
    return {0, config.keys.heads};
  case ParamId::Output:
    return {1, config.keys.heads};
  case ParamId::Gate:
  case ParamId::GateBias:
  case ParamId::Up:
  case ParamId::UpBias:
    return {0, config.keys.intermediate};
  case ParamId::Down:
    return {1, config.keys.intermediate};
  default:
    return {};
  }
}

void ProgramBuilder::declareParams() {
  for (const ParamSpec &spec : model.params) {
    if (spec.id == ParamId::Head && hidden)
      continue;
    size_t stacks = spec.isLayered() ? model.kinds.size() : 1;
    for (size_t kind = 0; kind < stacks; ++kind)
      paramArgs[kind][static_cast<size_t>(spec.id)] = addParam(spec, kind);
  }
}

void ProgramBuilder::declareStates() {
  int64_t pool = options.batch * blocksPerSequence(options);
  for (const LayerKind &kind : model.kinds) {
    RankedTensorType type =
        layers.floats({static_cast<int64_t>(kind.layers.size()), pool,
                       options.blockSize, config.kvHeads, config.headDim});
    for (StringRef base : {"k_cache", "v_cache"}) {
      std::string state = (base + kind.suffix).str();
      cacheArgs.push_back(args.add(type, binding(BindingKind::State, state),
                                   layers.at(state),
                                   {{1, "--batch"}, {3, config.keys.kvHeads}}));
    }
  }
  keyPositionsArg =
      args.add(ints({pool, options.blockSize}),
               binding(BindingKind::State, "key_positions", kNoPosition),
               layers.at("key_positions"), Signature::Size(0, "--batch"));
}

void ProgramBuilder::createFunction() {
  function =
      func::FuncOp::create(builder, layers.at(name), name,
                           builder.getFunctionType(args.types, TypeRange()));
  function->setAttr(HeddleDialect::kProgramAttr, builder.getStringAttr(name));
  function->setAttr(HeddleDialect::kMeshAttr,
                    FlatSymbolRefAttr::get(model.context, kMeshName));
  // A prompt rarely fills its chunk.
  if (cached && tokens > 1)
    function->setAttr(HeddleDialect::kExtentAttr,
                      builder.getI64IntegerAttr(tokens));
  builder.createBlock(&function.getBody(), {}, args.types, args.locs);
}

/// Embedding, and what all layers share.
void ProgramBuilder::buildBeforeLayers() {
  int64_t batch = options.batch;
  Value positions = arg(positionsArg);
  stream = EmbeddingOp::create(builder, layers.at("model.embed_tokens"),
                               layers.floats({batch, tokens, config.hidden}),
                               arg(tokensArg), param(ParamId::Embedding));
  auto rope = RopeAttr::get(model.context, config.rotaryDim,
                            APFloat(config.ropeTheta), config.ropeScaling,
                            APFloat(config.ropeFactor), APFloat(config.ropeLow),
                            APFloat(config.ropeHigh), config.ropeOriginal);
  inputs.positions = inputs.keyPositions = positions;
  if (packed())
    inputs.documents = arg(documentsArg);
  if (!config.alibi)
    inputs.angles = RotaryTableOp::create(
        builder, layers.at("model.rotary_emb"),
        layers.floats({batch, tokens, config.rotaryDim}), positions, rope);
  if (!cached)
    return;
  Location loc = layers.at("model.cache");
  inputs.blocks = arg(blocksArg);
  inputs.lengths = arg(lengthsArg);
  inputs.slots = CacheSlotsOp::create(
      builder, loc, positions.getType(), positions, inputs.blocks,
      builder.getI64IntegerAttr(options.blockSize));
  Value known = arg(keyPositionsArg);
  inputs.keyPositions = CacheAppendOp::create(builder, loc, known.getType(),
                                              known, positions, inputs.slots);
}

void ProgramBuilder::buildLayers() {
  SmallVector<Value> stacks, caches;
  SmallVector<int64_t> stackKinds, cacheKinds;
  for (size_t kind = 0; kind < model.kinds.size(); ++kind)
    for (const ParamSpec &spec : model.params)
      if (spec.isLayered()) {
        stacks.push_back(param(spec.id, kind));
        stackKinds.push_back(static_cast<int64_t>(kind));
      }
  for (auto [i, index] : llvm::enumerate(cacheArgs)) {
    caches.push_back(arg(index));
    cacheKinds.push_back(static_cast<int64_t>(i) / 2);
  }
  SmallVector<Type> types = {stream.getType()};
  llvm::append_range(types, ValueRange(caches).getTypes());
  auto repeat = RepeatOp::create(
      builder, layers.at("model.layers"), types, ValueRange(stream), stacks,
      caches, builder.getDenseI64ArrayAttr(model.order),
      builder.getDenseI64ArrayAttr(stackKinds),
      builder.getDenseI64ArrayAttr(cacheKinds), UnitAttr(),
      static_cast<unsigned>(model.kinds.size()));
  for (size_t kind = 0; kind < model.kinds.size(); ++kind) {
    OpBuilder::InsertionGuard guard(builder);
    buildLayer(repeat.getKinds()[kind], kind,
               cached ? ValueRange(caches).slice(2 * kind, 2) : ValueRange());
  }
  stream = repeat.getResult(0);
  llvm::append_range(updatedCaches, repeat.getResults().drop_front());
}

/// The body of one kind of layer; CACHES are its stacks of keys and values.
void ProgramBuilder::buildLayer(Region &region, size_t kind,
                                ValueRange caches) {
  Block *body = builder.createBlock(&region);
  Location loc = layers.at("model.layers");
  auto slice = [&](Value stack) {
    auto type = cast<RankedTensorType>(stack.getType());
    return body->addArgument(RankedTensorType::get(type.getShape().drop_front(),
                                                   type.getElementType()),
                             stack.getLoc());
  };
  Value carry = body->addArgument(stream.getType(), loc);
  ParamValues values;
  for (const ParamSpec &spec : model.params)
    if (spec.isLayered())
      values[spec.id] = slice(param(spec.id, kind));
  Value keyCache, valueCache;
  if (cached) {
    keyCache = slice(caches[0]);
    valueCache = slice(caches[1]);
  }
  Value next = layers.layer(carry, values, inputs, model.kinds[kind].window,
                            keyCache, valueCache);
  SmallVector<Value> updated;
  if (cached)
    updated = {keyCache, valueCache};
  YieldOp::create(builder, loc, ValueRange(next), updated, ValueRange());
}

/// Final norm, head, sampling.
void ProgramBuilder::buildAfterLayers() {
  if (last)
    stream = GatherRowsOp::create(
        builder, layers.at("model.last"),
        layers.floats({options.batch, 1, config.hidden}), stream, arg(lastArg));
  stream = layers.norm("model.norm", stream, param(ParamId::FinalNorm));
  if (hidden) {
    addResult(stream, BindingKind::Output, "hidden");
    return;
  }
  Value head =
      param(config.tiedEmbeddings ? ParamId::Embedding : ParamId::Head);
  Value logits = layers.linear("lm_head", stream, head);
  addResult(logits, BindingKind::Output, "logits");
  if (!cached)
    return;
  // A sequence's length is the position of the token that comes next.
  Value next = SampleOp::create(
      builder, layers.at("next"), ints({options.batch, 1}), logits,
      arg(temperatureArg), arg(topKArg), arg(topPArg), arg(minPArg),
      arg(seedArg), arg(lengthsArg), RankTableAttr());
  addResult(next, BindingKind::Output, "next");
  for (auto [cache, index] : llvm::zip(updatedCaches, cacheArgs))
    addResult(cache, BindingKind::State, args.bindings[index].getName());
  addResult(inputs.keyPositions, BindingKind::State, "key_positions");
}

void ProgramBuilder::finishFunction() {
  func::ReturnOp::create(builder, layers.at(name), returned);
  function.setType(builder.getFunctionType(args.types, results.types));
  for (auto [i, attr] : llvm::enumerate(args.bindings))
    function.setArgAttr(i, HeddleDialect::kBindingAttr, attr);
  if (!cached && !options.anyPositions) {
    StringAttr within =
        packed() ? builder.getStringAttr(kDocuments) : StringAttr();
    int64_t below =
        packed() ? options.packed : std::numeric_limits<int32_t>::max();
    function.setArgAttr(positionsArg, HeddleDialect::kConsecutiveAttr,
                        ConsecutiveAttr::get(model.context, below, within));
  }
  for (auto [i, sizes] : llvm::enumerate(args.sizes)) {
    SmallVector<StringRef> names(
        cast<RankedTensorType>(args.types[i]).getRank());
    for (auto [dim, key] : sizes)
      if (!key.empty())
        names[dim] = key;
    if (llvm::any_of(names, [](StringRef key) { return !key.empty(); }))
      function.setArgAttr(i, HeddleDialect::kSizesAttr,
                          builder.getStrArrayAttr(names));
  }
  for (auto [i, attr] : llvm::enumerate(results.bindings))
    function.setResultAttr(i, HeddleDialect::kBindingAttr, attr);
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

OwningOpRef<ModuleOp> ModelBuilder::build() {
  findKinds();
  findTypes();
  Location loc = UnknownLoc::get(context);
  if (!config.source.empty())
    loc = FileLineColLoc::get(context, config.source, 0, 0);
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  builder.setInsertionPointToEnd(module->getBody());
  SmallVector<StringRef> axes;
  SmallVector<int64_t> sizes;
  for (const auto &[axis, size] : options.mesh) {
    axes.push_back(axis);
    sizes.push_back(size);
  }
  MeshOp::create(builder, loc, builder.getStringAttr(kMeshName),
                 builder.getStrArrayAttr(axes),
                 builder.getDenseI64ArrayAttr(sizes));
  auto add = [&](StringRef name, int64_t tokens, bool cached) {
    builder.setInsertionPointToEnd(module->getBody());
    ProgramBuilder(*this, name, tokens, cached).build();
  };
  if (options.program == "forward") {
    add("forward", options.sequence, /*cached=*/false);
  } else {
    for (const PrefillProgram &program : prefillPrograms(options.chunk))
      add(program.name, program.rows, /*cached=*/true);
    add("decode", 1, /*cached=*/true);
  }
  if (!notes.empty())
    module->getOperation()->setAttr(
        kNotesAttr, builder.getStrArrayAttr(
                        SmallVector<StringRef>(notes.begin(), notes.end())));
  return module;
}

std::vector<PrefillProgram> heddle::prefillPrograms(int64_t chunk) {
  constexpr int64_t kFewest = 8, kFactor = 4;
  std::vector<PrefillProgram> programs = {{"prefill", chunk}};
  for (int64_t rows = chunk / kFactor; rows >= kFewest; rows /= kFactor)
    programs.push_back({"prefill_" + std::to_string(rows), rows});
  return programs;
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

static void checkOptions(const ModelConfig &config,
                         const ImportOptions &options, Problems &problems) {
  auto oneOf = [&](StringRef name, StringRef value,
                   std::initializer_list<StringRef> allowed) {
    if (llvm::is_contained(allowed, value))
      return;
    problems.add(name, "expected " + llvm::join(allowed, ", ") + ", got \"" +
                           value + "\"");
  };
  auto within = [&](StringRef name, int64_t value, int64_t most) {
    if (value >= 1 && value <= most)
      return true;
    problems.add(name, "expected a whole number from 1 to " + Twine(most) +
                           ", got " + Twine(value));
    return false;
  };
  oneOf("program", options.program, {"forward", "generate"});
  oneOf("output", options.output, {"logits", "last", "hidden"});
  oneOf("weights", options.weights, {"keep", "f32", "bf16", "q8_0"});
  if (options.program == "generate" && options.output == "hidden")
    problems.add("output",
                 "expected logits or last for generate, got \"hidden\"");
  if (options.program == "generate" && options.packed > 0)
    problems.add("packed documents",
                 "expected none for generate, got some of " +
                     Twine(options.packed) + " tokens");
  if (options.packed < 0 || options.packed > options.sequence)
    problems.add("packed documents", "expected 0 (none) to " +
                                         Twine(options.sequence) +
                                         " tokens, those of a sequence, got " +
                                         Twine(options.packed));
  constexpr int64_t kMostBatch = 1 << 20, kMostTokens = 1 << 30;
  bool sized = within("batch", options.batch, kMostBatch);
  sized &= within("sequence", options.sequence, kMostTokens);
  sized &= within("chunk", options.chunk, kMostTokens);
  sized &= within("block size", options.blockSize, kMostTokens);
  // Slots, rows and cache slots are numbered in 32 bits.
  constexpr int64_t kMostSlots = (int64_t(1) << 31) - 1;
  if (sized) {
    int64_t rows =
        std::max(blocksPerSequence(options) * options.blockSize, options.chunk);
    if (rows > kMostSlots / options.batch)
      problems.add("batch", "expected at most " + Twine(kMostSlots / rows) +
                                " for sequences of " + Twine(rows) +
                                " slots, got " + Twine(options.batch));
  }
  constexpr int64_t kMostRanks = 1 << 20;
  int64_t ranks = 1;
  llvm::StringSet<> seen;
  for (const auto &[axis, size] : options.mesh) {
    if (axis.empty() || !seen.insert(axis).second)
      problems.add("mesh", "expected unique axis names that are not empty, "
                           "got \"" +
                               axis + "\"");
    if (size < 1 || size > kMostRanks / ranks)
      problems.add("mesh", "expected positive sizes and at most " +
                               Twine(kMostRanks) + " ranks, got axis " + axis +
                               " = " + Twine(size));
    else
      ranks *= size;
  }
}

FailureOr<OwningOpRef<ModuleOp>>
mlir::heddle::importModel(MLIRContext *context, const ModelConfig &config,
                          const ImportOptions &options) {
  context->loadDialect<HeddleDialect, func::FuncDialect>();
  Problems problems;
  checkOptions(config, options, problems);
  if (options.sequence > config.maxPositions && config.maxPositions > 0)
    problems.warn("sequence " + Twine(options.sequence) +
                  " is longer than the model's " + Twine(config.maxPositions) +
                  " positions");
  if (failed(problems.report(UnknownLoc::get(context))))
    return failure();
  ModelConfig sorted = config;
  llvm::sort(sorted.storedTypes);
  OwningOpRef<ModuleOp> module = ModelBuilder(context, sorted, options).build();
  if (failed(verify(*module)))
    return failure();
  return module;
}
