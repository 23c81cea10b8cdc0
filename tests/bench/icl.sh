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
# shellcheck source=tests/bench/common.sh
source tests/bench/common.sh

beside_torch icl "${1:-build}" float64 8 8 2 1 1
