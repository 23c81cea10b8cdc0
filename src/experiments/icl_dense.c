/*
 * All eigenvalues of the integral Hessian, as a check of Lanczos: the matrix of order M (k + d) is made row by row, one
 * product each, and shifted by its Frobenius norm, so that its singular values are its eigenvalues plus the shift. On a
 * team it is spread over the ranks, and each makes the rows of its own part.
 */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "experiments/icl_run.h"
#include "mhasweep/linalg.h"

typedef struct rows {
  icl *run;
  double *unit; /* (numbers), zero between products */
  double *made; /* (MHAS_GRID_BLOCK, numbers): rows first .. first + count - 1 */
  int64_t first, count;
} rows;

/* H is symmetric: row i is H e_i. */
static mhas_code make_row(rows *r, int64_t row, double *out, mhas_error *error) {
  icl *run = r->run;
  if (run->task->team.size <= 1) { /* on a team, the grid asks */
    MHAS_TRY(run->task->proceed(run->task->context, error));
  }
  r->unit[row] = 1.0;
  icl_side_product(&run->test, r->unit, out);
  r->unit[row] = 0.0;
  run->state.flops += icl_product_flops(run->values);
  return MHAS_OK;
}

static void fill_spectrum(icl *run, double shift, double *sigma, double *lambda_min) {
  const mhas_row *row = run->row;
  for (int64_t i = 0; i < run->numbers; i++) {
    sigma[i] -= shift;
  }
  *lambda_min = sigma[run->numbers - 1];
  for (int64_t i = 0; row->spectrum != NULL && i < run->numbers && i < row->spectrum_capacity; i++) {
    row->spectrum[i] = sigma[i];
  }
}

/* ---- on one rank ---------------------------------------------------------------- */

static mhas_code solve_alone(rows *r, double *sigma, double *shift, mhas_error *error) {
  const int64_t n = r->run->numbers;
  double *H = NULL;
  MHAS_TRY(mhas_alloc(&H, (size_t)n * (size_t)n, sizeof *H, "the integral Hessian", error));
  mhas_code code = MHAS_OK;
  double squares = 0.0;
  for (int64_t i = 0; code == MHAS_OK && i < n; i++) {
    code = make_row(r, i, H + i * n, error);
    squares += code == MHAS_OK ? cblas_ddot((int)n, H + i * n, 1, H + i * n, 1) : 0.0;
  }
  *shift = sqrt(squares);
  for (int64_t i = 0; i < n; i++) {
    H[i * n + i] += *shift;
  }
  if (code == MHAS_OK) {
    code = mhas_singular_values(n, n, H, sigma, error);
  }
  mhas_free(H);
  return code;
}

/* ---- on a team ------------------------------------------------------------------ */

/* Calls come block of rows by block of rows. */
static mhas_code fill_block(void *context, int64_t row, int64_t row_count, int64_t column, int64_t columns,
                            double *block, int64_t stride, mhas_error *error) {
  rows *r = context;
  const int64_t n = r->run->numbers;
  if (r->first != row || r->count != row_count) {
    for (int64_t i = 0; i < row_count; i++) {
      MHAS_TRY(make_row(r, row + i, r->made + i * n, error));
    }
    r->first = row;
    r->count = row_count;
  }
  for (int64_t j = 0; j < columns; j++) {
    for (int64_t i = 0; i < row_count; i++) {
      block[i + j * stride] = r->made[i * n + column + j];
    }
  }
  return MHAS_OK;
}

static void shift_diagonal(mhas_cyclic *H, double shift) {
  for (int64_t r = 0; r < H->local_rows; r++) {
    const int64_t row = mhas_cyclic_row(H, r);
    const int64_t c = mhas_cyclic_columns_before(H, row);
    if (c < H->local_columns && mhas_cyclic_column(H, c) == row) {
      H->local[r + c * H->stride] += shift;
    }
  }
}

static mhas_code solve_spread(rows *r, const mhas_grid *grid, double *sigma, double *shift, mhas_error *error) {
  const int64_t n = r->run->numbers;
  mhas_cyclic H = {0};
  mhas_code code = mhas_cyclic_create(grid, n, n, "the integral Hessian", &H, error);
  if (code == MHAS_OK) {
    code = mhas_cyclic_fill(&H, fill_block, r, error);
  }
  if (code == MHAS_OK) {
    code = mhas_cyclic_norm(&H, shift, error);
  }
  if (code == MHAS_OK) {
    shift_diagonal(&H, *shift);
    code = mhas_cyclic_singular_values(&H, sigma, error);
  }
  mhas_cyclic_free(&H);
  return code;
}

static mhas_code solve_on_team(rows *r, double *sigma, double *shift, mhas_error *error) {
  const mhas_task *task = r->run->task;
  mhas_grid *grid = NULL;
  MHAS_TRY(mhas_cyclic_check(r->run->numbers, r->run->numbers, task->team.size, 0, "the integral Hessian", error));
  MHAS_TRY(mhas_grid_create(task->team.comm, 0, &grid, error));
  mhas_grid_watch(grid, task->proceed, task->context);
  const mhas_code code = solve_spread(r, grid, sigma, shift, error);
  mhas_grid_destroy(grid);
  return code;
}

mhas_code icl_dense_spectrum(icl *run, double *lambda_min, mhas_error *error) {
  const size_t n = (size_t)run->numbers;
  const bool alone = run->task->team.size <= 1;
  rows r = {.run = run, .first = -1};
  double *sigma = NULL;
  double shift = 0.0;
  mhas_code code = icl_side_forward(&run->test, run->theta, error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&sigma, n, sizeof *sigma, "the spectrum", error);
  }
  if (code == MHAS_OK) {
    code = mhas_alloc(&r.unit, n, sizeof *r.unit, "the spectrum", error);
  }
  if (code == MHAS_OK && !alone) {
    code = mhas_alloc(&r.made, MHAS_GRID_BLOCK * n, sizeof *r.made, "rows of the integral Hessian", error);
  }
  code = mhas_team_agree(&run->task->team, code, error);
  if (code == MHAS_OK) {
    code = alone ? solve_alone(&r, sigma, &shift, error) : solve_on_team(&r, sigma, &shift, error);
  }
  if (code == MHAS_OK) {
    fill_spectrum(run, shift, sigma, lambda_min);
  }
  mhas_free(sigma);
  mhas_free(r.unit);
  mhas_free(r.made);
  return code;
}
