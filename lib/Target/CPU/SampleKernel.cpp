//===- SampleKernel.cpp - Draws tokens without sorting --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every filter keeps a prefix of the order (largest logit, then lowest index),
// so all of them together are one *cut*: a logit, and how many of the tokens
// that have it are kept. Logits are compared by keys, their bits in unsigned
// order. The cut of top_k and of top_p is found digit by digit, from the top:
// a histogram of one digit over the tokens that agree with the cut so far gives
// the next digit. The first one reads all tokens that may be kept, later ones
// few.
//
// Weights are computed again where they are needed instead of being kept: an
// exponential costs little more than a trip to the second-level cache, and
// memory does not grow with the vocabulary. Sums of weights are fp64, so that a
// draw does not depend on the length of a sum.
//
//===----------------------------------------------------------------------===//

#include "ArgmaxLanes.h"
#include "KernelEmission.h"
#include "Philox.h"
#include "VectorMath.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::cpu;

namespace {

/// What the filters keep: keys above `key`, and those equal to it whose index
/// is at most `lastTie`.
struct Cut {
  Value key, lastTie;
};

class SampleEmitter {
public:
  SampleEmitter(KernelBuilder &b, SampleOp op)
      : b(b), op(op), rowsOfSequence(tensorShape(op.getLogits())[1]),
        width(tensorShape(op.getLogits())[2]),
        wholes(width / b.lanes() * b.lanes()),
        blockElements(
            std::max<int64_t>(1024, llvm::PowerOf2Ceil((width + 1023) / 1024))),
        blocks((wholes + blockElements - 1) / blockElements +
               (wholes < width ? 1 : 0)),
        i32(b.getI32Type()), f32(b.getF32Type()), f64(b.getF64Type()),
        counts(b.scratch(kBins + b.lanes(), i32)),
        masses(b.scratch(kBins + b.lanes(), f64)),
        laneBins(b.scratch(b.lanes(), i32)),
        laneWeights(b.scratch(b.lanes(), f32)),
        blockSums(b.scratch(blocks, f64)) {}

  void emit() {
    int64_t rows = tensorShape(op.getLogits())[0] * rowsOfSequence;
    Value from = b.tileBegin(b.tile, rows);
    Value to = b.tileBegin(b.iadd(b.tile, 1), rows);
    b.loop(from, to, 1, [&](Value row) { emitRow(row); });
  }

private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  /// A key has digits of 11, 11 and 10 bits.
  static constexpr int64_t kLevels = 3, kBins = 2048;
  /// Vectors of maxima that bound the cut of a small top_k.
  static constexpr int64_t kMaxima = 16;

  KernelBuilder &b;
  SampleOp op;
  int64_t rowsOfSequence, width;
  /// Logits in whole vectors; sums of the draw are over blocks of them, and
  /// the tail is a block of its own.
  int64_t wholes, blockElements, blocks;
  Type i32, f32, f64;
  /// Histogram of a digit: tokens and their weights. The bin after the last
  /// takes what does not belong.
  Buffer counts, masses;
  /// Lanes on their way to scalars.
  Buffer laneBins, laneWeights;
  Buffer blockSums;
  // Of the current row.
  Value base, top, temperature, topK, topP;

  //===--------------------------------------------------------------------===//
  // Tokens, as lanes or one by one
  //===--------------------------------------------------------------------===//

  Value as(Value scalar, Value like) {
    return isa<VectorType>(like.getType()) ? b.splat(scalar) : scalar;
  }
  Value constantLike(Value like, double value) {
    return b.constant(like.getType(), value);
  }

  /// NaN counts as -inf.
  Value withoutNaN(Value x) {
    return b.select(b.fcmp(arith::CmpFPredicate::ORD, x, x), x,
                    constantLike(x, -kInfinity));
  }
  /// Lanes that do not exist hold -inf.
  Value logits(Value at, Value mask) {
    Value x = withoutNaN(
        b.loadLanes(b.bufferOf(op.getLogits()), b.iadd(base, at), mask));
    return mask ? b.select(mask, x, constantLike(x, -kInfinity)) : x;
  }
  Value logit(Value at) {
    return withoutNaN(
        b.loadScalar(b.bufferOf(op.getLogits()), b.iadd(base, at)));
  }
  Value scaled(Value x) {
    return b.fdiv(b.fsub(x, as(top, x)), as(temperature, x));
  }
  Value weight(Value x) { return buildExp(b, scaled(x)); }
  Value toF64(Value x) {
    return arith::ExtFOp::create(b, b.withElement(x.getType(), f64), x);
  }

