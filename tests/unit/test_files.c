/* Files of tokens and images: good ones give their numbers, all others say what is wrong in a sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format off: needs what is above */
#include <cmocka.h>
/* clang-format on */
#include <hdf5.h>
#include <math.h>
#include <zlib.h>

#include "data/file.h"
#include "folder.h"

enum { T = 3, ROWS = 2, D = 4, NUMBERS = T * ROWS * D };

static int start(void **state) {
  (void)state;
  mhas_files_close(); /* names come again with other bytes */
  return 0;
}

/* ---- .npy ---- */

/* A header of version 1, as numpy writes it; returns its length. */
static size_t npy_header(char *out, const char *dictionary) {
  const size_t length = strlen(dictionary);
  memcpy(out, "\x93NUMPY\x01\x00", 8);
  out[8] = (char)(length & 0xFF);
  out[9] = (char)(length >> 8);
  memcpy(out + 10, dictionary, length);
  return 10 + length;
}

static const char *write_npy(const char *name, const char *dictionary, const void *numbers, size_t bytes) {
  char header[256];
  return folder_write(name, header, npy_header(header, dictionary), numbers, bytes);
}

static const char good[] = "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2, 4), }          \n";

static void fill(double *numbers) {
  for (int i = 0; i < NUMBERS; i++) {
    numbers[i] = 0.5 * i - 3.0;
  }
}

static mhas_file *must_open(mhas_file_kind kind, const char *path) {
  mhas_file *file = NULL;
  mhas_error error;
  if (mhas_file_open(kind, path, &file, &error) != MHAS_OK) {
    fail_msg("%s", error.text);
  }
  return file;
}

/* All numbers, and those of the last sample alone. */
static void assert_holds(mhas_file *file, const double *numbers) {
  double all[NUMBERS];
  double last[ROWS * D];
  const int64_t *shape = mhas_file_shape(file);
  assert_int_equal(shape[0], T);
  assert_int_equal(shape[1], ROWS);
  assert_int_equal(shape[2], D);
  assert_int_equal(mhas_file_read(file, 0, T, all, NULL), MHAS_OK);
  assert_memory_equal(all, numbers, sizeof all);
  assert_int_equal(mhas_file_read(file, T - 1, 1, last, NULL), MHAS_OK);
  assert_memory_equal(last, numbers + (T - 1) * ROWS * D, sizeof last);
  assert_int_equal(mhas_file_read(file, T, 1, last, NULL), MHAS_INTERNAL);
}

static const char *write_hdf5(const char *name, const char *dataset, hid_t type, int rank, const hsize_t *shape,
                              const double *numbers) {
  const char *path = folder_path(name);
  const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(rank, shape, NULL);
  const hid_t made = H5Dcreate2(file, dataset, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  assert_true(made >= 0);
  if (numbers != NULL) {
    assert_true(H5Dwrite(made, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers) >= 0);
  }
  assert_true(H5Dclose(made) >= 0 && H5Sclose(space) >= 0 && H5Fclose(file) >= 0);
  return path;
}

static void the_same_numbers_come_from_every_format(void **state) {
  (void)state;
  static const hsize_t shape[3] = {T, ROWS, D};
  double numbers[NUMBERS];
  float single[NUMBERS];
  int64_t hash[4];
  fill(numbers);
  for (int i = 0; i < NUMBERS; i++) {
    single[i] = (float)numbers[i];
  }
  mhas_file *files[4] = {
      must_open(MHAS_FILE_TOKENS, write_npy("double.npy", good, numbers, sizeof numbers)),
      must_open(MHAS_FILE_TOKENS,
                write_npy("single.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2, 4), }\n", single,
                          sizeof single)),
      must_open(MHAS_FILE_TOKENS, write_hdf5("double.h5", "tokens", H5T_IEEE_F64LE, 3, shape, numbers)),
      must_open(MHAS_FILE_TOKENS, write_hdf5("single.h5", "tokens", H5T_IEEE_F32BE, 3, shape, numbers)),
  };
  for (int i = 0; i < 4; i++) {
    assert_holds(files[i], numbers);
    assert_int_equal(mhas_file_scan(files[i], &hash[i], NULL), MHAS_OK);
    assert_true(hash[i] == hash[0] && hash[i] > 0 && hash[i] < INT64_C(1) << 53);
  }
  numbers[5] += 1e-9;
  int64_t other = 0;
  mhas_file *file = must_open(MHAS_FILE_TOKENS, write_npy("other.npy", good, numbers, sizeof numbers));
  assert_int_equal(mhas_file_scan(file, &other, NULL), MHAS_OK);
  assert_true(other != hash[0]);
}

static void a_file_is_opened_once(void **state) {
  (void)state;
  double numbers[NUMBERS];
  fill(numbers);
  const char *path = write_npy("once.npy", good, numbers, sizeof numbers);
  mhas_file *file = must_open(MHAS_FILE_TOKENS, path);
  assert_ptr_equal(must_open(MHAS_FILE_TOKENS, path), file);
  assert_int_equal(unlink(path), 0);
  assert_ptr_equal(must_open(MHAS_FILE_TOKENS, path), file);
  assert_holds(file, numbers);
}

static void assert_refused(mhas_file_kind kind, const char *path, const char *words) {
  mhas_file *file = NULL;
  mhas_error error;
  assert_int_equal(mhas_file_open(kind, path, &file, &error), MHAS_IO);
  assert_null(file);
  if (strstr(error.text, words) == NULL || strstr(error.text, path) == NULL) {
    fail_msg("'%s' does not say '%s' of %s", error.text, words, path);
  }
}

static void bad_npy_files_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *dictionary, *words;
  } cases[] = {
      {"{'descr': '<i8', 'fortran_order': False, 'shape': (3, 2, 4), }", "'<i8'; tokens are float32 or float64"},
      {"{'descr': '>f8', 'fortran_order': False, 'shape': (3, 2, 4), }", "little-endian"},
      {"{'descr': '<f8', 'fortran_order': True, 'shape': (3, 2, 4), }", "Fortran"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (6, 4), }", "has the shape (6, 4)"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2, 2, 2), }", "has the shape (3, 2, 2, 2)"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (), }", "has the shape ()"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 2, 4), }", "is empty"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (-3, 2, -4), }", "is empty"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2, 5), }", "cut short"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2, 3), }", "too long"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4294967296), }",
       "says that it holds"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999, 2, 4), }", "has the shape"},
      {"{'descr': '<f8', 'shape': (3, 2, 4), }", "cannot be understood"},
      {"{'descr': [('x', '<f8')], 'fortran_order': False, 'shape': (3, 2, 4), }", "of the type [('x'"},
      {"nonsense", "of the type"},
      {"", "of the type"},
  };
  double numbers[NUMBERS];
  fill(numbers);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_refused(MHAS_FILE_TOKENS, write_npy("bad.npy", cases[i].dictionary, numbers, sizeof numbers),
                   cases[i].words);
  }
  char header[256];
  const size_t length = npy_header(header, good);
  for (size_t cut = 6; cut < length; cut++) {
    mhas_file *file = NULL;
    const char *path = folder_write("cut.npy", header, cut, "", 0);
    assert_int_equal(mhas_file_open(MHAS_FILE_TOKENS, path, &file, NULL), MHAS_IO);
  }
  header[6] = 9;
  assert_refused(MHAS_FILE_TOKENS, folder_write("version.npy", header, length, numbers, sizeof numbers),
                 "cannot be understood");
}

