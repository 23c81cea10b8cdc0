/* The scheduler by scripts of events, by random schedules, and by simulated time. */
#include <float.h>
#include <string.h>

#include "farm/pace.h"
#include "schedule.h"

/* ---- helpers ---- */

static void *allocate(int64_t count, size_t size) {
  void *memory = NULL;
  assert_int_equal(mhas_alloc(&memory, (size_t)count, size, "a test's array", NULL), MHAS_OK);
  return memory;
}

/* Rows 10, 11, 12 ... of these costs. */
static mhas_scheduler *scheduler_of(const float *flops, int64_t count, int workers,
                                    const mhas_schedule_options *options) {
  return scheduler_from(10, flops, NULL, count, workers, options);
}

static mhas_scheduler *scheduler_of_equal(float flops, int64_t count, int workers,
                                          const mhas_schedule_options *options) {
  float *costs = allocate(count, sizeof *costs);
  for (int64_t i = 0; i < count; i++) {
    costs[i] = flops;
  }
  mhas_scheduler *scheduler = scheduler_of(costs, count, workers, options);
  mhas_free(costs);
  return scheduler;
}

/* The rows of the next order, which is for this worker; NULL, and a count of 0, if there is none. */
static const int64_t *next_rows(mhas_scheduler *scheduler, int worker, double now, int64_t *count) {
  mhas_order order = {0};
  *count = 0;
  if (!mhas_scheduler_next(scheduler, now, &order)) {
    return NULL;
  }
  assert_int_equal(order.ranks, 1);
  assert_int_equal(order.workers[0], worker);
  *count = order.count;
  return order.rows;
}

static void end_all(mhas_scheduler *scheduler, int worker, double now, int64_t count, mhas_status status) {
  uint8_t *outcome = allocate(count, 1);
  memset(outcome, (int)status, (size_t)count);
  mhas_error error;
  assert_int_equal(mhas_scheduler_ended(scheduler, worker, now, outcome, count, &error), MHAS_OK);
  mhas_free(outcome);
}

/* ---- order and chunks ---- */

static void nothing_to_do_is_over_at_once(void **unused) {
  (void)unused;
  mhas_scheduler *scheduler = scheduler_of(NULL, 0, 3, NULL);
  int64_t count = -1;
  assert_null(next_rows(scheduler, 0, 5.0, &count));
  assert_int_equal(count, 0);
  const mhas_farm_state state = state_at(scheduler, 6.0);
  assert_int_equal(state.total, 0);
  assert_int_equal(state.busy, 0);
  assert_true(state.eta == 0.0);
  mhas_scheduler_destroy(scheduler);
}

static void costly_rows_go_alone_and_first(void **unused) {
  (void)unused;
  const float flops[] = {1e9f, 8e9f, 1e9f, 64e9f, 8e9f, 8.1e9f};
  const int64_t expected[] = {13, 11, 14, 15, 10, 12};
  mhas_scheduler *scheduler = scheduler_of(flops, 6, 1, NULL);
  double now = 0.0;
  for (int i = 0; i < 6; i++) {
    int64_t count = 0;
    const int64_t *rows = next_rows(scheduler, 0, now, &count);
    assert_int_equal(count, 1);
    assert_int_equal(rows[0], expected[i]);
    now += 1e-9 * (double)flops[rows[0] - 10];
    end_all(scheduler, 0, now, count, MHAS_DONE);
  }
  assert_int_equal(state_at(scheduler, now).done, 6);
  mhas_scheduler_destroy(scheduler);
}

