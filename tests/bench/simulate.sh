#!/usr/bin/env bash
# Does mhasweep simulate tell the truth? It is given the rate of the points of one sweep, run on 4 ranks on this machine,
# and predicts the makespan of another one on 4 ranks, which is then run; and again with the rate that the points had in
# that very run, so that it does not matter what else the machine did meanwhile. Then the numbers that no machine here
# can run: 10,000 ranks and a million points, 100,000 ranks and ten million.
#
#   tests/bench/simulate.sh [BUILD]      BUILD: folder of an optimised build, default build
#
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/bench/common.sh
source tests/bench/common.sh

build=${1:-build}
need "$build/mhasweep"
mhasweep=$(cd "$build" && pwd)/mhasweep
python=python3 # one that knows h5py
"$python" -c 'import h5py' 2>/dev/null || python=/usr/bin/python3

sweep() { # NAME HEADS SAMPLES SEED
  cat >"$folder/$1.yaml" <<YAML
experiment: memorize
seed: $4
parameters: {heads: $2, dim: 32, context: 16, samples: $3, classes: 20, steps: 200, eval_every: 100, early_stop: false}
replicates: 6
YAML
}
sweep known '[2, 5, 9, 14]' '[300, 700, 1500]' 1
sweep other '[1, 3, 4, 6, 8, 12, 16]' '[200, 400, 1000, 2000]' 2

cat >"$folder/measure.py" <<'PYTHON'
import sys
import h5py, numpy
with h5py.File(sys.argv[1]) as file:
    flops, seconds = file["flops"][:], file["seconds"][:]
rate = flops.sum() / seconds.sum()
spread = numpy.std(numpy.log(seconds * rate / flops))
print(f"{rate:.6g} {spread:.3f}")
PYTHON

run() { # NAME
  mpirun -n 4 --oversubscribe --bind-to none "$mhasweep" run "$folder/$1.yaml" -o "$folder/$1.h5" 2>"$folder/log" ||
    { cat "$folder/log" >&2; exit 1; }
}
seconds() { # COMMAND...
  local began
  began=$(date +%s%N)
  "$@"
  awk -v ns=$(($(date +%s%N) - began)) 'BEGIN { print ns / 1e9 }'
}
number() { # KEY, of JSON on stdin
  "$python" -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

predict() { # RATE SPREAD: the makespan of the other sweep
  "$mhasweep" simulate "$folder/other.yaml" --ranks 4 --rate "$1" --overhead 0 --noise "$2" --json | number makespan
}

run known
read -r rate spread < <("$python" "$folder/measure.py" "$folder/known.h5")
echo "points of the known sweep: $rate operations per second, spread $spread"
before=$(predict "$rate" "$spread")
took=$(seconds run other)
read -r rate spread < <("$python" "$folder/measure.py" "$folder/other.h5")
echo "points of the other sweep: $rate operations per second, spread $spread"
after=$(predict "$rate" "$spread")
# What mpirun and the file take before and after the work is measured by a sweep of small points.
sweep empty 1 20 3
start=$(seconds run empty)
awk -v before="$before" -v after="$after" -v took="$took" -v start="$start" 'BEGIN {
  work = took - start
  printf "other sweep on 4 ranks: took %.2f s, of which %.2f s to start and end\n", took, start
  printf "  predicted from the known sweep %.2f s: %+.1f %%\n", before, 100 * (before / work - 1)
  printf "  at the rate that its own points had %.2f s: %+.1f %%\n", after, 100 * (after / work - 1) }'

cat >"$folder/large.yaml" <<'YAML'
experiment: probe
parameters:
  heads: {from: 1, to: 100, step: 1}
  dim: [16, 32]
  context: [8, 16, 32, 48, 64]
  context_type: shared
  samples: {from: 100, to: 1000, count: 10}
replicates: 100
YAML
echo
seconds "$mhasweep" simulate "$folder/large.yaml" --ranks 10000 --rate 1e9 --noise 0.3
echo
seconds "$mhasweep" simulate "$folder/large.yaml" --ranks 100000 --rate 1e9 --noise 0.3 --set replicates=1000
