//===- Report.cpp - What each rank will hold and send ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/IR/Layout.h"
#include "heddle/Dialect/Heddle/Transforms/Strategies.h"
#include "heddle/Target/Bundle/Bundle.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::heddle;

static std::string nameOf(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName().str();
  std::string text;
  llvm::raw_string_ostream stream(text);
  loc.print(stream);
  return text;
}

namespace {
struct CollectiveRow {
  std::string variant, kind, op, location, reason;
  llvm::json::Array axes;
  int64_t count = 0, bytes = 0;
};
} // namespace

/// Collectives of a program, with how often each runs.
static void collect(Block &block, StringRef variant, int64_t times,
                    std::vector<CollectiveRow> &rows,
                    llvm::StringMap<size_t> &index) {
  for (Operation &op : block) {
    if (auto loop = dyn_cast<plan::ForOp>(op)) {
      // The blocks of a case run as often as the order says.
      Block &body = loop.getBody().front();
      auto select =
          body.empty() ? plan::CaseOp() : dyn_cast<plan::CaseOp>(body.back());
      if (!select) {
        collect(body, variant, times * loop.getTrips(), rows, index);
        continue;
      }
      auto order = select.getSelector().getDefiningOp<plan::LookupOp>();
      for (auto [kind, region] : llvm::enumerate(select.getBlocks()))
        collect(region.front(), variant,
                times *
                    llvm::count(order.getValues(), static_cast<int64_t>(kind)),
                rows, index);
      continue;
    }
    auto collective = dyn_cast<plan::CollectiveOp>(op);
    if (!collective)
      continue;
    CollectiveRow row;
    row.variant = variant.str();
    row.kind = stringifyCollectiveKind(collective.getKind()).str();
    row.op = collective.getOrigin().str();
    row.location = nameOf(collective.getLoc());
    row.reason = collective.getReason().str();
    std::string axes;
    for (Attribute axis : collective.getGroup()) {
      row.axes.push_back(cast<AxisRefAttr>(axis).getName());
      axes += cast<AxisRefAttr>(axis).getName().str() + ",";
    }
    int64_t bytes =
        collective.getElements() * getBlockBytes(collective.getDtype());
    std::string key = row.variant + "|" + row.kind + "|" + row.op + "|" +
                      row.location + "|" + row.reason + "|" + axes + "|" +
                      std::to_string(bytes);
    auto [it, fresh] = index.try_emplace(key, rows.size());
    if (fresh)
      rows.push_back(std::move(row));
    rows[it->second].count += times;
    rows[it->second].bytes += times * bytes;
  }
}

/// The rings that partition made, and how many hops masks left out.
static llvm::json::Array ringsOf(ModuleOp module) {
  llvm::json::Array rings;
  auto made = module->getAttrOfType<ArrayAttr>(kRingsAttr);
  if (!made)
    return rings;
  for (auto ring : made.getAsRange<DictionaryAttr>()) {
    auto hops = ring.getAs<DenseI64ArrayAttr>("hops").asArrayRef();
    int64_t ranks = ring.getAs<IntegerAttr>("ranks").getInt();
    rings.push_back(llvm::json::Object{
        {"variant", ring.getAs<StringAttr>("variant").getValue()},
        {"location", ring.getAs<StringAttr>("location").getValue()},
        {"window", ring.getAs<IntegerAttr>("window").getInt()},
        {"ranks", ranks},
        {"busiest", ring.getAs<FloatAttr>("busiest").getValueAsDouble()},
        {"hops", llvm::json::Array(hops)},
        {"skipped_hops", ranks - static_cast<int64_t>(hops.size())}});
  }
  return rings;
}

