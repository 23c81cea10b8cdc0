/*
 * The scheduler: which rows go out next, to whom, how many at once. It knows of no MPI and no clock.
 */
#include "farm/scheduler.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
  CHUNK_MOST = 4096,       /* default */
  CHUNK_CEILING = 1 << 20, /* keeps messages and buffers small whatever is asked for */
  GUIDE = 4,               /* a chunk is at most 1 / (GUIDE workers) of what is left, so that all end together */
  SMALL_PER_CHUNK = 16,    /* rows of which at least so many fill a chunk are not sorted by cost */
  LOSSES_MOST = 3,         /* default */
  FIRST_SHARE = 16         /* chunks are so much shorter while nothing is known */
};
static const double CHUNK_SECONDS = 0.25;  /* default, if there are few workers; with many, so much for each, */
static const double MASTER_SECONDS = 2e-4; /* so that a master that takes 10 us a message is busy a tenth of its time */
static const double SNAPSHOT_SECONDS = 0.5; /* between two, at least */

/* ---- creating ---- */

mhas_schedule_options mhas_schedule_defaults(const mhas_schedule_options *options) {
  mhas_schedule_options whole = {
      .chunk_seconds = CHUNK_SECONDS, .chunk_most = CHUNK_MOST, .max_failures = INT64_MAX, .losses_most = LOSSES_MOST};
  if (options != NULL) {
    whole.max_failures = options->max_failures;
    whole.static_teams = options->static_teams;
    whole.ends = options->ends;
    whole.silence = options->silence;
    whole.stall = options->stall;
    if (options->losses_most > 0) {
      whole.losses_most = options->losses_most;
    }
    if (options->chunk_seconds > 0.0) {
      whole.chunk_seconds = options->chunk_seconds;
    }
    if (options->chunk_most > 0) {
      whole.chunk_most = options->chunk_most < CHUNK_CEILING ? options->chunk_most : CHUNK_CEILING;
    }
  }
  return whole;
}

static mhas_code allocate(mhas_scheduler *scheduler, mhas_error *error) {
  static const char what[] = "the scheduler's workers";
  const size_t workers = (size_t)scheduler->worker_count;
  MHAS_TRY(mhas_alloc(&scheduler->assignments, workers, sizeof *scheduler->assignments, what, error));
  MHAS_TRY(mhas_alloc(&scheduler->mates, workers, sizeof *scheduler->mates, what, error));
  MHAS_TRY(mhas_alloc(&scheduler->running, workers, sizeof *scheduler->running, what, error));
  MHAS_TRY(mhas_alloc(&scheduler->members, workers, sizeof *scheduler->members, what, error));
  MHAS_TRY(mhas_alloc(&scheduler->leaders, workers, sizeof *scheduler->leaders, what, error));
  MHAS_TRY(mhas_alloc(&scheduler->presence, workers, sizeof *scheduler->presence, what, error));
  MHAS_TRY(mhas_alloc(&scheduler->idle, workers / 64 + 1, sizeof *scheduler->idle, what, error));
  return mhas_heap_create(scheduler->worker_count, &scheduler->soonest, error);
}

void mhas_schedule_set_idle(mhas_scheduler *scheduler, int worker) {
  const mhas_presence *presence = &scheduler->presence[worker];
  if (presence->state != MHAS_PRESENT || presence->died || presence->doomed || presence->banned) {
    return;
  }
  scheduler->idle[worker / 64] |= (uint64_t)1 << (worker % 64);
  scheduler->idle_count++;
  if (worker < scheduler->idle_from) {
    scheduler->idle_from = worker;
  }
}

void mhas_schedule_set_busy(mhas_scheduler *scheduler, int worker) {
  scheduler->idle[worker / 64] &= ~((uint64_t)1 << (worker % 64));
  scheduler->idle_count--;
}

