# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""run_docs.py ROOT TEMP [PAGE ...]: runs what README.md and docs/*.md show.

docs/testing.md has the rules. Commands run in TEMP, one page after the other,
where the names that the pages use stand for something: MODEL is a tiny model,
IDS a prompt, model.mlir a program. HEDDLE_SMOLLM2 is the real model, if it is
there; HEDDLE_PYTHON an interpreter with the packages of tools/install-deps.
"""

import glob
import os
import re
import shlex
import shutil
import subprocess
import sys

SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
# An untagged block that starts like this was meant to be run.
COMMAND = re.compile(r"(\$ |heddle-\w|tools/|build/|\.ci/|test/|sed |cmake |"
                     r"ninja |mpirun |python3? |apt|/usr/|HEDDLE_)")
MARK = re.compile(r"<!-- (not run|printed by): (\S.*) -->")
# What differs from run to run: times, speeds, and errors as 1.52E-06.
MEASURED = re.compile(r"\d+(\.\d+)?(?= (s|ms|[uµn]s|tokens/s|G(B|FLOP)/s)\b)|"
                      r"\d\.\d+E[-+]\d+")


class Page:
    """The fenced blocks of one page."""

    def __init__(self, path, name):
        self.name = name
        with open(path, encoding="utf-8") as file:
            self.lines = file.read().split("\n")

    def blocks(self):
        """(line, kind and text of the mark above, language, lines)."""
        start = None
        for number, line in enumerate(self.lines):
            if not line.startswith("```"):
                continue
            if start is None:
                start = number
                continue
            mark = MARK.fullmatch(self.lines[start - 1]) if start else None
            yield (start + 1, mark.groups() if mark else ("", ""),
                   self.lines[start][3:].strip(),
                   self.lines[start + 1:number])
            start = None


def sessions(lines):
    """(command, lines that it is said to print) of a console block."""
    result, goes_on = [], False
    for line in lines:
        if goes_on:
            result[-1][0] += "\n" + line
        elif line.startswith("$ "):
            result.append([line[2:], []])
        elif not result:
            raise ValueError("expected a console block to begin with '$ '")
        else:
            result[-1][1].append(line)
        goes_on = line.endswith("\\") and (goes_on or line.startswith("$ "))
    return result


def stable(line):
    return " ".join(MEASURED.sub("#", line).split())


def mismatch(shown, printed):
    """The first shown line that was not printed where it stands, or None."""
    shown, printed = ([stable(line) for line in lines]
                      for lines in (shown, printed))
    while printed and not printed[-1]:
        printed.pop()
    at, anywhere = 0, False
    for line in shown:
        if line == "...":
            anywhere = True
            continue
        found = (line in printed[at:] if anywhere
                 else printed[at:at + 1] == [line])
        if not found:
            return line
        at = printed.index(line, at) + 1
        anywhere = False
    return None if anywhere or at == len(printed) else "the end"


class Runner:
    def __init__(self, root, temp):
        self.root, self.temp = root, temp
        self.ran = self.left = self.failed = 0
        venv = os.path.join(root, "build", "venv", "bin", "python")
        self.python = os.environ.get("HEDDLE_PYTHON") or (
            venv if os.access(venv, os.X_OK) else sys.executable)
        self.has_packages = subprocess.run(
            [self.python, "-c", "import numpy, tokenizers"],
            stderr=subprocess.DEVNULL).returncode == 0
        self.model = os.environ.get("HEDDLE_SMOLLM2") or os.path.join(
            root, "build", "models", SMOLLM2)
        self.prepare()

    def prepare(self):
        shutil.rmtree(self.temp, ignore_errors=True)
        os.makedirs(os.path.join(self.temp, "bin"))
        model = os.path.join(self.root, "test/Golden/tiny-llama")
        links = {name: os.path.join(self.root, name)
                 for name in ("test", "tools", "docs")}
        links["MODEL"] = model
        if os.path.isfile(self.model):
            links[SMOLLM2] = os.path.abspath(self.model)
        for name, target in links.items():
            os.symlink(target, os.path.join(self.temp, name))
        path = os.path.join(self.temp, "bin", "python")
        with open(path, "w") as file:
            file.write(f'#!/bin/sh\nexec {shlex.quote(self.python)} "$@"\n')
        os.chmod(path, 0o755)
        tools = os.path.dirname(shutil.which("heddle-compile"))
        self.environment = dict(
            os.environ, PATH=os.pathsep.join(
                [os.path.join(self.temp, "bin"), os.environ["PATH"]]),
            PYTHONPATH=os.path.join(self.root, "python-bindings"),
            PYTHONDONTWRITEBYTECODE="1", HEDDLE_BUILD=os.path.dirname(tools))
        with open(os.path.join(self.temp, "model.mlir"), "w") as file:
            subprocess.run(["heddle-compile", model, "--mesh", "dp=2,tp=2",
                            "--batch", "2", "--compile-to", "import"],
                           stdout=file, check=True)

    def missing(self, command):
        if SMOLLM2 in command and not os.path.isfile(self.model):
            return "the model"
        if "python -m heddle" in command and not self.has_packages:
            return "numpy and tokenizers"
        return None

    def fail(self, where, message):
        print(f"{where}: {message}")
        self.failed += 1

    def command(self, where, command, shown=None):
        first = command.split("\n")[0]
        lacks = self.missing(command)
        if lacks:
            print(f"{where}: left out without {lacks}: {first}")
            self.left += 1
            return
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c",
             re.sub(r"\bIDS\b", "1,2,3", command)],
            cwd=self.temp, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            self.fail(where, f"status {done.returncode}:\n{command}\n"
                             f"{done.stderr[-2000:]}")
            return
        wrong = shown and mismatch(shown, done.stdout.split("\n"))
        if wrong:
            self.fail(where, f"expected '{wrong}' in what is printed by "
                             f"{first}:\n{done.stdout[-4000:]}")
            return
        print(f"{where}: {'equal' if shown else 'ran'}: {first}", flush=True)
        self.ran += 1

    def block(self, where, mark, language, lines):
        kind, text = mark
        if kind == "not run":
            print(f"{where}: not run: {text}")
        elif kind == "printed by":
            self.command(where, text, lines)
        elif language == "sh":
            self.command(where, "\n".join(lines))
        elif language == "console":
            for command, shown in sessions(lines):
                self.command(where, command, shown)
        elif language == "" and lines and COMMAND.match(lines[0]):
            self.fail(where, "expected ```sh or ```console above a command")


def main():
    root, temp = map(os.path.abspath, sys.argv[1:3])
    runner = Runner(root, temp)
    pages = sys.argv[3:] or [os.path.join(root, "README.md")] + sorted(
        glob.glob(os.path.join(root, "docs", "*.md")))
    for path in pages:
        page = Page(path, os.path.relpath(path, root))
        for line, mark, language, lines in page.blocks():
            runner.block(f"{page.name}:{line}", mark, language, lines)
    print(f"{runner.ran} ran, {runner.left} left out, {runner.failed} failed")
    return runner.failed != 0


if __name__ == "__main__":
    sys.exit(main())
