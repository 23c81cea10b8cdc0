/* Creating result files: what is in them, and what is left when it cannot be done. */
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "store/place.h"
#include "store_fixture.h"

static void new_file_has_all_parameters_and_nothing_done(void **state) {
  (void)state;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  must_create(folder_path("a.h5"), sweep);
  mhas_reader *reader = must_read(folder_path("a.h5"));
  assert_int_equal(mhas_reader_points(reader), 8);
  mhas_rows *rows = NULL;
  mhas_error error;
  assert_int_equal(mhas_rows_create(sweep, &rows, &error), MHAS_OK);
  for (int64_t row = 0; row < 8; row++) {
    mhas_value values[64];
    int64_t replicate = 0;
    bool included = false;
    assert_int_equal(mhas_sweep_point(sweep, mhas_rows_grid_index(rows, row), values, &replicate, &included, &error),
                     MHAS_OK);
    for (int i = 0; i < experiment->parameter_count; i++) {
      const mhas_parameter *parameter = &experiment->parameters[i];
      if (parameter->type == MHAS_TEXT) {
        assert_string_equal(text_at(reader, parameter->name, row), values[i].text);
        continue;
      }
      assert_number(reader, parameter->name, row,
                    parameter->type == MHAS_REAL ? values[i].real : (double)values[i].integer);
    }
    assert_number(reader, "replicate", row, (double)replicate);
    assert_row(reader, experiment, row, false);
    assert_number(reader, "status", row, MHAS_PENDING);
    assert_number(reader, "attempts", row, 0);
    assert_number(reader, "seconds", row, NAN);
    assert_number(reader, "ranks", row, NAN);
    assert_number(reader, "flops", row, NAN);
    assert_string_equal(text_at(reader, "error", row), "");
    assert_string_equal(text_at(reader, "hostname", row), "");
  }
  mhas_rows_destroy(rows);
  mhas_reader_close(reader);
  mhas_sweep_destroy(sweep);
}

static void variables_say_what_they_are(void **state) {
  (void)state;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  must_create(folder_path("a.h5"), sweep);
  mhas_reader *reader = must_read(folder_path("a.h5"));
  const mhas_variable *heads = mhas_reader_variable(reader, mhas_reader_find(reader, "heads"));
  assert_int_equal(heads->role, MHAS_ROLE_PARAMETER);
  assert_int_equal(heads->type, MHAS_INTEGER);
  assert_true(heads->is_axis);
  assert_string_equal(heads->unit, "1");
  assert_string_equal(heads->meaning, "attention heads H");
  assert_false(mhas_reader_variable(reader, mhas_reader_find(reader, "dim"))->is_axis);
  assert_true(mhas_reader_variable(reader, mhas_reader_find(reader, "replicate"))->is_axis);
  const mhas_variable *kind = mhas_reader_variable(reader, mhas_reader_find(reader, "context_type"));
  assert_int_equal(kind->type, MHAS_CHOICE);
  assert_int_equal(kind->word_count, 3);
  assert_string_equal(kind->words[1], "shared");
  assert_int_equal(mhas_reader_variable(reader, mhas_reader_find(reader, "logit_scale"))->type, MHAS_REAL);
  const mhas_variable *memorized = mhas_reader_variable(reader, mhas_reader_find(reader, "memorized"));
  assert_int_equal(memorized->role, MHAS_ROLE_RESULT);
  assert_int_equal(memorized->type, MHAS_FLAG);
  const mhas_variable *status = mhas_reader_variable(reader, mhas_reader_find(reader, "status"));
  assert_int_equal(status->role, MHAS_ROLE_RUN);
  assert_int_equal(status->word_count, 4);
  assert_string_equal(status->words[MHAS_DONE], "done");
  assert_true(mhas_reader_variable(reader, mhas_reader_find(reader, "error"))->is_text);
  assert_string_equal(mhas_reader_variable(reader, mhas_reader_find(reader, "seconds"))->unit, "s");
  assert_int_equal(mhas_reader_curve_count(reader), 0);
  mhas_reader_close(reader);
  mhas_sweep_destroy(sweep);
}

