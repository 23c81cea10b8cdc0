/* How much time this run has: what SLURM gave it, or what its user says. Private to the farm. */
#ifndef MHASWEEP_FARM_ALLOTMENT_H
#define MHASWEEP_FARM_ALLOTMENT_H

#include "mhasweep/base.h"

typedef struct mhas_allotment {
  double seconds;     /* from now on; INFINITY if nothing limits it */
  const char *source; /* who says so, for a message */
} mhas_allotment;

/*
 * The time left of this SLURM job: by SLURM_JOB_END_TIME, or where that is not set by `squeue`, which is given
 * `patience` seconds to answer. `limit`: seconds that the user gives this run, INFINITY if he says nothing; the earlier
 * end counts. doubt->text: why SLURM could not be asked, empty if all is well.
 */
mhas_allotment mhas_allotment_find(double limit, double patience, mhas_error *doubt);

/* The part at the end in which running points write their checkpoints and the file is closed. */
double mhas_allotment_margin(double seconds);

#endif
