/* What the scheduler still hands out when its time runs short. Rows cost 1e9 a second, by the guess and by the script.
 */

#include "schedule.h"

static mhas_scheduler *scheduler_of(const float *flops, const int32_t *ranks, int64_t count, int workers, double ends) {
  const mhas_schedule_options options = {.max_failures = 100, .ends = ends};
  return scheduler_from(0, flops, ranks, count, workers, &options);
}

/* The row of the next order, -1 if there is none. */
static int64_t next_row(mhas_scheduler *scheduler, double now) {
  mhas_order order;
  if (!mhas_scheduler_next(scheduler, now, &order)) {
    return -1;
  }
  assert_int_equal(order.count, 1);
  return order.rows[0];
}

static bool is_out_of_time(const mhas_scheduler *scheduler, double now) {
  const mhas_farm_state state = state_at(scheduler, now);
  assert_false(state.stopping);
  return state.out_of_time;
}

static void no_row_starts_that_would_not_end_in_time(void **unused) {
  (void)unused;
  const float flops[] = {1e10f, 1e10f, 1e10f, 1e10f, 1e10f};
  mhas_scheduler *scheduler = scheduler_of(flops, NULL, 5, 1, 134.9);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(next_row(scheduler, 100.0 + 10.0 * i), i);
    end_one(scheduler, 0, 110.0 + 10.0 * i, MHAS_DONE);
    assert_false(is_out_of_time(scheduler, 110.0 + 10.0 * i) && i < 2);
  }
  assert_int_equal(next_row(scheduler, 130.0), -1);
  assert_true(is_out_of_time(scheduler, 130.0));
  mhas_scheduler_destroy(scheduler);
}

static void shorter_rows_fill_the_rest_of_the_time(void **unused) {
  (void)unused;
  const float flops[] = {20e9f, 20e9f, 2e9f, 2e9f};
  mhas_scheduler *scheduler = scheduler_of(flops, NULL, 4, 1, 25.0);
  assert_int_equal(next_row(scheduler, 0.0), 0);
  end_one(scheduler, 0, 20.0, MHAS_DONE);
  assert_int_equal(next_row(scheduler, 20.0), 2);
  assert_false(is_out_of_time(scheduler, 21.0));
  end_one(scheduler, 0, 22.0, MHAS_DONE);
  assert_int_equal(next_row(scheduler, 22.0), 3);
  end_one(scheduler, 0, 24.0, MHAS_DONE);
  assert_int_equal(next_row(scheduler, 24.0), -1);
  assert_true(is_out_of_time(scheduler, 24.0));
  mhas_scheduler_destroy(scheduler);
}

static void while_nothing_is_known_rows_start(void **unused) {
  (void)unused;
  const float flops[] = {1e15f, 1e15f};
  mhas_scheduler *scheduler = scheduler_of(flops, NULL, 2, 2, 100.0);
  assert_int_equal(next_row(scheduler, 0.0), 0);
  assert_int_equal(next_row(scheduler, 99.0), 1);
  mhas_scheduler_destroy(scheduler);
}

static void after_the_end_nothing_starts(void **unused) {
  (void)unused;
  const float flops[] = {1.0f};
  mhas_scheduler *scheduler = scheduler_of(flops, NULL, 1, 1, 100.0);
  assert_int_equal(next_row(scheduler, 100.5), -1);
  assert_true(is_out_of_time(scheduler, 100.5));
  mhas_scheduler_destroy(scheduler);
}

static void a_team_that_comes_too_late_leaves_its_ranks_to_others(void **unused) {
  (void)unused;
  const float flops[] = {40e9f, 40e9f, 4e9f, 1e9f};
  const int32_t ranks[] = {2, 2, 2, 1};
  mhas_scheduler *scheduler = scheduler_of(flops, ranks, 4, 2, 29.0);
  assert_int_equal(next_row(scheduler, 0.0), 0);
  end_one(scheduler, 0, 20.0, MHAS_DONE);
  assert_int_equal(next_row(scheduler, 20.0), 2); /* a smaller one fits */
  end_one(scheduler, 0, 22.0, MHAS_DONE);
  assert_int_equal(next_row(scheduler, 22.0), 3); /* for the other there is no time, so nobody waits for it */
  end_one(scheduler, 0, 23.0, MHAS_DONE);
  assert_int_equal(next_row(scheduler, 23.0), -1);
  assert_true(is_out_of_time(scheduler, 23.0));
  mhas_scheduler_destroy(scheduler);
}

static void without_an_end_time_never_runs_out(void **unused) {
  (void)unused;
  const float flops[] = {1e10f, 1e10f};
  mhas_scheduler *scheduler = scheduler_of(flops, NULL, 2, 1, 0.0);
  assert_int_equal(next_row(scheduler, 0.0), 0);
  end_one(scheduler, 0, 1e6, MHAS_DONE);
  assert_int_equal(next_row(scheduler, 1e9), 1);
  assert_false(is_out_of_time(scheduler, 1e9));
  mhas_scheduler_destroy(scheduler);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_row_starts_that_would_not_end_in_time),
      cmocka_unit_test(shorter_rows_fill_the_rest_of_the_time),
      cmocka_unit_test(while_nothing_is_known_rows_start),
      cmocka_unit_test(after_the_end_nothing_starts),
      cmocka_unit_test(a_team_that_comes_too_late_leaves_its_ranks_to_others),
      cmocka_unit_test(without_an_end_time_never_runs_out),
  };
  return cmocka_run_group_tests_name("scheduler_clock", tests, NULL, NULL);
}
