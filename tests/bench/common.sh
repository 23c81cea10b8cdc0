# shellcheck shell=bash
# What the scripts here begin with; they source it from the root of the repository. $folder is theirs until they end.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# need PROGRAM: one that has to be built first.
need() {
  if [ ! -x "$1" ]; then
    echo "${0##*/}: no $1; build it first (cmake --preset release && cmake --build build)" >&2
    exit 2
  fi
}

# beside_torch NAME BUILD ARGUMENT...: runs NAME.py with the program bench_NAME of the build on one core, both with the
# same BLAS kernels. ARGUMENTs are the least that the program can be given.
beside_torch() {
  local script=tests/bench/$1.py program=$2/tests/bench_$1 python core
  shift 2
  need "$program"
  python=$(command -v /usr/bin/python3 || command -v python3) # Debian's has torch
  export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
  core=$("$program" "$@" | sed -n 's/.*"blas": "\([^"]*\)".*/\1/p') # what mhasweep would run with, too
  export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-$core}
  "$python" "$script" "$program" "$folder"
}
