//===- TargetRecord.cpp - What code generation knows of a processor -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Target/CPU/Kernels.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace mlir::heddle::cpu;

/// What x86-64-v3 guarantees beyond the baseline, as far as it matters.
static constexpr const char *kV3Features[] = {
    "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt"};
/// … and x86-64-v4 on top.
static constexpr const char *kV4Features[] = {"avx512f", "avx512bw", "avx512cd",
                                              "avx512dq", "avx512vl"};
/// Used beyond a level where the host has them.
static constexpr const char *kExtraFeatures[] = {
    "avx512vnni", "avx512bf16", "avxvnni", "amx-tile", "amx-int8", "amx-bf16"};

static TargetRecord level3() {
  TargetRecord record;
  record.cpu = "x86-64-v3";
  record.tune = "x86-64-v3";
  record.required.assign(std::begin(kV3Features), std::end(kV3Features));
  return record;
}

static TargetRecord level4() {
  TargetRecord record = level3();
  record.cpu = record.tune = "x86-64-v4";
  record.lanes = record.nativeLanes = 16;
  record.registers = 32;
  record.l2Bytes = 1 << 20;
  record.required.insert(record.required.end(), std::begin(kV4Features),
                         std::end(kV4Features));
  return record;
}

static bool hasAll(const llvm::StringMap<bool> &features,
                   ArrayRef<const char *> names) {
  return llvm::all_of(names,
                      [&](const char *name) { return features.lookup(name); });
}

/// The level that the host reaches, with those extras that it has. Fails on a
/// processor below x86-64-v3.
static FailureOr<TargetRecord> hostRecord() {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  if (!hasAll(features, kV3Features))
    return failure();
  TargetRecord record = hasAll(features, kV4Features) ? level4() : level3();
  record.tune = llvm::sys::getHostCPUName().str();
  for (const char *name : kExtraFeatures) {
    if (!features.lookup(name))
      continue;
    record.required.push_back(name);
    record.features += (record.features.empty() ? "+" : ",+");
    record.features += name;
  }
  // The 256-bit form of AVX-VNNI has another encoding.
  record.vnni = record.nativeLanes == 16 && features.lookup("avx512vnni");
  record.bf16 = features.lookup("avx512bf16");
  bool tiles = record.nativeLanes == 16 && features.lookup("amx-tile");
  record.amxInt8 = tiles && features.lookup("amx-int8");
  record.amxBf16 = tiles && features.lookup("amx-bf16");
  return record;
}

TargetRecord TargetRecord::host() {
  FailureOr<TargetRecord> record = hostRecord();
  return succeeded(record) ? *record : level3();
}

FailureOr<TargetRecord> TargetRecord::get(StringRef name) {
  if (name == "host")
    return hostRecord();
  if (name == "x86-64-v3")
    return level3();
  if (name == "x86-64-v4")
    return level4();
  return failure();
}
