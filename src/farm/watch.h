/* The inside of a mhas_watch. Private to the farm. */
#ifndef MHASWEEP_FARM_WATCH_H
#define MHASWEEP_FARM_WATCH_H

#include <pthread.h>
#include <stdatomic.h>

#include "farm/lifeline.h"
#include "mhasweep/farm.h"

struct mhas_watch {
  int workers;
  double silence;
  bool *lost;            /* [workers]: at the end of the farm; rank 0's */
  mhas_lifelines *lines; /* rank 0's; NULL once the farm has parted from ranks that are lost */
  mhas_lifeline *line;   /* of any other */
  /* While rank 0 is in what is collective: */
  bool guarding;
  pthread_t guard;
  atomic_bool at_ease;
  int status;
  const char *doing;
};

#endif
