/* What the tests of the result file share: a folder of their own, small sweeps, rows with numbers that tell their
 * place.
 */
#ifndef MHASWEEP_TESTS_STORE_FIXTURE_H
#define MHASWEEP_TESTS_STORE_FIXTURE_H

#include "close.h"
#include "folder.h"
#include "mhasweep/store.h"

enum { TEST_RECORDS = 11, TEST_VALUES = 16 };

static inline int count_entries_visit(const char *path, const struct stat *facts, int kind, struct FTW *place);
static int entries_seen;
static inline int count_entries_visit(const char *path, const struct stat *facts, int kind, struct FTW *place) {
  (void)path;
  (void)facts;
  (void)kind;
  entries_seen += place->level > 0 ? 1 : 0;
  return 0;
}

/* Files and folders below a folder. */
static inline int count_entries(const char *top) {
  entries_seen = 0;
  assert_int_equal(nftw(top, count_entries_visit, 16, FTW_PHYS), 0);
  return entries_seen;
}

/* ---- sweeps ---- */

/* Six points: heads 1, 2, 4 times two contexts; curves. */
#define MEMORIZE_SWEEP              \
  "experiment: memorize\n"          \
  "seed: 7\n"                       \
  "parameters:\n"                   \
  "  heads: [1, 2, 4]\n"            \
  "  context_type: [own, shared]\n" \
  "  samples: 64\n"                 \
  "  steps: 100\n"                  \
  "  lr: 0.1\n"

/* Eight points: heads 1, 2 times two contexts times two replicates; the spectrum. */
#define PROBE_SWEEP                 \
  "experiment: probe\n"             \
  "seed: 7\n"                       \
  "parameters:\n"                   \
  "  heads: [1, 2]\n"               \
  "  context_type: [own, shared]\n" \
  "  dim: 8\n"                      \
  "  samples: 64\n"                 \
  "replicates: 2\n"                 \
  "store: [spectrum]\n"

static inline mhas_sweep *parse_sweep(const char *text) {
  mhas_sweep *sweep = NULL;
  mhas_text report = {0};
  if (mhas_sweep_parse("test.yaml", text, strlen(text), NULL, 0, &sweep, &report) != MHAS_OK) {
    fail_msg("%s", mhas_text_string(&report));
  }
  mhas_text_free(&report);
  return sweep;
}

static inline int64_t count_rows(mhas_sweep *sweep) {
  mhas_rows *rows = NULL;
  mhas_error error;
  assert_int_equal(mhas_rows_create(sweep, &rows, &error), MHAS_OK);
  const int64_t count = mhas_rows_count(rows);
  mhas_rows_destroy(rows);
  return count;
}

static inline mhas_code create_file(const char *path, mhas_sweep *sweep, mhas_error *error) {
  const mhas_plan plan = {.exact = true, .records_most = TEST_RECORDS, .spectrum_most = TEST_VALUES};
  const mhas_provenance provenance = {.version = "1.2.3",
                                      .git_commit = "abc",
                                      .mpi_library = "an MPI",
                                      .blas_library = "a BLAS",
                                      .blas_core = "Generic",
                                      .mpi_size = 3};
  mhas_rows *rows = NULL;
  assert_int_equal(mhas_rows_create(sweep, &rows, error), MHAS_OK);
  const mhas_code code = mhas_store_create(path, sweep, rows, &plan, &provenance, error);
  mhas_rows_destroy(rows);
  return code;
}

static inline void must_create(const char *path, mhas_sweep *sweep) {
  mhas_error error;
  if (create_file(path, sweep, &error) != MHAS_OK) {
    fail_msg("%s", error.text);
  }
}

/* ---- rows ---- */

typedef struct test_row {
  mhas_row row;
  mhas_value results[64];
  float curves[8 * TEST_RECORDS];
  double spectrum[TEST_VALUES];
} test_row;

