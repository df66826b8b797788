//===- CommandLine.h - Options that describe a compilation -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===--------------------------------------------------------------------*- C++
//-*-===//

#ifndef HEDDLE_TOOLS_HEDDLE_COMPILE_COMMANDLINE_H
#define HEDDLE_TOOLS_HEDDLE_COMPILE_COMMANDLINE_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// What heddle-compile and heddle-check have in common.
struct CommandLine {
  std::string model, output, report, from = "import", to = "bundle";
  std::vector<std::pair<std::string, int64_t>> mesh;
  std::string strategy, layout, topology, program = "generate",
                                          result = "logits";
  std::string target = "cpu", weights = "keep", compute = "f32",
              activations = "keep";
  std::string cpu = "host";
  int64_t batch = 1, sequence = 512, chunk = 128, blockSize = 16;
  int64_t memoryBudget = 0;
  bool strict = false, shrink = false;
  /// What attention does beside what the model's description says.
  struct {
    bool alibi = false, sinks = false;
    double softCap = 0;
    int64_t window = -1;
  } attention;
  int64_t packed = 0;
  std::string positions = "consecutive";
  /// heddle-check only.
  std::string at = "plan", local;
  uint64_t seed = 1;
};

/// Parses the options of `tool` ("heddle-compile" or "heddle-check"). Returns
/// -1 to go on, otherwise the exit status (0 after --help).
int parseCommandLine(int argc, char **argv, const char *tool,
                     CommandLine &options);

#endif // HEDDLE_TOOLS_HEDDLE_COMPILE_COMMANDLINE_H