mhas_code mhas_scheduler_create(const int64_t *rows, const float *flops, const int32_t *ranks, int64_t count,
                                int workers, const mhas_schedule_options *options, mhas_scheduler **scheduler,
                                mhas_error *error) {
  *scheduler = NULL;
  if (count < 0 || workers < 1) {
    return mhas_fail(error, MHAS_INTERNAL, "a scheduler of %" PRId64 " rows for %d workers", count, workers);
  }
  mhas_scheduler *made = NULL;
  MHAS_TRY(mhas_alloc(&made, 1, sizeof *made, "the scheduler", error));
  made->options = mhas_schedule_defaults(options);
  made->count = count;
  made->worker_count = workers;
  if (options == NULL || options->chunk_seconds <= 0.0) {
    made->options.chunk_seconds = fmax(CHUNK_SECONDS, MASTER_SECONDS * workers);
  }
  mhas_pace_start(&made->pace);
  mhas_pace_start(&made->team_pace);
  const double small_flops = made->options.chunk_seconds / SMALL_PER_CHUNK / made->pace.per_flop;
  mhas_code code = mhas_queue_create(rows, flops, ranks, count, workers, small_flops, &made->queue, error);
  if (code == MHAS_OK) {
    code = allocate(made, error);
  }
  if (code != MHAS_OK) {
    mhas_scheduler_destroy(made);
    return code;
  }
  made->present = workers;
  for (int worker = 0; worker < workers; worker++) {
    made->leaders[worker] = -1;
    mhas_schedule_set_idle(made, worker);
  }
  *scheduler = made;
  return MHAS_OK;
}

void mhas_scheduler_destroy(mhas_scheduler *scheduler) {
  if (scheduler != NULL) {
    mhas_queue_free(&scheduler->queue);
    mhas_heap_free(&scheduler->soonest);
    mhas_free(scheduler->assignments);
    mhas_free(scheduler->mates);
    mhas_free(scheduler->running);
    mhas_free(scheduler->members);
    mhas_free(scheduler->idle);
    mhas_free(scheduler->leaders);
    mhas_free(scheduler->presence);
    for (mhas_again *row = scheduler->again; row != NULL;) {
      mhas_again *next = row->next;
      mhas_free(row);
      row = next;
    }
    mhas_free(scheduler);
  }
}

/* ---- orders ---- */

bool mhas_schedule_closed(const mhas_scheduler *scheduler) {
  return scheduler->stopped || scheduler->failed > scheduler->options.max_failures;
}

static void start_clock(mhas_scheduler *scheduler, double now) {
  if (!scheduler->started) {
    scheduler->started = true;
    scheduler->start = now;
    scheduler->snapshots[0] = (mhas_snapshot){now, 0};
    scheduler->snapshot_count = 1;
  }
}

static double chunk_aim(const mhas_scheduler *scheduler) {
  const mhas_queue *queue = &scheduler->queue;
  const double aim = scheduler->options.chunk_seconds / (scheduler->pace.learned == 0 ? FIRST_SHARE : 1);
  const double left = mhas_pace_seconds(&scheduler->pace, queue->flops_left, (double)queue->left);
  return fmin(aim, left / ((double)GUIDE * scheduler->worker_count));
}

/* For the first `ranks` of scheduler->members. */
static void give_order(mhas_scheduler *scheduler, const mhas_assignment *assignment, mhas_order *order) {
  const int leader = scheduler->members[0];
  scheduler->assignments[leader] = *assignment;
  scheduler->assignments[leader].place = scheduler->running_count;
  scheduler->running[scheduler->running_count++] = leader;
  for (int i = 0; i < assignment->ranks; i++) {
    const int worker = scheduler->members[i];
    scheduler->leaders[worker] = leader;
    scheduler->mates[worker] = i + 1 < assignment->ranks ? scheduler->members[i + 1] : -1;
    mhas_schedule_set_busy(scheduler, worker);
  }
  scheduler->rows_running += assignment->count;
  *order = (mhas_order){scheduler->members, assignment->rows, assignment->count, assignment->ranks};
}

static void start_again(mhas_scheduler *scheduler, mhas_again *row, double now, mhas_order *order) {
  row->state = MHAS_AGAIN_RUNS;
  scheduler->again_waiting--;
  const mhas_assignment assignment = {
      .rows = &row->row, .count = 1, .flops = (double)row->flops, .since = now, .ranks = row->ranks, .again = row};
  give_order(scheduler, &assignment, order);
}

/* A row that needs a team: one that waits for the first time, or again. */
typedef struct team_row {
  mhas_wide_row *wide;
  mhas_again *again;
  int ranks; /* 0: there is none */
} team_row;

static void start_team(mhas_scheduler *scheduler, const team_row *row, double now, mhas_order *order) {
  scheduler->gathering.planned = false;
  if (row->again != NULL) {
    start_again(scheduler, row->again, now, order);
    return;
  }
  mhas_wide_row *wide = row->wide;
  mhas_queue_take_wide(&scheduler->queue, wide);
  const mhas_assignment assignment = {
      .rows = &wide->row, .count = 1, .flops = (double)wide->flops, .since = now, .ranks = wide->ranks};
  give_order(scheduler, &assignment, order);
}