  /// Bits whose unsigned order is that of the numbers; both zeros are one.
  Value key(Value x) {
    Type type = b.withElement(x.getType(), i32);
    Value bits = b.bitcast(b.fadd(x, constantLike(x, 0.0)), type);
    Value negative = arith::ShRSIOp::create(b, bits, b.constantInt(type, 31));
    Value flip =
        arith::OrIOp::create(b, negative, b.constantInt(type, INT32_MIN));
    return arith::XOrIOp::create(b, bits, flip);
  }

  Value any(Value lanes) {
    return vector::ReductionOp::create(b, vector::CombiningKind::OR, lanes);
  }
  Value either(Value x, Value y) { return arith::OrIOp::create(b, x, y); }
  Value no(Value condition) {
    return arith::XOrIOp::create(b, condition, b.constantInt(b.getI1Type(), 1));
  }
  Value within(Value x, double above, double below) {
    return b.both(b.fcmp(arith::CmpFPredicate::OGT, x, constantLike(x, above)),
                  b.fcmp(arith::CmpFPredicate::OLT, x, constantLike(x, below)));
  }

  //===--------------------------------------------------------------------===//
  // Rows
  //===--------------------------------------------------------------------===//

  Best largest() {
    Best none = Best::none(b);
    SmallVector<Value> best = b.sweep(
        width, 4, {none.value, none.index},
        [&](Value at, Value mask, MutableArrayRef<Value> carry) {
          Best best{carry[0], carry[1]};
          best.accumulate(
              b,
              b.loadLanes(b.bufferOf(op.getLogits()), b.iadd(base, at), mask),
              at, mask);
          carry[0] = best.value;
          carry[1] = best.index;
        },
        [&](MutableArrayRef<Value> carry, ArrayRef<Value> later) {
          Best best{carry[0], carry[1]};
          best.join(b, {later[0], later[1]});
          carry[0] = best.value;
          carry[1] = best.index;
        });
    return Best{best[0], best[1]}.reduce(b);
  }

  void emitRow(Value row) {
    base = b.imul(row, width);
    Value sequence = b.idiv(row, rowsOfSequence);
    Value rowInSequence = b.irem(row, rowsOfSequence);
    auto ofSequence = [&](Value operand) {
      return b.loadScalar(b.bufferOf(operand), sequence);
    };
    Best best = largest();
    top = best.value;
    temperature = ofSequence(op.getTemperature());
    Value draws = b.both(within(temperature, 0.0, kInfinity),
                         within(top, -kInfinity, kInfinity));
    Value token = b.ifElse(
        draws, {i32},
        [&] {
          topK = ofSequence(op.getTopK());
          topP = ofSequence(op.getTopP());
          Value number = op.getSequencesAttr()
                             ? b.tableEntry(op.getSequencesAttr(), sequence)
                             : b.toI32(sequence);
          Value random = buildPhilox(b,
                                     {ofSequence(op.getPosition()), number,
                                      b.toI32(rowInSequence), b.i32(0)},
                                     {ofSequence(op.getSeed()), b.i32(0)})[0];
          Value u = b.fmul(arith::UIToFPOp::create(b, f64, random),
                           b.constant(f64, 0x1p-32));
          return SmallVector<Value>{
              draw(emitCut(), smallestScaled(ofSequence(op.getMinP())), u)};
        },
        [&] { return SmallVector<Value>{best.index}; })[0];
    b.storeScalar(b.resultOf(op.getResult()), row, token);
  }

  /// min_p as a bound of the scaled logit, which is exact at 1.
  Value smallestScaled(Value minP) {
    Value on = b.fcmp(arith::CmpFPredicate::OGT, minP, b.f32(0.0));
    Value p = b.fmin(b.fmax(minP, b.f32(0x1p-126)), b.f32(1.0));
    return b.select(on, buildLog(b, p), b.f32(-kInfinity));
  }

