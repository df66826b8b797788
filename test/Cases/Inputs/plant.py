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


# Bugs of rings. `loop` is the text of a ring's hops, up to the end of the
# attention that comes after them.

def ring(body):
    """(before, the first ring, after) of BODY."""
    loop = re.search(r"^ *%\w+:\d+ = heddle\.repeat order \[[0, ]+\] carry\("
                     r"%\w+ : tensor<[^>]*>, %\w+ : tensor<[^>]*>, .*?"
                     r"heddle\.yield carry.*?"
                     r"^ *%\w+, %\w+ = heddle\.attention_partial [^\n]*\n",
                     body[body.index("kind 0"):], re.M | re.S)
    start = body.index("kind 0") + loop.start()
    return body[:start], loop[0], body[start + len(loop[0]):]


def in_ring(edit):
    """A bug that is an edit of the first ring's text."""
    def bug(body):
        before, loop, after = ring(body)
        return before + edit(loop, before) + after
    return bug


def mask_per_block(loop, before):
    """G1: every block is masked as if it were the rank's own."""
    own = re.findall(r"(%\w+) = heddle\.mask_pad ", before)[-1]
    return re.sub(r"(pos\(%\w+, )%[\w#]+\)", rf"\g<1>{own})", loop)


def hop_too_many(loop, _):
    """The block that was there first is counted twice."""
    return re.sub(r"order \[(.*?)\]", r"order [\1, 0]", loop, count=1)


def hop_too_few(loop, _):
    return re.sub(r"order \[(.*?), 0\]", r"order [\1]", loop, count=1)


def swapped_slots(loop, _):
    """Keys and values arrive in each other's place."""
    return re.sub(r"(yield carry\(%\w+, %\w+, )(%\w+), (%\w+)", r"\1\3, \2",
                  loop)


def sink_per_hop(loop, _):
    """G9: the sink is added once a hop, not once a row."""
    sinks = re.search(r"sinks\((%\w+)\)", loop)[1]
    kind = re.search(r", (tensor<\d+xf32>)\) ->", loop)[1]
    return re.sub(r"(attention_partial [^\n]* pos\(%\w+, %\w+\))( scale "
                  r"[^\n]*)(\) -> )", rf"\1 sinks({sinks})\2, {kind}\3", loop,
                  count=1)


def lost_window(loop, _):
    """G6: attention is causal only."""
    return re.sub(r" window \d+", "", loop)


def merge_in_bf16(loop, _):
    """G13: a block's result is rounded before it is merged."""
    loop = re.sub(r"(attention_partial [^\n]* -> \(tensor<[\dx]+)f32", r"\1bf16",
                  loop, count=1)
    return re.sub(r"(merge_partials [^\n]*? : \([^\n]*?, tensor[^\n]*?, "
                  r"tensor<[\dx]+)f32", r"\1bf16", loop, count=1)


def dropped_last_key(body):
    """A7, G2: the last token is no key."""
    return re.sub(r"(mask_pad %\w+ dim 1 [^\n]* size )(\d+)",
                  lambda m: m[1] + str(int(m[2]) - 1), body, count=1)


def other_layout(body):
    """F2: positions of contiguous shards on tokens that lie in a zigzag."""
    return re.sub(r"(<input \"positions\">, heddle\.global = tensor<[^,]*, "
                  r"#heddle\.sharding<@mesh, \[\{\}, )\{cp, [^}]*\}",
                  r"\1{cp}", body)


BUGS = {
    "none": none,
    "missing-reduce": missing_reduce,
    "bias-per-rank": bias_per_rank,
    "dropped-tail": dropped_tail,
    "stale-slot": stale_slot,
    "lost-mask": lost_mask,
    "unrotated-keys": unrotated_keys,
    "mask-per-block": in_ring(mask_per_block),
    "hop-too-many": in_ring(hop_too_many),
    "hop-too-few": in_ring(hop_too_few),
    "swapped-slots": in_ring(swapped_slots),
    "sink-per-hop": in_ring(sink_per_hop),
    "lost-window": in_ring(lost_window),
    "merge-in-bf16": in_ring(merge_in_bf16),
    "dropped-last-key": dropped_last_key,
    "other-layout": other_layout,
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
