/* The rows of a sweep that are to be run: what each is expected to cost and how many ranks it needs. */
#ifndef MHASWEEP_FARM_WORKLOAD_H
#define MHASWEEP_FARM_WORKLOAD_H

#include "mhasweep/farm.h"

typedef struct mhas_workload {
  int64_t *rows; /* [count], ascending */
  float *flops;
  int32_t *ranks; /* 1 also where no number of ranks would do: such a row fails at once */
  int64_t count;
  bool cut; /* rows beyond `most` were left out */
  /* Of the rows that need more ranks than there are workers: what limits.memory_per_rank would have to be, so that
   * fewer ranks would do. */
  double bytes_to_fit;
} mhas_workload;

/* All rows whose status is pending (status NULL: all), but `most` of them at the most (< 0: no limit). To be freed also
 * after a failure. */
mhas_code mhas_workload_list(mhas_sweep *sweep, const mhas_rows *rows, const uint8_t *status, int64_t most, int workers,
                             mhas_workload *work, mhas_error *error);
void mhas_workload_free(mhas_workload *work);

#endif
