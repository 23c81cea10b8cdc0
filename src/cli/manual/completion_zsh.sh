
_mhasweep_experiment() {
  compadd -- ${(f)"$(_mhasweep_experiments $_mhasweep_program)"}
}

_mhasweep_set() {
  local experiment=$(_mhasweep_experiment_of ${${(M)words:#*.(yaml|yml)}[1]:-/dev/null})
  if compset -P '*='; then
    compadd -- ${(f)"$(_mhasweep_values $_mhasweep_program "$experiment" ${${IPREFIX%=}##*=})"}
  else
    compadd -S = -- ${(f)"$(_mhasweep_parameters $_mhasweep_program "$experiment")"} ${=_mhasweep_settings}
  fi
}

_mhasweep() {
  local curcontext=$curcontext state line _mhasweep_program=${words[1]/#\~\//$HOME/}
  typeset -A opt_args
  _arguments -C '(- *)--help[what there is]' '(- *)--version[version and commit]' \
    '1:command:_mhasweep_commands' '*::argument:->argument'
  [[ $state != argument ]] || _mhasweep_command $line[1]
}

# Autoloaded by compinit, the file is the function; sourced, it only defines it.
if [[ $funcstack[1] == _mhasweep ]]; then
  _mhasweep "$@"
else
  compdef _mhasweep mhasweep
fi
