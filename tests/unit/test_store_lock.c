/* One run at a time writes a file. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "store/lock.h"
#include "store_fixture.h"

typedef mhas_code locking(const char *path, int *lock, mhas_error *error);

/* A child that takes the lock and keeps it until it is killed. */
static pid_t start_owner(locking *take) {
  int ready[2];
  assert_int_equal(pipe(ready), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test does not leave it behind */
    mhas_error error;
    int lock = -1;
    const char taken = take(folder_path("a.h5"), &lock, &error) == MHAS_OK;
    (void)!write(ready[1], &taken, 1);
    for (;;) {
      (void)pause();
    }
  }
  char taken = 0;
  assert_int_equal(read(ready[0], &taken, 1), 1);
  assert_int_equal(taken, 1);
  (void)close(ready[0]);
  (void)close(ready[1]);
  return child;
}

static void kill_owner(pid_t child) {
  assert_int_equal(kill(child, SIGKILL), 0);
  assert_int_equal(waitpid(child, NULL, 0), child);
}

static void make_file(void) {
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  must_create(folder_path("a.h5"), sweep);
  mhas_sweep_destroy(sweep);
}

static void check_lock(locking *take) {
  mhas_error error;
  int lock = -1;
  char words[96];
  make_file();
  const pid_t owner = start_owner(take);
  assert_int_equal(take(folder_path("a.h5"), &lock, &error), MHAS_IO);
  assert_int_equal(lock, -1);
  (void)snprintf(words, sizeof words, "a.h5: is being written by another run (process %d on this machine)", (int)owner);
  assert_says(&error, words);
  kill_owner(owner);
  assert_int_equal(take(folder_path("a.h5"), &lock, &error), MHAS_OK);
  mhas_store_unlock(lock);
  assert_int_equal(take(folder_path("a.h5"), &lock, &error), MHAS_OK);
  mhas_store_unlock(lock);
  assert_int_equal(count_entries(folder), 1);
}

static void second_run_learns_who_writes_and_a_killed_one_leaves_no_lock(void **state) {
  (void)state;
  check_lock(mhas_store_lock);
}

static void lock_beside_the_file_does_the_same(void **state) {
  (void)state;
  check_lock(store_lock_beside);
}

/* As Open MPI does on NFS; its own lock would meet ours. */
static void file_that_open_mpi_locks_whole_is_locked_beside(void **state) {
  (void)state;
  mhas_error error;
  int lock = -1;
  make_file();
  assert_int_equal(setenv("OMPI_MCA_fs_ufs_lock_algorithm", "2", 1), 0);
  assert_int_equal(mhas_store_lock(folder_path("a.h5"), &lock, &error), MHAS_OK);
  assert_int_equal(unsetenv("OMPI_MCA_fs_ufs_lock_algorithm"), 0);
  assert_true(mhas_store_exists(folder_path("a.h5.lock")));
  mhas_store_unlock(lock);
  assert_int_equal(count_entries(folder), 1);
}

static void lock_is_held_within_a_process_too(void **state) {
  (void)state;
  mhas_error error;
  int first = -1;
  int second = -1;
  make_file();
  assert_int_equal(mhas_store_lock(folder_path("a.h5"), &first, &error), MHAS_OK);
  assert_int_equal(mhas_store_lock(folder_path("a.h5"), &second, &error), MHAS_IO);
  mhas_store_unlock(second);
  mhas_store_unlock(first);
}

static void locked_file_can_be_read_and_resumed(void **state) {
  (void)state;
  mhas_error error;
  int lock = -1;
  uint8_t *status = NULL;
  make_file();
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  assert_int_equal(mhas_store_lock(folder_path("a.h5"), &lock, &error), MHAS_OK);
  assert_int_equal(mhas_store_resume(folder_path("a.h5"), sweep, 8, false, &status, &error), MHAS_OK);
  mhas_reader_close(must_read(folder_path("a.h5")));
  /* Closing the file elsewhere in the process does not give the lock away. */
  int second = -1;
  assert_int_equal(mhas_store_lock(folder_path("a.h5"), &second, &error), MHAS_IO);
  mhas_store_unlock(lock);
  mhas_free(status);
  mhas_sweep_destroy(sweep);
}

static void locking_changes_neither_size_nor_name(void **state) {
  (void)state;
  mhas_error error;
  int lock = -1;
  struct stat before;
  struct stat after;
  make_file();
  /* A result file may be called like a file that only serves as a lock. */
  assert_int_equal(rename(folder_path("a.h5"), folder_path("a.lock")), 0);
  assert_int_equal(stat(folder_path("a.lock"), &before), 0);
  assert_int_equal(mhas_store_lock(folder_path("a.lock"), &lock, &error), MHAS_OK);
  mhas_store_unlock(lock);
  assert_int_equal(stat(folder_path("a.lock"), &after), 0);
  assert_int_equal(before.st_size, after.st_size);
}

static void missing_file_cannot_be_locked(void **state) {
  (void)state;
  mhas_error error;
  int lock = -1;
  assert_int_equal(mhas_store_lock(folder_path("a.h5"), &lock, &error), MHAS_IO);
  assert_says(&error, "No such file");
  assert_int_equal(count_entries(folder), 0);
}

static void who_only_looks_learns_whether_a_run_writes(void **state) {
  (void)state;
  assert_int_equal(mhas_store_is_written(folder_path("a.h5")), MHAS_NOT_WRITTEN); /* there is none */
  make_file();
  for (int whole = 0; whole < 2; whole++) { /* the second time as on NFS, where the lock lies beside */
    assert_int_equal(whole == 0 ? 0 : setenv("OMPI_MCA_fs_ufs_lock_algorithm", "2", 1), 0);
    assert_int_equal(mhas_store_is_written(folder_path("a.h5")), MHAS_NOT_WRITTEN);
    const pid_t owner = start_owner(mhas_store_lock);
    assert_int_equal(mhas_store_is_written(folder_path("a.h5")), MHAS_WRITTEN);
    kill_owner(owner);
    assert_int_equal(mhas_store_is_written(folder_path("a.h5")), MHAS_NOT_WRITTEN);
  }
  assert_int_equal(unsetenv("OMPI_MCA_fs_ufs_lock_algorithm"), 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_make, folder_remove)
  const struct CMUnitTest tests[] = {
      TEST(second_run_learns_who_writes_and_a_killed_one_leaves_no_lock),
      TEST(lock_beside_the_file_does_the_same),
      TEST(file_that_open_mpi_locks_whole_is_locked_beside),
      TEST(lock_is_held_within_a_process_too),
      TEST(locked_file_can_be_read_and_resumed),
      TEST(locking_changes_neither_size_nor_name),
      TEST(missing_file_cannot_be_locked),
      TEST(who_only_looks_learns_whether_a_run_writes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
