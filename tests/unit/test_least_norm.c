/* The point of least norm in a polytope, and the two sides of its certificate. */
#include <stdlib.h>
#include <string.h>

#include "close.h"
#include "data/optimize/margins.h"
#include "mhasweep/eigen.h"

static mhas_error error;

/* K = F F^T of n points (rows of F) in p dimensions. */
static double *gram(int n, int p, const double *F) {
  double *K = calloc((size_t)n * (size_t)n, sizeof *K);
  assert_non_null(K);
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) {
      for (int k = 0; k < p; k++) {
        K[i * n + j] += F[i * p + k] * F[j * p + k];
      }
    }
  }
  return K;
}

/* The margin of these points, with weights that make it and a certificate that holds. */
static mhas_margin margin_of(int n, int p, const double *F, double tolerance) {
  double *K = gram(n, p, F);
  double *q = malloc((size_t)n * sizeof *q);
  double *x = calloc((size_t)p, sizeof *x);
  mhas_margin margin;
  assert_int_equal(mhas_least_norm(n, K, tolerance, q, &margin, &error), MHAS_OK);
  double sum = 0.0;
  double square = 0.0;
  double scale = 0.0;
  for (int i = 0; i < n; i++) {
    assert_true(q[i] >= 0.0);
    sum += q[i];
    scale = fmax(scale, K[i * n + i]);
    for (int k = 0; k < p; k++) {
      x[k] += q[i] * F[i * p + k];
    }
  }
  for (int k = 0; k < p; k++) {
    square += x[k] * x[k];
  }
  assert_close(sum, 1.0, 1e-12);
  assert_close((square - margin.upper * margin.upper) / fmax(scale, 1e-300), 0.0, 1e-13 * n);
  assert_true(margin.lower <= margin.upper);
  assert_true(margin.upper - margin.lower <= fmax(tolerance * margin.upper, sqrt(n * 0x1p-52 * scale)));
  free(K);
  free(q);
  free(x);
  return margin;
}

static void one_point_is_its_own_margin(void **state) {
  (void)state;
  const double F[] = {3.0, -4.0};
  const mhas_margin margin = margin_of(1, 2, F, 1e-12);
  assert_close(margin.upper, 5.0, 1e-15);
  assert_close(margin.lower, 5.0, 1e-15);
}

static void two_points_have_the_foot_or_an_end(void **state) {
  (void)state;
  const double across[] = {1.0, 3.0, 1.0, -1.0}; /* the foot (1, 0) is between them */
  assert_close(margin_of(2, 2, across, 1e-12).upper, 1.0, 1e-14);
  const double aside[] = {1.0, 3.0, 1.0, 1.0}; /* it is not */
  assert_close(margin_of(2, 2, aside, 1e-12).upper, sqrt(2.0), 1e-14);
}

static void a_simplex_has_its_centre(void **state) {
  (void)state;
  for (int n = 2; n <= 60; n += 29) {
    double F[60 * 60] = {0};
    for (int i = 0; i < n; i++) {
      F[i * n + i] = 2.0;
    }
    const mhas_margin margin = margin_of(n, n, F, 1e-12);
    assert_close(margin.upper, 2.0 / sqrt(n), 1e-13);
    assert_close(margin.lower, 2.0 / sqrt(n), 1e-12);
  }
}

static void the_origin_inside_leaves_no_margin(void **state) {
  (void)state;
  const double triangle[] = {1.0, 0.0, -1.0, 1.0, -1.0, -1.0};
  assert_close(margin_of(3, 2, triangle, 1e-9).upper, 0.0, 1e-7);
  assert_true(margin_of(3, 2, triangle, 1e-9).lower == 0.0);
  double cloud[300 * 4];
  mhas_random_normal((mhas_random){.seed = 2}, MHAS_STREAM_SAMPLE, 0, 300 * 4, cloud);
  assert_close(margin_of(300, 4, cloud, 1e-9).upper, 0.0, 1e-6);
  const double zeros[8] = {0};
  assert_true(margin_of(4, 2, zeros, 1e-9).upper == 0.0);
}

static void copies_and_points_further_out_change_nothing(void **state) {
  (void)state;
  double F[90 * 5];
  mhas_random_normal((mhas_random){.seed = 4}, MHAS_STREAM_SAMPLE, 0, 30 * 5, F);
  for (int i = 0; i < 30; i++) {
    F[i * 5] = fabs(F[i * 5]) + 0.3;
  }
  const double margin = margin_of(30, 5, F, 1e-10).upper;
  for (int i = 0; i < 30; i++) {
    for (int k = 0; k < 5; k++) {
      F[(30 + i) * 5 + k] = F[i * 5 + k];
      F[(60 + i) * 5 + k] = 1.5 * F[i * 5 + k];
    }
  }
  assert_close(margin_of(90, 5, F, 1e-10).upper / margin, 1.0, 1e-9);
}

