/* Features made in place by a team: the bits that one rank makes, and the rank that the theory says. */
#include "matrices.h"
#include "mhasweep/model.h"

static const mhas_random seed = {.seed = 77, .replicate = 2};

typedef struct setting {
  int64_t samples, heads, dim, key_dim, context;
  bool shared;
  mhas_distribution distribution;
  double logit_scale;
  bool composed;
} setting;

static mhas_features_shape features_of(const setting *s) {
  mhas_features_shape shape = {.heads = s->heads,
                               .dim = s->dim,
                               .key_dim = s->key_dim,
                               .context = s->context,
                               .shared = s->shared,
                               .logit_scale = s->logit_scale};
  if (s->composed) {
    shape.variant = (mhas_variant){
        .compose = {MHAS_BRANCH_BASE | MHAS_BRANCH_QUERY | MHAS_BRANCH_KEY, MHAS_BRANCH_KEY}, .rank = 2, .scale = 30.0};
  }
  return shape;
}

static mhas_data_shape data_of(const setting *s) {
  return (mhas_data_shape){.samples = s->samples,
                           .context = s->context,
                           .dim = s->dim,
                           .shared = s->shared,
                           .distribution = s->distribution};
}

typedef struct weights {
  matrix W_Q, W_K, compose;
} weights;

static weights weights_of(const setting *s) {
  const mhas_features_shape shape = features_of(s);
  const int64_t composing = s->composed ? mhas_variant_parameters(&shape.variant, s->heads, s->dim) : 0;
  weights w = {matrix_new(s->heads * s->dim, s->key_dim), matrix_new(s->heads * s->dim, s->key_dim),
               matrix_new(composing, 1)};
  mhas_xavier_query_key(s->heads, s->dim, s->key_dim, seed, w.W_Q.entries, w.W_K.entries);
  if (s->composed) {
    mhas_variant_draw(&shape.variant, s->heads, s->dim, seed, w.compose.entries);
  }
  return w;
}

static void weights_free(weights *w) {
  matrix_free(&w->W_Q);
  matrix_free(&w->W_K);
  matrix_free(&w->compose);
}

static mhas_code draw_contexts(void *context, int64_t first, int64_t count, double *E, mhas_error *error) {
  (void)error;
  mhas_data_contexts(context, seed, first, count, E);
  return MHAS_OK;
}

static mhas_code draw_queries(void *context, int64_t first, int64_t count, double *e, mhas_error *error) {
  (void)error;
  mhas_data_queries(context, seed, first, count, e);
  return MHAS_OK;
}

static mhas_code no_queries_from_40_on(void *context, int64_t first, int64_t count, double *e, mhas_error *error) {
  return first + count > 40 ? mhas_fail(error, MHAS_IO, "sample 40 cannot be read")
                            : draw_queries(context, first, count, e, error);
}

/* Z on one rank, all samples at once. */
static matrix whole(const setting *s, int64_t *saturated) {
  const mhas_features_shape shape = features_of(s);
  const mhas_data_shape data = data_of(s);
  weights w = weights_of(s);
  matrix E = matrix_new(mhas_data_contexts_count(&data) * s->context, s->dim);
  matrix e = matrix_new(s->samples, s->dim);
  matrix scratch = matrix_new(mhas_features_scratch(&shape, s->samples), 1);
  matrix Z = matrix_new(s->samples, s->heads * s->dim);
  mhas_data_contexts(&data, seed, 0, mhas_data_contexts_count(&data), E.entries);
  mhas_data_queries(&data, seed, 0, s->samples, e.entries);
  *saturated = mhas_features(&shape, s->samples, E.entries, e.entries, w.W_Q.entries, w.W_K.entries, w.compose.entries,
                             scratch.entries, Z.entries);
  matrix_free(&scratch);
  matrix_free(&e);
  matrix_free(&E);
  weights_free(&w);
  return Z;
}

static mhas_cyclic dealt(const setting *s, const mhas_grid *grid, int64_t *saturated) {
  const mhas_features_shape shape = features_of(s);
  mhas_data_shape data = data_of(s);
  const mhas_features_samples samples = {s->samples, draw_contexts, draw_queries, &data};
  weights w = weights_of(s);
  mhas_cyclic Z;
  assert_ok(mhas_cyclic_create(grid, s->samples, s->heads * s->dim, "Z", &Z, error));
  assert_ok(
      mhas_features_cyclic(&shape, &samples, w.W_Q.entries, w.W_K.entries, w.compose.entries, &Z, saturated, error));
  weights_free(&w);
  return Z;
}