static void small_rows_go_in_row_order_whatever_they_cost(void **unused) {
  (void)unused;
  float flops[500];
  for (int i = 0; i < 500; i++) {
    flops[i] = i % 3 == 0 ? 0.0f : i % 3 == 1 ? 7e6f : 12.0f;
  }
  mhas_scheduler *scheduler = scheduler_of(flops, 500, 1, NULL);
  int64_t expected = 10;
  int64_t chunks = 0;
  double now = 0.0;
  for (;;) {
    int64_t count = 0;
    const int64_t *rows = next_rows(scheduler, 0, now, &count);
    if (count == 0) {
      break;
    }
    for (int64_t i = 0; i < count; i++) {
      assert_int_equal(rows[i], expected++);
    }
    chunks++;
    now += 1e-4 * (double)count;
    end_all(scheduler, 0, now, count, MHAS_DONE);
  }
  assert_int_equal(expected, 510);
  assert_true(chunks < 50);
  mhas_scheduler_destroy(scheduler);
}

static void chunks_start_small_and_grow_to_their_aim(void **unused) {
  (void)unused;
  const mhas_schedule_options options = {.chunk_seconds = 0.25, .chunk_most = 100000, .max_failures = INT64_MAX};
  mhas_scheduler *scheduler = scheduler_of_equal(1e3f, 1000000, 2, &options);
  int64_t count = 0;
  assert_non_null(next_rows(scheduler, 0, 0.0, &count));
  assert_in_range(count, 1, 64);
  end_all(scheduler, 0, 1e-4 * (double)count, count, MHAS_DONE);
  assert_non_null(next_rows(scheduler, 0, 1.0, &count));
  assert_in_range(count, 2490, 2510); /* 0.25 s of 0.1 ms each */
  mhas_scheduler_destroy(scheduler);
}

static void a_chunk_is_never_more_than_its_share_of_what_is_left(void **unused) {
  (void)unused;
  enum { ROWS = 20000, WORKERS = 7, MOST = 300 };
  const mhas_schedule_options options = {.chunk_seconds = 10.0, .chunk_most = MOST, .max_failures = INT64_MAX};
  mhas_scheduler *scheduler = scheduler_of_equal(1e4f, ROWS, WORKERS, &options);
  int64_t left = ROWS;
  int64_t largest = 0;
  double now = 0.0;
  while (left > 0) {
    int64_t count = 0;
    assert_non_null(next_rows(scheduler, 0, now, &count));
    const int64_t share = left / (4 * WORKERS);
    assert_true(count <= MOST && count <= (share > 1 ? share : 1));
    largest = count > largest ? count : largest;
    left -= count;
    now += 1e-3 * (double)count;
    end_all(scheduler, 0, now, count, MHAS_DONE);
  }
  assert_int_equal(largest, MOST);
  mhas_scheduler_destroy(scheduler);
}

static void costs_that_are_no_numbers_are_still_run(void **unused) {
  (void)unused;
  const float flops[] = {NAN, INFINITY, -5.0f, 1e12f, -INFINITY, FLT_MAX};
  mhas_scheduler *scheduler = scheduler_of(flops, 6, 1, NULL);
  bool seen[6] = {false};
  int64_t count = 0;
  const int64_t *rows = NULL;
  double now = 0.0;
  while ((rows = next_rows(scheduler, 0, now, &count)) != NULL) {
    for (int64_t i = 0; i < count; i++) {
      assert_false(seen[rows[i] - 10]);
      seen[rows[i] - 10] = true;
    }
    end_all(scheduler, 0, now += 1.0, count, MHAS_DONE);
  }
  assert_int_equal(state_at(scheduler, now).done, 6);
  mhas_scheduler_destroy(scheduler);
}

