/* Low-rank factors, the first dependent row, and the ranks of growing blocks. */
#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "close.h"
#include "mhasweep/linalg.h"

static mhas_error error;

static double *gaussian(int64_t rows, int64_t columns, uint64_t seed) {
  double *a = calloc((size_t)(rows * columns), sizeof *a);
  assert_non_null(a);
  mhas_random_normal((mhas_random){.seed = seed}, MHAS_STREAM_W_QUERY, 0, (size_t)(rows * columns), a);
  return a;
}

/* Row `into` becomes a combination of the rows before it. */
static void make_dependent(double *a, int64_t columns, int64_t into) {
  memset(a + into * columns, 0, (size_t)columns * sizeof *a);
  for (int64_t i = 0; i < into; i++) {
    for (int64_t j = 0; j < columns; j++) {
      a[into * columns + j] += (double)(i % 3 - 1) * a[i * columns + j];
    }
  }
}

/* ---- low rank ---- */

static void factors_multiply_to_the_matrix_if_its_rank_allows(void **state) {
  (void)state;
  static const struct {
    int64_t rows, columns, rank;
  } cases[] = {{1, 1, 1}, {6, 4, 4}, {4, 6, 4}, {5, 5, 9}, {40, 30, 30}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    const int64_t m = cases[c].rows;
    const int64_t n = cases[c].columns;
    const int64_t r = cases[c].rank;
    double *a = gaussian(m, n, 1);
    double *left = gaussian(m, r, 2);
    double *right = gaussian(n, r, 3);
    assert_int_equal(mhas_low_rank(m, n, r, a, left, right, &error), MHAS_OK);
    for (int64_t i = 0; i < m; i++) {
      for (int64_t j = 0; j < n; j++) {
        double sum = 0.0;
        for (int64_t k = 0; k < r; k++) {
          sum += left[i * r + k] * right[j * r + k];
        }
        assert_close(sum, a[i * n + j], 1e-13);
      }
    }
    free(a);
    free(left);
    free(right);
  }
}

static void fewer_factors_give_the_nearest_matrix_of_that_rank(void **state) {
  (void)state;
  /* diag(5, 3, 1): without the 1, and each singular value shared evenly. */
  const double a[9] = {0, 3, 0, 5, 0, 0, 0, 0, 1};
  double left[6];
  double right[6];
  assert_int_equal(mhas_low_rank(3, 3, 2, a, left, right, &error), MHAS_OK);
  const double expected[9] = {0, 3, 0, 5, 0, 0, 0, 0, 0};
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) {
      assert_close(left[2 * i] * right[2 * j] + left[2 * i + 1] * right[2 * j + 1], expected[3 * i + j], 1e-14);
    }
  }
  assert_close(left[2 * 1] * left[2 * 1], 5.0, 1e-14);
  assert_close(right[0] * right[0], 5.0, 1e-14);
}

static void a_matrix_that_is_not_finite_has_no_factors(void **state) {
  (void)state;
  const double a[4] = {1, NAN, 0, 1};
  double left[4];
  double right[4];
  assert_int_equal(mhas_low_rank(2, 2, 2, a, left, right, &error), MHAS_NUMERIC);
  assert_non_null(strstr(error.text, "row 0, column 1"));
  assert_int_equal(mhas_low_rank((int64_t)1 << 40, 2, 2, a, left, right, &error), MHAS_LIMIT);
}

/* ---- the first dependent row ---- */

typedef struct matrix {
  const double *a;
  int64_t columns, next, breaks_at;
} matrix;

static mhas_code rows_of(void *context, int64_t first, int64_t count, double *rows, mhas_error *e) {
  matrix *m = context;
  assert_int_equal(first, m->next); /* in order, once */
  m->next = first + count;
  if (m->breaks_at >= first && m->breaks_at < first + count) {
    return mhas_fail(e, MHAS_STOPPED, "told to stop");
  }
  memcpy(rows, m->a + first * m->columns, (size_t)(count * m->columns) * sizeof *rows);
  return MHAS_OK;
}

static int64_t independent(const double *a, int64_t rows, int64_t columns) {
  matrix m = {.a = a, .columns = columns, .breaks_at = -1};
  int64_t found = -1;
  double flops = 0.0;
  assert_int_equal(mhas_independent_rows(rows, columns, rows_of, &m, &found, &flops, &error), MHAS_OK);
  assert_true(flops > 0.0);
  return found;
}

static void rows_count_up_to_the_first_dependent_one(void **state) {
  (void)state;
  static const int64_t places[] = {1, 2, 63, 64, 65, 127, 128, 140, 199};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    double *a = gaussian(200, 210, i + 1);
    make_dependent(a, 210, places[i]);
    make_dependent(a, 210, 199);
    assert_int_equal(independent(a, 200, 210), places[i]);
    free(a);
  }
}

static void there_are_no_more_independent_rows_than_columns_or_rows(void **state) {
  (void)state;
  double *a = gaussian(150, 100, 5);
  assert_int_equal(independent(a, 150, 100), 100);
  assert_int_equal(independent(a, 90, 100), 90);
  assert_int_equal(independent(a, 1, 100), 1);
  assert_int_equal(independent(a, 150, 1), 1);
  memset(a, 0, 100 * sizeof *a); /* a row of zeros depends on nothing at all */
  assert_int_equal(independent(a, 150, 100), 0);
  free(a);
}

