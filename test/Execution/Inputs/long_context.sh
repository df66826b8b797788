#!/usr/bin/env bash
# long_context.sh CONFIG TEMP: reports of long forward programs, see
# check_long_context.py.
set -euo pipefail
config=$1 temp=$2 here=$(dirname "$0")
tokens=8192
report() { # NAME MESH STRATEGY
  heddle-compile "$config" --mesh "$2" --strategy "$3" --program forward \
    --seq $tokens --output last --report json >"$temp.$1.json"
}
for n in 2 4 8; do report ring.$n cp=$n "ring(cp);chunk(64)"; done
python3 "$here/check_long_context.py" "$config" $tokens ring \
  2 "$temp.ring.2.json" 4 "$temp.ring.4.json" 8 "$temp.ring.8.json"
for n in 2 4; do report ulysses.$n sp=$n "ulysses(sp);chunk(64)"; done
python3 "$here/check_long_context.py" "$config" $tokens ulysses \
  2 "$temp.ulysses.2.json" 4 "$temp.ulysses.4.json"
