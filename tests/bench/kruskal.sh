#!/usr/bin/env bash
# What the Kruskal curve costs: 5000 random orders of 2000 queries of dim 128, every k up to 128 from one factorization
# each, against the usual way, the singular values of 5000 random k-subsets for every k (numpy.linalg.matrix_rank on
# float32, as the memorization paper's notebooks do in torch). Same queries, same machine, same run, one thread, same
# BLAS core.
#
#   tests/bench/kruskal.sh [BUILD]     BUILD: folder of an optimised build, default build
#
# The usual way is timed on SUBSETS (default 10) subsets for every k and multiplied up, since all of it takes minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/bench/common.sh
source tests/bench/common.sh

build=${1:-build} subsets=${SUBSETS:-10}
need "$build/mhasweep"
python=$(command -v /usr/bin/python3 || command -v python3) # Debian's has h5py and numpy
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

cat >"$folder/curve.yaml" <<'YAML'
experiment: assumptions
parameters: {dim: 128, context: 1, samples: 2000, orders: 5000, anchors: [0, 2000]}
store: [curves, data]
YAML
"$build/mhasweep" run "$folder/curve.yaml" -o "$folder/curve.h5" --quiet

core=$("$python" -c 'import h5py, sys; print(h5py.File(sys.argv[1]).attrs["blas_core"])' "$folder/curve.h5")
OPENBLAS_CORETYPE=$core "$python" - "$folder/curve.h5" "$subsets" <<'PYTHON'
import sys, time
import h5py, numpy

path, subsets = sys.argv[1], int(sys.argv[2])
with h5py.File(path) as file:
    seconds = file["seconds"][:]
    share = file["curve_share"][0]
    orders = int(file["orders"][0])
    queries = file["stored/0/e"][:].astype(numpy.float32)
    core = file.attrs["blas_core"]
generator = numpy.random.default_rng(0)
dim = queries.shape[1]
numpy.linalg.matrix_rank(queries[:dim])  # start the library
began = time.perf_counter()
theirs = [numpy.mean([numpy.linalg.matrix_rank(queries[generator.permutation(len(queries))[:k]]) == k
                      for _ in range(subsets)]) for k in range(1, dim + 1)]
took = (time.perf_counter() - began) * orders / subsets
assert numpy.abs(numpy.array(theirs) - share).max() <= 5 * (0.5 / subsets) ** 0.5, "the curves differ"
with open("/proc/self/maps") as maps:
    blas = sorted({line.split()[-1] for line in maps if "blas" in line})
print(f"BLAS core {core}, one thread; numpy uses {', '.join(blas)}")
print(f"mhasweep, curve of {orders} orders, every k to {dim}    {seconds[0]:9.2f} s")
print(f"  with the search for dependent subsets        {seconds[1]:9.2f} s")
print(f"numpy, {orders} subsets for every k to {dim}          {took:9.2f} s (from {subsets} each)")
print(f"ratio {took / seconds[0]:.0f}, with the search {took / seconds[1]:.0f}")
PYTHON
