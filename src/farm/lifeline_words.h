/* What goes over a lifeline: a greeting each way, then beats and words. Private to the lifelines. */
#ifndef MHASWEEP_FARM_LIFELINE_WORDS_H
#define MHASWEEP_FARM_LIFELINE_WORDS_H

#include "farm/lifeline.h"

/* A worker's; rank 0 answers with its token, backwards. */
typedef struct lifeline_greeting {
  uint8_t token[MHAS_LIFELINE_TOKEN];
  char host[MHAS_LIFELINE_HOST];
  int32_t worker;
} lifeline_greeting;

static inline void lifeline_reply(const uint8_t token[MHAS_LIFELINE_TOKEN], uint8_t reply[MHAS_LIFELINE_TOKEN]) {
  for (int i = 0; i < MHAS_LIFELINE_TOKEN; i++) {
    reply[i] = token[MHAS_LIFELINE_TOKEN - 1 - i];
  }
}

/* A worker's beat is a uint64_t; this one says that it leaves. */
#define LIFELINE_BYE UINT64_MAX

/* From rank 0, a byte each. */
enum { LIFELINE_BEAT = '.', LIFELINE_END = 'E', LIFELINE_LEAVE = 'L' };

/* Seconds between two beats. */
static inline double lifeline_period(double silence) {
  const double period = silence / 8.0;
  return period > 5.0 ? 5.0 : period;
}

#endif
