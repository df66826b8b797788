# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints a tokens.json as heddle-run takes it: 1,2,3;4,5,6."""

import json
import sys

with open(sys.argv[1]) as file:
    print(";".join(",".join(map(str, row)) for row in json.load(file)))
