//===- interpreter.cpp - Advancing a rank ---------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/arena.h"
#include "base/checked_math.h"
#include "base/text.h"
#include "executor/rank.h"

#include <algorithm>
#include <cstring>

namespace heddle::rt {
namespace {

/// Turns of loops after which a rank that never waits lets others run.
constexpr uint32_t kFairTurns = 1 << 14;

/// No check: verifyPlan has shown that the address lies in its region whatever
/// the scalars are.
inline uint8_t *resolve(const Program &program, const Address &address,
                        uint8_t *const *spaces, const int64_t *scalars) {
  int64_t offset = address.offset;
  const AddressTerm *term = program.terms.data() + address.firstTerm;
  for (int32_t i = 0; i < address.terms; ++i, ++term) {
    int64_t value = scalars[term->scalar];
    if (term->modulus > 0)
      value = floorMod(value, term->modulus);
    offset = wrapAdd(offset, wrapMul(term->stride, value));
  }
  return spaces[address.space] + offset;
}

template <typename T> int64_t read(const uint8_t *from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return static_cast<int64_t>(value);
}

template <typename T> void write(uint8_t *to, int64_t from) {
  T value = static_cast<T>(from);
  std::memcpy(to, &value, sizeof(T));
}

int64_t readElement(DType type, const uint8_t *from) {
  switch (type) {
  case DType::i8:
    return read<int8_t>(from);
  case DType::u8:
    return read<uint8_t>(from);
  case DType::boolean:
    return read<uint8_t>(from) != 0;
  case DType::i16:
    return read<int16_t>(from);
  case DType::i32:
    return read<int32_t>(from);
  case DType::i64:
    return read<int64_t>(from);
  case DType::f32: {
    float value;
    std::memcpy(&value, from, sizeof(value));
    // What does not fit becomes the nearest value, NaN becomes 0.
    if (!(value > -9.2e18f))
      return value != value ? 0 : std::numeric_limits<int64_t>::min();
    return value < 9.2e18f ? static_cast<int64_t>(value)
                           : std::numeric_limits<int64_t>::max();
  }
  default:
    return 0; // excluded by verifyPlan
  }
}

void writeElement(DType type, uint8_t *to, int64_t value) {
  switch (type) {
  case DType::i8:
  case DType::u8:
    return write<uint8_t>(to, value);
  case DType::boolean:
    return write<uint8_t>(to, value != 0);
  case DType::i16:
    return write<uint16_t>(to, value);
  case DType::i32:
    return write<uint32_t>(to, value);
  case DType::i64:
    return write<int64_t>(to, value);
  case DType::f32:
    return write<float>(to, value);
  default:
    return;
  }
}

uint64_t nextRandom(uint64_t &state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

bool isWork(Op op) { return op >= Op::launch && op <= Op::awaitStream; }

} // namespace

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

void Executor::runTile(Rank &rank, int64_t tile, int64_t tiles) {
  tile += rank.tileOffset;
  if (tile >= tiles)
    tile -= tiles;
  if (rank.kernel) {
    rank.kernel(rank.operands, rank.arguments, tile, tiles);
    return;
  }
  Status status = rank.gemm->run(static_cast<const float *>(rank.operands[0]),
                                 static_cast<const float *>(rank.operands[1]),
                                 static_cast<float *>(rank.operands[2]),
                                 rank.arguments[0], tile);
  if (!status.ok() && !rank.tileFailed.exchange(true))
    rank.tileStatus = std::move(status);
}

/// True if this call finished the last tile. That an exchange compares the
/// epoch too is what makes a late invitation safe.
///
/// Half of the workers begin with the first tile and half with the last, so
/// that neighbouring tiles, whose results share pages and pairs of cache lines,
/// and the same rows of one launch after another, stay with one worker.
bool Executor::runTiles(Rank &rank, uint32_t epoch) {
  bool fromTheEnd = WorkerPool::number() % 2 != 0;
  uint64_t share = 2 * static_cast<uint64_t>(pool_->workers());
  int32_t done = 0;
  uint64_t tickets = rank.tickets.load(std::memory_order_acquire);
  for (;;) {
    uint64_t first = tickets & 0xffff;
    uint64_t left = tickets >> 16 & 0xffff;
    if (static_cast<uint32_t>(tickets >> 32) != epoch || left == 0)
      break;
    // Many at a time at first, one at a time in the end.
    uint64_t count = (left + share - 1) / share;
    uint64_t taken = tickets - (count << 16) + (fromTheEnd ? 0 : count);
    if (!rank.tickets.compare_exchange_weak(tickets, taken,
                                            std::memory_order_acq_rel,
                                            std::memory_order_acquire))
      continue;
    uint64_t tile = fromTheEnd ? first + left - count : first;
    for (uint64_t i = 0; i < count; ++i)
      runTile(rank, static_cast<int64_t>(tile + i), rank.tiles);
    done += static_cast<int32_t>(count);
    tickets = rank.tickets.load(std::memory_order_acquire);
  }
  return done > 0 &&
         rank.remaining.fetch_sub(done, std::memory_order_acq_rel) == done;
}

/// Runs the tiles of the launch or gemm that `rank` holds. True if they are
/// done; otherwise another worker has the last one and goes on with the rank.
///
/// If enough workers look for work, they are offered the tiles, and this one
/// waits for those that they take: the rank stays here, and few cache lines
/// travel. Otherwise an invitation is queued, and whoever has the last tile
/// goes on. It holds for one launch only, so that workers go back to the queue
/// in between.
bool Executor::openTiles(Rank &rank, int64_t tiles) {
  rank.tileFailed.store(false, std::memory_order_relaxed);
  uint64_t random = options_.scheduleSeed ? nextRandom(rank.random) : 0;
  rank.tileOffset =
      static_cast<int32_t>(random / 2 % static_cast<uint64_t>(tiles));
  int64_t helpers = std::min<int64_t>(tiles, pool_->workers()) - 1;
  if (helpers <= 0) {
    for (int64_t tile = 0; tile < tiles; ++tile)
      runTile(rank, tile, tiles);
    return true;
  }
  bool offered =
      pool_->lookers() >= helpers && !pool_->hasQueued() && random % 2 == 0;
  uint32_t epoch = rank.epoch = (rank.epoch | 1) + (offered ? 2 : 1);
  rank.tiles = tiles;
  rank.remaining.store(static_cast<int32_t>(tiles), std::memory_order_relaxed);
  rank.tickets.store(static_cast<uint64_t>(epoch) << 32 |
                         static_cast<uint64_t>(tiles) << 16,
                     std::memory_order_release);
  if (offered)
    pool_->offer(&rank);
  if (!offered || pool_->lookers() < helpers)
    pool_->post(WorkItem{helpTiles, &rank, epoch, static_cast<int32_t>(helpers),
                         hasTiles});
  if (runTiles(rank, epoch))
    return true;
  if (offered)
    WorkerPool::waitUntil(
        [&] { return rank.remaining.load(std::memory_order_acquire) == 0; });
  return offered;
}

void Executor::helpOffered(void *context) {
  Rank &rank = *static_cast<Rank *>(context);
  uint64_t epoch = rank.tickets.load(std::memory_order_acquire) >> 32;
  if (epoch % 2 != 0)
    rank.executor->runTiles(rank, static_cast<uint32_t>(epoch));
}

bool Executor::hasTiles(void *context, uint64_t epoch) {
  uint64_t tickets =
      static_cast<Rank *>(context)->tickets.load(std::memory_order_relaxed);
  return tickets >> 32 == epoch && (tickets >> 16 & 0xffff) != 0;
}

void Executor::helpTiles(void *context, uint64_t epoch) {
  Rank &rank = *static_cast<Rank *>(context);
  bool last = rank.executor->runTiles(rank, static_cast<uint32_t>(epoch));
  bool offered = epoch % 2 != 0;
  if (last && !offered)
    rank.executor->advance(rank);
}

//===----------------------------------------------------------------------===//
// Communication
//===----------------------------------------------------------------------===//

/// True if the call is complete already; otherwise `done` resumes the rank.
bool Executor::startCall(Rank &rank, const CollectiveCall &call) {
  rank.signal.store(0, std::memory_order_relaxed);
  rank.waitsFor = rank.current;
  rank.waiting.store(true, std::memory_order_release);
  // Two pointers: std::function holds them without allocating.
  Rank *self = &rank;
  comm_.start(rank.number, call, [self](Status status) {
    self->waitStatus = std::move(status);
    if (self->signal.exchange(1, std::memory_order_acq_rel) == 1)
      self->executor->pool_->post(WorkItem{resumeAfterWait, self});
  });
  return rank.signal.exchange(1, std::memory_order_acq_rel) == 1;
}

void Executor::resumeAfterWait(void *context, uint64_t) {
  Rank &rank = *static_cast<Rank *>(context);
  rank.waiting.store(false, std::memory_order_relaxed);
  if (!rank.waitStatus.ok())
    return rank.executor->fail(rank, rank.waitsFor, rank.waitStatus.code(),
                               rank.waitStatus.message());
  rank.executor->advance(rank);
}

CollectiveCall Executor::collectiveCall(Rank &rank,
                                        const CollectiveCode &code) const {
  const Program &program = *rank.program;
  const Address *addresses = program.addresses.data() + code.firstAddress;
  const Rank::Group &group = rank.groups[static_cast<size_t>(code.group)];
  CollectiveCall call;
  call.op = code.op;
  call.reduction = code.reduction;
  call.dtype = code.dtype;
  call.group = group.ranks;
  call.self = group.self;
  call.id = code.id;
  call.source =
      resolve(program, addresses[0], rank.spaces.data(), rank.scalars.data());
  call.destination =
      resolve(program, addresses[1], rank.spaces.data(), rank.scalars.data());
  call.elements = rank.scalars[static_cast<size_t>(code.elements)];
  call.shift = code.shift;
  call.root = code.root;
  return call;
}

CollectiveCall Executor::messageCall(Rank &rank,
                                     const MessageCode &code) const {
  const Program &program = *rank.program;
  const Address &address = program.addresses[static_cast<size_t>(code.address)];
  uint8_t *data =
      resolve(program, address, rank.spaces.data(), rank.scalars.data());
  int64_t peer = rank.scalars[static_cast<size_t>(code.peer)];
  CollectiveCall call;
  call.op = code.sends ? CollectiveOp::send : CollectiveOp::recv;
  call.dtype = DType::u8;
  call.source = data;
  call.destination = data;
  call.elements = address.bytes;
  // The communicator refuses -1.
  call.peer =
      peer >= 0 && peer < comm_.worldSize() ? static_cast<int32_t>(peer) : -1;
  call.tag = rank.scalars[static_cast<size_t>(code.tag)];
  return call;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

void Executor::resume(void *context, uint64_t) {
  Rank &rank = *static_cast<Rank *>(context);
  rank.executor->advance(rank);
}

void Executor::advance(Rank &rank) {
  if (rank.tileFailed.exchange(false))
    return fail(rank, rank.current, rank.tileStatus.code(),
                rank.tileStatus.message());
  if (instrumented_)
    interpret<true>(rank);
  else
    interpret<false>(rank);
}

/// Instrumented runs only. False if the rank must not go on now.
bool Executor::before(Rank &rank, int32_t pc) {
  closeEvent(rank);
  const Instruction &code = rank.program->code[static_cast<size_t>(pc)];
  // A random schedule lets others go first now and then.
  if (options_.scheduleSeed && isWork(code.op) &&
      nextRandom(rank.random) % 4 == 0) {
    rank.pc = pc;
    pool_->post(WorkItem{resume, &rank});
    return false;
  }
  if (options_.fault && options_.fault->rank == rank.number &&
      rank.executed == options_.fault->instruction) {
    fail(rank, pc, heddle::rt::Code::internal, options_.fault->message);
    return false;
  }
  ++rank.executed;
  if (options_.trace) {
    const Origin &origin = rank.program->origins[static_cast<size_t>(pc)];
    if (isWork(code.op)) {
      rank.current = pc;
      rank.eventBegin = traceClock();
    } else if (code.op == Op::nothing && origin.kind[0] == 'm') {
      int64_t now = traceClock();
      rank.trace.add(&origin, now, now);
    }
  }
  return true;
}

void Executor::closeEvent(Rank &rank) {
  if (rank.eventBegin == 0)
    return;
  rank.trace.add(&rank.program->origins[static_cast<size_t>(rank.current)],
                 rank.eventBegin, traceClock());
  rank.eventBegin = 0;
}

template <bool kInstrumented> void Executor::interpret(Rank &rank) {
  using Error = heddle::rt::Code;
  const Program &program = *rank.program;
  const Instruction *const codes = program.code.data();
  int64_t *const s = rank.scalars.data();
  uint8_t *const *const spaces = rank.spaces.data();
  int32_t pc = rank.pc;

  for (;;) {
    const Instruction &code = codes[pc];
    if (kInstrumented && !before(rank, pc))
      return;
    switch (code.op) {
    case Op::constant:
      s[code.dst] = code.imm;
      break;
    case Op::coord:
      s[code.dst] = rank.coordinates[static_cast<size_t>(code.imm)];
      break;
    case Op::table: {
      const TableView &table =
          context_->tables()[static_cast<size_t>(code.imm)];
      int64_t row = s[code.a], col = s[code.b];
      if (row < 0 || row >= table.rows || col < 0 || col >= table.cols)
        return fail(rank, pc, Error::invalid_argument,
                    concat("expected an index into a table of ", table.rows,
                           " x ", table.cols, ", got ", row, ", ", col));
      s[code.dst] = table.data[row * table.cols + col];
      break;
    }
    case Op::add:
      s[code.dst] = wrapAdd(s[code.a], s[code.b]);
      break;
    case Op::sub:
      s[code.dst] = wrapSub(s[code.a], s[code.b]);
      break;
    case Op::mul:
      s[code.dst] = wrapMul(s[code.a], s[code.b]);
      break;
    case Op::floordiv:
    case Op::mod:
      if (s[code.b] == 0)
        return fail(rank, pc, Error::invalid_argument, "division by zero");
      s[code.dst] = code.op == Op::mod ? floorMod(s[code.a], s[code.b])
                                       : floorDiv(s[code.a], s[code.b]);
      break;
    case Op::min:
      s[code.dst] = std::min(s[code.a], s[code.b]);
      break;
    case Op::max:
      s[code.dst] = std::max(s[code.a], s[code.b]);
      break;
    case Op::lt:
      s[code.dst] = s[code.a] < s[code.b];
      break;
    case Op::le:
      s[code.dst] = s[code.a] <= s[code.b];
      break;
    case Op::eq:
      s[code.dst] = s[code.a] == s[code.b];
      break;
    case Op::ne:
      s[code.dst] = s[code.a] != s[code.b];
      break;
    case Op::select:
      s[code.dst] = s[code.a] != 0 ? s[code.b] : s[code.c];
      break;

    case Op::launch: {
      if (stopped())
        return finish(rank);
      const LaunchCode &launch =
          program.launches[static_cast<size_t>(code.index)];
      const Address *address = program.addresses.data() + launch.firstAddress;
      for (int32_t i = 0; i < launch.addresses; ++i)
        rank.operands[static_cast<size_t>(i)] =
            resolve(program, address[i], spaces, s);
      const int32_t *scalar = program.scalarLists.data() + launch.firstScalar;
      for (int32_t i = 0; i < launch.scalars; ++i)
        rank.arguments[static_cast<size_t>(i)] = s[scalar[i]];
      rank.kernel = launch.kernel;
      if (launch.tiles == 1) {
        rank.kernel(rank.operands, rank.arguments, 0, 1);
        break;
      }
      rank.pc = pc + 1;
      rank.current = pc;
      if (!openTiles(rank, launch.tiles))
        return;
      break;
    }
    case Op::gemm: {
      if (stopped())
        return finish(rank);
      const GemmCode &gemm = program.gemms[static_cast<size_t>(code.index)];
      int64_t rows = s[gemm.rows];
      if (rows < 0 || rows > gemm.maxRows)
        return fail(
            rank, pc, Error::invalid_argument,
            concat("expected 0 to ", gemm.maxRows, " rows, got ", rows));
      const Address *address = program.addresses.data() + gemm.firstAddress;
      for (int32_t i = 0; i < 3; ++i)
        rank.operands[static_cast<size_t>(i)] =
            resolve(program, address[i], spaces, s);
      rank.arguments[0] = rows;
      rank.kernel = nullptr;
      rank.gemm = gemm.gemm;
      rank.pc = pc + 1;
      rank.current = pc;
      if (!openTiles(rank, gemm.panels))
        return;
      if (rank.tileFailed.exchange(false))
        return fail(rank, pc, rank.tileStatus.code(),
                    rank.tileStatus.message());
      break;
    }
    case Op::collective:
    case Op::message: {
      if (stopped())
        return finish(rank);
      rank.pc = pc + 1;
      rank.current = pc;
      CollectiveCall call;
      if (code.op == Op::collective) {
        const CollectiveCode &collective =
            program.collectives[static_cast<size_t>(code.index)];
        int64_t elements = s[collective.elements];
        if (elements < 0 || elements > collective.maxElements)
          return fail(rank, pc, Error::invalid_argument,
                      concat("expected 0 to ", collective.maxElements,
                             " elements, got ", elements));
        call = collectiveCall(rank, collective);
      } else {
        call = messageCall(rank,
                           program.messages[static_cast<size_t>(code.index)]);
      }
      if (code.stream != 0) {
        startOn(rank, code.stream, pc, call);
        break;
      }
      if (!startCall(rank, call))
        return;
      rank.waiting.store(false, std::memory_order_relaxed);
      if (!rank.waitStatus.ok())
        return fail(rank, pc, rank.waitStatus.code(),
                    rank.waitStatus.message());
      break;
    }
    case Op::copy: {
      const Address *address = program.addresses.data() + code.index;
      std::memmove(resolve(program, address[1], spaces, s),
                   resolve(program, address[0], spaces, s),
                   static_cast<size_t>(address[0].bytes));
      break;
    }
    case Op::fill: {
      const Address &address =
          program.addresses[static_cast<size_t>(code.index)];
      fillPattern(resolve(program, address, spaces, s), address.bytes,
                  static_cast<uint32_t>(code.imm));
      break;
    }
    case Op::syncScalar:
      s[code.dst] = readElement(
          static_cast<DType>(code.dtype),
          resolve(program, program.addresses[static_cast<size_t>(code.index)],
                  spaces, s));
      break;
    case Op::putScalar:
      writeElement(static_cast<DType>(code.dtype),
                   resolve(program,
                           program.addresses[static_cast<size_t>(code.index)],
                           spaces, s),
                   s[code.a]);
      break;
    case Op::record:
      record(rank, code);
      break;
    case Op::wait:
    case Op::awaitStream:
      if (stopped())
        return finish(rank);
      rank.pc = pc + 1;
      if (!await(rank, code))
        return;
      break;

    case Op::forBegin: {
      int64_t lo = s[code.a], hi = s[code.b];
      if (lo >= hi) {
        pc = code.target;
        continue;
      }
      uint64_t trips = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo);
      if (trips > static_cast<uint64_t>(code.imm))
        return fail(
            rank, pc, Error::invalid_argument,
            concat("expected at most ", code.imm, " iterations, got ", trips));
      rank.loops[static_cast<size_t>(code.index)] = {lo, hi, 0};
      s[code.dst] = lo;
      break;
    }
    case Op::whileBegin:
      if (s[code.a] == 0) {
        pc = code.target;
        continue;
      }
      if (code.imm == 0)
        return fail(rank, pc, Error::invalid_argument,
                    "expected no iterations, got one");
      rank.loops[static_cast<size_t>(code.index)] = {0, 0, 1};
      break;
    case Op::forEnd:
    case Op::whileEnd: {
      Rank::Loop &loop = rank.loops[static_cast<size_t>(code.index)];
      if (code.op == Op::forEnd) {
        if (++loop.value == loop.end)
          break;
        s[code.dst] = loop.value;
      } else {
        if (s[code.a] == 0)
          break;
        if (++loop.trips > code.imm)
          return fail(rank, pc, Error::invalid_argument,
                      concat("expected at most ", code.imm, " iterations"));
      }
      if (stopped())
        return finish(rank);
      pc = code.target;
      if (++rank.backEdges % kFairTurns == 0 && pool_->hasQueued()) {
        if (kInstrumented)
          closeEvent(rank);
        rank.pc = pc;
        pool_->post(WorkItem{resume, &rank});
        return;
      }
      continue;
    }
    case Op::branchIfZero:
      if (s[code.a] == 0) {
        pc = code.target;
        continue;
      }
      break;
    case Op::jump:
      pc = code.target;
      continue;
    case Op::jumpTable: {
      int64_t selector = s[code.a];
      if (selector < 0 || selector >= code.imm)
        return fail(rank, pc, Error::invalid_argument,
                    concat("expected a case from 0 to ", code.imm - 1, ", got ",
                           selector));
      pc = program.jumps[static_cast<size_t>(code.index + selector)];
      continue;
    }
    case Op::check:
      if (s[code.a] == 0)
        return fail(rank, pc, Error::invalid_argument,
                    program.checks[static_cast<size_t>(code.index)]);
      break;
    case Op::nothing:
      break;
    case Op::end:
      return finish(rank);
    }
    ++pc;
  }
}

} // namespace heddle::rt
