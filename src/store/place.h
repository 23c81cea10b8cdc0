/* A file that appears at its path complete or not at all. */
#ifndef MHASWEEP_STORE_PLACE_H
#define MHASWEEP_STORE_PLACE_H

#include "mhasweep/base.h"

typedef struct store_place {
  const char *path; /* the caller's */
  char *folder;     /* of path */
  char *temporary;  /* the file's name until it is complete, in the same folder; NULL if there is none */
  int file;         /* open for reading and writing; -1 if closed */
} store_place;

/* Creates an empty file beside `path`. MHAS_IO if something stands at `path`, or the folder is missing or read-only. */
mhas_code store_place_begin(const char *path, store_place *place, mhas_error *error);

/* Sets the space aside on the disk, so that HDF5 never meets a full one. MHAS_IO if there is too little: how much is
 * needed, how much there is. */
mhas_code store_place_reserve(const store_place *place, double bytes, mhas_error *error);

/* Brings the file to the disk and gives it its name, never in place of another file. */
mhas_code store_place_commit(store_place *place, mhas_error *error);

/* Removes the temporary file if it is still there, and frees what `begin` took. */
void store_place_end(store_place *place);

#endif
