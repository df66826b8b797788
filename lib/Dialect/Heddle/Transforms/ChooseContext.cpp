//===- ChooseContext.cpp - context(axis): which method --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/Transforms/Strategies.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::heddle;

namespace {

/// What attention has to share, after `tensor` has taken its part of the heads.
struct Shape {
  int64_t heads, groups, width, ranks;

  /// Slots of `count` heads on a rank; those that several need are copied.
  int64_t slots(int64_t count) const { return llvm::divideCeil(count, ranks); }
  /// Elements that a rank sends for one token of its own, over all peers.
  int64_t ringElements() const { return (ranks - 1) * 2 * groups * width; }
  int64_t ulyssesElements() const {
    return (ranks - 1) * 2 * (slots(heads) + slots(groups)) * width;
  }
};

} // namespace

static int64_t dimOf(Value value, int64_t dim) {
  return cast<RankedTensorType>(value.getType()).getDimSize(dim);
}

/// The method, "ring" or "ulysses", and the reason.
static std::pair<StringRef, std::string> choose(AttentionOp attention,
                                                Shape shape, bool headsTaken) {
  std::string why;
  llvm::raw_string_ostream os(why);
  if (headsTaken) {
    os << "another axis moves heads already";
    return {"ring", why};
  }
  if (attention.getBlocks()) {
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
  if (shape.ranks > shape.heads) {
    os << shape.ranks << " ranks are more than " << shape.heads << " heads";
    return {"ring", why};
  }
  bool ring = shape.ringElements() <= shape.ulyssesElements();
  os << "keys and values that go round are " << shape.ringElements()
     << " elements for each of a rank's tokens, all-to-alls "
     << shape.ulyssesElements();
  return {ring ? "ring" : "ulysses", why};
}

void mlir::heddle::resolveContext(MutableArrayRef<Strategy> strategies,
                                  ModuleOp module, MeshOp mesh) {
  AttentionOp attention;
  module.walk([&](AttentionOp op) {
    attention = op;
    return WalkResult::interrupt();
  });
  SmallVector<Attribute> choices;
  for (Strategy &strategy : strategies) {
    if (strategy.name != "context")
      continue;
    strategy.name = "ring";
    if (!attention)
      continue;
    Shape shape = {dimOf(attention.getQuery(), 2), dimOf(attention.getKey(), 2),
                   dimOf(attention.getQuery(), 3),
                   mesh.getAxisSize(strategy.axis)};
    bool headsTaken = false;
    for (const Strategy &other : strategies) {
      headsTaken |= other.name == "ulysses";
      if (other.name != "tensor")
        continue;
      int64_t ranks = mesh.getAxisSize(other.axis);
      shape.heads = llvm::divideCeil(shape.heads, ranks);
      shape.groups = llvm::divideCeil(shape.groups, ranks);
    }
    auto [method, why] = choose(attention, shape, headsTaken);
    strategy.name = method.str();
    choices.push_back(StringAttr::get(
        module.getContext(),
        ("context(" + strategy.axis + "): " + method + ", " + why).str()));
  }
  if (!choices.empty())
    module->setAttr(kChoicesAttr, ArrayAttr::get(module.getContext(), choices));
}