/* Random clouds around a point off the origin: few and many support vectors, ranks above and below n. */
static void clouds_have_margins_with_certificates(void **state) {
  (void)state;
  const struct {
    int n, p;
    double offset;
  } clouds[] = {{20, 3, 2.0}, {60, 10, 3.0}, {60, 200, 0.5}, {200, 40, 1.5}, {150, 150, 1.0}, {200, 500, 0.0}};
  for (size_t c = 0; c < sizeof clouds / sizeof *clouds; c++) {
    const int n = clouds[c].n;
    const int p = clouds[c].p;
    double *F = malloc((size_t)(n * p) * sizeof *F);
    mhas_random_normal((mhas_random){.seed = c}, MHAS_STREAM_SAMPLE, 0, (size_t)(n * p), F);
    for (int i = 0; i < n; i++) {
      F[i * p] += clouds[c].offset * 3.0;
    }
    const mhas_margin margin = margin_of(n, p, F, 1e-8);
    assert_true(margin.lower >= (1.0 - 1e-8) * margin.upper);
    free(F);
  }
}

static void tangent_features_have_the_margins_of_an_independent_method(void **state) {
  (void)state;
  for (int c = 0; c < MARGIN_CASES; c++) {
    mhas_margin margin;
    assert_int_equal(mhas_least_norm(MARGIN_N, margin_gram[c], 1e-10, NULL, &margin, &error), MHAS_OK);
    assert_close(margin.upper / margin_expected[c], 1.0, 1e-9);
    assert_close(margin.lower / margin_expected[c], 1.0, 1e-9);
  }
}

static void the_scale_does_not_matter(void **state) {
  (void)state;
  double F[12 * 6];
  mhas_random_normal((mhas_random){.seed = 9}, MHAS_STREAM_SAMPLE, 0, 12 * 6, F);
  for (int i = 0; i < 12; i++) {
    F[i * 6] += 2.0;
  }
  const double margin = margin_of(12, 6, F, 1e-10).upper;
  for (int i = 0; i < 12 * 6; i++) {
    F[i] *= 1e-120;
  }
  double *K = gram(12, 6, F);
  mhas_margin small;
  assert_int_equal(mhas_least_norm(12, K, 1e-10, NULL, &small, &error), MHAS_OK);
  assert_close(small.upper / 1e-120 / margin, 1.0, 1e-10);
  free(K);
}

static void what_is_no_gram_matrix_is_refused(void **state) {
  (void)state;
  mhas_margin margin;
  const double broken[4] = {1.0, NAN, NAN, 1.0};
  assert_int_equal(mhas_least_norm(2, broken, 1e-9, NULL, &margin, &error), MHAS_NUMERIC);
  assert_non_null(strstr(error.text, "Gram matrix"));
  const double negative[4] = {1.0, 0.0, 0.0, -1.0};
  assert_int_equal(mhas_least_norm(2, negative, 1e-9, NULL, &margin, &error), MHAS_NUMERIC);
  assert_non_null(strstr(error.text, "negative square in row 1"));
  const double indefinite[9] = {1.0, 0.0, -4.0, 0.0, 1.0, -4.0, -4.0, -4.0, 1.0};
  assert_int_equal(mhas_least_norm(3, indefinite, 1e-9, NULL, &margin, &error), MHAS_NUMERIC);
  assert_int_equal(mhas_least_norm(0, broken, 1e-9, NULL, &margin, &error), MHAS_INTERNAL);
  assert_int_equal(mhas_least_norm((int64_t)1 << 31, broken, 1e-9, NULL, &margin, &error), MHAS_LIMIT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_point_is_its_own_margin),
      cmocka_unit_test(two_points_have_the_foot_or_an_end),
      cmocka_unit_test(a_simplex_has_its_centre),
      cmocka_unit_test(the_origin_inside_leaves_no_margin),
      cmocka_unit_test(copies_and_points_further_out_change_nothing),
      cmocka_unit_test(clouds_have_margins_with_certificates),
      cmocka_unit_test(tangent_features_have_the_margins_of_an_independent_method),
      cmocka_unit_test(the_scale_does_not_matter),
      cmocka_unit_test(what_is_no_gram_matrix_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