static void ten_million_rows_are_handed_out_once(void **unused) {
  (void)unused;
  enum { ROWS = 10000000 };
  float *flops = allocate(ROWS, sizeof *flops);
  random_state = 3;
  for (int64_t i = 0; i < ROWS; i++) {
    flops[i] = (float)(1e5 * exp(normal()));
  }
  mhas_scheduler *scheduler = scheduler_of(flops, ROWS, 1, NULL);
  uint8_t *seen = allocate(ROWS, 1);
  int64_t count = 0;
  int64_t chunks = 0;
  const int64_t *rows = NULL;
  double now = 0.0;
  while ((rows = next_rows(scheduler, 0, now, &count)) != NULL) {
    for (int64_t i = 0; i < count; i++) {
      assert_int_equal(seen[rows[i] - 10]++, 0);
      now += 2e-5 + 1e-9 * (double)flops[rows[i] - 10];
    }
    end_all(scheduler, 0, now, count, MHAS_DONE);
    chunks++;
  }
  assert_int_equal(state_at(scheduler, now).done, ROWS);
  assert_true(chunks < ROWS / 100);
  mhas_scheduler_destroy(scheduler);
  mhas_free(flops);
  mhas_free(seen);
}

/* ---- answers that make no sense ---- */

static void a_wrong_answer_is_refused_and_changes_nothing(void **unused) {
  (void)unused;
  mhas_scheduler *scheduler = scheduler_of_equal(1e3f, 1000, 3, NULL);
  int64_t count = 0;
  assert_non_null(next_rows(scheduler, 0, 0.0, &count));
  assert_non_null(next_rows(scheduler, 1, 0.0, &count));
  assert_true(count > 1);
  uint8_t outcome[1000];
  memset(outcome, MHAS_DONE, sizeof outcome);
  mhas_error error;
  const mhas_farm_state before = state_at(scheduler, 1.0);
  assert_int_equal(mhas_scheduler_ended(scheduler, 1, 1.0, outcome, count + 1, &error), MHAS_INTERNAL);
  assert_non_null(strstr(error.text, "worker 1"));
  assert_int_equal(mhas_scheduler_ended(scheduler, 1, 1.0, outcome, count - 1, &error), MHAS_INTERNAL);
  assert_int_equal(mhas_scheduler_ended(scheduler, 2, 1.0, outcome, 1, &error), MHAS_INTERNAL);
  assert_non_null(strstr(error.text, "had none"));
  assert_int_equal(mhas_scheduler_ended(scheduler, 2, 1.0, outcome, 0, &error), MHAS_INTERNAL);
  assert_int_equal(mhas_scheduler_ended(scheduler, 3, 1.0, outcome, count, &error), MHAS_INTERNAL);
  assert_int_equal(mhas_scheduler_ended(scheduler, -1, 1.0, outcome, count, &error), MHAS_INTERNAL);
  outcome[count - 1] = MHAS_FAILED + 1;
  assert_int_equal(mhas_scheduler_ended(scheduler, 1, 1.0, outcome, count, &error), MHAS_INTERNAL);
  outcome[count - 1] = 77;
  assert_int_equal(mhas_scheduler_ended(scheduler, 1, 1.0, outcome, count, &error), MHAS_INTERNAL);
  const mhas_farm_state after = state_at(scheduler, 1.0);
  assert_int_equal(before.running, after.running);
  assert_int_equal(before.busy, after.busy);
  assert_int_equal(after.done + after.failed + after.given_up, 0);
  outcome[count - 1] = MHAS_FAILED;
  assert_int_equal(mhas_scheduler_ended(scheduler, 1, 1.0, outcome, count, &error), MHAS_OK);
  assert_int_equal(mhas_scheduler_ended(scheduler, 1, 1.0, outcome, count, &error), MHAS_INTERNAL);
  mhas_scheduler_destroy(scheduler);
}

static void only_idle_workers_get_rows_the_lowest_first(void **unused) {
  (void)unused;
  mhas_scheduler *scheduler = scheduler_of_equal(1e12f, 10, 2, NULL);
  int64_t count = 0;
  assert_non_null(next_rows(scheduler, 0, 0.0, &count));
  assert_non_null(next_rows(scheduler, 1, 0.0, &count));
  assert_null(next_rows(scheduler, 0, 0.0, &count));
  assert_int_equal(count, 0);
  end_all(scheduler, 1, 1.0, 1, MHAS_DONE);
  end_all(scheduler, 0, 1.0, 1, MHAS_DONE);
  assert_non_null(next_rows(scheduler, 0, 1.0, &count));
  assert_int_equal(state_at(scheduler, 1.0).running, 1);
  mhas_scheduler_destroy(scheduler);
}

