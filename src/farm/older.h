/* The older result files of --reuse. Rank 0 only. */
#ifndef MHASWEEP_FARM_OLDER_H
#define MHASWEEP_FARM_OLDER_H

#include "mhasweep/farm.h"

typedef struct mhas_older_files {
  const char *const *paths; /* [count], the caller's */
  size_t count;
  mhas_reuse **files; /* [count] */
  mhas_text names;    /* a line each */
} mhas_older_files;

/* Opens them all, before anything is written. MHAS_USAGE if one is no result file of this experiment, or is the one at
 * `result_path`. */
mhas_code mhas_older_open(const char *const *paths, size_t count, const char *result_path, mhas_sweep *sweep,
                          mhas_older_files *older, mhas_error *error);
void mhas_older_close(mhas_older_files *older);

/* Takes what they have into the result file, from each what those before it did not have, and says of each how much it
 * was, or why it was nothing. `status` is of every row of the result file. */
mhas_code mhas_older_take(mhas_older_files *older, const char *path, const mhas_rows *rows, uint8_t *status, bool quiet,
                          mhas_error *error);

#endif
