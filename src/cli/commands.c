/* The list of commands, and what `mhasweep --help` says. */
#include <string.h>

#include "cli/cli.h"

static const cli_command *const commands[] = {
    &cli_run, &cli_plan, &cli_show, &cli_export, &cli_experiments, &cli_simulate, &cli_doctor,
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

const cli_command *const *cli_commands(int *count) {
  *count = COMMAND_COUNT;
  return commands;
}

const cli_command *cli_command_find(const char *word) {
  for (int i = 0; i < COMMAND_COUNT; i++) {
    if (strcmp(commands[i]->name, word) == 0) {
      return commands[i];
    }
  }
  return NULL;
}

void cli_print_overview(void) {
  (void)printf(
      "mhasweep: what can a multi-head attention layer memorize, learn and generalize?\n"
      "Runs an experiment over a grid of hyperparameters on MPI ranks, into one HDF5 file.\n\n"
      "Commands:\n");
  for (int i = 0; i < COMMAND_COUNT; i++) {
    (void)printf("  %-12s %s\n", commands[i]->name, commands[i]->summary);
  }
  (void)printf(
      "\n"
      "  mhasweep COMMAND --help explains a command; mhasweep --version tells the version.\n"
      "  man mhasweep-sweep explains the sweep file; mhasweep experiments NAME, all parameters and results.\n\n"
      "Examples:\n"
      "  mhasweep plan sweep.yaml              what it would take\n"
      "  mpirun -n 5 mhasweep run sweep.yaml   run it: a master and four workers\n"
      "  mhasweep show sweep.h5                what came out\n");
}
