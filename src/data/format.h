/* The formats behind mhas_file, each in the file of its name. */
#ifndef MHASWEEP_DATA_FORMAT_H
#define MHASWEEP_DATA_FORMAT_H

#include <hdf5.h>

#include "data/file.h"

typedef struct mhas_format mhas_format;

struct mhas_file {
  mhas_file *next; /* in the cache */
  const mhas_format *format;
  mhas_file_kind kind;
  char *path;
  int64_t shape[MHAS_FILE_RANK];
  bool scanned;
  int64_t hash;
  /* .npy: */
  int descriptor;
  int64_t offset; /* of the first number */
  char number;    /* f, i or u, */
  int64_t number_bytes;
  /* HDF5: */
  hid_t dataset;
  /* IDX: all of it, once it is read from */
  uint8_t *pixels;
};

struct mhas_format {
  /* Fills shape and what it needs to read. */
  mhas_code (*open)(mhas_file *file, mhas_error *error);
  mhas_code (*read)(mhas_file *file, int64_t first, int64_t count, double *out, mhas_error *error);
  void (*close)(mhas_file *file);
};

extern const mhas_format mhas_format_npy;
extern const mhas_format mhas_format_hdf5;
extern const mhas_format mhas_format_idx;

/* Dimensions of what is in the file: of labels 1, else MHAS_FILE_RANK. */
int mhas_file_rank(const mhas_file *file);

/* Is it a shape that can be used: every extent at least 1, all numbers together addressable? */
mhas_code mhas_file_check_shape(const mhas_file *file, mhas_error *error);

#endif
