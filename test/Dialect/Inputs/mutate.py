# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""No text crashes heddle-opt.

  mutate.py TESTS FOLDER [--count N] [--seed S]

Takes the programs of all .mlir files below TESTS, and what the phases make of
one of them, in their own and in the generic form, and changes each in a few
random places. Those that heddle-opt still parses go through the passes of some
phases, and are changed again. A program may be accepted or refused; a signal, a
stack dump or 10 seconds on the processor is a failure, whose program is left in
FOLDER and named with its passes. A seed gives the same programs, as long as the same
ones parse.
"""

import argparse
import os
import random
import re
import resource
import subprocess
import sys

SECONDS = 10
MEMORY = 8 << 30
BATCH = 40
SPLIT = "\n// -----\n"
LARGEST = 20000 # characters of a program that is changed again
ROUNDS = 3 # pipelines that a program goes through

SHARD = ["--heddle-annotate", "--heddle-verify-global", "--heddle-partition",
         "--heddle-verify-local"]
PLAN = ["--heddle-pack-weights", "--heddle-schedule",
        "--convert-heddle-to-plan"]
CODE = ["--heddle-codegen-cpu=target=x86-64-v3"]
# Passes, and how often they are chosen.
PIPELINES = [
    (["--heddle-verify-global", "--heddle-verify-local"], 1),
    (SHARD, 4),
    (["--heddle-quantize-activations"] + SHARD, 1),
    (["--heddle-annotate=strict-divisibility strategy=data(dp);tensor(tp)"], 1),
    (["--heddle-partition", "--heddle-verify-local"], 2),
    (SHARD + PLAN[:2], 2),
    (SHARD + PLAN, 3),
    (PLAN[1:], 2),
    (PLAN[2:], 2),
    (SHARD + PLAN[:2] + CODE, 1),
    (CODE, 2),
]

NUMBERS = ["0", "1", "2", "3", "5", "7", "8", "16", "31", "33", "64", "-1",
           "-2", "65536", "2147483647", "2147483648", "4294967296",
           "4611686018427387904", "9223372036854775807",
           "-9223372036854775808", "18446744073709551616"]
ELEMENTS = ["f32", "f64", "f16", "bf16", "i1", "i8", "i32", "i64", "index",
            "!heddle.q8", "!heddle.q8_0", "!heddle.q4_0", "!heddle.q4_1",
            "!heddle.q6_k", "complex<f32>", "vector<2xf32>"]
TENSOR = re.compile(r"tensor<([0-9?x]*)([^<>,x]+)"
                    r"((?:, #[^<>]*<[^<>]*>)?)>")
NUMBER = re.compile(r"(?<![\w%@.#])-?\d+(?![\w.])|(?<=[x<])\d+(?=x)")
VALUE = re.compile(r"%[A-Za-z0-9_]+")
OP = re.compile(r"\b(?:heddle|comm|plan|func)\.[a-z_0-9.]+(?= )|\breturn\b")
ATTRIBUTE = re.compile(r"\b[a-z_.]+ = (?:\"[^\"]*\"|[^,{}<>\[\]()\"]+"
                       r"|\[[^\[\]]*\]|#[^<> ]*<[^<>]*>)")
TOKEN = re.compile(r"[%@!#]?[A-Za-z0-9_.]+|\"[^\"]*\"|[^\s\w]")


def programs(tests):
    """The pieces of all files, in an order that does not depend on the disk."""
    paths = []
    for folder, _, names in os.walk(tests):
        paths += [os.path.join(folder, name) for name in names
                  if name.endswith(".mlir")]
    result = []
    for path in sorted(paths):
        with open(path, encoding="utf-8") as file:
            text = re.sub(r"\bTP\b", "3", file.read())
        for piece in re.split(r"(?m)^//\s?---.*$", text):
            lines = [line for line in piece.splitlines()
                     if line.strip() and not line.lstrip().startswith("//")]
            if lines:
                result.append("\n".join(lines))
    return result


def later_phases(tests):
    """A decode step after each phase: inputs of the passes that follow."""
    path = os.path.join(tests, "Dialect/Heddle/Transforms/Inputs/decode.mlir")
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"\bTP\b", "3", file.read())
    result = []
    for passes in (SHARD[:1], SHARD[:3], SHARD[:3] + PLAN[1:2],
                   SHARD[:3] + PLAN[1:]):
        done = subprocess.run(["heddle-opt"] + passes, input=text,
                              capture_output=True, text=True, check=True)
        result.append(done.stdout.strip())
    return result


def replace_one(rng, pattern, text, change):
    found = list(pattern.finditer(text))
    if not found:
        return text
    match = rng.choice(found)
    return text[:match.start()] + change(match) + text[match.end():]


def replace_all(rng, pattern, text, change):
    """The same change wherever the same text stands, so that shapes go on
    agreeing with one another."""
    found = list(pattern.finditer(text))
    if not found:
        return text
    match = rng.choice(found)
    old, new = match.group(), change(match)
    return pattern.sub(lambda m: new if m.group() == old else m.group(), text)


def change_tensor(rng, match):
    dims, element, encoding = match.groups()
    dims = [d for d in dims.split("x") if d]
    what = rng.randrange(6)
    if what == 0 and dims:
        del dims[rng.randrange(len(dims))]
    elif what == 1:
        dims.insert(rng.randint(0, len(dims)), rng.choice(NUMBERS[:11]))
    elif what == 2 and dims:
        dims[rng.randrange(len(dims))] = rng.choice(NUMBERS + ["?"])
    elif what == 3:
        rng.shuffle(dims)
    elif what == 4:
        element = rng.choice(ELEMENTS)
    else:
        encoding = ""
    return f"tensor<{''.join(d + 'x' for d in dims)}{element}{encoding}>"


def mutate_lines(rng, text, pool):
    lines = text.split("\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    what = rng.randrange(4)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines.insert(other, lines[at])
    elif what == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines.insert(at, rng.choice(rng.choice(pool).split("\n")))
    return "\n".join(lines)


def mutate(rng, text, pool, ops):
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        where = rng.choice((replace_one, replace_all))
        what = rng.randrange(10)
        if what < 2:
            text = mutate_lines(rng, text, pool)
        elif what < 5:
            text = where(rng, NUMBER, text, lambda m: rng.choice(NUMBERS))
        elif what == 5:
            text = where(rng, TENSOR, text, lambda m: change_tensor(rng, m))
        elif what == 6:
            names = VALUE.findall(text) or ["%x"]
            text = replace_one(rng, VALUE, text, lambda m: rng.choice(names))
        elif what == 7:
            text = replace_one(rng, OP, text, lambda m: rng.choice(ops))
        elif what == 8:
            text = replace_one(rng, ATTRIBUTE, text, lambda m: "")
        else:
            tokens = TOKEN.findall(rng.choice((text, rng.choice(pool))))
            text = replace_one(rng, TOKEN, text,
                               lambda m: rng.choice(tokens + [""]))
    return text


def limit_resources():
    # On the processor: another process may hold up this one, too.
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(passes, texts):
    """What is wrong with a run, or nothing; what each program became, empty if
    it is refused."""
    command = ["heddle-opt", "--split-input-file",
               "--mlir-disable-threading"] + passes
    try:
        done = subprocess.run(command, input=SPLIT.join(texts).encode(),
                              timeout=20 * SECONDS, capture_output=True,
                              preexec_fn=limit_resources)
    except subprocess.TimeoutExpired:
        return f"no end after {20 * SECONDS} s", []
    error = done.stderr.decode(errors="replace")
    if done.returncode not in (0, 1) or "Stack dump" in error:
        dump = max(0, error.find("Stack dump") - 300)
        return f"status {done.returncode}: {error[dump:dump + 3000]}", []
    pieces = done.stdout.decode(errors="replace").split(SPLIT.lstrip())
    return None, [piece.strip() for piece in pieces]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tests")
    parser.add_argument("folder")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    os.makedirs(arguments.folder, exist_ok=True)
    found = 0

    def outputs(passes, texts):
        nonlocal found
        why, results = run(passes, texts)
        if not why:
            return results
        for text in texts:
            why, _ = run(passes, [text])
            if why:
                path = os.path.join(arguments.folder, f"{found}.mlir")
                found += 1
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text + "\n")
                print(f"{path}: heddle-opt {' '.join(passes)}: {why}")
        return [""] * len(texts)

    rng = random.Random(arguments.seed)
    texts = programs(arguments.tests) + later_phases(arguments.tests)
    texts += filter(None, outputs(["--mlir-print-op-generic"], texts))
    ops = sorted({op for text in texts for op in OP.findall(text)})
    weights = [weight for _, weight in PIPELINES]
    made = parsed = accepted = 0
    changed = list(texts)
    while made < arguments.count:
        size = min(BATCH, arguments.count - made)
        made += size
        batch = [mutate(rng, rng.choice(rng.choice((texts, changed))), texts,
                        ops) for _ in range(size)]
        batch = [text for text, result in zip(batch, outputs([], batch))
                 if result]
        parsed += len(batch)
        for _ in range(ROUNDS if batch else 0):
            passes = rng.choices(PIPELINES, weights)[0][0]
            accepted += sum(map(bool, outputs(passes, batch)))
        changed += [text for text in batch if len(text) < LARGEST]
    print(f"{made} programs, {parsed} parsed, {accepted} runs of phases "
          f"accepted, {found} crashes")
    return found > 0


if __name__ == "__main__":
    sys.exit(main())
