/* Where samples come from: every source gives any block of samples in the same bits, and what it promises. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format off: needs what is above */
#include <cmocka.h>
/* clang-format on */
#include <cblas.h>
#include <math.h>

#include "close.h"
#include "data/file.h"
#include "folder.h"
#include "mhasweep/source.h"

enum { T = 7, N = 5, D = 6, SIZE = N * D };
static const mhas_random random_ = {.seed = 3, .replicate = 1};

static mhas_source_shape shape_of(mhas_source_kind kind, mhas_source_stage stage) {
  return (mhas_source_shape){
      .data = {.samples = T, .context = N, .dim = D}, .kind = kind, .stage = stage, .path = "", .patch = 2};
}

static mhas_source *must_open(const mhas_source_shape *shape) {
  mhas_source *source = NULL;
  mhas_error error;
  if (mhas_source_check(shape, &error) != MHAS_OK || mhas_source_inspect(shape, &error) != MHAS_OK ||
      mhas_source_open(shape, random_, &source, &error) != MHAS_OK) {
    fail_msg("%s", error.text);
  }
  return source;
}

static void must_read(mhas_source *source, int64_t first, int64_t count, double *E, double *e) {
  mhas_error error;
  if (mhas_source_read(source, first, count, E, e, &error) != MHAS_OK) {
    fail_msg("%s", error.text);
  }
}

/* ---- files of their own ---- */

/* T images of 4 x 4 pixels. */
static const char *write_images(void) {
  static const unsigned char header[16] = {0, 0, 8, 3, 0, 0, 0, T, 0, 0, 0, 4, 0, 0, 0, 4};
  unsigned char pixels[T * 16];
  for (int i = 0; i < T * 16; i++) {
    pixels[i] = (unsigned char)(i * i + 3 * i);
  }
  return folder_write("images.idx", header, sizeof header, pixels, sizeof pixels);
}

/* (T, N + 1, D): number i is i, but for the last one. */
static const char *write_tokens(const char *name, double last) {
  static const char dictionary[] = "{'descr': '<f8', 'fortran_order': False, 'shape': (7, 6, 6), }\n";
  char header[10 + sizeof dictionary];
  double numbers[T * (N + 1) * D];
  memcpy(header, "\x93NUMPY\x01\x00", 8);
  header[8] = sizeof dictionary - 1;
  header[9] = 0;
  memcpy(header + 10, dictionary, sizeof dictionary);
  for (int i = 0; i < T * (N + 1) * D; i++) {
    numbers[i] = i;
  }
  numbers[T * (N + 1) * D - 1] = last;
  return folder_write(name, header, 10 + sizeof dictionary - 1, numbers, sizeof numbers);
}

/* ---- all of them ---- */

static void blocks_are_parts_of_the_whole(void **state) {
  (void)state;
  const char *images = write_images();
  const char *tokens = write_tokens("tokens.npy", 0.0);
  for (int variant = 0; variant < 3 * 3 * 3; variant++) {
    mhas_source_shape shape = shape_of((mhas_source_kind)(variant % 3), (mhas_source_stage)(variant / 3 % 3));
    double E[T * SIZE];
    double e[T * D];
    double some[3 * SIZE];
    double few[3 * D];
    shape.path = shape.kind == MHAS_PATCHES ? images : tokens;
    shape.data.shared = variant / 9 == 1;
    shape.bag = variant / 9 == 2 && shape.kind == MHAS_SYNTHETIC ? 11 : 0;
    mhas_source *source = must_open(&shape);
    must_read(source, 0, T, E, e);
    must_read(source, 3, 3, some, few);
    assert_memory_equal(few, e + 3 * D, sizeof few);
    assert_memory_equal(some, shape.data.shared ? E : E + 3 * SIZE,
                        (shape.data.shared ? 1 : 3) * SIZE * sizeof(double));
    mhas_source_close(source);
    source = must_open(&shape); /* apart, in another order, one alone */
    must_read(source, 4, 2, NULL, few);
    assert_memory_equal(few, e + 4 * D, 2 * D * sizeof *few);
    must_read(source, 2, shape.data.shared ? 0 : 1, some, NULL);
    assert_memory_equal(some, shape.data.shared ? E : E + 2 * SIZE, SIZE * sizeof *some);
    for (int i = 0; i < (shape.data.shared ? 1 : T) * SIZE; i++) {
      assert_true(isfinite(E[i]));
    }
    mhas_source_close(source);
  }
}

