/* Least squares of block-cyclic matrices of any rank: the solution of smallest norm that LAPACK finds on one rank. */
#include "matrices.h"

enum { OUTPUTS = 7 };

static mhas_grid *grid_of(int block) {
  mhas_grid *grid = NULL;
  assert_ok(mhas_grid_create(MPI_COMM_WORLD, block, &grid, error));
  return grid;
}

/* x of a x = y by the team, with the rank it finds, and how well it solves it. */
static matrix solve(mhas_grid *grid, mhas_qr_method method, matrix *a, matrix *y, double tolerance, int64_t *rank,
                    double *backward) {
  mhas_cyclic A = matrix_deal(grid, a);
  mhas_cyclic Y = matrix_deal(grid, y);
  mhas_cyclic X;
  mhas_qr *qr = NULL;
  assert_ok(mhas_cyclic_create(grid, a->columns, y->columns, "the solution", &X, error));
  assert_ok(mhas_qr_create(method, &A, tolerance, matrix_seed, &qr, error));
  assert_ok(mhas_qr_ranks(qr, &tolerance, 1, rank, error));
  assert_ok(mhas_qr_solve(qr, *rank, &Y, &X, error));
  mhas_qr_destroy(qr);
  assert_ok(mhas_cyclic_fill(&A, matrix_fill, a, error));
  assert_ok(mhas_cyclic_fill(&Y, matrix_fill, y, error));
  assert_ok(mhas_cyclic_residual(&A, &X, &Y, backward, error));
  matrix x = matrix_collect(&X);
  mhas_cyclic_free(&X);
  mhas_cyclic_free(&Y);
  mhas_cyclic_free(&A);
  return x;
}

/* Against LAPACK, by both methods, in small and large blocks. `condition`: of what counts of a. Frees a and y. */
static void check(const char *what, matrix a, matrix y, double condition) {
  const double tolerance = mhas_rank_tolerance(a.rows, a.columns);
  const int64_t least = a.rows < a.columns ? a.rows : a.columns;
  matrix expected = matrix_new(a.columns, y.columns);
  matrix sigma = matrix_new(least, 1);
  assert_ok(mhas_least_squares(a.rows, a.columns, y.columns, a.entries, y.entries, tolerance, expected.entries,
                               sigma.entries, error));
  double size = 0.0;
  for (int64_t i = 0; i < a.columns * y.columns; i++) {
    size = fmax(size, fabs(expected.entries[i]));
  }
  static const int blocks[] = {5, 16, 64};
  for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
    mhas_grid *grid = grid_of(blocks[b]);
    for (int method = MHAS_QR_RANDOMIZED; method <= MHAS_QR_PIVOTED; method++) {
      int64_t rank = 0;
      double backward = 0.0;
      matrix x = solve(grid, (mhas_qr_method)method, &a, &y, tolerance, &rank, &backward);
      assert_int_equal(rank, mhas_numerical_rank(sigma.entries, least, tolerance));
      for (int64_t i = 0; i < a.columns * y.columns; i++) {
        if (!(fabs(x.entries[i] - expected.entries[i]) <= 1e-13 * condition * size)) {
          fail_msg("%s, method %d, blocks of %d: x[%d] is %.17g, not %.17g", what, method, blocks[b], (int)i,
                   x.entries[i], expected.entries[i]);
        }
      }
      matrix_free(&x);
    }
    mhas_grid_destroy(grid);
  }
  matrix_free(&sigma);
  matrix_free(&expected);
  matrix_free(&a);
  matrix_free(&y);
}

static void full_rank_is_solved(void **unused) {
  (void)unused;
  check("square", matrix_gaussian(60, 60, 0), matrix_gaussian(60, OUTPUTS, 9000), 1e4);
  check("tall", matrix_gaussian(120, 31, 0), matrix_gaussian(120, OUTPUTS, 9000), 1e2);
  check("wide", matrix_gaussian(31, 120, 0), matrix_gaussian(31, OUTPUTS, 9000), 1e2);
  check("one entry", matrix_gaussian(1, 1, 0), matrix_gaussian(1, 1, 9000), 10.0);
  check("one row", matrix_gaussian(1, 30, 0), matrix_gaussian(1, 3, 9000), 10.0);
  check("one column", matrix_gaussian(30, 1, 0), matrix_gaussian(30, 3, 9000), 10.0);
}

static void rank_deficient_problems_get_the_shortest_solution(void **unused) {
  (void)unused;
  static const int64_t shapes[][3] = {{60, 60, 23}, {90, 40, 17}, {40, 90, 33},
                                      {70, 70, 68}, {64, 64, 32}, {50, 50, 3}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    double sigma[90];
    for (int64_t k = 0; k < 90; k++) {
      sigma[k] = k < shapes[i][2] ? pow(10.0, -3.0 * (double)k / 90.0) : 0.0;
    }
    check("of low rank", matrix_with(shapes[i][0], shapes[i][1], sigma), matrix_gaussian(shapes[i][0], OUTPUTS, 9000),
          1e4);
  }
}

