/*
 * HDF5's way to a file that this process alone writes.
 *
 * HDF5 1.10 does not get over a flush that fails: it can neither close the file nor end its process without a crash.
 * So it never hears of one. The first write that fails is remembered, it and all after it are dropped, and who closes
 * the file asks whether there was one.
 */
#ifndef MHASWEEP_STORE_DRIVER_H
#define MHASWEEP_STORE_DRIVER_H

#include <hdf5.h>

#include "mhasweep/base.h"

/* Makes `access` use this way. *failure: 0, or the errno of the first write that failed; it outlives the file. False if
 * HDF5 fails. */
bool store_driver_use(hid_t access, int *failure);

/* Closes a file that was opened so. `code` is what came of the work on it: returned if it is an error, and else MHAS_IO
 * if a write has failed. */
mhas_code store_driver_close(hid_t file, const char *path, const int *failure, mhas_code code, mhas_error *error);

#endif
