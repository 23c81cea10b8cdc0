/* Independence of prefixes and subsets: against the singular values, and on sets whose Kruskal rank is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format off: needs what is above */
#include <cmocka.h>
/* clang-format on */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mhasweep/kruskal.h"
#include "mhasweep/linalg.h"

static const mhas_random random_ = {.seed = 7};

static mhas_code go_on(void *context, mhas_error *error) {
  (void)context;
  (void)error;
  return MHAS_OK;
}

static mhas_code stop(void *context, mhas_error *error) {
  int *left = context;
  return (*left)-- > 0 ? MHAS_OK : mhas_fail(error, MHAS_STOPPED, "told to stop");
}

static double *normal(int64_t count, int64_t dim) {
  double *X = malloc((size_t)(count * dim) * sizeof *X);
  assert_non_null(X);
  mhas_random_normal(random_, MHAS_STREAM_QUERY, 0, (size_t)(count * dim), X);
  return X;
}

static double *uniform(int64_t count, int64_t dim) {
  double *X = malloc((size_t)(count * dim) * sizeof *X);
  assert_non_null(X);
  mhas_random_uniform(random_, MHAS_STREAM_QUERY, 0, (size_t)(count * dim), X);
  return X;
}

static mhas_vectors vectors_of(int64_t count, int64_t dim, const double *X) {
  return (mhas_vectors){.count = count, .dim = dim, .X = X, .random = random_, .proceed = go_on};
}

/* ---- prefixes ---- */

/* The number of independent rows by what the standard test says of every prefix. */
static int64_t independent_by_svd(const double *X, int64_t count, int64_t dim, double tolerance) {
  double sigma[256];
  for (int64_t k = 1; k <= count; k++) {
    assert_int_equal(mhas_singular_values(k, dim, X, sigma, NULL), MHAS_OK);
    if (!(sigma[k - 1] > tolerance * sigma[0])) {
      return k - 1;
    }
  }
  return count;
}

static int64_t independent_by_prefix(const double *X, int64_t count, int64_t dim, double tolerance) {
  mhas_prefix *prefix = NULL;
  assert_int_equal(mhas_prefix_create(count, dim, &prefix, NULL), MHAS_OK);
  assert_int_equal(mhas_prefix_factor(prefix, X, NULL, count, NULL), MHAS_OK);
  const int64_t length = mhas_prefix_independent(prefix, tolerance);
  mhas_prefix_destroy(prefix);
  return length;
}

/* Rows whose spectrum falls geometrically to `last`, so that they pass the tolerance gradually. */
static void flatten(double *X, int64_t count, int64_t dim, double last) {
  for (int64_t j = 0; j < dim; j++) {
    const double factor = pow(last, (double)j / (double)(dim - 1));
    for (int64_t i = 0; i < count; i++) {
      X[i * dim + j] *= factor;
    }
  }
}

static void prefixes_agree_with_singular_values(void **state) {
  (void)state;
  enum { D = 48, TRIALS = 60 };
  static const double lasts[] = {1.0, 1e-4, 1e-6, 1e-9, 1e-16};
  int64_t wrong = 0;
  int64_t worst = 0;
  int64_t total = 0;
  for (size_t l = 0; l < sizeof lasts / sizeof *lasts; l++) {
    double *X = l % 2 == 0 ? normal(TRIALS * D, D) : uniform(TRIALS * D, D);
    flatten(X, TRIALS * D, D, lasts[l]);
    for (int64_t t = 0; t < TRIALS; t++) {
      const double tolerance = t % 2 == 0 ? mhas_tolerance_float32(D) : mhas_tolerance_float64(D);
      const int64_t ours = independent_by_prefix(X + t * D * D, D, D, tolerance);
      const int64_t theirs = independent_by_svd(X + t * D * D, D, D, tolerance);
      wrong += ours != theirs;
      worst = llabs(ours - theirs) > worst ? llabs(ours - theirs) : worst;
      total++;
    }
    free(X);
  }
  print_message("prefixes: %lld of %lld lengths differ, by %lld at most\n", (long long)wrong, (long long)total,
                (long long)worst);
  assert_true(worst <= 1);
  assert_true(wrong * 20 <= total);
}

static void a_prefix_ends_at_a_zero_and_at_a_repeated_vector(void **state) {
  (void)state;
  enum { T = 6, D = 8 };
  double *X = normal(T, D);
  memset(X + 4 * D, 0, D * sizeof *X);
  assert_int_equal(independent_by_prefix(X, T, D, mhas_tolerance_float64(D)), 4);
  memcpy(X + 2 * D, X, D * sizeof *X);
  assert_int_equal(independent_by_prefix(X, T, D, mhas_tolerance_float64(D)), 2);
  memset(X, 0, D * sizeof *X);
  assert_int_equal(independent_by_prefix(X, T, D, mhas_tolerance_float64(D)), 0);
  free(X);
}

