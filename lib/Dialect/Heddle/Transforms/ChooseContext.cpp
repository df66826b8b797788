//===- ChooseContext.cpp - context(axis): which method --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of each attention, the bytes and, with a topology, the time that each method
// takes. The cheapest one wins.
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

/// What attention has to share, after `tensor` has taken its part of the heads.
struct Shape {
  int64_t heads, groups, width, ranks;
  int64_t batch, tokens, window;
  bool causal;
  /// Blocks that a ring sends.
  int64_t hops;

  /// Slots of `count` heads on a rank; those that several need are copied.
  int64_t slots(int64_t count) const { return llvm::divideCeil(count, ranks); }
  /// Elements that a rank sends for one token of its own, over all peers.
  int64_t ringElements() const { return hops * 2 * groups * width; }
  int64_t gatherElements() const { return (ranks - 1) * 2 * groups * width; }
  int64_t ulyssesElements() const {
    return (ranks - 1) * 2 * (slots(heads) + slots(groups)) * width;
  }
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
};

/// A method with its elements a token, and its seconds a layer (0: unknown).
struct Cost {
  StringRef method;
  int64_t elements;
  double seconds = 0;
};

} // namespace

static int64_t dimOf(Value value, int64_t dim) {
  return cast<RankedTensorType>(value.getType()).getDimSize(dim);
}

/// Seconds of one layer. A ring hides a transfer behind the attention to the
/// block at hand and pays for merging; the others wait for what they gather.
static void estimate(const Shape &shape, const Topology &topology,
                     const Topology::Link &link, MutableArrayRef<Cost> costs) {
  double compute = shape.flops() / topology.flopsPerSecond;
  auto seconds = [&](double elements) {
    return elements * kElementBytes / link.bytesPerSecond;
  };
  for (Cost &cost : costs) {
    double sent = static_cast<double>(cost.elements) * shape.ownTokens();
    auto peers = static_cast<double>(shape.ranks - 1);
    if (cost.method == "ring") {
      auto hops = static_cast<double>(shape.hops);
      double block = compute / (hops + 1);
      double transfer =
          hops > 0 ? link.latencySeconds + seconds(sent / hops) : 0;
      // Two parts are read and one is written, in fp32.
      double merge = 3 * shape.ownTokens() *
                     static_cast<double>(shape.heads * (shape.width + 1)) *
                     kElementBytes / topology.memoryBytesPerSecond;
      cost.seconds =
          hops * std::max(transfer, block) + block + (hops + 1) * merge;
    } else if (cost.method == "gather") {
      cost.seconds = peers * link.latencySeconds + seconds(sent) + compute;
    } else {
      // Queries, keys, values and the result; heads may not divide.
      double imbalance = static_cast<double>(shape.slots(shape.heads)) *
                         static_cast<double>(shape.ranks) /
                         static_cast<double>(shape.heads);
      cost.seconds =
          4 * link.latencySeconds + seconds(sent) + compute * imbalance;
    }
  }
}

namespace {
/// What other axes do already.
struct Taken {
  bool heads = false, tokens = false;

  void add(StringRef method) {
    heads |= method == "ulysses";
    tokens |= method == "ring" || method == "gather";
  }
};
} // namespace

/// The method and the reason.
static std::pair<StringRef, std::string> choose(const Shape &shape, bool cached,
                                                Taken taken,
                                                const Topology *topology,
                                                StringRef axis) {
  std::string why;
  llvm::raw_string_ostream os(why);
  if (cached && taken.heads) {
    os << "another axis moves heads already";
    return {"ring", why};
  }
  if (cached) {
    if (shape.groups % shape.ranks == 0) {
      os << "a cache by heads: each of " << shape.ranks << " ranks has "
         << shape.groups / shape.ranks << " of " << shape.groups
         << " key/value heads";
      return {"ulysses", why};
    }
    os << "a cache by places in its blocks: " << shape.ranks
       << " ranks do not divide " << shape.groups << " key/value heads";
    return {"ring", why};
  }
  if (taken.tokens && !taken.heads) {
    os << "another axis cuts the tokens of attention already";
    return {"ulysses", why};
  }
  SmallVector<Cost> costs = {{"ring", shape.ringElements()}};
  if (taken.heads)
    os << "another axis moves heads already; ";
  else if (shape.ranks > shape.heads)
    os << shape.ranks << " ranks are more than " << shape.heads << " heads; ";
  else
    costs.push_back({"ulysses", shape.ulyssesElements()});
  if (topology) {
    // It sends what a whole ring does, and holds all keys: only time speaks for
    // it.
    costs.push_back({"gather", shape.gatherElements()});
    estimate(shape, *topology, topology->axes.lookup(axis), costs);
  }
  auto cheaper = [&](const Cost &x, const Cost &y) {
    return topology ? x.seconds < y.seconds : x.elements < y.elements;
  };
  const Cost *best = std::min_element(costs.begin(), costs.end(), cheaper);
  if (topology) {
    os << "a layer takes ";
    llvm::interleaveComma(costs, os, [&](const Cost &cost) {
      os << llvm::formatv("{0:F3} ms by {1}", cost.seconds * 1e3, cost.method);
    });
    os << llvm::formatv(", {0:F3} of them attention itself",
                        shape.flops() / topology->flopsPerSecond * 1e3);
  } else {
    os << "keys and values that go round are " << shape.ringElements()
       << " elements for each of a rank's tokens";
    if (costs.size() > 1)
      os << ", all-to-alls " << shape.ulyssesElements();
  }
  return {best->method, why};
}

