/* What tests of the scheduler share: rows for it, what it answers, and random events. */
#ifndef MHASWEEP_TESTS_SCHEDULE_H
#define MHASWEEP_TESTS_SCHEDULE_H

#include <stdlib.h>

#include "close.h"
#include "mhasweep/farm.h"

/* Rows first, first + 1 ... of these costs and, unless it is NULL, for teams of so many ranks. */
static inline mhas_scheduler *scheduler_from(int64_t first, const float *flops, const int32_t *ranks, int64_t count,
                                             int workers, const mhas_schedule_options *options) {
  mhas_scheduler *scheduler = NULL;
  mhas_error error;
  int64_t *rows = calloc((size_t)count + 1, sizeof *rows);
  assert_non_null(rows);
  for (int64_t i = 0; i < count; i++) {
    rows[i] = first + i;
  }
  assert_int_equal(mhas_scheduler_create(rows, flops, ranks, count, workers, options, &scheduler, &error), MHAS_OK);
  free(rows);
  return scheduler;
}

static inline void expect_none(mhas_scheduler *scheduler, double now) {
  mhas_order order;
  assert_false(mhas_scheduler_next(scheduler, now, &order));
}

/* The one row of a worker, or of the team that it answers for, has ended. */
static inline void end_one(mhas_scheduler *scheduler, int worker, double now, mhas_status status) {
  const uint8_t outcome = (uint8_t)status;
  mhas_error error;
  assert_int_equal(mhas_scheduler_ended(scheduler, worker, now, &outcome, 1, &error), MHAS_OK);
}

static inline mhas_farm_state state_at(const mhas_scheduler *scheduler, double now) {
  mhas_farm_state state;
  mhas_scheduler_state(scheduler, now, &state);
  return state;
}

/* ---- random events, the same for the same state at the start ---- */

static uint64_t random_state;

static inline double uniform(void) { /* splitmix64 */
  uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static inline int below(int bound) { return (int)(uniform() * bound); }

static inline double normal(void) { return sqrt(-2.0 * log(1.0 - uniform())) * cos(6.283185307179586 * uniform()); }

#endif
