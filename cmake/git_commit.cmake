# Writes the commit of the tree at SOURCE as a C header into OUT, at every build; untouched if nothing changed, so that
# nothing is compiled again. A tree without git says "unknown".
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define MHASWEEP_GIT_COMMIT \"@commit@\"\n" @ONLY)