  //===--------------------------------------------------------------------===//
  // The cut
  //===--------------------------------------------------------------------===//

  Cut emitCut() {
    Value byCount =
        b.both(b.icmp(arith::CmpIPredicate::sge, topK, b.i32(1)),
               b.icmp(arith::CmpIPredicate::slt, topK, b.i32(width)));
    Value byMass = within(topP, 0.0, 1.0);
    Value most = b.select(byCount, topK, b.i32(width));
    Value floor = b.ifElse(
        b.both(byCount, b.icmp(arith::CmpIPredicate::sle, topK,
                               b.i32(std::min(width, kMaxima * b.lanes())))),
        {i32}, [&] { return SmallVector<Value>{smallestMaximum()}; },
        [&] { return SmallVector<Value>{b.i32(0)}; })[0];
    // Stage 0 cuts by count; stage 1 by mass, of what stage 0 left. Keys are
    // above 0, so that nothing is cut at first.
    SmallVector<Value> cut = b.loop(
        b.index(0), b.index(2), 1,
        ValueRange{b.i32(0), b.i32(0), b.i32(0), b.constant(f64, 0.0)},
        [&](Value stage, ValueRange carry) {
          Value first = b.icmp(arith::CmpIPredicate::eq, stage, b.index(0));
          return b.ifElse(
              b.select(first, byCount, byMass), carry.getTypes(),
              [&] {
                return refine(first, byCount, most,
                              b.select(first, floor, carry[0]), carry[3]);
              },
              [&] { return SmallVector<Value>(carry); });
        });
    return {cut[0], lastTie(cut[0], cut[1], cut[2])};
  }

  /// A key that at least min(width, kMaxima * lanes) tokens reach: tokens are
  /// dealt to so many groups, and every group has a token at or above the
  /// smallest maximum.
  Value smallestMaximum() {
    auto choose = [&](arith::CmpFPredicate better, Value x, Value y) {
      return b.select(b.fcmp(better, x, y), x, y);
    };
    auto smaller = [&](Value x, Value y) {
      return choose(arith::CmpFPredicate::OLT, x, y);
    };
    SmallVector<Value> maxima = b.sweep(
        width, kMaxima, b.constant(b.lanesOf(f32), -kInfinity),
        [&](Value at, Value mask, MutableArrayRef<Value> carry) {
          carry[0] =
              choose(arith::CmpFPredicate::OGT, logits(at, mask), carry[0]);
        },
        [&](MutableArrayRef<Value> carry, ArrayRef<Value> later) {
          carry[0] = smaller(carry[0], later[0]);
        });
    return key(b.reduce(maxima[0], smaller));
  }

