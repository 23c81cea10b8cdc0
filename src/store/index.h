/* Which done row of an older result file has the parameters of a point. */
#ifndef MHASWEEP_STORE_INDEX_H
#define MHASWEEP_STORE_INDEX_H

#include <hdf5.h>

#include "mhasweep/store.h"

typedef struct store_index store_index;

/*
 * Of the rows whose `status` [points] is done, by every parameter of the experiment and the replicate. A parameter that
 * the file does not have, since it is newer, had its default: the values come from `older`, the file's sweep as it is
 * understood today (NULL if it is not: such a file has no index). MHAS_USAGE, with the reason, if there can be no
 * index; MHAS_IO if the file is damaged. The caller destroys *index.
 */
mhas_code store_index_create(hid_t file, const char *path, const mhas_experiment *experiment, mhas_sweep *older,
                             const uint8_t *status, int64_t points, store_index **index, mhas_error *error);
void store_index_destroy(store_index *index); /* NULL is fine */

/* The row with exactly these values; -1 if there is none. Time does not depend on the number of rows. */
int64_t store_index_find(const store_index *index, const mhas_value *values, int64_t replicate);

#endif
