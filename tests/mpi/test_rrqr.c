/* Rank-revealing QR of block-cyclic matrices against the singular values that LAPACK computes on one rank. */
#include "matrices.h"

static mhas_grid *grid_of(int block) {
  mhas_grid *grid = NULL;
  assert_ok(mhas_grid_create(MPI_COMM_WORLD, block, &grid, error));
  return grid;
}

static int64_t rank_by(mhas_grid *grid, mhas_qr_method method, matrix *a, double tolerance) {
  mhas_cyclic dealt = matrix_deal(grid, a);
  mhas_qr *qr = NULL;
  int64_t rank = -1;
  assert_ok(mhas_qr_create(method, &dealt, tolerance, matrix_seed, &qr, error));
  assert_ok(mhas_qr_ranks(qr, &tolerance, 1, &rank, error));
  mhas_qr_destroy(qr);
  mhas_cyclic_free(&dealt);
  return rank;
}

/* Both methods, in small blocks and in blocks larger than the matrix. Frees a. */
static void check_rank(const char *what, matrix a, double tolerance) {
  const int64_t expected = matrix_rank(&a, tolerance);
  static const int blocks[] = {5, 16, 64};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
    mhas_grid *grid = grid_of(blocks[i]);
    for (int method = MHAS_QR_RANDOMIZED; method <= MHAS_QR_PIVOTED; method++) {
      const int64_t rank = rank_by(grid, (mhas_qr_method)method, &a, tolerance);
      if (rank != expected) {
        fail_msg("%s, method %d, blocks of %d: rank %ld, but the singular values say %ld", what, method, blocks[i],
                 (long)rank, (long)expected);
      }
    }
    mhas_grid_destroy(grid);
  }
  matrix_free(&a);
}

static double standard(int64_t rows, int64_t columns) { return mhas_rank_tolerance(rows, columns); }

/* ---- ranks ---- */

static void a_gap_in_the_singular_values_is_found(void **unused) {
  (void)unused;
  static const int64_t shapes[][3] = {{60, 60, 23}, {90, 40, 17}, {40, 90, 39}, {70, 70, 69}, {64, 64, 32}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    double sigma[90];
    for (int64_t k = 0; k < 90; k++) {
      sigma[k] = k < shapes[i][2] ? pow(10.0, -3.0 * (double)k / 90.0) : 1e-17;
    }
    check_rank("a gap", matrix_with(shapes[i][0], shapes[i][1], sigma), standard(shapes[i][0], shapes[i][1]));
  }
}

static void full_rank_is_found(void **unused) {
  (void)unused;
  check_rank("square", matrix_gaussian(75, 75, 0), standard(75, 75));
  check_rank("tall", matrix_gaussian(150, 31, 0), standard(150, 31));
  check_rank("wide", matrix_gaussian(31, 150, 0), standard(31, 150));
  check_rank("one column", matrix_gaussian(40, 1, 0), standard(40, 1));
  check_rank("one row", matrix_gaussian(1, 40, 0), standard(1, 40));
  check_rank("one entry", matrix_gaussian(1, 1, 0), standard(1, 1));
}

static void small_ranks_are_found(void **unused) {
  (void)unused;
  check_rank("zero", matrix_new(20, 30), standard(20, 30));
  matrix one = matrix_new(50, 40);
  for (int64_t i = 0; i < 50 * 40; i++) {
    one.entries[i] = (double)(1 + i / 40) * (double)(1 + i % 40);
  }
  check_rank("rank 1", one, standard(50, 40));
  matrix single = matrix_new(33, 33);
  single.entries[17 * 33 + 29] = 1e-200;
  check_rank("one tiny entry", single, standard(33, 33));
}

static void repeated_rows_and_columns_count_once(void **unused) {
  (void)unused;
  matrix a = matrix_gaussian(48, 48, 0);
  for (int64_t j = 0; j < 48; j++) {
    a.entries[30 * 48 + j] = a.entries[3 * 48 + j];
    a.entries[31 * 48 + j] = a.entries[3 * 48 + j];
  }
  for (int64_t i = 0; i < 48; i++) {
    a.entries[i * 48 + 40] = -2.0 * a.entries[i * 48 + 11];
  }
  assert_int_equal(matrix_rank(&a, standard(48, 48)), 46);
  check_rank("repeated rows and columns", a, standard(48, 48));
}

