#!/usr/bin/env bash
# check.sh CONFIGS LIST: real configurations, shrunk, against the reference. Each
# line of LIST is a configuration and options; '#' begins a comment.
set -euo pipefail
configs=$1 list=$2
for at in partition plan; do
  while read -r -a words; do
    [ "${#words[@]}" -gt 0 ] && [ "${words[0]}" != "#" ] || continue
    echo "${words[*]}"
    heddle-check "$configs/${words[0]}.json" --shrink --at $at "${words[@]:1}"
  done <"$list"
done