/* Every number tells its row and its place; curves end after row % TEST_RECORDS records. */
static inline void fill_row(const mhas_experiment *experiment, int64_t number, test_row *out) {
  const bool curves = experiment->curve_count > 0;
  out->row = (mhas_row){.results = out->results,
                        .curves = curves ? out->curves : NULL,
                        .record_capacity = curves ? TEST_RECORDS : 0,
                        .spectrum = curves ? NULL : out->spectrum,
                        .spectrum_capacity = curves ? 0 : TEST_VALUES};
  mhas_row_clear(experiment, &out->row);
  for (int i = 0; i < experiment->result_count; i++) {
    if (experiment->results[i].type == MHAS_REAL) {
      out->results[i].real = (double)number + 0.1 * i;
    } else {
      out->results[i].integer = experiment->results[i].type == MHAS_FLAG ? number % 2 : 1000 * number + i;
    }
  }
  for (int64_t j = 0; j < number % TEST_RECORDS; j++) {
    double values[8];
    for (int i = 0; i < experiment->curve_count; i++) {
      values[i] = (double)(10 * number + j) + 0.5 * i;
    }
    mhas_row_record(experiment, &out->row, j, values);
  }
  for (int64_t j = 0; j <= number % TEST_VALUES; j++) {
    out->spectrum[j] = (double)(100 * number - j);
  }
  out->row.flops = 1e6 * (double)number;
}

static inline mhas_store *must_open(const char *path, MPI_Comm comm, const mhas_sweep *sweep) {
  mhas_error error;
  mhas_store *store = NULL;
  if (mhas_store_open(path, comm, sweep, &store, &error) != MHAS_OK) {
    fail_msg("%s", error.text);
  }
  return store;
}

static inline void append(mhas_store *store, const mhas_sweep *sweep, int64_t number, mhas_status status,
                          const char *reason) {
  mhas_error error;
  static test_row filled;
  fill_row(mhas_sweep_experiment(sweep), number, &filled);
  const mhas_outcome outcome = {
      .status = status, .reason = reason, .started = 1.75e9 + (double)number, .seconds = 0.25, .ranks = 1};
  if (mhas_store_append(store, number, &filled.row, &outcome, &error) != MHAS_OK) {
    fail_msg("%s", error.text);
  }
}

static inline void must_close(mhas_store *store) {
  mhas_error error;
  if (mhas_store_close(store, &error) != MHAS_OK) {
    fail_msg("%s", error.text);
  }
}

/* ---- reading back ---- */

static inline mhas_reader *must_read(const char *path) {
  mhas_error error;
  mhas_reader *reader = NULL;
  if (mhas_reader_open(path, &reader, &error) != MHAS_OK) {
    fail_msg("%s", error.text);
  }
  return reader;
}

static inline double number_at(mhas_reader *reader, const char *name, int64_t point) {
  mhas_error error;
  double number = 0.0;
  const int variable = mhas_reader_find(reader, name);
  if (variable < 0) {
    fail_msg("no variable %s", name);
  }
  if (mhas_reader_numbers(reader, variable, point, 1, &number, &error) != MHAS_OK) {
    fail_msg("%s", error.text);
  }
  return number;
}

static inline const char *text_at(mhas_reader *reader, const char *name, int64_t point) {
  static char text[MHAS_REASON_LENGTH + 1];
  mhas_error error;
  if (mhas_reader_texts(reader, mhas_reader_find(reader, name), point, 1, sizeof text, text, &error) != MHAS_OK) {
    fail_msg("%s", error.text);
  }
  return text;
}

static inline void assert_number(mhas_reader *reader, const char *name, int64_t point, double expected) {
  const double found = number_at(reader, name, point);
  if (!(found == expected || (isnan(found) && isnan(expected)))) {
    fail_msg("%s of point %d is %.17g, not %.17g", name, (int)point, found, expected);
  }
}

/* Does the row hold what fill_row gave it (or, if not done, nothing)? */
static inline void assert_row(mhas_reader *reader, const mhas_experiment *experiment, int64_t number, bool done) {
  static test_row expected;
  fill_row(experiment, number, &expected);
  for (int i = 0; i < experiment->result_count; i++) {
    const double value =
        experiment->results[i].type == MHAS_REAL ? expected.results[i].real : (double)expected.results[i].integer;
    assert_number(reader, experiment->results[i].name, number, done ? value : NAN);
  }
  for (int i = 0; i < mhas_reader_curve_count(reader); i++) {
    mhas_error error;
    float curve[TEST_RECORDS];
    assert_int_equal(mhas_reader_records(reader), TEST_RECORDS);
    assert_int_equal(mhas_reader_curve(reader, i, number, curve, &error), MHAS_OK);
    for (int j = 0; j < TEST_RECORDS; j++) {
      const float value = done ? expected.curves[i * TEST_RECORDS + j] : NAN;
      assert_true(curve[j] == value || (isnan(curve[j]) && isnan(value)));
    }
  }
}

static inline void assert_says(const mhas_error *error, const char *words) {
  if (strstr(error->text, words) == NULL) {
    fail_msg("the error says '%s', not '%s'", error->text, words);
  }
}

#endif
