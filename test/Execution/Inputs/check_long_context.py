# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks what a method's paper says against JSON reports of forward programs.

Usage: check_long_context.py CONFIG.json TOKENS METHOD DEGREE REPORT.json ...

METHOD is ring or ulysses; REPORT and DEGREE may repeat. fp32, one sequence, the
last token's logits.

ring (arXiv:2310.01889): n - 1 hops a layer; a hop sends a rank's keys and its
values, T/n * G * E * 4 bytes each, and the positions; nothing else is sent but
the last row. Activations and communication buffers fall as 1/n.

ulysses (arXiv:2309.14509): four all-to-alls a layer; of queries and results
T/n * H/n * E * 4 bytes go to each peer, of keys and values T/n * G/n * E * 4;
the positions are gathered once.
"""

import json
import sys


def main():
    with open(sys.argv[1]) as file:
        config = json.load(file)
    tokens, method = int(sys.argv[2]), sys.argv[3]
    layers, hidden = config["num_hidden_layers"], config["hidden_size"]
    heads, groups = (config["num_attention_heads"],
                     config["num_key_value_heads"])
    width = config.get("head_dim", hidden // heads)
    live = []
    for degree, path in zip(sys.argv[4::2], sys.argv[5::2]):
        n = int(degree)
        with open(path) as file:
            report = json.load(file)
        found = sorted((c["kind"], c["count"], c["bytes"])
                       for c in report["collectives"])
        part = tokens // n
        want = [("all_reduce", 1, hidden * 4)]
        if method == "ring":
            hops = layers * (n - 1)
            want += [("permute", 2 * hops,
                      2 * hops * part * groups * width * 4),
                     ("permute", hops, hops * part * 4)]
        else:
            keys, queries = (layers * part * h // n * width * 4
                             for h in (groups, heads))
            want += [("all_gather", 1, part * 4)]
            want += [("all_to_all", layers, b)
                     for b in (keys, keys, queries, queries)]
        assert found == sorted(want), (path, found, sorted(want))
        rank = report["ranks"][0]
        live.append((n, rank["activation_bytes"] + rank["communication_bytes"]))
    for (n, a), (m, b) in zip(live, live[1:]):
        assert method != "ring" or abs(a * n / (b * m) - 1) < 0.02, live
    print(f"{method}: {len(live)} reports hold")


if __name__ == "__main__":
    main()
