/* The values of all parameters at all points, written when a file is created. */
#ifndef MHASWEEP_STORE_PARAMETERS_H
#define MHASWEEP_STORE_PARAMETERS_H

#include "store/layout.h"

/* The attribute _FillValue of a variable that can be missing: NaN or -1. */
bool store_write_fill_value(hid_t dataset, store_kind kind);

/* Fills the parameters and `replicate` of every row, block by block; those of a point that cannot be computed are
 * missing. */
mhas_code store_write_parameters(hid_t file, const char *path, const store_layout *layout, mhas_sweep *sweep,
                                 const mhas_rows *rows, mhas_error *error);

#endif
