/* The arrays of `store: weights | data | z | attention`: one group per point that has any. */
#ifndef MHASWEEP_STORE_ARRAYS_H
#define MHASWEEP_STORE_ARRAYS_H

#include "store/layout.h"

/* A group per point is metadata that every rank reads: beyond this the file would become slow to create and to open. */
enum { STORE_ARRAY_POINTS_MOST = 100000 };

/* How a dataset of a result file is made: contiguous, allocated and filled at once. To be released. */
hid_t store_dataset_properties(void);

/* The size of all arrays of the sweep. MHAS_USAGE if too many points have some. */
mhas_code store_arrays_bytes(const char *path, mhas_sweep *sweep, const mhas_rows *rows, double *bytes,
                             mhas_error *error);

/* Creates /stored/<row>/<array> for all rows, filled with NaN. */
mhas_code store_create_arrays(hid_t file, const char *path, mhas_sweep *sweep, const mhas_rows *rows,
                              mhas_error *error);

/* "stored/<row>" or, with an array's name, "stored/<row>/<name>". */
enum { STORE_ARRAY_NAME_LENGTH = 128 };
void store_array_name(int64_t row, const char *name, char out[STORE_ARRAY_NAME_LENGTH]);

#endif