static void replicate_of_a_single_one_is_no_axis(void **state) {
  (void)state;
  mhas_sweep *sweep = parse_sweep(MEMORIZE_SWEEP);
  must_create(folder_path("a.h5"), sweep);
  mhas_reader *reader = must_read(folder_path("a.h5"));
  assert_false(mhas_reader_variable(reader, mhas_reader_find(reader, "replicate"))->is_axis);
  assert_int_equal(mhas_reader_curve_count(reader), 3);
  assert_string_equal(mhas_reader_curve_name(reader, 1), "loss");
  mhas_reader_close(reader);
  mhas_sweep_destroy(sweep);
}

static void file_tells_its_origin(void **state) {
  (void)state;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  must_create(folder_path("a.h5"), sweep);
  mhas_reader *reader = must_read(folder_path("a.h5"));
  assert_string_equal(mhas_reader_attribute(reader, "Conventions"), "CF-1.8");
  assert_string_equal(mhas_reader_attribute(reader, "experiment"), "probe");
  assert_string_equal(mhas_reader_attribute(reader, "title"), mhas_sweep_experiment(sweep)->title);
  assert_string_equal(mhas_reader_attribute(reader, "spec"), PROBE_SWEEP);
  assert_string_equal(mhas_reader_attribute(reader, "spec_overrides"), "");
  assert_string_equal(mhas_reader_attribute(reader, "spec_hash"), mhas_sweep_hash(sweep));
  assert_string_equal(mhas_reader_attribute(reader, "spec_canonical"), mhas_sweep_canonical(sweep));
  assert_string_equal(mhas_reader_attribute(reader, "seed"), "7");
  assert_string_equal(mhas_reader_attribute(reader, "schema_version"), "1");
  assert_string_equal(mhas_reader_attribute(reader, "mhasweep_version"), "1.2.3");
  assert_string_equal(mhas_reader_attribute(reader, "git_commit"), "abc");
  assert_string_equal(mhas_reader_attribute(reader, "mpi_library"), "an MPI");
  assert_string_equal(mhas_reader_attribute(reader, "mpi_size"), "3");
  assert_string_equal(mhas_reader_attribute(reader, "blas_library"), "a BLAS");
  assert_string_equal(mhas_reader_attribute(reader, "blas_core"), "Generic");
  assert_string_equal(mhas_reader_attribute(reader, "slurm_job_id"), "");
  assert_int_equal(strlen(mhas_reader_attribute(reader, "created")), strlen("2026-01-31T12:00:00Z"));
  assert_int_equal(strncmp(mhas_reader_attribute(reader, "hdf5_version"), "1.", 2), 0);
  assert_string_equal(mhas_reader_attribute(reader, "no such attribute"), "");
  mhas_reader_close(reader);
  mhas_sweep_destroy(sweep);
}

/* Comments count in `spec`, up to the most that a sweep file may have. */
static void long_sweep_file_is_kept_whole(void **state) {
  (void)state;
  const size_t length = 1 << 20;
  char *text = malloc(length + 1);
  assert_non_null(text);
  const size_t start = strlen(PROBE_SWEEP "# ");
  memcpy(text, PROBE_SWEEP "# ", start);
  memset(text + start, 'x', length - start);
  text[length] = '\0';
  mhas_sweep *sweep = parse_sweep(text);
  must_create(folder_path("a.h5"), sweep);
  mhas_reader *reader = must_read(folder_path("a.h5"));
  assert_string_equal(mhas_reader_attribute(reader, "spec"), text);
  mhas_reader_close(reader);
  mhas_sweep_destroy(sweep);
  free(text);
}

/* One head leaves no sample: its run will fail with the reason, its row says nothing. (In a smaller grid the sweep file
 * would be refused.) */
static void point_that_cannot_be_computed_has_no_parameters(void **state) {
  (void)state;
  mhas_sweep *sweep = parse_sweep(
      "experiment: probe\nparameters: {heads: {from: 1, to: 70000, step: 1}, samples: '= heads - 1', dim: 4}\n");
  must_create(folder_path("a.h5"), sweep);
  mhas_reader *reader = must_read(folder_path("a.h5"));
  assert_number(reader, "heads", 0, NAN);
  assert_number(reader, "samples", 0, NAN);
  assert_number(reader, "logit_scale", 0, NAN);
  assert_number(reader, "context_type", 0, NAN);
  assert_number(reader, "heads", 2, 3);
  assert_number(reader, "samples", 2, 2);
  assert_number(reader, "status", 0, MHAS_PENDING);
  mhas_reader_close(reader);
  mhas_sweep_destroy(sweep);
}

