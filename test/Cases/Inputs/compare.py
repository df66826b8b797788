# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""compare.py TOLERANCE WANT.safetensors GOT.safetensors ...

Outputs of `heddle-run forward`, element by element, in order. Every element
must be within TOLERANCE of the largest magnitude; 0 asks for the same bits.
Prints the width of the last dimension. A file may be A+B: outputs of one
sequence each, one after the other.
"""

import json
import struct
import sys


def read(path):
    parts = [read_one(part) for part in path.split("+")]
    batch, _, *rest = parts[0][0]
    assert batch == 1 or len(parts) == 1, f"{path}: expected one sequence"
    return ([batch, sum(shape[1] for shape, _ in parts), *rest],
            b"".join(data for _, data in parts))


def read_one(path):
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        entry = json.loads(file.read(length))["output"]
        begin, end = entry["data_offsets"]
        return entry["shape"], file.read()[begin:end]


def main():
    tolerance, want = float(sys.argv[1]), sys.argv[2]
    shape, raw = read(want)
    numbers = struct.unpack(f"<{len(raw) // 4}f", raw)
    largest = max(map(abs, numbers))
    assert largest > 0, f"{want} holds zeros"
    for path in sys.argv[3:]:
        other_shape, other = read(path)
        if other_shape != shape:
            sys.exit(f"{path}: expected shape {shape}, got {other_shape}")
        if tolerance == 0:
            if raw != other:
                sys.exit(f"{path}: expected the bits of {want}, got others")
            continue
        for i, (w, g) in enumerate(zip(numbers, struct.unpack(
                f"<{len(other) // 4}f", other))):
            if not abs(w - g) <= tolerance * largest:
                sys.exit(f"{path}: element {i}: expected {w}, got {g}")
    print(f"equal, width {shape[-1]}")


if __name__ == "__main__":
    main()