FailureOr<llvm::json::Object> mlir::heddle::makeReport(ModuleOp module,
                                                       int64_t parameters) {
  auto meshes = llvm::to_vector(module.getOps<MeshOp>());
  auto peak = module->getAttrOfType<DictionaryAttr>("plan.peak");
  if (meshes.size() != 1 || !peak) {
    module.emitError() << "expected a plan: run convert-heddle-to-plan first";
    return failure();
  }
  MeshOp mesh = meshes[0];
  auto peakOf = [&](StringRef name) {
    return cast<IntegerAttr>(peak.get(name)).getInt();
  };
  int64_t paramBytes = 0, stateBytes = 0, ioBytes = 0;
  llvm::json::Array padding;
  for (auto op : module.getOps<plan::TensorOp>()) {
    auto local = cast<RankedTensorType>(op.getLocal());
    auto global = cast<RankedTensorType>(op.getGlobal());
    BindingKind kind = op.getBinding().getKind();
    (kind == BindingKind::Param   ? paramBytes
     : kind == BindingKind::State ? stateBytes
                                  : ioBytes) += getTensorBytes(local);
    ShardingAttr sharding = getSharding(global);
    if (!sharding || kind == BindingKind::Input || kind == BindingKind::Output)
      continue;
    for (auto [i, dim] : llvm::enumerate(sharding.getDims())) {
      if (dim.isReplicated())
        continue;
      FailureOr<Layout> layout = Layout::get(mesh, dim, global.getDimSize(i),
                                             [&]() { return op.emitError(); });
      if (failed(layout))
        return failure();
      int64_t held = layout->ranks * layout->localExtent();
      if (held == layout->size)
        continue;
      int64_t pad = 0;
      for (int64_t u : layout->table)
        pad +=
            u < 0 ? layout->unit
                  : std::max<int64_t>(0, (u + 1) * layout->unit - layout->size);
      llvm::json::Array axes;
      for (AxisRefAttr axis : dim.getAxes())
        axes.push_back(axis.getName());
      padding.push_back(
          llvm::json::Object{{"tensor", op.getBinding().getName()},
                             {"dimension", static_cast<int64_t>(i)},
                             {"size", layout->size},
                             {"held", held},
                             {"padded", pad},
                             {"replicated", held - pad - layout->size},
                             {"unit", layout->unit},
                             {"axes", std::move(axes)}});
    }
  }
  int64_t activation = peakOf("activation") + ioBytes;
  int64_t communication = peakOf("communication");
  int64_t arena = peakOf("arena");
  int64_t holes = arena - paramBytes - stateBytes - activation - communication;
  llvm::json::Array ranks;
  ranks.push_back(llvm::json::Object{{"class", "all"},
                                     {"count", mesh.getWorldSize()},
                                     {"example_rank", 0},
                                     {"parameter_bytes", paramBytes},
                                     {"state_bytes", stateBytes},
                                     {"activation_bytes", activation},
                                     {"communication_bytes", communication},
                                     {"workspace_bytes", 0},
                                     {"holes_bytes", holes},
                                     {"arena_bytes", arena}});

  std::vector<CollectiveRow> rows;
  llvm::StringMap<size_t> index;
  for (auto program : module.getOps<plan::ProgramOp>())
    collect(program.getBody().front(), program.getSymName(), 1, rows, index);
  llvm::json::Array collectives;
  for (CollectiveRow &row : rows)
    collectives.push_back(llvm::json::Object{{"variant", row.variant},
                                             {"kind", row.kind},
                                             {"axes", std::move(row.axes)},
                                             {"count", row.count},
                                             {"bytes", row.bytes},
                                             {"op", row.op},
                                             {"location", row.location},
                                             {"reason", row.reason}});
  llvm::json::Array axes;
  for (auto [name, size] : llvm::zip(mesh.getNames(), mesh.getSizes()))
    axes.push_back(llvm::json::Object{
        {"name", cast<StringAttr>(name).getValue()}, {"size", size}});
  llvm::json::Array outside;
  outside.push_back(llvm::json::Object{{"what", "stack of each worker thread"},
                                       {"bytes", 8 << 20}});
  outside.push_back(llvm::json::Object{
      {"what", "machine code of library products, made at load"},
      {"bytes", nullptr}});
  llvm::json::Array choices;
  if (auto made = module->getAttrOfType<ArrayAttr>(kChoicesAttr))
    for (auto choice : made.getAsRange<StringAttr>())
      choices.push_back(choice.getValue());
  return llvm::json::Object{
      {"parameters", parameters},      {"mesh", std::move(axes)},
      {"choices", std::move(choices)}, {"rings", ringsOf(module)},
      {"ranks", std::move(ranks)},     {"collectives", std::move(collectives)},
      {"padding", std::move(padding)}, {"outside_arena", std::move(outside)}};
}

