//===- ModelInput.h - The global program of a command line -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===--------------------------------------------------------------------*- C++
//-*-===//

#ifndef HEDDLE_TOOLS_HEDDLE_COMPILE_MODELINPUT_H
#define HEDDLE_TOOLS_HEDDLE_COMPILE_MODELINPUT_H

#include "CommandLine.h"
#include "heddle/Pipelines/Compile.h"

#include "llvm/ADT/StringExtras.h"

/// Options in the form that the pipelines take.
inline mlir::heddle::ImportOptions importOptions(const CommandLine &cl) {
  mlir::heddle::ImportOptions options;
  options.program = cl.program;
  options.batch = cl.batch;
  options.sequence = cl.sequence;
  options.chunk = std::min(cl.chunk, cl.sequence);
  options.blockSize = cl.blockSize;
  options.output = cl.result;
  options.packed = cl.packed;
  options.anyPositions = cl.positions == "any";
  options.weights = cl.weights;
  options.mesh = cl.mesh;
  return options;
}

/// Gives a model what `--attention` asks for.
inline void applyAttention(mlir::heddle::ModelConfig &config,
                           const CommandLine &cl) {
  config.alibi |= cl.attention.alibi;
  config.sinks |= cl.attention.sinks;
  if (cl.attention.softCap > 0)
    config.softCap = cl.attention.softCap;
  if (cl.attention.window >= 0) {
    config.window = cl.attention.window;
    config.windowLayers.clear();
  }
}

inline mlir::heddle::CompileOptions compileOptions(const CommandLine &cl) {
  mlir::heddle::CompileOptions options;
  options.strategy = cl.strategy;
  options.layout = cl.layout;
  options.topology = cl.topology;
  options.strictDivisibility = cl.strict;
  options.activations = cl.activations;
  options.memoryBudget = cl.memoryBudget;
  options.target = cl.cpu;
  return options;
}

/// Facts that hosts need to drive the programs.
inline std::string interfaceJson(const mlir::heddle::ModelConfig &config,
                                 const CommandLine &cl) {
  llvm::json::Object object{
      {"model_type", config.modelType},
      {"program", cl.program},
      {"vocabulary", config.vocabulary},
      {"hidden", config.hidden},
      {"layers", config.layers},
      {"batch", cl.batch},
      {"sequence", cl.sequence},
      {"chunk", std::min(cl.chunk, cl.sequence)},
      {"block_size", cl.blockSize},
      {"blocks", (cl.sequence + cl.blockSize - 1) / cl.blockSize}};
  if (cl.program == "generate") {
    llvm::json::Array programs;
    for (const auto &[name, rows] :
         mlir::heddle::prefillPrograms(std::min(cl.chunk, cl.sequence)))
      programs.push_back(llvm::json::Object{{"name", name}, {"rows", rows}});
    object["prefill"] = std::move(programs);
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::json::Value(std::move(object));
  return text;
}

#endif // HEDDLE_TOOLS_HEDDLE_COMPILE_MODELINPUT_H