static void the_combination_of_a_dependent_vector_is_found(void **state) {
  (void)state;
  enum { T = 5, D = 9 };
  double *X = normal(T, D);
  mhas_prefix *prefix = NULL;
  double c[T];
  for (int j = 0; j < D; j++) {
    X[4 * D + j] = 2.0 * X[j] - 0.5 * X[3 * D + j];
  }
  const int64_t order[T] = {3, 1, 0, 4, 2};
  assert_int_equal(mhas_prefix_create(T, D, &prefix, NULL), MHAS_OK);
  assert_int_equal(mhas_prefix_factor(prefix, X, order, T, NULL), MHAS_OK);
  assert_int_equal(mhas_prefix_independent(prefix, mhas_tolerance_float64(D)), 3);
  mhas_prefix_combination(prefix, 3, c);
  assert_true(fabs(c[0] + 0.5) < 1e-12 && fabs(c[1]) < 1e-12 && fabs(c[2] - 2.0) < 1e-12);
  mhas_prefix_destroy(prefix);
  free(X);
}

static void sizes_that_cannot_be_are_refused(void **state) {
  (void)state;
  mhas_prefix *prefix = NULL;
  mhas_error error;
  assert_int_equal(mhas_prefix_create(9, 8, &prefix, &error), MHAS_INTERNAL);
  assert_int_equal(mhas_prefix_create(0, 8, &prefix, &error), MHAS_INTERNAL);
  assert_null(prefix);
  assert_int_equal(mhas_prefix_create(1, INT64_C(1) << 40, &prefix, &error), MHAS_LIMIT);
  assert_null(prefix);
  double x[8] = {1.0};
  assert_int_equal(mhas_prefix_create(1, 8, &prefix, &error), MHAS_OK);
  assert_int_equal(mhas_prefix_factor(prefix, x, NULL, 2, &error), MHAS_INTERNAL);
  mhas_prefix_destroy(prefix);
}

/* ---- random orders ---- */

/* Every 2-subset but one of these is independent, and 3 of the 4 3-subsets that have not both of the pair. */
static void shares_are_those_of_all_subsets(void **state) {
  (void)state;
  enum { T = 5, D = 4, ORDERS = 20000 };
  double *X = normal(T, D);
  for (int j = 0; j < D; j++) {
    X[3 * D + j] = -2.0 * X[1 * D + j];
  }
  const mhas_vectors vectors = vectors_of(T, D, X);
  const double tolerances[2] = {mhas_tolerance_float32(D), mhas_tolerance_float64(D)};
  int64_t independent[2][D + 1];
  assert_int_equal(mhas_kruskal_orders(&vectors, D, ORDERS, 2, tolerances, independent[0], 0.0, NULL, NULL), MHAS_OK);
  static const double shares[D + 1] = {1.0, 1.0, 0.9, 0.7, 0.4}; /* 1 - C(3, k - 2) / C(5, k) */
  for (int i = 0; i < 2; i++) {
    for (int k = 0; k <= D; k++) {
      assert_true(fabs((double)independent[i][k] / ORDERS - shares[k]) < 5.0 * sqrt(0.25 / ORDERS));
    }
    assert_int_equal(independent[i][1], ORDERS);
  }
  free(X);
}

static void longer_orders_begin_with_shorter_ones(void **state) {
  (void)state;
  enum { T = 40, D = 12, ORDERS = 300 };
  double *X = normal(T, D);
  memcpy(X + 7 * D, X, D * sizeof *X);
  memcpy(X + 9 * D, X + D, D * sizeof *X);
  const mhas_vectors vectors = vectors_of(T, D, X);
  const double tolerance = mhas_tolerance_float32(D);
  int64_t all[D + 1];
  int64_t some[6];
  assert_int_equal(mhas_kruskal_orders(&vectors, D, ORDERS, 1, &tolerance, all, 0.0, NULL, NULL), MHAS_OK);
  assert_int_equal(mhas_kruskal_orders(&vectors, 5, ORDERS, 1, &tolerance, some, 0.0, NULL, NULL), MHAS_OK);
  assert_memory_equal(all, some, sizeof some);
  assert_true(all[5] < ORDERS);
  free(X);
}

/* ---- dependent subsets ---- */

static void assert_subset(const mhas_dependent *found, int64_t count, const int64_t *rows) {
  assert_int_equal(found->count, count);
  for (int64_t i = 0; rows != NULL && i < count; i++) {
    assert_int_equal(found->rows[i], rows[i]);
  }
}