static void numbers_that_are_not_finite_are_found(void **state) {
  (void)state;
  double numbers[NUMBERS];
  mhas_error error;
  int64_t hash = 0;
  for (int i = 0; i < 2; i++) {
    fill(numbers);
    numbers[13] = i == 0 ? NAN : -INFINITY;
    mhas_file *file =
        must_open(MHAS_FILE_TOKENS, write_npy(i == 0 ? "nan.npy" : "inf.npy", good, numbers, sizeof numbers));
    assert_int_equal(mhas_file_scan(file, &hash, &error), MHAS_NUMERIC);
    assert_non_null(strstr(error.text, "in sample 1, row 1, column 1"));
    assert_int_equal(mhas_file_read(file, 1, 1, numbers, &error), MHAS_NUMERIC);
    assert_int_equal(mhas_file_read(file, 2, 1, numbers, &error), MHAS_OK);
  }
}

static void what_is_no_file_of_tokens_is_refused(void **state) {
  (void)state;
  const char *missing = folder_path("none.npy");
  assert_refused(MHAS_FILE_TOKENS, missing, "No such file");
  assert_refused(MHAS_FILE_IMAGES, missing, "No such file");
  assert_refused(MHAS_FILE_TOKENS, folder, "is a folder");
  assert_refused(MHAS_FILE_TOKENS, folder_write("empty", "", 0, "", 0), "is empty");
  assert_refused(MHAS_FILE_TOKENS, folder_write("words", "some words", 10, "", 0), "neither a .npy nor an HDF5 file");
}

/* ---- HDF5 ---- */

static void bad_hdf5_files_are_refused(void **state) {
  (void)state;
  static const hsize_t shape[4] = {T, ROWS, D, 1};
  static const hsize_t none[3] = {T, 0, D};
  assert_refused(MHAS_FILE_TOKENS, write_hdf5("name.h5", "others", H5T_IEEE_F64LE, 3, shape, NULL),
                 "has no dataset tokens");
  assert_refused(MHAS_FILE_TOKENS, write_hdf5("type.h5", "tokens", H5T_STD_I32LE, 3, shape, NULL),
                 "does not hold floating-point numbers");
  assert_refused(MHAS_FILE_TOKENS, write_hdf5("rank.h5", "tokens", H5T_IEEE_F64LE, 4, shape, NULL), "has 4 dimensions");
  assert_refused(MHAS_FILE_TOKENS, write_hdf5("none.h5", "tokens", H5T_IEEE_F64LE, 3, none, NULL), "is empty");
  double numbers[NUMBERS];
  fill(numbers);
  const char *path = write_hdf5("cut.h5", "tokens", H5T_IEEE_F64LE, 3, shape, numbers);
  assert_int_equal(truncate(path, 1500), 0);
  assert_refused(MHAS_FILE_TOKENS, path, "cut short, damaged");
}

