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
# shellcheck source=tests/bench/common.sh
source tests/bench/common.sh

build=${1:-build}
beside_torch train "$build" own 1 1 1 1 1 2 1

# Small models one after the other or side by side, each in its own lane: why a worker trains one at a time. Compiled
# for lanes of 64 bytes, which is level 2.
if [ -x "$build/tests/bench_together" ]; then
  printf '\nproducts of one step, one model after the other and 16 side by side\n'
  if [[ $("$build/tests/bench_train" own 1 1 1 1 1 2 1) == *'"lanes": 2'* ]]; then
    "$build/tests/bench_together" 8 16 24 32
  else
    echo 'left out: 16 models side by side take AVX-512, which this processor does not have'
  fi
fi
