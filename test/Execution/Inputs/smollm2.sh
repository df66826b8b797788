#!/usr/bin/env bash
# smollm2.sh MODEL GOLDEN TEMP: greedy ids of a real model on every mesh.
set -euo pipefail
model=$1 golden=$2/smollm2-135m-instruct.json temp=$3 here=$(dirname "$0")
run() { # NAME PROMPTS COMMAND…
  echo -n "$1: "
  python3 "$here/compare_golden.py" "$golden" "$2" "$temp.ids" -- "${@:3}" \
    --weights "$model" --poison generate
}
for tp in 1 2 3 4; do
  heddle-compile "$model" --mesh tp=$tp --seq 256 --chunk 64 \
    -o "$temp.$tp.heddle"
  run tp=$tp $((tp == 1 ? 3 : 1)) heddle-run "$temp.$tp.heddle"
done
if command -v mpirun >/dev/null; then
  run "tp=3, processes" 1 mpirun -n 3 heddle-run "$temp.3.heddle" --comm mpi
else
  echo "tp=3, processes: no mpirun"
fi
heddle-run "$temp.3.heddle" --weights random:7 bench --prompt-tokens 16 \
  --max-new-tokens 4 2>&1 | grep -c "^round" | sed "s/^/rounds with drawn weights: /"
rm -f "$temp".*.heddle
