/* Singular values, rank and least squares of dense matrices. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "close.h"
#include "linalg/dense.h"

static mhas_error error;

static const mhas_svd_method methods[] = {MHAS_SVD_DIVIDE, MHAS_SVD_ITERATE};

static double *numbers(int64_t count) {
  double *values = calloc((size_t)count, sizeof *values);
  assert_non_null(values);
  return values;
}

/* A random matrix (rows x columns) of the given rank: a product of two Gaussian ones. */
static double *matrix_of_rank(int64_t rows, int64_t columns, int64_t rank, uint64_t seed) {
  const mhas_random random = {.seed = seed};
  double *a = numbers(rows * columns);
  double *left = numbers(rows * rank);
  double *right = numbers(rank * columns);
  mhas_random_normal(random, MHAS_STREAM_W_QUERY, 0, (size_t)(rows * rank), left);
  mhas_random_normal(random, MHAS_STREAM_W_KEY, 0, (size_t)(rank * columns), right);
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t k = 0; k < rank; k++) {
      for (int64_t j = 0; j < columns; j++) {
        a[i * columns + j] += left[i * rank + k] * right[k * columns + j];
      }
    }
  }
  free(left);
  free(right);
  return a;
}

static const struct {
  int64_t rows, columns, rank;
} shapes[] = {{1, 1, 1},  {1, 7, 1},    {7, 1, 1},    {5, 3, 3},     {3, 5, 3},     {6, 6, 2},   {40, 9, 4},
              {9, 40, 4}, {60, 60, 60}, {60, 60, 31}, {200, 50, 50}, {50, 200, 17}, {90, 80, 79}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void singular_values_are_those_of_a_known_matrix(void **state) {
  (void)state;
  /* [3 0; 4 5] has singular values 3 sqrt 5 and sqrt 5. */
  const double a[4] = {3, 0, 4, 5};
  double sigma[2];
  assert_int_equal(mhas_singular_values(2, 2, a, sigma, &error), MHAS_OK);
  assert_close(sigma[0], 3.0 * sqrt(5.0), 1e-15);
  assert_close(sigma[1], sqrt(5.0), 1e-15);
  /* A wide matrix with orthogonal rows: their lengths. */
  const double wide[8] = {0, 3, 4, 0, 2, 0, 0, 0};
  assert_int_equal(mhas_singular_values(2, 4, wide, sigma, &error), MHAS_OK);
  assert_close(sigma[0], 5.0, 1e-15);
  assert_close(sigma[1], 2.0, 1e-15);
}

static void all_methods_find_the_same_singular_values(void **state) {
  (void)state;
  for (int i = 0; i < SHAPES; i++) {
    const int64_t rows = shapes[i].rows;
    const int64_t columns = shapes[i].columns;
    const int64_t least = rows < columns ? rows : columns;
    double *a = matrix_of_rank(rows, columns, shapes[i].rank, (uint64_t)i);
    double *y = numbers(rows);
    double *b = numbers(columns);
    double *reference = numbers(least);
    double *sigma = numbers(least);
    assert_int_equal(mhas_singular_values(rows, columns, a, reference, &error), MHAS_OK);
    double sum = 0.0;
    double squares = 0.0;
    for (int64_t k = 0; k < least; k++) {
      assert_true(k == 0 || reference[k] <= reference[k - 1]);
      squares += reference[k] * reference[k];
    }
    for (int64_t k = 0; k < rows * columns; k++) {
      sum += a[k] * a[k];
    }
    assert_close(squares / sum, 1.0, 1e-13);
    for (size_t m = 0; m < 2; m++) {
      bool converged = false;
      assert_int_equal(mhas_singular_values_by(methods[m], rows, columns, a, sigma, &converged, &error), MHAS_OK);
      assert_true(converged);
      for (int64_t k = 0; k < least; k++) {
        assert_close(sigma[k] / reference[0], reference[k] / reference[0], 1e-14);
      }
      assert_int_equal(mhas_least_squares_by(methods[m], rows, columns, 1, a, y, 1e-12, b, sigma, &converged, &error),
                       MHAS_OK);
      assert_true(converged);
      for (int64_t k = 0; k < least; k++) {
        assert_close(sigma[k] / reference[0], reference[k] / reference[0], 1e-14);
      }
    }
    assert_int_equal(mhas_numerical_rank(reference, least, mhas_rank_tolerance(rows, columns)), shapes[i].rank);
    free(a);
    free(y);
    free(b);
    free(reference);
    free(sigma);
  }
}

/* r = a b - y, and whether a^T r = 0 and b lies in the row space of a: what makes b the solution of smallest norm. */
static void check_solution(int64_t rows, int64_t columns, int64_t outputs, const double *a, const double *y,
                           const double *b, double sigma1) {
  double *r = numbers(rows * outputs);
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t k = 0; k < outputs; k++) {
      r[i * outputs + k] = -y[i * outputs + k];
      for (int64_t j = 0; j < columns; j++) {
        r[i * outputs + k] += a[i * columns + j] * b[j * outputs + k];
      }
    }
  }
  for (int64_t j = 0; j < columns; j++) {
    for (int64_t k = 0; k < outputs; k++) {
      double normal = 0.0;
      for (int64_t i = 0; i < rows; i++) {
        normal += a[i * columns + j] * r[i * outputs + k];
      }
      assert_close(normal / sigma1, 0.0, 1e-11);
    }
  }
  free(r);
  /* b = a^T w for the least-squares w exactly if b is in the row space: solve for w and look. */
  double *turned = numbers(rows * columns);
  double *w = numbers(rows * outputs);
  double *sigma = numbers(rows < columns ? rows : columns);
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < columns; j++) {
      turned[j * rows + i] = a[i * columns + j];
    }
  }
  assert_int_equal(mhas_least_squares(columns, rows, outputs, turned, b, 1e-12, w, sigma, &error), MHAS_OK);
  for (int64_t j = 0; j < columns; j++) {
    for (int64_t k = 0; k < outputs; k++) {
      double back = 0.0;
      for (int64_t i = 0; i < rows; i++) {
        back += turned[j * rows + i] * w[i * outputs + k];
      }
      assert_close(back, b[j * outputs + k], 1e-7); /* off by eps cond; by order 1 if not */
    }
  }
  free(turned);
  free(w);
  free(sigma);
}

