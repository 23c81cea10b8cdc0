/* Reading: a sentence for everything that is no result file, and the file while it is written. */
#include <hdf5.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "store_fixture.h"

static void assert_unreadable(const char *path, const char *words) {
  mhas_error error = {0};
  mhas_reader *reader = NULL;
  assert_int_equal(mhas_reader_open(path, &reader, &error), MHAS_IO);
  assert_null(reader);
  assert_says(&error, path);
  assert_says(&error, words);
  assert_null(strchr(error.text, '\n'));
}

static void write_bytes(const char *path, const char *bytes, size_t length) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, length, file), length);
  assert_int_equal(fclose(file), 0);
}

static void what_is_no_result_file_is_called_by_its_name(void **state) {
  (void)state;
  assert_unreadable(folder_path("missing.h5"), "there is no such file");
  assert_unreadable(folder, "is a folder");
  assert_unreadable("/dev/null", "is not a regular file");
  write_bytes(folder_path("empty.h5"), "", 0);
  assert_unreadable(folder_path("empty.h5"), "is empty");
  write_bytes(folder_path("short.h5"), "\x89HDF", 4);
  assert_unreadable(folder_path("short.h5"), "is not an HDF5 file");
  write_bytes(folder_path("text.h5"), "heads,rank\n1,2\n", 15);
  assert_unreadable(folder_path("text.h5"), "is not an HDF5 file");
  write_bytes(folder_path("signature.h5"), "\x89HDF\r\n\x1a\n garbage", 16);
  assert_unreadable(folder_path("signature.h5"), "is cut short or damaged");
}

