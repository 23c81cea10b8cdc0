/* Labels of files, and the experiment optimize on tokens and patches with labels. */
#include "point.h"
/* clang-format off: needs what is above */
#include "folder.h"
/* clang-format on */
#include <hdf5.h>
#include <zlib.h>

#include "data/file.h"

enum { N = 10, TOKENS = 3, D = 4 };

static int start(void **state) {
  (void)state;
  mhas_files_close(); /* names come again with other bytes */
  return 0;
}

/* ---- writing files ------------------------------------------------------------------------ */

static const char *write_npy(const char *name, const char *type, const char *shape, const void *numbers, size_t bytes) {
  char header[256] = "\x93NUMPY\x01";
  char dictionary[128];
  const int length =
      snprintf(dictionary, sizeof dictionary, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", type, shape);
  header[8] = (char)length;
  memcpy(header + 10, dictionary, (size_t)length);
  return folder_write(name, header, 10 + (size_t)length, numbers, bytes);
}

static const char *write_idx_labels(const char *name, const uint8_t *labels, uint8_t count) {
  const uint8_t header[8] = {0, 0, 8, 1, 0, 0, 0, count};
  const char *path = folder_path(name);
  gzFile stream = gzopen(path, "wb");
  assert_int_equal(gzwrite(stream, header, sizeof header), sizeof header);
  assert_int_equal(gzwrite(stream, labels, count), count);
  assert_int_equal(gzclose(stream), Z_OK);
  return path;
}

static const char *write_hdf5_labels(const char *name, const char *dataset, const int32_t *labels, hsize_t count) {
  const char *path = folder_path(name);
  const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(1, &count, NULL);
  const hid_t made = H5Dcreate2(file, dataset, H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  assert_true(H5Dwrite(made, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, labels) >= 0);
  assert_true(H5Dclose(made) >= 0 && H5Sclose(space) >= 0 && H5Fclose(file) >= 0);
  return path;
}

/* ---- labels ---------------------------------------------------------------------------------- */

static void assert_labels(const char *path, const double *expected, int64_t count) {
  mhas_file *file = NULL;
  mhas_error error;
  double labels[N];
  if (mhas_file_open(MHAS_FILE_LABELS, path, &file, &error) != MHAS_OK) {
    fail_msg("%s", error.text);
  }
  assert_int_equal(mhas_file_shape(file)[0], count);
  assert_int_equal(mhas_file_shape(file)[1], 1);
  assert_int_equal(mhas_file_read(file, 0, count, labels, &error), MHAS_OK);
  assert_all_close(labels, expected, count, 0.0);
  assert_int_equal(mhas_file_read(file, 1, count - 1, labels, &error), MHAS_OK);
  assert_all_close(labels, expected + 1, count - 1, 0.0);
}

static void labels_are_read_from_all_formats(void **state) {
  (void)state;
  const uint8_t bytes[] = {0, 255, 7};
  const int8_t small[] = {-1, 1, -128};
  const int16_t words[] = {-300, 300, 7};
  const int64_t wide[] = {-1, (int64_t)1 << 40, 9};
  const float reals[] = {-1.0F, 1.0F, 0.5F};
  const int32_t integers[] = {-5, 6, 1 << 30};
  assert_labels(write_npy("u1", "|u1", "(3,)", bytes, sizeof bytes), (const double[]){0, 255, 7}, 3);
  assert_labels(write_npy("i1", "|i1", "(3,)", small, sizeof small), (const double[]){-1, 1, -128}, 3);
  assert_labels(write_npy("i2", "<i2", "(3,)", words, sizeof words), (const double[]){-300, 300, 7}, 3);
  assert_labels(write_npy("i8", "<i8", "(3,)", wide, sizeof wide), (const double[]){-1, 0x1p40, 9}, 3);
  assert_labels(write_npy("f4", "<f4", "(3,)", reals, sizeof reals), (const double[]){-1, 1, 0.5}, 3);
  assert_labels(write_idx_labels("idx", bytes, 3), (const double[]){0, 255, 7}, 3);
  assert_labels(write_hdf5_labels("hdf5", "labels", integers, 3), (const double[]){-5, 6, 1 << 30}, 3);
}

static void assert_bad(const char *path, const char *words) {
  mhas_file *file = NULL;
  mhas_error error;
  assert_int_equal(mhas_file_open(MHAS_FILE_LABELS, path, &file, &error), MHAS_IO);
  if (strstr(error.text, words) == NULL) {
    fail_msg("\"%s\" does not say \"%s\"", error.text, words);
  }
}

static void bad_labels_are_refused_in_words(void **state) {
  (void)state;
  const double numbers[6] = {0};
  const int32_t integers[] = {1, 2};
  const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 9};
  assert_bad(write_npy("table", "<f8", "(3, 2)", numbers, sizeof numbers), "labels are (samples)");
  assert_bad(write_npy("complex", "<c16", "(3,)", numbers, sizeof numbers), "labels are integers or floating-point");
  assert_bad(write_npy("big", ">i4", "(3,)", numbers, 12), "little-endian");
  assert_bad(write_npy("short", "<i8", "(7,)", numbers, sizeof numbers), "cut short");
  assert_bad(write_hdf5_labels("nameless", "classes", integers, 2), "has no dataset labels");
  assert_bad(folder_write("images", images, sizeof images, "", 0), "labels are bytes in 1");
  assert_bad(folder_write("text", "0,1,1,0\n", 8, "", 0), "no IDX file of labels");
  assert_bad("/nowhere", "No such file");
}

/* ---- samples ------------------------------------------------------------------------------------ */

/* Sample t has the numbers t + row / 10 + column / 100; labels 3 and 5 are the classes, at t = 1 2 4 5 7 8. */
static const uint8_t labels_of_samples[N] = {0, 3, 5, 9, 5, 3, 4, 3, 5, 0};

static point file_point(void) {
  point p;
  float tokens[N * TOKENS * D];
  for (int i = 0; i < N * TOKENS * D; i++) {
    tokens[i] = (float)(i / (TOKENS * D)) + (float)(i / D % TOKENS) / 10.0F + (float)(i % D) / 100.0F;
  }
  static char path[2 * FOLDER_PATH];
  static char labels[2 * FOLDER_PATH];
  (void)snprintf(path, sizeof path, "%s", write_npy("tokens.npy", "<f4", "(10, 3, 4)", tokens, sizeof tokens));
  (void)snprintf(labels, sizeof labels, "%s", write_idx_labels("labels.gz", labels_of_samples, N));
  point_start(&p, "optimize");
  point_choose(&p, "data", "tokens");
  point_write(&p, "path", path);
  point_write(&p, "labels_path", labels);
  point_set(&p, "tokens", TOKENS);
  point_set(&p, "dim", D);
  point_set(&p, "heads", 2);
  point_set(&p, "samples", 3);
  point_set(&p, "test_samples", 2);
  point_set(&p, "init_samples", 1);
  point_set(&p, "class_plus", 3);
  point_set(&p, "class_minus", 5);
  point_set(&p, "steps", 3);
  point_set(&p, "step_size", 0.01);
  point_set(&p, "target_loss", 0.1);
  point_choose(&p, "theory", "none");
  return p;
}

static void samples_of_two_classes_are_picked_in_order(void **state) {
  (void)state;
  point p = file_point();
  p.store = MHAS_STORE_DATA;
  assert_int_equal(p.experiment->inspect(p.values, &p.error), MHAS_OK);
  point_runs(&p);
  const double *X = point_kept(&p, "X")->data;
  const double *X_test = point_kept(&p, "X_test")->data;
  assert_all_close(point_kept(&p, "y")->data, ((const double[]){1, -1, -1}), 3, 0.0);
  assert_all_close(point_kept(&p, "y_test")->data, ((const double[]){1, 1}), 2, 0.0);
  static const double numbers[] = {1, 2, 4};
  for (int i = 0; i < 3 * TOKENS * D; i++) {
    assert_close(X[i], numbers[i / 12] + (i / D % TOKENS) / 10.0 + (i % D) / 100.0, 1e-6);
  }
  assert_close(X_test[0], 5.0, 0.0);
  assert_close(X_test[12], 7.0, 0.0);
  point_free(&p);
}

static void patches_of_images_are_tokens_too(void **state) {
  (void)state;
  uint8_t images[16 + N * 16] = {0, 0, 8, 3, 0, 0, 0, N, 0, 0, 0, 4, 0, 0, 0, 4};
  for (int i = 0; i < N * 16; i++) {
    images[16 + i] = (uint8_t)(i * 37 % 251);
  }
  point p = file_point();
  point_choose(&p, "data", "patches");
  point_write(&p, "path", folder_write("images.idx", images, sizeof images, "", 0));
  point_set(&p, "patch", 2);
  point_set(&p, "tokens", 5); /* [CLS] and 4 patches */
  point_set(&p, "dim", 6);
  p.store = MHAS_STORE_DATA;
  assert_int_equal(p.experiment->inspect(p.values, &p.error), MHAS_OK);
  point_runs(&p);
  const double *X = point_kept(&p, "X")->data;
  assert_all_close(X, X + 5 * 6, 6, 1e-15); /* [CLS] is the same in all */
  assert_true(fabs(X[6] - X[5 * 6 + 6]) > 1e-3);
  point_free(&p);
}

static void assert_refused(point *p, const char *words) {
  mhas_code code = point_check(p);
  if (code == MHAS_OK) {
    code = p->experiment->inspect(p->values, &p->error);
  }
  assert_int_equal(code, MHAS_USAGE);
  if (strstr(p->error.text, words) == NULL) {
    fail_msg("\"%s\" does not say \"%s\"", p->error.text, words);
  }
}

static void files_that_do_not_fit_are_refused_in_words(void **state) {
  (void)state;
  point p = file_point();
  point_set(&p, "samples", 4); /* 4 + 2 + 1 of 6 */
  assert_refused(&p, "6 samples have the labels 3 or 5, and 7 are needed");
  point_choose(&p, "init", "zero"); /* which needs no fresh ones */
  assert_int_equal(point_check(&p), MHAS_OK);
  assert_int_equal(p.experiment->inspect(p.values, &p.error), MHAS_OK);
  point_set(&p, "class_minus", 3);
  assert_refused(&p, "are both 3");
  p = file_point();
  point_write(&p, "labels_path", "");
  assert_refused(&p, "labels_path");
  p = file_point();
  point_write(&p, "labels_path", write_idx_labels("few", labels_of_samples, 4));
  assert_refused(&p, "holds 4 labels");
  p = file_point();
  point_set(&p, "dim", 5);
  assert_refused(&p, "dim = 5");
  p = file_point();
  point_set(&p, "tokens", 1);
  assert_refused(&p, "at least 2");
  p = file_point();
  point_write(&p, "path", "");
  assert_refused(&p, "path");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(labels_are_read_from_all_formats, start),
      cmocka_unit_test_setup(bad_labels_are_refused_in_words, start),
      cmocka_unit_test_setup(samples_of_two_classes_are_picked_in_order, start),
      cmocka_unit_test_setup(patches_of_images_are_tokens_too, start),
      cmocka_unit_test_setup(files_that_do_not_fit_are_refused_in_words, start),
  };
  return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