static void a_scheduler_without_workers_is_refused(void **unused) {
  (void)unused;
  mhas_scheduler *scheduler = NULL;
  mhas_error error;
  assert_int_equal(mhas_scheduler_create(NULL, NULL, NULL, 0, 0, NULL, &scheduler, &error), MHAS_INTERNAL);
  assert_null(scheduler);
  assert_int_equal(mhas_scheduler_create(NULL, NULL, NULL, -1, 1, NULL, &scheduler, &error), MHAS_INTERNAL);
  mhas_scheduler_destroy(NULL);
}

/* ---- stopping ---- */

static void after_a_stop_nothing_goes_out_and_what_runs_is_counted(void **unused) {
  (void)unused;
  mhas_scheduler *scheduler = scheduler_of_equal(1e9f, 10, 2, NULL);
  int64_t count = 0;
  assert_non_null(next_rows(scheduler, 0, 0.0, &count));
  end_all(scheduler, 0, 1.0, count, MHAS_DONE);
  assert_non_null(next_rows(scheduler, 0, 1.0, &count));
  assert_non_null(next_rows(scheduler, 1, 1.0, &count));
  mhas_scheduler_stop(scheduler);
  assert_true(state_at(scheduler, 1.0).stopping);
  assert_true(fabs(state_at(scheduler, 1.25).eta - 0.75) < 0.01); /* the queue is no longer to be done */
  end_all(scheduler, 0, 2.0, 1, MHAS_PENDING);
  assert_null(next_rows(scheduler, 0, 2.0, &count));
  end_all(scheduler, 1, 2.0, 1, MHAS_DONE);
  const mhas_farm_state state = state_at(scheduler, 2.0);
  assert_int_equal(state.done, 2);
  assert_int_equal(state.given_up, 1);
  assert_int_equal(state.running, 0);
  assert_true(state.eta == 0.0);
  mhas_scheduler_destroy(scheduler);
}

static void failures_beyond_the_limit_end_the_handing_out(void **unused) {
  (void)unused;
  const mhas_schedule_options options = {.max_failures = 2};
  mhas_scheduler *scheduler = scheduler_of_equal(1e10f, 10, 1, &options);
  int64_t count = 0;
  for (int i = 0; i < 3; i++) {
    assert_false(state_at(scheduler, i).too_many_failures);
    assert_non_null(next_rows(scheduler, 0, i, &count));
    end_all(scheduler, 0, i + 0.5, count, MHAS_FAILED);
  }
  assert_null(next_rows(scheduler, 0, 4.0, &count));
  const mhas_farm_state state = state_at(scheduler, 4.0);
  assert_true(state.too_many_failures);
  assert_false(state.stopping);
  assert_int_equal(state.failed, 3);
  mhas_scheduler_destroy(scheduler);
}

/* ---- what people see ---- */

static void eta_is_unknown_until_something_has_ended(void **unused) {
  (void)unused;
  mhas_scheduler *scheduler = scheduler_of_equal(1e9f, 101, 2, NULL);
  int64_t count = 0;
  assert_true(isnan(state_at(scheduler, 0.0).eta));
  assert_non_null(next_rows(scheduler, 0, 100.0, &count));
  assert_true(isnan(state_at(scheduler, 105.0).eta));
  end_all(scheduler, 0, 110.0, count, MHAS_DONE); /* 10 s a row */
  const mhas_farm_state state = state_at(scheduler, 110.0);
  assert_true(fabs(state.eta - 500.0) < 5.0);
  assert_true(fabs(state.elapsed - 10.0) < 1e-9);
  mhas_scheduler_destroy(scheduler);
}

