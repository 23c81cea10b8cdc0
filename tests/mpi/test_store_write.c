/* Writing rows from all ranks: each its own, every one read back right whatever the number of ranks. */
#include <hdf5.h>

#include "store_fixture.h"

enum { ROWS = 3000 };

static int rank;
static int size;

/* 3000 points with curves. */
static const char sweep_text[] =
    "experiment: memorize\nparameters:\n  heads: [1, 2, 3]\n  samples: 64\n  steps: 100\nreplicates: 1000\n";

static int make_shared_folder(void **state) {
  int status = rank == 0 ? folder_make(state) : 0;
  MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
  return status;
}

static int remove_shared_folder(void **state) {
  MPI_Barrier(MPI_COMM_WORLD);
  return rank == 0 ? folder_remove(state) : 0;
}

static void create_shared(const char *path, mhas_sweep *sweep) {
  if (rank == 0) {
    must_create(path, sweep);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static void begin(mhas_store *store, const int64_t *rows, int64_t count) {
  mhas_error error;
  if (mhas_store_begin(store, rows, count, &error) != MHAS_OK) {
    fail_msg("%s", error.text);
  }
}

/* Writes the rows r, r + size, r + 2 size ... */
static void interleaved_rows_are_read_back_right(void **state) {
  (void)state;
  mhas_sweep *sweep = parse_sweep(sweep_text);
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  create_shared(folder_path("a.h5"), sweep);
  mhas_store *store = must_open(folder_path("a.h5"), MPI_COMM_WORLD, sweep);
  assert_int_equal(mhas_store_record_capacity(store), TEST_RECORDS);
  assert_int_equal(mhas_store_spectrum_capacity(store), 0);
  for (int64_t row = rank; row < ROWS; row += size) {
    begin(store, &row, 1);
    append(store, sweep, row, row % 7 == 3 ? MHAS_FAILED : MHAS_DONE, row % 7 == 3 ? "no luck" : "");
  }
  must_close(store);
  MPI_Barrier(MPI_COMM_WORLD);
  char host[MHAS_HOSTNAME_LENGTH] = "";
  assert_int_equal(gethostname(host, sizeof host - 1), 0);
  mhas_reader *reader = must_read(folder_path("a.h5"));
  for (int64_t row = rank; row < ROWS; row += 7 * size) {
    const bool failed = row % 7 == 3;
    assert_number(reader, "status", row, failed ? MHAS_FAILED : MHAS_DONE);
    assert_number(reader, "attempts", row, 1);
    assert_number(reader, "seconds", row, 0.25);
    assert_number(reader, "started", row, 1.75e9 + (double)row);
    assert_number(reader, "ranks", row, 1);
    assert_number(reader, "first_rank", row, (double)(row % size));
    assert_number(reader, "flops", row, 1e6 * (double)row);
    assert_string_equal(text_at(reader, "error", row), failed ? "no luck" : "");
    assert_string_equal(text_at(reader, "hostname", row), host);
    assert_row(reader, experiment, row, !failed);
  }
  mhas_reader_close(reader);
  mhas_sweep_destroy(sweep);
}

/* Chunks of consecutive rows, larger than the buffer, in no order among the ranks. */
static void consecutive_rows_are_read_back_right(void **state) {
  (void)state;
  mhas_sweep *sweep = parse_sweep(sweep_text);
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  create_shared(folder_path("a.h5"), sweep);
  mhas_store *store = must_open(folder_path("a.h5"), MPI_COMM_WORLD, sweep);
  const int64_t first = (int64_t)ROWS * rank / size;
  const int64_t end = (int64_t)ROWS * (rank + 1) / size;
  int64_t *rows = calloc(ROWS, sizeof *rows);
  assert_non_null(rows);
  for (int64_t row = first; row < end; row++) {
    rows[row - first] = row;
  }
  begin(store, rows, end - first);
  for (int64_t row = first; row < end; row++) {
    append(store, sweep, row, MHAS_DONE, "");
  }
  must_close(store);
  MPI_Barrier(MPI_COMM_WORLD);
  mhas_reader *reader = must_read(folder_path("a.h5"));
  for (int64_t row = (rank + 1) % size; row < ROWS; row += 11 * size) { /* mostly rows of others */
    assert_number(reader, "status", row, MHAS_DONE);
    assert_number(reader, "attempts", row, 1);
    assert_row(reader, experiment, row, true);
  }
  mhas_reader_close(reader);
  free(rows);
  mhas_sweep_destroy(sweep);
}

static void begin_counts_attempts_and_given_up_rows_stay_pending(void **state) {
  (void)state;
  mhas_error error;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  create_shared(folder_path("a.h5"), sweep);
  mhas_store *store = must_open(folder_path("a.h5"), MPI_COMM_WORLD, sweep);
  assert_int_equal(mhas_store_spectrum_capacity(store), TEST_VALUES);
  assert_int_equal(mhas_store_record_capacity(store), 0);
  if (rank == size - 1) {
    const int64_t rows[4] = {1, 2, 3, 6};
    begin(store, rows, 4);
    append(store, sweep, 2, MHAS_PENDING, "");
    append(store, sweep, 3, MHAS_DONE, "");
    append(store, sweep, 6, MHAS_FAILED, "first");
    assert_int_equal(mhas_store_flush(store, &error), MHAS_OK);
    mhas_reader *reader = must_read(folder_path("a.h5"));
    const int8_t expected[8] = {MHAS_PENDING, MHAS_RUNNING, MHAS_PENDING, MHAS_DONE,
                                MHAS_PENDING, MHAS_PENDING, MHAS_FAILED,  MHAS_PENDING};
    for (int i = 0; i < 8; i++) {
      assert_number(reader, "status", i, expected[i]);
      assert_number(reader, "attempts", i, i == 1 || i == 2 || i == 3 || i == 6 ? 1 : 0);
      assert_row(reader, experiment, i, i == 3);
    }
    assert_number(reader, "seconds", 2, NAN); /* of a given-up row nothing is known */
    mhas_reader_close(reader);
    begin(store, &rows[3], 1);
    append(store, sweep, 6, MHAS_DONE, "");
  }
  must_close(store);
  MPI_Barrier(MPI_COMM_WORLD);
  mhas_reader *reader = must_read(folder_path("a.h5"));
  assert_number(reader, "status", 6, MHAS_DONE);
  assert_number(reader, "attempts", 6, 2);
  assert_string_equal(text_at(reader, "error", 6), "");
  assert_row(reader, experiment, 6, true);
  mhas_reader_close(reader);
  mhas_sweep_destroy(sweep);
}

/* What an attempt left behind that was killed before its status: the failure after it must not keep it. */
static void failure_wipes_what_was_there(void **state) {
  (void)state;
  mhas_sweep *sweep = parse_sweep(sweep_text);
  create_shared(folder_path("a.h5"), sweep);
  mhas_store *store = must_open(folder_path("a.h5"), MPI_COMM_WORLD, sweep);
  append(store, sweep, 5 + rank, MHAS_DONE, "");
  append(store, sweep, 5 + rank, MHAS_FAILED, "");
  must_close(store);
  mhas_reader *reader = must_read(folder_path("a.h5"));
  assert_row(reader, mhas_sweep_experiment(sweep), 5 + rank, false);
  mhas_reader_close(reader);
  mhas_sweep_destroy(sweep);
}

/* 300 times a letter of two bytes: cut in the middle of none. */
static void long_reasons_are_cut_between_characters(void **state) {
  (void)state;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  create_shared(folder_path("a.h5"), sweep);
  mhas_store *store = must_open(folder_path("a.h5"), MPI_COMM_WORLD, sweep);
  char reason[601] = "";
  for (int i = 0; i < 300; i++) {
    memcpy(reason + 2 * i, "\xc3\xa9", 2);
  }
  if (rank == 0) {
    append(store, sweep, 0, MHAS_FAILED, reason);
  }
  must_close(store);
  MPI_Barrier(MPI_COMM_WORLD);
  mhas_reader *reader = must_read(folder_path("a.h5"));
  const char *stored = text_at(reader, "error", 0);
  assert_int_equal(strlen(stored), 254);
  assert_memory_equal(stored, reason, 254);
  mhas_reader_close(reader);
  mhas_sweep_destroy(sweep);
}

static void rows_that_do_not_exist_are_refused(void **state) {
  (void)state;
  mhas_error error;
  static test_row filled;
  const int64_t rows[2] = {7, 8};
  const mhas_outcome done = {.status = MHAS_DONE};
  const mhas_outcome running = {.status = MHAS_RUNNING};
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  create_shared(folder_path("a.h5"), sweep);
  mhas_store *store = must_open(folder_path("a.h5"), MPI_COMM_WORLD, sweep);
  fill_row(mhas_sweep_experiment(sweep), 0, &filled);
  assert_int_equal(mhas_store_begin(store, rows, 2, &error), MHAS_INTERNAL);
  assert_int_equal(mhas_store_append(store, 8, &filled.row, &done, &error), MHAS_INTERNAL);
  assert_int_equal(mhas_store_append(store, -1, &filled.row, &done, &error), MHAS_INTERNAL);
  assert_int_equal(mhas_store_append(store, 0, &filled.row, &running, &error), MHAS_INTERNAL);
  must_close(store);
  mhas_reader *reader = must_read(folder_path("a.h5"));
  assert_number(reader, "attempts", 7, 0); /* all or none of a chunk */
  mhas_reader_close(reader);
  mhas_sweep_destroy(sweep);
}

/* Every rank gets the error, also those that would have seen the file. */
static void file_that_one_rank_cannot_open_is_an_error_on_all(void **state) {
  (void)state;
  mhas_error error;
  mhas_store *store = NULL;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  create_shared(folder_path("a.h5"), sweep);
  const char *path = folder_path(rank == size - 1 ? "elsewhere.h5" : "a.h5");
  assert_int_equal(mhas_store_open(path, MPI_COMM_WORLD, sweep, &store, &error), MHAS_IO);
  assert_null(store);
  assert_says(&error, "elsewhere.h5: there is no such file");
  if (rank < size - 1) {
    char words[32];
    (void)snprintf(words, sizeof words, "on rank %d: ", size - 1);
    assert_says(&error, words);
  }
  mhas_sweep_destroy(sweep);
}

static void file_of_another_experiment_is_refused(void **state) {
  (void)state;
  mhas_error error;
  mhas_store *store = NULL;
  mhas_sweep *sweep = parse_sweep(PROBE_SWEEP);
  mhas_sweep *other = parse_sweep(MEMORIZE_SWEEP);
  create_shared(folder_path("a.h5"), sweep);
  assert_int_equal(mhas_store_open(folder_path("a.h5"), MPI_COMM_WORLD, other, &store, &error), MHAS_IO);
  assert_says(&error, "the variable best_step cannot be opened");
  mhas_sweep_destroy(other);
  mhas_sweep_destroy(sweep);
}

/* Each rank keeps the arrays of its own points. */
static void arrays_are_stored_per_point(void **state) {
  (void)state;
  mhas_error error;
  mhas_sweep *sweep = parse_sweep(
      "experiment: probe\nparameters: {heads: 2, dim: 3, context: 4, samples: 5}\nreplicates: 8\n"
      "store: [z, weights, data]\n");
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  if (experiment->arrays == NULL) {
    mhas_sweep_destroy(sweep);
    skip();
  }
  mhas_value values[64];
  int64_t replicate = 0;
  bool included = false;
  mhas_array arrays[MHAS_ARRAYS_MOST];
  assert_int_equal(mhas_sweep_point(sweep, 0, values, &replicate, &included, &error), MHAS_OK);
  const int count = experiment->arrays(values, mhas_sweep_store(sweep), arrays);
  assert_true(count > 0);
  create_shared(folder_path("a.h5"), sweep);
  mhas_store *store = must_open(folder_path("a.h5"), MPI_COMM_WORLD, sweep);
  double numbers[1000];
  for (int64_t row = rank; row < 7; row += size) { /* the last point keeps nothing */
    mhas_store_keep keep = {.store = store, .row = row};
    for (int i = 0; i < count; i++) {
      for (int j = 0; j < 1000; j++) {
        numbers[j] = (double)(1000000 * row + 1000 * i + j);
      }
      assert_int_equal(mhas_store_keep_array(&keep, arrays[i].name, numbers, &error), MHAS_OK);
    }
    assert_int_equal(mhas_store_keep_array(&keep, "nothing", numbers, &error), MHAS_IO);
    assert_says(&error, "was not announced");
  }
  must_close(store);
  MPI_Barrier(MPI_COMM_WORLD);
  const hid_t file = H5Fopen(folder_path("a.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
  for (int64_t row = 0; row < 8; row++) {
    for (int i = 0; i < count; i++) {
      char name[64];
      hsize_t shape[MHAS_ARRAY_RANK];
      (void)snprintf(name, sizeof name, "stored/%d/%s", (int)row, arrays[i].name);
      const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
      const hid_t space = H5Dget_space(dataset);
      assert_int_equal(H5Sget_simple_extent_dims(space, shape, NULL), arrays[i].rank);
      int64_t elements = 1;
      for (int j = 0; j < arrays[i].rank; j++) {
        assert_int_equal(shape[j], arrays[i].shape[j]);
        elements *= arrays[i].shape[j];
      }
      assert_in_range(elements, 1, 1000);
      assert_true(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers) >= 0);
      for (int64_t j = 0; j < elements; j++) {
        assert_true(row < 7 ? numbers[j] == (double)(1000000 * row + 1000 * i + j) : isnan(numbers[j]) != 0);
      }
      assert_true(H5Sclose(space) >= 0 && H5Dclose(dataset) >= 0);
    }
  }
  assert_true(H5Fclose(file) >= 0);
  mhas_sweep_destroy(sweep);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_shared_folder, remove_shared_folder)
  const struct CMUnitTest tests[] = {
      TEST(interleaved_rows_are_read_back_right),
      TEST(consecutive_rows_are_read_back_right),
      TEST(begin_counts_attempts_and_given_up_rows_stay_pending),
      TEST(failure_wipes_what_was_there),
      TEST(long_reasons_are_cut_between_characters),
      TEST(rows_that_do_not_exist_are_refused),
      TEST(file_that_one_rank_cannot_open_is_an_error_on_all),
      TEST(file_of_another_experiment_is_refused),
      TEST(arrays_are_stored_per_point),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  MPI_Finalize();
  return failed;
}
