/* Block-cyclic matrices: every entry has its one place, what goes in comes out, and sizes are looked at first. */
#include "matrices.h"

static mhas_grid *grid_of(int block) {
  mhas_grid *grid = NULL;
  assert_ok(mhas_grid_create(MPI_COMM_WORLD, block, &grid, error));
  return grid;
}

/* 1 x 1 and 3 x 7 leave ranks without entries; 64 is larger than all. */
static const int64_t shapes[][2] = {{1, 1}, {3, 7}, {64, 1}, {1, 64}, {50, 33}, {33, 50}, {64, 64}};
static const int blocks[] = {1, 4, 7, 64};

static void what_goes_in_comes_out(void **unused) {
  (void)unused;
  for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
    mhas_grid *grid = grid_of(blocks[b]);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
      matrix a = matrix_gaussian(shapes[i][0], shapes[i][1], 17);
      a.entries[0] = -0.0;
      mhas_cyclic dealt = matrix_deal(grid, &a);
      matrix back = matrix_collect(&dealt);
      assert_memory_equal(back.entries, a.entries, (size_t)(a.rows * a.columns) * sizeof(double));
      matrix_free(&back);
      mhas_cyclic_free(&dealt);
      matrix_free(&a);
    }
    mhas_grid_destroy(grid);
  }
}

static void every_entry_lives_on_one_rank(void **unused) {
  (void)unused;
  for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
    mhas_grid *grid = grid_of(blocks[b]);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
      mhas_cyclic a;
      assert_ok(mhas_cyclic_create(grid, shapes[i][0], shapes[i][1], "a", &a, error));
      int64_t entries = a.local_rows * a.local_columns;
      assert_ok(mhas_grid_sum(grid, &entries, 1, error));
      assert_int_equal(entries, a.rows * a.columns);
      for (int64_t r = 0; r < a.local_rows; r++) {
        const int64_t row = mhas_cyclic_row(&a, r);
        assert_true(row < a.rows);
        assert_int_equal(mhas_cyclic_rows_before(&a, row), r);
        assert_int_equal(mhas_cyclic_rows_before(&a, row + 1), r + 1);
      }
      for (int64_t c = 0; c < a.local_columns; c++) {
        const int64_t column = mhas_cyclic_column(&a, c);
        assert_true(column < a.columns);
        assert_int_equal(mhas_cyclic_columns_before(&a, column), c);
        assert_int_equal(mhas_cyclic_columns_before(&a, column + 1), c + 1);
      }
      mhas_cyclic_free(&a);
    }
    mhas_grid_destroy(grid);
  }
}

static void a_part_can_be_read(void **unused) {
  (void)unused;
  mhas_grid *grid = grid_of(4);
  matrix a = matrix_gaussian(30, 20, 0);
  mhas_cyclic dealt = matrix_deal(grid, &a);
  double part[5 * 7];
  assert_ok(mhas_cyclic_read(&dealt, 11, 5, 6, 7, part, error));
  for (int64_t i = 0; i < 5; i++) {
    assert_memory_equal(part + 7 * i, a.entries + (11 + i) * 20 + 6, 7 * sizeof(double));
  }
  assert_code(mhas_cyclic_read(&dealt, 26, 5, 0, 1, part, error), MHAS_INTERNAL);
  assert_code(mhas_cyclic_read(&dealt, 0, 1, -1, 1, part, error), MHAS_INTERNAL);
  mhas_cyclic_free(&dealt);
  matrix_free(&a);
  mhas_grid_destroy(grid);
}

static mhas_code refuse_the_last_block(void *context, int64_t row, int64_t rows, int64_t column, int64_t columns,
                                       double *block, int64_t stride, mhas_error *error) {
  (void)context, (void)block, (void)stride;
  return row + rows == 30 && column + columns == 20 ? mhas_fail(error, MHAS_NUMERIC, "the last block") : MHAS_OK;
}

