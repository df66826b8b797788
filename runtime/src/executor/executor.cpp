//===- executor.cpp - Runs programs on ranks ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "executor/executor.h"

#include "base/text.h"
#include "executor/rank.h"

#include <algorithm>

namespace heddle::rt {

Executor::Executor(Communicator &comm, const ExecutorOptions &options)
    : comm_(comm), options_(options) {}

Executor::~Executor() = default;

Result<std::unique_ptr<Executor>>
Executor::create(const Bundle &bundle, Communicator &comm,
                 const std::vector<RankMemory> &ranks,
                 const ExecutorOptions &options) {
  std::unique_ptr<Executor> executor(new Executor(comm, options));
  HEDDLE_RT_RETURN_IF_ERROR(executor->build(bundle, ranks));
  return executor;
}

Status Executor::build(const Bundle &bundle,
                       const std::vector<RankMemory> &ranks) {
  const fb::Plan &plan = bundle.plan();
  Result<std::vector<KernelFn>> kernels = bundle.kernels();
  if (!kernels)
    return kernels.status();
  context_ = std::make_unique<DecodeContext>(plan, kernels.take());
  instrumented_ = options_.trace || options_.fault || options_.scheduleSeed;
  allLocal_ = static_cast<int64_t>(ranks.size()) == bundle.worldSize();

  size_t scalars = 0, loops = 0, addresses = 0, arguments = 0, events = 0;
  classes_.resize(plan.classes()->size());
  for (const RankMemory &memory : ranks) {
    uint32_t index =
        plan.rank_class()->size() == 1 ? 0 : static_cast<uint32_t>(memory.rank);
    uint32_t cls = static_cast<uint32_t>(plan.rank_class()->Get(index));
    if (!classes_[cls]) {
      classes_[cls] = std::make_unique<ClassPrograms>();
      const fb::RankClass &source = *plan.classes()->Get(cls);
      if (source.programs())
        for (const fb::Program *program : *source.programs()) {
          Result<Program> decoded = decodeProgram(*context_, source, *program);
          if (!decoded)
            return decoded.status();
          Program &kept = classes_[cls]->programs[program->name()->str()];
          kept = decoded.take();
          scalars = std::max(scalars, static_cast<size_t>(kept.scalars));
          loops = std::max(loops, static_cast<size_t>(kept.loops));
          events = std::max(events, static_cast<size_t>(kept.events));
          addresses =
              std::max(addresses, static_cast<size_t>(kept.maxAddresses));
          arguments = std::max(arguments, static_cast<size_t>(kept.maxScalars));
        }
    }
    auto rank = std::make_unique<Rank>();
    rank->executor = this;
    rank->number = memory.rank;
    rank->programs = classes_[cls].get();
    rank->spaces = memory.spaces;
    rank->trace.rank = memory.rank;
    for (size_t i = 0; i < rank->streams.size(); ++i) {
      rank->streams[i].trace.rank = memory.rank;
      rank->streams[i].trace.stream = static_cast<int32_t>(i);
    }
    rank->random = options_.scheduleSeed * 0x9e3779b97f4a7c15u +
                   static_cast<uint64_t>(memory.rank) * 2 + 1;
    ranks_.push_back(std::move(rank));
  }
  for (std::unique_ptr<Rank> &rank : ranks_) {
    locate(plan, *rank);
    rank->scalars.resize(scalars);
    rank->loops.resize(loops);
    rank->events.resize(events);
    rank->frame.resize((addresses + arguments) / 8 + 1);
    rank->operands = reinterpret_cast<void **>(rank->frame.data());
    rank->arguments =
        reinterpret_cast<int64_t *>(rank->frame.data()) + addresses;
  }
  pool_ = std::make_unique<WorkerPool>(options_.workers, options_.scheduleSeed,
                                       allLocal_, helpOffered);
  return {};
}

void Executor::locate(const fb::Plan &plan, Rank &rank) {
  // Rank order is axis order, last axis fastest.
  size_t axes = plan.axes() ? plan.axes()->size() : 0;
  std::vector<int64_t> sizes(axes), strides(axes);
  rank.coordinates.resize(axes);
  int64_t stride = 1;
  for (size_t i = axes; i-- > 0;) {
    sizes[i] = plan.axes()->Get(static_cast<uint32_t>(i))->size();
    strides[i] = stride;
    rank.coordinates[i] = rank.number / stride % sizes[i];
    stride *= sizes[i];
  }
  for (const std::vector<int32_t> &group : context_->groups()) {
    int64_t first = rank.number, size = 1, self = 0;
    for (int32_t axis : group) {
      size_t a = static_cast<size_t>(axis);
      first -= rank.coordinates[a] * strides[a];
      size *= sizes[a];
      self = self * sizes[a] + rank.coordinates[a];
    }
    std::vector<int32_t> members;
    for (int64_t i = 0; i < size; ++i) {
      int64_t member = first, rest = i;
      for (size_t j = group.size(); j-- > 0;) {
        size_t a = static_cast<size_t>(group[j]);
        member += rest % sizes[a] * strides[a];
        rest /= sizes[a];
      }
      members.push_back(static_cast<int32_t>(member));
    }
    std::unique_ptr<std::vector<int32_t>> &kept = groups_[members];
    if (!kept)
      kept = std::make_unique<std::vector<int32_t>>(members);
    rank.groups.push_back({kept.get(), static_cast<int32_t>(self)});
  }
}

Status Executor::setParam(const std::string &program, const std::string &name,
                          int64_t value) {
  bool programFound = false, found = false;
  for (std::unique_ptr<ClassPrograms> &cls : classes_) {
    if (!cls)
      continue;
    auto entry = cls->programs.find(program);
    if (entry == cls->programs.end())
      continue;
    programFound = true;
    for (ParamSlot &param : entry->second.params) {
      if (param.name != name)
        continue;
      if (value < param.lo || value > param.hi)
        return Status(Code::invalid_argument,
                      concat("parameter '", name, "' of program '", program,
                             "': expected ", param.lo, " to ", param.hi,
                             ", got ", value));
      param.value = value;
      found = true;
    }
  }
  if (!programFound)
    return Status(Code::not_found,
                  concat("the bundle has no program '", program, "'"));
  if (!found)
    return Status(Code::not_found, concat("program '", program,
                                          "' has no parameter '", name, "'"));
  return {};
}

Status Executor::run(const std::string &program) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.ok())
      return Status(Code::aborted,
                    concat("an earlier run failed: ", failure_.message()));
  }
  std::vector<WorkItem> items;
  for (std::unique_ptr<Rank> &rank : ranks_) {
    auto entry = rank->programs->programs.find(program);
    if (entry == rank->programs->programs.end())
      return Status(Code::not_found, concat("rank ", rank->number,
                                            " has no program '", program, "'"));
    rank->program = &entry->second;
    rank->pc = 0;
    rank->current = 0;
    rank->eventBegin = 0;
    rank->waiting.store(false, std::memory_order_relaxed);
    rank->leaving = false;
    std::fill(rank->events.begin(), rank->events.end(), Rank::Event());
    std::fill(rank->scalars.begin(), rank->scalars.end(), 0);
    for (const ParamSlot &param : entry->second.params)
      rank->scalars[static_cast<size_t>(param.scalar)] = param.value;
    items.push_back({resume, rank.get()});
  }
  if (items.empty())
    return {};

  unfinished_.store(static_cast<int64_t>(items.size()));
  if (allLocal_)
    pool_->postWatched(items, unfinished_, [this] { reportDeadlock(); });
  else
    for (const WorkItem &item : items)
      pool_->post(item);
  {
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [&] { return unfinished_.load() == 0; });
  }
  pool_->unwatch();
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

