//===- Placement.cpp - Where every value of a program lies ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Placement.h"

using namespace mlir;
using namespace mlir::heddle;

static int64_t bytesOf(Value value) {
  return getTensorBytes(cast<RankedTensorType>(value.getType()));
}

Placement::Placement(func::FuncOp program, ArrayRef<FixedPlace> argumentPlaces,
                     ArrayRef<FixedPlace> resultPlaces)
    : program(program), argumentPlaces(argumentPlaces),
      resultPlaces(resultPlaces) {}

//===----------------------------------------------------------------------===//
// Lifetimes
//===----------------------------------------------------------------------===//

/// Instructions are numbered in program order; a repeat spans its bodies.
void Placement::number() {
  int64_t next = 0;
  auto visit = [&](auto &&self, Block &block) -> void {
    for (Operation &op : block) {
      begin[&op] = next++;
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          self(self, inner);
      end[&op] = next++;
    }
  };
  visit(visit, program.front());
}

/// A use in the body of a repeat of a value from outside lasts to the end of
/// the repeat, because the body runs again.
int64_t Placement::lastUse(Value value) const {
  Block *home = value.getParentBlock();
  int64_t last = 0;
  for (Operation *user : value.getUsers()) {
    Operation *op = home->findAncestorOpInBlock(*user);
    last = std::max(last, op == user && !isa<RepeatOp>(op) ? begin.lookup(op)
                                                           : end.lookup(op));
  }
  return last;
}

int Placement::newStorage(int64_t bytes, int64_t first, int64_t last) {
  Storage storage;
  storage.bytes = bytes;
  storage.first = first;
  storage.last = last;
  storages.push_back(storage);
  return static_cast<int>(storages.size()) - 1;
}

int Placement::newStorage(Value value) {
  return newStorage(bytesOf(value), 0, 0);
}

/// First write and last read of every storage, over all its values.
void Placement::computeLifetimes() {
  std::vector<bool> seen(storages.size(), false);
  for (auto &[value, place] : places) {
    Storage &s = storages[place.storage];
    if (s.fixed)
      continue;
    int64_t first, last = lastUse(value);
    if (Operation *def = value.getDefiningOp()) {
      first = begin.lookup(def);
    } else {
      // A carry in the body of a repeat: live throughout.
      Operation *repeat = value.getParentBlock()->getParentOp();
      first = begin.lookup(repeat);
      last = end.lookup(repeat);
    }
    last = std::max(last, first);
    if (!seen[place.storage]) {
      s.first = first;
      s.last = last;
      seen[place.storage] = true;
    } else {
      s.first = std::min(s.first, first);
      s.last = std::max(s.last, last);
    }
  }
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

/// True if the value's storage can be put somewhere else: it is all of a work
/// storage and dies at `until` at the latest.
bool Placement::isMovable(Value value, Operation *until) const {
  if (!value.getDefiningOp())
    return false;
  auto it = places.find(value);
  if (it == places.end() || !it->second.isWhole() ||
      storages[it->second.storage].fixed ||
      storages[it->second.storage].bytes != bytesOf(value))
    return false;
  for (auto &[other, place] : places)
    if (place.storage == it->second.storage &&
        lastUse(other) > end.lookup(until))
      return false;
  return true;
}

void Placement::rebase(int storage, const Place &to) {
  for (auto &[value, place] : places)
    if (place.storage == storage)
      place = to;
  storages[to.storage].communication |= storages[storage].communication;
  storages[storage].bytes = 0;
}

LogicalResult Placement::placeOp(Operation *op) {
  if (auto repeat = dyn_cast<RepeatOp>(op))
    return placeRepeat(repeat);
  if (isa<SplitHeadsOp, MergeHeadsOp, SplitChunksOp, JoinChunksOp>(op)) {
    Place place = get(op->getOperand(0));
    places[op->getResult(0)] = place;
    return success();
  }
  if (auto take = dyn_cast<TakeUnitsOp>(op)) {
    // What is no range of its input's memory is in a kernel by now.
    std::optional<int64_t> offset = take.getViewOffset();
    if (!offset)
      return op->emitOpError("expected a range of the input's memory, or a "
                             "kernel: run heddle-schedule first");
    Place place = get(take.getInput());
    place.offset +=
        *offset * getBlockBytes(take.getInput().getType().getElementType()) /
        getBlockElements(take.getInput().getType().getElementType());
    places[take.getResult()] = place;
    return success();
  }
  if (auto wait = dyn_cast<comm::WaitOp>(op)) {
    // What was begun arrives where it was to arrive.
    Place place = get(wait.getStarted());
    places[wait.getResult()] = place;
    return success();
  }
  bool isCollective = op->getDialect()->getNamespace() == "comm";
  if (auto reduce = dyn_cast<comm::AllReduceOp>(op)) {
    Value operand = reduce.getInput();
    Place place = get(operand);
    // In place only if nothing else that lies there (a reshape) lives on.
    bool dies = llvm::all_of(places, [&](auto &entry) {
      return entry.second.storage != place.storage ||
             lastUse(entry.first) <= begin.lookup(op);
    });
    if (!storages[place.storage].fixed && dies) {
      storages[place.storage].communication = true;
      places[reduce.getResult()] = place;
      return success();
    }
  }
  SmallVector<int64_t> aliases(op->getNumResults(), -1);
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto kernel = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
        op, call.getCalleeAttr());
    FailureOr<SmallVector<int64_t>> known = getKernelAliases(kernel);
    if (failed(known))
      return failure();
    aliases = *known;
  }
  for (OpResult result : op->getResults()) {
    if (int64_t argument = aliases[result.getResultNumber()]; argument >= 0) {
      Place place = get(op->getOperand(argument));
      places[result] = place;
      continue;
    }
    Place place;
    place.storage = newStorage(result);
    storages[place.storage].communication = isCollective;
    places[result] = place;
  }
  if (isCollective)
    for (Value operand : op->getOperands())
      storages[get(operand).storage].communication = true;
  return success();
}

