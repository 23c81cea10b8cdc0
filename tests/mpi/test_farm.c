/* The farm with work that only pretends: each row once, errors known everywhere, any number of ranks and rows. */
#include "fake_work.h"

/* ---- ways to run a row ---- */

static mhas_code quick(fake *work, int64_t row, mhas_farm_control *control, uint8_t *status, mhas_error *error) {
  (void)work, (void)row, (void)control, (void)error;
  *status = MHAS_DONE;
  return MHAS_OK;
}

static mhas_code uneven(fake *work, int64_t row, mhas_farm_control *control, uint8_t *status, mhas_error *error) {
  (void)work, (void)error;
  mhas_sleep(1e-6 * (double)((row * 7919) % 1500));
  *status = row % 7 == 3 ? MHAS_FAILED : MHAS_DONE;
  return mhas_farm_give_up(control) ? MHAS_INTERNAL : MHAS_OK;
}

static mhas_code failing(fake *work, int64_t row, mhas_farm_control *control, uint8_t *status, mhas_error *error) {
  (void)work, (void)row, (void)control, (void)error;
  mhas_sleep(1e-3);
  *status = MHAS_FAILED;
  return MHAS_OK;
}

static mhas_code disk_full_at_37(fake *work, int64_t row, mhas_farm_control *control, uint8_t *status,
                                 mhas_error *error) {
  (void)work, (void)control;
  mhas_sleep(1e-4);
  *status = MHAS_DONE;
  return row == 37 ? mhas_fail(error, MHAS_IO, "row 37: the disk is full") : MHAS_OK;
}

/* One row breaks the run; the others would never end by themselves. */
static mhas_code endless_beside_a_break(fake *work, int64_t row, mhas_farm_control *control, uint8_t *status,
                                        mhas_error *error) {
  (void)work;
  if (row == 3) { /* the first of the costliest */
    mhas_sleep(0.05);
    return mhas_fail(error, MHAS_NO_MEMORY, "no room");
  }
  while (!mhas_farm_give_up(control)) {
    mhas_sleep(1e-3);
  }
  *status = MHAS_PENDING;
  return MHAS_OK;
}

static mhas_code nonsense(fake *work, int64_t row, mhas_farm_control *control, uint8_t *status, mhas_error *error) {
  (void)work, (void)control, (void)error;
  *status = row == 11 ? 99 : MHAS_DONE;
  return MHAS_OK;
}

/* ---- tests ---- */

static void every_row_runs_exactly_once(void **unused) {
  (void)unused;
  fake *work = fake_new(uneven, 1000);
  fake_farm(work);
  check_each_row_exactly_once(work);
  assert_int_equal(work->state.failed, 143);
}

static void costly_rows_run_exactly_once(void **unused) {
  (void)unused;
  fake *work = fake_new(uneven, 200);
  work->flops = 1e10f; /* so they go one by one */
  fake_farm(work);
  check_each_row_exactly_once(work);
}

static void many_tiny_rows_run_exactly_once(void **unused) {
  (void)unused;
  fake *work = fake_new(quick, FAKE_ROWS_MOST);
  fake_farm(work);
  check_each_row_exactly_once(work);
}

static void few_or_no_rows_are_fine_for_many_ranks(void **unused) {
  (void)unused;
  for (int64_t rows = 0; rows <= 3; rows++) {
    fake *work = fake_new(uneven, rows);
    work->flops = 1e10f;
    fake_farm(work);
    check_each_row_exactly_once(work);
  }
}

static void long_chunks_pass_through_messages_of_any_size(void **unused) {
  (void)unused;
  fake *work = fake_new(quick, FAKE_ROWS_MOST);
  work->options.schedule.chunk_most = INT64_MAX;
  work->options.schedule.chunk_seconds = 1e6;
  fake_farm(work);
  check_each_row_exactly_once(work);
  fake *single = fake_new(quick, 100);
  single->options.schedule.chunk_most = 1;
  fake_farm(single);
  check_each_row_exactly_once(single);
}

static void an_error_of_the_run_ends_it_and_all_ranks_know_why(void **unused) {
  (void)unused;
  fake *work = fake_new(disk_full_at_37, 5000);
  fake_farm(work);
  assert_int_equal(work->code, MHAS_IO);
  assert_non_null(strstr(work->error.text, "row 37: the disk is full"));
  assert_int_equal(strncmp(work->error.text, "rank ", 5) == 0, work->size > 1);
  check_each_row_at_most_once(work);
  assert_true(work->state.done < 5000);
  assert_true(work->state.given_up > 0);
}

static void an_error_of_the_run_makes_the_other_ranks_give_up(void **unused) {
  (void)unused;
  fake *work = fake_new(endless_beside_a_break, 40);
  work->flops = 1e10f;
  fake_farm(work);
  assert_int_equal(work->code, MHAS_NO_MEMORY);
  check_each_row_at_most_once(work);
  assert_int_equal(work->state.done, 0);
  assert_int_equal(work->state.given_up, fake_workers(work));
}

static void a_status_that_makes_no_sense_breaks_the_run(void **unused) {
  (void)unused;
  fake *work = fake_new(nonsense, 100);
  fake_farm(work);
  assert_int_equal(work->code, MHAS_INTERNAL);
  assert_non_null(strstr(work->error.text, "row 11 ended with status 99"));
  check_each_row_at_most_once(work);
}

