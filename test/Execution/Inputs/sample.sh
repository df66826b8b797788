#!/usr/bin/env bash
# sample.sh MODEL TEMP: sampled ids over meshes, runs, seeds and filters.
set -euo pipefail
model=$1 temp=$2
prompt="35,27,23,17;35,27,23,17;9;1,40,3,3,3,7"
compile() { # MESH CHUNK
  heddle-compile "$model/config.json" --mesh "$1" --batch 4 --seq 48 \
    --chunk "$2" -o "$temp.$1.heddle"
}
ids() { # MESH OPTIONS
  local bundle=$temp.$1.heddle
  shift
  heddle-run "$bundle" --weights "$model" --poison --workers "${workers:-0}" \
    generate --tokens "$prompt" --max-new-tokens 40 "$@" 2>/dev/null
}
same() { # WHAT WANT GOT
  [[ $2 == "$3" ]] || { echo "$1: expected $2, got $3"; exit 1; }
}
different() {
  [[ $2 != "$3" ]] || { echo "$1: expected other ids, got $3 twice"; exit 1; }
}

sampled=(--temperature 0.8 --top-k 30 --top-p 0.95 --min-p 0.01 --seed 5)
compile tp=1 4
want=$(ids tp=1 "${sampled[@]}")
for mesh in tp=2 tp=3 dp=2,tp=2; do
  compile $mesh 4
  same $mesh "$want" "$(ids $mesh "${sampled[@]}")"
done
echo "tp=1 tp=2 tp=3 dp=2,tp=2: equal"

compile tp=2 3
same again "$want" "$(workers=5 ids tp=2 "${sampled[@]}")"
echo "run again, five workers, other chunks: equal"
different seed "$want" "$(ids tp=1 "${sampled[@]}" --seed 6)"
echo "another seed: differs"
IFS=";" read -r first second _ <<<"$want"
different sequences "$first" "$second"
echo "sequences of one prompt: differ"

greedy=$(ids tp=1)
different greedy "$want" "$greedy"
same temperature "$greedy" "$(ids tp=1 --temperature 0 --top-k 5 --seed 3)"
same top-k "$greedy" "$(ids tp=1 --temperature 1 --top-k 1)"
same top-p "$greedy" "$(ids tp=1 --temperature 1 --top-p 1e-6)"
same min-p "$greedy" "$(ids tp=3 --temperature 1 --min-p 1)"
echo "greedy: temperature 0, top-k 1, top-p 1e-6, min-p 1"

distinct() { tr ',;' '\n\n' <<<"$1" | sort -u | wc -l; }
few=$(distinct "$(ids tp=1 --temperature 0.01)")
many=$(distinct "$(ids tp=1 --temperature 100)")
((many > few)) || { echo "expected more than $few tokens, got $many"; exit 1; }
echo "higher temperature: more tokens"