LogicalResult Placement::placeRepeat(RepeatOp repeat) {
  if (repeat.getReverse())
    return repeat.emitOpError("expected a forward repeat; reverse repeats have "
                              "no plan form");
  int64_t numCarries = repeat.getCarries().size();
  int64_t trips = repeat.getOrder().size();
  SmallVector<Place> current, next;
  for (int64_t i = 0; i < numCarries; ++i) {
    Value init = repeat.getCarries()[i];
    int64_t bytes = alignUp(bytesOf(init));
    Place slots;
    slots.storage = newStorage(2 * bytes, begin[repeat], end[repeat]);
    bool captured = llvm::any_of(init.getUsers(), [&](Operation *user) {
      return user != repeat && repeat->isProperAncestor(user);
    });
    if (!captured && isMovable(init, repeat))
      rebase(get(init).storage, slots);
    else
      copies[repeat].push_back({get(init), slots, bytesOf(init)});
    Place now = slots, then = slots;
    now.terms.push_back({bytes, LoopScalar::Iteration, 2, repeat});
    then.terms.push_back({bytes, LoopScalar::NextIteration, 2, repeat});
    current.push_back(now);
    next.push_back(then);
    Place result = slots;
    result.offset = bytes * (trips % 2);
    places[repeat.getResult(i)] = result;
  }
  for (auto [i, inout] : llvm::enumerate(repeat.getInouts()))
    places[repeat.getResult(numCarries + i)] = get(inout);
  // What kinds emit, kind by kind, is stacked in place.
  for (size_t i = repeat.getCarries().size() + repeat.getInouts().size();
       i < repeat.getNumResults(); ++i) {
    Place stack;
    stack.storage = newStorage(repeat.getResult(i));
    places[repeat.getResult(i)] = stack;
  }
  int64_t emitted = numCarries + repeat.getInouts().size();

  auto slice = [&](Value stack, Value part) {
    Place place = get(stack);
    int64_t stride = bytesOf(part);
    if (auto argument = dyn_cast<BlockArgument>(stack);
        argument && argument.getOwner() == &program.front())
      if (int64_t fixed = argumentPlaces[argument.getArgNumber()].stride)
        stride = fixed;
    place.terms.push_back({stride, LoopScalar::Ordinal, 0, repeat});
    places[part] = place;
  };
  for (int64_t kind = 0; kind < (int64_t)repeat.getKinds().size(); ++kind) {
    Block &body = repeat.getKinds()[kind].front();
    int64_t arg = 0;
    for (; arg < numCarries; ++arg)
      places[body.getArgument(arg)] = current[arg];
    for (int64_t i : repeat.getParamsOf(kind))
      slice(repeat.getParams()[i], body.getArgument(arg++));
    SmallVector<Value> states;
    for (int64_t i : repeat.getInoutsOf(kind)) {
      states.push_back(body.getArgument(arg));
      slice(repeat.getInouts()[i], body.getArgument(arg++));
    }
    if (failed(placeBlock(body)))
      return failure();
    auto yield = cast<YieldOp>(body.getTerminator());
    for (auto [i, value] : llvm::enumerate(yield.getCarries())) {
      bool inBody = value.getParentBlock() == &body;
      if (inBody && isMovable(value, yield))
        rebase(get(value).storage, next[i]);
      else if (!(get(value) == next[i]))
        copies[yield].push_back({get(value), next[i], bytesOf(value)});
    }
    for (Value value : yield.getEmits()) {
      Place to = get(repeat.getResult(emitted++));
      to.terms.push_back({bytesOf(value), LoopScalar::Ordinal, 0, repeat});
      if (value.getParentBlock() == &body && isMovable(value, yield))
        rebase(get(value).storage, to);
      else
        copies[yield].push_back({get(value), to, bytesOf(value)});
    }
    for (auto [state, value] : llvm::zip(states, yield.getInouts()))
      if (!(get(value) == get(state)))
        copies[yield].push_back({get(value), get(state), bytesOf(value)});
  }
  return success();
}

LogicalResult Placement::placeBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(placeOp(&op)))
      return failure();
  return success();
}

/// Results go straight to their fixed place where their storage can move.
void Placement::placeResults() {
  Operation *terminator = program.front().getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    Place to;
    Storage fixed;
    fixed.bytes = bytesOf(value);
    fixed.fixed = true;
    fixed.region = resultPlaces[i].region;
    fixed.offset = resultPlaces[i].offset;
    const Place &now = get(value);
    const Storage &at = storages[now.storage];
    if (at.fixed && at.region == fixed.region &&
        at.offset + now.offset == fixed.offset && now.terms.empty())
      continue;
    storages.push_back(fixed);
    to.storage = static_cast<int>(storages.size()) - 1;
    if (isMovable(value, terminator))
      rebase(get(value).storage, to);
    else
      copies[terminator].push_back({get(value), to, bytesOf(value)});
  }
}

LogicalResult Placement::run() {
  number();
  for (auto [i, argument] : llvm::enumerate(program.getArguments())) {
    Storage fixed;
    fixed.bytes = bytesOf(argument);
    fixed.fixed = true;
    fixed.region = argumentPlaces[i].region;
    fixed.offset = argumentPlaces[i].offset;
    storages.push_back(fixed);
    places[argument] = {static_cast<int>(storages.size()) - 1, 0, {}};
  }
  if (failed(placeBlock(program.front())))
    return failure();
  placeResults();
  computeLifetimes();
  return success();
}
