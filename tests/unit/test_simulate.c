/* Simulated runs: how close to the bound the scheduler comes, and that the master's part counts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "farm/heap.h"
#include "mhasweep/farm.h"

#include <cmocka.h>

/* ---- helpers ---- */

static void *allocate(int64_t count, size_t size) {
  void *memory = NULL;
  assert_int_equal(mhas_alloc(&memory, (size_t)count, size, "a test's array", NULL), MHAS_OK);
  return memory;
}

static const mhas_random source = {.seed = 5};

/* Log-normal, with this mean. */
static float *costs_of(int64_t count, double mean, double spread) {
  float *flops = allocate(count, sizeof *flops);
  for (int64_t i = 0; i < count; i++) {
    double normal = 0.0;
    mhas_random_normal(source, MHAS_STREAM_SAMPLE, (uint64_t)i, 1, &normal);
    flops[i] = (float)(mean * exp(spread * (normal - 0.5 * spread)));
  }
  return flops;
}

static mhas_simulation_options options_of(int workers) {
  return (mhas_simulation_options){.workers = workers,
                                   .schedule = {.max_failures = INT64_MAX},
                                   .seconds_per_flop = 1e-9,
                                   .seconds_per_row = 3e-5,
                                   .seconds_per_message = 1e-5,
                                   .seed = 1};
}

static mhas_simulation simulate(const float *flops, const int32_t *ranks, int64_t count,
                                const mhas_simulation_options *options) {
  mhas_simulation result;
  mhas_error error;
  assert_int_equal(mhas_simulate(flops, ranks, count, options, &result, &error), MHAS_OK);
  assert_true(result.makespan >= result.bound * (1.0 - 1e-12));
  return result;
}

/* ---- tests ---- */

static void nothing_takes_no_time(void **unused) {
  (void)unused;
  const mhas_simulation_options options = options_of(3);
  const mhas_simulation s = simulate(NULL, NULL, 0, &options);
  assert_true(s.makespan == 0.0 && s.bound == 0.0);
  assert_int_equal(s.messages, 0);
}

static void one_worker_takes_the_sum_and_one_row_takes_its_time(void **unused) {
  (void)unused;
  const float flops[] = {1e9f, 2e9f, 3e9f};
  mhas_simulation_options options = options_of(1);
  options.seconds_per_message = 0.0;
  options.seconds_per_row = 0.5;
  mhas_simulation s = simulate(flops, NULL, 3, &options);
  assert_true(fabs(s.makespan - 7.5) < 1e-9);
  assert_true(fabs(s.work - 7.5) < 1e-9);
  assert_true(fabs(s.longest - 3.5) < 1e-9);
  options.workers = 10;
  s = simulate(flops, NULL, 3, &options);
  assert_true(fabs(s.makespan - 3.5) < 1e-9);
  assert_true(fabs(s.bound - 3.5) < 1e-9);
  assert_int_equal(s.messages, 6);
}

static void ten_thousand_ranks_are_busy_with_a_million_log_normal_rows(void **unused) {
  (void)unused;
  enum { ROWS = 1000000, WORKERS = 9999 };
  float *flops = costs_of(ROWS, 1e10, 1.0);
  mhas_simulation_options options = options_of(WORKERS);
  options.noise = 0.2;
  const mhas_simulation s = simulate(flops, NULL, ROWS, &options);
  assert_int_equal(s.rows, ROWS);
  assert_true(s.longest < s.bound);
  assert_true(s.work >= 0.98 * s.makespan * WORKERS);
  mhas_free(flops);
}

static void the_longest_row_is_the_bound_where_it_is_longer_than_a_fair_share(void **unused) {
  (void)unused;
  enum { ROWS = 100000, WORKERS = 5000 };
  float *flops = costs_of(ROWS, 1e9, 2.5);
  const mhas_simulation_options options = options_of(WORKERS);
  const mhas_simulation s = simulate(flops, NULL, ROWS, &options);
  assert_true(s.bound == s.longest);
  assert_true(s.makespan < 1.01 * s.bound);
  mhas_free(flops);
}

