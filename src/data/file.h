/*
 * Files of tokens, of images and of labels: what is in them, and any block of their samples as doubles.
 *
 * A file is opened once per process and kept until mhas_files_close, so that asking for it again costs a comparison of
 * names: a sweep asks at every point. A file that is changed while a sweep runs is not noticed.
 */
#ifndef MHASWEEP_DATA_FILE_H
#define MHASWEEP_DATA_FILE_H

#include "mhasweep/base.h"

typedef enum mhas_file_kind {
  MHAS_FILE_TOKENS, /* (T, n + 1, d) of float32 or float64: .npy, or HDF5 with a dataset `tokens` */
  MHAS_FILE_IMAGES, /* (T, rows, columns) of bytes: IDX, gzipped or not */
  MHAS_FILE_LABELS  /* (T) of numbers of any kind: .npy; IDX; or HDF5 with a dataset `labels` */
} mhas_file_kind;

typedef struct mhas_file mhas_file;

enum { MHAS_FILE_RANK = 3 };

/* Finds or opens the file and looks at its header. MHAS_IO, in a sentence that names the file, if it is missing, of
 * another kind, of another shape or type, or shorter than it says. The cache owns *file. */
mhas_code mhas_file_open(mhas_file_kind kind, const char *path, mhas_file **file, mhas_error *error);
void mhas_files_close(void); /* all of them */

const char *mhas_file_path(const mhas_file *file);
const int64_t *mhas_file_shape(const mhas_file *file); /* [MHAS_FILE_RANK], the samples first; 1s behind labels' */
double mhas_file_bytes(const mhas_file *file);         /* of memory that it holds once it is read from */

/* Samples first .. first + count - 1. MHAS_NUMERIC if a number is not finite. */
mhas_code mhas_file_read(mhas_file *file, int64_t first, int64_t count, double *out, mhas_error *error);

/* Reads all of it once: it can be read and every number is finite. *hash is of the shape and the numbers, whatever
 * the format, below 2^53 and never 0. Later calls know the answer. */
mhas_code mhas_file_scan(mhas_file *file, int64_t *hash, mhas_error *error);

#endif
