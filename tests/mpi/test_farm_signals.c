/* Signals: whoever gets one, all ranks stop starting rows, and sooner or later leave the running ones. */
#include <signal.h>
#include <time.h>

#include "fake_work.h"

/* Counts signals from 0 again, once no rank may still be in an earlier farm. */
static int forget_signals(void **unused) {
  (void)unused;
  mhas_error error;
  return MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS && mhas_signals_catch(&error) == MHAS_OK ? 0 : -1;
}

static bool is_last(const fake *work) { return work->rank == work->size - 1; }

/* ---- ways to run a row ---- */

/* The first row of the last rank raises a signal; each row ends when it is told that no other shall start. */
static mhas_code until_stopping(fake *work, int64_t row, mhas_farm_control *control, uint8_t *status,
                                mhas_error *error) {
  (void)row, (void)error;
  if (work->entered == 1 && is_last(work)) {
    assert_int_equal(raise(SIGUSR1), 0);
  }
  while (!mhas_farm_stopping(control)) {
    mhas_sleep(1e-3);
  }
  *status = mhas_farm_give_up(control) ? MHAS_PENDING : MHAS_DONE;
  return MHAS_OK;
}

/* Ends only if it must give up. */
static mhas_code until_given_up(fake *work, int64_t row, mhas_farm_control *control, uint8_t *status,
                                mhas_error *error) {
  (void)row, (void)error;
  if (work->entered == 1 && is_last(work)) {
    assert_int_equal(raise(SIGTERM), 0);
  }
  while (!mhas_farm_give_up(control)) {
    mhas_sleep(1e-3);
  }
  *status = MHAS_PENDING;
  return MHAS_OK;
}

/* The same, and the last rank raises a second signal when the first is surely old. */
static mhas_code until_second_signal(fake *work, int64_t row, mhas_farm_control *control, uint8_t *status,
                                     mhas_error *error) {
  (void)row, (void)error;
  const double start = mhas_now();
  if (is_last(work)) {
    assert_int_equal(raise(SIGINT), 0);
  }
  bool again = false;
  while (!mhas_farm_give_up(control)) {
    mhas_sleep(1e-3);
    if (is_last(work) && !again && mhas_now() - start > 1.5) {
      again = true;
      assert_int_equal(raise(SIGINT), 0);
    }
  }
  *status = MHAS_PENDING;
  return MHAS_OK;
}

/* Never asks whether to stop. */
static mhas_code deaf(fake *work, int64_t row, mhas_farm_control *control, uint8_t *status, mhas_error *error) {
  (void)row, (void)control, (void)error;
  if (work->entered == 3 && is_last(work)) {
    assert_int_equal(raise(SIGUSR1), 0);
  }
  mhas_sleep(1e-4);
  *status = MHAS_DONE;
  return MHAS_OK;
}

static mhas_code silent_until_stopping(fake *work, int64_t row, mhas_farm_control *control, uint8_t *status,
                                       mhas_error *error) {
  (void)work, (void)row, (void)error;
  while (!mhas_farm_stopping(control)) {
    mhas_sleep(1e-3);
  }
  *status = MHAS_DONE;
  return MHAS_OK;
}

/* ---- tests ---- */

static void check_stopped(fake *work) {
  assert_int_equal(work->code, MHAS_OK);
  assert_true(work->state.stopping);
  check_each_row_at_most_once(work);
}

static void a_signal_of_a_worker_lets_running_rows_finish_and_no_other_start(void **unused) {
  (void)unused;
  fake *work = fake_new(until_stopping, 10000);
  fake_farm(work);
  check_stopped(work);
  assert_int_equal(work->state.done, fake_workers(work)); /* each the first row of its chunk */
  assert_true(work->state.given_up > 0);                  /* the rest of the chunks */
}

static void raise_at_first_sight(void *context, const mhas_farm_state *state, bool last) {
  bool *raised = context;
  if (!*raised && !last && state->busy == state->workers) {
    *raised = true;
    assert_int_equal(raise(SIGTERM), 0);
  }
}

static void a_signal_of_the_master_stops_the_workers(void **unused) {
  (void)unused;
  bool raised = false;
  fake *work = fake_new(silent_until_stopping, 10000);
  work->options.progress = raise_at_first_sight;
  work->options.progress_context = &raised;
  fake_farm(work);
  check_stopped(work);
  assert_int_equal(work->state.done, fake_workers(work));
}

static void a_signal_of_a_rank_without_rows_counts_too(void **unused) {
  (void)unused;
  fake *work = fake_new(silent_until_stopping, 1);
  timer_t timer = 0;
  if (is_last(work)) { /* idle in a world of three or more */
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGTERM};
    const struct itimerspec soon = {.it_value.tv_nsec = 100000000};
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    assert_int_equal(timer_settime(timer, 0, &soon, NULL), 0);
  }
  fake_farm(work);
  check_stopped(work);
  assert_int_equal(work->state.done, 1);
  if (is_last(work)) {
    assert_int_equal(timer_delete(timer), 0);
  }
}

static void after_the_grace_running_rows_are_left(void **unused) {
  (void)unused;
  fake *work = fake_new(until_given_up, 1000);
  work->options.grace_seconds = 0.2;
  fake_farm(work);
  check_stopped(work);
  assert_int_equal(work->state.done, 0);
  assert_true(work->state.given_up >= fake_workers(work));
}

static void without_grace_running_rows_are_left_at_once(void **unused) {
  (void)unused;
  fake *work = fake_new(until_given_up, 1000);
  work->options.grace_seconds = 0.0;
  fake_farm(work);
  check_stopped(work);
  assert_int_equal(work->state.done, 0);
}

static void a_second_signal_ends_the_grace(void **unused) {
  (void)unused;
  fake *work = fake_new(until_second_signal, 1000);
  work->options.grace_seconds = 1e9;
  fake_farm(work); /* would not end in our lives otherwise */
  check_stopped(work);
  assert_int_equal(work->state.done, 0);
}

static void work_that_never_asks_is_stopped_between_its_chunks(void **unused) {
  (void)unused;
  fake *work = fake_new(deaf, 100000);
  work->flops = 1e10f;
  fake_farm(work);
  check_stopped(work);
  assert_true(work->state.done >= 3 && work->state.done < 50000);
}

static void a_signal_before_the_farm_lets_nothing_start(void **unused) {
  (void)unused;
  fake *work = fake_new(silent_until_stopping, 100);
  if (work->rank == 0) {
    assert_int_equal(raise(SIGTERM), 0);
  }
  fake_farm(work);
  check_stopped(work);
  assert_int_equal(work->entered, 0);
  assert_int_equal(work->state.done + work->state.given_up, 0);
}

static int farm_tests(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(a_signal_of_a_worker_lets_running_rows_finish_and_no_other_start, forget_signals),
      cmocka_unit_test_setup(a_signal_of_the_master_stops_the_workers, forget_signals),
      cmocka_unit_test_setup(a_signal_of_a_rank_without_rows_counts_too, forget_signals),
      cmocka_unit_test_setup(after_the_grace_running_rows_are_left, forget_signals),
      cmocka_unit_test_setup(without_grace_running_rows_are_left_at_once, forget_signals),
      cmocka_unit_test_setup(a_second_signal_ends_the_grace, forget_signals),
      cmocka_unit_test_setup(work_that_never_asks_is_stopped_between_its_chunks, forget_signals),
      cmocka_unit_test_setup(a_signal_before_the_farm_lets_nothing_start, forget_signals),
  };
  return cmocka_run_group_tests_name("farm signals", tests, NULL, NULL);
}

int main(void) { return fake_main("farm signals", farm_tests); }