static void least_squares_is_optimal_and_of_smallest_norm(void **state) {
  (void)state;
  enum { OUTPUTS = 3 };
  for (int i = 0; i < SHAPES; i++) {
    const int64_t rows = shapes[i].rows;
    const int64_t columns = shapes[i].columns;
    double *a = matrix_of_rank(rows, columns, shapes[i].rank, (uint64_t)i);
    double *y = numbers(rows * OUTPUTS);
    double *b = numbers(columns * OUTPUTS);
    double *sigma = numbers(rows < columns ? rows : columns);
    mhas_random_uniform((mhas_random){.seed = 9}, MHAS_STREAM_LABEL, 0, (size_t)(rows * OUTPUTS), y);
    for (size_t m = 0; m < 2; m++) {
      bool converged = false;
      assert_int_equal(
          mhas_least_squares_by(methods[m], rows, columns, OUTPUTS, a, y, 1e-12, b, sigma, &converged, &error),
          MHAS_OK);
      check_solution(rows, columns, OUTPUTS, a, y, b, sigma[0]);
    }
    free(a);
    free(y);
    free(b);
    free(sigma);
  }
}

static void singular_values_below_the_tolerance_count_as_zero(void **state) {
  (void)state;
  const double a[4] = {1, 0, 0, 1e-8};
  const double y[2] = {2, 3};
  double b[2];
  double sigma[2];
  assert_int_equal(mhas_least_squares(2, 2, 1, a, y, 1e-9, b, sigma, &error), MHAS_OK);
  assert_close(b[1], 3e8, 1e-12);
  assert_int_equal(mhas_least_squares(2, 2, 1, a, y, 1e-7, b, sigma, &error), MHAS_OK);
  assert_close(b[0], 2.0, 1e-15);
  assert_close(b[1], 0.0, 1e-15);
  assert_close(sigma[1], 1e-8, 1e-15);
}

static void a_zero_matrix_has_rank_zero_and_a_zero_solution(void **state) {
  (void)state;
  const double a[6] = {0};
  const double y[3] = {1, 2, 3};
  double b[2] = {7, 7};
  double sigma[2] = {7, 7};
  assert_int_equal(mhas_least_squares(3, 2, 1, a, y, 1e-12, b, sigma, &error), MHAS_OK);
  assert_true(b[0] == 0.0 && b[1] == 0.0 && sigma[0] == 0.0 && sigma[1] == 0.0);
  assert_int_equal(mhas_numerical_rank(sigma, 2, 1e-12), 0);
  assert_int_equal(mhas_singular_values(3, 2, a, sigma, &error), MHAS_OK);
  assert_true(sigma[0] == 0.0 && sigma[1] == 0.0);
}