static void plain_synthetic_samples_are_those_of_the_streams(void **state) {
  (void)state;
  double ours[T * SIZE];
  double theirs[T * SIZE];
  for (int shared = 0; shared < 2; shared++) {
    mhas_source_shape shape = shape_of(MHAS_SYNTHETIC, MHAS_STAGE_EMBEDDING);
    shape.data.shared = shared == 1;
    mhas_source *source = must_open(&shape);
    must_read(source, 0, T, ours, NULL);
    mhas_data_contexts(&shape.data, random_, 0, shared == 1 ? 1 : T, theirs);
    assert_memory_equal(ours, theirs, (shared == 1 ? 1 : T) * SIZE * sizeof *ours);
    must_read(source, 0, T, NULL, ours);
    mhas_data_queries(&shape.data, random_, 0, T, theirs);
    assert_memory_equal(ours, theirs, T * D * sizeof *ours);
    mhas_source_labels(source, 2, 3, ours);
    mhas_data_labels(&shape.data, random_, 2, 3, theirs);
    assert_memory_equal(ours, theirs, 3 * sizeof *ours);
    int64_t hash = -1;
    assert_int_equal(mhas_source_hash(source, &hash, NULL), MHAS_OK);
    assert_int_equal(hash, 0);
    mhas_source_close(source);
  }
}

/* ---- the bag ---- */

static void contexts_from_a_bag_have_distinct_rows_of_it(void **state) {
  (void)state;
  enum { BAG = 7 };
  mhas_source_shape shape = shape_of(MHAS_SYNTHETIC, MHAS_STAGE_EMBEDDING);
  const mhas_data_shape vectors = {.samples = BAG, .context = 1, .dim = D};
  double bag[BAG * D];
  double E[T * SIZE];
  int used[BAG] = {0};
  shape.bag = BAG;
  mhas_source *source = must_open(&shape);
  must_read(source, 0, T, E, NULL);
  mhas_data_contexts(&vectors, random_, 0, BAG, bag);
  for (int t = 0; t < T; t++) {
    int seen[BAG] = {0};
    for (int i = 0; i < N; i++) {
      int b = 0;
      while (b < BAG && memcmp(E + t * SIZE + i * D, bag + b * D, D * sizeof *E) != 0) {
        b++;
      }
      assert_in_range(b, 0, BAG - 1);
      assert_int_equal(seen[b]++, 0);
      used[b]++;
    }
  }
  for (int b = 0; b < BAG; b++) {
    assert_true(used[b] > 0);
  }
  mhas_source_close(source);
}

/* ---- files ---- */

static void the_first_token_is_the_query(void **state) {
  (void)state;
  mhas_source_shape shape = shape_of(MHAS_TOKENS, MHAS_STAGE_EMBEDDING);
  double E[2 * SIZE];
  double e[2 * D];
  shape.path = write_tokens("first.npy", 0.0);
  shape.data.context = N - 1; /* the file has one row more */
  mhas_source *source = must_open(&shape);
  must_read(source, 1, 2, E, e);
  for (int t = 0; t < 2; t++) {
    const double first = (t + 1) * (N + 1) * D;
    for (int j = 0; j < D; j++) {
      assert_true(e[t * D + j] == first + j);
    }
    for (int i = 0; i < (N - 1) * D; i++) {
      assert_true(E[t * (N - 1) * D + i] == first + D + i);
    }
  }
  int64_t hash = 0;
  assert_int_equal(mhas_source_hash(source, &hash, NULL), MHAS_OK);
  assert_true(hash > 0);
  mhas_source_close(source);
}

