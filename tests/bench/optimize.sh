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
# shellcheck source=tests/bench/common.sh
source tests/bench/common.sh

beside_torch optimize "${1:-build}" 1 1 1 1