static void teams_among_small_rows_leave_few_ranks_idle(void **unused) {
  (void)unused;
  enum { ROWS = 20000, WORKERS = 64 };
  float *flops = costs_of(ROWS, 1e10, 1.0);
  int32_t *ranks = allocate(ROWS, sizeof *ranks);
  int64_t wide = 0;
  for (int64_t i = 0; i < ROWS; i++) {
    ranks[i] = i % 20 == 0 ? 2 + (int32_t)(i / 20 % 15) : 1;
    flops[i] *= ranks[i] > 1 ? (float)(4 * ranks[i]) : 1.0f;
    wide += ranks[i] > 1;
  }
  for (int fixed = 0; fixed < 2; fixed++) {
    mhas_simulation_options options = options_of(WORKERS);
    options.noise = 0.2;
    options.schedule.static_teams = fixed == 1;
    const mhas_simulation s = simulate(flops, ranks, ROWS, &options);
    assert_int_equal(s.teams, wide);
    assert_int_equal(s.rows, ROWS);
    assert_true(s.work >= 0.98 * s.makespan * WORKERS);
  }
  mhas_free(flops);
  mhas_free(ranks);
}

static void rows_wider_than_the_world_are_told_apart(void **unused) {
  (void)unused;
  const float flops[] = {1e9f, 1e9f, 1e9f};
  const int32_t ranks[] = {1, 7, 2};
  const mhas_simulation_options options = options_of(3);
  const mhas_simulation s = simulate(flops, ranks, 3, &options);
  assert_int_equal(s.rows, 2);
  assert_int_equal(s.stranded, 1);
  assert_int_equal(s.widest, 7);
}

static void a_slow_master_holds_all_up(void **unused) {
  (void)unused;
  enum { ROWS = 20000 };
  float *flops = costs_of(ROWS, 1e9, 0.5);
  mhas_simulation_options options = options_of(1000);
  options.schedule.chunk_most = 1;
  options.seconds_per_message = 0.01;
  const mhas_simulation s = simulate(flops, NULL, ROWS, &options);
  assert_int_equal(s.messages, 2 * ROWS);
  assert_true(fabs(s.master - 400.0) < 1e-6);
  assert_true(s.makespan > 399.999 && s.makespan < 410.0);
  mhas_free(flops);
}

static void the_same_seed_gives_the_same_run(void **unused) {
  (void)unused;
  enum { ROWS = 5000 };
  float *flops = costs_of(ROWS, 1e9, 1.0);
  mhas_simulation_options options = options_of(17);
  options.noise = 0.5;
  const mhas_simulation first = simulate(flops, NULL, ROWS, &options);
  const mhas_simulation again = simulate(flops, NULL, ROWS, &options);
  assert_true(first.makespan == again.makespan && first.messages == again.messages);
  options.seed = 2;
  assert_true(simulate(flops, NULL, ROWS, &options).makespan != first.makespan);
  mhas_free(flops);
}

static void a_heap_gives_the_earliest_first_and_equal_ones_by_number(void **unused) {
  (void)unused;
  enum { COUNT = 1000 };
  mhas_heap heap;
  mhas_error error;
  assert_int_equal(mhas_heap_create(COUNT, &heap, &error), MHAS_OK);
  for (int i = 0; i < COUNT; i++) {
    mhas_heap_push(&heap, (mhas_timed){(double)((i * 7919) % 97), i});
  }
  mhas_timed last = {-1.0, -1};
  for (int i = 0; i < COUNT; i++) {
    const mhas_timed next = mhas_heap_pop(&heap);
    assert_true(next.time > last.time || (next.time == last.time && next.thing > last.thing));
    assert_true(next.time == (double)((next.thing * 7919) % 97));
    last = next;
  }
  assert_int_equal(heap.count, 0);
  mhas_heap_free(&heap);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_takes_no_time),
      cmocka_unit_test(one_worker_takes_the_sum_and_one_row_takes_its_time),
      cmocka_unit_test(ten_thousand_ranks_are_busy_with_a_million_log_normal_rows),
      cmocka_unit_test(the_longest_row_is_the_bound_where_it_is_longer_than_a_fair_share),
      cmocka_unit_test(teams_among_small_rows_leave_few_ranks_idle),
      cmocka_unit_test(rows_wider_than_the_world_are_told_apart),
      cmocka_unit_test(a_slow_master_holds_all_up),
      cmocka_unit_test(the_same_seed_gives_the_same_run),
      cmocka_unit_test(a_heap_gives_the_earliest_first_and_equal_ones_by_number),
  };
  return cmocka_run_group_tests_name("simulate", tests, NULL, NULL);
}
