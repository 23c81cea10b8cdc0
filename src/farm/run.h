/* What the files of mhas_run share: a run while it goes on. */
#ifndef MHASWEEP_FARM_RUN_H
#define MHASWEEP_FARM_RUN_H

#include "farm/row_work.h"
#include "farm/workload.h"

enum { EXIT_DONE = 0, EXIT_BROKEN = 1, EXIT_USAGE = 2, EXIT_SOME_FAILED = 3, EXIT_STOPPED = 75 };

/* Everything that a run holds; released in one place. */
typedef struct sweep_run {
  MPI_Comm comm;
  int rank, size;
  const mhas_run_options *options;
  mhas_text path; /* of the result file */
  mhas_text spec;
  mhas_sweep *sweep;
  mhas_rows *rows;
  int lock;
  mhas_store *store;
  mhas_row_work *work;
  mhas_watch *watch;
  mhas_leave *leave;
  double began;
  /* rank 0: */
  mhas_workload todo; /* cut by --limit: some rows are left pending on purpose */
} sweep_run;

/* Rank 0: after this the file is there, locked, and the list of rows is made. */
mhas_code mhas_run_prepare_file(sweep_run *run, mhas_error *error);

/* Rank 0: the closing words, and the exit status that the file as a whole deserves. */
int mhas_run_conclude(const sweep_run *run, const mhas_farm_state *state);

#endif
