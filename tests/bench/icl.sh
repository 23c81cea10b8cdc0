#!/usr/bin/env bash
# What a step of mean-field in-context learning costs (icl, model: static): the MLP on N tokens, the k x k algebra, the
# gradient, the move; in CPU time on one core, the best of several rounds, in turns with PyTorch with the same
# OPENBLAS_CORETYPE: by autograd, and with the gradient written by hand. Before times, the losses of 20 steps from equal
# tokens and neurons are compared with PyTorch's.
#
#   tests/bench/icl.sh [BUILD]     BUILD: folder of an optimised build with tests, default build
#
# Without PyTorch (Debian: python3-torch) the table has our times alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=${1:-build}
program=$build/tests/bench_icl
if [ ! -x "$program" ]; then
  echo "${0##*/}: no $program; build it first (cmake --preset release && cmake --build build)" >&2
  exit 2
fi
python=$(command -v /usr/bin/python3 || command -v python3) # Debian's has torch
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
core=$("$program" float64 8 8 2 1 1 | sed -n 's/.*"blas": "\([^"]*\)".*/\1/p') # what mhasweep would run with, too
export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-$core}
"$python" tests/bench/icl.py "$program" "$folder"
