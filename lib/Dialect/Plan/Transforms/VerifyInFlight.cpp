//===- VerifyInFlight.cpp - Buffers of collectives in flight --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An interpreter of addresses: it follows a program, knows the loop variables
// and what is computed from them, and keeps the ranges that are in flight.
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Plan/Transforms/Passes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <limits>
#include <numeric>

namespace mlir::plan {
#define GEN_PASS_DEF_VERIFYINFLIGHTPASS
#include "heddle/Dialect/Plan/Transforms/Passes.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;

namespace {

/// The longest rotation of slots that is followed to its end.
constexpr int64_t kTurns = 64;

/// Bytes [begin, end) of a region.
struct Range {
  StringRef region;
  int64_t begin;
  int64_t end;

  bool overlaps(const Range &other) const {
    return region == other.region && begin < other.end && other.begin < end;
  }
};

struct Flight {
  CollectiveOp op;
  Range source;
  Range destination;
};

std::optional<int64_t> apply(BinaryKind kind, int64_t a, int64_t b) {
  int64_t result;
  switch (kind) {
  case BinaryKind::Add:
    return llvm::AddOverflow(a, b, result) ? std::nullopt
                                           : std::optional(result);
  case BinaryKind::Sub:
    return llvm::SubOverflow(a, b, result) ? std::nullopt
                                           : std::optional(result);
  case BinaryKind::Mul:
    return llvm::MulOverflow(a, b, result) ? std::nullopt
                                           : std::optional(result);
  case BinaryKind::FloorDiv:
    return b > 0 ? std::optional(llvm::divideFloorSigned(a, b)) : std::nullopt;
  case BinaryKind::Mod:
    return b > 0 ? std::optional(llvm::mod(a, b)) : std::nullopt;
  case BinaryKind::Min:
    return std::min(a, b);
  case BinaryKind::Max:
    return std::max(a, b);
  }
  return std::nullopt;
}

class Follower {
public:
  LogicalResult run(ProgramOp program) {
    if (failed(block(program.getBody().front())))
      return failure();
    for (Flight &flight : flights)
      return flight.op->emitOpError("expected the collective to be waited for "
                                    "before the program ends");
    return success();
  }

private:
  /// The value of a scalar, where it is known.
  std::optional<int64_t> evaluate(Value scalar) {
    auto found = known.find(scalar);
    if (found != known.end())
      return found->second;
    Operation *op = scalar.getDefiningOp();
    if (auto constant = dyn_cast_or_null<ConstOp>(op))
      return constant.getValue();
    if (auto binary = dyn_cast_or_null<BinaryOp>(op)) {
      std::optional<int64_t> lhs = evaluate(binary.getLhs());
      std::optional<int64_t> rhs = evaluate(binary.getRhs());
      if (lhs && rhs)
        return apply(binary.getKind(), *lhs, *rhs);
    }
    if (auto lookup = dyn_cast_or_null<LookupOp>(op)) {
      std::optional<int64_t> index = evaluate(lookup.getIndex());
      if (index && *index >= 0 &&
          *index < static_cast<int64_t>(lookup.getValues().size()))
        return lookup.getValues()[*index];
    }
    return std::nullopt;
  }

  Range rangeOf(RefAttr ref, ValueRange scalars) {
    Range range{ref.getRegion().getValue(), ref.getBase(), ref.getBase()};
    for (auto [stride, scalar, modulus] :
         llvm::zip(ref.getStrides(), ref.getScalars(), ref.getModuli())) {
      std::optional<int64_t> value = evaluate(scalars[scalar]);
      if (value) {
        int64_t slot = modulus > 0 ? llvm::mod(*value, modulus) : *value;
        range.begin += stride * slot;
        range.end += stride * slot;
      } else if (modulus > 0) {
        range.end += stride * (modulus - 1);
      } else if (stride > 0) {
        return {range.region, std::numeric_limits<int64_t>::min(),
                std::numeric_limits<int64_t>::max()};
      }
    }
    range.end += ref.getBytes();
    return range;
  }

  LogicalResult touch(Operation *op, RefAttr ref, ValueRange scalars) {
    Range range = rangeOf(ref, scalars);
    bool writes = ref.getAccess() != Access::Read;
    for (Flight &flight : flights) {
      bool source = writes && range.overlaps(flight.source);
      if (!source && !range.overlaps(flight.destination))
        continue;
      auto diag = op->emitOpError("expected nothing to ")
                  << (writes ? "write" : "read") << " the "
                  << (source ? "source" : "destination")
                  << " of a collective in flight, got " << ref;
      diag.attachNote(flight.op.getLoc()) << "begun here";
      return failure();
    }
    return success();
  }

