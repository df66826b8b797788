#!/usr/bin/env bash
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# planted.sh MODEL TEMP: for each bug, whether heddle-check finds it, on the
# reference's simulated ranks and on the bundle.
set -uo pipefail
model=$1 temp=$2 here=$(dirname "$0")
options=(--mesh tp=2 --seq 24 --chunk 7 --block-size 5 --weights f32 --batch 2)
heddle-compile "$model" "${options[@]}" --compile-to partition \
  >"$temp.mlir" || exit 1
for bug in none missing-reduce bias-per-rank dropped-tail stale-slot \
  lost-mask unrotated-keys; do
  python3 "$here/plant.py" $bug <"$temp.mlir" >"$temp.$bug.mlir" || exit 1
  for at in partition plan; do
    heddle-check "$model" "${options[@]}" --local "$temp.$bug.mlir" --at $at \
      >"$temp.log" 2>&1
    echo "$bug at $at: status $?, $(head -n 1 "$temp.log")"
  done
done
