/* The farm's work in a sweep: runs rows of the result file on this rank. */
#ifndef MHASWEEP_FARM_ROW_WORK_H
#define MHASWEEP_FARM_ROW_WORK_H

#include "mhasweep/farm.h"

typedef struct mhas_row_work mhas_row_work;

/* Borrows sweep, rows and store, which must outlive it. The caller destroys *work. */
mhas_code mhas_row_work_create(mhas_sweep *sweep, const mhas_rows *rows, mhas_store *store, mhas_row_work **work,
                               mhas_error *error);
void mhas_row_work_destroy(mhas_row_work *work); /* NULL is fine */

/* A mhas_farm_work.run whose context is a mhas_row_work. */
mhas_code mhas_row_work_run(void *work, const mhas_team *team, const int64_t *rows, int64_t count,
                            mhas_farm_control *control, uint8_t *outcome, mhas_error *error);

#endif
