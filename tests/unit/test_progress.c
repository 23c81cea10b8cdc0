/* What people see of a running sweep, on a terminal and in a log. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "farm/progress.h"

#include <cmocka.h>

static const mhas_farm_state half = {.total = 1000,
                                     .done = 447,
                                     .failed = 3,
                                     .running = 8,
                                     .busy = 4,
                                     .workers = 5,
                                     .elapsed = 63.0,
                                     .rows_per_second = 12.34,
                                     .eta = 125.0};

static void check_live(const mhas_farm_state *state, int width, const char *expected) {
  mhas_text text = {0};
  mhas_progress_live(&text, state, width);
  assert_string_equal(mhas_text_string(&text), expected);
  assert_true(text.length < (size_t)width);
  mhas_text_free(&text);
}

static void check_closing(const mhas_farm_state *state, const char *expected) {
  mhas_text text = {0};
  mhas_progress_closing(&text, state);
  assert_string_equal(mhas_text_string(&text), expected);
  mhas_text_free(&text);
}

static void the_live_line_says_what_one_wants_to_know(void **unused) {
  (void)unused;
  check_live(&half, 200,
             "[##################......................] 45% 450/1000, 3 failed, 12.3 points/s, 4/5 busy, "
             "2 min 05 s left");
}

static void the_live_line_fits_any_terminal(void **unused) {
  (void)unused;
  check_live(&half, 80, "[#####.......] 45% 450/1000, 3 failed, 12.3 points/s, 4/5 busy, 2 min 05 s left");
  check_live(&half, 70, "45% 450/1000, 3 failed, 12.3 points/s, 4/5 busy, 2 min 05 s left");
  check_live(&half, 60, "45% 450/1000, 3 failed, 12.3 points/s, 2 min 05 s left");
  check_live(&half, 25, "45% 450/1000, 3 failed");
  check_live(&half, 15, "45% 450/1000");
  check_live(&half, 9, "45% 450/");
  check_live(&half, 1, "");
}

static void what_is_not_known_is_not_said(void **unused) {
  (void)unused;
  const mhas_farm_state start = {.total = 20, .running = 1, .busy = 1, .workers = 1, .eta = NAN};
  check_live(&start, 40, "[.............................] 0% 0/20");
  const mhas_farm_state slow = {
      .total = 20, .done = 2, .workers = 1, .rows_per_second = 0.01, .eta = 1800.0, .running = 1};
  check_live(&slow, 70, "[##..................] 10% 2/20, 1 min 40 s a point, 30 min 00 s left");
  const mhas_farm_state fast = {
      .total = 200000, .done = 100000, .workers = 1, .rows_per_second = 23456.0, .eta = 4.26, .running = 1};
  check_live(&fast, 54, "50% 100000/200000, 23.5 k points/s, 4.3 s left");
}

static void a_stop_is_shown_in_place_of_the_eta(void **unused) {
  (void)unused;
  mhas_farm_state state = half;
  state.stopping = true;
  check_live(&state, 78, "45% 450/1000, 3 failed, 12.3 points/s, 4/5 busy, stopping, 8 still running");
}

static void the_closing_line_counts_everything(void **unused) {
  (void)unused;
  check_closing(&(mhas_farm_state){.total = 7, .done = 7, .elapsed = 3.21}, "7 of 7 points done in 3.2 s");
  check_closing(&(mhas_farm_state){.total = 0}, "0 of 0 points done in 0 us");
  check_closing(&(mhas_farm_state){.total = 7, .done = 5, .failed = 2, .elapsed = 3.21},
                "5 of 7 points done, 2 failed in 3.2 s");
  check_closing(
      &(mhas_farm_state){.total = 70, .done = 5, .failed = 2, .given_up = 4, .elapsed = 3.21, .stopping = true},
      "5 of 70 points done, 2 failed, 4 interrupted, 59 not started in 3.2 s; stopped early");
  check_closing(&(mhas_farm_state){.total = 70, .failed = 11, .elapsed = 3.21, .too_many_failures = true},
                "0 of 70 points done, 11 failed, 59 not started in 3.2 s; stopped early: more failures than allowed");
}

/* ---- drawing ---- */