static void very_large_and_very_small_numbers_are_fine(void **state) {
  (void)state;
  const double scales[] = {1e-300, 1e150, 1e300};
  for (int i = 0; i < 3; i++) {
    const double a[4] = {3 * scales[i], 0, 4 * scales[i], 5 * scales[i]};
    const double y[2] = {3 * scales[i], 9 * scales[i]};
    double b[2];
    double sigma[2];
    assert_int_equal(mhas_least_squares(2, 2, 1, a, y, 1e-12, b, sigma, &error), MHAS_OK);
    assert_close(sigma[0] / scales[i], 3.0 * sqrt(5.0), 1e-14);
    assert_close(b[0], 1.0, 1e-14);
    assert_close(b[1], 1.0, 1e-14);
  }
}

static void numbers_that_are_not_finite_are_named(void **state) {
  (void)state;
  const double good[4] = {1, 2, 3, 4};
  const double bad[][4] = {{1, 2, NAN, 4}, {1, 2, 3, INFINITY}, {1, -INFINITY, 3, 4}};
  const char *places[] = {"row 1, column 0", "row 1, column 1", "row 0, column 1"};
  double b[4];
  double sigma[2];
  for (int i = 0; i < 3; i++) {
    assert_int_equal(mhas_singular_values(2, 2, bad[i], sigma, &error), MHAS_NUMERIC);
    assert_non_null(strstr(error.text, places[i]));
    assert_int_equal(mhas_least_squares(2, 2, 2, bad[i], good, 1e-12, b, sigma, &error), MHAS_NUMERIC);
    assert_non_null(strstr(error.text, "the matrix"));
    assert_int_equal(mhas_least_squares(2, 2, 2, good, bad[i], 1e-12, b, sigma, &error), MHAS_NUMERIC);
    assert_non_null(strstr(error.text, "the right-hand side"));
    assert_non_null(strstr(error.text, places[i]));
  }
}

static void sizes_beyond_lapack_are_refused(void **state) {
  (void)state;
  const int64_t huge = (int64_t)1 << 31;
  double unused = 0.0;
  assert_int_equal(mhas_singular_values(huge, 1, &unused, &unused, &error), MHAS_LIMIT);
  assert_non_null(strstr(error.text, "rows"));
  assert_int_equal(mhas_singular_values(1, huge, &unused, &unused, &error), MHAS_LIMIT);
  assert_non_null(strstr(error.text, "columns"));
  assert_int_equal(mhas_least_squares(1, 1, huge, &unused, &unused, 1e-12, &unused, &unused, &error), MHAS_LIMIT);
  assert_non_null(strstr(error.text, "right-hand sides"));
}

static void rank_counts_what_is_above_the_tolerance(void **state) {
  (void)state;
  const double sigma[] = {10.0, 1.0, 0.01, 0.0099, 0.0};
  assert_int_equal(mhas_numerical_rank(sigma, 5, 1e-3), 2); /* 0.01 is not above 0.01 */
  assert_int_equal(mhas_numerical_rank(sigma, 5, 9.95e-4), 3);
  assert_int_equal(mhas_numerical_rank(sigma, 5, 1e-6), 4);
  assert_int_equal(mhas_numerical_rank(sigma, 5, 0.0), 4);
  assert_true(mhas_rank_tolerance(3, 8) == 8.0 * 0x1p-52);
  assert_true(mhas_rank_tolerance(8, 3) == 8.0 * 0x1p-52);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(singular_values_are_those_of_a_known_matrix),
      cmocka_unit_test(all_methods_find_the_same_singular_values),
      cmocka_unit_test(least_squares_is_optimal_and_of_smallest_norm),
      cmocka_unit_test(singular_values_below_the_tolerance_count_as_zero),
      cmocka_unit_test(a_zero_matrix_has_rank_zero_and_a_zero_solution),
      cmocka_unit_test(very_large_and_very_small_numbers_are_fine),
      cmocka_unit_test(numbers_that_are_not_finite_are_named),
      cmocka_unit_test(sizes_beyond_lapack_are_refused),
      cmocka_unit_test(rank_counts_what_is_above_the_tolerance),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