/* [CLS] is the query of every image; positions are added to what the pixels give. */
static void patches_are_embedded_where_they_are(void **state) {
  (void)state;
  double E[T * SIZE];
  double e[T * D];
  double other[T * SIZE];
  mhas_source_shape shape = shape_of(MHAS_PATCHES, MHAS_STAGE_EMBEDDING);
  shape.path = write_images();
  mhas_source *source = must_open(&shape);
  must_read(source, 0, T, E, e);
  mhas_source_close(source);
  for (int t = 0; t < T; t++) {
    assert_memory_equal(e + t * D, e, D * sizeof *e);
    assert_memory_equal(E + t * SIZE, e, D * sizeof *e);
  }
  /* Positions of another kind move a row by the same amount in all images. */
  shape.positions = MHAS_POSITIONS_SINUSOIDAL;
  source = must_open(&shape);
  must_read(source, 0, T, other, NULL);
  mhas_source_close(source);
  for (int i = 0; i < SIZE; i++) {
    for (int t = 1; t < T; t++) {
      assert_true(fabs((other[t * SIZE + i] - E[t * SIZE + i]) - (other[i] - E[i])) < 1e-12);
    }
  }
  assert_true(fabs(other[D] - E[D]) > 0.1);
}

static void assert_refused(const mhas_source_shape *shape, const char *words) {
  mhas_error error;
  mhas_code code = mhas_source_check(shape, &error);
  code = code == MHAS_OK ? mhas_source_inspect(shape, &error) : code;
  assert_int_equal(code, MHAS_USAGE);
  if (strstr(error.text, words) == NULL) {
    fail_msg("'%s' does not say '%s'", error.text, words);
  }
}

static void sources_that_cannot_be_are_refused(void **state) {
  (void)state;
  mhas_source_shape shape = shape_of(MHAS_PATCHES, MHAS_STAGE_EMBEDDING);
  assert_refused(&shape, "source: patches reads a file; say which with path");
  shape.path = write_images();
  shape.patch = 3;
  assert_refused(&shape, "a patch of 3 pixels does not divide images of 4 x 4");
  shape.patch = 2;
  shape.data.context = 6;
  assert_refused(&shape, "context = 6, and an image of 4 x 4 gives 5 rows with patch = 2");
  shape.data.context = 5;
  shape.data.samples = 8;
  assert_refused(&shape, "samples = 8, and it holds 7");
  shape.data.samples = 7;
  shape.bag = 10;
  assert_refused(&shape, "context_type: bag is for source: synthetic");
  shape.bag = 0;
  shape.kind = MHAS_TOKENS;
  assert_refused(&shape, "neither a .npy nor an HDF5 file");
  shape.path = write_tokens("refused.npy", 0.0);
  shape.data.dim = 5;
  assert_refused(&shape, "dim = 5, and its tokens have dim = 6");
  shape.data.dim = 6;
  shape.data.context = 6;
  assert_refused(&shape, "context = 6, and its samples have the query and 5 rows of context");
  shape.data.context = 5;
  shape.path = write_tokens("nan.npy", NAN);
  assert_refused(&shape, "not finite");
  shape = shape_of(MHAS_SYNTHETIC, MHAS_STAGE_EMBEDDING);
  shape.bag = 4;
  assert_refused(&shape, "cannot be drawn from a bag of 4 vectors");
}

/* ---- stages, against plain loops ---- */

static void norm(const double *x, double *out) {
  double mean = 0.0;
  double variance = 0.0;
  for (int j = 0; j < D; j++) {
    mean += x[j] / D;
  }
  for (int j = 0; j < D; j++) {
    variance += (x[j] - mean) * (x[j] - mean) / D;
  }
  for (int j = 0; j < D; j++) {
    out[j] = (x[j] - mean) / sqrt(variance + 1e-5);
  }
}