/* Singular values that fall evenly through the tolerance, from 1 to 1e-20: nothing tells where they pass it. */
static void slow_decay_is_cut_where_the_singular_values_are(void **unused) {
  (void)unused;
  static const int64_t shapes[][2] = {{100, 100}, {150, 90}, {90, 150}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    double sigma[100];
    for (int64_t k = 0; k < 100; k++) {
      sigma[k] = pow(10.0, -20.0 * (double)k / 90.0);
    }
    check_rank("slow decay", matrix_with(shapes[i][0], shapes[i][1], sigma), standard(shapes[i][0], shapes[i][1]));
    for (int digits = 3; digits <= 9; digits += 3) {
      check_rank("slow decay, coarse", matrix_with(shapes[i][0], shapes[i][1], sigma), 1.03 * pow(10.0, -digits));
    }
  }
}

static void ranks_at_several_tolerances_are_those_of_each_alone(void **unused) {
  (void)unused;
  static const double tolerances[] = {1e-13, 1.03e-3, 1.03e-6, 0.5, 1.03e-9};
  enum { COUNT = sizeof tolerances / sizeof *tolerances };
  double sigma[100];
  for (int64_t k = 0; k < 100; k++) { /* slow decay, then a gap, then nothing */
    sigma[k] = k < 80 ? pow(10.0, -10.0 * (double)k / 80.0) : 0.0;
  }
  matrix a = matrix_with(120, 100, sigma);
  mhas_grid *grid = grid_of(8);
  mhas_cyclic dealt = matrix_deal(grid, &a);
  mhas_qr *qr = NULL;
  int64_t ranks[COUNT];
  assert_ok(mhas_qr_create(MHAS_QR_RANDOMIZED, &dealt, 1e-13, matrix_seed, &qr, error));
  assert_ok(mhas_qr_ranks(qr, tolerances, COUNT, ranks, error));
  for (int i = 0; i < COUNT; i++) {
    assert_int_equal(ranks[i], matrix_rank(&a, tolerances[i]));
    int64_t alone = 0;
    assert_ok(mhas_qr_ranks(qr, &tolerances[i], 1, &alone, error));
    assert_int_equal(alone, ranks[i]);
  }
  mhas_qr_destroy(qr);
  mhas_cyclic_free(&dealt);
  matrix_free(&a);
  mhas_grid_destroy(grid);
}

/* Kahan 1966: R's diagonal falls slowly although its smallest singular value is tiny, and no pivot is ever wanted. */
static matrix kahan(int64_t n) {
  matrix a = matrix_new(n, n);
  const double c = cos(1.2);
  const double s = sin(1.2);
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = i; j < n; j++) {
      a.entries[i * n + j] = pow(s, (double)i) * (j == i ? 1.0 + 1e-12 * (double)(n - i) : -c);
    }
  }
  return a;
}

static void kahans_matrix_is_seen_through(void **unused) {
  (void)unused;
  enum { n = 90 };
  matrix a = kahan(n);
  assert_int_equal(matrix_rank(&a, standard(n, n)), n - 1);
  mhas_grid *grid = grid_of(16);
  mhas_cyclic dealt = matrix_deal(grid, &a);
  mhas_qr *qr = NULL;
  assert_ok(mhas_qr_create(MHAS_QR_PIVOTED, &dealt, standard(n, n), matrix_seed, &qr, error));
  assert_true(mhas_qr_diagonal(qr)[n - 1] > 1e6 * standard(n, n) * mhas_qr_largest(qr)); /* the diagonal is blind */
  mhas_qr_destroy(qr);
  mhas_cyclic_free(&dealt);
  mhas_grid_destroy(grid);
  check_rank("Kahan's matrix", a, standard(n, n));
}

/* 2 % beside each of the smallest singular values that LAPACK sees. */
static void kahans_matrix_is_cut_where_its_singular_values_are(void **unused) {
  (void)unused;
  enum { n = 60 };
  matrix a = kahan(n);
  double sigma[n];
  assert_ok(mhas_singular_values(n, n, a.entries, sigma, error));
  matrix_free(&a);
  for (int64_t k = n - 1; k >= n - 3; k--) {
    assert_true(sigma[k] > 1e-13);
    check_rank("Kahan's matrix, just kept", kahan(n), 0.98 * sigma[k] / sigma[0]);
    check_rank("Kahan's matrix, just cut", kahan(n), 1.02 * sigma[k] / sigma[0]);
  }
}

