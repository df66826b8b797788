# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a ring's transfers cost beside attention, from a trace of heddle-run.

Usage: python3 exposed_wait.py TRACE [LOCATION]

For each rank, milliseconds of attention, of transfers (on their streams, from the
start to the end of each, the time in which the other rank is not yet there
included) and of waits that attention did not hide; and the waits that the formula
gives, for each hop what a transfer takes longer than the attention to the block
at hand: sum of max(0, transfer - attention).

  heddle-compile llama-3.2-1b.json --shrink --mesh cp=2 --strategy "ring(cp)" \\
    --program forward --seq 16384 --output last --weights bf16 -o r.heddle
  heddle-run r.heddle --weights random:1 --trace t.json forward --tokens FILE
"""

import json
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        trace = json.load(file)
    where = sys.argv[2] if len(sys.argv) > 2 else "self_attn"
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    names = {(e["pid"], e["tid"]): e["args"]["name"]
             for e in events if e.get("name") == "thread_name"}
    ranks = {}
    for event in events:
        location = event.get("args", {}).get("location", "")
        if event.get("ph") != "X" or not location.endswith(where):
            continue
        rank = names[event["pid"], event["tid"]].split(",")[0]
        kind = {"plan.launch": "attention", "plan.wait": "wait"}.get(
            event["name"], "transfer" if event["cat"] == "permute" else "")
        if kind:
            ranks.setdefault(rank, []).append((event["ts"], kind, event["dur"]))
    for rank, rows in sorted(ranks.items()):
        rows.sort()
        total = {kind: sum(d for _, k, d in rows if k == kind) / 1e3
                 for kind in ("attention", "transfer", "wait")}
        # A hop starts transfers; the first launch after them hides them.
        expected, longest = 0.0, None
        for _, kind, duration in rows:
            if kind == "transfer":
                longest = max(longest or 0.0, duration)
            elif kind == "attention" and longest is not None:
                expected += max(0.0, longest - duration) / 1e3
                longest = None
        print(f"{rank}: attention {total['attention']:.1f} ms, transfers "
              f"{total['transfer']:.1f} ms, exposed wait {total['wait']:.3f} ms, "
              f"formula {expected:.3f} ms")


if __name__ == "__main__":
    main()
