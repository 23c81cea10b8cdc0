/* The farm's work in a sweep: runs rows of the result file on this rank. */
#ifndef MHASWEEP_FARM_ROW_WORK_H
#define MHASWEEP_FARM_ROW_WORK_H

#include "mhasweep/farm.h"

typedef struct mhas_row_work mhas_row_work;

/* Borrows sweep, rows, store and `path`, of the result file, which must outlive it; a long point keeps a checkpoint
 * every so many seconds (0: only when it is stopped). The caller destroys *work. */
mhas_code mhas_row_work_create(mhas_sweep *sweep, const mhas_rows *rows, mhas_store *store, const char *path,
                               double checkpoint_every, mhas_row_work **work, mhas_error *error);
void mhas_row_work_destroy(mhas_row_work *work); /* NULL is fine */

/* The functions of a mhas_farm_work whose context is a mhas_row_work. */
mhas_code mhas_row_work_recall(void *work, const int64_t *rows, int64_t count, uint8_t *outcome, mhas_error *error);
mhas_code mhas_row_work_condemn(void *work, int64_t row, mhas_error *error);
mhas_code mhas_row_work_run(void *work, const mhas_team *team, const int64_t *rows, int64_t count,
                            mhas_farm_control *control, uint8_t *outcome, mhas_error *error);

#endif