//===----------------------------------------------------------------------===//
// For people
//===----------------------------------------------------------------------===//

static std::string humanBytes(int64_t bytes) {
  static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return llvm::formatv(unit ? "{0:F2} {1}" : "{0:F0} {1}", value, units[unit])
      .str();
}

static std::string bar(int64_t part, int64_t whole) {
  constexpr int64_t width = 24;
  int64_t filled = whole ? (part * width + whole / 2) / whole : 0;
  std::string text;
  for (int64_t i = 0; i < width; ++i)
    text += i < filled ? "█" : "·";
  return text;
}

std::string mlir::heddle::formatReport(const llvm::json::Object &report) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << llvm::formatv("parameters  {0:N}\n", *report.getInteger("parameters"));
  os << "mesh        ";
  for (const llvm::json::Value &axis : *report.getArray("mesh"))
    os << *axis.getAsObject()->getString("name") << "="
       << *axis.getAsObject()->getInteger("size") << " ";
  os << "\n";
  for (const llvm::json::Value &choice : *report.getArray("choices"))
    os << "chosen      " << *choice.getAsString() << "\n";
  for (const llvm::json::Value &value : *report.getArray("rings")) {
    const llvm::json::Object &ring = *value.getAsObject();
    int64_t most = *ring.getInteger("ranks") - 1;
    int64_t left = *ring.getInteger("skipped_hops");
    int64_t window = *ring.getInteger("window");
    os << "ring        " << *ring.getString("location") << " of "
       << *ring.getString("variant")
       << llvm::formatv(": {0} of {1} hops", most - left, most);
    if (window)
      os << ", window " << window;
    if (left)
      os << "; masks empty the others";
    os << llvm::formatv("; busiest rank {0:F2} of the mean",
                        *ring.getNumber("busiest"));
    os << "\n";
  }
  for (const llvm::json::Value &value : *report.getArray("ranks")) {
    const llvm::json::Object &rank = *value.getAsObject();
    int64_t arena = *rank.getInteger("arena_bytes");
    os << llvm::formatv("\nmemory of each of {0} ranks (class '{1}'): {2}\n",
                        *rank.getInteger("count"), *rank.getString("class"),
                        humanBytes(arena));
    for (StringRef part : {"parameter", "state", "activation", "communication",
                           "workspace", "holes"}) {
      int64_t bytes = *rank.getInteger((part + "_bytes").str());
      os << llvm::formatv("  {0,-14} {1,12}  {2}\n", part, humanBytes(bytes),
                          bar(bytes, arena));
    }
  }
  os << "\ncollectives (per execution, per rank)\n";
  for (const llvm::json::Value &value : *report.getArray("collectives")) {
    const llvm::json::Object &row = *value.getAsObject();
    std::string axes;
    for (const llvm::json::Value &axis : *row.getArray("axes"))
      axes += (axes.empty() ? "" : ",") + axis.getAsString()->str();
    os << llvm::formatv("  {0,-11} {1,-14} {2,-6} {3,5} x  {4,12}  {5}: {6}\n",
                        *row.getString("variant"), *row.getString("kind"),
                        "{" + axes + "}", *row.getInteger("count"),
                        humanBytes(*row.getInteger("bytes")),
                        *row.getString("location"), *row.getString("reason"));
  }
  if (report.getArray("collectives")->empty())
    os << "  none\n";
  if (!report.getArray("padding")->empty()) {
    os << "\nuneven sizes\n";
    for (const llvm::json::Value &value : *report.getArray("padding")) {
      const llvm::json::Object &row = *value.getAsObject();
      os << llvm::formatv(
          "  {0}: dimension {1} of {2} held as {3} ({4} padding, "
          "{5} replicated)\n",
          *row.getString("tensor"), *row.getInteger("dimension"),
          *row.getInteger("size"), *row.getInteger("held"),
          *row.getInteger("padded"), *row.getInteger("replicated"));
    }
  }
  return text;
}