  /// (key of the cut, tokens with it that are kept, tokens with it in all,
  /// weight of all that is kept) for one stage. No key below `floor` is kept;
  /// `kept` is the weight that the stage before left.
  SmallVector<Value> refine(Value first, Value byCount, Value most, Value floor,
                            Value kept) {
    Value zero = b.constant(f64, 0.0);
    // key, tokens and weight above it, limit, tokens and weight at the digit.
    SmallVector<Value> state = b.loop(
        b.index(0), b.index(kLevels), 1,
        ValueRange{b.i32(0), b.i32(0), zero, zero, b.i32(0), zero},
        [&](Value level, ValueRange carry) {
          auto atLevel = [&](int64_t n, int64_t value, Value otherwise) {
            Value is = b.icmp(arith::CmpIPredicate::eq, level, b.index(n));
            return b.select(is, b.i32(value), otherwise);
          };
          Value shift = atLevel(0, 21, atLevel(1, 10, b.i32(0)));
          Value fixed =
              atLevel(0, 0,
                      atLevel(1, static_cast<int32_t>(0xffe00000),
                              b.i32(static_cast<int32_t>(0xfffffc00))));
          countDigits(carry[0], fixed, shift, floor);
          Value top = b.icmp(arith::CmpIPredicate::eq, level, b.index(0));
          Value limit = b.ifElse(
              top, {f64},
              [&] {
                Value all = b.select(byCount, kept, totalMass());
                return SmallVector<Value>{b.select(first,
                                                   b.constant(f64, kInfinity),
                                                   b.fmul(toF64(topP), all))};
              },
              [&] { return SmallVector<Value>{carry[3]}; })[0];
          SmallVector<Value> found = findDigit(most, limit, carry[1], carry[2]);
          Value digit = arith::ShLIOp::create(b, found[0], shift).getResult();
          Value next = arith::OrIOp::create(b, carry[0], digit);
          return SmallVector<Value>{next,  found[1], found[2],
                                    limit, found[3], found[4]};
        });
    Value above = state[1], massAbove = state[2], limit = state[3];
    Value ties = state[4];
    // Of the ties as many as either limit allows, one at least.
    Value each = b.fdiv(state[5], arith::UIToFPOp::create(b, f64, ties));
    Value wanted = b.fdiv(b.fsub(limit, massAbove), each);
    Value fewer = b.fcmp(arith::CmpFPredicate::OLT, wanted,
                         arith::UIToFPOp::create(b, f64, ties));
    wanted = b.select(fewer, wanted, zero);
    Value whole = arith::FPToSIOp::create(b, i32, wanted);
    Value rest = b.fcmp(arith::CmpFPredicate::OGT, wanted,
                        arith::SIToFPOp::create(b, f64, whole));
    whole = b.select(rest, b.iadd(whole, 1), whole);
    whole = arith::MaxSIOp::create(b, whole, b.i32(1));
    Value taken = b.select(fewer, whole, ties);
    taken = arith::MinSIOp::create(b, taken, b.isub(most, above));
    Value mass = b.fma(arith::UIToFPOp::create(b, f64, taken), each, massAbove);
    return {state[0], taken, ties, mass};
  }

  /// Fills the histogram of the digit at `shift` of those keys that agree with
  /// `prefix` in the bits of `fixed` and reach `floor`.
  void countDigits(Value prefix, Value fixed, Value shift, Value floor) {
    b.sweep(kBins + b.lanes(), [&](Value at, Value) {
      b.storeLanes(counts, at, b.constantInt(b.lanesOf(i32), 0));
      b.storeLanes(masses, at, b.constant(b.lanesOf(f64), 0.0));
    });
    b.sweep(width, [&](Value at, Value mask) {
      Value x = logits(at, mask);
      Value keys = key(x);
      Value agrees = b.icmp(arith::CmpIPredicate::eq,
                            arith::AndIOp::create(b, keys, b.splat(fixed)),
                            b.splat(prefix));
      agrees = b.both(agrees,
                      b.icmp(arith::CmpIPredicate::uge, keys, b.splat(floor)));
      if (mask)
        agrees = b.both(agrees, mask);
      b.ifThen(any(agrees), [&] {
        Value digits = b.iand(b.shiftRight(keys, b.splat(shift)), kBins - 1);
        Value outside = b.constantInt(b.lanesOf(i32), kBins);
        Value zero = b.index(0);
        b.storeLanes(laneBins, zero, b.select(agrees, digits, outside));
        b.storeLanes(laneWeights, zero, weight(x));
        for (int64_t i = 0; i < b.lanes(); ++i) {
          Value bin = b.toIndex(b.loadScalar(laneBins, b.index(i)));
          Value w = toF64(b.loadScalar(laneWeights, b.index(i)));
          b.storeScalar(counts, bin, b.iadd(b.loadScalar(counts, bin), 1));
          b.storeScalar(masses, bin, b.fadd(b.loadScalar(masses, bin), w));
        }
      });
    });
  }

  Value totalMass() {
    return b.reduceAdd(b.sweep(
        kBins, 1, b.constant(b.lanesOf(f64), 0.0),
        [&](Value at, Value, MutableArrayRef<Value> sum) {
          sum[0] = b.fadd(sum[0], b.loadLanes(masses, at));
        },
        [](MutableArrayRef<Value>, ArrayRef<Value>) {})[0]);
  }

