/* Keeps checkpoints of the point that runs on this rank, in files beside the result file. Private to the farm. */
#ifndef MHASWEEP_FARM_KEEPER_H
#define MHASWEEP_FARM_KEEPER_H

#include "mhasweep/checkpoint.h"
#include "mhasweep/store.h"

typedef struct mhas_keeper {
  const char *results; /* the result file; the caller's */
  double every;        /* seconds between two checkpoints; 0: only when stopped */
  const mhas_experiment *experiment;
  mhas_checkpoints checkpoints; /* what an experiment sees of it */
  mhas_checkpoint_key key;
  /* of the point that runs: */
  mhas_row *row;
  double *started; /* when it was; moved back by what was spent on it before */
  double next;     /* checkpoint */
  bool due;        /* it is time for one: by `next`, and on a team by member 0's */
  double spent;    /* scratch for the file */
  bool there;      /* it has a checkpoint */
  bool complained; /* that none can be written */
} mhas_keeper;

/* `keeper` must stay where it is. */
void mhas_keeper_start(mhas_keeper *keeper, const char *results, double every, const mhas_sweep *sweep);

/* A point is about to run on so many ranks; `row` and `started` stay the caller's. On a team every member has a keeper,
 * and member 0's keeps the files. */
void mhas_keeper_begin(mhas_keeper *keeper, int64_t point, int ranks, mhas_row *row, double *started);

/* It is done or failed and was given to the store: its checkpoint goes, after its row is on the disk. */
mhas_code mhas_keeper_end(mhas_keeper *keeper, mhas_store *store, mhas_error *error);

#endif