static void hdf5_file_of_others_is_told_apart(void **state) {
  (void)state;
  const hid_t file = H5Fcreate(folder_path("b.h5"), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
  assert_true(H5Fclose(file) >= 0);
  assert_unreadable(folder_path("b.h5"), "not a result file of mhasweep");
}

/* Cut anywhere, it is refused in one sentence, or (only padding was lost) read. */
static void file_cut_short_is_refused(void **state) {
  (void)state;
  struct stat facts;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  const char *path = folder_path("a.h5");
  must_create(path, sweep);
  assert_int_equal(stat(path, &facts), 0);
  for (off_t length = facts.st_size - 1; length > 8; length -= 1 + facts.st_size / 40) {
    assert_int_equal(truncate(path, length), 0);
    assert_unreadable(path, "is cut short or damaged");
  }
  mhas_sweep_destroy(sweep);
}

static void file_without_status_is_refused(void **state) {
  (void)state;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  must_create(folder_path("a.h5"), sweep);
  const hid_t file = H5Fopen(folder_path("a.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
  assert_true(H5Ldelete(file, "status", H5P_DEFAULT) >= 0 && H5Fclose(file) >= 0);
  assert_unreadable(folder_path("a.h5"), "the variable status cannot be opened");
  mhas_sweep_destroy(sweep);
}

/* Variables that this version does not know, made by a newer one. */
static void variables_of_another_version_are_shown(void **state) {
  (void)state;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  must_create(folder_path("a.h5"), sweep);
  const hid_t file = H5Fopen(folder_path("a.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
  const hsize_t shape[3] = {8, 2, 2};
  const hid_t line = H5Screate_simple(1, shape, NULL);
  const hid_t cube = H5Screate_simple(3, shape, NULL);
  const hid_t scalar = H5Screate(H5S_SCALAR);
  const hid_t text = H5Tcopy(H5T_C_S1);
  assert_true(H5Tset_size(text, 8) >= 0);
  const hid_t added = H5Dcreate2(file, "energy", H5T_IEEE_F32BE, line, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t role = H5Acreate2(added, "role", text, scalar, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t strange = H5Dcreate2(file, "strange", H5T_STD_I16BE, cube, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const float energies[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  assert_true(H5Awrite(role, text, "result\0") >= 0);
  assert_true(H5Dwrite(added, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, energies) >= 0);
  assert_true(H5Aclose(role) >= 0 && H5Dclose(added) >= 0 && H5Dclose(strange) >= 0 && H5Sclose(line) >= 0 &&
              H5Sclose(cube) >= 0 && H5Sclose(scalar) >= 0 && H5Tclose(text) >= 0 && H5Fclose(file) >= 0);
  mhas_reader *reader = must_read(folder_path("a.h5"));
  const mhas_variable *energy = mhas_reader_variable(reader, mhas_reader_find(reader, "energy"));
  assert_int_equal(energy->role, MHAS_ROLE_RESULT);
  assert_int_equal(energy->type, MHAS_REAL);
  assert_string_equal(energy->unit, "");
  assert_number(reader, "energy", 5, 5.0);
  assert_int_equal(mhas_reader_find(reader, "strange"), -1);
  mhas_reader_close(reader);
  mhas_sweep_destroy(sweep);
}

static void points_beyond_the_end_are_an_error(void **state) {
  (void)state;
  mhas_error error;
  double number = 0.0;
  char text[4];
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  must_create(folder_path("a.h5"), sweep);
  mhas_reader *reader = must_read(folder_path("a.h5"));
  const int heads = mhas_reader_find(reader, "heads");
  assert_int_equal(mhas_reader_numbers(reader, heads, 8, 1, &number, &error), MHAS_USAGE);
  assert_says(&error, "there is no point 8; they are numbered 0 to 7");
  assert_int_equal(mhas_reader_numbers(reader, heads, -1, 1, &number, &error), MHAS_USAGE);
  assert_int_equal(mhas_reader_numbers(reader, heads, 7, 2, &number, &error), MHAS_USAGE);
  assert_int_equal(mhas_reader_texts(reader, heads, 0, 1, sizeof text, text, &error), MHAS_INTERNAL);
  assert_int_equal(mhas_reader_numbers(reader, mhas_reader_find(reader, "error"), 0, 1, &number, &error),
                   MHAS_INTERNAL);
  mhas_reader_close(reader);
  mhas_sweep_destroy(sweep);
}

/*
 * A writer that is killed between append and flush: the child reports when it is there, and is killed. Only the child
 * starts MPI.
 */
static void write_and_wait(const mhas_sweep *sweep, int ready) {
  mhas_error error;
  const int64_t rows[5] = {0, 1, 2, 3, 4};
  assert_int_equal(MPI_Init(NULL, NULL), MPI_SUCCESS);
  mhas_store *store = must_open(folder_path("a.h5"), MPI_COMM_SELF, sweep);
  assert_int_equal(mhas_store_begin(store, rows, 5, &error), MHAS_OK);
  append(store, sweep, 0, MHAS_DONE, "");
  append(store, sweep, 1, MHAS_FAILED, "diverged at step 3");
  assert_int_equal(mhas_store_flush(store, &error), MHAS_OK);
  append(store, sweep, 2, MHAS_DONE, "");
  append(store, sweep, 3, MHAS_FAILED, "lost");
  (void)!write(ready, "r", 1);
  for (;;) {
    (void)pause();
  }
}

static void killed_writer_leaves_a_file_that_opens_with_every_ended_row_right(void **state) {
  (void)state;
  mhas_error error;
  mhas_sweep *sweep = parse_sweep(MEMORIZE_SWEEP);
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  must_create(folder_path("a.h5"), sweep);
  int ready[2];
  assert_int_equal(pipe(ready), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test does not leave it behind */
    (void)setenv("TMPDIR", folder, 1);      /* what MPI leaves there goes away with the folder */
    write_and_wait(sweep, ready[1]);
  }
  (void)close(ready[1]);
  char byte = 0;
  assert_int_equal(read(ready[0], &byte, 1), 1);
  (void)close(ready[0]);

  /* While the run has it open for writing, it can be read all the same. */
  const int8_t expected[6] = {MHAS_DONE, MHAS_FAILED, MHAS_RUNNING, MHAS_RUNNING, MHAS_RUNNING, MHAS_PENDING};
  for (int killed = 0; killed < 2; killed++) {
    mhas_reader *reader = must_read(folder_path("a.h5"));
    for (int i = 0; i < 6; i++) {
      assert_number(reader, "status", i, expected[i]);
      assert_number(reader, "attempts", i, i < 5 ? 1 : 0);
      assert_row(reader, experiment, i, i == 0);
    }
    assert_string_equal(text_at(reader, "error", 1), "diverged at step 3");
    assert_string_equal(text_at(reader, "error", 3), "");
    mhas_reader_close(reader);
    if (killed == 0) {
      assert_int_equal(kill(child, SIGKILL), 0);
      assert_int_equal(waitpid(child, NULL, 0), child);
    }
  }
  uint8_t *status = NULL;
  assert_int_equal(mhas_store_resume(folder_path("a.h5"), sweep, 6, false, &status, &error), MHAS_OK);
  assert_int_equal(status[0], MHAS_DONE);
  assert_int_equal(status[1], MHAS_FAILED);
  assert_int_equal(status[2], MHAS_PENDING);
  assert_int_equal(status[4], MHAS_PENDING);
  mhas_free(status);
  mhas_sweep_destroy(sweep);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_make, folder_remove)
  const struct CMUnitTest tests[] = {
      TEST(what_is_no_result_file_is_called_by_its_name),
      TEST(hdf5_file_of_others_is_told_apart),
      TEST(file_cut_short_is_refused),
      TEST(file_without_status_is_refused),
      TEST(variables_of_another_version_are_shown),
      TEST(points_beyond_the_end_are_an_error),
      TEST(killed_writer_leaves_a_file_that_opens_with_every_ended_row_right),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