/// Tokens of a block from which on a transfer hides behind attention to the
/// block before, without a mask: 4 c^2 H E / F >= 2 c G E bytes / B (Liu et
/// al., arXiv:2310.01889, section 3, for key/value heads and elements of any
/// size). They want six blocks a rank.
static std::string minimumBlock(const Shape &shape, const Topology &topology,
                                const Topology::Link &link) {
  double block = topology.flopsPerSecond / link.bytesPerSecond *
                 static_cast<double>(shape.groups * kElementBytes) /
                 static_cast<double>(2 * shape.heads);
  return llvm::formatv(
             "; a ring hides transfers from blocks of {0:F0} tokens on, a rank "
             "from {1:F0}",
             block, 6 * block)
      .str();
}

LogicalResult mlir::heddle::resolveContext(MutableArrayRef<Strategy> strategies,
                                           TokenLayout layout, ModuleOp module,
                                           MeshOp mesh,
                                           const Topology *topology) {
  MLIRContext *context = module.getContext();
  SmallVector<Attribute> choices;
  bool several = llvm::count_if(strategies, [](const Strategy &strategy) {
                   return strategy.name == "context";
                 }) > 1;
  for (Strategy &strategy : strategies) {
    if (strategy.name != "context")
      continue;
    int64_t ranks = mesh.getAxisSize(strategy.axis);
    Taken taken;
    int64_t tensorRanks = 1;
    for (const Strategy &other : strategies) {
      taken.add(other.name);
      if (other.name == "tensor")
        tensorRanks *= mesh.getAxisSize(other.axis);
    }
    // Attention of one kind of layer, in programs of one length, is alike.
    llvm::StringSet<> methods;
    bool ok = true;
    module.walk([&](AttentionOp op) {
      // Methods on several axes must fit one another: the first layer decides.
      if (several && !methods.empty())
        return;
      Shape shape = {llvm::divideCeil(dimOf(op.getQuery(), 2), tensorRanks),
                     llvm::divideCeil(dimOf(op.getKey(), 2), tensorRanks),
                     dimOf(op.getQuery(), 3),
                     ranks,
                     dimOf(op.getQuery(), 0),
                     dimOf(op.getQuery(), 1),
                     static_cast<int64_t>(op.getWindow()),
                     op.getCausal(),
                     ranks - 1};
      bool cached = op.getBlocks() != nullptr;
      if (!cached) {
        auto axis = AxisRefAttr::get(context, strategy.axis);
        FailureOr<Layout> tokens =
            Layout::get(mesh, dealTokens(axis, layout, ranks, shape.tokens, 1),
                        shape.tokens, [&]() { return op.emitOpError(); });
        if (failed(tokens)) {
          ok = false;
          return;
        }
        shape.hops =
            static_cast<int64_t>(ringHops(op, *tokens).hops.size()) - 1;
      }
      auto [method, why] =
          choose(shape, cached, taken, topology, strategy.axis);
      if (topology && !cached)
        why += minimumBlock(shape, *topology,
                            topology->axes.lookup(strategy.axis));
      op->setAttr(kMethodAttr, StringAttr::get(context, method));
      methods.insert(method);
      std::string text = ("context(" + strategy.axis + "): " + method).str();
      if (shape.window)
        text += " for a window of " + std::to_string(shape.window);
      auto choice = StringAttr::get(context, text + ", " + why);
      if (!llvm::is_contained(choices, choice))
        choices.push_back(choice);
    });
    if (!ok)
      return failure();
    // One method for all is that strategy; otherwise each attention says its
    // own.
    if (methods.size() <= 1) {
      strategy.name =
          methods.empty() ? "ring" : methods.begin()->getKey().str();
      module.walk([](AttentionOp op) { op->removeAttr(kMethodAttr); });
    }
  }
  if (!choices.empty())
    module->setAttr(kChoicesAttr, ArrayAttr::get(context, choices));
  return success();
}
