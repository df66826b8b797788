//===- DecoderLayer.h - Ops of one decoder layer ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits the body of a layer. Every op is located at the module of the Hugging
// Face model that it comes from, "model.layers.mlp.up_proj".
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_DECODERLAYER_H
#define HEDDLE_LIB_IMPORT_DECODERLAYER_H

#include "ParamTable.h"

#include <array>

namespace mlir::heddle {

/// The values of a model's parameters; null for those that it lacks.
class ParamValues {
public:
  Value &operator[](ParamId id) { return values[static_cast<size_t>(id)]; }
  Value operator[](ParamId id) const { return values[static_cast<size_t>(id)]; }

private:
  std::array<Value, kParamIds> values;
};

/// What all layers of a program share.
struct LayerInputs {
  /// B x T positions and their rotary angles, which are null with linear
  /// biases.
  Value positions, angles;
  /// B x S or P x S positions of the keys.
  Value keyPositions;
  /// B x T documents of the tokens; null: a sequence is one.
  Value documents;
  /// With a cache: slots of the new tokens, block tables and lengths.
  Value slots, blocks, lengths;
};

/// Creates heddle ops with f32 results.
class LayerBuilder {
public:
  LayerBuilder(OpBuilder &builder, const ModelConfig &config)
      : builder(builder), config(config) {}

  /// A layer on the residual stream STREAM. KEYCACHE and VALUECACHE are the
  /// layer's pools, which become the updated ones, or null without a cache.
  Value layer(Value stream, const ParamValues &params,
              const LayerInputs &inputs, int64_t window, Value &keyCache,
              Value &valueCache);

  Value linear(StringRef where, Value input, Value weight, Value bias = {});
  Value norm(StringRef where, Value input, Value weight);

  Location at(StringRef where);
  RankedTensorType floats(ArrayRef<int64_t> shape);

private:
  Value attention(Value input, const ParamValues &params,
                  const LayerInputs &inputs, int64_t window, Value &keyCache,
                  Value &valueCache);
  Value mlp(Value input, const ParamValues &params);
  Value splitHeads(StringRef where, Value input, int64_t heads);
  Value rotary(StringRef where, Value input, Value angles);

  OpBuilder &builder;
  const ModelConfig &config;
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_IMPORT_DECODERLAYER_H