/* Seconds that the clock leaves for a row, of which there is an estimate or not. */
static double time_left(const mhas_scheduler *scheduler, bool known, double now) {
  const double ends = scheduler->options.ends;
  return ends <= 0.0 || (!known && now < ends) ? INFINITY : ends - now;
}

/* One-rank rows of up to `room` seconds. */
static bool start_chunk(mhas_scheduler *scheduler, int worker, double room, double now, mhas_order *order) {
  scheduler->members[0] = worker;
  mhas_again *again = mhas_again_find(scheduler, false, room);
  if (again != NULL) {
    start_again(scheduler, again, now, order);
    return true;
  }
  mhas_assignment assignment = {.since = now, .ranks = 1};
  assignment.rows = mhas_queue_take(&scheduler->queue, &scheduler->pace, scheduler->options.chunk_most,
                                    chunk_aim(scheduler), room, &assignment.count, &assignment.flops);
  if (assignment.rows == NULL) {
    return false;
  }
  give_order(scheduler, &assignment, order);
  return true;
}

/* The widest and costliest row for which there are time and workers. */
static team_row next_team(mhas_scheduler *scheduler, double now) {
  const double left = time_left(scheduler, scheduler->pace.learned + scheduler->team_pace.learned > 0, now);
  mhas_again *again = mhas_again_find(scheduler, true, left);
  if (again != NULL) {
    return (team_row){.again = again, .ranks = again->ranks};
  }
  mhas_wide_row *wide = mhas_queue_wide(&scheduler->queue, NULL);
  while (wide != NULL && (!mhas_team_possible(scheduler, wide->ranks) ||
                          mhas_schedule_seconds(scheduler, (double)wide->flops, 1.0, wide->ranks) > left)) {
    wide = mhas_queue_wide(&scheduler->queue, wide);
  }
  return (team_row){.wide = wide, .ranks = wide == NULL ? 0 : wide->ranks};
}

/* One-rank rows for who is idle while a team of so many gathers. */
static bool fill_in(mhas_scheduler *scheduler, int ranks, double now, mhas_order *order) {
  mhas_gathering *gathering = &scheduler->gathering;
  if (!gathering->planned) {
    mhas_team_plan(scheduler, ranks, now);
  }
  double most = 0.0;
  const int worker = mhas_team_leaves(scheduler, ranks, now, &most);
  const double room = fmin(most, time_left(scheduler, scheduler->pace.learned > 0, now));
  if (worker < 0 || !start_chunk(scheduler, worker, room, now, order)) {
    return false;
  }
  const mhas_assignment *given = &scheduler->assignments[worker];
  if (gathering->spare > 0 && now + mhas_schedule_rest(scheduler, given, now) > gathering->until) {
    gathering->spare--;
  }
  return true;
}

bool mhas_scheduler_next(mhas_scheduler *scheduler, double now, mhas_order *order) {
  start_clock(scheduler, now);
  if (mhas_schedule_closed(scheduler) || scheduler->idle_count == 0) {
    return false;
  }
  const team_row team = next_team(scheduler, now);
  if (team.ranks == 0) {
    scheduler->gathering.planned = false; /* there may have been one that there is no time for any more */
    const int worker = mhas_schedule_idle_from(scheduler, 0);
    const double room = time_left(scheduler, scheduler->pace.learned > 0, now);
    const bool given = start_chunk(scheduler, worker, room, now, order);
    scheduler->too_late = !given && scheduler->queue.left + scheduler->queue.wide_left + scheduler->again_waiting > 0;
    return given;
  }
  if (mhas_team_find(scheduler, team.ranks)) {
    start_team(scheduler, &team, now, order);
    return true;
  }
  return scheduler->queue.left + scheduler->again_waiting > 0 && fill_in(scheduler, team.ranks, now, order);
}

/* ---- ends ---- */