/* out (outputs) = x (inputs) W, W being the weights of that stream. */
static void through(const double *x, int inputs, int outputs, mhas_stream stream, double *out) {
  double W[4 * D * D];
  const double bound = sqrt(6.0 / (inputs + outputs));
  mhas_random_uniform(random_, stream, 0, (size_t)(inputs * outputs), W);
  for (int o = 0; o < outputs; o++) {
    out[o] = 0.0;
    for (int i = 0; i < inputs; i++) {
      out[o] += x[i] * bound * (2.0 * W[i * outputs + o] - 1.0);
    }
  }
}

static void pass_plainly(bool with_mlp, const double *E, double *x) {
  double normed[D];
  double q[D];
  double theta[N];
  double z[D] = {0.0};
  double sum = 0.0;
  norm(x, normed);
  through(normed, D, D, MHAS_STREAM_STAGE_QUERY, q);
  for (int i = 0; i < N; i++) {
    double k[D];
    norm(E + i * D, normed);
    through(normed, D, D, MHAS_STREAM_STAGE_KEY, k);
    theta[i] = exp(cblas_ddot(D, q, 1, k, 1) / sqrt((double)D));
    sum += theta[i];
  }
  for (int i = 0; i < N; i++) {
    double v[D];
    norm(E + i * D, normed);
    through(normed, D, D, MHAS_STREAM_STAGE_VALUE, v);
    cblas_daxpy(D, theta[i] / sum, v, 1, z, 1);
  }
  double joined[D];
  through(z, D, D, MHAS_STREAM_STAGE_OUT, joined);
  cblas_daxpy(D, 1.0, joined, 1, x, 1);
  if (with_mlp) {
    double hidden[4 * D];
    norm(x, normed);
    through(normed, D, 4 * D, MHAS_STREAM_STAGE_MLP_IN, hidden);
    for (int i = 0; i < 4 * D; i++) {
      hidden[i] = hidden[i] * 0.5 * erfc(-hidden[i] / sqrt(2.0));
    }
    through(hidden, 4 * D, D, MHAS_STREAM_STAGE_MLP_OUT, joined);
    cblas_daxpy(D, 1.0, joined, 1, x, 1);
  }
}

static void stages_are_what_plain_loops_give(void **state) {
  (void)state;
  const char *images = write_images();
  for (int variant = 0; variant < 4; variant++) {
    mhas_source_shape raw = shape_of(variant % 2 == 0 ? MHAS_SYNTHETIC : MHAS_PATCHES, MHAS_STAGE_EMBEDDING);
    raw.path = images;
    mhas_source_shape shape = raw;
    double E[T * SIZE];
    double e[T * D];
    double E_raw[T * SIZE];
    double e_raw[T * D];
    shape.stage = variant < 2 ? MHAS_STAGE_ATTENTION : MHAS_STAGE_TRANSFORMER;
    mhas_source *source = must_open(&raw);
    must_read(source, 0, T, E_raw, e_raw);
    mhas_source_close(source);
    source = must_open(&shape);
    must_read(source, 0, T, E, e);
    mhas_source_close(source);
    for (int t = 0; t < T; t++) {
      double rows[SIZE];
      memcpy(rows, E_raw + t * SIZE, sizeof rows);
      for (int i = 0; i < N; i++) {
        pass_plainly(variant >= 2, E_raw + t * SIZE, rows + i * D);
      }
      pass_plainly(variant >= 2, E_raw + t * SIZE, e_raw + t * D);
      for (int i = 0; i < SIZE; i++) {
        assert_true(fabs(rows[i] - E[t * SIZE + i]) < 1e-10);
      }
      for (int j = 0; j < D; j++) {
        assert_true(fabs(e_raw[t * D + j] - e[t * D + j]) < 1e-10);
      }
    }
  }
}

int main(void) {
  openblas_set_num_threads(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_are_parts_of_the_whole),
      cmocka_unit_test(plain_synthetic_samples_are_those_of_the_streams),
      cmocka_unit_test(contexts_from_a_bag_have_distinct_rows_of_it),
      cmocka_unit_test(the_first_token_is_the_query),
      cmocka_unit_test(patches_are_embedded_where_they_are),
      cmocka_unit_test(sources_that_cannot_be_are_refused),
      cmocka_unit_test(stages_are_what_plain_loops_give),
  };
  return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