static void an_error_of_a_filler_is_told_by_all(void **unused) {
  (void)unused;
  mhas_grid *grid = grid_of(4);
  mhas_cyclic a;
  mhas_error told = {0};
  assert_ok(mhas_cyclic_create(grid, 30, 20, "a", &a, error));
  assert_int_equal(mhas_cyclic_fill(&a, refuse_the_last_block, NULL, &told), MHAS_NUMERIC);
  assert_string_equal(told.text, "the last block");
  mhas_cyclic_free(&a);
  mhas_grid_destroy(grid);
}

static void what_32_bits_cannot_count_is_refused_with_a_way_out(void **unused) {
  (void)unused;
  mhas_error told = {0};
  assert_ok(mhas_cyclic_check(16000, 16000, 1, 0, "Z", error));
  assert_ok(mhas_cyclic_check(46340, 46340, 1, 0, "Z", error));
  assert_int_equal(mhas_cyclic_check(46341, 46341, 1, 0, "Z", &told), MHAS_LIMIT);
  assert_string_equal(told.text,
                      "the part of Z (46341 x 46341) on one of 1 rank is beyond the 32-bit integers of ScaLAPACK: a "
                      "team of 2 ranks would do");
  assert_ok(mhas_cyclic_check(46341, 46341, 2, 0, "Z", error));
  assert_int_equal(mhas_cyclic_check(200000, 200000, 3, 0, "Z", &told), MHAS_LIMIT);
  assert_non_null(strstr(told.text, "a team of 24 ranks would do"));
  assert_ok(mhas_cyclic_check(200000, 200000, 24, 0, "Z", error));
  assert_int_equal(mhas_cyclic_check((int64_t)1 << 31, 1, 1 << 20, 0, "Z", &told), MHAS_LIMIT);
  assert_int_equal(mhas_cyclic_check(0, 5, 1, 0, "Z", &told), MHAS_INTERNAL);
  /* few entries, but workspaces of a block of columns each */
  assert_int_equal(mhas_cyclic_check(100000000, 2, 1, 0, "Z", &told), MHAS_LIMIT);
}

static void norms_are_right_at_any_scale(void **unused) {
  (void)unused;
  static const double scales[] = {1e-200, 1.0, 1e200};
  mhas_grid *grid = grid_of(4);
  for (size_t s = 0; s < 3; s++) {
    matrix a = matrix_new(20, 30);
    for (int64_t i = 0; i < 600; i++) {
      a.entries[i] = (i % 2 == 0 ? 3.0 : -4.0) * scales[s];
    }
    mhas_cyclic dealt = matrix_deal(grid, &a);
    double norm = 0.0;
    assert_ok(mhas_cyclic_norm(&dealt, &norm, error));
    assert_close(norm / scales[s], sqrt(300.0 * 25.0), 1e-14);
    mhas_cyclic_free(&dealt);
    matrix_free(&a);
  }
  mhas_grid_destroy(grid);
}

static void an_entry_that_is_not_finite_is_named(void **unused) {
  (void)unused;
  mhas_grid *grid = grid_of(4);
  matrix a = matrix_gaussian(20, 30, 0);
  a.entries[7 * 30 + 22] = INFINITY;
  mhas_cyclic dealt = matrix_deal(grid, &a);
  double sigma[20];
  mhas_error told = {0};
  assert_int_equal(mhas_cyclic_norm(&dealt, sigma, &told), MHAS_NUMERIC);
  assert_non_null(strstr(told.text, "inf in row 7, column 22"));
  assert_int_equal(mhas_cyclic_singular_values(&dealt, sigma, &told), MHAS_NUMERIC);
  mhas_cyclic_free(&dealt);
  matrix_free(&a);
  mhas_grid_destroy(grid);
}