static void eta_is_not_less_than_the_longest_row(void **unused) {
  (void)unused;
  const float flops[] = {100e9f, 1e9f, 1e9f, 1e9f};
  mhas_scheduler *scheduler = scheduler_of(flops, 4, 4, NULL);
  int64_t count = 0;
  for (int worker = 0; worker < 4; worker++) {
    assert_non_null(next_rows(scheduler, worker, 0.0, &count));
  }
  end_all(scheduler, 2, 1.0, count, MHAS_DONE);
  assert_true(fabs(state_at(scheduler, 1.0).eta - 99.0) < 1.0);
  /* A row over its time is still expected to take a while. */
  const double late = state_at(scheduler, 200.0).eta;
  assert_true(late > 10.0 && late < 50.0);
  mhas_scheduler_destroy(scheduler);
}

static void the_rate_is_that_of_the_last_while(void **unused) {
  (void)unused;
  const mhas_schedule_options options = {.chunk_seconds = 1e-3, .max_failures = INT64_MAX}; /* rows go alone */
  mhas_scheduler *scheduler = scheduler_of_equal(1e9f, 2000, 1, &options);
  int64_t count = 0;
  double now = 0.0;
  for (int i = 0; i < 200; i++) { /* ten a second for 20 s, then one a second for 20 s */
    assert_non_null(next_rows(scheduler, 0, now, &count));
    assert_int_equal(count, 1);
    end_all(scheduler, 0, now += 0.1, count, MHAS_DONE);
  }
  assert_true(fabs(state_at(scheduler, now).rows_per_second - 10.0) < 0.5);
  for (int i = 0; i < 25; i++) {
    assert_non_null(next_rows(scheduler, 0, now, &count));
    end_all(scheduler, 0, now += 1.0, count, MHAS_DONE);
  }
  assert_true(fabs(state_at(scheduler, now).rows_per_second - 1.0) < 0.1);
  mhas_scheduler_destroy(scheduler);
}

/* ---- random schedules ---- */

typedef struct fuzz {
  int64_t rows;
  int workers;
  float *flops;
  uint8_t *handed, *ended; /* [rows] times */
  int64_t held_count[16];
  int64_t chunk[16][64];
} fuzz;

/* No row may be much costlier than one that went out before, unless it is a small one: below a chunk of a second by a
 * sixteenth. */
static void take(fuzz *f, mhas_scheduler *scheduler, double now, float *lowest) {
  mhas_order order;
  if (!mhas_scheduler_next(scheduler, now, &order)) {
    return;
  }
  const int64_t *rows = order.rows;
  const int64_t count = order.count;
  const int worker = order.workers[0];
  assert_int_equal(order.ranks, 1);
  assert_in_range(worker, 0, f->workers - 1);
  assert_int_equal(f->held_count[worker], 0);
  assert_in_range(count, 1, 64);
  for (int64_t i = 0; i < count; i++) {
    const int64_t row = rows[i] - 10;
    assert_in_range(row, 0, f->rows - 1);
    assert_int_equal(f->handed[row]++, 0);
    assert_true(i == 0 || rows[i] > rows[i - 1]);
    assert_true(f->flops[row] < 8e7f || f->flops[row] <= 1.26f * *lowest);
    *lowest = fminf(*lowest, f->flops[row]);
    f->chunk[worker][i] = row;
  }
  f->held_count[worker] = count;
}

static void give_back(fuzz *f, mhas_scheduler *scheduler, int worker, double now) {
  uint8_t outcome[64];
  for (int64_t i = 0; i < f->held_count[worker]; i++) {
    static const uint8_t kinds[] = {MHAS_DONE, MHAS_DONE, MHAS_DONE, MHAS_FAILED, MHAS_PENDING};
    outcome[i] = kinds[below(5)];
    assert_int_equal(f->ended[f->chunk[worker][i]]++, 0);
  }
  mhas_error error;
  assert_int_equal(mhas_scheduler_ended(scheduler, worker, now, outcome, f->held_count[worker], &error), MHAS_OK);
  f->held_count[worker] = 0;
}

