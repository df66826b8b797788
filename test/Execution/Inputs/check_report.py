# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks what a JSON report promises.

Usage: check_report.py REPORT.json LAYERS RANKS
- byte parts add up to the arena;
- a layer has one all-reduce after attention and one after the MLP, and there
  is none elsewhere but for the embedding; logits are gathered once;
- all of them over tp: sequences on other ranks of dp need none.
"""

import json
import sys


def main():
    with open(sys.argv[1]) as file:
        report = json.load(file)
    layers, ranks = int(sys.argv[2]), int(sys.argv[3])
    assert sum(r["count"] for r in report["ranks"]) == ranks
    for rank in report["ranks"]:
        parts = ["parameter", "state", "activation", "communication",
                 "workspace", "holes"]
        total = sum(rank[p + "_bytes"] for p in parts)
        assert total == rank["arena_bytes"], (total, rank["arena_bytes"])
        assert all(rank[p + "_bytes"] >= 0 for p in parts)
    assert {a for c in report["collectives"] for a in c["axes"]} == {"tp"}
    variants = {c["variant"] for c in report["collectives"]}
    assert variants == {"prefill", "prefill_32", "prefill_8", "decode"}, variants
    for variant in variants:
        rows = [c for c in report["collectives"] if c["variant"] == variant]
        found = sorted((c["kind"], c["count"], c["location"].split(".")[-1])
                       for c in rows)
        want = sorted([("all_gather", 1, "lm_head"),
                       ("all_reduce", 1, "embed_tokens"),
                       ("all_reduce", layers, "down_proj"),
                       ("all_reduce", layers, "o_proj")])
        assert found == want, (found, want)
    print("report holds")


if __name__ == "__main__":
    main()
