/*
 * When to stop: signals and the clock in, how far the stop has come out. Pure.
 */
#ifndef MHASWEEP_FARM_STOPPING_H
#define MHASWEEP_FARM_STOPPING_H

#include <stdbool.h>

typedef enum mhas_stop_level {
  MHAS_STOP_NONE,
  MHAS_STOP_DRAIN,  /* no row starts any more; running ones may finish */
  MHAS_STOP_ABANDON /* running rows give up too */
} mhas_stop_level;

typedef struct mhas_stopping {
  double grace_seconds; /* from the first signal to abandoning */
  double ends;          /* when all work has to be over; 0: never */
  bool signalled;
  double since;   /* of the first signal */
  int first_wave; /* signals that count as the first one */
} mhas_stopping;

/* `signals`: the most that any one rank has caught so far. The answer never goes back a level. */
mhas_stop_level mhas_stopping_level(mhas_stopping *stopping, int signals, double now);

#endif