/* Searches, and checks the certificate by the singular values of the vectors as they are. */
static mhas_dependent search(const mhas_vectors *vectors, double tolerance) {
  mhas_dependent found;
  mhas_error error;
  assert_int_equal(mhas_dependent_create(vectors, &found, &error), MHAS_OK);
  if (mhas_kruskal_search(vectors, vectors->count, tolerance, &found, &error) != MHAS_OK) {
    fail_msg("%s", error.text);
  }
  if (found.count > 0 && found.count <= vectors->dim) {
    double *rows = malloc((size_t)(found.count * vectors->dim) * sizeof *rows);
    double sigma[256];
    assert_non_null(rows);
    for (int64_t i = 0; i < found.count; i++) {
      memcpy(rows + i * vectors->dim, vectors->X + found.rows[i] * vectors->dim, (size_t)vectors->dim * sizeof *rows);
    }
    assert_int_equal(mhas_singular_values(found.count, vectors->dim, rows, sigma, &error), MHAS_OK);
    assert_true(sigma[found.count - 1] <= 10.0 * tolerance * sigma[0]);
    free(rows);
  }
  return found;
}

static void a_planted_triple_among_ten_thousand_is_found(void **state) {
  (void)state;
  enum { T = 10000, D = 32 };
  static const struct {
    bool is_uniform;
    double alpha, beta;
  } cases[] = {{false, 0.6, -1.4}, {true, 1.0, 1.0}, {true, 1.0, 1e-2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double *X = cases[i].is_uniform ? uniform(T, D) : normal(T, D);
    for (int j = 0; j < D; j++) {
      X[1234 * D + j] = cases[i].alpha * X[9000 * D + j] + cases[i].beta * X[77 * D + j];
    }
    const mhas_vectors vectors = vectors_of(T, D, X);
    const double tolerance = i == 0 ? mhas_tolerance_float32(D) : mhas_tolerance_float64(D);
    mhas_dependent found = search(&vectors, tolerance);
    assert_subset(&found, 3, (const int64_t[]){77, 1234, 9000});
    assert_int_equal(mhas_kruskal_upper(&vectors, &found), 2);
    mhas_dependent_free(&found);
    free(X);
  }
}

static void a_repeated_a_parallel_and_a_zero_vector_are_found(void **state) {
  (void)state;
  enum { T = 20000, D = 16 };
  double *X = uniform(T, D);
  const mhas_vectors vectors = vectors_of(T, D, X);
  memcpy(X + 19999 * D, X + 4 * D, D * sizeof *X);
  mhas_dependent found = search(&vectors, mhas_tolerance_float64(D));
  assert_subset(&found, 2, (const int64_t[]){4, 19999});
  mhas_dependent_free(&found);
  for (int j = 0; j < D; j++) {
    X[19999 * D + j] = -1e-3 * X[500 * D + j];
  }
  found = search(&vectors, mhas_tolerance_float64(D));
  assert_subset(&found, 2, (const int64_t[]){500, 19999});
  mhas_dependent_free(&found);
  memset(X + 300 * D, 0, D * sizeof *X);
  found = search(&vectors, mhas_tolerance_float64(D));
  assert_subset(&found, 1, (const int64_t[]){300});
  assert_int_equal(mhas_kruskal_upper(&vectors, &found), 0);
  mhas_dependent_free(&found);
  free(X);
}

/* Rows first .. first + count - 1 become random members of the span of `rank` random vectors. */
static void put_into_subspace(double *X, int64_t dim, int64_t first, int64_t count, int64_t rank) {
  double *basis = malloc((size_t)(rank * dim) * sizeof *basis);
  double *weights = malloc((size_t)(count * rank) * sizeof *weights);
  assert_true(basis != NULL && weights != NULL);
  mhas_random_normal(random_, MHAS_STREAM_CONTEXT, 0, (size_t)(rank * dim), basis);
  mhas_random_normal(random_, MHAS_STREAM_LABEL, 0, (size_t)(count * rank), weights);
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)count, (int)dim, (int)rank, 1.0, weights, (int)rank,
              basis, (int)dim, 0.0, X + first * dim, (int)dim);
  free(weights);
  free(basis);
}

static void a_subspace_of_five_dimensions_is_found(void **state) {
  (void)state;
  enum { T = 3000, D = 64 };
  for (int part = 0; part < 2; part++) { /* all of the set, and 12 of it */
    double *X = normal(T, D);
    put_into_subspace(X, D, part == 0 ? 0 : 1000, part == 0 ? T : 12, 5);
    const mhas_vectors vectors = vectors_of(T, D, X);
    /* In float32, five of 3000 in so few dimensions are near enough to dependence to count. */
    mhas_dependent found = search(&vectors, mhas_tolerance_float64(D));
    assert_int_equal(mhas_kruskal_upper(&vectors, &found), 5);
    for (int64_t i = 0; i < found.count && part == 1; i++) {
      assert_in_range(found.rows[i], 1000, 1011);
    }
    mhas_dependent_free(&found);
    free(X);
  }
}

