//===- HeddleLayerOps.td - Layers of transformer decoders -*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLELAYEROPS_TD
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLELAYEROPS_TD

include "heddle/Dialect/Heddle/IR/HeddleOpBase.td"

// Shapes: B sequences, T tokens, D model width, H query heads, G key/value
// heads, E head width, F hidden width, V vocabulary, P cache blocks of S slots,
// M blocks a sequence.

def Heddle_EmbeddingOp : Heddle_LayerOp<"embedding", [Heddle_Rule]> {
  let summary = "rows of a table by token id";
  let description = [{
    result[b, t, :] = table[ids[b, t], :]. A negative id gives a zero row, which
    is how a rank answers for ids of other ranks when V is sharded: the result
    is then a pending sum (vocabulary-parallel embedding, Megatron-LM,
    arXiv:1909.08053).

    Constraints:
    - (C1) table is V x D, ids has any rank, result is ids' shape then D.
    - (C2) result is floating point.
  }];
  let arguments = (ins Heddle_IndexTensor:$ids, Heddle_Tensor:$table);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = "$ids `,` $table attr-dict `:` functional-type(operands, results)";
}

def Heddle_LinearOp : Heddle_LayerOp<"linear", [Heddle_LinearRule]> {
  let summary = "x W^T (+ bias)";
  let description = [{
    result[..., n] = sum_k input[..., k] * weight[n, k] (+ bias[n]), accumulated
    in fp32. The weight may be stored in blocks along k. With quantised
    activations (`heddle.quantize`) the products of a block are summed as
    integers, exactly, and scaled once.

    Constraints:
    - (C1) weight is N x K; input ends in K; result is input with N for K.
    - (C2) bias, if given, is N.
    - (C3) result is floating point.
    - (C4) quantised input goes with a weight in q4_0, q4_1 or q8_0.
  }];
  let arguments = (ins Heddle_Tensor:$input, Heddle_Tensor:$weight,
                       Optional<Heddle_Tensor>:$bias);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $weight (`bias` $bias^)? attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    /// True for weight elements whose products take quantised input.
    static bool takesQ8(::mlir::Type weight) {
      return ::mlir::isa<Q4_0Type, Q4_1Type, Q8_0Type>(weight);
    }
  }];
}

def Heddle_QuantizeOp : Heddle_LayerOp<"quantize", [Heddle_ZeroRule]> {
  let summary = "activations to blocks of int8";
  let description = [{
    For every block of 32 consecutive elements x of the last dimension, with
    a = max |x|: scale = a / 127 and integers round(x * (127 / a)), ties to
    even; a block of zeros stays zeros. Symmetric round-to-nearest quantisation,
    as in LLM.int8() (arXiv:2208.07339) but per block.

    Constraints:
    - (C1) input is floating point, its last dimension whole blocks.
    - (C2) result has input's shape and element type q8.
  }];
  let arguments = (ins Heddle_Tensor:$input);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}

def Heddle_BiasAddOp : Heddle_LayerOp<"bias_add", [Heddle_ZeroRule]> {
  let summary = "adds a vector to every row";
  let description = [{
    result[..., n] = input[..., n] + bias[n]. What `annotate` makes of a linear
    op's bias when its product is a pending sum: the bias is added once, after
    the reduction.

    Constraints:
    - (C1) bias is N where input ends in N; result has input's shape.
  }];
  let arguments = (ins Heddle_Tensor:$input, Heddle_Tensor:$bias);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = "$input `,` $bias attr-dict `:` functional-type(operands, results)";
}

def Heddle_RmsNormOp : Heddle_LayerOp<"rms_norm", [Heddle_ZeroRule]> {
  let summary = "root mean square normalisation of the last dimension";
  let description = [{
    result = input / sqrt(mean(input^2) + eps) * weight (Zhang and Sennrich,
    arXiv:1910.07467). On B x T x H x E tensors it normalises each head.

    Constraints:
    - (C1) weight is D where input ends in D; result has input's shape.
    - (C2) eps >= 0.
  }];
  let arguments = (ins Heddle_Tensor:$input, Heddle_Tensor:$weight, F64Attr:$eps);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $weight `eps` $eps attr-dict `:` functional-type(operands, results)
  }];
}