static void residuals_are_those_of_the_matrices(void **unused) {
  (void)unused;
  mhas_grid *grid = grid_of(4);
  matrix z = matrix_gaussian(30, 12, 0);
  matrix x = matrix_gaussian(12, 5, 1000);
  matrix y = matrix_gaussian(30, 5, 2000);
  mhas_cyclic Z = matrix_deal(grid, &z);
  mhas_cyclic X = matrix_deal(grid, &x);
  mhas_cyclic Y = matrix_deal(grid, &y);
  double squares[4] = {0.0};
  double backward = 0.0;
  assert_ok(mhas_cyclic_residual(&Z, &X, &Y, &backward, error));
  matrix errors = matrix_collect(&Y);
  for (int64_t i = 0; i < 30; i++) {
    for (int64_t k = 0; k < 5; k++) {
      double sum = -y.entries[i * 5 + k];
      squares[0] += sum * sum;
      for (int64_t j = 0; j < 12; j++) {
        sum += z.entries[i * 12 + j] * x.entries[j * 5 + k];
      }
      assert_close(errors.entries[i * 5 + k], sum, 1e-13);
      squares[1] += sum * sum;
    }
  }
  for (int64_t i = 0; i < 360; i++) {
    squares[2] += z.entries[i] * z.entries[i];
  }
  for (int64_t i = 0; i < 60; i++) {
    squares[3] += x.entries[i] * x.entries[i];
  }
  assert_close(backward, sqrt(squares[1]) / (sqrt(squares[2]) * sqrt(squares[3]) + sqrt(squares[0])), 1e-14);
  assert_code(mhas_cyclic_residual(&X, &Z, &Y, &backward, error), MHAS_INTERNAL);
  matrix_free(&errors);
  mhas_cyclic_free(&Z);
  mhas_cyclic_free(&X);
  mhas_cyclic_free(&Y);
  matrix_free(&z);
  matrix_free(&x);
  matrix_free(&y);
  mhas_grid_destroy(grid);
}

static void singular_values_are_those_of_lapack(void **unused) {
  (void)unused;
  for (size_t b = 1; b < sizeof blocks / sizeof *blocks; b++) {
    mhas_grid *grid = grid_of(blocks[b]);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
      const int64_t count = shapes[i][0] < shapes[i][1] ? shapes[i][0] : shapes[i][1];
      matrix a = matrix_gaussian(shapes[i][0], shapes[i][1], 0);
      mhas_cyclic dealt = matrix_deal(grid, &a);
      double expected[64];
      double sigma[64];
      assert_ok(mhas_singular_values(a.rows, a.columns, a.entries, expected, error));
      assert_ok(mhas_cyclic_singular_values(&dealt, sigma, error));
      assert_all_close(sigma, expected, count, 1e-13);
      mhas_cyclic_free(&dealt);
      matrix_free(&a);
    }
    mhas_grid_destroy(grid);
  }
}

static void a_matrix_without_rows_is_refused_on_all_ranks(void **unused) {
  (void)unused;
  mhas_grid *grid = grid_of(0);
  mhas_cyclic a;
  assert_code(mhas_cyclic_create(grid, 0, 3, "nothing", &a, error), MHAS_INTERNAL);
  mhas_cyclic_free(&a);
  mhas_grid_destroy(grid);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_goes_in_comes_out),
    cmocka_unit_test(every_entry_lives_on_one_rank),
    cmocka_unit_test(a_part_can_be_read),
    cmocka_unit_test(an_error_of_a_filler_is_told_by_all),
    cmocka_unit_test(what_32_bits_cannot_count_is_refused_with_a_way_out),
    cmocka_unit_test(norms_are_right_at_any_scale),
    cmocka_unit_test(an_entry_that_is_not_finite_is_named),
    cmocka_unit_test(residuals_are_those_of_the_matrices),
    cmocka_unit_test(singular_values_are_those_of_lapack),
    cmocka_unit_test(a_matrix_without_rows_is_refused_on_all_ranks),
};
MATRIX_TESTS_MAIN(tests)
