#!/usr/bin/env bash
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# roundtrip.sh TESTS GOLDEN TEMP: print, parse, print; the same by bytecode.
set -euo pipefail
tests=$1 golden=$2 temp=$3
rm -rf "$temp"
mkdir -p "$temp/parts"

# again FILE: FILE is text of one module that parses.
again() {
  heddle-opt "$1" -o "$temp/1.mlir"
  heddle-opt "$temp/1.mlir" -o "$temp/2.mlir"
  heddle-opt "$1" --emit-bytecode -o "$temp/1.mlirbc"
  heddle-opt "$temp/1.mlirbc" -o "$temp/3.mlir"
  cmp "$temp/1.mlir" "$temp/2.mlir"
  cmp "$temp/1.mlir" "$temp/3.mlir"
}

# The pieces of all files, with degrees in place of TP; tests of refusals hold
# pieces that do not parse.
number=0
while read -r file; do
  sed 's/\bTP\b/3/g' "$file" | awk -v base="$temp/parts/$number" '
    /^\/\/ -----|^\/\/---/ { ++n; next } { print > (base "." n + 0 ".mlir") }'
  number=$((number + 1))
done < <(find "$tests" -name '*.mlir' | sort)
count=0
for part in "$temp"/parts/*.mlir; do
  if heddle-opt "$part" -o /dev/null 2>/dev/null; then
    again "$part"
    count=$((count + 1))
  elif [[ $? -gt 1 ]]; then
    echo "$part: expected status 0 or 1"
    exit 1
  fi
done
echo "programs that parse: $count, all the same again"

phases=(annotate partition schedule plan)
for phase in "${phases[@]}"; do
  heddle-compile "$golden/tiny-qwen3" --mesh dp=2,tp=3 --batch 2 --seq 16 \
    --compile-to "$phase" >"$temp/phase.mlir"
  again "$temp/phase.mlir"
done
echo "phases: ${phases[*]}: the same again"
