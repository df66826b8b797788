#!/usr/bin/env bash
# check.sh CONFIGS: real configurations, shrunk, against the reference.
set -euo pipefail
configs=$1
for at in partition plan; do
  while read -r name options; do
    echo "$name $options"
    # shellcheck disable=SC2086
    heddle-check "$configs/$name.json" --shrink --at $at $options
  done <<'LIST'
llama-3.1-8b --mesh tp=4
llama-3.2-1b --mesh tp=3
qwen2-0.5b --mesh tp=2
qwen3-32b --mesh tp=4
mistral-7b-v0.1 --mesh tp=8
llama-3.1-8b --mesh dp=2,tp=3 --batch 2
qwen2-0.5b --mesh tp=5
qwen2-0.5b --mesh tp=3 --program forward --seq 13
llama-3.2-1b --mesh dp=3,tp=2 --batch 4
LIST
done
