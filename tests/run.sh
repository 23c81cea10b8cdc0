#!/usr/bin/env bash
# Runs every test: installs what they need, builds, and hands over to CTest. Arguments go to ctest:
#
#   tests/run.sh                    all of them
#   tests/run.sh -L unit            one kind: unit, mpi, e2e, slurm
#   tests/run.sh -R store -V        those with a name like that, with all they print
#
# Those of kind slurm bring up a cluster of virtual nodes, which takes root, and packages that only
# `jobs/install-dependencies.sh --checks` installs; where there can be no cluster the reason is printed and they are skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs/install-dependencies.sh --tests
log=build/tests.log
mkdir -p build
{
  cmake --preset release -DMHASWEEP_TESTS=ON && cmake --build build --parallel "$(nproc)"
} >"$log" 2>&1 || {
  tail -n 40 "$log" >&2
  echo "${0##*/}: the build failed, see above (all of it is in $log)" >&2
  exit 1
}
tests/slurm/cluster.sh --check || true
exec ctest --test-dir build --no-tests=error --parallel "$(nproc)" --output-on-failure "$@"
