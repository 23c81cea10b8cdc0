/* A result file open for writing on this rank: what session.c opens and write.c fills. */
#ifndef MHASWEEP_STORE_SESSION_H
#define MHASWEEP_STORE_SESSION_H

#include "store/layout.h"

struct mhas_store {
  char *path;
  MPI_Comm comm;
  const mhas_experiment *experiment;
  store_layout layout;
  int64_t points;
  hid_t file;
  hid_t *datasets; /* [layout.count]; those of parameters stay closed */
  hid_t *types;    /* [layout.count] in memory */
  char hostname[MHAS_HOSTNAME_LENGTH];
  int rank; /* in comm */

  int64_t capacity; /* rows that the buffers hold */
  int64_t *rows;    /* [capacity] whose data waits in the buffers */
  char **buffers;   /* [layout.count][capacity rows]; none for parameters, status and attempts */
  int64_t used;
  int64_t *ended_rows;    /* [capacity] whose status is to be written: those above and the given-up ones */
  int8_t *ended_statuses; /* [capacity] */
  int64_t ended;
};

/* Does the column wait in a buffer of its own? Those before the results never change, status and attempts have their
 * own ways. */
bool store_is_buffered(const store_layout *layout, int column);

#endif
