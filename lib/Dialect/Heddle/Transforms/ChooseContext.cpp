//===- ChooseContext.cpp - context(axis): which method --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of each attention, the bytes and, with a topology, the time that each method
// takes. The cheapest one wins. Methods are all-to-alls over d ranks and a ring
// over n / d of them, of which a ring alone (d = 1) and all-to-alls alone (d =
// n) are the ends, and a gather of all keys.
//
//===----------------------------------------------------------------------===//

#include "RingAttention.h"
#include "heddle/Dialect/Heddle/Transforms/Strategies.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::heddle;

namespace {

constexpr int64_t kElementBytes = 4; // fp32 activations

/// A way to share attention.
struct Method {
  StringRef name; // "ring", "ulysses", "gather", "2-D"
  /// Ranks that share heads, and blocks that a ring over the others sends.
  int64_t headRanks = 1, hops = 0;
  /// What a rank sends for each token of its own, over all peers; seconds of a
  /// layer (0: unknown).
  int64_t elements = 0;
  double seconds = 0;
};

/// What attention has to share, after `tensor` has taken its part of the heads.
struct Shape {
  int64_t heads, groups, width, ranks;
  int64_t batch, tokens, window;
  bool causal;

  /// Tokens of a rank, over all sequences.
  double ownTokens() const {
    return static_cast<double>(batch) *
           static_cast<double>(llvm::divideCeil(tokens, ranks));
  }
  /// Operations of a rank: two products of width E for each visible pair.
  double flops() const {
    auto t = static_cast<double>(tokens);
    double seen = causal ? t * (t + 1) / 2 : t * t;
    if (window > 0 && causal && window < tokens) {
      auto w = static_cast<double>(window);
      seen = w * t - w * (w - 1) / 2;
    }
    return 4 * seen * static_cast<double>(batch * heads * width) /
           static_cast<double>(ranks);
  }
  /// Elements for each of a rank's tokens: queries, keys, values and the result
  /// to and from the ranks that share heads (heads that several need are
  /// copied), then the blocks of those heads and all their tokens.
  int64_t allToAllElements(int64_t headRanks) const {
    return (headRanks - 1) * 2 * width *
           static_cast<int64_t>(llvm::divideCeil(heads, headRanks) +
                                llvm::divideCeil(groups, headRanks));
  }
  int64_t ringElements(int64_t headRanks, int64_t hops) const {
    return hops * 2 * width * headRanks *
           static_cast<int64_t>(llvm::divideCeil(groups, headRanks));
  }
};

/// What other axes do already.
struct Taken {
  bool heads = false, tokens = false;

  void add(StringRef method) {
    heads |= method == "ulysses";
    tokens |= method == "ring" || method == "gather";
  }
};

/// Decides for one axis.
class Chooser {
public:
  Chooser(ModuleOp module, MeshOp mesh, TokenLayout layout,
          const Topology *topology, StringRef axis, Taken taken,
          int64_t tensorRanks)
      : module(module), mesh(mesh), layout(layout), topology(topology),
        axis(axis), taken(taken), tensorRanks(tensorRanks),
        ranks(mesh.getAxisSize(axis)) {
    if (topology)
      link = topology->axes.lookup(axis);
  }

  /// Reads every attention (the first one, if `alike`).
  LogicalResult run(bool alike);
  /// Ranks that share heads if all layers do best with two dimensions; 0: no.
  int64_t twoDimensions() const;
  /// Reasons, for the report, if heads are shared by so many ranks (0: each
  /// attention has its own method, which it is marked with).
  SmallVector<std::string> explain(int64_t headRanks);
  llvm::StringSet<> methods;

private:
  /// An attention with the methods that it may have.
  struct Site {
    AttentionOp op;
    Shape shape;
    bool cached;
    SmallVector<Method> methods;
  };

