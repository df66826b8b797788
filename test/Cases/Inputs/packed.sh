#!/usr/bin/env bash
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# packed.sh MODEL TEMP "MESH STRATEGY [LAYOUT]"…: documents of 5 and 11 tokens in
# one sequence; the outputs are TEMP.r0, TEMP.r1, …
set -euo pipefail
model=$1 temp=$2
shift 2
n=0
for ranks in "$@"; do
  read -r mesh strategy layout <<<"$ranks"
  heddle-compile "$model" --mesh "$mesh" ${strategy:+--strategy "$strategy"} \
    ${layout:+--layout "$layout"} --program forward --weights keep --seq 16 \
    --packed 11 -o "$temp.heddle"
  heddle-run "$temp.heddle" --weights "$model" --poison forward \
    --tokens 5,4,3,2,1,7,8,9,10,11,12,13,14,15,16,17 --documents 5,11 \
    --output "$temp.r$n"
  n=$((n + 1))
done
