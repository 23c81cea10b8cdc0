/*
 * The scheduler: which rows go out next, how many at once, and how long it will take. It knows of no MPI and no clock.
 *
 * Rows lie sorted once and for all by cost, quarter octave by quarter octave, rows ascending within one; handing out is
 * moving a cursor, so no row can go out twice or be forgotten.
 */
#include "farm/scheduler.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "farm/pace.h"

enum {
  BUCKETS = 1024,          /* sign-less exponent (8 bits) and the first 2 bits of the mantissa of a float */
  BUCKET_SHIFT = 21,       /* drops the other 21 bits */
  CHUNK_MOST = 4096,       /* default */
  CHUNK_CEILING = 1 << 20, /* keeps messages and buffers small whatever is asked for */
  GUIDE = 4,               /* a chunk is at most 1 / (GUIDE workers) of what is left, so that all end together */
  SNAPSHOTS = 20,          /* of the count of ended rows, for the rate */
  SMALL_PER_CHUNK = 16,    /* rows of which at least so many fill a chunk are not sorted by cost */
  FIRST_SHARE = 16         /* chunks are so much shorter while nothing is known */
};
static const double CHUNK_SECONDS = 0.25;   /* default */
static const double SNAPSHOT_SECONDS = 0.5; /* between two, at least */
static const double OVERRUN_SHARE = 0.1;    /* a chunk over its time is expected to need so much of it again */

typedef struct worker {
  int64_t first, count; /* its chunk, in sorted order; count 0: idle */
  double flops;         /* of the chunk */
  double since;         /* when it was handed out */
} worker;

typedef struct snapshot {
  double time;
  int64_t ended;
} snapshot;

struct mhas_scheduler {
  mhas_schedule_options options;
  int64_t count;
  int64_t *rows;     /* in the order of handing out */
  float *flops;      /* of the same rows */
  int64_t next;      /* the first row not handed out */
  double flops_left; /* of the rows from there on */
  uint32_t bottom;   /* buckets up to this one are one */

  worker *workers;
  int worker_count, busy;
  int64_t done, failed, given_up, running;
  bool stopped;

  mhas_pace pace;
  bool started; /* the first event sets the clock */
  double start;
  snapshot snapshots[SNAPSHOTS];
  int64_t snapshot_count;
};

/* ---- creating ---- */

static float sane_flops(float flops) {
  if (!(flops > 0.0f)) { /* NaN too */
    return 0.0f;
  }
  return flops > FLT_MAX ? FLT_MAX : flops;
}

/* Rises with the cost. The bits of positive floats are ordered as the floats are. */
static uint32_t raw_bucket(float flops) {
  uint32_t bits = 0;
  memcpy(&bits, &flops, sizeof bits);
  return bits >> BUCKET_SHIFT;
}

static uint32_t bucket_of(const mhas_scheduler *scheduler, float flops) {
  const uint32_t bucket = raw_bucket(flops);
  return bucket < scheduler->bottom ? scheduler->bottom : bucket;
}

/* A stable counting sort, the costliest bucket first. */
static void sort_rows(mhas_scheduler *scheduler, const int64_t *rows, const float *flops) {
  int64_t place[BUCKETS] = {0};
  for (int64_t i = 0; i < scheduler->count; i++) {
    place[bucket_of(scheduler, sane_flops(flops[i]))]++;
  }
  int64_t start = 0;
  for (int bucket = BUCKETS - 1; bucket >= 0; bucket--) {
    const int64_t size = place[bucket];
    place[bucket] = start;
    start += size;
  }
  for (int64_t i = 0; i < scheduler->count; i++) {
    const float cost = sane_flops(flops[i]);
    const int64_t at = place[bucket_of(scheduler, cost)]++;
    scheduler->rows[at] = rows[i];
    scheduler->flops[at] = cost;
    scheduler->flops_left += (double)cost;
  }
}

mhas_schedule_options mhas_schedule_defaults(const mhas_schedule_options *options) {
  mhas_schedule_options whole = {CHUNK_SECONDS, CHUNK_MOST, INT64_MAX};
  if (options != NULL) {
    whole.max_failures = options->max_failures;
    if (options->chunk_seconds > 0.0) {
      whole.chunk_seconds = options->chunk_seconds;
    }
    if (options->chunk_most > 0) {
      whole.chunk_most = options->chunk_most < CHUNK_CEILING ? options->chunk_most : CHUNK_CEILING;
    }
  }
  return whole;
}

