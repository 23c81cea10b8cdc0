/*
 * A discrete-event run of the scheduler: its workers are entries in a heap of the times at which they will have ended.
 * The master takes part: it handles one message after the other, so that too many small orders show.
 */
#include <math.h>
#include <string.h>

#include "farm/heap.h"
#include "farm/scheduler.h"
#include "farm/workload.h"

typedef struct simulation {
  const mhas_simulation_options *options;
  const float *flops;
  mhas_scheduler *scheduler;
  int64_t *rows;    /* [count] 0, 1, 2 ... */
  int64_t *given;   /* [workers]: rows of the order for which each one answers */
  uint8_t *outcome; /* [chunk_most]: done */
  mhas_heap ends;
  double master; /* when the master will be free */
  mhas_simulation *result;
} simulation;

static mhas_code prepare(simulation *self, const int32_t *ranks, int64_t count, mhas_error *error) {
  const mhas_simulation_options *options = self->options;
  const size_t workers = (size_t)options->workers;
  const size_t most = (size_t)mhas_schedule_defaults(&options->schedule).chunk_most;
  static const char what[] = "the simulation";
  MHAS_TRY(mhas_alloc(&self->rows, (size_t)count, sizeof *self->rows, what, error));
  for (int64_t i = 0; i < count; i++) {
    self->rows[i] = i;
  }
  MHAS_TRY(mhas_scheduler_create(self->rows, self->flops, ranks, count, options->workers, &options->schedule,
                                 &self->scheduler, error));
  MHAS_TRY(mhas_alloc(&self->given, workers, sizeof *self->given, what, error));
  MHAS_TRY(mhas_alloc(&self->outcome, most, sizeof *self->outcome, what, error));
  memset(self->outcome, MHAS_DONE, most);
  return mhas_heap_create(options->workers, &self->ends, error);
}

static void release(simulation *self) {
  mhas_scheduler_destroy(self->scheduler);
  mhas_heap_free(&self->ends);
  mhas_free(self->rows);
  mhas_free(self->given);
  mhas_free(self->outcome);
}

/* What the row really takes. */
static double seconds_of(const simulation *self, int64_t row, int ranks) {
  const mhas_simulation_options *options = self->options;
  const double flops = fmax((double)self->flops[row], 0.0);
  const double expected = options->seconds_per_flop * flops / ranks + options->seconds_per_row;
  if (options->noise == 0.0) {
    return expected;
  }
  double normal = 0.0;
  const mhas_random random = {.seed = options->seed};
  mhas_random_normal(random, MHAS_STREAM_SIMULATION, (uint64_t)row, 1, &normal);
  return expected * exp(options->noise * (normal - 0.5 * options->noise));
}

static void spend(simulation *self, int messages) {
  const double seconds = messages * self->options->seconds_per_message;
  self->master += seconds;
  self->result->master += seconds;
  self->result->messages += messages;
}

static void start(simulation *self, const mhas_order *order) {
  mhas_simulation *result = self->result;
  const int leader = order->workers[0];
  double seconds = 0.0;
  for (int64_t i = 0; i < order->count; i++) {
    const double row = seconds_of(self, order->rows[i], order->ranks);
    result->longest = fmax(result->longest, row);
    seconds += row;
  }
  result->rows += order->count;
  result->teams += order->ranks > 1;
  result->work += seconds * order->ranks;
  self->given[leader] = order->count;
  spend(self, order->ranks);
  mhas_heap_push(&self->ends, (mhas_timed){self->master + seconds, leader});
}

static mhas_code play(simulation *self, mhas_error *error) {
  mhas_order order;
  while (mhas_scheduler_next(self->scheduler, self->master, &order)) {
    start(self, &order);
  }
  while (self->ends.count > 0) {
    const mhas_timed end = mhas_heap_pop(&self->ends);
    self->master = fmax(self->master, end.time);
    spend(self, 1);
    MHAS_TRY(
        mhas_scheduler_ended(self->scheduler, end.thing, self->master, self->outcome, self->given[end.thing], error));
    while (mhas_scheduler_next(self->scheduler, self->master, &order)) {
      start(self, &order);
    }
  }
  self->result->makespan = self->master;
  return MHAS_OK;
}

mhas_code mhas_simulate(const float *flops, const int32_t *ranks, int64_t count, const mhas_simulation_options *options,
                        mhas_simulation *result, mhas_error *error) {
  memset(result, 0, sizeof *result);
  simulation self = {.options = options, .flops = flops, .result = result};
  mhas_code code = prepare(&self, ranks, count, error);
  if (code == MHAS_OK) {
    code = play(&self, error);
  }
  if (code == MHAS_OK) {
    mhas_farm_state state;
    mhas_scheduler_state(self.scheduler, self.master, &state);
    result->stranded = state.stranded;
    result->widest = state.widest;
    result->bound = fmax(result->work / options->workers, result->longest);
    if (state.done + state.stranded != count) {
      code = mhas_fail(error, MHAS_INTERNAL, "the scheduler left %lld rows undone",
                       (long long)(count - state.done - state.stranded));
    }
  }
  release(&self);
  return code;
}

mhas_code mhas_simulate_sweep(mhas_sweep *sweep, const mhas_simulation_options *options, mhas_simulation *result,
                              mhas_error *error) {
  mhas_rows *rows = NULL;
  mhas_workload work = {0};
  mhas_code code = mhas_rows_create(sweep, &rows, error);
  if (code == MHAS_OK) {
    code = mhas_workload_list(sweep, rows, NULL, -1, options->workers, &work, error);
  }
  if (code == MHAS_OK) {
    code = mhas_simulate(work.flops, work.ranks, work.count, options, result, error);
  }
  mhas_workload_free(&work);
  mhas_rows_destroy(rows);
  return code;
}