static void too_many_failures_end_the_run_early(void **unused) {
  (void)unused;
  fake *work = fake_new(failing, 2000);
  work->options.schedule.max_failures = 5;
  fake_farm(work);
  assert_int_equal(work->code, MHAS_OK);
  check_each_row_at_most_once(work);
  assert_true(work->state.too_many_failures);
  assert_true(work->state.failed > 5 && work->state.failed < 2000);
  assert_int_equal(work->state.done, 0);
}

typedef struct told {
  int times, last_times;
  mhas_farm_state last;
} told;

static void tell(void *context, const mhas_farm_state *state, bool last) {
  told *heard = context;
  heard->times++;
  heard->last_times += last;
  heard->last = *state;
}

static void progress_is_told_on_rank_0_and_ends_with_the_final_state(void **unused) {
  (void)unused;
  told heard = {0};
  fake *work = fake_new(uneven, 300);
  work->options.progress = tell;
  work->options.progress_context = &heard;
  fake_farm(work);
  check_each_row_exactly_once(work);
  if (work->rank == 0) {
    assert_true(heard.times >= 2);
    assert_int_equal(heard.last_times, 1);
    assert_int_equal(heard.last.done, work->state.done);
    assert_int_equal(heard.last.failed, work->state.failed);
    assert_int_equal(heard.last.busy, 0);
  } else {
    assert_int_equal(heard.times, 0);
  }
}

static mhas_code until_told_thrice(fake *work, int64_t row, mhas_farm_control *control, uint8_t *status,
                                   mhas_error *error) {
  (void)row, (void)error;
  const told *heard = work->options.progress_context;
  do {
    mhas_sleep(1e-3);
  } while (!mhas_farm_give_up(control) && work->size == 1 && heard->times < 3);
  *status = MHAS_DONE;
  return MHAS_OK;
}

static void a_long_row_of_a_lone_rank_still_shows_progress(void **unused) {
  (void)unused;
  told heard = {0};
  fake *work = fake_new(until_told_thrice, 1);
  work->options.progress = tell;
  work->options.progress_context = &heard;
  fake_farm(work); /* would never end if nobody were told */
  check_each_row_exactly_once(work);
}

static void one_farm_follows_another_in_the_same_world(void **unused) {
  (void)unused;
  for (int i = 0; i < 50; i++) {
    fake *work = fake_new(quick, 30);
    fake_farm(work);
    check_each_row_exactly_once(work);
  }
}

static void a_watch_over_ranks_that_live_changes_nothing(void **unused) {
  (void)unused;
  mhas_error error;
  for (int i = 0; i < 3; i++) {
    mhas_watch *watch = NULL;
    assert_int_equal(mhas_watch_create(MPI_COMM_WORLD, 60.0, &watch, &error), MHAS_OK);
    fake *work = fake_new(uneven, 500);
    assert_int_equal(watch != NULL, work->size > 1);
    work->watch = watch;
    work->options.schedule.silence = 60.0;
    mhas_watch_guard(watch, 1, "test");
    assert_int_equal(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
    mhas_watch_ease(watch);
    fake_farm(work);
    check_each_row_exactly_once(work);
    assert_int_equal(work->state.lost, 0);
    mhas_watch_guard(watch, 1, "test");
    assert_int_equal(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
    mhas_watch_destroy(watch); /* some go before others: that is no death */
  }
}

static void nobody_is_watched_without_a_timeout(void **unused) {
  (void)unused;
  mhas_error error;
  mhas_watch *watch = NULL;
  assert_int_equal(mhas_watch_create(MPI_COMM_WORLD, 0.0, &watch, &error), MHAS_OK);
  assert_null(watch);
  mhas_watch_guard(watch, 1, "test");
  mhas_watch_ease(watch);
  mhas_watch_destroy(watch);
}

static int farm_tests(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_row_runs_exactly_once),
      cmocka_unit_test(costly_rows_run_exactly_once),
      cmocka_unit_test(many_tiny_rows_run_exactly_once),
      cmocka_unit_test(few_or_no_rows_are_fine_for_many_ranks),
      cmocka_unit_test(long_chunks_pass_through_messages_of_any_size),
      cmocka_unit_test(an_error_of_the_run_ends_it_and_all_ranks_know_why),
      cmocka_unit_test(an_error_of_the_run_makes_the_other_ranks_give_up),
      cmocka_unit_test(a_status_that_makes_no_sense_breaks_the_run),
      cmocka_unit_test(too_many_failures_end_the_run_early),
      cmocka_unit_test(progress_is_told_on_rank_0_and_ends_with_the_final_state),
      cmocka_unit_test(a_long_row_of_a_lone_rank_still_shows_progress),
      cmocka_unit_test(one_farm_follows_another_in_the_same_world),
      cmocka_unit_test(a_watch_over_ranks_that_live_changes_nothing),
      cmocka_unit_test(nobody_is_watched_without_a_timeout),
  };
  return cmocka_run_group_tests_name("farm", tests, NULL, NULL);
}

int main(void) { return fake_main("farm", farm_tests); }
