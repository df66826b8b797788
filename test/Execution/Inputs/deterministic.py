# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""deterministic.py GOLDEN GGUF TEMP: compiles of one model, byte by byte.

Each model is compiled again from another folder, under another name, on one
processor only (the compiler then has one thread, and loads in other places),
and without an environment. Prints one line a model.
"""

import os
import shutil
import subprocess
import sys

PROCESSORS = os.sched_getaffinity(0)
# What sanitizers need to know is not about the compiler.
BARE = {key: value for key, value in os.environ.items()
        if key.endswith("SAN_OPTIONS")}


def compile(model, options, folder, processors=PROCESSORS, environment=None):
    """The bundle's bytes, and the report."""
    def pin():
        os.sched_setaffinity(0, processors)

    done = subprocess.run(
        [shutil.which("heddle-compile"), model, *options, "-o", "out.heddle",
         "--report", "json"], cwd=folder, env=environment, preexec_fn=pin,
        stdout=subprocess.PIPE, check=True, timeout=60)
    with open(os.path.join(folder, "out.heddle"), "rb") as file:
        return file.read(), done.stdout


def main():
    golden, gguf, temp = sys.argv[1:4]
    shutil.rmtree(temp, ignore_errors=True)
    one, two = os.path.join(temp, "one"), os.path.join(temp, "two", "deeper")
    os.makedirs(one)
    os.makedirs(two)
    first = {min(PROCESSORS)}
    failed = False
    for source, options in (
            (f"{golden}/tiny-llama", "--mesh tp=5 --chunk 7"),
            (f"{golden}/tiny-qwen2",
             "--mesh dp=2,tp=3 --batch 4 --program forward --seq 8"),
            (f"{golden}/tiny-qwen3", "--mesh tp=2 --weights bf16 --chunk 7"),
            (f"{golden}/configs/mistral-7b-v0.1.json",
             "--mesh tp=8 --cpu x86-64-v3 --chunk 7"),
            (gguf, "--mesh tp=2 --seq 16 --weights keep --activations q8")):
        options = options.split()
        name = os.path.basename(source)
        copy = shutil.copytree if os.path.isdir(source) else shutil.copyfile
        copy(source, os.path.join(one, name))
        copy(source, os.path.join(two, "other-" + name))
        want = compile(name, options, one)
        differs = [what for what, got in (
            ("another folder and name",
             compile(os.path.join(two, "other-" + name), options, two)),
            ("one thread", compile(name, options, one, first)),
            ("no environment", compile(name, options, one, environment=BARE)),
        ) if got != want]
        failed |= bool(differs)
        print(f"{name} {' '.join(options)}:",
              "differs: " + ", ".join(differs) if differs else "equal",
              flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