static void check_state(const fuzz *f, const mhas_scheduler *scheduler, double now) {
  const mhas_farm_state state = state_at(scheduler, now);
  int64_t handed = 0;
  int64_t ended = 0;
  int busy = 0;
  for (int64_t i = 0; i < f->rows; i++) {
    handed += f->handed[i];
    ended += f->ended[i];
  }
  for (int worker = 0; worker < f->workers; worker++) {
    busy += f->held_count[worker] > 0;
  }
  assert_int_equal(state.running, handed - ended);
  assert_int_equal(state.done + state.failed + state.given_up, ended);
  assert_int_equal(state.busy, busy);
  assert_true(isnan(state.eta) || state.eta >= 0.0);
  assert_true(state.rows_per_second >= 0.0);
}

static void play_random_schedule(uint64_t seed) {
  random_state = seed;
  fuzz f = {.rows = below(400), .workers = 1 + below(16)};
  f.flops = allocate(f.rows, sizeof *f.flops);
  f.handed = allocate(f.rows, 1);
  f.ended = allocate(f.rows, 1);
  const double spread = uniform() * 6.0;
  const double middle = pow(10.0, 4.0 + 7.0 * uniform());
  for (int64_t i = 0; i < f.rows; i++) {
    f.flops[i] = (float)(middle * exp(spread * normal()));
  }
  const bool stops = uniform() < 0.3;
  const int64_t stop_at = below(400);
  const mhas_schedule_options options = {
      .chunk_seconds = 0.01 + uniform(), .chunk_most = 64, .max_failures = uniform() < 0.2 ? below(30) : INT64_MAX};
  mhas_scheduler *scheduler = scheduler_of(f.flops, f.rows, f.workers, &options);
  double now = 1000.0;
  float lowest = INFINITY;
  for (int64_t event = 0; event < 3000; event++) {
    const int worker = below(f.workers);
    now += uniform() * 0.2;
    if (f.held_count[worker] > 0) {
      give_back(&f, scheduler, worker, now);
    } else {
      take(&f, scheduler, now, &lowest);
    }
    if (stops && event == stop_at) {
      mhas_scheduler_stop(scheduler);
    }
    check_state(&f, scheduler, now);
  }
  for (int worker = 0; worker < f.workers; worker++) {
    if (f.held_count[worker] > 0) {
      give_back(&f, scheduler, worker, now);
    }
  }
  const mhas_farm_state state = state_at(scheduler, now);
  assert_int_equal(state.running, 0);
  for (int64_t i = 0; i < f.rows; i++) {
    assert_int_equal(f.handed[i], f.ended[i]);
    assert_true(stops || state.too_many_failures || f.ended[i] == 1);
  }
  mhas_scheduler_destroy(scheduler);
  mhas_free(f.flops);
  mhas_free(f.handed);
  mhas_free(f.ended);
}

static void random_schedules_lose_and_double_nothing(void **unused) {
  (void)unused;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    play_random_schedule(seed);
  }
}

/* ---- simulated time ---- */

typedef struct simulation {
  double makespan, total, longest;
  double eta_half; /* what the ETA was when half of the rows had ended, and when that was */
  double at_half;
  int64_t chunks;
} simulation;

