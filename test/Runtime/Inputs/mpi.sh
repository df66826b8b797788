#!/usr/bin/env bash
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# mpi.sh GOLDEN TMP: ranks in processes. See ../mpi.test.

set -uo pipefail
golden=$1 tmp=$2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpi() { timeout 300 mpirun --oversubscribe "$@"; }
rm -rf "$tmp"
mkdir -p "$tmp"

for n in 2 3; do
  if mpi -n $n HeddleMpiTests >"$tmp/cts.$n" 2>&1; then
    echo "conformance, $n processes: passed"
  else
    grep -aE "FAILED|Failure" "$tmp/cts.$n"
  fi
done

config=$golden/tiny-llama/config.json
heddle-compile "$config" --mesh tp=2 --seq 64 -o "$tmp/generate.heddle" || exit 1
heddle-compile "$config" --mesh tp=2 --seq 16 --program forward \
  -o "$tmp/forward.heddle" || exit 1
heddle-compile "$config" --mesh cp=3 --strategy "ring(cp)" --seq 31 \
  --program forward -o "$tmp/ring.heddle" || exit 1
weights=(--weights "$golden/tiny-llama")

run=("$tmp/generate.heddle" "${weights[@]}" generate --tokens 1,2,3
     --max-new-tokens 40)
for what in greedy sampled; do
  heddle-run "${run[@]}" >"$tmp/$what" 2>/dev/null
  mpi -n 2 heddle-run "${run[@]}" >"$tmp/$what.mpi" 2>/dev/null
  [[ -s $tmp/$what ]] && cmp "$tmp/$what" "$tmp/$what.mpi" &&
    echo "$what ids: the same"
  run+=(--temperature 0.8 --top-p 0.95 --seed 3)
done
cmp -s "$tmp/greedy" "$tmp/sampled" && echo "sampled ids: expected others"

run=("$tmp/forward.heddle" "${weights[@]}" forward --tokens 1,2,3 --output)
heddle-run "${run[@]}" "$tmp/logits" 2>/dev/null
mpi -n 2 heddle-run "${run[@]}" "$tmp/logits.mpi" 2>/dev/null
[[ -s $tmp/logits ]] && cmp "$tmp/logits" "$tmp/logits.mpi" &&
  echo "logits: the same"

# Transfers that the ranks do not wait for.
run=("$tmp/ring.heddle" "${weights[@]}" forward
     --tokens "$(seq -s, 1 31)" --output)
heddle-run "${run[@]}" "$tmp/ring" 2>/dev/null
mpi -n 3 heddle-run "${run[@]}" "$tmp/ring.mpi" 2>/dev/null
[[ -s $tmp/ring ]] && cmp "$tmp/ring" "$tmp/ring.mpi" && echo "ring: the same"

mpi -n 3 heddle-run "$tmp/generate.heddle" "${weights[@]}" bench \
  >"$tmp/size" 2>&1
echo "three processes for two ranks: status $?"
grep -a "heddle-run: error: rank 0" "$tmp/size" | head -n 1

# One process that an environment takes for one of two.
OMPI_COMM_WORLD_SIZE=2 heddle-run "$tmp/generate.heddle" "${weights[@]}" bench \
  >"$tmp/single" 2>&1
echo "one process for two: status $?"
grep -a "heddle-run: error" "$tmp/single" | head -n 1

# A rank that is killed takes the others with it.
cat >"$tmp/start.sh" <<'START'
echo $$ >"$1/pid.$OMPI_COMM_WORLD_RANK"
exec heddle-run "${@:2}"
START
mpi -n 2 bash "$tmp/start.sh" "$tmp" "$tmp/generate.heddle" "${weights[@]}" \
  bench --max-new-tokens 16 --repeat 1000000 >"$tmp/rounds" 2>"$tmp/killed" &
job=$!
for ((i = 0; i < 300; ++i)); do
  [[ -s $tmp/rounds ]] && break
  sleep 0.1
done
[[ -s $tmp/rounds ]] || sleep 5 # the output may be buffered
kill -9 "$(<"$tmp/pid.1")"
start=$(date +%s%N)
while kill -0 $job 2>/dev/null || kill -0 "$(<"$tmp/pid.0")" 2>/dev/null; do
  (($(date +%s%N) - start > 20000000000)) && break
  sleep 0.05
done
took=$((($(date +%s%N) - start) / 1000000))
((took < 5000)) && echo "killed: all gone within 5 s" ||
  echo "killed: all gone after $took ms"
wait $job
echo "killed: status $?"
grep -a "rank 1.*Killed" "$tmp/killed"
grep -a "heddle-run: error: rank 0" "$tmp/killed"
