#!/usr/bin/env bash
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# forward.sh MODEL TOKENS MESH OUTPUT [OPTIONS OF heddle-run ...]: compiles and
# runs one pass, with fresh memory poisoned.
set -euo pipefail
model=$1 tokens=$2 mesh=$3 output=$4
first=${tokens%%;*} commas=${tokens//[!;]/}
words=${first//[!,]/}
heddle-compile "$model" --mesh "$mesh" --program forward --weights keep \
  --batch $((${#commas} + 1)) --seq $((${#words} + 1)) -o "$output.heddle"
heddle-run "$output.heddle" --weights "$model" --poison "${@:5}" forward \
  --tokens "$tokens" --output "$output"