static mhas_code check_outcome(const mhas_scheduler *scheduler, int number, const uint8_t *outcome, int64_t count,
                               mhas_error *error) {
  if (number < 0 || number >= scheduler->worker_count) {
    return mhas_fail(error, MHAS_INTERNAL, "worker %d of %d has ended a chunk", number, scheduler->worker_count);
  }
  const mhas_assignment *answering = &scheduler->assignments[number];
  if (answering->count == 0) {
    return mhas_fail(error, MHAS_INTERNAL, "worker %d has ended %" PRId64 " rows, but had none", number, count);
  }
  if (answering->count != count) {
    return mhas_fail(error, MHAS_INTERNAL, "worker %d has ended %" PRId64 " rows, but had %" PRId64, number, count,
                     answering->count);
  }
  for (int64_t i = 0; i < count; i++) {
    if (outcome[i] > MHAS_FAILED) {
      return mhas_fail(error, MHAS_INTERNAL, "worker %d says that row %" PRId64 " ended with status %d", number,
                       answering->rows[i], outcome[i]);
    }
  }
  return MHAS_OK;
}

static void take_snapshot(mhas_scheduler *scheduler, double now) {
  const mhas_snapshot *last = &scheduler->snapshots[(scheduler->snapshot_count - 1) % MHAS_SNAPSHOTS];
  if (now - last->time >= SNAPSHOT_SECONDS) {
    scheduler->snapshots[scheduler->snapshot_count++ % MHAS_SNAPSHOTS] =
        (mhas_snapshot){now, scheduler->done + scheduler->failed};
  }
}

void mhas_schedule_release(mhas_scheduler *scheduler, int leader) {
  mhas_assignment *answering = &scheduler->assignments[leader];
  const int last = scheduler->running[--scheduler->running_count];
  scheduler->running[answering->place] = last;
  scheduler->assignments[last].place = answering->place;
  scheduler->rows_running -= answering->count;
  answering->count = 0;
  for (int worker = leader; worker >= 0; worker = scheduler->mates[worker]) {
    scheduler->leaders[worker] = -1;
    mhas_schedule_set_idle(scheduler, worker);
  }
}

static double flops_of(const mhas_scheduler *scheduler, const mhas_assignment *assignment, int64_t i) {
  return assignment->count == 1 ? assignment->flops : mhas_queue_flops(&scheduler->queue, &assignment->rows[i]);
}

/* A row that is to be handed out again, by who has it. */
static void leave(mhas_scheduler *scheduler, const mhas_assignment *answering, int64_t i) {
  if (answering->again != NULL) {
    answering->again->state = MHAS_AGAIN_WAITS;
    scheduler->again_waiting++;
  } else {
    mhas_again_add(scheduler, answering->rows[i], (float)flops_of(scheduler, answering, i), answering->ranks, 0);
  }
}

mhas_code mhas_scheduler_ended(mhas_scheduler *scheduler, int worker, double now, const uint8_t *outcome, int64_t count,
                               mhas_error *error) {
  if (worker >= 0 && worker < scheduler->worker_count && !mhas_scheduler_has(scheduler, worker)) {
    return mhas_late_answer(scheduler, worker, outcome, count, error);
  }
  MHAS_TRY(check_outcome(scheduler, worker, outcome, count, error));
  const mhas_assignment *answering = &scheduler->assignments[worker];
  int64_t done = 0;
  double flops = 0.0; /* of the rows that are done: what failed ended early */
  bool whole = true;
  for (int64_t i = 0; i < count; i++) {
    if (answering->again != NULL && answering->again->state == MHAS_AGAIN_ENDED) {
      whole = false; /* a late answer of another worker has come first */
      break;
    }
    switch (outcome[i]) {
      case MHAS_DONE:
        done++;
        flops += flops_of(scheduler, answering, i);
        break;
      case MHAS_FAILED: scheduler->failed++; break;
      case MHAS_RUNNING:
        leave(scheduler, answering, i);
        whole = false;
        break;
      default:
        scheduler->given_up++;
        whole = false;
        break;
    }
  }
  if (answering->again != NULL && answering->again->state == MHAS_AGAIN_RUNS) {
    answering->again->state = MHAS_AGAIN_ENDED;
  }
  scheduler->done += done;
  if (whole && 2 * done >= count) {
    mhas_pace *pace = answering->ranks > 1 ? &scheduler->team_pace : &scheduler->pace;
    mhas_pace_learn(pace, flops / answering->ranks, (double)count, now - answering->since);
  }
  mhas_schedule_release(scheduler, worker);
  take_snapshot(scheduler, now);
  return MHAS_OK;
}

void mhas_scheduler_stop(mhas_scheduler *scheduler) { scheduler->stopped = true; }