/* The rank by singular values agrees where rows are badly conditioned, yet independent. */
static void nearly_dependent_rows_are_told_from_dependent_ones(void **state) {
  (void)state;
  double *a = gaussian(80, 90, 6);
  for (int64_t i = 0; i < 80; i++) {
    for (int64_t j = 0; j < 90; j++) {
      a[i * 90 + j] = 1.0 + 1e-9 * a[i * 90 + j];
    }
  }
  assert_int_equal(independent(a, 80, 90), 80);
  make_dependent(a, 90, 70);
  assert_int_equal(independent(a, 80, 90), 70);
  free(a);
}

static void a_source_that_fails_or_gives_nan_ends_the_count(void **state) {
  (void)state;
  double *a = gaussian(200, 210, 7);
  matrix m = {.a = a, .columns = 210, .breaks_at = 100};
  int64_t found = 0;
  double flops = 0.0;
  assert_int_equal(mhas_independent_rows(200, 210, rows_of, &m, &found, &flops, &error), MHAS_STOPPED);
  m = (matrix){.a = a, .columns = 210, .breaks_at = -1};
  a[70 * 210] = INFINITY;
  assert_int_equal(mhas_independent_rows(200, 210, rows_of, &m, &found, &flops, &error), MHAS_NUMERIC);
  free(a);
}

/* ---- growing blocks ---- */

static int64_t rank_of_block(const double *a, int64_t stride, int64_t rows, int64_t columns) {
  double *block = gaussian(rows, columns, 1);
  double *sigma = gaussian(rows < columns ? rows : columns, 1, 1);
  for (int64_t i = 0; i < rows; i++) {
    memcpy(block + i * columns, a + i * stride, (size_t)columns * sizeof *block);
  }
  assert_int_equal(mhas_singular_values(rows, columns, block, sigma, &error), MHAS_OK);
  const int64_t rank = mhas_numerical_rank(sigma, rows < columns ? rows : columns, 1e-10);
  free(block);
  free(sigma);
  return rank;
}

static void assert_ranks(const double *a, int64_t rows, int64_t columns, int64_t blocks, const int64_t *row_ends,
                         const int64_t *column_ends) {
  int64_t ranks[16];
  assert_int_equal(mhas_nested_ranks(rows, columns, a, blocks, row_ends, column_ends, 1e-9, ranks, &error), MHAS_OK);
  for (int64_t i = 0; i < blocks; i++) {
    const int64_t expected = rank_of_block(a, columns, row_ends[i], column_ends[i]);
    if (ranks[i] != expected) {
      fail_msg("block %" PRId64 " has rank %" PRId64 ", not %" PRId64, i, expected, ranks[i]);
    }
  }
}

static void ranks_of_blocks_are_those_of_their_singular_values(void **state) {
  (void)state;
  static const int64_t row_ends[5] = {8, 15, 22, 90, 97};
  static const int64_t column_ends[5] = {9, 30, 31, 110, 120};
  for (uint64_t seed = 1; seed < 6; seed++) {
    double *a = gaussian(97, 120, seed);
    assert_ranks(a, 97, 120, 5, row_ends, column_ends);
    make_dependent(a, 120, 3); /* dependent for good, in the first block and in later ones */
    make_dependent(a, 120, 20);
    make_dependent(a, 120, 89);
    assert_ranks(a, 97, 120, 5, row_ends, column_ends);
    free(a);
  }
}

static void a_row_that_new_columns_make_independent_counts_from_then_on(void **state) {
  (void)state;
  static const int64_t row_ends[4] = {6, 10, 10, 14};
  static const int64_t column_ends[4] = {4, 8, 16, 20};
  double *a = gaussian(14, 20, 9);
  for (int64_t i = 0; i < 14; i++) {
    for (int64_t j = 0; j < 8; j++) {
      a[i * 20 + j] = (double)(i % 2) + (double)j * (double)(i % 3); /* rank 3 at most in the first columns */
    }
  }
  assert_ranks(a, 14, 20, 4, row_ends, column_ends);
  free(a);
}

static void blocks_with_more_rows_than_columns_or_nothing_new_are_fine(void **state) {
  (void)state;
  static const int64_t row_ends[4] = {30, 30, 30, 40};
  static const int64_t column_ends[4] = {5, 5, 20, 20};
  double *a = gaussian(40, 20, 10);
  assert_ranks(a, 40, 20, 4, row_ends, column_ends);
  memset(a, 0, 40 * 20 * sizeof *a);
  int64_t ranks[4];
  assert_int_equal(mhas_nested_ranks(40, 20, a, 4, row_ends, column_ends, 0.0, ranks, &error), MHAS_OK);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(ranks[i], 0);
  }
  a[39] = NAN;
  assert_int_equal(mhas_nested_ranks(40, 20, a, 4, row_ends, column_ends, 0.0, ranks, &error), MHAS_NUMERIC);
  free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(factors_multiply_to_the_matrix_if_its_rank_allows),
      cmocka_unit_test(fewer_factors_give_the_nearest_matrix_of_that_rank),
      cmocka_unit_test(a_matrix_that_is_not_finite_has_no_factors),
      cmocka_unit_test(rows_count_up_to_the_first_dependent_one),
      cmocka_unit_test(there_are_no_more_independent_rows_than_columns_or_rows),
      cmocka_unit_test(nearly_dependent_rows_are_told_from_dependent_ones),
      cmocka_unit_test(a_source_that_fails_or_gives_nan_ends_the_count),
      cmocka_unit_test(ranks_of_blocks_are_those_of_their_singular_values),
      cmocka_unit_test(a_row_that_new_columns_make_independent_counts_from_then_on),
      cmocka_unit_test(blocks_with_more_rows_than_columns_or_nothing_new_are_fine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
