#!/usr/bin/env bash
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# messages.sh CONFIG MODEL TEMP: wrong uses, and what each message must hold.
set -uo pipefail
config=$1 model=$2 temp=$3 here=$(dirname "$0") count=0
heddle-compile "$config" --mesh tp=2 --seq 16 -o "$temp.heddle" || exit 1

# wrong "WORDS THAT MUST BE THERE" COMMAND…
wrong() {
  local words=$1 log status lines word
  log=$("${@:2}" 2>&1 >/dev/null)
  status=$?
  lines=$(wc -l <<<"$log")
  if ((status != 1 || lines > 4)); then
    echo "${*:2}: expected status 1 and 1 to 4 lines, got $status and $lines:"
    echo "$log"
    exit 1
  fi
  for word in $words; do
    if ! grep -qF -- "$word" <<<"$log"; then
      echo "${*:2}: expected '$word' in: $log"
      exit 1
    fi
  done
  if grep -qE "::|0x[0-9a-f]{6}|Assertion|Stack dump|<unknown>" <<<"$log"; then
    echo "${*:2}: expected words for users, got: $log"
    exit 1
  fi
  count=$((count + 1))
}
# bad "WORDS" KEY=VALUE… [-- OPTIONS]: a description.
bad() {
  local words=$1 keys=()
  shift
  while (($#)) && [[ $1 != -- ]]; do
    keys+=("$1")
    shift
  done
  python3 "$here/model.py" config "$temp.json" "${keys[@]}"
  wrong "$words" heddle-compile "$temp.json" "${@:2}"
}
strict=(-- --mesh tp=3 --strict-divisibility)
bad "num_attention_heads 5 2 degrees" num_attention_heads=5 head_dim=8 \
  num_key_value_heads=1 hidden_size=32 -- --mesh tp=2 --strict-divisibility
bad "vocab_size 97 3 degrees" vocab_size=97 num_attention_heads=3 head_dim=8 \
  num_key_value_heads=3 intermediate_size=6 "${strict[@]}"
bad "intermediate_size 64 3 degrees" num_attention_heads=3 head_dim=8 \
  num_key_value_heads=3 "${strict[@]}"
bad "--batch 3 2 degrees" -- --mesh dp=2 --batch 3 --strict-divisibility
bad "hidden_size num_attention_heads 12 64 head_dim" hidden_size=64 \
  num_attention_heads=12 num_key_value_heads=12
bad "num_attention_heads num_key_value_heads 3 4" num_key_value_heads=3
bad "model_type llama mistral gpt9" model_type=gpt9
bad "vocab_size whole number -1" vocab_size=-1
bad "num_attention_heads q_proj 32 tp degrees" -- --mesh tp=2 --weights q8_0 \
  --strict-divisibility
wrong "zz default tensor(axis)" heddle-compile "$config" --mesh zz=2
wrong "twice tp" heddle-compile "$config" --mesh tp=2,tp=2
wrong "1024 bytes per rank" heddle-compile "$config" --mesh tp=2 \
  --memory-budget 1KiB
run=(heddle-run "$temp.heddle" --weights)
wrong "--tokens vocabulary 96 99" "${run[@]}" "$model" generate --tokens 99
wrong "--seq 16 1 99" "${run[@]}" "$model" generate --tokens 1 \
  --max-new-tokens 99
wrong "$temp.none such" "${run[@]}" "$temp.none" generate --tokens 1
wrong "header 4096 bytes" heddle-run "$config" --weights "$model" bench
echo "$count messages hold"
