/* mhasweep(1): all commands with their options, from the tables that --help prints too. */
#include <string.h>

#include "cli/manual/manual.h"

static void add_option(mhas_text *text, const cli_option *option) {
  mhas_text_append(text, ".TP\n");
  if (option->letter != 0) {
    mhas_text_append(text, "\\fB\\-%c\\fR, ", option->letter);
  }
  mhas_text_append(text, "\\fB\\-\\-");
  roff_literal(text, option->name, false);
  mhas_text_append(text, "\\fR");
  if (option->argument != NULL) {
    mhas_text_append(text, " \\fI");
    roff_literal(text, option->argument, false);
    mhas_text_append(text, "\\fR");
  }
  mhas_text_append(text, "\n");
  roff_words(text, option->meaning);
}

static void add_usage(mhas_text *text, const cli_command *command) {
  mhas_text_append(text, "\\fBmhasweep %s\\fR", command->name);
  if (command->operand != NULL) {
    mhas_text_append(text, " \\fI%s\\fR", command->operand);
  }
  mhas_text_append(text, " [\\fIOPTION\\fR]...\n");
}

static void add_command(mhas_text *text, const cli_command *command) {
  mhas_text_append(text, ".SS %s\n", command->name);
  add_usage(text, command);
  mhas_text_append(text, ".PP\n");
  roff_words(text, command->description);
  for (int i = 0; i < command->option_count; i++) {
    add_option(text, cli_option_at(command, i));
  }
  roff_lines(text, command->examples);
  mhas_text_append(text, ".PP\nExit status:\n");
  roff_lines(text, command->statuses);
}

static void add_fact(mhas_text *text, const char *name, const char *meaning) {
  mhas_text_append(text, ".TP\n");
  roff_literal(text, name, true);
  mhas_text_append(text, "\n");
  roff_words(text, meaning);
}

static void add_environment(mhas_text *text) {
  mhas_text_append(text, ".SH ENVIRONMENT\n");
  add_fact(text, "OPENBLAS_CORETYPE",
           "The kernels of OpenBLAS. If it is not set and OpenBLAS has chosen slower ones than the CPU can run, the "
           "program sets it and starts itself again.");
  add_fact(text, "OPENBLAS_NUM_THREADS, OMP_NUM_THREADS", "Threads of BLAS in each rank; one if neither is set.");
  add_fact(text, "NO_COLOR", "If set to anything, no colours on a terminal.");
  add_fact(text, "LC_ALL, LC_CTYPE, LANG", "Charts of show are drawn in blocks where these name UTF-8, else in ASCII.");
  add_fact(text, "OMPI_MCA_io",
           "Which MPI-IO of Open MPI writes the result file: ompio, or ^ompio for ROMIO. mhasweep doctor tells "
           "whether a folder can be written.");
}

static void add_files(mhas_text *text) {
  mhas_text_append(text, ".SH FILES\n");
  add_fact(text, "SPEC.yaml", "The sweep file, see mhasweep-sweep(5).");
  add_fact(text, "SPEC.h5", "The result file, an HDF5 file by netCDF-4 conventions, see mhasweep-sweep(5).");
}

void manual_commands(mhas_text *text) {
  int count = 0;
  const cli_command *const *commands = cli_commands(&count);
  roff_title(text, "MHASWEEP", "1", "User commands");
  mhas_text_append(text,
                   ".SH NAME\n"
                   "mhasweep \\- parameter sweeps over multi\\-head attention models with MPI, ScaLAPACK and HDF5\n"
                   ".SH SYNOPSIS\n");
  for (int i = 0; i < count; i++) {
    mhas_text_append(text, "%s", i == 0 ? "" : ".br\n");
    add_usage(text, commands[i]);
  }
  mhas_text_append(text,
                   ".br\n\\fBmhasweep\\fR [\\fICOMMAND\\fR] \\fB\\-\\-help\\fR\n"
                   ".br\n\\fBmhasweep \\-\\-version\\fR\n"
                   ".SH DESCRIPTION\n");
  roff_words(text,
             "What can a multi-head attention layer memorize, learn and generalize? mhasweep answers such a question "
             "over a whole grid of hyperparameters at once. A sweep file, see mhasweep-sweep(5), names an experiment "
             "and the values that its parameters take. A master rank hands out the points of the grid to the other "
             "ranks of an MPI job; each point trains or probes a model, and every result lands in one HDF5 file that "
             "opens in xarray. mhasweep-experiments(7) tells what each parameter and each result means.\n\n"
             "Results go to standard output; progress, warnings and errors to standard error. Each command explains "
             "itself with --help (-h).");
  mhas_text_append(text, ".SH COMMANDS\n");
  for (int i = 0; i < count; i++) {
    add_command(text, commands[i]);
  }
  add_environment(text);
  add_files(text);
  mhas_text_append(text,
                   ".SH SEE ALSO\n"
                   ".BR mhasweep\\-sweep (5),\n.BR mhasweep\\-experiments (7),\n.BR mpirun (1),\n.BR srun (1)\n");
}
