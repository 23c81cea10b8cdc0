#!/usr/bin/env bash
# Installs what mhasweep needs from Debian's packages (12 or later); does nothing where all of it is there.
#
#   jobs/install-dependencies.sh            to build, run and plot
#   jobs/install-dependencies.sh --tests    and to test (tests/run.sh)
#   jobs/install-dependencies.sh --checks   and to check style and memory, and jobs on a cluster of virtual nodes (.ci/run)
#
# This is the only list of packages. Where there is no apt-get, or no right to use it (a cluster), it looks whether
# compilers and libraries come from elsewhere, such as modules, and names what is missing.
set -euo pipefail

packages=(
  gcc libc6-dev make cmake pkg-config
  openmpi-bin libopenmpi-dev libopenblas-dev libscalapack-openmpi-dev libparpack2-dev
  libarpack2-dev libhdf5-openmpi-dev
  libfyaml-dev libmuparser-dev libgsl-dev libjansson-dev librandom123-dev zlib1g-dev
  libxsmm-dev
  python3-h5py python3-h5netcdf python3-xarray python3-matplotlib python3-numpy python3-scipy python3-jinja2
)
test_packages=(libcmocka-dev hdf5-tools dataset-fashion-mnist python3-pytest man-db zsh)
check_packages=(clang-format clang valgrind doxygen shellcheck mypy slurm-wlm munge iproute2)

commands=(cc cmake make pkg-config mpicc mpirun h5pcc)
modules=(openblas arpack parpack fyaml muparser gsl jansson zlib)
test_commands=(h5dump)
test_modules=(cmocka)
check_commands=(clang-format clang valgrind doxygen shellcheck mypy)

case "${1:-}" in
  '') ;;
  --tests | --checks)
    packages+=("${test_packages[@]}") commands+=("${test_commands[@]}") modules+=("${test_modules[@]}")
    if [ "$1" = --checks ]; then
      packages+=("${check_packages[@]}") commands+=("${check_commands[@]}")
    fi ;;
  *)
    sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
    exit 2 ;;
esac

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# Names of packages of the list that dpkg does not have; all of them where there is no dpkg.
missing_packages() {
  local package
  for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

# What cannot be found by using it, wherever it may have come from.
missing_features() {
  local it
  for it in "${commands[@]}"; do
    command -v "$it" >/dev/null || echo "  the command $it"
  done
  if command -v pkg-config >/dev/null; then
    for it in "${modules[@]}"; do
      pkg-config --exists "$it" || pkg-config --exists "lib$it" ||
        echo "  the library $it (pkg-config does not know it)"
    done
  fi
  if command -v cc >/dev/null; then
    echo '#include <Random123/philox.h>' | cc -E -x c - >/dev/null 2>&1 || echo "  the header Random123/philox.h"
  fi
  python3 -c 'import h5netcdf, h5py, jinja2, matplotlib, numpy, scipy, xarray' 2>/dev/null ||
    echo "  a python3 with h5netcdf, h5py, jinja2, matplotlib, numpy, scipy and xarray"
}

missing=$(missing_packages | tr '\n' ' ')
[ -n "$missing" ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
  as_root=(sudo)
fi
if ! command -v apt-get >/dev/null || ! command -v "${as_root[0]:-true}" >/dev/null; then
  absent=$(missing_features)
  [ -n "$absent" ] || exit 0
  say "this machine lacks:"
  printf '%s\n' "$absent" >&2
  if command -v apt-get >/dev/null; then
    say "there is no sudo here; ask an administrator for: apt-get install $missing"
  else
    say "there is no apt-get here; on a cluster, load the modules that bring them (such as gcc, cmake, openmpi,"
    say "a parallel hdf5, openblas, gsl, python), build the rest, put them on PATH and PKG_CONFIG_PATH, run this again"
  fi
  exit 1
fi

say "installing ${missing}and what they need (about a minute on a bare system)"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120 "$@" >"$log" 2>&1 || {
    tail -n 15 "$log" >&2
    say "'apt-get $*' failed, see above"
    exit 1
  }
}
apt update
# shellcheck disable=SC2086 # a list of words
apt install --no-install-recommends $missing
