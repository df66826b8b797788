# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Completion of Heddle's command lines in bash, from what --help says:
#
#   source tools/completion.bash
#
# Options, the values of options that have a list of them, subcommands, files.

_heddle() {
  local program=$1 word=$2 previous=$3 help values
  COMPREPLY=()
  help=$("$program" --help 2>/dev/null) || return
  # An option with a list of values: "--target TEXT:{cpu,cuda}".
  values=$(sed -nE "s/^ *(-[a-z],)?${previous} [A-Z]+:\{([^}]*)\}.*/\2/p" \
    <<<"$help" | tr ',' '\n')
  if [[ $previous == --* && -n $values ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
  elif [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W \
      "$(grep -oE -- '(^|[ ,])--?[A-Za-z][-A-Za-z0-9]*' <<<"$help" |
        tr -d ' ,' | sort -u)" -- "$word")
  else
    mapfile -t COMPREPLY < <(
      compgen -W "$(sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p' \
        <<<"$help")" -- "$word"
      compgen -f -- "$word"
    )
  fi
}

complete -o filenames -F _heddle heddle-compile heddle-run heddle-check \
  heddle-opt heddle-reduce
