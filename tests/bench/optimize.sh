#!/usr/bin/env bash
# What one iteration of gradient descent of the experiment optimize costs, and one product with the Hessian, in CPU time
# on one core, beside PyTorch's autograd in float64, in the same run with the same OPENBLAS_CORETYPE. The two take turns,
# and of each the best round counts. Before times, gradients and products are compared.
#
#   einsum   the model as its formula is written, with torch.einsum
#   matmul   the same with broadcast torch.matmul
#
#   tests/bench/optimize.sh [BUILD]     BUILD: folder of an optimised build with tests, default build
#
# Needs PyTorch (Debian: python3-torch).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=${1:-build}
program=$build/tests/bench_optimize
if [ ! -x "$program" ]; then
  echo "${0##*/}: no $program; build it first (cmake --preset release && cmake --build build)" >&2
  exit 2
fi
python=$(command -v /usr/bin/python3 || command -v python3) # Debian's has torch
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
core=$("$program" 1 1 1 1 | sed -n 's/.*"blas": "\([^"]*\)".*/\1/p') # what mhasweep would run with, too
export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-$core}
"$python" tests/bench/optimize.py "$program" "$folder"
