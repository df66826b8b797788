#!/usr/bin/env bash
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check.sh MODEL "MESHES" [OPTIONS OF heddle-check ...]: equal to the float64
# reference after partition and as a bundle, on every mesh.
set -euo pipefail
for mesh in $2; do
  for at in partition plan; do
    echo -n "$mesh "
    heddle-check "$1" --mesh "$mesh" --at $at "${@:3}"
  done
done