static void repeated_columns_share_the_weight(void **unused) {
  (void)unused;
  matrix a = matrix_gaussian(40, 24, 0);
  for (int64_t i = 0; i < 40; i++) {
    a.entries[i * 24 + 20] = a.entries[i * 24 + 3];
  }
  matrix y = matrix_gaussian(40, 2, 9000);
  mhas_grid *grid = grid_of(4);
  int64_t rank = 0;
  double backward = 0.0;
  matrix x = solve(grid, MHAS_QR_RANDOMIZED, &a, &y, mhas_rank_tolerance(40, 24), &rank, &backward);
  assert_int_equal(rank, 23);
  for (int64_t k = 0; k < 2; k++) {
    assert_close(x.entries[20 * 2 + k], x.entries[3 * 2 + k], 1e-12);
  }
  matrix_free(&x);
  mhas_grid_destroy(grid);
  check("repeated columns", a, y, 1e3);
}

static void what_can_be_solved_is_solved_to_rounding(void **unused) {
  (void)unused;
  double sigma[80];
  for (int64_t k = 0; k < 80; k++) {
    sigma[k] = k < 50 ? pow(10.0, -9.0 * (double)k / 50.0) : 0.0;
  }
  matrix a = matrix_with(80, 80, sigma);
  matrix x = matrix_gaussian(80, OUTPUTS, 9000);
  matrix y = matrix_new(80, OUTPUTS);
  for (int64_t i = 0; i < 80; i++) {
    for (int64_t j = 0; j < 80; j++) {
      for (int64_t k = 0; k < OUTPUTS; k++) {
        y.entries[i * OUTPUTS + k] += a.entries[i * 80 + j] * x.entries[j * OUTPUTS + k];
      }
    }
  }
  mhas_grid *grid = grid_of(8);
  for (int method = MHAS_QR_RANDOMIZED; method <= MHAS_QR_PIVOTED; method++) {
    int64_t rank = 0;
    double backward = 1.0;
    matrix solution = solve(grid, (mhas_qr_method)method, &a, &y, mhas_rank_tolerance(80, 80), &rank, &backward);
    assert_int_equal(rank, 50);
    assert_true(backward < 1e-14);
    matrix_free(&solution);
  }
  mhas_grid_destroy(grid);
  matrix_free(&a);
  matrix_free(&x);
  matrix_free(&y);
}

static void a_zero_matrix_has_a_zero_solution(void **unused) {
  (void)unused;
  matrix a = matrix_new(20, 30);
  matrix y = matrix_gaussian(20, 3, 0);
  mhas_grid *grid = grid_of(4);
  int64_t rank = -1;
  double backward = 0.0;
  matrix x = solve(grid, MHAS_QR_RANDOMIZED, &a, &y, 1e-14, &rank, &backward);
  assert_int_equal(rank, 0);
  for (int64_t i = 0; i < 90; i++) {
    assert_true(x.entries[i] == 0.0);
  }
  matrix_free(&x);
  mhas_grid_destroy(grid);
  matrix_free(&a);
  matrix_free(&y);
}

static void shapes_and_ranks_that_do_not_fit_are_refused(void **unused) {
  (void)unused;
  mhas_grid *grid = grid_of(4);
  matrix a = matrix_gaussian(20, 12, 0);
  matrix y = matrix_gaussian(20, 3, 0);
  mhas_cyclic A = matrix_deal(grid, &a);
  mhas_cyclic Y = matrix_deal(grid, &y);
  mhas_cyclic X;
  mhas_qr *qr = NULL;
  assert_ok(mhas_cyclic_create(grid, 12, 3, "the solution", &X, error));
  assert_ok(mhas_qr_create(MHAS_QR_RANDOMIZED, &A, 1e-14, matrix_seed, &qr, error));
  assert_code(mhas_qr_solve(qr, 13, &Y, &X, error), MHAS_INTERNAL);
  assert_code(mhas_qr_solve(qr, -1, &Y, &X, error), MHAS_INTERNAL);
  assert_code(mhas_qr_solve(qr, 12, &X, &Y, error), MHAS_INTERNAL);
  y.entries[5] = NAN;
  assert_ok(mhas_cyclic_fill(&Y, matrix_fill, &y, error));
  assert_code(mhas_qr_solve(qr, 12, &Y, &X, error), MHAS_NUMERIC);
  mhas_qr_destroy(qr);
  mhas_cyclic_free(&X);
  mhas_cyclic_free(&Y);
  mhas_cyclic_free(&A);
  matrix_free(&a);
  matrix_free(&y);
  mhas_grid_destroy(grid);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(full_rank_is_solved),
    cmocka_unit_test(rank_deficient_problems_get_the_shortest_solution),
    cmocka_unit_test(repeated_columns_share_the_weight),
    cmocka_unit_test(what_can_be_solved_is_solved_to_rounding),
    cmocka_unit_test(a_zero_matrix_has_a_zero_solution),
    cmocka_unit_test(shapes_and_ranks_that_do_not_fit_are_refused),
};
MATRIX_TESTS_MAIN(tests)
