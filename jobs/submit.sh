#!/usr/bin/env bash
# Submits a sweep as a SLURM job with the ranks, memory and time that `mhasweep plan` works out for it:
#
#   jobs/submit.sh [--print] [--hours H] [--max-ranks N] [--max-time T] SPEC.yaml [sbatch options] [-- options of mhasweep run]
#   jobs/submit.sh sweep.yaml --partition=short --account=me -- -o results/sweep.h5 --set replicates=20
#
#   --print        print the job's script instead: save it, adapt it, and sbatch it
#   --hours H      ask for as many CPUs as would do the sweep in about H hours (default 1), by a cautious estimate
#   --max-ranks N  but for no more than N (default 128)
#   --max-time T   the longest time to ask for (default 1-00:00:00, or the partition's limit if that is shorter); a sweep
#                  that takes longer goes on by itself in the next turn of its job
#
# Options for sbatch win over what is worked out. The script is jobs/sweep.sbatch, which tells what else there is.
# Exit status: 0 submitted or printed; 1 sbatch failed or is not here; 2 wrong words or a wrong sweep file.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
fail() {
  say "$2"
  exit "$1"
}
usage() {
  sed -n '2,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
}

# ---- words -----------------------------------------------------------------------

print=
hours=1
max_ranks=128
max_time=1-00:00:00

# Seconds of a time as SLURM writes it (minutes, m:s, h:m:s, d-h, d-h:m, d-h:m:s); nothing for other words.
seconds_of() {
  local days=0 clock=$1 a b c
  [[ $1 =~ ^([0-9]+-)?[0-9]+(:[0-9]+){0,2}$ ]] || return 0
  if [[ $1 == *-* ]]; then
    days=${1%%-*}
    clock=${1#*-}
  fi
  IFS=: read -r a b c <<<"$clock"
  if [[ $1 == *-* || -n $c ]]; then
    echo $(((10#$days * 24 + 10#$a) * 3600 + 10#${b:-0} * 60 + 10#${c:-0}))
  else
    echo $((10#$a * 60 + 10#${b:-0}))
  fi
}

while [ $# -gt 0 ]; do
  case $1 in
    --print) print=yes ;;
    --hours | --max-ranks | --max-time)
      [ $# -ge 2 ] || fail 2 "$1 needs a value"
      case $1 in
        --hours) hours=$2 ;;
        --max-ranks) max_ranks=$2 ;;
        --max-time) max_time=$2 ;;
      esac
      shift ;;
    --hours=*) hours=${1#*=} ;;
    --max-ranks=*) max_ranks=${1#*=} ;;
    --max-time=*) max_time=${1#*=} ;;
    -h | --help) usage && exit 0 ;;
    -*) fail 2 "unknown option $1; options for sbatch come after the sweep file (--help)" ;;
    *) break ;;
  esac
  shift
done
[[ $hours =~ ^[0-9]*\.?[0-9]+$ && $hours =~ [1-9] ]] || fail 2 "--hours $hours: not a number above 0"
[[ $max_ranks =~ ^[1-9][0-9]{0,6}$ ]] || fail 2 "--max-ranks $max_ranks: not a whole number from 1 on"
time_most=$(seconds_of "$max_time")
[ "${time_most:-0}" -ge 60 ] || fail 2 "--max-time $max_time: not a time as sbatch takes it, from one minute on"
if [ $# -eq 0 ]; then
  usage >&2
  exit 2
fi
spec=$1
shift
sbatch_words=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  case $1 in
    *$'\n'*) fail 2 "an option for sbatch cannot hold a line break" ;;
    --print | --hours | --max-ranks | --max-time | --hours=* | --max-ranks=* | --max-time=*)
      fail 2 "$1 goes before the sweep file" ;;
  esac
  sbatch_words+=("$1")
  shift