static void a_team_makes_the_bits_that_one_rank_makes(void **unused) {
  (void)unused;
  static const setting settings[] = {
      {75, 11, 6, 5, 9, false, MHAS_UNIFORM, 1.0, false},     {75, 11, 6, 5, 9, true, MHAS_GAUSSIAN, 40.0, false},
      {100, 3, 40, 8, 33, false, MHAS_GAUSSIAN, 40.0, false}, {1, 1, 1, 1, 1, false, MHAS_UNIFORM, 1.0, false},
      {37, 16, 8, 16, 4, true, MHAS_UNIFORM, 1.0, false},     {5, 9, 64, 64, 5000, false, MHAS_GAUSSIAN, 1.0, false},
      {45, 10, 6, 5, 9, false, MHAS_GAUSSIAN, 3.0, true},     {45, 10, 6, 5, 9, true, MHAS_GAUSSIAN, 3.0, true},
  };
  static const int blocks[] = {5, 16, 64};
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    int64_t expected_saturated = 0;
    matrix expected = whole(&settings[i], &expected_saturated);
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
      mhas_grid *grid = NULL;
      int64_t saturated = 0;
      assert_ok(mhas_grid_create(MPI_COMM_WORLD, blocks[b], &grid, error));
      mhas_cyclic Z = dealt(&settings[i], grid, &saturated);
      matrix actual = matrix_collect(&Z);
      assert_memory_equal(actual.entries, expected.entries,
                          (size_t)(expected.rows * expected.columns) * sizeof(double));
      assert_int_equal(saturated, expected_saturated);
      matrix_free(&actual);
      mhas_cyclic_free(&Z);
      mhas_grid_destroy(grid);
    }
    matrix_free(&expected);
  }
}

/* Shared contexts: H (n - 1) + 1, however many samples and columns there are. */
static void the_rank_with_a_shared_context_is_that_of_the_theory(void **unused) {
  (void)unused;
  static const setting settings[] = {
      {300, 8, 32, 32, 16, true, MHAS_GAUSSIAN, 1.0, false},
      {160, 4, 32, 4, 8, true, MHAS_GAUSSIAN, 1.0, false},
      {100, 1, 32, 32, 2, true, MHAS_UNIFORM, 1.0, false},
  };
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    const setting *s = &settings[i];
    mhas_grid *grid = NULL;
    int64_t saturated = 0;
    int64_t rank = 0;
    mhas_qr *qr = NULL;
    const double tolerance = mhas_rank_tolerance(s->samples, s->heads * s->dim);
    assert_ok(mhas_grid_create(MPI_COMM_WORLD, 16, &grid, error));
    mhas_cyclic Z = dealt(s, grid, &saturated);
    assert_ok(mhas_qr_create(MHAS_QR_RANDOMIZED, &Z, tolerance, seed, &qr, error));
    assert_ok(mhas_qr_ranks(qr, &tolerance, 1, &rank, error));
    assert_int_equal(rank, mhas_bound_shared(s->heads, s->context));
    mhas_qr_destroy(qr);
    mhas_cyclic_free(&Z);
    mhas_grid_destroy(grid);
  }
}

/* 10 x 6 features into a matrix of that many columns; the queries from there. */
static mhas_code make(const setting *s, int64_t columns, mhas_features_samples samples, mhas_error *told) {
  const mhas_features_shape shape = features_of(s);
  mhas_data_shape data = data_of(s);
  weights w = weights_of(s);
  mhas_grid *grid = NULL;
  mhas_cyclic Z;
  int64_t saturated = 0;
  samples.context = &data;
  assert_ok(mhas_grid_create(MPI_COMM_WORLD, 4, &grid, error));
  assert_ok(mhas_cyclic_create(grid, s->samples, columns, "Z", &Z, error));
  const mhas_code code =
      mhas_features_cyclic(&shape, &samples, w.W_Q.entries, w.W_K.entries, NULL, &Z, &saturated, told);
  mhas_cyclic_free(&Z);
  mhas_grid_destroy(grid);
  weights_free(&w);
  return code;
}

static void a_matrix_of_another_shape_is_refused(void **unused) {
  (void)unused;
  static const setting s = {10, 2, 3, 3, 4, false, MHAS_UNIFORM, 1.0, false};
  mhas_error told = {0};
  assert_int_equal(make(&s, 7, (mhas_features_samples){10, draw_contexts, draw_queries, NULL}, &told), MHAS_INTERNAL);
  assert_int_equal(make(&s, 6, (mhas_features_samples){9, draw_contexts, draw_queries, NULL}, &told), MHAS_INTERNAL);
}

static void samples_that_cannot_be_read_end_it_on_all_ranks(void **unused) {
  (void)unused;
  static const setting s = {100, 2, 3, 3, 4, false, MHAS_UNIFORM, 1.0, false};
  mhas_error told = {0};
  assert_int_equal(make(&s, 6, (mhas_features_samples){100, draw_contexts, no_queries_from_40_on, NULL}, &told),
                   MHAS_IO);
  assert_string_equal(told.text, "sample 40 cannot be read");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_team_makes_the_bits_that_one_rank_makes),
    cmocka_unit_test(the_rank_with_a_shared_context_is_that_of_the_theory),
    cmocka_unit_test(a_matrix_of_another_shape_is_refused),
    cmocka_unit_test(samples_that_cannot_be_read_end_it_on_all_ranks),
};
MATRIX_TESTS_MAIN(tests)
