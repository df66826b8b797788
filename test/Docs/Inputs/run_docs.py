# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""run_docs.py ROOT TEMP: runs the commands in README.md and docs/*.md.

A fenced block whose first word is a command is run by bash, in a folder where
README's names stand for something: MODEL is a tiny model, IDS a prompt,
model.mlir its program. Text after three spaces is a remark. A comment on the
line above a block says otherwise:

  <!-- not run: REASON -->   this block cannot be run here
  <!-- printed -->           lines that the commands before it printed
"""

import glob
import os
import re
import shutil
import subprocess
import sys

COMMAND = re.compile(r"(heddle-[\w-]+|tools/|build/|sed |cmake |ninja |mpirun |"
                     r"python3? |apt|/usr/|HEDDLE_)")
MARK = re.compile(r"<!-- (not run: \S.*|printed) -->")


def blocks(path):
    """(line, marker, language, text) of each fenced block."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    start = None
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start = number
            continue
        above = next((l for l in reversed(lines[:start]) if l.strip()), "")
        mark = MARK.fullmatch(above.strip())
        yield (start + 1, mark.group(1) if mark else "", lines[start][3:],
               "\n".join(lines[start + 1:number]))
        start = None


def prepare(root, temp):
    shutil.rmtree(temp, ignore_errors=True)
    os.makedirs(temp)
    for name in ("test", "tools", "docs"):
        os.symlink(os.path.join(root, name), os.path.join(temp, name))
    model = os.path.join(root, "test/Golden/tiny-llama")
    os.symlink(model, os.path.join(temp, "MODEL"))
    with open(os.path.join(temp, "model.mlir"), "w") as file:
        subprocess.run(["heddle-compile", model, "--mesh", "dp=2,tp=2",
                        "--batch", "2", "--compile-to", "import"],
                       stdout=file, check=True)


def main():
    root, temp = map(os.path.abspath, sys.argv[1:3])
    prepare(root, temp)
    ran, left, printed, failed = 0, 0, "", 0
    pages = [os.path.join(root, "README.md")] + sorted(
        glob.glob(os.path.join(root, "docs", "*.md")))
    for page in pages:
        name = os.path.relpath(page, root)
        for line, mark, language, text in blocks(page):
            if mark.startswith("not run"):
                left += 1
            elif mark == "printed":
                for wanted in text.split("\n"):
                    if wanted.strip() not in printed:
                        print(f"{name}:{line}: expected '{wanted}' in:\n"
                              f"{printed[-2000:]}")
                        failed += 1
            elif language == "" and COMMAND.match(text):
                script = "\n".join(re.sub(r"   +[a-z].*", "", l)
                                   for l in text.split("\n"))
                script = re.sub(r"\bIDS\b", "1,2,3", script)
                done = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", script], cwd=temp,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                printed = done.stdout
                ran += 1
                if done.returncode != 0:
                    print(f"{name}:{line}: status {done.returncode}:\n"
                          f"{script}\n{done.stderr[-2000:]}")
                    failed += 1
    print(f"{ran} blocks ran, {left} cannot, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
