#!/usr/bin/env bash
# Runs each fuzz target for so many seconds (60), from the stored corpus:
#
#   tests/fuzz/run.sh [SECONDS] [TARGET]...
#
# Prints executions, corpus and crashes. What is found new lies in build-fuzz/corpus, crashing inputs in
# build-fuzz/crashes: a crash becomes a unit test with its input. Ends with 1 if there was one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
seconds=${1:-60}
shift || true

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --parallel "$(nproc)" | { grep -vE '^\[|^make|Built target|ninja: ' || true; }

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for source in tests/fuzz/fuzz_*.c; do
    name=${source##*/fuzz_}
    targets+=("${name%.c}")
  done
fi

# Files of the targets, in memory where there is such a place.
scratch=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")")
trap 'rm -rf "$scratch"' EXIT
export TMPDIR=$scratch
export LSAN_OPTIONS="suppressions=$PWD/tests/fuzz/lsan.supp:print_suppressions=0"
mkdir -p build-fuzz/crashes
status=0
printf '%-12s %12s %10s %8s %8s\n' target executions corpus new crashes
for target in "${targets[@]}"; do
  program=build-fuzz/tests/fuzz_$target
  new=build-fuzz/corpus/$target
  log=build-fuzz/fuzz-$target.log
  mkdir -p "$new"
  before=$(find build-fuzz/crashes -type f ! -name '*slow-unit*' | wc -l)
  # First the stored inputs, leaks included; then new ones, without looking for leaks after each of them, which would
  # take most of the time. A crash does not end the time: the target is started again.
  "$program" -runs=0 "tests/fuzz/corpus/$target" >"$log" 2>&1 || cp "$log" "build-fuzz/crashes/stored-$target.log"
  executions=0
  end=$((SECONDS + seconds))
  while [ $SECONDS -lt $end ]; do
    timeout $((seconds + 120)) "$program" -detect_leaks=0 -max_total_time=$((end - SECONDS)) -timeout=20 -rss_limit_mb=3000 \
      -max_len=4096 -print_final_stats=1 -artifact_prefix="build-fuzz/crashes/$target-" "$new" \
      "tests/fuzz/corpus/$target" >"$log" 2>&1 || true
    ran=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    executions=$((executions + ${ran:-0}))
    [ -n "$ran" ] || sleep 1 # it did not even start
  done
  crashes=$(($(find build-fuzz/crashes -type f ! -name '*slow-unit*' | wc -l) - before))
  printf '%-12s %12d %10d %8d %8d\n' "$target" "$executions" "$(find "tests/fuzz/corpus/$target" -type f | wc -l)" \
    "$(find "$new" -type f | wc -l)" "$crashes"
  if [ "$crashes" -gt 0 ] || [ "$executions" -eq 0 ]; then
    tail -n 30 "$log"
    status=1
  fi
done
exit $status