mhas_code mhas_scheduler_create(const int64_t *rows, const float *flops, int64_t count, int workers,
                                const mhas_schedule_options *options, mhas_scheduler **scheduler, mhas_error *error) {
  *scheduler = NULL;
  if (count < 0 || workers < 1) {
    return mhas_fail(error, MHAS_INTERNAL, "a scheduler of %" PRId64 " rows for %d workers", count, workers);
  }
  mhas_scheduler *made = NULL;
  MHAS_TRY(mhas_alloc(&made, 1, sizeof *made, "the scheduler", error));
  made->options = mhas_schedule_defaults(options);
  made->count = count;
  made->worker_count = workers;
  mhas_pace_start(&made->pace);
  const double small_seconds = made->options.chunk_seconds / SMALL_PER_CHUNK;
  made->bottom = raw_bucket(sane_flops((float)(small_seconds / made->pace.per_flop)));
  mhas_code code = mhas_alloc(&made->rows, (size_t)count, sizeof *made->rows, "the queue's rows", error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&made->flops, (size_t)count, sizeof *made->flops, "the queue's costs", error);
  }
  if (code == MHAS_OK) {
    code = mhas_alloc(&made->workers, (size_t)workers, sizeof *made->workers, "the scheduler's workers", error);
  }
  if (code != MHAS_OK) {
    mhas_scheduler_destroy(made);
    return code;
  }
  sort_rows(made, rows, flops);
  *scheduler = made;
  return MHAS_OK;
}

void mhas_scheduler_destroy(mhas_scheduler *scheduler) {
  if (scheduler != NULL) {
    mhas_free(scheduler->rows);
    mhas_free(scheduler->flops);
    mhas_free(scheduler->workers);
    mhas_free(scheduler);
  }
}

/* ---- events ---- */

static bool too_many_failures(const mhas_scheduler *scheduler) {
  return scheduler->failed > scheduler->options.max_failures;
}

static int64_t rows_left(const mhas_scheduler *scheduler) {
  const bool closed = scheduler->stopped || too_many_failures(scheduler);
  return closed ? 0 : scheduler->count - scheduler->next;
}

/* Of the rows that will still be handed out. */
static double seconds_left(const mhas_scheduler *scheduler) {
  const int64_t rows = rows_left(scheduler);
  return rows == 0 ? 0.0 : mhas_pace_seconds(&scheduler->pace, scheduler->flops_left, (double)rows);
}

static void start_clock(mhas_scheduler *scheduler, double now) {
  if (!scheduler->started) {
    scheduler->started = true;
    scheduler->start = now;
    scheduler->snapshots[0] = (snapshot){now, 0};
    scheduler->snapshot_count = 1;
  }
}

static double chunk_aim(const mhas_scheduler *scheduler) {
  const double aim = scheduler->options.chunk_seconds / (scheduler->pace.learned == 0 ? FIRST_SHARE : 1);
  return fmin(aim, seconds_left(scheduler) / ((double)GUIDE * scheduler->worker_count));
}

const int64_t *mhas_scheduler_next(mhas_scheduler *scheduler, int worker_number, double now, int64_t *count) {
  *count = 0;
  start_clock(scheduler, now);
  if (worker_number < 0 || worker_number >= scheduler->worker_count || scheduler->workers[worker_number].count > 0 ||
      rows_left(scheduler) == 0) {
    return NULL;
  }
  /* One bucket a chunk, so that its rows ascend. */
  const int64_t first = scheduler->next;
  const uint32_t bucket = bucket_of(scheduler, scheduler->flops[first]);
  const double aim = chunk_aim(scheduler);
  const int64_t most = scheduler->options.chunk_most;
  int64_t taken = 0;
  double flops = 0.0;
  while (taken < most && first + taken < scheduler->count) {
    const float cost = scheduler->flops[first + taken];
    const double longer = mhas_pace_seconds(&scheduler->pace, flops + (double)cost, (double)(taken + 1));
    if (taken > 0 && (bucket_of(scheduler, cost) != bucket || longer > aim)) {
      break;
    }
    flops += (double)cost;
    taken++;
  }
  scheduler->workers[worker_number] = (worker){first, taken, flops, now};
  scheduler->next += taken;
  scheduler->flops_left = scheduler->next == scheduler->count ? 0.0 : fmax(scheduler->flops_left - flops, 0.0);
  scheduler->running += taken;
  scheduler->busy++;
  *count = taken;
  return scheduler->rows + first;
}