typedef struct capture {
  char *text;
  size_t length;
  FILE *stream;
  mhas_progress *progress;
} capture;

static void start(capture *c, bool terminal, int width) {
  c->stream = open_memstream(&c->text, &c->length);
  assert_non_null(c->stream);
  assert_int_equal(mhas_progress_create_on(c->stream, terminal, width, &c->progress, NULL), MHAS_OK);
}

static void finish(capture *c) {
  mhas_progress_destroy(c->progress);
  assert_int_equal(fclose(c->stream), 0);
  free(c->text);
}

static void show(capture *c, int64_t done, double elapsed, bool last) {
  const mhas_farm_state state = {.total = 10, .done = done, .workers = 1, .elapsed = elapsed, .eta = NAN};
  mhas_progress_show(c->progress, &state, last);
}

static void a_terminal_gets_one_line_redrawn_five_times_a_second(void **unused) {
  (void)unused;
  capture c = {0};
  start(&c, true, 21);
  show(&c, 0, 0.0, false);
  assert_string_equal(c.text, "\r[..........] 0% 0/10");
  for (int i = 1; i < 20; i++) {
    show(&c, 1, 0.01 * i, false);
  }
  assert_string_equal(c.text, "\r[..........] 0% 0/10");
  show(&c, 5, 0.25, false);
  assert_string_equal(c.text, "\r[..........] 0% 0/10\r[####.....] 50% 5/10");
  show(&c, 10, 0.26, true);
  assert_string_equal(c.text, "\r[..........] 0% 0/10\r[####.....] 50% 5/10\r10 of 10 points done in 260 ms\n");
  finish(&c);
}

static void a_shorter_line_leaves_nothing_of_a_longer_one(void **unused) {
  (void)unused;
  capture c = {0};
  start(&c, true, 70);
  show(&c, 0, 0.0, false);
  show(&c, 10, 0.1, true);
  /* [40 cells], a blank and "0% 0/10" are 50 characters, the closing line 30. */
  assert_non_null(strstr(c.text, "\r10 of 10 points done in 100 ms                    \n"));
  assert_null(strstr(c.text, "100 ms                     "));
  finish(&c);
}

static void a_log_gets_a_line_every_half_minute_and_one_at_the_end(void **unused) {
  (void)unused;
  capture c = {0};
  start(&c, false, 0);
  for (int i = 0; i <= 700; i++) {
    show(&c, i / 100, 0.1 * i, false);
  }
  show(&c, 10, 70.1, true);
  assert_string_equal(c.text,
                      "after 30.0 s: 30% 3/10\nafter 1 min 00 s: 60% 6/10\n10 of 10 points done in 1 min 10 s\n");
  finish(&c);
}

static void a_stream_that_cannot_be_written_does_no_harm(void **unused) {
  (void)unused;
  FILE *full = fopen("/dev/full", "w");
  assert_non_null(full);
  mhas_progress *progress = NULL;
  assert_int_equal(mhas_progress_create_on(full, true, 0, &progress, NULL), MHAS_OK); /* nor has it a width */
  mhas_progress_show(progress, &half, false);
  mhas_progress_show(progress, &half, true);
  mhas_progress_destroy(progress);
  (void)fclose(full);
  mhas_progress_destroy(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_live_line_says_what_one_wants_to_know),
      cmocka_unit_test(the_live_line_fits_any_terminal),
      cmocka_unit_test(what_is_not_known_is_not_said),
      cmocka_unit_test(a_stop_is_shown_in_place_of_the_eta),
      cmocka_unit_test(the_closing_line_counts_everything),
      cmocka_unit_test(a_terminal_gets_one_line_redrawn_five_times_a_second),
      cmocka_unit_test(a_shorter_line_leaves_nothing_of_a_longer_one),
      cmocka_unit_test(a_log_gets_a_line_every_half_minute_and_one_at_the_end),
      cmocka_unit_test(a_stream_that_cannot_be_written_does_no_harm),
  };
  return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
