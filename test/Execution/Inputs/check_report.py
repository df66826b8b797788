# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks what a JSON report promises.

Usage: check_report.py REPORT.json LAYERS RANKS [sequence TP WIDTH]
- byte parts add up to the arena;
- a layer has one all-reduce after attention and one after the MLP, and there
  is none elsewhere but for the embedding; logits are gathered once;
- all of them over tp: sequences on other ranks of dp need none;
- with `sequence`, a program of TP tokens or more has a reduce-scatter and an
  all-gather for each of those all-reduces, which send the same bytes
  (Korthikanti et al., arXiv:2205.05198), and the last rows are
  summed. WIDTH is that of the residual.
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
    rows_of = {"prefill": 128, "prefill_32": 32, "prefill_8": 8, "decode": 1}
    for variant in variants:
        rows = [c for c in report["collectives"] if c["variant"] == variant]
        found = sorted((c["kind"], c["count"], c["location"].split(".")[-1])
                       for c in rows)
        want = [("all_gather", 1, "lm_head"),
                ("all_reduce", 1, "embed_tokens"),
                ("all_reduce", layers, "down_proj"),
                ("all_reduce", layers, "o_proj")]
        if len(sys.argv) > 4 and rows_of[variant] > 1:
            want = [("all_gather", 1, "lm_head"), ("all_reduce", 1, "last"),
                    ("all_gather", layers, "input_layernorm"),
                    ("all_gather", layers, "post_attention_layernorm"),
                    ("reduce_scatter", 1, "embed_tokens"),
                    ("reduce_scatter", layers, "down_proj"),
                    ("reduce_scatter", layers, "o_proj")]
            tp, width = int(sys.argv[5]), int(sys.argv[6])
            for row in rows:
                # A rank's chunk of the tokens, fp32.
                if row["location"].split(".")[-1] not in ("lm_head", "last"):
                    chunk = rows_of[variant] * width * 4 // tp
                    assert row["bytes"] == row["count"] * chunk, row
        assert found == sorted(want), (found, want)
    print("report holds")


if __name__ == "__main__":
    main()
