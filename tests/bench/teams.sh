#!/usr/bin/env bash
# Teams come and go: 20,000 of them, each with a BLACS grid, formed and freed in one process, with the time of each and
# what memory they left behind; and a mixed sweep of 1,000 small points and some 20 that need 2, 3 and 4 ranks, on 5 and on 8 ranks, compared bit
# for bit.
#
#   tests/bench/teams.sh [BUILD]      BUILD: folder of an optimised build with tests, default build
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/bench/common.sh
source tests/bench/common.sh

build=${1:-build}
if [ ! -x "$build/mhasweep" ] || [ ! -x "$build/tests/mpi_farm_teams" ]; then
  echo "${0##*/}: no mhasweep and tests in $build; build them first (cmake --preset release && cmake --build build)" >&2
  exit 2
fi
build=$(cd "$build" && pwd)
python=python3 # one that knows h5py
"$python" -c 'import h5py' 2>/dev/null || python=/usr/bin/python3
launch() { mpirun --oversubscribe --bind-to none -n "$@"; }

MHASWEEP_TEST_TEAMS=20000 launch 5 "$build/tests/mpi_farm_teams" 2>&1 | grep 'teams of 2'

cat >"$folder/mixed.yaml" <<'YAML'
experiment: probe
parameters:
  heads: [8, 16, 20, 24, 28, 32, 36, 40]
  dim: 16
  context: 8
  context_type: shared
  distribution: gaussian
  samples: [40, 400, 600, 800, 1000]
  solver: rrqr
where: "samples == 40 and heads == 8 or replicate < 1 and samples > 40"
replicates: 1000
limits: {memory_per_rank: 8MiB}
YAML
for ranks in 5 8; do
  launch $ranks "$build/mhasweep" run "$folder/mixed.yaml" -o "$folder/$ranks.h5" || [ $? = 75 ]
done
"$python" - "$folder/5.h5" "$folder/8.h5" <<'PYTHON'
import sys
import h5py, numpy
with h5py.File(sys.argv[1]) as five, h5py.File(sys.argv[2]) as eight:
    done = five["status"][:] == 2
    ranks, counts = numpy.unique(five["ranks"][:][done], return_counts=True)
    print("done on 5 ranks:", ", ".join(f"{c} points on {r}" for r, c in zip(ranks, counts)))
    different = [name for name in five if name not in ("attempts", "seconds", "hostname", "status", "error")
                 and isinstance(five[name], h5py.Dataset) and five[name].shape[:1] == done.shape
                 and five[name][:][done].tobytes() != eight[name][:][done].tobytes()]
    print("different bits on 8 ranks:", different or "none")
    sys.exit(bool(different))
PYTHON