/* ---- IDX ---- */

static const unsigned char idx_header[16] = {0, 0, 8, 3, 0, 0, 0, T, 0, 0, 0, ROWS, 0, 0, 0, D};

static const char *write_gzip(const char *name, const void *head, const void *body, size_t body_length) {
  const char *path = folder_path(name);
  gzFile file = gzopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(gzwrite(file, head, 16), 16);
  assert_int_equal(gzwrite(file, body, (unsigned)body_length), (int)body_length);
  assert_int_equal(gzclose(file), Z_OK);
  return path;
}

static void images_come_plain_and_gzipped(void **state) {
  (void)state;
  unsigned char pixels[NUMBERS];
  double numbers[NUMBERS];
  for (int i = 0; i < NUMBERS; i++) {
    pixels[i] = (unsigned char)(10 * i + 5);
    numbers[i] = pixels[i];
  }
  assert_holds(must_open(MHAS_FILE_IMAGES, folder_write("plain.idx", idx_header, 16, pixels, sizeof pixels)), numbers);
  assert_holds(must_open(MHAS_FILE_IMAGES, write_gzip("zipped.gz", idx_header, pixels, sizeof pixels)), numbers);
}

static void assert_scan_refused(const char *path, const char *words) {
  mhas_error error;
  int64_t hash = 0;
  assert_int_equal(mhas_file_scan(must_open(MHAS_FILE_IMAGES, path), &hash, &error), MHAS_IO);
  if (strstr(error.text, words) == NULL) {
    fail_msg("'%s' does not say '%s'", error.text, words);
  }
}

static void bad_images_are_refused(void **state) {
  (void)state;
  unsigned char pixels[NUMBERS + 1] = {0};
  unsigned char header[16];
  memcpy(header, idx_header, sizeof header);
  assert_refused(MHAS_FILE_IMAGES, folder_write("a", "no images at all", 16, "", 0), "is no IDX file");
  assert_refused(MHAS_FILE_IMAGES, folder_write("b", header, 12, "", 0), "cut short");
  header[3] = 1;
  assert_refused(MHAS_FILE_IMAGES, folder_write("labels", header, 16, pixels, NUMBERS), "bytes in 1 dimensions");
  header[3] = 3;
  header[2] = 0x0D;
  assert_refused(MHAS_FILE_IMAGES, folder_write("floats", header, 16, pixels, NUMBERS), "other numbers than bytes");
  header[2] = 8;
  header[4] = 0x7F;
  assert_refused(MHAS_FILE_IMAGES, folder_write("huge", header, 16, pixels, NUMBERS), "cut short");
  double numbers[NUMBERS];
  fill(numbers);
  assert_refused(MHAS_FILE_IMAGES, write_npy("c.npy", good, numbers, sizeof numbers), "source: tokens");
  assert_scan_refused(folder_write("short", idx_header, 16, pixels, NUMBERS - 1), "ends after 23 of the 24");
  assert_scan_refused(folder_write("long", idx_header, 16, pixels, NUMBERS + 1), "longer");
  assert_scan_refused(write_gzip("short.gz", idx_header, pixels, NUMBERS - 1), "ends after 23 of the 24");
  for (int i = 0; i < NUMBERS; i++) {
    pixels[i] = (unsigned char)(37 * i * i); /* that do not fold into nothing */
  }
  const char *path = write_gzip("cut.gz", idx_header, pixels, NUMBERS);
  assert_int_equal(truncate(path, 45), 0);
  assert_scan_refused(path, "cut short or damaged");
}

static void a_wrong_checksum_is_noticed(void **state) {
  (void)state;
  unsigned char pixels[NUMBERS] = {0};
  const char *path = write_gzip("trailer.gz", idx_header, pixels, NUMBERS);
  FILE *file = fopen(path, "rb+");
  assert_non_null(file);
  assert_int_equal(fseek(file, -8, SEEK_END), 0); /* the checksum */
  assert_int_equal(fputc(0x55, file), 0x55);
  assert_int_equal(fclose(file), 0);
  assert_refused(MHAS_FILE_IMAGES, path, "damaged");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(the_same_numbers_come_from_every_format, start),
      cmocka_unit_test_setup(a_file_is_opened_once, start),
      cmocka_unit_test_setup(bad_npy_files_are_refused, start),
      cmocka_unit_test_setup(numbers_that_are_not_finite_are_found, start),
      cmocka_unit_test_setup(what_is_no_file_of_tokens_is_refused, start),
      cmocka_unit_test_setup(bad_hdf5_files_are_refused, start),
      cmocka_unit_test_setup(images_come_plain_and_gzipped, start),
      cmocka_unit_test_setup(bad_images_are_refused, start),
      cmocka_unit_test_setup(a_wrong_checksum_is_noticed, start),
  };
  return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
