/*
 * Export of a small file made by hand, so that the expected texts (tests/data/store/export.csv and export.jsonl,
 * written by hand too) do not depend on any experiment.
 */
#include <errno.h>
#include <hdf5.h>

#include "store/hdf.h"
#include "store_fixture.h"

enum { POINTS = 4, RECORDS = 3 };

/* ---- the file ---- */

static void add_variable(hid_t file, const char *name, const char *role, hid_t type, int rank, const char *words,
                         const double *missing, const void *data) {
  const hsize_t shape[2] = {POINTS, RECORDS};
  const hid_t space = H5Screate_simple(rank, shape, NULL);
  const hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  assert_true(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
  assert_true(store_write_text(dataset, "role", role));
  if (words != NULL) {
    assert_true(store_write_text(dataset, "flag_meanings", words));
  }
  if (missing != NULL) {
    assert_true(store_write_numbers(dataset, "_FillValue", type, H5T_NATIVE_DOUBLE, 1, missing));
  }
  assert_true(H5Dclose(dataset) >= 0 && H5Sclose(space) >= 0);
}

static void make_file(const char *path) {
  const double none = -1.0;
  const int64_t heads[POINTS] = {1, 2, 4, 9007199254740992};
  const double lr[POINTS] = {0.1, 1e-3, 1.0 / 3.0, 1e22};
  const int8_t kind[POINTS] = {0, 1, 0, 1};
  const int8_t early[POINTS] = {1, 0, 1, 1};
  const int64_t rank[POINTS] = {0, 17, -1, -1};
  const double residual[POINTS] = {INFINITY, 2.5e-16, NAN, NAN};
  const int8_t memorized[POINTS] = {0, 1, -1, -1};
  const int8_t status[POINTS] = {2, 2, 3, 0};
  const char error[POINTS][64] = {"", "", "said \"no\", then\nleft\\", "\xc3\xa9t\xc3\xa9"};
  const float loss[POINTS][RECORDS] = {{0.1f, 2.0f, 1e-9f}, {NAN, 0.25f, NAN}, {NAN, NAN, NAN}, {1.0f, NAN, NAN}};
  const float step[POINTS][RECORDS] = {{0, 500, 1000}, {0, 500, NAN}, {NAN, NAN, NAN}, {INFINITY, NAN, NAN}};
  store_quiet();
  const hid_t properties = H5Pcreate(H5P_FILE_CREATE);
  assert_true(H5Pset_link_creation_order(properties, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED) >= 0);
  const hid_t file = H5Fcreate(path, H5F_ACC_EXCL, properties, H5P_DEFAULT);
  const hid_t text = H5Tcopy(H5T_C_S1);
  assert_true(H5Tset_size(text, 64) >= 0 && H5Tset_cset(text, H5T_CSET_UTF8) >= 0);
  const int64_t schema = 1;
  assert_true(store_write_numbers(file, "schema_version", H5T_STD_I64LE, H5T_NATIVE_INT64, 1, &schema));
  assert_true(store_write_text(file, "experiment", "none") && store_write_text(file, "spec_hash", "0"));
  add_variable(file, "heads", "parameter", H5T_NATIVE_INT64, 1, NULL, NULL, heads);
  add_variable(file, "lr", "parameter", H5T_NATIVE_DOUBLE, 1, NULL, NULL, lr);
  add_variable(file, "kind", "parameter", H5T_NATIVE_INT8, 1, "own shared", NULL, kind);
  add_variable(file, "early, or not", "parameter", H5T_NATIVE_INT8, 1, "false true", NULL, early);
  add_variable(file, "rank", "result", H5T_NATIVE_INT64, 1, NULL, &none, rank);
  add_variable(file, "residual", "result", H5T_NATIVE_DOUBLE, 1, NULL, NULL, residual);
  add_variable(file, "memorized", "result", H5T_NATIVE_INT8, 1, "false true", &none, memorized);
  add_variable(file, "status", "run", H5T_NATIVE_INT8, 1, "pending running done failed", NULL, status);
  add_variable(file, "error", "run", text, 1, NULL, NULL, error);
  add_variable(file, "curve_step", "curve", H5T_NATIVE_FLOAT, 2, NULL, NULL, step);
  add_variable(file, "curve_loss", "curve", H5T_NATIVE_FLOAT, 2, NULL, NULL, loss);
  assert_true(H5Tclose(text) >= 0 && H5Pclose(properties) >= 0 && H5Fclose(file) >= 0);
}

/* ---- the export ---- */

static char *read_whole(FILE *file) {
  static char text[1 << 16];
  rewind(file);
  const size_t length = fread(text, 1, sizeof text - 1, file);
  text[length] = '\0';
  return text;
}

static void check_export(mhas_export_format format, const char *expected_name) {
  mhas_error error;
  static char expected[1 << 16];
  FILE *golden = fopen(expected_name, "r");
  assert_non_null(golden);
  (void)snprintf(expected, sizeof expected, "%s", read_whole(golden));
  (void)fclose(golden);
  make_file(folder_path("a.h5"));
  FILE *out = tmpfile();
  assert_non_null(out);
  mhas_reader *reader = must_read(folder_path("a.h5"));
  assert_int_equal(mhas_export(reader, format, out, &error), MHAS_OK);
  mhas_reader_close(reader);
  assert_string_equal(read_whole(out), expected);
  (void)fclose(out);
}

static void csv_is_as_expected(void **state) {
  (void)state;
  check_export(MHAS_EXPORT_CSV, TEST_DATA "/store/export.csv");
}

static void json_lines_are_as_expected(void **state) {
  (void)state;
  check_export(MHAS_EXPORT_JSONL, TEST_DATA "/store/export.jsonl");
}

/* A file of a real sweep, longer than the blocks that are read at a time. */
static void every_point_has_its_line(void **state) {
  (void)state;
  mhas_error error;
  mhas_sweep *sweep = parse_sweep("experiment: probe\nparameters: {dim: 2, samples: 4}\nreplicates: 1300\n");
  must_create(folder_path("a.h5"), sweep);
  mhas_reader *reader = must_read(folder_path("a.h5"));
  FILE *out = tmpfile();
  assert_non_null(out);
  assert_int_equal(mhas_export(reader, MHAS_EXPORT_CSV, out, &error), MHAS_OK);
  rewind(out);
  char line[4096];
  assert_non_null(fgets(line, sizeof line, out));
  assert_int_equal(strncmp(line, "point,heads,dim,", 16), 0);
  assert_non_null(strstr(line, ",replicate,rank,"));
  assert_non_null(strstr(line, ",status,error,attempts,started,seconds,ranks,first_rank,flops,hostname\n"));
  for (int i = 0; i < 1300; i++) {
    char start[32];
    char middle[32];
    assert_non_null(fgets(line, sizeof line, out));
    const int length = snprintf(start, sizeof start, "%d,8,2,", i);
    (void)snprintf(middle, sizeof middle, ",%d,,,", i); /* replicate, then results that are missing */
    assert_int_equal(strncmp(line, start, (size_t)length), 0);
    assert_non_null(strstr(line, middle));
    assert_non_null(strstr(line, ",pending,,0,,,,,,\n"));
  }
  assert_null(fgets(line, sizeof line, out));
  (void)fclose(out);
  mhas_reader_close(reader);
  mhas_sweep_destroy(sweep);
}

static void full_disk_is_an_error(void **state) {
  (void)state;
  mhas_error error;
  make_file(folder_path("a.h5"));
  mhas_reader *reader = must_read(folder_path("a.h5"));
  FILE *full = fopen("/dev/full", "w");
  assert_non_null(full);
  assert_int_equal(mhas_export(reader, MHAS_EXPORT_CSV, full, &error), MHAS_IO);
  assert_says(&error, "No space left on device");
  (void)fclose(full);
  mhas_reader_close(reader);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_make, folder_remove)
  const struct CMUnitTest tests[] = {
      TEST(csv_is_as_expected),
      TEST(json_lines_are_as_expected),
      TEST(every_point_has_its_line),
      TEST(full_disk_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
