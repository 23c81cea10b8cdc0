/* When a stop drains and when it abandons; the numbers are seconds of a clock of the test's. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "farm/stopping.h"

#include <cmocka.h>

static void without_signals_all_goes_on(void **unused) {
  (void)unused;
  mhas_stopping stopping = {.grace_seconds = 10.0};
  assert_int_equal(mhas_stopping_level(&stopping, 0, 0.0), MHAS_STOP_NONE);
  assert_int_equal(mhas_stopping_level(&stopping, 0, 1e9), MHAS_STOP_NONE);
}

static void running_rows_have_the_grace_from_the_first_signal(void **unused) {
  (void)unused;
  mhas_stopping stopping = {.grace_seconds = 10.0};
  assert_int_equal(mhas_stopping_level(&stopping, 0, 99.0), MHAS_STOP_NONE);
  assert_int_equal(mhas_stopping_level(&stopping, 1, 100.0), MHAS_STOP_DRAIN);
  assert_int_equal(mhas_stopping_level(&stopping, 1, 109.9), MHAS_STOP_DRAIN);
  assert_int_equal(mhas_stopping_level(&stopping, 1, 110.0), MHAS_STOP_ABANDON);
  assert_int_equal(mhas_stopping_level(&stopping, 1, 111.0), MHAS_STOP_ABANDON);
}

static void a_second_signal_ends_the_wait(void **unused) {
  (void)unused;
  mhas_stopping stopping = {.grace_seconds = 1000.0};
  assert_int_equal(mhas_stopping_level(&stopping, 1, 100.0), MHAS_STOP_DRAIN);
  assert_int_equal(mhas_stopping_level(&stopping, 2, 103.0), MHAS_STOP_ABANDON);
  assert_int_equal(mhas_stopping_level(&stopping, 2, 104.0), MHAS_STOP_ABANDON);
}

static void a_signal_delivered_twice_is_one(void **unused) {
  (void)unused;
  mhas_stopping stopping = {.grace_seconds = 1000.0};
  assert_int_equal(mhas_stopping_level(&stopping, 1, 100.0), MHAS_STOP_DRAIN);
  assert_int_equal(mhas_stopping_level(&stopping, 2, 100.1), MHAS_STOP_DRAIN);
  assert_int_equal(mhas_stopping_level(&stopping, 2, 500.0), MHAS_STOP_DRAIN);
  assert_int_equal(mhas_stopping_level(&stopping, 3, 500.1), MHAS_STOP_ABANDON);
}

static void the_grace_may_be_nothing_or_endless(void **unused) {
  (void)unused;
  mhas_stopping none = {.grace_seconds = 0.0};
  assert_int_equal(mhas_stopping_level(&none, 1, 100.0), MHAS_STOP_ABANDON);
  mhas_stopping endless = {.grace_seconds = INFINITY};
  assert_int_equal(mhas_stopping_level(&endless, 1, 100.0), MHAS_STOP_DRAIN);
  assert_int_equal(mhas_stopping_level(&endless, 1, 1e12), MHAS_STOP_DRAIN);
}

static void at_the_end_of_the_time_running_rows_are_left(void **unused) {
  (void)unused;
  mhas_stopping stopping = {.grace_seconds = 20.0, .ends = 500.0};
  assert_int_equal(mhas_stopping_level(&stopping, 0, 499.9), MHAS_STOP_NONE);
  assert_int_equal(mhas_stopping_level(&stopping, 0, 500.0), MHAS_STOP_ABANDON);
  assert_int_equal(mhas_stopping_level(&stopping, 1, 501.0), MHAS_STOP_ABANDON);
  mhas_stopping asked = {.grace_seconds = 20.0, .ends = 500.0};
  assert_int_equal(mhas_stopping_level(&asked, 1, 495.0), MHAS_STOP_DRAIN);
  assert_int_equal(mhas_stopping_level(&asked, 1, 500.0), MHAS_STOP_ABANDON); /* before the grace is over */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_signals_all_goes_on),
      cmocka_unit_test(running_rows_have_the_grace_from_the_first_signal),
      cmocka_unit_test(a_second_signal_ends_the_wait),
      cmocka_unit_test(a_signal_delivered_twice_is_one),
      cmocka_unit_test(the_grace_may_be_nothing_or_endless),
      cmocka_unit_test(at_the_end_of_the_time_running_rows_are_left),
  };
  return cmocka_run_group_tests_name("stopping", tests, NULL, NULL);
}
