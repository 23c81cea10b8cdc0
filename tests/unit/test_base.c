/* Errors, memory, text, signals and clock. Random numbers have their own file. */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mhasweep/base.h"

#include <cmocka.h>

static void an_error_carries_code_and_words(void **state) {
  (void)state;
  mhas_error error;
  assert_int_equal(mhas_fail(&error, MHAS_IO, "%s: line %d", "a.yaml", 7), MHAS_IO);
  assert_int_equal(error.code, MHAS_IO);
  assert_string_equal(error.text, "a.yaml: line 7");
  assert_int_equal(mhas_fail(NULL, MHAS_LIMIT, "nobody listens"), MHAS_LIMIT);
}

static void context_goes_in_front_of_an_error(void **state) {
  (void)state;
  mhas_error error;
  mhas_fail(&error, MHAS_NUMERIC, "diverged");
  assert_int_equal(mhas_error_context(&error, "point %d", 3), MHAS_NUMERIC);
  assert_string_equal(error.text, "point 3: diverged");
}

static void context_of_a_full_error_is_cut_not_overrun(void **state) {
  (void)state;
  char filler[MHAS_ERROR_LENGTH];
  memset(filler, 'x', sizeof filler - 1);
  filler[sizeof filler - 1] = '\0';
  mhas_error error;
  mhas_fail(&error, MHAS_IO, "%s", filler);
  mhas_error_context(&error, "%s", "front");
  assert_int_equal(strlen(error.text), MHAS_ERROR_LENGTH - 1);
  assert_memory_equal(error.text, "front: xxx", 10);
}

static void memory_is_zeroed_and_aligned(void **state) {
  (void)state;
  for (size_t count = 0; count < 200; count += 7) {
    unsigned char *bytes = NULL;
    mhas_error error;
    assert_int_equal(mhas_alloc(&bytes, count, 3, "bytes", &error), MHAS_OK);
    assert_non_null(bytes);
    assert_int_equal((uintptr_t)bytes % 64, 0);
    for (size_t i = 0; i < 3 * count; i++) {
      assert_int_equal(bytes[i], 0);
    }
    mhas_free(bytes);
  }
}

static void memory_that_cannot_be_had_is_said(void **state) {
  (void)state;
  void *memory = &memory;
  mhas_error error;
  assert_int_equal(mhas_alloc(&memory, SIZE_MAX / 2, 3, "the moon", &error), MHAS_NO_MEMORY);
  assert_null(memory);
  assert_non_null(strstr(error.text, "the moon"));
  assert_int_equal(mhas_alloc(&memory, SIZE_MAX - 8, 1, "the sun", &error), MHAS_NO_MEMORY);
  assert_null(memory);
}

static void narrowing_refuses_what_blas_cannot_hold(void **state) {
  (void)state;
  int narrow = -1;
  mhas_error error;
  assert_int_equal(mhas_narrow(INT_MAX, "rows", &narrow, &error), MHAS_OK);
  assert_int_equal(narrow, INT_MAX);
  assert_int_equal(mhas_narrow((int64_t)INT_MAX + 1, "rows of Z", &narrow, &error), MHAS_LIMIT);
  assert_non_null(strstr(error.text, "rows of Z is 2147483648"));
  assert_int_equal(mhas_narrow(-1, "rows", &narrow, &error), MHAS_LIMIT);
}

static void text_grows(void **state) {
  (void)state;
  mhas_text text = {0};
  assert_string_equal(mhas_text_string(&text), "");
  for (int i = 0; i < 1000; i++) {
    mhas_text_append(&text, "%d,", i % 10);
  }
  mhas_text_append_bytes(&text, "end", 3);
  assert_false(text.failed);
  assert_int_equal(text.length, 2003);
  assert_string_equal(text.data + 1996, "8,9,end");
  mhas_text_free(&text);
  assert_null(text.data);
}

