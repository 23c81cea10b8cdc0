#!/usr/bin/env bash
# What a point costs when its own work is nothing: 100,000 trivial points on 2 ranks (a master and a worker), from the
# launch to the closed file, and the peak memory of each rank, which 10 times the points must not raise. Beside it, on
# the same machine in the same minutes, two ways that keep no file: a bare MPI master and worker that exchange one
# message a task, and Python's multiprocessing.Pool.
#
#   tests/bench/points.sh [BUILD]      BUILD: folder of an optimised build, default build
#
# The best of RUNS (default 3) counts: noise only ever adds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/bench/common.sh
source tests/bench/common.sh

build=${1:-build} runs=${RUNS:-3}
need "$build/mhasweep"
build=$(cd "$build" && pwd)
launcher=(mpirun -n 2 --oversubscribe --bind-to none)

cat >"$folder/points.yaml" <<'YAML'
experiment: probe
parameters: {heads: 1, dim: 2, context: 1, samples: 1}
replicates: 100000
YAML

# Starts a rank, and writes the peak of its resident memory (KiB) to peak.RANK.
cat >"$folder/peak.py" <<'PYTHON'
import os, resource, subprocess, sys
status = subprocess.call(sys.argv[2:])
with open(f"{sys.argv[1]}/peak.{os.environ['OMPI_COMM_WORLD_RANK']}", "w") as out:
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=out)
sys.exit(status)
PYTHON

cat >"$folder/pool.py" <<'PYTHON'
import multiprocessing, sys
def task(number):
    return number
if __name__ == "__main__":
    count = int(sys.argv[1])
    with multiprocessing.Pool(1) as pool:
        assert sum(1 for _ in pool.imap(task, range(count))) == count
PYTHON

cat >"$folder/exchange.c" <<'C'
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  char result[256] = {0};
  int rank, count = argc > 1 ? atoi(argv[1]) : 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int task = 0; task < count; task++) {
    if (rank == 0) {
      MPI_Send(&task, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
      MPI_Recv(result, sizeof result, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(&task, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(result, sizeof result, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
  }
  return MPI_Finalize();
}
C
mpicc -O2 -o "$folder/exchange" "$folder/exchange.c"

# best COMMAND...: the least wall time of $runs runs, in microseconds.
best() {
  local least='' began took
  for ((run = 0; run < runs; run++)); do
    rm -f "$folder/points.h5"
    began=$(date +%s%N)
    "$@" >"$folder/log" 2>&1 || { cat "$folder/log" >&2; echo "${0##*/}: '$*' failed" >&2; exit 1; }
    took=$((($(date +%s%N) - began) / 1000))
    if [ -z "$least" ] || [ "$took" -lt "$least" ]; then
      least=$took
    fi
  done
  echo "$least"
}
# sweep POINTS
sweep() {
  best "${launcher[@]}" python3 "$folder/peak.py" "$folder" "$build/mhasweep" run "$folder/points.yaml" \
    -o "$folder/points.h5" --set "replicates=$1" --quiet
}
# row WHAT MICROSECONDS COUNT
row() {
  awk -v what="$1" -v us="$2" -v n="$3" 'BEGIN { printf "%-44s %8.2f s %9.2f us a point\n", what, us / 1e6, us / n }'
}

small=$(sweep 10000)
small_master=$(cat "$folder/peak.0") small_worker=$(cat "$folder/peak.1")
large=$(sweep 100000)
row "mhasweep, 10,000 points, 2 ranks" "$small" 10000
row "mhasweep, 100,000 points, 2 ranks" "$large" 100000
row "  of them beyond the first 10,000" $((large - small)) 90000
printf 'peak memory: master %d MiB at 10,000, %d MiB at 100,000; worker %d MiB, %d MiB\n' \
  $((small_master / 1024)) $(($(cat "$folder/peak.0") / 1024)) \
  $((small_worker / 1024)) $(($(cat "$folder/peak.1") / 1024))

exchange=$(best "${launcher[@]}" "$folder/exchange" 100000)
pool=$(best python3 "$folder/pool.py" 100000)
row "bare MPI exchange, 100,000 tasks, no file" "$exchange" 100000
row "Python multiprocessing.Pool(1).imap, no file" "$pool" 100000
awk -v us="$large" -v mpi="$exchange" -v pool="$pool" \
  'BEGIN { printf "mhasweep takes %.2f times the bare exchange, %.2f times Pool.imap\n", us / mpi, us / pool }'
