#!/usr/bin/env bash
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# probe.sh MODEL TEMP "MESH STRATEGY [LAYOUT]"…: which positions of 32 tokens give
# another output if the first token is another one.
set -euo pipefail
model=$1 temp=$2 here=$(dirname "$0")
shift 2
rest=$(seq -s, 2 32)
for ranks in "$@"; do
  read -r mesh strategy layout <<<"$ranks"
  heddle-compile "$model" --mesh "$mesh" ${strategy:+--strategy "$strategy"} \
    ${layout:+--layout "$layout"} --program forward --weights keep --seq 32 \
    -o "$temp.heddle"
  for first in 1 77; do
    heddle-run "$temp.heddle" --weights "$model" --poison forward \
      --tokens "$first,$rest" --output "$temp.$first"
  done
  python3 "$here/moved.py" "$temp.1" "$temp.77"
done