static void a_file_is_read_whole_or_refused_with_a_reason(void **state) {
  (void)state;
  char path[] = "/tmp/mhasweep-text-XXXXXX";
  const int file = mkstemp(path);
  assert_true(file >= 0);
  assert_int_equal(write(file, "abc\0def", 7), 7);
  assert_int_equal(close(file), 0);
  mhas_error error;
  mhas_text text = {0};
  assert_int_equal(mhas_text_read_file(path, 7, &text, &error), MHAS_OK);
  assert_int_equal(text.length, 7);
  assert_memory_equal(text.data, "abc\0def", 8);
  mhas_text_free(&text);
  assert_int_equal(mhas_text_read_file(path, 6, &text, &error), MHAS_IO);
  assert_non_null(strstr(error.text, "7 B"));
  mhas_text_free(&text);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mhas_text_read_file(path, 6, &text, &error), MHAS_IO);
  assert_non_null(strstr(error.text, "No such file"));
  mhas_text_free(&text);
  assert_int_equal(mhas_text_read_file("/tmp", 6, &text, &error), MHAS_IO);
  assert_non_null(strstr(error.text, "folder"));
  mhas_text_free(&text);
  assert_int_equal(mhas_text_read_file("/dev/zero", 100000, &text, &error), MHAS_IO);
  assert_non_null(strstr(error.text, "longer than"));
  mhas_text_free(&text);
}

static void the_nearest_name_is_a_slip_away(void **state) {
  (void)state;
  static const char *const names[] = {"heads", "dim", "key_dim", "context", "samples"};
  assert_string_equal(mhas_nearest_name("heds", names, 5), "heads");
  assert_string_equal(mhas_nearest_name("haeds", names, 5), "heads");
  assert_string_equal(mhas_nearest_name("keydim", names, 5), "key_dim");
  assert_string_equal(mhas_nearest_name("sample", names, 5), "samples");
  assert_null(mhas_nearest_name("epochs", names, 5));
  char endless[500];
  memset(endless, 'a', sizeof endless - 1);
  endless[sizeof endless - 1] = '\0';
  assert_null(mhas_nearest_name(endless, names, 5));
}

static void numbers_are_written_for_people(void **state) {
  (void)state;
  char out[MHAS_HUMAN_LENGTH];
  assert_string_equal(mhas_human_bytes(0, out), "0 B");
  assert_string_equal(mhas_human_bytes(1023, out), "1023 B");
  assert_string_equal(mhas_human_bytes(1536, out), "1.5 KiB");
  assert_string_equal(mhas_human_bytes(2147483648.0, out), "2.0 GiB");
  assert_string_equal(mhas_human_count(999, out), "999");
  assert_string_equal(mhas_human_count(1234567, out), "1.2 M");
  assert_string_equal(mhas_human_seconds(0.00005, out), "50 us");
  assert_string_equal(mhas_human_seconds(0.25, out), "250 ms");
  assert_string_equal(mhas_human_seconds(59.97, out), "1 min 00 s");
  assert_string_equal(mhas_human_seconds(192, out), "3 min 12 s");
  assert_string_equal(mhas_human_seconds(7500, out), "2 h 05 min");
  assert_string_equal(mhas_human_seconds(86400.0 * 12, out), "12.0 days");
  assert_string_equal(mhas_human_seconds(NAN, out), "unknown");
}

static void caught_signals_are_counted_and_named(void **state) {
  (void)state;
  mhas_error error;
  assert_int_equal(mhas_signals_catch(&error), MHAS_OK);
  const int before = mhas_signals_count();
  assert_int_equal(raise(SIGTERM), 0);
  assert_int_equal(raise(SIGUSR1), 0);
  assert_int_equal(mhas_signals_count(), before + 2);
  assert_string_equal(mhas_signals_last(), "SIGUSR1");
  assert_int_equal(raise(SIGPIPE), 0);
  assert_int_equal(mhas_signals_count(), before + 2);
}

static void the_clock_goes_forward(void **state) {
  (void)state;
  const double start = mhas_now();
  mhas_sleep(0.002);
  assert_true(mhas_now() - start >= 0.002);
  char stamp[32];
  mhas_timestamp(stamp);
  assert_int_equal(strlen(stamp), 20);
  assert_int_equal(stamp[10], 'T');
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_error_carries_code_and_words),
      cmocka_unit_test(context_goes_in_front_of_an_error),
      cmocka_unit_test(context_of_a_full_error_is_cut_not_overrun),
      cmocka_unit_test(memory_is_zeroed_and_aligned),
      cmocka_unit_test(memory_that_cannot_be_had_is_said),
      cmocka_unit_test(narrowing_refuses_what_blas_cannot_hold),
      cmocka_unit_test(text_grows),
      cmocka_unit_test(a_file_is_read_whole_or_refused_with_a_reason),
      cmocka_unit_test(the_nearest_name_is_a_slip_away),
      cmocka_unit_test(numbers_are_written_for_people),
      cmocka_unit_test(caught_signals_are_counted_and_named),
      cmocka_unit_test(the_clock_goes_forward),
  };
  return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
