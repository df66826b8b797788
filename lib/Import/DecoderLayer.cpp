//===- DecoderLayer.cpp - Ops of one decoder layer ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DecoderLayer.h"

#include "mlir/IR/Builders.h"

#include <cmath>

using namespace mlir;
using namespace mlir::heddle;

static ArrayRef<int64_t> shapeOf(Value v) {
  return cast<RankedTensorType>(v.getType()).getShape();
}

Location LayerBuilder::at(StringRef where) {
  return NameLoc::get(builder.getStringAttr(where));
}

RankedTensorType LayerBuilder::floats(ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, builder.getF32Type());
}

Value LayerBuilder::linear(StringRef where, Value input, Value weight,
                           Value bias) {
  SmallVector<int64_t> shape(shapeOf(input));
  shape.back() = shapeOf(weight)[0];
  return LinearOp::create(builder, at(where), floats(shape), input, weight,
                          bias);
}

Value LayerBuilder::norm(StringRef where, Value input, Value weight) {
  return RmsNormOp::create(builder, at(where), floats(shapeOf(input)), input,
                           weight, builder.getF64FloatAttr(config.normEps));
}

Value LayerBuilder::splitHeads(StringRef where, Value input, int64_t heads) {
  ArrayRef<int64_t> shape = shapeOf(input);
  return SplitHeadsOp::create(
      builder, at(where), floats({shape[0], shape[1], heads, config.headDim}),
      input);
}

Value LayerBuilder::rotary(StringRef where, Value input, Value angles) {
  return RotaryOp::create(builder, at(where), floats(shapeOf(input)), input,
                          angles);
}

Value LayerBuilder::attention(Value input, const ParamValues &params,
                              const LayerInputs &inputs, int64_t window,
                              Value &keyCache, Value &valueCache) {
  constexpr StringLiteral qProj = "model.layers.self_attn.q_proj";
  constexpr StringLiteral kProj = "model.layers.self_attn.k_proj";
  constexpr StringLiteral vProj = "model.layers.self_attn.v_proj";
  constexpr StringLiteral attn = "model.layers.self_attn";
  Value q =
      linear(qProj, input, params[ParamId::Query], params[ParamId::QueryBias]);
  Value k =
      linear(kProj, input, params[ParamId::Key], params[ParamId::KeyBias]);
  Value v =
      linear(vProj, input, params[ParamId::Value], params[ParamId::ValueBias]);
  q = splitHeads(qProj, q, config.heads);
  k = splitHeads(kProj, k, config.kvHeads);
  v = splitHeads(vProj, v, config.kvHeads);
  if (config.qkNorm) {
    q = norm("model.layers.self_attn.q_norm", q, params[ParamId::QueryNorm]);
    k = norm("model.layers.self_attn.k_norm", k, params[ParamId::KeyNorm]);
  }
  if (inputs.angles) {
    q = rotary(qProj, q, inputs.angles);
    k = rotary(kProj, k, inputs.angles);
  }
  if (keyCache) {
    keyCache = CacheAppendOp::create(builder, at(attn), keyCache.getType(),
                                     keyCache, k, inputs.slots);
    valueCache = CacheAppendOp::create(builder, at(attn), valueCache.getType(),
                                       valueCache, v, inputs.slots);
    k = keyCache;
    v = valueCache;
  }
  double scale = 1 / std::sqrt(static_cast<double>(config.headDim));
  AlibiAttr alibi;
  if (config.alibi)
    alibi = AlibiAttr::get(builder.getContext(), config.heads, APFloat(8.0));
  Value out = AttentionOp::create(
      builder, at(attn), floats(shapeOf(q)), q, k, v, inputs.positions,
      inputs.keyPositions, inputs.blocks, inputs.lengths, inputs.documents,
      inputs.documents, params[ParamId::Sinks], builder.getF64FloatAttr(scale),
      builder.getUnitAttr(), builder.getI64IntegerAttr(window),
      builder.getF64FloatAttr(config.softCap), alibi, RankTableAttr(),
      RankTableAttr(), KeysAttr());
  ArrayRef<int64_t> shape = shapeOf(out);
  out = MergeHeadsOp::create(builder, at(attn),
                             floats({shape[0], shape[1], shape[2] * shape[3]}),
                             out);
  return linear("model.layers.self_attn.o_proj", out, params[ParamId::Output],
                params[ParamId::OutputBias]);
}

Value LayerBuilder::mlp(Value input, const ParamValues &params) {
  Value gate = linear("model.layers.mlp.gate_proj", input,
                      params[ParamId::Gate], params[ParamId::GateBias]);
  Value up = linear("model.layers.mlp.up_proj", input, params[ParamId::Up],
                    params[ParamId::UpBias]);
  Value hidden =
      GluOp::create(builder, at("model.layers.mlp.act_fn"),
                    floats(shapeOf(gate)), config.activation, gate, up);
  return linear("model.layers.mlp.down_proj", hidden, params[ParamId::Down],
                params[ParamId::DownBias]);
}

Value LayerBuilder::layer(Value stream, const ParamValues &params,
                          const LayerInputs &inputs, int64_t window,
                          Value &keyCache, Value &valueCache) {
  auto residual = [&](Value branch) -> Value {
    return AddOp::create(builder, at("model.layers"), floats(shapeOf(stream)),
                         stream, branch);
  };
  Value normed = norm("model.layers.input_layernorm", stream,
                      params[ParamId::AttentionNorm]);
  stream =
      residual(attention(normed, params, inputs, window, keyCache, valueCache));
  normed = norm("model.layers.post_attention_layernorm", stream,
                params[ParamId::MlpNorm]);
  return residual(mlp(normed, params));
}
