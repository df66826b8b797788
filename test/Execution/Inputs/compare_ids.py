# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the last line of a run with golden greedy ids.

Usage: compare_ids.py RUN_OUTPUT golden.json [SEQUENCES]
"""

import json
import sys


def main():
    with open(sys.argv[1]) as file:
        line = file.read().splitlines()[-1]
    with open(sys.argv[2]) as file:
        want = json.load(file)["greedy_from_bos"]
    sequences = [[int(i) for i in part.split(",")] for part in line.split(";")]
    expected = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    assert len(sequences) == expected, len(sequences)
    for got in sequences:
        for position, (g, w) in enumerate(zip(got, want)):
            assert g == w, "position %d: expected %d, got %d" % (position, w, g)
        assert len(got) == len(want), (len(got), len(want))
    print("equal: %d x %d ids" % (len(sequences), len(want)))


if __name__ == "__main__":
    main()
