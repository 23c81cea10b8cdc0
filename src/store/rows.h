/* Rows of one variable, wherever they are, in as few reads and writes as their places allow. */
#ifndef MHASWEEP_STORE_ROWS_H
#define MHASWEEP_STORE_ROWS_H

#include "store/layout.h"

/* A variable of a file, in the shape that another file's layout gives it: if its rows are longer, the rest is left
 * away; if they are shorter, the rest is missing. */
typedef struct store_strip {
  hid_t dataset, type; /* in memory; both the strip's */
  int rank;
  int64_t points;         /* rows of the dataset */
  int64_t width, there;   /* elements of a row in memory, and of those how many the dataset has */
  size_t row_bytes;       /* in memory */
  const store_column *as; /* borrowed */
} store_strip;

/* MHAS_USAGE, in half a sentence, if the file has no such variable, or one of another kind. The caller closes *strip.
 */
mhas_code store_strip_open(hid_t file, const char *path, const store_column *column, int64_t points, store_strip *strip,
                           mhas_error *error);
void store_strip_close(store_strip *strip);

/* How many rows fit the scratch of the two functions below, whose bytes are at most STORE_SCRATCH_BYTES or one row. */
enum { STORE_SCRATCH_BYTES = 8 << 20, STORE_SCRATCH_ROWS = 8192 };
int64_t store_scratch_rows(size_t row_bytes);

/* rows[0 .. count) into `out`, or from `data`, one after the other; `scratch` is of store_scratch_rows rows. Written
 * rows ascend. False if HDF5 fails. */
bool store_gather(const store_strip *strip, const int64_t *rows, int64_t count, char *scratch, char *out);
bool store_scatter(const store_strip *strip, const int64_t *rows, int64_t count, char *scratch, const char *data);

#endif