/* Only a variable that can be missing has a _FillValue: xarray makes floating-point numbers of it. */
static void parameters_without_gaps_have_no_fill_value(void **state) {
  (void)state;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  must_create(folder_path("a.h5"), sweep);
  const hid_t file = H5Fopen(folder_path("a.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
  assert_int_equal(H5Aexists_by_name(file, "heads", "_FillValue", H5P_DEFAULT), 0);
  assert_int_equal(H5Aexists_by_name(file, "status", "_FillValue", H5P_DEFAULT), 0);
  assert_true(H5Aexists_by_name(file, "rank", "_FillValue", H5P_DEFAULT) > 0);
  assert_true(H5Fclose(file) >= 0);
  mhas_sweep_destroy(sweep);
}

static void arrays_of_too_many_points_are_refused(void **state) {
  (void)state;
  mhas_error error;
  mhas_sweep *sweep =
      parse_sweep("experiment: probe\nparameters: {dim: 2, samples: 4}\nreplicates: 100001\nstore: [z]\n");
  if (mhas_sweep_experiment(sweep)->arrays == NULL) {
    mhas_sweep_destroy(sweep);
    skip();
  }
  assert_int_equal(create_file(folder_path("a.h5"), sweep, &error), MHAS_USAGE);
  assert_says(&error, "more than 100000 points");
  assert_int_equal(count_entries(folder), 0);
  mhas_sweep_destroy(sweep);
}

/* More points than are written at a time. */
static void large_file_has_every_point(void **state) {
  (void)state;
  mhas_sweep *sweep = parse_sweep(
      "experiment: probe\nparameters:\n  dim: [1, 2, 3]\n  samples: 4\nreplicates: 9001\nstore: [spectrum]\n");
  must_create(folder_path("a.h5"), sweep);
  mhas_reader *reader = must_read(folder_path("a.h5"));
  assert_int_equal(mhas_reader_points(reader), 27003);
  for (int64_t row = 0; row < 27003; row += 1009) {
    assert_number(reader, "dim", row, (double)(row / 9001 + 1));
    assert_number(reader, "replicate", row, (double)(row % 9001));
    assert_number(reader, "rank", row, NAN);
  }
  mhas_reader_close(reader);
  mhas_sweep_destroy(sweep);
}

static void existing_file_is_never_overwritten(void **state) {
  (void)state;
  mhas_error error;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  const char *path = folder_path("a.h5");
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fputs("precious", file) >= 0 && fclose(file) == 0, 1);
  assert_true(mhas_store_exists(path));
  assert_int_equal(create_file(path, sweep, &error), MHAS_IO);
  assert_says(&error, "is there already");
  char content[32] = "";
  file = fopen(path, "r");
  assert_non_null(file);
  assert_non_null(fgets(content, sizeof content, file));
  (void)fclose(file);
  assert_string_equal(content, "precious");
  assert_int_equal(count_entries(folder), 1);
  mhas_sweep_destroy(sweep);
}

/* A file system that knows no renaming without overwriting, as network file systems do. */
static bool old_rename = false;

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
  if (old_rename && flags != 0) {
    errno = EINVAL;
    return -1;
  }
  return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

static void check_late_file_survives(void) {
  mhas_error error;
  store_place place;
  struct stat facts;
  assert_int_equal(store_place_begin(folder_path("a.h5"), &place, &error), MHAS_OK);
  FILE *late = fopen(folder_path("a.h5"), "wx");
  assert_non_null(late);
  assert_int_equal(fputs("precious", late) >= 0 && fclose(late) == 0, 1);
  assert_int_equal(store_place_commit(&place, &error), MHAS_IO);
  assert_says(&error, "is there already");
  store_place_end(&place);
  assert_int_equal(count_entries(folder), 1);
  assert_int_equal(stat(folder_path("a.h5"), &facts), 0);
  assert_int_equal(facts.st_size, 8);
}

static void file_that_appears_meanwhile_is_not_overwritten(void **state) {
  (void)state;
  check_late_file_survives();
}

static void network_file_systems_do_not_overwrite_either(void **state) {
  (void)state;
  old_rename = true;
  check_late_file_survives();
  assert_int_equal(unlink(folder_path("a.h5")), 0);
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  must_create(folder_path("a.h5"), sweep);
  old_rename = false;
  assert_int_equal(count_entries(folder), 1);
  mhas_reader_close(must_read(folder_path("a.h5")));
  mhas_sweep_destroy(sweep);
}

static void link_to_nowhere_counts_as_existing(void **state) {
  (void)state;
  mhas_error error;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  assert_int_equal(symlink("nowhere", folder_path("a.h5")), 0);
  assert_true(mhas_store_exists(folder_path("a.h5")));
  assert_false(mhas_store_exists(folder_path("b.h5")));
  assert_int_equal(create_file(folder_path("a.h5"), sweep, &error), MHAS_IO);
  assert_int_equal(count_entries(folder), 1);
  mhas_sweep_destroy(sweep);
}

static void missing_folder_is_named(void **state) {
  (void)state;
  mhas_error error;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  assert_int_equal(create_file(folder_path("sub/a.h5"), sweep, &error), MHAS_IO);
  assert_says(&error, "/sub does not exist");
  assert_int_equal(count_entries(folder), 0);
  mhas_sweep_destroy(sweep);
}

static void folder_that_takes_no_files_is_named(void **state) {
  (void)state;
  mhas_error error;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  assert_int_equal(create_file("/proc/a.h5", sweep, &error), MHAS_IO);
  assert_says(&error, "no file can be made in the folder /proc");
  mhas_sweep_destroy(sweep);
}

static void file_in_place_of_the_folder_is_an_error(void **state) {
  (void)state;
  mhas_error error;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  must_create(folder_path("a.h5"), sweep);
  assert_int_equal(create_file(folder_path("a.h5/b.h5"), sweep, &error), MHAS_IO);
  assert_says(&error, "Not a directory");
  mhas_sweep_destroy(sweep);
}

/* ---- writes that fail ---- */

/* A disk that takes this much more (-1: any amount) and cannot reserve; HDF5 and the store write through these. */
static off_t disk_left = -1;

int fallocate(int file, int mode, off_t offset, off_t length) {
  if (disk_left >= 0) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return (int)syscall(SYS_fallocate, file, mode, offset, length);
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
  struct stat facts;
  struct statfs disk;
  if (disk_left >= 0 && fstatfs(file, &disk) == 0 && disk.f_type != TMPFS_MAGIC && fstat(file, &facts) == 0) {
    const off_t more = offset + (off_t)count - facts.st_size;
    if (more > disk_left) {
      errno = ENOSPC;
      return -1;
    }
    disk_left -= more > 0 ? more : 0;
  }
  return syscall(SYS_pwrite64, file, bytes, count, offset);
}

/* In a child, whose HDF5 has a file that it cannot finish: it must end quietly all the same. */
static bool create_on_disk_of(off_t bytes) {
  int output[2];
  assert_int_equal(pipe(output), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    (void)dup2(output[1], STDERR_FILENO);
    (void)dup2(output[1], STDOUT_FILENO);
    (void)signal(SIGSEGV, SIG_DFL); /* cmocka would go on with the next test */
    mhas_error error = {0};
    mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
    disk_left = bytes;
    const mhas_code code = create_file(folder_path("a.h5"), sweep, &error);
    mhas_sweep_destroy(sweep);
    exit(code == MHAS_OK ? 0 : code == MHAS_IO && strstr(error.text, "No space left") != NULL ? 3 : 4);
  }
  (void)close(output[1]);
  char said[512] = "";
  const ssize_t length = read(output[0], said, sizeof said - 1);
  (void)close(output[0]);
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (length != 0 || !WIFEXITED(status) || WEXITSTATUS(status) == 4) {
    fail_msg("on a disk of %ld bytes the child ended with %d and said: %s", (long)bytes, status, said);
  }
  return WEXITSTATUS(status) == 0;
}

static void disk_that_cannot_reserve_and_fills_up_is_an_error_and_leaves_nothing(void **state) {
  (void)state;
  off_t bytes = 128; /* with less than its first block on disk HDF5 itself leaks a little */
  for (; !create_on_disk_of(bytes); bytes += bytes / 4 + 1) {
    assert_int_equal(count_entries(folder), 0);
  }
  struct stat facts;
  assert_int_equal(stat(folder_path("a.h5"), &facts), 0);
  assert_in_range(bytes, facts.st_size / 2, 4 * facts.st_size);
  mhas_reader_close(must_read(folder_path("a.h5")));
}

static void limit_on_file_sizes_is_named(void **state) {
  (void)state;
  mhas_error error;
  struct rlimit before;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit limit = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const mhas_code code = create_file(folder_path("a.h5"), sweep, &error);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_int_equal(code, MHAS_IO);
  assert_says(&error, "ulimit -f");
  assert_int_equal(count_entries(folder), 0);
  mhas_sweep_destroy(sweep);
}

static void full_disk_says_how_much_is_needed(void **state) {
  (void)state;
  mhas_error error;
  if (mount("none", folder, "tmpfs", 0, "size=256k") != 0) {
    print_message("skipped: a small file system cannot be mounted here\n");
    skip();
  }
  mhas_sweep *sweep = parse_sweep(
      "experiment: probe\nparameters:\n  dim: [1, 2, 3]\n  samples: 4\nreplicates: 1000\nstore: [spectrum]\n");
  const mhas_code code = create_file(folder_path("a.h5"), sweep, &error);
  const int left = count_entries(folder);
  assert_int_equal(umount(folder), 0);
  assert_int_equal(code, MHAS_IO);
  assert_says(&error, "No space left");
  assert_says(&error, "the file needs ");
  assert_says(&error, " MiB, the disk of ");
  assert_says(&error, "has 256 KiB left");
  assert_int_equal(left, 0);
  mhas_sweep_destroy(sweep);
}

static void read_only_file_system_is_an_error(void **state) {
  (void)state;
  mhas_error error;
  if (mount("none", folder, "tmpfs", MS_RDONLY, "size=4k") != 0) {
    print_message("skipped: a read-only file system cannot be mounted here\n");
    skip();
  }
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  const mhas_code code = create_file(folder_path("a.h5"), sweep, &error);
  assert_int_equal(umount(folder), 0);
  assert_int_equal(code, MHAS_IO);
  assert_says(&error, "Read-only file system");
  mhas_sweep_destroy(sweep);
}

static void estimated_plan_is_refused(void **state) {
  (void)state;
  mhas_error error;
  mhas_rows *rows = NULL;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  const mhas_plan plan = {.exact = false, .spectrum_most = TEST_VALUES};
  const mhas_provenance provenance = {.version = "1"};
  assert_int_equal(mhas_rows_create(sweep, &rows, &error), MHAS_OK);
  assert_int_equal(mhas_store_create(folder_path("a.h5"), sweep, rows, &plan, &provenance, &error), MHAS_INTERNAL);
  assert_int_equal(count_entries(folder), 0);
  mhas_rows_destroy(rows);
  mhas_sweep_destroy(sweep);
}

static void file_has_the_rights_of_any_new_file(void **state) {
  (void)state;
  struct stat facts;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  const mode_t before = umask(027);
  must_create(folder_path("a.h5"), sweep);
  (void)umask(before);
  assert_int_equal(stat(folder_path("a.h5"), &facts), 0);
  assert_int_equal(facts.st_mode & 0777, 0640);
  mhas_sweep_destroy(sweep);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_make, folder_remove)
  const struct CMUnitTest tests[] = {
      TEST(new_file_has_all_parameters_and_nothing_done),
      TEST(variables_say_what_they_are),
      TEST(replicate_of_a_single_one_is_no_axis),
      TEST(file_tells_its_origin),
      TEST(long_sweep_file_is_kept_whole),
      TEST(point_that_cannot_be_computed_has_no_parameters),
      TEST(parameters_without_gaps_have_no_fill_value),
      TEST(arrays_of_too_many_points_are_refused),
      TEST(large_file_has_every_point),
      TEST(existing_file_is_never_overwritten),
      TEST(file_that_appears_meanwhile_is_not_overwritten),
      TEST(network_file_systems_do_not_overwrite_either),
      TEST(link_to_nowhere_counts_as_existing),
      TEST(missing_folder_is_named),
      TEST(folder_that_takes_no_files_is_named),
      TEST(file_in_place_of_the_folder_is_an_error),
      TEST(disk_that_cannot_reserve_and_fills_up_is_an_error_and_leaves_nothing),
      TEST(limit_on_file_sizes_is_named),
      TEST(full_disk_says_how_much_is_needed),
      TEST(read_only_file_system_is_an_error),
      TEST(estimated_plan_is_refused),
      TEST(file_has_the_rights_of_any_new_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