def Heddle_SplitHeadsOp : Heddle_LayerOp<"split_heads", [Heddle_LinearRule]> {
  let summary = "B x T x (H E) to B x T x H x E";
  let description = [{
    Constraints:
    - (C1) input is B x T x N, result B x T x H x E with H * E = N.
  }];
  let arguments = (ins Heddle_Tensor:$input);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

def Heddle_MergeHeadsOp : Heddle_LayerOp<"merge_heads", [Heddle_LinearRule]> {
  let summary = "B x T x H x E to B x T x (H E)";
  let description = [{
    Constraints:
    - (C1) input is B x T x H x E, result B x T x N with N = H * E.
  }];
  let arguments = (ins Heddle_Tensor:$input);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

def Heddle_RotaryTableOp : Heddle_LayerOp<"rotary_table", [Heddle_Rule]> {
  let summary = "cosines and sines of rotary angles at given positions";
  let description = [{
    result[b, t, i] = cos(pos[b, t] * f_i) for i < dim/2 and
    sin(pos[b, t] * f_(i - dim/2)) after that, f the inverse frequencies of
    `rope`. Angles are formed and reduced in fp64. A negative position (an
    invalid row) gives the angles of position 0.

    Constraints:
    - (C1) positions is B x T; result is B x T x dim.
  }];
  let arguments = (ins Heddle_IndexTensor:$positions, Heddle_Rope:$rope);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = [{
    $positions $rope attr-dict `:` functional-type(operands, results)
  }];
}

def Heddle_RotaryOp : Heddle_LayerOp<"rotary", [Heddle_ZeroRule]> {
  let summary = "rotates pairs (i, i + R/2) of each head by given angles";
  let description = [{
    With R the table's width: result[i] = x[i] cos_i - x[i + R/2] sin_i and
    result[i + R/2] = x[i + R/2] cos_i + x[i] sin_i for i < R/2; elements from R
    on are copied.

    Constraints:
    - (C1) input is B x T x H x E, table B x T x R; result has input's shape.
    - (C2) R is even and at most E.
  }];
  let arguments = (ins Heddle_Tensor:$input, Heddle_Tensor:$table);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = "$input `,` $table attr-dict `:` functional-type(operands, results)";
}

def Heddle_CacheSlotsOp : Heddle_LayerOp<"cache_slots", [Heddle_Rule]> {
  let summary = "where in the cache pool each token goes";
  let description = [{
    slot = blocks[b, p / S] * S + p mod S for position p = positions[b, t];
    -1 for a negative position (an invalid row) or a negative block.

    Constraints:
    - (C1) positions is B x T, blocks B x M; result is B x T.
    - (C2) block_size is positive.
  }];
  let arguments = (ins Heddle_IndexTensor:$positions, Heddle_IndexTensor:$blocks,
                       I64Attr:$block_size);
  let results = (outs Heddle_IndexTensor:$result);
  let assemblyFormat = [{
    $positions `,` $blocks `size` $block_size attr-dict `:` functional-type(operands, results)
  }];
}

def Heddle_CacheAppendOp : Heddle_LayerOp<"cache_append", [Heddle_Rule]> {
  let summary = "writes tokens into a cache pool";
  let description = [{
    pool'[slot / S, slot mod S, ...] = values[b, t, ...] for slot = slots[b, t];
    tokens whose slot is negative are not written. The pool is updated in place:
    its old value must not be used afterwards.

    Constraints:
    - (C1) pool is P x S x rest, values B x T x rest, slots B x T; the result
      has the pool's type.
  }];
  let arguments = (ins Heddle_Tensor:$pool, Heddle_Tensor:$values,
                       Heddle_IndexTensor:$slots);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = [{
    $pool `,` $values `at` $slots attr-dict `:` functional-type(operands, results)
  }];
}

class Heddle_AttentionLikeOp<string mnemonic> : Heddle_LayerOp<mnemonic,
    [Heddle_Rule, AttrSizedOperandSegments]> {
  dag attentionArguments = (ins
    Heddle_Tensor:$query, Heddle_Tensor:$key, Heddle_Tensor:$value,
    Heddle_IndexTensor:$query_positions, Heddle_IndexTensor:$key_positions,
    Optional<Heddle_IndexTensor>:$blocks,
    Optional<Heddle_IndexTensor>:$lengths,
    Optional<Heddle_IndexTensor>:$query_documents,
    Optional<Heddle_IndexTensor>:$key_documents,
    Optional<Heddle_Tensor>:$sinks,
    F64Attr:$scale, UnitAttr:$causal,
    DefaultValuedAttr<I64Attr, "0">:$window,
    DefaultValuedAttr<F64Attr, "0.0">:$soft_cap,
    OptionalAttr<Heddle_Alibi>:$alibi,
    OptionalAttr<Heddle_RankTable>:$kv_heads,
    OptionalAttr<Heddle_RankTable>:$alibi_heads);
}

def Heddle_AttentionOp : Heddle_AttentionLikeOp<"attention"> {
  let summary = "softmax(scale q k^T + mask) v, grouped heads";
  let description = [{
    Query head h reads key/value head h / (H / G) (grouped heads, Ainslie et
    al., arXiv:2305.13245), or `kv_heads[h]` in local functions, where -1 marks
    a padded head whose result is zero. Key j is visible to query t if its
    position is not negative, j < lengths[b], and: with `causal`,
    kpos[j] <= qpos[t]; with `window` W > 0, qpos[t] - kpos[j] < W (the window
    counts the query itself); with `documents`, both have the same number. A
    row that sees nothing gives zeros.

    The score of a key is s = scale q k^T; with `soft_cap` C > 0 it becomes
    C tanh(s / C) (Gemma 2, arXiv:2408.00118); with `alibi` the head's slope
    times kpos[j] - qpos[t] is added (Press et al., arXiv:2108.12409). With
    `sinks` e^sinks[h] is added to the sum that the exponentials of head h are
    divided by, once a row (Xiao et al., arXiv:2309.17453; gpt-oss). In local
    functions `alibi_heads` lists the global number of each local head, -1 for
    padding.

    Without `blocks` keys and values are B x S x G x E and key_positions B x S.
    With it they are a cache pool, P x S x G x E, and logical key j of sequence b
    is pool[blocks[b, j / S], j mod S].

    ```mlir
    %o = heddle.attention %q, %k, %v pos(%qp, %kp) blocks(%bt) lengths(%len)
           scale 1.25e-01 causal : (...) -> tensor<1x4x9x64xf32>
    ```

    Constraints:
    - (C1) query is B x T x H x E, result has its shape; query_positions B x T.
    - (C2) key and value have the same shape with the query's E and a G that
      divides H (in local functions `kv_heads` has H columns instead); values
      below G.
    - (C3) without blocks dimension 0 of the keys is B; key_positions has the
      keys' first two dimensions.
    - (C4) blocks is B x M, lengths B.
    - (C5) window >= 0.
    - (C6) with `keys <ring>` there are as many keys as queries, no blocks and no
      lengths: key j is token j; with `keys <merge>` there are blocks.
    - (C7) documents of the queries and of the keys are given together, in the
      shapes of their positions.
    - (C8) sinks is H.
    - (C9) soft_cap is 0 (none) or positive and finite.
    - (C10) alibi is of H heads (in local functions `alibi_heads`, if given, has H
      columns of numbers below those of alibi).
  }];
  let arguments = !con(attentionArguments, (ins OptionalAttr<Heddle_Keys>:$keys));
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = [{
    $query `,` $key `,` $value `pos` `(` $query_positions `,` $key_positions `)`
    (`blocks` `(` $blocks^ `)`)? (`lengths` `(` $lengths^ `)`)?
    (`documents` `(` $query_documents^ `,` $key_documents `)`)?
    (`sinks` `(` $sinks^ `)`)?
    `scale` $scale (`causal` $causal^)? (`window` $window^)?
    (`soft_cap` $soft_cap^)? (`alibi` $alibi^)?
    (`kv_heads` $kv_heads^)? (`alibi_heads` $alibi_heads^)? (`keys` $keys^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Heddle_AttentionPartialOp : Heddle_AttentionLikeOp<"attention_partial"> {
  let summary = "attention over some of the keys, with log-sum-exp";
  let description = [{
    As `heddle.attention` over the keys given, plus the logarithm of the sum of
    exponentials per query and head (-inf for a row that sees nothing, whose
    result is 0), both fp32: what `heddle.merge_partials` needs to join several
    parts exactly (Liu et al., Ring Attention, arXiv:2310.01889).

    Constraints:
    - (C1) to (C5) and (C7) to (C10) as for `heddle.attention`.
    - (C6) result and lse are f32; lse is B x T x H.
  }];
  let arguments = attentionArguments;
  let results = (outs Heddle_Tensor:$result, Heddle_Tensor:$lse);
  let assemblyFormat = [{
    $query `,` $key `,` $value `pos` `(` $query_positions `,` $key_positions `)`
    (`blocks` `(` $blocks^ `)`)? (`lengths` `(` $lengths^ `)`)?
    (`documents` `(` $query_documents^ `,` $key_documents `)`)?
    (`sinks` `(` $sinks^ `)`)?
    `scale` $scale (`causal` $causal^)? (`window` $window^)?
    (`soft_cap` $soft_cap^)? (`alibi` $alibi^)?
    (`kv_heads` $kv_heads^)? (`alibi_heads` $alibi_heads^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Heddle_MergePartialsOp : Heddle_LayerOp<"merge_partials", [Heddle_Rule]> {
  let summary = "joins two partial attentions";
  let description = [{
    lse = log(exp(lse1) + exp(lse2)); result = out1 exp(lse1 - lse) +
    out2 exp(lse2 - lse), without overflow; two empty parts give zeros and -inf.

    Constraints:
    - (C1) outs are B x T x H x E, lses B x T x H, all f32; results likewise.
  }];
  let arguments = (ins Heddle_Tensor:$out1, Heddle_Tensor:$lse1,
                       Heddle_Tensor:$out2, Heddle_Tensor:$lse2);
  let results = (outs Heddle_Tensor:$result, Heddle_Tensor:$lse);
  let assemblyFormat = [{
    $out1 `,` $lse1 `,` $out2 `,` $lse2 attr-dict `:` functional-type(operands, results)
  }];
}

def Heddle_GluOp : Heddle_LayerOp<"glu", [Heddle_ZeroRule]> {
  let summary = "activation(gate) * up";
  let description = [{
    The gated unit of Shazeer, arXiv:2002.05202. All its activations map 0 to 0.

    Constraints:
    - (C1) gate, up and result have the same shape.
  }];
  let arguments = (ins Heddle_GluKind:$kind, Heddle_Tensor:$gate, Heddle_Tensor:$up);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = [{
    $kind $gate `,` $up attr-dict `:` functional-type(operands, results)
  }];
}

def Heddle_AddOp : Heddle_LayerOp<"add", [Heddle_LinearRule]> {
  let summary = "sum of two values, usually the residual";
  let description = [{
    Constraints:
    - (C1) operands and result have the same shape.
  }];
  let arguments = (ins Heddle_Tensor:$lhs, Heddle_Tensor:$rhs);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
}

def Heddle_GatherRowsOp : Heddle_LayerOp<"gather_rows", [Heddle_LinearRule]> {
  let summary = "chosen tokens of each sequence";
  let description = [{
    result[b, r, :] = input[b, rows[b, r], :]: the last token of each prompt,
    for `--output last` and for generation. A negative row gives zeros.

    Constraints:
    - (C1) input is B x T x D, rows B x R; result is B x R x D.
  }];
  let arguments = (ins Heddle_Tensor:$input, Heddle_IndexTensor:$rows);
  let results = (outs Heddle_Tensor:$result);
  let assemblyFormat = "$input `,` $rows attr-dict `:` functional-type(operands, results)";
}

def Heddle_ArgmaxOp : Heddle_LayerOp<"argmax", [Heddle_Rule]> {
  let summary = "index of the largest logit";
  let description = [{
    Ties go to the lowest index; a NaN is never chosen unless all are NaN, which
    gives 0.

    Constraints:
    - (C1) logits is any shape then V; result has the shape without V.
  }];
  let arguments = (ins Heddle_Tensor:$logits);
  let results = (outs Heddle_IndexTensor:$result);
  let assemblyFormat = "$logits attr-dict `:` functional-type(operands, results)";
}

def Heddle_SampleOp : Heddle_LayerOp<"sample", [Heddle_Rule]> {
  let summary = "draws a token from each row of logits";
  let description = [{
    Row r of sequence b, with values of sequence b from the other operands:

    1. **Greedy rows.** If `temperature` is not positive and finite, or the
       largest logit is not finite, the result is that of `heddle.argmax`.
    2. **Temperature.** Token i weighs w_i = exp((logits_i - max) / temperature).
       A NaN counts as -inf, so it weighs nothing.
    3. **Order.** Tokens are ordered by logit, largest first, equal ones by
       index, lowest first. Each filter keeps the first tokens of this order.
    4. **top_k** keeps k tokens. k < 1 turns it off.
    5. **top_p** keeps the fewest tokens whose weights sum to p times the sum
       that top_k kept (nucleus sampling, Holtzman et al., arXiv:1904.09751). p
       outside (0, 1) turns it off.
    6. **min_p** keeps tokens with w_i >= min_p, for the largest weight is 1
       (Nguyen et al., arXiv:2407.01082). It is off if not positive; what is
       above 1 counts as 1.
    7. **Draw.** The result is the lowest index i for which the weights of the
       kept tokens up to i sum to more than u times the sum of them all.

    u = x / 2^32, where x is the first word of Philox-4x32-10 (Salmon et al.,
    SC'11) with key (seed, 0) and counter (position, b, r, 0). b is global: a
    sequence draws the same on every rank of every mesh. The first token of the
    order is never filtered out. A value that nobody set, be it zeros or NaN,
    turns its part off: all zeros are greedy.

    The order is that of transformers, sums after top_k being over what it kept.
    llama.cpp filters in the same order, but by default divides by the
    temperature after the filters, not before them.

    In local functions `sequences` lists, for each coordinate, the global number
    of every local sequence (-1 is padding, whose result is any token); without
    it local and global numbers are the same.

    Constraints:
    - (C1) logits is B x R x V, f32; result is B x R.
    - (C2) temperature, top_p and min_p are B, f32.
    - (C3) top_k, seed and position are B.
    - (C4) sequences, if given, is in a local function and has B columns.
  }];
  let arguments = (ins
    Heddle_Tensor:$logits, Heddle_Tensor:$temperature,
    Heddle_IndexTensor:$top_k, Heddle_Tensor:$top_p, Heddle_Tensor:$min_p,
    Heddle_IndexTensor:$seed, Heddle_IndexTensor:$position,
    OptionalAttr<Heddle_RankTable>:$sequences);
  let results = (outs Heddle_IndexTensor:$result);
  let assemblyFormat = [{
    $logits `temperature` $temperature `top_k` $top_k `top_p` $top_p
    `min_p` $min_p `seed` $seed `position` $position
    (`sequences` $sequences^)? attr-dict `:` functional-type(operands, results)
  }];
}

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLELAYEROPS_TD
