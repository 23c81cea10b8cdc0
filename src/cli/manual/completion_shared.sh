
# What the program knows of its experiments; quiet where it is not to be found.
_mhasweep_experiments() { # PROGRAM
  "$1" experiments --json 2>/dev/null | awk -F'"' '/^    "name"/ { print $4 }'
}

# The experiment that a sweep file names; nothing if it cannot be read.
_mhasweep_experiment_of() { # FILE
  sed -n 's/^experiment:[[:space:]]*\([a-z_]*\).*/\1/p' "$1" 2>/dev/null
}

# Parameters of an experiment; without one, of all of them.
_mhasweep_parameters() { # PROGRAM EXPERIMENT
  "$1" experiments ${2:+"$2"} --json 2>/dev/null | awk -F'"' '
    $2 == "parameters" { inside = 1 }
    $2 == "results" { inside = 0 }
    inside && $2 == "name" && !seen[$4]++ { print $4 }'
}

# Words that a parameter takes, if it is a choice or a flag.
_mhasweep_values() { # PROGRAM EXPERIMENT PARAMETER
  if [ "$3" = experiment ]; then
    _mhasweep_experiments "$1"
    return
  fi
  "$1" experiments ${2:+"$2"} --json 2>/dev/null | awk -F'"' -v want="$3" '
    $2 == "parameters" { inside = 1 }
    $2 == "results" { inside = 0 }
    !inside { next }
    $2 == "name" { name = $4; choices = 0 }
    name != want { next }
    $2 == "type" && $4 == "flag" { print "true"; print "false" }
    $2 == "choices" { choices = 1; next }
    /]/ { choices = 0 }
    choices { print $2 }' | sort -u
}
