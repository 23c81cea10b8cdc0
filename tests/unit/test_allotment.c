/* How much time a run has: durations in words, the end that SLURM sets, and asking squeue for it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "farm/allotment.h"
#include "mhasweep/farm.h"

#include <cmocka.h>

static void durations_are_read_as_people_and_slurm_write_them(void **unused) {
  (void)unused;
  static const struct {
    const char *text;
    double seconds;
  } all[] = {{"90s", 90},         {"30m", 1800},        {"1h30m", 5400},    {"2d", 172800},         {"0s", 0},
             {"30:00", 1800},     {"1:30:00", 5400},    {"01:02:03", 3723}, {"1-12:00:00", 129600}, {"0:07", 7},
             {"1d2h3m4s", 93784}, {"100:00:00", 360000}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    double seconds = -1.0;
    assert_true(mhas_duration_read(all[i].text, &seconds));
    assert_true(seconds == all[i].seconds);
  }
}

static void what_is_no_duration_is_refused(void **unused) {
  (void)unused;
  static const char *const all[] = {"",      "90",    "s",      "1x",    "-5s",     "1h 30m", "1.5h",
                                    "30:",   ":30",   "1-12",   "1-2:3", "1:2:3:4", "nan",    "999999999999999999999s",
                                    "1h-5m", "5m:10", "INVALID"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    double seconds = 0.0;
    if (mhas_duration_read(all[i], &seconds)) {
      fail_msg("%s was read as %g s", all[i], seconds);
    }
  }
}

/* ---- SLURM ---- */

static char folder[] = "/tmp/mhasweep-squeue-XXXXXX";
static char old_path[4096];

static int make_folder(void **unused) {
  (void)unused;
  (void)snprintf(old_path, sizeof old_path, "%s", getenv("PATH"));
  return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **unused) {
  (void)unused;
  char name[sizeof folder + 16];
  (void)snprintf(name, sizeof name, "%s/squeue", folder);
  (void)unlink(name);
  return rmdir(folder);
}

static int clear(void **unused) {
  (void)unused;
  (void)unsetenv("SLURM_JOB_ID");
  (void)unsetenv("SLURM_JOB_END_TIME");
  return setenv("PATH", old_path, 1);
}

/* A squeue that does this. */
static void squeue_does(const char *script) {
  char name[sizeof folder + 16];
  char path[sizeof folder + sizeof old_path + 2];
  (void)snprintf(name, sizeof name, "%s/squeue", folder);
  FILE *file = fopen(name, "w");
  assert_non_null(file);
  (void)fprintf(file, "#!/bin/sh\n%s\n", script);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(chmod(name, 0700), 0);
  (void)snprintf(path, sizeof path, "%s:%s", folder, old_path);
  assert_int_equal(setenv("PATH", path, 1), 0);
}

static mhas_allotment find(double limit, const char *doubt) {
  mhas_error error;
  const mhas_allotment found = mhas_allotment_find(limit, 30.0, &error);
  if (doubt == NULL) {
    assert_string_equal(error.text, "");
  } else {
    assert_non_null(strstr(error.text, doubt));
  }
  return found;
}

static void outside_of_slurm_only_the_user_limits(void **unused) {
  (void)unused;
  assert_true(isinf(find(INFINITY, NULL).seconds));
  const mhas_allotment found = find(90.0, NULL);
  assert_true(found.seconds == 90.0);
  assert_string_equal(found.source, "--time-limit");
}

static void the_end_time_of_the_job_counts_and_the_earlier_end_wins(void **unused) {
  (void)unused;
  char word[32];
  (void)snprintf(word, sizeof word, "%lld", (long long)time(NULL) + 1000);
  (void)setenv("SLURM_JOB_END_TIME", word, 1);
  (void)setenv("SLURM_JOB_ID", "17", 1);
  squeue_does("echo 1:00");
  mhas_allotment found = find(INFINITY, NULL); /* squeue is not asked */
  assert_true(found.seconds > 900.0 && found.seconds <= 1000.0);
  assert_string_equal(found.source, "SLURM_JOB_END_TIME");
  assert_true(find(10.0, NULL).seconds == 10.0);
  found = find(5000.0, NULL);
  assert_true(found.seconds <= 1000.0);
  (void)setenv("SLURM_JOB_END_TIME", "1000", 1); /* long past */
  assert_true(find(INFINITY, NULL).seconds == 0.0);
}

static void squeue_is_asked_where_the_end_time_is_not_set(void **unused) {
  (void)unused;
  (void)setenv("SLURM_JOB_ID", "17", 1);
  squeue_does("[ \"$*\" = '--noheader --format=%L --jobs 17' ] && echo '  1-02:03:04  '");
  const mhas_allotment found = find(INFINITY, NULL);
  assert_true(found.seconds == 93784.0);
  assert_string_equal(found.source, "squeue");
  squeue_does("echo UNLIMITED");
  assert_true(isinf(find(INFINITY, NULL).seconds));
  (void)setenv("SLURM_JOB_END_TIME", "soon", 1); /* nonsense is as if it were not set */
  squeue_does("echo 30:00");
  assert_true(find(INFINITY, NULL).seconds == 1800.0);
}

static void a_squeue_that_cannot_tell_is_a_doubt_and_no_limit(void **unused) {
  (void)unused;
  (void)setenv("SLURM_JOB_ID", "17", 1);
  squeue_does("echo slurm_load_jobs error >&2; exit 1");
  assert_true(isinf(find(INFINITY, "does not say when job 17 ends").seconds));
  squeue_does("echo INVALID");
  assert_true(find(60.0, "INVALID").seconds == 60.0);
  (void)setenv("PATH", "/nowhere", 1);
  assert_true(isinf(find(INFINITY, "squeue").seconds));
  (void)setenv("SLURM_JOB_ID", "17; rm -rf /", 1);
  assert_true(isinf(find(INFINITY, "no number").seconds));
}

static void a_squeue_that_hangs_is_given_up(void **unused) {
  (void)unused;
  mhas_error doubt;
  (void)setenv("SLURM_JOB_ID", "17", 1);
  squeue_does("exec sleep 1000");
  assert_true(isinf(mhas_allotment_find(INFINITY, 0.2, &doubt).seconds));
  assert_non_null(strstr(doubt.text, "does not say"));
}

static void the_margin_leaves_most_of_the_time_for_work(void **unused) {
  (void)unused;
  assert_true(mhas_allotment_margin(86400.0) == 120.0);
  assert_true(mhas_allotment_margin(600.0) == 30.0);
  assert_true(mhas_allotment_margin(10.0) == 2.0);
  assert_true(mhas_allotment_margin(1.0) == 0.5);
  assert_true(mhas_allotment_margin(0.0) == 0.0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(durations_are_read_as_people_and_slurm_write_them),
      cmocka_unit_test(what_is_no_duration_is_refused),
      cmocka_unit_test_setup(outside_of_slurm_only_the_user_limits, clear),
      cmocka_unit_test_setup(the_end_time_of_the_job_counts_and_the_earlier_end_wins, clear),
      cmocka_unit_test_setup(squeue_is_asked_where_the_end_time_is_not_set, clear),
      cmocka_unit_test_setup(a_squeue_that_cannot_tell_is_a_doubt_and_no_limit, clear),
      cmocka_unit_test_setup(a_squeue_that_hangs_is_given_up, clear),
      cmocka_unit_test(the_margin_leaves_most_of_the_time_for_work),
  };
  return cmocka_run_group_tests_name("allotment", tests, make_folder, remove_folder);
}
