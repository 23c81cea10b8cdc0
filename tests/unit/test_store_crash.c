/*
 * A writer that dies at any of its writes: the file opens, and whatever says that it is done or failed is whole.
 *
 * Each child process starts MPI, writes six rows, and is killed in front of its n-th write, for every n.
 */
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "store_fixture.h"

static long writes_left = -1; /* to the result file; -1: any number */

static bool is_result_file(int file) {
  char link[64];
  char name[FOLDER_PATH];
  (void)snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, name, sizeof name - 1);
  return length > 5 && memcmp(name + length - 5, "/a.h5", 5) == 0;
}

/* MPI-IO (ROMIO) writes through this. */
ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
  if (writes_left >= 0 && is_result_file(file) && writes_left-- == 0) {
    (void)kill(getpid(), SIGKILL);
  }
  return syscall(SYS_pwrite64, file, bytes, count, offset);
}

/* Rows 0 to 2 in one flush, 4 and 5 in another; row 3 is never touched, row 5 fails. */
static void write_rows(const mhas_sweep *sweep, long writes) {
  mhas_error error;
  const int64_t rows[5] = {0, 1, 2, 4, 5};
  assert_int_equal(MPI_Init(NULL, NULL), MPI_SUCCESS);
  mhas_store *store = must_open(folder_path("a.h5"), MPI_COMM_SELF, sweep);
  writes_left = writes;
  assert_int_equal(mhas_store_begin(store, rows, 5, &error), MHAS_OK);
  for (int64_t row = 0; row < 3; row++) {
    append(store, sweep, row, MHAS_DONE, "");
  }
  assert_int_equal(mhas_store_flush(store, &error), MHAS_OK);
  append(store, sweep, 4, MHAS_DONE, "");
  append(store, sweep, 5, MHAS_FAILED, "diverged");
  must_close(store);
  writes_left = -1;
}

/* True if it was killed. */
static bool write_until_killed(const mhas_sweep *sweep, long writes) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    (void)setenv("TMPDIR", folder, 1); /* what MPI leaves there goes away with the folder */
    write_rows(sweep, writes);
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL);
  return WIFSIGNALED(status);
}

static void check_what_is_there(const mhas_experiment *experiment, int64_t *ended) {
  mhas_reader *reader = must_read(folder_path("a.h5"));
  *ended = 0;
  for (int64_t row = 0; row < 6; row++) {
    const double status = number_at(reader, "status", row);
    if (status == MHAS_DONE) {
      assert_row(reader, experiment, row, true);
      assert_number(reader, "attempts", row, 1);
      assert_number(reader, "seconds", row, 0.25);
    } else if (status == MHAS_FAILED) {
      assert_int_equal(row, 5);
      assert_string_equal(text_at(reader, "error", row), "diverged");
      assert_row(reader, experiment, row, false);
    } else {
      assert_true(status == MHAS_PENDING || status == MHAS_RUNNING);
    }
    *ended += status == MHAS_DONE || status == MHAS_FAILED ? 1 : 0;
  }
  assert_number(reader, "status", 3, MHAS_PENDING);
  mhas_reader_close(reader);
}

static void rows_that_say_done_are_whole_wherever_the_writer_dies(void **state) {
  (void)state;
  int64_t ended = 0;
  int64_t before = 0;
  long writes = 0;
  mhas_sweep *sweep = parse_sweep(MEMORIZE_SWEEP);
  bool killed = true;
  for (; killed; writes++) {
    must_create(folder_path("a.h5"), sweep);
    killed = write_until_killed(sweep, writes);
    check_what_is_there(mhas_sweep_experiment(sweep), &ended);
    assert_in_range(ended, before, 5);
    before = ended;
    assert_int_equal(unlink(folder_path("a.h5")), 0);
  }
  assert_int_equal(ended, 5);
  assert_true(writes > 2 * mhas_sweep_experiment(sweep)->result_count);
  mhas_sweep_destroy(sweep);
}

int main(void) {
  (void)setenv("OMPI_MCA_io", "^ompio", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(rows_that_say_done_are_whole_wherever_the_writer_dies, folder_make,
                                      folder_remove),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