static mhas_code check_outcome(const mhas_scheduler *scheduler, int number, const uint8_t *outcome, int64_t count,
                               mhas_error *error) {
  if (number < 0 || number >= scheduler->worker_count) {
    return mhas_fail(error, MHAS_INTERNAL, "worker %d of %d has ended a chunk", number, scheduler->worker_count);
  }
  const worker *answering = &scheduler->workers[number];
  if (answering->count == 0) {
    return mhas_fail(error, MHAS_INTERNAL, "worker %d has ended %" PRId64 " rows, but had none", number, count);
  }
  if (answering->count != count) {
    return mhas_fail(error, MHAS_INTERNAL, "worker %d has ended %" PRId64 " rows, but had %" PRId64, number, count,
                     answering->count);
  }
  for (int64_t i = 0; i < count; i++) {
    if (outcome[i] != MHAS_PENDING && outcome[i] != MHAS_DONE && outcome[i] != MHAS_FAILED) {
      return mhas_fail(error, MHAS_INTERNAL, "worker %d says that row %" PRId64 " ended with status %d", number,
                       scheduler->rows[answering->first + i], outcome[i]);
    }
  }
  return MHAS_OK;
}

static void take_snapshot(mhas_scheduler *scheduler, double now) {
  const snapshot *last = &scheduler->snapshots[(scheduler->snapshot_count - 1) % SNAPSHOTS];
  if (now - last->time >= SNAPSHOT_SECONDS) {
    scheduler->snapshots[scheduler->snapshot_count++ % SNAPSHOTS] =
        (snapshot){now, scheduler->done + scheduler->failed};
  }
}

mhas_code mhas_scheduler_ended(mhas_scheduler *scheduler, int worker_number, double now, const uint8_t *outcome,
                               int64_t count, mhas_error *error) {
  MHAS_TRY(check_outcome(scheduler, worker_number, outcome, count, error));
  worker *answering = &scheduler->workers[worker_number];
  int64_t done = 0;
  double flops = 0.0; /* of the rows that are done: what failed ended early */
  bool whole = true;
  for (int64_t i = 0; i < count; i++) {
    switch (outcome[i]) {
      case MHAS_DONE:
        done++;
        flops += (double)scheduler->flops[answering->first + i];
        break;
      case MHAS_FAILED: scheduler->failed++; break;
      default:
        scheduler->given_up++;
        whole = false;
        break;
    }
  }
  scheduler->done += done;
  if (whole && 2 * done >= count) {
    mhas_pace_learn(&scheduler->pace, flops, (double)count, now - answering->since);
  }
  scheduler->running -= count;
  scheduler->busy--;
  answering->count = 0;
  take_snapshot(scheduler, now);
  return MHAS_OK;
}

void mhas_scheduler_stop(mhas_scheduler *scheduler) { scheduler->stopped = true; }

/* ---- state ---- */

static double eta(const mhas_scheduler *scheduler, double now) {
  if (scheduler->busy == 0 && rows_left(scheduler) == 0) {
    return 0.0;
  }
  if (scheduler->pace.learned == 0) {
    return NAN;
  }
  double work = seconds_left(scheduler);
  double longest = 0.0;
  if (rows_left(scheduler) > 0) {
    longest = mhas_pace_seconds(&scheduler->pace, (double)scheduler->flops[scheduler->next], 1.0);
  }
  for (int i = 0; i < scheduler->worker_count; i++) {
    const worker *one = &scheduler->workers[i];
    if (one->count > 0) {
      const double spent = fmax(now - one->since, 0.0);
      const double whole = mhas_pace_seconds(&scheduler->pace, one->flops, (double)one->count);
      const double rest = fmax(whole - spent, OVERRUN_SHARE * spent);
      work += rest;
      longest = fmax(longest, rest);
    }
  }
  return fmax(work / scheduler->worker_count, longest);
}

static double rate(const mhas_scheduler *scheduler, double now) {
  const int64_t oldest = scheduler->snapshot_count > SNAPSHOTS ? scheduler->snapshot_count - SNAPSHOTS : 0;
  const snapshot *from = &scheduler->snapshots[oldest % SNAPSHOTS];
  const double seconds = now - from->time;
  return seconds > 0.0 ? (double)(scheduler->done + scheduler->failed - from->ended) / seconds : 0.0;
}

void mhas_scheduler_state(const mhas_scheduler *scheduler, double now, mhas_farm_state *state) {
  *state = (mhas_farm_state){
      .total = scheduler->count,
      .done = scheduler->done,
      .failed = scheduler->failed,
      .given_up = scheduler->given_up,
      .running = scheduler->running,
      .busy = scheduler->busy,
      .workers = scheduler->worker_count,
      .elapsed = scheduler->started ? fmax(now - scheduler->start, 0.0) : 0.0,
      .rows_per_second = scheduler->started ? rate(scheduler, now) : 0.0,
      .eta = eta(scheduler, now),
      .stopping = scheduler->stopped,
      .too_many_failures = too_many_failures(scheduler),
  };
}
