# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How lit runs the tests of tools and passes (docs/testing.md).

Environment:
  HEDDLE_SHARED           folder with models that are too large for the sources
  HEDDLE_LIT_ROUNDTRIP=1  heddle-opt prints and parses its input once more
"""

import os
import shutil

import lit.formats

config.name = "Heddle"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "Golden", "Fuzz"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.heddle_binary_root, "test")

# Tools are found by name: ours first, then FileCheck, not and split-file.
config.environment["PATH"] = os.pathsep.join(
    [config.heddle_tools_dir, config.llvm_tools_dir,
     config.environment.get("PATH", "")])
config.environment["FILECHECK_OPTS"] = (
    "-enable-var-scope --dump-input-filter=error")
for name, value in os.environ.items():
    if name.startswith(("HEDDLE_", "ASAN_", "UBSAN_", "LSAN_", "TSAN_",
                        "OMPI_")):
        config.environment[name] = value

# %shared: data that a test must ask for with `REQUIRES: shared`.
shared = os.environ.get("HEDDLE_SHARED", "")
if shared and os.path.isdir(shared):
    config.available_features.add("shared")
    config.substitutions.append(("%shared", os.path.abspath(shared)))
# %golden: small models and numbers that other people's code computed.
config.substitutions.append(
    ("%golden", os.path.join(config.test_source_root, "Golden")))
# %bin: the folder of the programs.
config.substitutions.append(("%bin", config.heddle_tools_dir))

# %smollm2: what tools/install-deps --model fetches, 98 MB.
smollm2 = os.environ.get("HEDDLE_SMOLLM2") or os.path.join(
    os.path.dirname(config.test_source_root), "build", "models",
    "SmolLM2-135M-Instruct.Q4_1.gguf")
if os.path.isfile(smollm2):
    config.available_features.add("smollm2")
    config.substitutions.append(("%smollm2", os.path.abspath(smollm2)))

if config.heddle_sanitizer:
    config.available_features.add("sanitizer")
for tool in ("heddle-compile", "heddle-run", "heddle-check", "heddle-reduce",
             "heddle-lsp-server"):
    if os.path.exists(os.path.join(config.heddle_tools_dir, tool)):
        config.available_features.add(tool)
if (os.path.exists(os.path.join(config.heddle_tools_dir, "HeddleMpiTests"))
        and shutil.which("mpirun")):
    config.available_features.add("mpi")
if os.path.exists("/dev/nvidia0"):
    config.available_features.add("gpu")

if os.environ.get("HEDDLE_LIT_ROUNDTRIP") == "1":
    config.substitutions.append(
        (r"(?<![\w./-])heddle-opt(?![\w./-])", "heddle-opt --verify-roundtrip"))