/* True seconds: (per_flop flops + per_row) times a log-normal error of the estimate. */
static simulation simulate(int64_t rows, int workers, double mean_seconds, double spread, double noise, double per_flop,
                           double per_row) {
  float *flops = allocate(rows, sizeof *flops);
  double *seconds = allocate(rows, sizeof *seconds);
  simulation result = {0};
  for (int64_t i = 0; i < rows; i++) {
    flops[i] = (float)(mean_seconds / per_flop * exp(spread * normal() - 0.5 * spread * spread));
    seconds[i] = (per_flop * (double)flops[i] + per_row) * exp(noise * normal() - 0.5 * noise * noise);
    result.total += seconds[i];
    result.longest = fmax(result.longest, seconds[i]);
  }
  mhas_scheduler *scheduler = scheduler_of(flops, rows, workers, NULL);
  double *until = allocate(workers, sizeof *until);
  int64_t *held = allocate(workers, sizeof *held);
  double now = 0.0;
  for (;;) {
    mhas_order order;
    while (mhas_scheduler_next(scheduler, now, &order)) {
      const int worker = order.workers[0];
      assert_int_equal(held[worker], 0);
      until[worker] = now;
      held[worker] = order.count;
      result.chunks++;
      for (int64_t i = 0; i < order.count; i++) {
        until[worker] += seconds[order.rows[i] - 10];
      }
    }
    int first = -1;
    for (int worker = 0; worker < workers; worker++) {
      if (held[worker] > 0 && (first < 0 || until[worker] < until[first])) {
        first = worker;
      }
    }
    if (first < 0) {
      break;
    }
    now = until[first];
    end_all(scheduler, first, now, held[first], MHAS_DONE);
    held[first] = 0;
    const mhas_farm_state state = state_at(scheduler, now);
    if (result.at_half == 0.0 && 2 * state.done >= rows) {
      result.at_half = now;
      result.eta_half = state.eta;
    }
  }
  result.makespan = now;
  assert_int_equal(state_at(scheduler, now).done, rows);
  mhas_scheduler_destroy(scheduler);
  mhas_free(flops);
  mhas_free(seconds);
  mhas_free(until);
  mhas_free(held);
  return result;
}

static double bound(const simulation *s, int workers) { return fmax(s->total / workers, s->longest); }

static void log_normal_costs_end_close_to_the_bound(void **unused) {
  (void)unused;
  random_state = 11;
  for (int i = 0; i < 5; i++) {
    const simulation s = simulate(5000, 64, 1.0, 1.5, 0.2, 3e-10, 1e-3);
    assert_true(s.makespan >= bound(&s, 64) * (1.0 - 1e-9));
    assert_true(s.makespan < bound(&s, 64) * 1.03);
  }
}

static void eta_comes_true_where_costs_do(void **unused) {
  (void)unused;
  random_state = 14;
  for (int i = 0; i < 5; i++) {
    const simulation s = simulate(20000, 16, 0.2, 1.5, 0.05, 3e-10, 1e-3);
    const double rest = s.makespan - s.at_half;
    assert_true(fabs(s.eta_half - rest) < 0.1 * rest);
  }
}

static void one_giant_row_hides_all_others(void **unused) {
  (void)unused;
  random_state = 12;
  const simulation s = simulate(2000, 64, 1.0, 3.0, 0.0, 1e-9, 1e-4);
  assert_true(s.makespan < bound(&s, 64) * 1.05);
}

static void tiny_rows_make_few_chunks_and_end_together(void **unused) {
  (void)unused;
  random_state = 13;
  const simulation s = simulate(1000000, 8, 1e-5, 1.0, 0.1, 1e-10, 5e-5);
  assert_true(s.makespan < bound(&s, 8) * 1.02);
  assert_true(s.chunks < 1000); /* 7.5 s on 8 workers in chunks of 0.25 s, and the tail */
}

/* ---- what rows cost ---- */

static void pace_tells_the_cost_of_a_flop_from_that_of_a_row(void **unused) {
  (void)unused;
  mhas_pace pace;
  mhas_pace_start(&pace);
  for (int i = 0; i < 64; i++) {
    const double flops = 1e6 * (1 + i % 7);
    const double rows = 1 + i % 5;
    mhas_pace_learn(&pace, flops, rows, 2.5e-11 * flops + 4e-5 * rows);
  }
  assert_true(fabs(pace.per_flop / 2.5e-11 - 1.0) < 0.05);
  assert_true(fabs(pace.per_row / 4e-5 - 1.0) < 0.05);
}

