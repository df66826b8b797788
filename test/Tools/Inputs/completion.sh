#!/usr/bin/env bash
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# completion.sh COMPLETION GOLDEN: what words complete to. See ../completion.test.

source "$1"
cd "$2" || exit 1
try() {
  local what=$1
  shift
  _heddle "$@"
  echo "$what: ${COMPREPLY[*]}"
}
try options heddle-compile --me ""
try values heddle-compile "" --weights
try value heddle-compile q --activations
try subcommand heddle-run be ""
try file heddle-compile tiny-q ""
try pass heddle-opt --heddle-part ""