  LogicalResult touch(Operation *op, ArrayRef<RefAttr> refs,
                      ValueRange scalars) {
    for (RefAttr ref : refs)
      if (failed(touch(op, ref, scalars)))
        return failure();
    return success();
  }

  LogicalResult begin(CollectiveOp op) {
    if (failed(
            touch(op, {op.getSource(), op.getDestination()}, op.getScalars())))
      return failure();
    if (!op.getAsync())
      return success();
    for (Flight &flight : flights)
      if (flight.op.getId() == op.getId()) {
        auto diag = op.emitOpError("expected a wait for collective ")
                    << op.getId() << " before it is begun again";
        diag.attachNote(flight.op.getLoc()) << "begun here";
        return failure();
      }
    flights.push_back({op, rangeOf(op.getSource(), op.getScalars()),
                       rangeOf(op.getDestination(), op.getScalars())});
    return success();
  }

  LogicalResult end(WaitOp op) {
    auto found = llvm::find_if(flights, [&](Flight &flight) {
      return flight.op.getId() == op.getId();
    });
    if (found == flights.end())
      return op.emitOpError("expected collective ")
             << op.getId() << " to be in flight";
    flights.erase(found);
    return success();
  }

  /// Slots that rotate come round after the least common multiple of their
  /// moduli.
  static int64_t periodOf(ForOp loop) {
    int64_t period = 1;
    auto add = [&](Attribute attr) {
      if (auto ref = dyn_cast<RefAttr>(attr))
        for (int64_t modulus : ref.getModuli())
          if (modulus > 0 && period < kTurns)
            period = std::lcm(period, std::min(modulus, kTurns));
    };
    loop.walk([&](Operation *op) {
      for (NamedAttribute attr : op->getAttrs()) {
        add(attr.getValue());
        if (auto refs = dyn_cast<ArrayAttr>(attr.getValue()))
          llvm::for_each(refs, add);
      }
    });
    return std::min(period, kTurns);
  }

  /// The first turns until slots have come round, and the last ones, from where
  /// the slots are in the same places.
  LogicalResult follow(ForOp loop) {
    int64_t trips = loop.getTrips(), period = periodOf(loop);
    int64_t first = std::min(trips, 2 * period + 1), last = trips;
    if (first < trips) {
      first = period + 1;
      last = trips - 1 - (trips - first - 1) % period;
    }
    auto turn = [&](int64_t iv) {
      known[loop.getBody().getArgument(0)] = iv;
      return block(loop.getBody().front());
    };
    for (int64_t iv = 0; iv < first; ++iv)
      if (failed(turn(iv)))
        return failure();
    for (int64_t iv = last; iv < trips; ++iv)
      if (failed(turn(iv)))
        return failure();
    return success();
  }

  LogicalResult follow(CaseOp branch) {
    SmallVector<Flight> before = flights, after;
    for (Region &region : branch.getBlocks()) {
      flights = before;
      if (failed(block(region.front())))
        return failure();
      for (Flight &flight : flights)
        if (llvm::none_of(after, [&](const Flight &other) {
              return other.op == flight.op;
            }))
          after.push_back(flight);
    }
    flights = after;
    return success();
  }

  LogicalResult block(Block &body) {
    for (Operation &op : body) {
      LogicalResult result =
          llvm::TypeSwitch<Operation *, LogicalResult>(&op)
              .Case([&](LaunchOp launch) {
                for (Attribute ref : launch.getRefs())
                  if (failed(touch(launch, cast<RefAttr>(ref),
                                   launch.getScalars())))
                    return failure();
                return success();
              })
              .Case([&](GemmOp gemm) {
                return touch(gemm, {gemm.getA(), gemm.getB(), gemm.getC()},
                             gemm.getScalars());
              })
              .Case([&](CopyOp copy) {
                return touch(copy, {copy.getSource(), copy.getDestination()},
                             copy.getScalars());
              })
              .Case([&](CollectiveOp collective) { return begin(collective); })
              .Case([&](WaitOp wait) { return end(wait); })
              .Case([&](ForOp loop) { return follow(loop); })
              .Case([&](CaseOp branch) { return follow(branch); })
              .Default([](Operation *) { return success(); });
      if (failed(result))
        return failure();
    }
    return success();
  }

  DenseMap<Value, int64_t> known; // loop variables
  SmallVector<Flight> flights;
};

struct VerifyInFlight : plan::impl::VerifyInFlightPassBase<VerifyInFlight> {
  void runOnOperation() override {
    if (failed(Follower().run(getOperation())))
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