/// Ends the run of `rank`, as soon as nothing of it is in flight.
void Executor::finish(Rank &rank) {
  {
    std::lock_guard<std::mutex> lock(rank.streamsMutex);
    rank.leaving = rank.inFlight > 0;
    if (rank.leaving) {
      for (const Rank::Stream &stream : rank.streams)
        if (stream.completed < stream.started)
          rank.waitsFor = stream.current;
      rank.waiting.store(true, std::memory_order_release);
      return;
    }
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (unfinished_.fetch_sub(1) == 1)
    done_.notify_all();
}

std::string Executor::position(const Rank &rank, int32_t pc) const {
  const Origin &origin = rank.program->origins[static_cast<size_t>(pc)];
  std::string text = concat("rank ", rank.number, ", program '",
                            rank.program->name, "', ", origin.kind);
  if (!origin.name.empty())
    text += concat(" '", origin.name, "'");
  if (!origin.location.empty())
    text += concat(" at ", origin.location);
  return text;
}

void Executor::fail(Rank &rank, int32_t pc, Code code,
                    const std::string &reason) {
  stop(Status(code, concat(position(rank, pc), ": ", reason)));
  finish(rank);
}

void Executor::stop(Status reason) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.ok())
      return;
    failure_ = reason;
  }
  stopped_.store(true, std::memory_order_relaxed);
  comm_.abort(Status(Code::aborted, reason.message()));
}

void Executor::reportDeadlock() {
  constexpr int kShown = 8;
  std::string text = "the ranks wait for one another:";
  int waiting = 0;
  for (const std::unique_ptr<Rank> &rank : ranks_) {
    if (!rank->waiting.load(std::memory_order_acquire))
      continue;
    if (waiting++ < kShown)
      text += concat("\n  ", position(*rank, rank->waitsFor));
  }
  if (waiting > kShown)
    text += concat("\n  … and ", waiting - kShown, " more");
  size_t ended = ranks_.size() - static_cast<size_t>(waiting);
  if (ended > 0)
    text += concat("\n  ", ended, " of ", ranks_.size(),
                   " ranks have reached the end");
  stop(Status(Code::invalid_argument, text));
}

Status Executor::writeTrace(const std::string &path) const {
  std::vector<const RankTrace *> traces;
  for (const std::unique_ptr<Rank> &rank : ranks_) {
    traces.push_back(&rank->trace);
    for (const Rank::Stream &stream : rank->streams)
      if (!stream.trace.events.empty())
        traces.push_back(&stream.trace);
  }
  return heddle::rt::writeTrace(path, traces);
}

} // namespace heddle::rt
