#!/usr/bin/env bash
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# planted.sh MODEL TEMP BUG… -- OPTIONS: for each bug, whether heddle-check finds
# it, on the reference's simulated ranks and on the bundle.
set -uo pipefail
model=$1 temp=$2 here=$(dirname "$0")
shift 2
bugs=()
while [[ $1 != -- ]]; do
  bugs+=("$1")
  shift
done
shift
heddle-compile "$model" "$@" --compile-to partition >"$temp.mlir" || exit 1
for bug in "${bugs[@]}"; do
  python3 "$here/plant.py" "$bug" <"$temp.mlir" >"$temp.$bug.mlir" || exit 1
  for at in partition plan; do
    heddle-check "$model" "$@" --local "$temp.$bug.mlir" --at $at \
      >"$temp.log" 2>&1
    echo "$bug at $at: status $?, $(head -n 1 "$temp.log")"
  done
done
