/* Going on with a file: only with the same sweep, and only with what is left to do. */
#include <hdf5.h>
#include <sys/wait.h>

#include "store_fixture.h"

/* Overwrites a variable of the file. */
static void set_variable(const char *path, const char *name, hid_t type, const void *values) {
  const hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
  assert_true(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
  assert_true(H5Dclose(dataset) >= 0 && H5Fclose(file) >= 0);
}

/* Rows that have ended have taken half a second. */
static void set_statuses(const char *path, const int8_t *statuses) {
  double seconds[8];
  for (int i = 0; i < 8; i++) {
    seconds[i] = statuses[i] == MHAS_DONE || statuses[i] == MHAS_FAILED ? 0.5 : NAN;
  }
  set_variable(path, "status", H5T_NATIVE_INT8, statuses);
  set_variable(path, "seconds", H5T_NATIVE_DOUBLE, seconds);
}

static void set_schema(const char *path, int64_t schema) {
  const hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t attribute = H5Aopen(file, "schema_version", H5P_DEFAULT);
  assert_true(H5Awrite(attribute, H5T_NATIVE_INT64, &schema) >= 0);
  assert_true(H5Aclose(attribute) >= 0 && H5Fclose(file) >= 0);
}

static void assert_refused(const char *path, const char *sweep_text, mhas_code code, const char *words) {
  mhas_error error = {0};
  uint8_t *status = (uint8_t *)path; /* must be set to NULL */
  mhas_sweep *sweep = parse_sweep(sweep_text);
  assert_int_equal(mhas_store_resume(path, sweep, count_rows(sweep), false, &status, &error), code);
  assert_null(status);
  assert_says(&error, path);
  assert_says(&error, words);
  mhas_sweep_destroy(sweep);
}

static const int8_t mixed[8] = {MHAS_DONE,   MHAS_RUNNING, MHAS_FAILED, MHAS_PENDING,
                                MHAS_FAILED, MHAS_DONE,    MHAS_DONE,   MHAS_RUNNING};

static void check_resumed(bool retry_failed) {
  mhas_error error;
  uint8_t *status = NULL;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  const char *path = folder_path("a.h5");
  must_create(path, sweep);
  set_statuses(path, mixed);
  assert_int_equal(mhas_store_resume(path, sweep, 8, retry_failed, &status, &error), MHAS_OK);
  mhas_reader *reader = must_read(path);
  for (int i = 0; i < 8; i++) {
    const bool again = mixed[i] == MHAS_RUNNING || (mixed[i] == MHAS_FAILED && retry_failed);
    assert_int_equal(status[i], again ? MHAS_PENDING : mixed[i]);
    assert_number(reader, "status", i, status[i]);
  }
  mhas_reader_close(reader);
  mhas_free(status);
  mhas_sweep_destroy(sweep);
}

static void interrupted_points_become_pending(void **state) {
  (void)state;
  check_resumed(false);
}

static void failed_points_become_pending_only_when_asked(void **state) {
  (void)state;
  check_resumed(true);
}

static void comments_and_order_of_keys_do_not_matter(void **state) {
  (void)state;
  mhas_error error;
  uint8_t *status = NULL;
  mhas_sweep *sweep = parse_sweep("experiment: probe\nseed: 7\nparameters: {heads: [1, 2], dim: 8, samples: 64}\n");
  mhas_sweep *same =
      parse_sweep("# again\nseed: 7\nparameters:\n  samples: 64\n  dim: 8\n  heads: [1, 2]\nexperiment: probe\n");
  must_create(folder_path("a.h5"), sweep);
  assert_int_equal(mhas_store_resume(folder_path("a.h5"), same, 2, false, &status, &error), MHAS_OK);
  mhas_free(status);
  mhas_sweep_destroy(same);
  mhas_sweep_destroy(sweep);
}

static void other_values_are_named_with_both(void **state) {
  (void)state;
  mhas_sweep *sweep = parse_sweep("experiment: probe\nseed: 7\nparameters: {heads: [1, 2], dim: 8, samples: 64}\n");
  must_create(folder_path("a.h5"), sweep);
  const char *path = folder_path("a.h5");
  assert_refused(path, "experiment: probe\nseed: 8\nparameters: {heads: [1, 2], dim: 8, samples: 64}\n", MHAS_USAGE,
                 "seed (7 in the file, 8 now); write to another file with -o");
  assert_refused(path, "experiment: probe\nseed: 7\nparameters: {heads: [1, 3], dim: 8, samples: 64}\n", MHAS_USAGE,
                 "heads");
  assert_refused(path, "experiment: probe\nseed: 7\nparameters: {heads: [1, 2], dim: 9, samples: 64}\n", MHAS_USAGE,
                 "dim");
  mhas_sweep_destroy(sweep);
}

static void another_experiment_is_named(void **state) {
  (void)state;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  must_create(folder_path("a.h5"), sweep);
  assert_refused(folder_path("a.h5"), MEMORIZE_SWEEP, MHAS_USAGE,
                 "experiment (probe in the file, memorize now); write to another file with -o");
  mhas_sweep_destroy(sweep);
}

/* A list longer than a line is cut, and the advice stays readable. */
static void long_values_are_shortened(void **state) {
  (void)state;
  mhas_text text = {0};
  mhas_text_append(&text, "experiment: probe\nparameters:\n  samples: 4\n  dim: [1");
  for (int i = 2; i < 1000; i++) {
    mhas_text_append(&text, ", %d", i);
  }
  mhas_text_append(&text, "]\n");
  mhas_sweep *sweep = parse_sweep(text.data);
  must_create(folder_path("a.h5"), sweep);
  assert_refused(folder_path("a.h5"), "experiment: probe\nparameters: {samples: 4, dim: [1, 2]}\n", MHAS_USAGE,
                 " ... in the file, [1, 2] now); write to another file with -o");
  mhas_sweep_destroy(sweep);
  mhas_text_free(&text);
}

static void another_number_of_points_is_an_error(void **state) {
  (void)state;
  mhas_error error;
  uint8_t *status = NULL;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  must_create(folder_path("a.h5"), sweep);
  assert_int_equal(mhas_store_resume(folder_path("a.h5"), sweep, 9, false, &status, &error), MHAS_USAGE);
  assert_says(&error, "has 8 points, the sweep has 9");
  mhas_sweep_destroy(sweep);
}

/* A crash of the machine: the status was written back, the data not. */
static void rows_that_ended_without_data_become_pending(void **state) {
  (void)state;
  const int8_t ended[8] = {MHAS_DONE, MHAS_DONE, MHAS_FAILED, MHAS_FAILED, MHAS_DONE, MHAS_DONE, MHAS_DONE, MHAS_DONE};
  const double seconds[8] = {0.5, NAN, NAN, 0.5, 0.5, 0.5, 0.5, 0.0};
  mhas_error error;
  uint8_t *status = NULL;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  must_create(folder_path("a.h5"), sweep);
  set_variable(folder_path("a.h5"), "status", H5T_NATIVE_INT8, ended);
  set_variable(folder_path("a.h5"), "seconds", H5T_NATIVE_DOUBLE, seconds);
  assert_int_equal(mhas_store_resume(folder_path("a.h5"), sweep, 8, false, &status, &error), MHAS_OK);
  for (int i = 0; i < 8; i++) {
    assert_int_equal(status[i], isnan(seconds[i]) ? MHAS_PENDING : ended[i]);
  }
  mhas_free(status);
  mhas_sweep_destroy(sweep);
}

static void file_of_an_older_layout_is_left_alone(void **state) {
  (void)state;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  must_create(folder_path("a.h5"), sweep);
  set_schema(folder_path("a.h5"), 0);
  assert_refused(folder_path("a.h5"), PROBE_SWEEP, MHAS_USAGE, "an older mhasweep (layout 0, this one writes 1)");
  mhas_sweep_destroy(sweep);
}

static void file_of_a_newer_version_is_left_alone(void **state) {
  (void)state;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  must_create(folder_path("a.h5"), sweep);
  set_schema(folder_path("a.h5"), 2);
  assert_refused(folder_path("a.h5"), PROBE_SWEEP, MHAS_USAGE, "newer mhasweep (layout 2, this one writes 1)");
  mhas_sweep_destroy(sweep);
}

static void impossible_status_is_named_with_its_point(void **state) {
  (void)state;
  const int8_t broken[8] = {MHAS_DONE, MHAS_DONE, MHAS_DONE, 17, 0, 0, 0, 0};
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  must_create(folder_path("a.h5"), sweep);
  set_statuses(folder_path("a.h5"), broken);
  assert_refused(folder_path("a.h5"), PROBE_SWEEP, MHAS_IO, "point 3 has the status 17");
  mhas_sweep_destroy(sweep);
}

static void missing_file_cannot_be_resumed(void **state) {
  (void)state;
  assert_refused(folder_path("a.h5"), PROBE_SWEEP, MHAS_IO, "there is no such file");
}

/* A notebook that holds the file open, with HDF5's own lock on it. */
static void reader_does_not_stand_in_the_way(void **state) {
  (void)state;
  mhas_error error;
  uint8_t *status = NULL;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  must_create(folder_path("a.h5"), sweep);
  int ready[2];
  int done[2];
  assert_true(pipe(ready) == 0 && pipe(done) == 0);
  char byte = 0;
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    (void)close(done[1]);
    const hid_t file = H5Fopen(folder_path("a.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
    byte = file >= 0;
    (void)!write(ready[1], &byte, 1);
    (void)!read(done[0], &byte, 1);
    _exit(0);
  }
  assert_int_equal(read(ready[0], &byte, 1), 1);
  assert_int_equal(byte, 1);
  const mhas_code code = mhas_store_resume(folder_path("a.h5"), sweep, 8, false, &status, &error);
  (void)close(done[1]);
  assert_int_equal(waitpid(child, NULL, 0), child);
  assert_int_equal(code, MHAS_OK);
  mhas_free(status);
  mhas_sweep_destroy(sweep);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_make, folder_remove)
  const struct CMUnitTest tests[] = {
      TEST(interrupted_points_become_pending),
      TEST(failed_points_become_pending_only_when_asked),
      TEST(comments_and_order_of_keys_do_not_matter),
      TEST(other_values_are_named_with_both),
      TEST(another_experiment_is_named),
      TEST(long_values_are_shortened),
      TEST(another_number_of_points_is_an_error),
      TEST(rows_that_ended_without_data_become_pending),
      TEST(file_of_an_older_layout_is_left_alone),
      TEST(file_of_a_newer_version_is_left_alone),
      TEST(impossible_status_is_named_with_its_point),
      TEST(missing_file_cannot_be_resumed),
      TEST(reader_does_not_stand_in_the_way),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