  /// The first bin from the top at which `most` tokens or a weight of `limit`
  /// are reached, or the last that has tokens: (bin, tokens and weight before
  /// it, tokens and weight in it).
  SmallVector<Value> findDigit(Value most, Value limit, Value count,
                               Value mass) {
    Value zero = b.constant(f64, 0.0);
    Value open = b.constantInt(b.getI1Type(), 1);
    SmallVector<Value> state = b.loop(
        b.index(0), b.index(kBins), 1,
        ValueRange{b.i32(0), count, mass, b.i32(0), zero, count, mass, open},
        [&](Value step, ValueRange carry) {
          Value bin = b.isub(b.index(kBins - 1), step);
          Value n = b.loadScalar(counts, bin), m = b.loadScalar(masses, bin);
          Value take =
              b.both(carry[7], b.icmp(arith::CmpIPredicate::sgt, n, b.i32(0)));
          Value sumN = b.select(take, b.iadd(carry[5], n), carry[5]);
          Value sumM = b.select(take, b.fadd(carry[6], m), carry[6]);
          Value reached =
              either(b.icmp(arith::CmpIPredicate::sge, sumN, most),
                     b.fcmp(arith::CmpFPredicate::OGE, sumM, limit));
          return SmallVector<Value>{b.select(take, b.toI32(bin), carry[0]),
                                    b.select(take, carry[5], carry[1]),
                                    b.select(take, carry[6], carry[2]),
                                    b.select(take, n, carry[3]),
                                    b.select(take, m, carry[4]),
                                    sumN,
                                    sumM,
                                    b.both(carry[7], no(reached))};
        });
    state.truncate(5);
    return state;
  }

  /// Index of the last of the first `taken` tokens whose key is that of the
  /// cut.
  Value lastTie(Value cutKey, Value taken, Value ties) {
    Value some = b.icmp(arith::CmpIPredicate::slt, taken, ties);
    Value all = b.i32(width - 1);
    return b.ifElse(
        some, {i32},
        [&] {
          SmallVector<Value> found = b.sweep(
              width, 1, {taken, all},
              [&](Value at, Value mask, MutableArrayRef<Value> carry) {
                Value equal = b.icmp(arith::CmpIPredicate::eq,
                                     key(logits(at, mask)), b.splat(cutKey));
                if (mask)
                  equal = b.both(equal, mask);
                SmallVector<Value> next = b.ifElse(
                    any(equal), {i32, i32},
                    [&] { return countTies(equal, at, carry[0], carry[1]); },
                    [&] { return SmallVector<Value>{carry[0], carry[1]}; });
                carry[0] = next[0];
                carry[1] = next[1];
              },
              [](MutableArrayRef<Value>, ArrayRef<Value>) {});
          return SmallVector<Value>{found[1]};
        },
        [&] { return SmallVector<Value>{all}; })[0];
  }

  /// `left` less the lanes that are set; the index of the one that makes it 0.
  SmallVector<Value> countTies(Value lanes, Value at, Value left, Value last) {
    VectorType type = b.lanesOf(i32);
    b.storeLanes(
        laneBins, b.index(0),
        b.select(lanes, b.constantInt(type, 1), b.constantInt(type, 0)));
    return b.loop(b.index(0), b.index(b.lanes()), 1, ValueRange{left, last},
                  [&](Value i, ValueRange carry) {
                    Value is = b.loadScalar(laneBins, i);
                    Value rest = b.isub(carry[0], is);
                    Value hit =
                        b.both(b.icmp(arith::CmpIPredicate::eq, rest, b.i32(0)),
                               b.icmp(arith::CmpIPredicate::eq, is, b.i32(1)));
                    return SmallVector<Value>{
                        rest, b.select(hit, b.toI32(b.iadd(at, i)), carry[1])};
                  });
  }

  //===--------------------------------------------------------------------===//
  // The draw
  //===--------------------------------------------------------------------===//

  /// Which tokens are kept; `index` are their own.
  Value isKept(Value x, Value index, const Cut &cut, Value smallest) {
    Value keys = key(x), cutKey = as(cut.key, x);
    Value tie =
        b.both(b.icmp(arith::CmpIPredicate::eq, keys, cutKey),
               b.icmp(arith::CmpIPredicate::ule, index, as(cut.lastTie, x)));
    return b.both(
        either(b.icmp(arith::CmpIPredicate::ugt, keys, cutKey), tie),
        b.fcmp(arith::CmpFPredicate::OGE, scaled(x), as(smallest, x)));
  }

