#!/usr/bin/env bash
# stories260k.sh MODEL TEMP: the golden greedy ids on every mesh.
set -euo pipefail
model=$1 temp=$2 here=$(dirname "$0")
run() { # MESH BATCH TOKENS WORKERS
  echo "$1"
  heddle-compile "$model/config.json" --mesh "$1" --batch "$2" --seq 512 \
    -o "$temp.heddle"
  heddle-run "$temp.heddle" --weights "$model" --poison --workers "$4" \
    generate --tokens "$3" --max-new-tokens 200 >"$temp.ids"
  python3 "$here/compare_ids.py" "$temp.ids" "$model/golden.json" "$2"
}
for mesh in tp=1 tp=2 tp=3 tp=5 tp=8; do
  run $mesh 1 1 0
done
run dp=2,tp=3 2 "1;1" 5