done
[ $# -eq 0 ] || shift
run_words=("$@")

# Was one of these options given to sbatch? Words are sbatch's letters and long names.
given() {
  local word option
  for word in "${sbatch_words[@]}"; do
    for option; do
      case $word in
        "-$option"* | "--$option" | "--$option="*) [[ $word == --* || ${#option} = 1 ]] && return 0 ;;
      esac
    done
  done
  return 1
}
# The value of one of them, the last one given.
value_of() {
  local letter=$1 name=$2 value='' i
  for ((i = 0; i < ${#sbatch_words[@]}; i++)); do
    case ${sbatch_words[i]} in
      "-$letter" | "--$name") value=${sbatch_words[i + 1]:-} ;;
      --*) [[ ${sbatch_words[i]} != "--$name="* ]] || value=${sbatch_words[i]#*=} ;;
      "-$letter"*) value=${sbatch_words[i]#"-$letter"} ;;
    esac
  done
  printf '%s' "$value"
}

# ---- the plan --------------------------------------------------------------------

find_program() {
  local program
  for program in "${MHASWEEP:-mhasweep}" "$here/../build/mhasweep"; do
    program=$(command -v "$program") || continue
    realpath -- "$program"
    return
  done
  fail 1 "there is no mhasweep on PATH nor in build/: build it, load its module, or name it as MHASWEEP=/path/to/mhasweep"
}
program=$(find_program)

plan_words=(--json)
for ((i = 0; i < ${#run_words[@]}; i++)); do
  case ${run_words[i]} in
    --set) plan_words+=(--set "${run_words[i + 1]:-}") ;;
    --set=*) plan_words+=("${run_words[i]}") ;;
  esac
done
# plan itself says what is wrong with a sweep file.
json=$("$program" plan "${plan_words[@]}" -- "$spec") || exit
declare -A plan
while IFS= read -r line; do
  [[ $line =~ ^\ \ \"([a-z_]+)\":\ ([^,]+),?$ ]] && plan[${BASH_REMATCH[1]}]=${BASH_REMATCH[2]}
done <<<"$json"
for name in points flops flops_most bytes_most ranks_most too_large memory_per_rank flops_per_second workers_most; do
  [ -n "${plan[$name]:-}" ] || fail 1 "$program plan --json tells nothing of $name: another version than this script's?"
done
[[ ${plan[points]} =~ [1-9] ]] || fail 2 "$spec has no point to run"
[ "${plan[too_large]}" = false ] ||
  say "warning: the largest points need more than limits.memory_per_rank and will fail; mhasweep plan tells more"
[ "${plan[ranks_most]}" -le "$max_ranks" ] ||
  fail 2 "the largest point of $spec takes a team of ${plan[ranks_most]} ranks, more than --max-ranks $max_ranks"

# The partition's time limit in seconds; nothing where it has none or SLURM is not here.
partition_limit() {
  local partition limit
  command -v sinfo >/dev/null || return 0
  partition=$(value_of p partition)
  partition=${partition:-${SBATCH_PARTITION:-}}
  if [ -n "$partition" ]; then
    limit=$(timeout 20 sinfo -h -p "$partition" -o %l 2>/dev/null | sort -u) || return 0
  else
    limit=$(timeout 20 sinfo -h -o '%P %l' 2>/dev/null | sed -n 's/^[^ ]*\* //p' | sort -u) || return 0
  fi
  while IFS= read -r partition; do
    seconds_of "$partition"
  done <<<"$limit" | sort -n | head -n 1
}
limit=$(partition_limit)
if [ -n "$limit" ] && [ "$limit" -lt "$time_most" ]; then
  time_most=$limit
fi

# Small models run at a fraction of the speed that the plan's time assumes, and nodes differ: four times that is cautious.
# CPUs: no more than are of use, no fewer than the largest team. Time: at least 15 minutes. Memory for each CPU's rank:
# its largest point and a quarter, and what the program, MPI and HDF5 take.
read -r cpus minutes mebibytes <<<"$(awk -v flops="${plan[flops]}" -v flops_most="${plan[flops_most]}" \
  -v rate="${plan[flops_per_second]}" -v useful="${plan[workers_most]}" -v team="${plan[ranks_most]}" -v hours="$hours" \
  -v ranks_most="$max_ranks" -v time_most="$time_most" -v bytes="${plan[bytes_most]}" -v bytes_limit="${plan[memory_per_rank]}" '
  function up(x) { return x == int(x) ? x : int(x) + 1 }
  function least(a, b) { return a < b ? a : b }
  function most(a, b) { return a < b ? b : a }
  BEGIN {
    cautious = 4 / rate
    cpus = most(least(up(least(flops * cautious / (3600 * hours), 1e9)), least(useful, ranks_most)), most(team, 1))
    seconds = most(flops * cautious / cpus, flops_most * cautious / team) + 600
    minutes = most(least(up(most(seconds, 900) / 300) * 5, int(time_most / 60)), 1)
    if (bytes_limit != "null") bytes = least(bytes, bytes_limit)
    printf "%d %d %d\n", cpus, minutes, up((bytes * 1.25 / 1048576 + 512) / 64) * 64
  }')"
time=$(printf '%d-%02d:%02d:00' $((minutes / 1440)) $((minutes / 60 % 24)) $((minutes % 60)))

# ---- the script ------------------------------------------------------------------

# As sbatch reads words of a #SBATCH line: single quotes work, a backslash before a space does not.
quote() {
  local quoted="'\\''"
  if [[ $1 =~ ^[A-Za-z0-9_.,:/=%+@^-]+$ ]]; then
    printf '%s' "$1"
  else
    printf "'%s'" "${1//\'/$quoted}"
  fi
}

name=${spec##*/}
name=${name%.yml}
name=${name%.yaml}
name=${name//[^A-Za-z0-9._-]/-}

options_line() {
  local word
  [ ${#sbatch_words[@]} -gt 0 ] || return 0
  printf '#SBATCH'
  for word in "${sbatch_words[@]}"; do
    printf ' %s' "$(quote "$word")"
  done
  printf '\n'
}

# jobs/sweep.sbatch with these numbers and words in their places.
script() {
  local line head=yes
  printf '#!/bin/bash\n# Written by jobs/submit.sh: CPUs, memory and time for %s points, from mhasweep plan and --hours %s\n' \
    "${plan[points]}" "$hours"
  while IFS= read -r line; do
    case $line in
      '# ---- adapt '*) head= ;;
      '#SBATCH --job-name='*) line="#SBATCH --job-name=$name" ;;
      '# How many CPUs is '*) continue ;;
      '##SBATCH --ntasks='*)
        if given n ntasks ntasks-per-node || { given exclusive && given N nodes; }; then continue; fi
        line="#SBATCH --ntasks=$cpus" ;;
      '#SBATCH --time='*)
        if given t time; then continue; fi
        line="#SBATCH --time=$time" ;;
      '##SBATCH --mem-per-cpu='*)
        if given mem mem-per-cpu mem-per-gpu exclusive; then continue; fi
        line="#SBATCH --mem-per-cpu=${mebibytes}M" ;;
      '#SBATCH --open-mode='*)
        printf '%s\n' "$line"
        options_line
        continue ;;
      'MHASWEEP='*)
        printf 'set --'
        printf ' %q' "$spec" "${run_words[@]}"
        printf '\n'
        line="MHASWEEP=\${MHASWEEP:-$(printf %q "$program")}" ;;
    esac
    [ -n "$head" ] || printf '%s\n' "$line"
  done <"$here/sweep.sbatch"
}

if [ -n "$print" ]; then
  script
  exit
fi
command -v sbatch >/dev/null || fail 1 "there is no sbatch here: run this where jobs are submitted, or --print the script"
say "$spec: ${plan[points]} points, $cpus CPUs, at most $time at a time, ${mebibytes} MiB per CPU"
text=$(script)
sbatch <<<"$text" || fail 1 "sbatch did not take the job (its words are above); --print shows its script"