  /// Weights of what is kept, zero for the rest.
  Value blockMass(Value at, Value mask, const Cut &cut, Value smallest) {
    Value index = b.iadd(b.splat(b.toI32(at)), b.iota());
    Value x = logits(at, mask);
    Value kept = isKept(x, index, cut, smallest);
    Value none = b.constant(b.lanesOf(f32), 0.0);
    return toF64(b.ifElse(
        any(kept), {none.getType()},
        [&] { return SmallVector<Value>{b.select(kept, weight(x), none)}; },
        [&] { return SmallVector<Value>{none}; })[0]);
  }

  /// The token that u in [0, 1) draws: block by block, then one by one.
  Value draw(const Cut &cut, Value smallest, Value u) {
    Value zero = b.constant(f64, 0.0);
    int64_t wholeBlocks = blocks - (wholes < width ? 1 : 0);
    Value total = zero;
    auto add = [&](Value block, Value lanes, Value before) {
      Value sum = b.reduceAdd(lanes);
      b.storeScalar(blockSums, block, sum);
      return b.fadd(before, sum);
    };
    if (wholeBlocks > 0)
      total = b.loop(
          b.index(0), b.index(wholeBlocks), 1, ValueRange{zero},
          [&](Value block, ValueRange carry) {
            Value from = b.imul(block, blockElements);
            Value to = arith::MinUIOp::create(b, b.iadd(from, blockElements),
                                              b.index(wholes));
            Value lanes =
                b.loop(from, to, b.lanes(),
                       ValueRange{b.constant(b.lanesOf(f64), 0.0)},
                       [&](Value at, ValueRange sum) {
                         return SmallVector<Value>{b.fadd(
                             sum[0], blockMass(at, Value(), cut, smallest))};
                       })[0];
            return SmallVector<Value>{add(block, lanes, carry[0])};
          })[0];
    if (wholes < width)
      total = add(
          b.index(wholeBlocks),
          blockMass(b.index(wholes), b.tailMask(width - wholes), cut, smallest),
          total);

    // The same additions as for the total, so that some block is beyond it.
    Value target = b.fmul(u, total);
    Value open = b.constantInt(b.getI1Type(), 1);
    SmallVector<Value> found =
        b.loop(b.index(0), b.index(blocks), 1,
               ValueRange{b.index(0), zero, zero, open},
               [&](Value block, ValueRange carry) {
                 Value sum = b.fadd(carry[2], b.loadScalar(blockSums, block));
                 Value beyond = b.both(
                     carry[3], b.fcmp(arith::CmpFPredicate::OGT, sum, target));
                 return SmallVector<Value>{b.select(beyond, block, carry[0]),
                                           b.select(beyond, carry[2], carry[1]),
                                           sum, b.both(carry[3], no(beyond))};
               });
    Value from = arith::MinUIOp::create(b, b.imul(found[0], blockElements),
                                        b.index(wholes));
    Value to =
        arith::MinUIOp::create(b, b.iadd(from, blockElements), b.index(wholes));
    to = b.select(b.icmp(arith::CmpIPredicate::eq, from, b.index(wholes)),
                  b.index(width), to);
    // A block's sum may exceed that of its tokens by a rounding: then its last
    // token with a weight is the one.
    return b.loop(
        from, to, 1, ValueRange{b.i32(0), found[1], open},
        [&](Value at, ValueRange carry) {
          Value index = b.toI32(at);
          Value x = logit(at);
          Value w = toF64(
              b.select(isKept(x, index, cut, smallest), weight(x), b.f32(0.0)));
          Value sum = b.fadd(carry[1], w);
          Value take =
              b.both(carry[2], b.fcmp(arith::CmpFPredicate::OGT, w, zero));
          Value beyond = b.fcmp(arith::CmpFPredicate::OGT, sum, target);
          return SmallVector<Value>{b.select(take, index, carry[0]), sum,
                                    b.both(carry[2], no(beyond))};
        })[0];
  }
};

} // namespace

int64_t cpu::sampleTiles(SampleOp op) {
  return std::min<int64_t>(product(tensorShape(op.getResult())), 64);
}

void cpu::emitSample(KernelBuilder &b, SampleOp op) {
  SampleEmitter(b, op).emit();
}
