/* An older result file from which rows are taken: reuse.c opens it, reuse_take.c copies. */
#ifndef MHASWEEP_STORE_REUSE_H
#define MHASWEEP_STORE_REUSE_H

#include "store/index.h"

struct mhas_reuse {
  mhas_sweep *sweep;
  char *path;
  hid_t file;
  int64_t points, records, singular_values;
  uint8_t *status; /* [points] */
  int64_t *ranks;  /* [points] */
  store_index *index;
  mhas_text refusal;
};

/* A MHAS_USAGE with half a sentence in *why becomes the file's refusal, and MHAS_OK; other codes are handed on. */
mhas_code store_reuse_refuse(mhas_reuse *reuse, mhas_code code, const mhas_error *why, mhas_error *error);

#endif