static void pace_forgets_what_was_long_ago(void **unused) {
  (void)unused;
  mhas_pace pace;
  mhas_pace_start(&pace);
  for (int i = 0; i < 500; i++) {
    mhas_pace_learn(&pace, 1e9, 1.0, 1e-6);
  }
  for (int i = 0; i < 10 * MHAS_PACE_MEMORY; i++) {
    mhas_pace_learn(&pace, 1e9, 1.0, 7.0);
  }
  assert_true(fabs(mhas_pace_seconds(&pace, 1e9, 1.0) - 7.0) < 0.1);
}

static void pace_is_little_moved_by_one_wild_chunk(void **unused) {
  (void)unused;
  mhas_pace pace;
  mhas_pace_start(&pace);
  for (int i = 0; i < 50; i++) {
    mhas_pace_learn(&pace, 1e9, 1.0, 1.0);
  }
  mhas_pace_learn(&pace, 1e9, 1.0, 1e4); /* its computer slept */
  assert_true(mhas_pace_seconds(&pace, 1e9, 1.0) < 1.5);
}

static void pace_bears_rows_without_flops_and_chunks_without_time(void **unused) {
  (void)unused;
  mhas_pace pace;
  mhas_pace_start(&pace);
  for (int i = 0; i < 100; i++) {
    mhas_pace_learn(&pace, 0.0, 10.0, 2e-3);
  }
  assert_true(fabs(mhas_pace_seconds(&pace, 0.0, 1.0) / 2e-4 - 1.0) < 0.01);
  for (int i = 0; i < 100; i++) {
    mhas_pace_learn(&pace, 1e5, 10.0, i % 2 == 0 ? 0.0 : -1.0);
  }
  assert_true(isfinite(pace.per_flop) && isfinite(pace.per_row));
  assert_true(pace.per_flop >= 0.0 && pace.per_row >= 0.0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_to_do_is_over_at_once),
      cmocka_unit_test(costly_rows_go_alone_and_first),
      cmocka_unit_test(small_rows_go_in_row_order_whatever_they_cost),
      cmocka_unit_test(chunks_start_small_and_grow_to_their_aim),
      cmocka_unit_test(a_chunk_is_never_more_than_its_share_of_what_is_left),
      cmocka_unit_test(costs_that_are_no_numbers_are_still_run),
      cmocka_unit_test(ten_million_rows_are_handed_out_once),
      cmocka_unit_test(a_wrong_answer_is_refused_and_changes_nothing),
      cmocka_unit_test(only_idle_workers_get_rows_the_lowest_first),
      cmocka_unit_test(a_scheduler_without_workers_is_refused),
      cmocka_unit_test(after_a_stop_nothing_goes_out_and_what_runs_is_counted),
      cmocka_unit_test(failures_beyond_the_limit_end_the_handing_out),
      cmocka_unit_test(eta_is_unknown_until_something_has_ended),
      cmocka_unit_test(eta_is_not_less_than_the_longest_row),
      cmocka_unit_test(the_rate_is_that_of_the_last_while),
      cmocka_unit_test(random_schedules_lose_and_double_nothing),
      cmocka_unit_test(log_normal_costs_end_close_to_the_bound),
      cmocka_unit_test(eta_comes_true_where_costs_do),
      cmocka_unit_test(one_giant_row_hides_all_others),
      cmocka_unit_test(tiny_rows_make_few_chunks_and_end_together),
      cmocka_unit_test(pace_tells_the_cost_of_a_flop_from_that_of_a_row),
      cmocka_unit_test(pace_forgets_what_was_long_ago),
      cmocka_unit_test(pace_is_little_moved_by_one_wild_chunk),
      cmocka_unit_test(pace_bears_rows_without_flops_and_chunks_without_time),
  };
  return cmocka_run_group_tests_name("scheduler", tests, NULL, NULL);
}
