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
# A cache over ranks: a long prompt, and its end, as one rank has it.
ids=$(python3 -c 'import json, sys
prompt = json.load(open(sys.argv[1]))["runs"][0]["prompt"]
print(*(prompt * 60)[:1500], sep=",")' "$golden")
for mesh in tp=1 cp=2 cp=2,tp=3; do
  heddle-compile "$model" --mesh $mesh --seq 1536 -o "$temp.cp.heddle"
  heddle-run "$temp.cp.heddle" --weights "$model" --poison generate \
    --tokens "$ids" --max-new-tokens 24 2>/dev/null | tail -n 1 >"$temp.$mesh"
  [[ -s $temp.$mesh ]] && cmp "$temp.tp=1" "$temp.$mesh" &&
    echo "$mesh: 1500 tokens, $(tr ',' '\n' <"$temp.$mesh" | wc -l) ids"
done
heddle-run "$temp.3.heddle" --weights random:7 bench --prompt-tokens 16 \
  --max-new-tokens 4 2>&1 | grep -c "^round" | sed "s/^/rounds with drawn weights: /"
rm -f "$temp".*.heddle
