
# Candidates for the value, or operand, of a kind; $cur is what stands there already.
_mhasweep_reply() { # KIND PROGRAM EXPERIMENT
  case $1 in
    h5 | yaml | file)
      local pattern='*.@(yaml|yml)'
      [ "$1" != h5 ] || pattern='*.h5'
      [ "$1" != file ] || pattern='*'
      compopt -o filenames 2>/dev/null
      local had_extglob=1
      shopt -q extglob || had_extglob=0
      shopt -s extglob
      mapfile -t COMPREPLY < <(compgen -d -- "$cur"; compgen -f -X "!$pattern" -- "$cur" | while read -r it; do
        [ -d "$it" ] || echo "$it"
      done)
      [ "$had_extglob" = 1 ] || shopt -u extglob
      ;;
    set)
      if [[ $cur == *=* ]]; then
        local name=${cur%%=*}
        cur=${cur#*=}
        mapfile -t COMPREPLY < <(compgen -W "$(_mhasweep_values "$2" "$3" "$name")" -- "$cur")
        [[ $COMP_WORDBREAKS == *=* ]] || COMPREPLY=("${COMPREPLY[@]/#/$name=}")
      else
        compopt -o nospace 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -S = -W "$(_mhasweep_parameters "$2" "$3") $_mhasweep_settings" -- "$cur")
      fi
      ;;
    experiment) mapfile -t COMPREPLY < <(compgen -W "$(_mhasweep_experiments "$2")" -- "$cur") ;;
    *'|'*) mapfile -t COMPREPLY < <(compgen -W "${1//|/ }" -- "$cur") ;;
  esac
}

_mhasweep() {
  COMPREPLY=()
  # Bash parts words at an equals sign, too: put them together again.
  local words=() i
  for ((i = 0; i <= COMP_CWORD; i++)); do
    if ((i > 0)) && { [[ ${COMP_WORDS[i]} == = ]] || [[ ${COMP_WORDS[i - 1]} == = ]]; }; then
      words[${#words[@]} - 1]+=${COMP_WORDS[i]}
    else
      words+=("${COMP_WORDS[i]}")
    fi
  done
  local program=${words[0]/#\~\//$HOME/} command=${words[1]-} cur=${words[${#words[@]} - 1]}
  local last=$((${#words[@]} - 1)) experiment='' option
  if ((last == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "$_mhasweep_commands --help --version" -- "$cur")
    return
  fi
  for ((i = 2; i < last; i++)); do
    case ${words[i]} in
      *.yaml | *.yml) experiment=$(_mhasweep_experiment_of "${words[i]/#\~\//$HOME/}") ;;
      experiment=*) experiment=${words[i]#*=} ;;
    esac
  done
  if [[ $cur == --*=* ]]; then
    option=${cur%%=*} cur=${cur#*=}
  elif [[ ${words[last - 1]} == -* && ${words[last - 1]} != *=* ]]; then
    option=${words[last - 1]}
  fi
  local kind=''
  [ -z "$option" ] || kind=$(_mhasweep_kind "$command" "$option")
  if [ -n "$kind" ]; then
    _mhasweep_reply "$kind" "$program" "$experiment"
  elif [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_mhasweep_options "$command")" -- "$cur")
    [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
  else
    _mhasweep_reply "$(_mhasweep_kind "$command" '')" "$program" "$experiment"
  fi
}
complete -F _mhasweep mhasweep