static void random_orders_certify_what_they_meet(void **state) {
  (void)state;
  enum { T = 60, D = 30 };
  double *X = normal(T, D);
  put_into_subspace(X, D, 10, 20, 5);
  const mhas_vectors vectors = vectors_of(T, D, X);
  const double tolerance = mhas_tolerance_float64(D);
  int64_t independent[D + 1];
  mhas_dependent found;
  assert_int_equal(mhas_dependent_create(&vectors, &found, NULL), MHAS_OK);
  assert_int_equal(found.count, D + 1);
  assert_int_equal(mhas_kruskal_orders(&vectors, D, 50, 1, &tolerance, independent, tolerance, &found, NULL), MHAS_OK);
  assert_int_equal(found.count, 6);
  for (int i = 0; i < 6; i++) {
    assert_in_range(found.rows[i], 10, 29);
  }
  mhas_dependent_free(&found);
  free(X);
}

static void independent_vectors_have_no_certificate(void **state) {
  (void)state;
  enum { T = 12, D = 16 };
  double *X = normal(T, D);
  mhas_vectors vectors = vectors_of(T, D, X);
  mhas_dependent found = search(&vectors, mhas_tolerance_float64(D));
  assert_int_equal(found.count, 0);
  assert_int_equal(mhas_kruskal_upper(&vectors, &found), T);
  mhas_dependent_free(&found);
  vectors = vectors_of(T, 8, X); /* the same numbers as vectors that are more than their dim */
  found = search(&vectors, mhas_tolerance_float64(8));
  assert_int_equal(mhas_kruskal_upper(&vectors, &found), 8);
  mhas_dependent_free(&found);
  free(X);
}

static void the_smallest_sets_are_searched_too(void **state) {
  (void)state;
  static const double X[6] = {1.0, 2.0, 3.0, 4.0, 5.0, 7.0};
  for (int64_t dim = 1; dim <= 6; dim++) {
    const mhas_vectors vectors = vectors_of(6 / dim, dim, X);
    mhas_dependent found = search(&vectors, mhas_tolerance_float64(dim));
    assert_int_equal(mhas_kruskal_upper(&vectors, &found), 6 / dim < dim ? 6 / dim : dim);
    mhas_dependent_free(&found);
  }
}

static void a_search_and_an_order_stop_when_told(void **state) {
  (void)state;
  enum { T = 200, D = 8 };
  double *X = normal(T, D);
  const double tolerance = mhas_tolerance_float64(D);
  int64_t independent[D + 1];
  mhas_error error;
  for (int left = 0; left < 3; left++) {
    int calls = left;
    mhas_vectors vectors = vectors_of(T, D, X);
    mhas_dependent found;
    vectors.proceed = stop;
    vectors.context = &calls;
    assert_int_equal(mhas_dependent_create(&vectors, &found, &error), MHAS_OK);
    assert_int_equal(mhas_kruskal_search(&vectors, T, tolerance, &found, &error), MHAS_STOPPED);
    calls = left;
    assert_int_equal(mhas_kruskal_orders(&vectors, D, 10, 1, &tolerance, independent, tolerance, &found, &error),
                     MHAS_STOPPED);
    mhas_dependent_free(&found);
  }
  free(X);
}

int main(void) {
  openblas_set_num_threads(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(prefixes_agree_with_singular_values),
      cmocka_unit_test(a_prefix_ends_at_a_zero_and_at_a_repeated_vector),
      cmocka_unit_test(the_combination_of_a_dependent_vector_is_found),
      cmocka_unit_test(sizes_that_cannot_be_are_refused),
      cmocka_unit_test(shares_are_those_of_all_subsets),
      cmocka_unit_test(longer_orders_begin_with_shorter_ones),
      cmocka_unit_test(a_planted_triple_among_ten_thousand_is_found),
      cmocka_unit_test(a_repeated_a_parallel_and_a_zero_vector_are_found),
      cmocka_unit_test(a_subspace_of_five_dimensions_is_found),
      cmocka_unit_test(random_orders_certify_what_they_meet),
      cmocka_unit_test(independent_vectors_have_no_certificate),
      cmocka_unit_test(the_smallest_sets_are_searched_too),
      cmocka_unit_test(a_search_and_an_order_stop_when_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
