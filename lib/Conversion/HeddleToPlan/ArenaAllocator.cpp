//===- ArenaAllocator.cpp - Offsets for lifetimes ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Placement.h"

using namespace mlir;
using namespace mlir::heddle;

int64_t mlir::heddle::allocateArena(std::vector<Storage> &storages,
                                    int64_t &peakAt) {
  SmallVector<Storage *> order;
  for (Storage &s : storages)
    if (!s.fixed && s.bytes > 0)
      order.push_back(&s);
  llvm::stable_sort(order, [](const Storage *a, const Storage *b) {
    return a->bytes > b->bytes;
  });
  SmallVector<Storage *> placed;
  int64_t total = 0;
  for (Storage *s : order) {
    // Ranges taken by storages that live at the same time, by offset.
    SmallVector<Storage *> alive;
    for (Storage *p : placed)
      if (p->first <= s->last && s->first <= p->last)
        alive.push_back(p);
    llvm::sort(alive,
               [](Storage *a, Storage *b) { return a->offset < b->offset; });
    int64_t offset = 0;
    for (Storage *p : alive) {
      if (offset + s->bytes <= p->offset)
        break;
      offset = std::max(offset, alignUp(p->offset + p->bytes));
    }
    s->offset = offset;
    placed.push_back(s);
    total = std::max(total, offset + s->bytes);
  }
  int64_t most = -1;
  peakAt = 0;
  for (Storage *at : placed) {
    int64_t live = 0;
    for (Storage *p : placed)
      if (p->first <= at->first && at->first <= p->last)
        live += p->bytes;
    if (live > most) {
      most = live;
      peakAt = at->first;
    }
  }
  return alignUp(total);
}