/* The entries' size means nothing. */
static void rank_does_not_change_with_scale(void **unused) {
  (void)unused;
  static const double scales[] = {1e-250, 1e250};
  for (size_t i = 0; i < 2; i++) {
    double sigma[50];
    for (int64_t k = 0; k < 50; k++) {
      sigma[k] = scales[i] * (k < 21 ? 1.0 / (double)(1 + k) : 1e-16);
    }
    matrix a = matrix_with(50, 50, sigma);
    mhas_grid *grid = grid_of(8);
    assert_int_equal(rank_by(grid, MHAS_QR_RANDOMIZED, &a, standard(50, 50)), 21);
    assert_int_equal(rank_by(grid, MHAS_QR_PIVOTED, &a, standard(50, 50)), 21);
    mhas_grid_destroy(grid);
    matrix_free(&a);
  }
}

/* ---- the factorization ---- */

static void the_factorization_is_one_of_the_matrix(void **unused) {
  (void)unused;
  enum { m = 70, n = 55 };
  matrix a = matrix_gaussian(m, n, 0);
  mhas_grid *grid = grid_of(8);
  for (int method = MHAS_QR_RANDOMIZED; method <= MHAS_QR_PIVOTED; method++) {
    mhas_cyclic dealt = matrix_deal(grid, &a);
    mhas_qr *qr = NULL;
    assert_ok(mhas_qr_create((mhas_qr_method)method, &dealt, 1e-14, matrix_seed, &qr, error));
    assert_int_equal(mhas_qr_steps(qr), n);
    matrix r = matrix_collect(&dealt);
    /* (a P)^T (a P) = R^T R, whatever Q is */
    for (int64_t i = 0; i < n; i++) {
      for (int64_t j = 0; j < n; j++) {
        double expected = 0.0;
        double product = 0.0;
        for (int64_t k = 0; k < m; k++) {
          expected += a.entries[k * n + mhas_qr_columns(qr)[i]] * a.entries[k * n + mhas_qr_columns(qr)[j]];
        }
        for (int64_t k = 0; k <= i && k <= j; k++) {
          product += r.entries[k * n + i] * r.entries[k * n + j];
        }
        assert_close(product, expected, 1e-11);
      }
      assert_close(fabs(r.entries[i * n + i]), mhas_qr_diagonal(qr)[i], 0.0);
    }
    matrix_free(&r);
    mhas_qr_destroy(qr);
    mhas_cyclic_free(&dealt);
  }
  mhas_grid_destroy(grid);
  matrix_free(&a);
}

static void the_randomized_factorization_stops_at_the_rank(void **unused) {
  (void)unused;
  double sigma[120];
  for (int64_t k = 0; k < 120; k++) {
    sigma[k] = k < 30 ? 1.0 : 0.0;
  }
  matrix a = matrix_with(120, 120, sigma);
  mhas_grid *grid = grid_of(8);
  mhas_cyclic dealt = matrix_deal(grid, &a);
  mhas_qr *qr = NULL;
  assert_ok(mhas_qr_create(MHAS_QR_RANDOMIZED, &dealt, standard(120, 120), matrix_seed, &qr, error));
  assert_int_equal(mhas_qr_steps(qr), 32); /* the fourth block of 8 has the 30th column */
  mhas_qr_destroy(qr);
  mhas_cyclic_free(&dealt);
  mhas_grid_destroy(grid);
  matrix_free(&a);
}

static void the_largest_singular_value_is_estimated_to_three_thousandths(void **unused) {
  (void)unused;
  mhas_grid *grid = grid_of(16);
  matrix a = matrix_gaussian(200, 180, 0);
  double sigma[180];
  assert_ok(mhas_singular_values(200, 180, a.entries, sigma, error));
  mhas_cyclic dealt = matrix_deal(grid, &a);
  mhas_qr *qr = NULL;
  assert_ok(mhas_qr_create(MHAS_QR_RANDOMIZED, &dealt, 1e-13, matrix_seed, &qr, error));
  assert_true(mhas_qr_largest(qr) <= sigma[0] * (1.0 + 1e-13));
  assert_true(mhas_qr_largest(qr) >= sigma[0] * (1.0 - 3e-3));
  mhas_qr_destroy(qr);
  mhas_cyclic_free(&dealt);
  matrix_free(&a);
  mhas_grid_destroy(grid);
}

