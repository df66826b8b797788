# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""plant.py BUG < partitioned.mlir: the same programs with one mistake.

Each is a mistake that others made (cases.md), as an edit of what
`heddle-compile --compile-to partition` prints. A rule that finds nothing to
spoil is an error, so that a test cannot pass on a program without the bug.
"""

import re
import sys


def functions(text):
    """The module as [before, function, function, ..., after]."""
    return re.split(r"(?=^  func\.func )", text, flags=re.M)


def drop(body, line, old, new):
    """BODY without LINE, whose result OLD is now NEW."""
    return re.sub(old + r"(?![\w])", new, body.replace(line.group(0), ""))


def none(text):
    return text


def missing_reduce(body):
    """A row-parallel product of the layers is not added up."""
    line = re.compile(r"^ *(%\w+) = comm\.all_reduce +sum (%\w+) .*\n",
                      re.M).search(body, body.index("kind 0"))
    return line and drop(body, line, line[1], line[2])


def bias_per_rank(body):
    """D1: the bias goes into the product on every rank, and is added up."""
    found = re.search(
        r"^( *)(%\w+) = heddle\.linear (%\w+), (%\w+) : "
        r"\((\S+), (\S+)\) -> (\S+)\n"
        r"( *(%\w+) = comm\.all_reduce .*\n)"
        r" *(%\w+) = heddle\.bias_add \9, (%\w+) : \(\S+, (\S+)\) .*\n",
        body, re.M)
    if not found:
        return None
    space, value, x, w, tx, tw, ty, reduce, summed, out, b, tb = (
        found.groups())
    changed = (f"{space}{value} = heddle.linear {x}, {w} bias {b} : "
               f"({tx}, {tw}, {tb}) -> {ty}\n{reduce}")
    return re.sub(out + r"(?!\w)", summed,
                  body.replace(found.group(0), changed))


def dropped_tail(body):
    """A7: the last query head of a rank reads no keys."""
    return re.sub(r"(kv_heads <\{tp\}, \[\[0(?:, \d+)*), \d+\]", r"\1, -1]",
                  body)


def stale_slot(body):
    """A step writes its keys to the slot of position 0 (`last` holds a zero
    for each sequence), and its own slot holds what was there."""
    if not body.startswith("  func.func @decode"):
        return body
    slots = re.search(r"^( *)(%\w+) = heddle\.cache_slots %\w+(, .*\n)", body,
                      re.M)
    last = re.search(r"(%\w+): \S+ \{[^}]*<input \"last\">", body)
    if not slots or not last:
        return None
    line = slots[0] + f"{slots[1]}%stale = heddle.cache_slots {last[1]}{slots[3]}"
    head, found, layers = body.replace(slots[0], line).partition("kind 0")
    return head + found + re.sub(r"(cache_append .* at )" + slots[2] + r"(?!\w)",
                                 r"\g<1>%stale", layers, count=1)


def lost_mask(body):
    """Prompt tokens see the tokens after them."""
    return re.sub(r" causal kv_heads| causal(?= :)",
                  lambda m: m[0].replace(" causal", ""), body)


def unrotated_keys(body):
    """F1: keys lie in the cache as if they all had position 0."""
    lines = re.findall(r"^ *(%\w+) = heddle\.rotary (%\w+), ", body, re.M)
    return re.sub(r"(cache_append %\w+, )" + lines[1][0] + r"(?!\w)",
                  r"\g<1>" + lines[1][1], body)


BUGS = {
    "none": none,
    "missing-reduce": missing_reduce,
    "bias-per-rank": bias_per_rank,
    "dropped-tail": dropped_tail,
    "stale-slot": stale_slot,
    "lost-mask": lost_mask,
    "unrotated-keys": unrotated_keys,
}


def main():
    bug, text = sys.argv[1], sys.stdin.read()
    head, *bodies = functions(text)
    changed = [BUGS[bug](body) for body in bodies]
    if None in changed or (bug != "none" and changed == bodies):
        sys.exit(f"plant.py: expected a place for '{bug}', got none")
    sys.stdout.write(head + "".join(changed))


if __name__ == "__main__":
    main()
