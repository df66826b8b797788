#!/usr/bin/env bash
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# uneven.sh TEMP: sizes that hardly anything divides, on every degree, against
# the reference.
set -euo pipefail
temp=$1 here=$(dirname "$0")
while read -r name keys; do
  # shellcheck disable=SC2086
  python3 "$here/../../Cases/Inputs/model.py" config "$temp.$name.json" $keys
  for tp in 1 2 3 4 5 8; do
    for at in partition plan; do
      echo -n "$name tp=$tp "
      heddle-check "$temp.$name.json" --mesh tp=$tp --at $at --seq 20 --chunk 6
    done
  done
done <<'LIST'
kv5 hidden_size=21 num_attention_heads=5 num_key_value_heads=5 head_dim=6 intermediate_size=13 vocab_size=53
kv3 hidden_size=27 num_attention_heads=9 num_key_value_heads=3 head_dim=4 intermediate_size=37 vocab_size=101 tie_word_embeddings=true
kv1 hidden_size=17 num_attention_heads=7 num_key_value_heads=1 head_dim=2 intermediate_size=11 vocab_size=31 attention_bias=true mlp_bias=true
LIST
