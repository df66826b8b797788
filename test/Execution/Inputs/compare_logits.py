# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares logits that heddle-run wrote with golden ones, in order.

Usage: compare_logits.py OUTPUT.safetensors logits.json
Golden numbers were computed by transformers (see test/Golden). Every element
must agree within 2e-5 of the largest magnitude: fp32 against fp32.
"""

import json
import struct
import sys


def flatten(value):
    if isinstance(value, list):
        for part in value:
            yield from flatten(part)
    else:
        yield value


def main():
    with open(sys.argv[1], "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
        begin, end = header["output"]["data_offsets"]
        data = file.read()[begin:end]
    got = struct.unpack("<%df" % (len(data) // 4), data)
    with open(sys.argv[2]) as file:
        want = list(flatten(json.load(file)))
    assert len(got) == len(want), (len(got), len(want))
    largest = max(abs(v) for v in want)
    worst = 0.0
    for i, (g, w) in enumerate(zip(got, want)):
        error = abs(g - w) / largest
        assert error <= 2e-5, "element %d: expected %r, got %r" % (i, w, g)
        worst = max(worst, error)
    print("equal: %d logits, largest difference %.1e" % (len(got), worst))


if __name__ == "__main__":
    main()
