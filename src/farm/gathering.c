/*
 * How a team comes together: who is idle, when enough workers will be, and who may do something else until then
 * (backfilling as in EASY: Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995).
 */
#include <math.h>

#include "farm/scheduler.h"

enum { WORD = 64 };

/* ---- idle workers ---- */

bool mhas_schedule_is_idle(const mhas_scheduler *scheduler, int worker) {
  return (scheduler->idle[worker / WORD] >> (worker % WORD) & 1U) != 0;
}

static int find_idle(const mhas_scheduler *scheduler, int from) {
  int worker = from;
  while (worker < scheduler->worker_count) {
    const uint64_t rest = scheduler->idle[worker / WORD] >> (worker % WORD);
    if (rest != 0) {
      return worker + __builtin_ctzll(rest);
    }
    worker += WORD - worker % WORD;
  }
  return -1;
}

int mhas_schedule_idle_from(mhas_scheduler *scheduler, int from) {
  if (from > scheduler->idle_from) {
    return find_idle(scheduler, from);
  }
  const int lowest = find_idle(scheduler, scheduler->idle_from);
  scheduler->idle_from = lowest < 0 ? scheduler->worker_count : lowest;
  return lowest;
}

/* ---- teams that can start now ---- */

static bool all_present(const mhas_scheduler *scheduler, int first, int ranks) {
  for (int worker = first; worker < first + ranks; worker++) {
    const mhas_presence *presence = &scheduler->presence[worker];
    if (presence->state != MHAS_PRESENT || presence->banned) {
      return false;
    }
  }
  return true;
}

bool mhas_team_possible(const mhas_scheduler *scheduler, int ranks) {
  if (!scheduler->options.static_teams || scheduler->present == scheduler->worker_count) {
    return ranks <= scheduler->present;
  }
  for (int first = 0; first + ranks <= scheduler->worker_count; first += ranks) {
    if (all_present(scheduler, first, ranks)) {
      return true;
    }
  }
  return false;
}

static bool all_idle(const mhas_scheduler *scheduler, int first, int ranks) {
  for (int worker = first; worker < first + ranks; worker++) {
    if (!mhas_schedule_is_idle(scheduler, worker)) {
      return false;
    }
  }
  return true;
}

static bool find_block(mhas_scheduler *scheduler, int ranks) {
  for (int first = 0; first + ranks <= scheduler->worker_count; first += ranks) {
    if (all_idle(scheduler, first, ranks)) {
      for (int i = 0; i < ranks; i++) {
        scheduler->members[i] = first + i;
      }
      return true;
    }
  }
  return false;
}

bool mhas_team_find(mhas_scheduler *scheduler, int ranks) {
  if (scheduler->idle_count < ranks) {
    return false;
  }
  if (scheduler->options.static_teams) {
    return find_block(scheduler, ranks);
  }
  int worker = -1;
  for (int i = 0; i < ranks; i++) {
    worker = mhas_schedule_idle_from(scheduler, worker + 1);
    scheduler->members[i] = worker;
  }
  return true;
}

/* ---- teams that have to wait ---- */

/* Of all that runs, the soonest to end that together free enough workers; time is negative, so the last one is on top.
 */
static void plan_any(mhas_scheduler *scheduler, int ranks, double now) {
  const int needed = ranks - scheduler->idle_count;
  mhas_heap *soonest = &scheduler->soonest;
  soonest->count = 0;
  int freed = 0;
  for (int i = 0; i < scheduler->running_count; i++) {
    const int leader = scheduler->running[i];
    const mhas_assignment *assignment = &scheduler->assignments[leader];
    const double end = now + mhas_schedule_rest(scheduler, assignment, now);
    if (freed >= needed && end >= -soonest->items[0].time) {
      continue;
    }
    mhas_heap_push(soonest, (mhas_timed){-end, leader});
    freed += assignment->ranks;
    while (freed - scheduler->assignments[soonest->items[0].thing].ranks >= needed) {
      freed -= scheduler->assignments[mhas_heap_pop(soonest).thing].ranks;
    }
  }
  scheduler->gathering = (mhas_gathering){.planned = true, .until = -soonest->items[0].time, .spare = freed - needed};
}

/* The block whose last worker is the soonest to be idle. */
static void plan_block(mhas_scheduler *scheduler, int ranks, double now) {
  mhas_gathering best = {.planned = true, .until = INFINITY};
  for (int first = 0; first + ranks <= scheduler->worker_count; first += ranks) {
    if (!all_present(scheduler, first, ranks)) {
      continue;
    }
    double ready = now;
    for (int worker = first; worker < first + ranks; worker++) {
      if (!mhas_schedule_is_idle(scheduler, worker)) {
        const mhas_assignment *assignment = &scheduler->assignments[scheduler->leaders[worker]];
        ready = fmax(ready, now + mhas_schedule_rest(scheduler, assignment, now));
      }
    }
    if (ready < best.until) {
      best.until = ready;
      best.first = first;
    }
  }
  scheduler->gathering = best;
}

void mhas_team_plan(mhas_scheduler *scheduler, int ranks, double now) {
  if (scheduler->options.static_teams) {
    plan_block(scheduler, ranks, now);
  } else {
    plan_any(scheduler, ranks, now);
  }
}

int mhas_team_leaves(mhas_scheduler *scheduler, int ranks, double now, double *room) {
  const mhas_gathering *gathering = &scheduler->gathering;
  const int lowest = mhas_schedule_idle_from(scheduler, 0);
  *room = INFINITY;
  if (scheduler->options.static_teams) {
    if (lowest < gathering->first) {
      return lowest;
    }
    const int beyond = mhas_schedule_idle_from(scheduler, gathering->first + ranks);
    if (beyond >= 0) {
      return beyond;
    }
  } else if (gathering->spare > 0) {
    return lowest;
  }
  *room = gathering->until - now;
  return *room > 0.0 ? lowest : -1;
}