  LogicalResult read(AttentionOp op);
  void estimate(const Shape &shape, Method &method) const;
  double costOf(const Method &method) const {
    return topology ? method.seconds : static_cast<double>(method.elements);
  }
  const Method &best(const Site &site, int64_t headRanks) const;
  std::string reason(const Site &site, const Method &method) const;

  ModuleOp module;
  MeshOp mesh;
  TokenLayout layout;
  const Topology *topology;
  StringRef axis;
  Taken taken;
  int64_t tensorRanks, ranks;
  Topology::Link link;
  std::vector<Site> sites;
};

} // namespace

static int64_t dimOf(Value value, int64_t dim) {
  return cast<RankedTensorType>(value.getType()).getDimSize(dim);
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

/// Seconds of one layer. A ring hides a transfer behind the attention to the
/// block at hand and pays for merging; the others wait for what they gather.
void Chooser::estimate(const Shape &shape, Method &method) const {
  auto seconds = [&](int64_t elements) {
    return static_cast<double>(elements) * shape.ownTokens() * kElementBytes /
           link.bytesPerSecond;
  };
  double compute = shape.flops() / topology->flopsPerSecond;
  if (method.name == "gather") {
    method.seconds =
        static_cast<double>(shape.ranks - 1) * link.latencySeconds +
        seconds(method.elements) + compute;
    return;
  }
  // Heads may not divide: padded ones are computed too.
  auto padded = static_cast<double>(
      method.headRanks * llvm::divideCeil(shape.heads, method.headRanks));
  compute *= padded / static_cast<double>(shape.heads);
  if (method.headRanks > 1)
    method.seconds = 4 * link.latencySeconds +
                     seconds(shape.allToAllElements(method.headRanks));
  auto hops = static_cast<double>(method.hops);
  double block = compute / (hops + 1);
  method.seconds += block;
  if (method.hops == 0)
    return;
  double transfer =
      link.latencySeconds +
      seconds(shape.ringElements(method.headRanks, method.hops)) / hops;
  // Two parts are read and one is written, in fp32.
  double merge = 3 * shape.ownTokens() * padded *
                 static_cast<double>(shape.width + 1) * kElementBytes /
                 topology->memoryBytesPerSecond;
  method.seconds += hops * std::max(transfer, block) + (hops + 1) * merge;
}

LogicalResult Chooser::read(AttentionOp op) {
  Site site{op,
            {static_cast<int64_t>(
                 llvm::divideCeil(dimOf(op.getQuery(), 2), tensorRanks)),
             static_cast<int64_t>(
                 llvm::divideCeil(dimOf(op.getKey(), 2), tensorRanks)),
             dimOf(op.getQuery(), 3), ranks, dimOf(op.getQuery(), 0),
             dimOf(op.getQuery(), 1), static_cast<int64_t>(op.getWindow()),
             op.getCausal()},
            op.getBlocks() != nullptr,
            {}};
  const Shape &shape = site.shape;
  if (site.cached) {
    bool byHeads = !taken.heads && shape.groups % ranks == 0;
    site.methods.push_back({byHeads ? "ulysses" : "ring"});
    sites.push_back(site);
    return success();
  }
  for (int64_t d = 1; d <= ranks; ++d) {
    bool rings = d < ranks;
    if (ranks % d != 0 || (d > 1 && (taken.heads || d > shape.heads)) ||
        (rings && taken.tokens && !taken.heads))
      continue;
    Method method{d == 1 ? "ring" : rings ? "2-D" : "ulysses", d};
    if (rings) {
      auto part = AxisRefAttr::get(module.getContext(), axis, 1, ranks / d);
      FailureOr<Layout> tokens = Layout::get(
          mesh, dealTokens(part, layout, ranks / d, shape.tokens, d),
          shape.tokens, [&]() { return op.emitOpError(); });
      if (failed(tokens))
        return failure();
      method.hops = static_cast<int64_t>(ringHops(op, *tokens).hops.size()) - 1;
    }
    method.elements =
        shape.allToAllElements(d) + shape.ringElements(d, method.hops);
    site.methods.push_back(method);
  }
  // A gather sends what a whole ring does, and holds all keys: only time speaks
  // for it.
  if (topology && (!taken.tokens || taken.heads))
    site.methods.push_back(
        {"gather", 1, 0, (ranks - 1) * 2 * shape.groups * shape.width});
  if (site.methods.empty())
    site.methods.push_back({"ring"});
  if (topology)
    for (Method &method : site.methods)
      estimate(shape, method);
  sites.push_back(site);
  return success();
}

LogicalResult Chooser::run(bool alike) {
  WalkResult result = module.walk([&](AttentionOp op) {
    if (alike && !sites.empty())
      return WalkResult::advance();
    return failed(read(op)) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

/// The cheapest method without two dimensions (0), or the one with these.
const Method &Chooser::best(const Site &site, int64_t headRanks) const {
  const Method *found = nullptr;
  for (const Method &method : site.methods) {
    bool wanted = headRanks == 0
                      ? method.name != "2-D"
                      : method.name == "2-D" && method.headRanks == headRanks;
    if (wanted && (!found || costOf(method) < costOf(*found)))
      found = &method;
  }
  return found ? *found : site.methods.front();
}

int64_t Chooser::twoDimensions() const {
  // The axis is cut in two then, for all layers.
  if (sites.empty() || taken.heads || taken.tokens ||
      llvm::any_of(sites, [](const Site &site) { return site.cached; }))
    return 0;
  auto total = [&](int64_t headRanks) {
    double sum = 0;
    for (const Site &site : sites)
      sum += costOf(best(site, headRanks));
    return sum;
  };
  int64_t chosen = 0;
  for (const Method &method : sites.front().methods)
    if (method.name == "2-D" &&
        llvm::all_of(sites,
                     [&](const Site &site) {
                       return best(site, method.headRanks).headRanks ==
                              method.headRanks;
                     }) &&
        total(method.headRanks) < total(chosen))
      chosen = method.headRanks;
  return chosen;
}

std::string Chooser::reason(const Site &site, const Method &method) const {
  std::string why;
  llvm::raw_string_ostream os(why);
  const Shape &shape = site.shape;
  if (site.cached && method.name == "ulysses") {
    os << "a cache by heads: each of " << ranks << " ranks has "
       << shape.groups / ranks << " of " << shape.groups << " key/value heads";
    return why;
  }
  if (site.cached && !taken.heads) {
    os << "a cache by places in its blocks: " << ranks
       << " ranks do not divide " << shape.groups << " key/value heads";
    return why;
  }
  if (taken.heads)
    os << "another axis moves heads already";
  else if (taken.tokens)
    os << "another axis cuts the tokens of attention already";
  else if (ranks > shape.heads)
    os << ranks << " ranks are more than " << shape.heads << " heads";
  if (site.cached || (taken.tokens && !taken.heads))
    return why;
  if (!why.empty())
    os << "; ";
  auto name = [&](const Method &m) -> std::string {
    if (m.name != "2-D")
      return m.name.str();
    return llvm::formatv("2-D ({0} x {1})", ranks / m.headRanks, m.headRanks)
        .str();
  };
  os << (topology ? "a layer takes " : "elements sent for a token: ");
  llvm::interleaveComma(site.methods, os, [&](const Method &m) {
    if (topology)
      os << llvm::formatv("{0:F3} ms by {1}", m.seconds * 1e3, name(m));
    else
      os << m.elements << " by " << name(m);
  });
  if (!topology)
    return why;
  os << llvm::formatv(", {0:F3} of them attention itself",
                      shape.flops() / topology->flopsPerSecond * 1e3);
  // Tokens of a block from which on a transfer hides behind attention to the
  // block before, without a mask: 4 c^2 H E / F >= 2 c G E bytes / B (Liu et
  // al., arXiv:2310.01889, section 3, for key/value heads and elements of any
  // size). They want six blocks a rank.
  double block = topology->flopsPerSecond / link.bytesPerSecond *
                 static_cast<double>(shape.groups * kElementBytes) /
                 static_cast<double>(2 * shape.heads);
  os << llvm::formatv(
      "; a ring hides transfers from blocks of {0:F0} tokens on, "
      "a rank from {1:F0}",
      block, 6 * block);
  return why;
}

SmallVector<std::string> Chooser::explain(int64_t headRanks) {
  SmallVector<std::string> reasons;
  for (Site &site : sites) {
    const Method &method = best(site, headRanks);
    if (headRanks == 0)
      site.op->setAttr(kMethodAttr,
                       StringAttr::get(module.getContext(), method.name));
    methods.insert(method.name);
    std::string text = ("context(" + axis + "): " + method.name).str();
    if (headRanks > 0)
      text += llvm::formatv(", a ring of {0} and heads over {1}",
                            ranks / headRanks, headRanks)
                  .str();
    if (site.shape.window)
      text += " for a window of " + std::to_string(site.shape.window);
    text += ", " + reason(site, method);
    if (!llvm::is_contained(reasons, text))
      reasons.push_back(text);
  }
  return reasons;
}

/// Cuts an axis in two, "cp.ring" and, of neighbours, "cp.heads".
static void cutAxis(MeshOp mesh, StringRef axis, int64_t headRanks) {
  SmallVector<Attribute> names;
  SmallVector<int64_t> sizes;
  Builder builder(mesh.getContext());
  for (auto [attr, size] : llvm::zip(mesh.getNames(), mesh.getSizes())) {
    if (cast<StringAttr>(attr).getValue() != axis) {
      names.push_back(attr);
      sizes.push_back(size);
      continue;
    }
    names.push_back(builder.getStringAttr(axis + ".ring"));
    names.push_back(builder.getStringAttr(axis + ".heads"));
    sizes.append({size / headRanks, headRanks});
  }
  mesh.setNamesAttr(builder.getArrayAttr(names));
  mesh.setSizesAttr(builder.getDenseI64ArrayAttr(sizes));
}

LogicalResult
mlir::heddle::resolveContext(SmallVectorImpl<Strategy> &strategies,
                             TokenLayout layout, ModuleOp module, MeshOp mesh,
                             const Topology *topology) {
  MLIRContext *context = module.getContext();
  SmallVector<Attribute> choices;
  // Methods on several axes must fit one another: the first layer decides.
  bool several = llvm::count_if(strategies, [](const Strategy &strategy) {
                   return strategy.name == "context";
                 }) > 1;
  for (size_t i = 0; i < strategies.size(); ++i) {
    if (strategies[i].name != "context")
      continue;
    std::string axis = strategies[i].axis;
    Taken taken;
    int64_t tensorRanks = 1;
    for (const Strategy &other : strategies) {
      taken.add(other.name);
      if (other.name == "tensor")
        tensorRanks *= mesh.getAxisSize(other.axis);
    }
    Chooser chooser(module, mesh, layout, topology, axis, taken, tensorRanks);
    if (failed(chooser.run(several)))
      return failure();
    int64_t headRanks = several ? 0 : chooser.twoDimensions();
    for (const std::string &choice : chooser.explain(headRanks))
      choices.push_back(StringAttr::get(context, choice));
    if (headRanks > 0) {
      cutAxis(mesh, axis, headRanks);
      strategies[i] = {"ulysses", axis + ".heads"};
      strategies.insert(strategies.begin() + static_cast<ptrdiff_t>(i) + 1,
                        Strategy{"ring", axis + ".ring"});
      continue;
    }
    // One method for all is that strategy; otherwise each attention says its
    // own.
    if (chooser.methods.size() <= 1) {
      strategies[i].name = chooser.methods.empty()
                               ? "ring"
                               : chooser.methods.begin()->getKey().str();
      module.walk([](AttentionOp op) { op->removeAttr(kMethodAttr); });
    }
  }
  if (!choices.empty())
    module->setAttr(kChoicesAttr, ArrayAttr::get(context, choices));
  return success();
}
