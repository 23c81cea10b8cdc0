#!/usr/bin/env bash
# From a bare Debian 12 to two figures: installs what is needed, builds, runs two small sweeps on all cores, prints
# their tables and draws them. All it makes is in build/ and quickstart/. Run again, it does only what is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cores=$(nproc)
log=build/quickstart.log

step() { printf '\n[%3d s] %s\n' "$SECONDS" "$*"; }
fail() {
  printf '%s: %s\n' "${0##*/}" "$1" >&2
  exit "${2:-1}"
}
# Runs a command whose words matter only if it fails.
quietly() {
  "$@" >>"$log" 2>&1 || {
    tail -n 25 "$log" >&2
    fail "'$*' failed, see above (all of it is in $log)"
  }
}
# The first python3 that has what the analysis needs; a user's own may stand before the system's.
find_python() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -c 'import importlib.util as it, sys
sys.exit(not all(map(it.find_spec, ("h5netcdf", "h5py", "matplotlib", "scipy", "xarray"))))' 2>/dev/null; then
      echo "$python"
      return
    fi
  done
  fail "no python3 here has h5netcdf, h5py, matplotlib, scipy and xarray"
}

jobs/install-dependencies.sh
python=$(find_python)

mkdir -p build quickstart
: >"$log"
if [ ! -e build/CMakeCache.txt ]; then
  step "configuring"
  quietly cmake --preset release -DMHASWEEP_TESTS=OFF
fi
step "building"
quietly cmake --build build --parallel "$cores"

# The master sleeps while it waits, so one rank more than cores keeps every core busy.
launcher=(mpirun -n $((cores + 1)))
if mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
  launcher+=(--oversubscribe --bind-to none)
  if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
fi

for name in probe memorize; do
  spec=jobs/quickstart-$name.yaml file=quickstart/$name.h5 picture=quickstart/$name.png
  command=("${launcher[@]}" build/mhasweep run "$spec" -o "$file")
  before=
  if [ -e "$file" ]; then
    command+=(--resume)
    before=$(cksum "$file")
  fi
  step "${command[*]}"
  status=0
  "${command[@]}" || status=$?
  case $status in
    0 | 3) ;; # 3: some points failed; the table says which
    2) [ ! -e "$file" ] || fail "$file is of another sweep; to start again: rm $file" 2
       exit 2 ;;
    75) fail "stopped early; run it again to go on" 75 ;;
    *) fail "the sweep broke (exit status $status); run it again to go on" "$status" ;;
  esac

  step "build/mhasweep show $file"
  build/mhasweep show "$file"
  if [ ! -e "$picture" ] || [ "$(cksum "$file")" != "$before" ]; then
    step "python3 -m mhasweep_analysis.plot $file -o $picture"
    PYTHONPATH=analysis "$python" -m mhasweep_analysis.plot "$file" -o "$picture"
  fi
done
step "done: $(pwd)/quickstart/probe.png and memorize.png"
