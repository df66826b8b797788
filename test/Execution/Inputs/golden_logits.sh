#!/usr/bin/env bash
# golden_logits.sh GOLDEN TEMP: every family on every mesh against its logits.
set -euo pipefail
golden=$1 temp=$2 here=$(dirname "$0")
for family in llama qwen2 qwen3 mistral; do
  model=$golden/tiny-$family
  tokens=$(python3 "$here/tokens.py" "$model/tokens.json")
  commas=${tokens%%;*}
  commas=${commas//[!,]/}
  seq=$((${#commas} + 1))
  for mesh in tp=1 tp=2 tp=3 tp=5 dp=2,tp=2; do
    echo "$family $mesh"
    heddle-compile "$model/config.json" --mesh $mesh --program forward \
      --batch 2 --seq $seq --weights f32 -o "$temp.heddle"
    heddle-run "$temp.heddle" --weights "$model" --poison forward \
      --tokens "$tokens" --output "$temp.safetensors"
    python3 "$here/compare_logits.py" "$temp.safetensors" "$model/logits.json"
  done
done
