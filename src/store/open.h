/* Opening a result file by one process alone, with a sentence for everything that can be wrong with it. */
#ifndef MHASWEEP_STORE_OPEN_H
#define MHASWEEP_STORE_OPEN_H

#include <hdf5.h>

#include "mhasweep/base.h"

/* For reading: the caller closes *file with H5Fclose. MHAS_IO if it is no file, no HDF5, cut short, or not ours. */
mhas_code store_open_serial(const char *path, hid_t *file, mhas_error *error);

/* For writing too: the caller closes *file with store_driver_close, to which *failure belongs. */
mhas_code store_open_writable(const char *path, hid_t *file, int *failure, mhas_error *error);

/* The length of the dimension `point`. MHAS_IO if it is not there. */
mhas_code store_read_points(hid_t file, const char *path, int64_t *points, mhas_error *error);

/* The status of all `count` points (resume.c). One that has ended without its data, as a crash of the machine may leave
 * it, is running. MHAS_IO if a status is none. */
mhas_code store_read_status(hid_t file, const char *path, int64_t count, uint8_t *status, mhas_error *error);

/* A dataset of the file with its rank and its first two lengths; `id` is to be released. MHAS_IO if it is not there. */
typedef struct store_dataset {
  hid_t id;
  int rank;
  hsize_t shape[2];
} store_dataset;
mhas_code store_open_dataset(hid_t file, const char *path, const char *name, store_dataset *dataset, mhas_error *error);

/* The length of a second dimension, STORE_RECORD or STORE_K; 0 if the file does not have it. */
mhas_code store_read_length(hid_t file, const char *path, const char *scale, int64_t *length, mhas_error *error);

#endif