static void the_same_grid_gives_the_same_bits(void **unused) {
  (void)unused;
  mhas_grid *grid = grid_of(8);
  matrix a = matrix_gaussian(90, 90, 0);
  matrix first = matrix_new(0, 0);
  for (int round = 0; round < 3; round++) {
    mhas_cyclic dealt = matrix_deal(grid, &a);
    mhas_qr *qr = NULL;
    assert_ok(mhas_qr_create(MHAS_QR_RANDOMIZED, &dealt, 1e-13, matrix_seed, &qr, error));
    matrix again = matrix_collect(&dealt);
    if (round == 0) {
      matrix_free(&first);
      first = again;
    } else {
      assert_memory_equal(again.entries, first.entries, 90 * 90 * sizeof(double));
      matrix_free(&again);
    }
    mhas_qr_destroy(qr);
    mhas_cyclic_free(&dealt);
  }
  matrix_free(&first);
  matrix_free(&a);
  mhas_grid_destroy(grid);
}

/* ---- refusals ---- */

static void what_is_not_finite_is_refused(void **unused) {
  (void)unused;
  mhas_grid *grid = grid_of(4);
  matrix a = matrix_gaussian(20, 20, 0);
  a.entries[13 * 20 + 6] = NAN;
  mhas_cyclic dealt = matrix_deal(grid, &a);
  mhas_qr *qr = NULL;
  mhas_error error = {0};
  assert_int_equal(mhas_qr_create(MHAS_QR_RANDOMIZED, &dealt, 1e-14, matrix_seed, &qr, &error), MHAS_NUMERIC);
  assert_non_null(strstr(error.text, "row 13, column 6"));
  assert_null(qr);
  mhas_cyclic_free(&dealt);
  matrix_free(&a);
  mhas_grid_destroy(grid);
}

static void a_finer_tolerance_than_that_of_the_factorization_is_refused(void **unused) {
  (void)unused;
  double sigma[64];
  for (int64_t k = 0; k < 64; k++) {
    sigma[k] = pow(10.0, -(double)k / 4.0);
  }
  mhas_grid *grid = grid_of(4);
  matrix a = matrix_with(64, 64, sigma);
  mhas_cyclic dealt = matrix_deal(grid, &a);
  mhas_qr *qr = NULL;
  int64_t rank = 0;
  assert_ok(mhas_qr_create(MHAS_QR_RANDOMIZED, &dealt, 1e-3, matrix_seed, &qr, error));
  assert_ok(mhas_qr_ranks(qr, (const double[]){1.1e-3}, 1, &rank, error));
  assert_int_equal(rank, 12);
  assert_code(mhas_qr_ranks(qr, (const double[]){1e-12}, 1, &rank, error), MHAS_INTERNAL);
  mhas_qr_destroy(qr);
  mhas_cyclic_free(&dealt);
  matrix_free(&a);
  mhas_grid_destroy(grid);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_gap_in_the_singular_values_is_found),
    cmocka_unit_test(full_rank_is_found),
    cmocka_unit_test(small_ranks_are_found),
    cmocka_unit_test(repeated_rows_and_columns_count_once),
    cmocka_unit_test(slow_decay_is_cut_where_the_singular_values_are),
    cmocka_unit_test(ranks_at_several_tolerances_are_those_of_each_alone),
    cmocka_unit_test(kahans_matrix_is_seen_through),
    cmocka_unit_test(kahans_matrix_is_cut_where_its_singular_values_are),
    cmocka_unit_test(rank_does_not_change_with_scale),
    cmocka_unit_test(the_factorization_is_one_of_the_matrix),
    cmocka_unit_test(the_randomized_factorization_stops_at_the_rank),
    cmocka_unit_test(the_largest_singular_value_is_estimated_to_three_thousandths),
    cmocka_unit_test(the_same_grid_gives_the_same_bits),
    cmocka_unit_test(what_is_not_finite_is_refused),
    cmocka_unit_test(a_finer_tolerance_than_that_of_the_factorization_is_refused),
};
MATRIX_TESTS_MAIN(tests)
