/* What the scheduler expects and tells: how long chunks take, how far the run is, when it will end. */
#include <math.h>

#include "farm/scheduler.h"

static const double OVERRUN_SHARE = 0.1; /* a chunk over its time is expected to need so much of it again */

double mhas_schedule_seconds(const mhas_scheduler *scheduler, double flops, double rows, int ranks) {
  const bool known = ranks > 1 && scheduler->team_pace.learned > 0;
  return mhas_pace_seconds(known ? &scheduler->team_pace : &scheduler->pace, flops / ranks, rows);
}

double mhas_schedule_rest(const mhas_scheduler *scheduler, const mhas_assignment *assignment, double now) {
  const double spent = fmax(now - assignment->since, 0.0);
  const double whole =
      mhas_schedule_seconds(scheduler, assignment->flops, (double)assignment->count, assignment->ranks);
  return fmax(whole - spent, OVERRUN_SHARE * spent);
}

/* Of a row that is still to be handed out, the longest; and rank-seconds of all of them. */
static void look_ahead(const mhas_scheduler *scheduler, double *longest, double *work) {
  const mhas_queue *queue = &scheduler->queue;
  const mhas_wide_row *wide = mhas_queue_wide(queue, NULL);
  *longest = *work = 0.0;
  if (mhas_schedule_closed(scheduler)) {
    return;
  }
  if (queue->left > 0) {
    *longest = mhas_schedule_seconds(scheduler, mhas_queue_costliest(queue), 1.0, 1);
    *work = mhas_schedule_seconds(scheduler, queue->flops_left, (double)queue->left, 1);
  }
  if (wide != NULL) {
    const double seconds = mhas_schedule_seconds(scheduler, (double)wide->flops, 1.0, wide->ranks);
    const mhas_pace *pace = scheduler->team_pace.learned > 0 ? &scheduler->team_pace : &scheduler->pace;
    *longest = fmax(*longest, seconds);
    *work += mhas_pace_seconds(pace, queue->wide_flops_left, queue->wide_ranks_left);
  }
}

static double eta(const mhas_scheduler *scheduler, double now) {
  double longest = 0.0;
  double work = 0.0;
  look_ahead(scheduler, &longest, &work);
  if (scheduler->running_count == 0 && work == 0.0) {
    return 0.0;
  }
  if (scheduler->pace.learned == 0 && scheduler->team_pace.learned == 0) {
    return NAN;
  }
  for (int i = 0; i < scheduler->running_count; i++) {
    const mhas_assignment *assignment = &scheduler->assignments[scheduler->running[i]];
    const double rest = mhas_schedule_rest(scheduler, assignment, now);
    work += rest * assignment->ranks;
    longest = fmax(longest, rest);
  }
  return fmax(work / scheduler->worker_count, longest);
}

static double rate(const mhas_scheduler *scheduler, double now) {
  const int64_t oldest = scheduler->snapshot_count > MHAS_SNAPSHOTS ? scheduler->snapshot_count - MHAS_SNAPSHOTS : 0;
  const mhas_snapshot *from = &scheduler->snapshots[oldest % MHAS_SNAPSHOTS];
  const double seconds = now - from->time;
  return seconds > 0.0 ? (double)(scheduler->done + scheduler->failed - from->ended) / seconds : 0.0;
}

/* Whether rows are left for no other reason than the clock. */
static bool is_out_of_time(const mhas_scheduler *scheduler, double now) {
  const double ends = scheduler->options.ends;
  return ends > 0.0 && (now >= ends || (scheduler->too_late && scheduler->running_count == 0));
}

/* Rows that wait for teams that cannot be formed any more. */
static void count_stranded(const mhas_scheduler *scheduler, mhas_farm_state *state) {
  for (const mhas_wide_row *wide = mhas_queue_wide(&scheduler->queue, NULL); wide != NULL;
       wide = mhas_queue_wide(&scheduler->queue, wide)) {
    if (!mhas_team_possible(scheduler, wide->ranks)) {
      state->stranded++;
      state->widest = wide->ranks > state->widest ? wide->ranks : state->widest;
    }
  }
  for (const mhas_again *row = scheduler->again; row != NULL; row = row->next) {
    if (row->state == MHAS_AGAIN_WAITS && row->ranks > 1 && !mhas_team_possible(scheduler, row->ranks)) {
      state->stranded++;
      state->widest = row->ranks > state->widest ? row->ranks : state->widest;
    }
  }
}

void mhas_scheduler_state(const mhas_scheduler *scheduler, double now, mhas_farm_state *state) {
  int lost = 0;
  int busy = 0;
  for (int worker = 0; worker < scheduler->worker_count; worker++) {
    lost += !mhas_scheduler_has(scheduler, worker);
    busy += scheduler->leaders[worker] >= 0;
  }
  *state = (mhas_farm_state){
      .total = scheduler->count,
      .done = scheduler->done,
      .failed = scheduler->failed,
      .given_up = scheduler->given_up,
      .running = scheduler->rows_running,
      .stranded = scheduler->queue.stranded,
      .widest = scheduler->queue.widest,
      .busy = busy,
      .lost = lost,
      .workers = scheduler->worker_count,
      .elapsed = scheduler->started ? fmax(now - scheduler->start, 0.0) : 0.0,
      .rows_per_second = scheduler->started ? rate(scheduler, now) : 0.0,
      .eta = eta(scheduler, now),
      .stopping = scheduler->stopped,
      .out_of_time = is_out_of_time(scheduler, now),
      .too_many_failures = scheduler->failed > scheduler->options.max_failures,
  };
  if (lost > 0) {
    count_stranded(scheduler, state);
  }
}
