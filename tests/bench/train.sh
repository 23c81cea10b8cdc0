#!/usr/bin/env bash
# What a training step of the memorization paper's model costs: forward, backward and Adam, in CPU time on one core, the
# best of several rounds, beside PyTorch in the same run with the same OPENBLAS_CORETYPE:
#
#   paper         the model as the paper describes it: all n + 1 queries, keys projected, a shared context repeated
#   single query  only the query whose output is used; W_K folded into it; a shared context embedded and projected once
#   same order    the order of products that mhasweep takes, written with PyTorch's operations
#   many models   small shapes: 32 models at once, by batched products written by hand and by functorch's vmap
#
# Before times, losses of 50 steps from equal parameters and batches are compared with PyTorch's.
#
#   tests/bench/train.sh [BUILD]     BUILD: folder of an optimised build with tests, default build
#
# QUICK=1 leaves the paper's formulation out, which takes seconds a step. Without PyTorch (Debian: python3-torch) the
# table has our times alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=${1:-build}
program=$build/tests/bench_train
if [ ! -x "$program" ]; then
  echo "${0##*/}: no $program; build it first (cmake --preset release && cmake --build build)" >&2
  exit 2
fi
python=$(command -v /usr/bin/python3 || command -v python3) # Debian's has torch
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
core=$("$program" own 1 1 1 1 1 2 1 | sed -n 's/.*"blas": "\([^"]*\)".*/\1/p') # what mhasweep would run with, too
export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-$core}
"$python" tests/bench/train.py "$program" "$folder"

# Small models one after the other or side by side, each in its own lane: why a worker trains one at a time.
if [ -x "$build/tests/bench_together" ]; then
  printf '\nproducts of one step, one model after the other and 16 side by side\n'
  "$build/tests/bench_together" 8 16 24 32
fi
