# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""moved.py A.safetensors B.safetensors: rows of the outputs that differ in a bit."""

import sys

from compare import read


def main():
    (shape, one), (_, other) = read(sys.argv[1]), read(sys.argv[2])
    row = len(one) // shape[1]
    moved = [str(i) for i in range(shape[1])
             if one[i * row:(i + 1) * row] != other[i * row:(i + 1) * row]]
    print("positions that move:", " ".join(moved))


if __name__ == "__main__":
    main()
