#!/usr/bin/env bash
# Rank and least squares (100 right-hand sides) of a square matrix, beside the routines that people use today, all in one
# run: PDGEMM (the machine's speed), PDGEQRF (no pivots), PDGEQPF and PDGESVD on a team; LAPACK's DGELSD and DGELSY and
# numpy.linalg.matrix_rank on one process with as many BLAS threads as the team has ranks.
#
#   tests/bench/rank.sh [SIZE [BUILD]]      SIZE: default 2000; BUILD: folder of an optimised build, default build
#
# RANKS (default 2) is the team. SMALL (default SIZE, at most 2000) is the size for what takes ten times as long as the
# rest: the singular value decompositions. The fastest of ROUNDS (default 2) counts: noise only ever adds.
# POINT=16000 makes two points of that size at last (features with own and with shared contexts, their rank, fit and
# residual; a multiple of 64) and says what memory each took.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/bench/common.sh
source tests/bench/common.sh

size=${1:-2000} build=${2:-build} ranks=${RANKS:-2} rounds=${ROUNDS:-2}
small=${SMALL:-$((size < 2000 ? size : 2000))}
program=$build/tests/bench_rank
need "$program"
lines=$folder/lines

team() { OPENBLAS_NUM_THREADS=1 mpirun -n "$ranks" --oversubscribe --bind-to none "$program" "$@" | tee -a "$lines"; }
alone() { OPENBLAS_NUM_THREADS=$ranks mpirun -n 1 --bind-to none "$program" "$@" | tee -a "$lines"; }

# The kernels that the program chooses for itself, for numpy too.
OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-$("$program" 1 1 core)}
export OPENBLAS_CORETYPE
echo "$OPENBLAS_CORETYPE kernels, team of $ranks, load $(cut -d' ' -f1 /proc/loadavg)"
team "$size" "$rounds" pdgemm pdgeqrf rank rank+fit
team "$size" 1 pdgeqpf
[ "$small" = "$size" ] || team "$small" "$rounds" pdgeqrf rank rank+fit
team "$small" 1 pdgesvd
echo "one process, $ranks BLAS threads"
alone "$small" 1 dgeqrf dgeqp3 dgelsy dgelsd
python=/usr/bin/python3 # Debian's, which the packages are for
[ -x "$python" ] || python=python3
OPENBLAS_NUM_THREADS=$ranks "$python" - "$small" <<'PYTHON' | tee -a "$lines"
import sys, time
import numpy
size = int(sys.argv[1])
a = numpy.random.default_rng(1).standard_normal((size, size))
start = time.perf_counter()
numpy.linalg.matrix_rank(a)
seconds = time.perf_counter() - start
print(f"{'numpy':<9} {size:6} {seconds:9.3f} s {4 / 3 * size**3 / seconds * 1e-9:7.1f} GF/s")
PYTHON

# Ratios of the fastest lines of a name and size.
awk -v size="$size" -v small="$small" '
  NF == 6 && $4 == "s" { key = $1 " " $2; if (!(key in best) || $3 < best[key]) best[key] = $3 }
  function ratio(a, b, n) {
    if ((a " " n) in best && (b " " n) in best) {
      printf "%-9s / %-9s %6d %8.2f\n", a, b, n, best[a " " n] / best[b " " n]
    }
  }
  END {
    print "ratios of time"
    ratio("rank", "pdgeqrf", size); ratio("rank+fit", "pdgeqrf", size); ratio("pdgeqpf", "rank", size)
    ratio("pdgesvd", "rank", small); ratio("numpy", "rank", small)
    ratio("dgelsy", "rank+fit", small); ratio("dgelsd", "rank+fit", small)
    gemm = 2 * size ^ 3 / best["pdgemm " size]
    printf "share of the speed of PDGEMM: rank %.0f %%, pdgeqrf %.0f %%\n",
      100 * 4 / 3 * size ^ 3 / best["rank " size] / gemm, 100 * 4 / 3 * size ^ 3 / best["pdgeqrf " size] / gemm
  }' "$lines"
[ -z "${POINT:-}" ] || { team "$POINT" 1 own; team "$POINT" 1 shared; }
