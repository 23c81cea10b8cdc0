/* Block-cyclic matrices: sizes, storage, and the ways in and out. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "linalg/grid.h"
#include "linalg/scalapack.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- sizes ------------------------------------------------------------------ */

/* On grid row 0 and column 0, which have the most: entries, and the workspaces of the factorizations (a few blocks of
 * rows and of columns), which is what has to fit an int. */
static double local_numbers(int64_t rows, int64_t columns, int ranks, int64_t block) {
  int p = 1;
  int q = 1;
  mhas_grid_shape(ranks, &p, &q);
  const double r = (double)mhas_dealt(rows, block, 0, p);
  const double c = (double)mhas_dealt(columns, block, 0, q);
  return fmax(r * c, 4.0 * (double)block * (r + c + 4.0 * (double)block));
}

/* The least number of ranks, by doubling, on which it fits; 0 if none does. */
static int ranks_that_do(int64_t rows, int64_t columns, int ranks, int64_t block) {
  for (int more = ranks; more <= INT_MAX / 2; more *= 2) {
    if (local_numbers(rows, columns, more, block) < INT_MAX) {
      return more;
    }
  }
  return 0;
}

mhas_code mhas_cyclic_check(int64_t rows, int64_t columns, int ranks, int block, const char *what, mhas_error *error) {
  const int64_t b = block > 0 ? block : MHAS_GRID_BLOCK;
  if (rows < 1 || columns < 1) {
    return mhas_fail(error, MHAS_INTERNAL, "%s has %" PRId64 " rows and %" PRId64 " columns: a matrix has one at least",
                     what, rows, columns);
  }
  if (rows <= INT_MAX && columns <= INT_MAX && local_numbers(rows, columns, ranks, b) < INT_MAX) {
    return MHAS_OK;
  }
  const int enough = rows <= INT_MAX && columns <= INT_MAX ? ranks_that_do(rows, columns, ranks, b) : 0;
  if (enough == 0) {
    return mhas_fail(error, MHAS_LIMIT, "%s (%" PRId64 " x %" PRId64 ") is beyond the 32-bit integers of ScaLAPACK",
                     what, rows, columns);
  }
  return mhas_fail(error, MHAS_LIMIT,
                   "the part of %s (%" PRId64 " x %" PRId64
                   ") on one of %d rank%s is beyond the 32-bit integers of ScaLAPACK: a team of %d ranks would do",
                   what, rows, columns, ranks, ranks == 1 ? "" : "s", enough);
}

mhas_code mhas_cyclic_create(const mhas_grid *grid, int64_t rows, int64_t columns, const char *what, mhas_cyclic *a,
                             mhas_error *error) {
  *a = (mhas_cyclic){.grid = grid, .rows = rows, .columns = columns};
  MHAS_TRY(mhas_cyclic_check(rows, columns, grid->rows * grid->columns, grid->block, what, error));
  a->local_rows = mhas_dealt(rows, grid->block, grid->row, grid->rows);
  a->local_columns = mhas_dealt(columns, grid->block, grid->column, grid->columns);
  a->stride = a->local_rows > 0 ? a->local_rows : 1;
  const int descriptor[] = {1, grid->context, (int)rows, (int)columns, grid->block, grid->block, 0, 0, (int)a->stride};
  memcpy(a->descriptor, descriptor, sizeof descriptor);
  const mhas_code code =
      mhas_alloc(&a->local, (size_t)a->stride * (size_t)a->local_columns, sizeof *a->local, what, error);
  return mhas_grid_agree(grid, code, error);
}

void mhas_cyclic_free(mhas_cyclic *a) {
  mhas_free(a->local);
  a->local = NULL;
}

/* ---- places --------------------------------------------------------------------- */

/* Local block k of place `at` is block k places + at of the whole. */
static int64_t whole_index(int64_t local, int64_t block, int64_t at, int64_t places) {
  return (local / block * places + at) * block + local % block;
}

int64_t mhas_cyclic_row(const mhas_cyclic *a, int64_t local_row) {
  return whole_index(local_row, a->grid->block, a->grid->row, a->grid->rows);
}

int64_t mhas_cyclic_column(const mhas_cyclic *a, int64_t local_column) {
  return whole_index(local_column, a->grid->block, a->grid->column, a->grid->columns);
}

int64_t mhas_cyclic_rows_before(const mhas_cyclic *a, int64_t row) {
  return mhas_dealt(row, a->grid->block, a->grid->row, a->grid->rows);
}

int64_t mhas_cyclic_columns_before(const mhas_cyclic *a, int64_t column) {
  return mhas_dealt(column, a->grid->block, a->grid->column, a->grid->columns);
}

/* ---- in and out ------------------------------------------------------------------ */

mhas_code mhas_cyclic_fill(mhas_cyclic *a, mhas_cyclic_filler fill, void *context, mhas_error *error) {
  const int64_t block = a->grid->block;
  mhas_code code = MHAS_OK;
  for (int64_t r = 0; code == MHAS_OK && r < a->local_rows; r += block) {
    for (int64_t c = 0; code == MHAS_OK && c < a->local_columns; c += block) {
      code = fill(context, mhas_cyclic_row(a, r), smaller(block, a->local_rows - r), mhas_cyclic_column(a, c),
                  smaller(block, a->local_columns - c), a->local + r + c * a->stride, a->stride, error);
    }
  }
  return mhas_grid_agree(a->grid, code, error);
}

mhas_code mhas_fill_identity(void *context, int64_t row, int64_t rows, int64_t column, int64_t columns, double *block,
                             int64_t stride, mhas_error *error) {
  (void)context, (void)error;
  for (int64_t i = 0; row == column && i < rows && i < columns; i++) {
    block[i + i * stride] = 1.0;
  }
  return MHAS_OK;
}

/* Each entry has one owner, and all others put in zero bits: OR is exact, also for -0 and NaN. */
mhas_code mhas_cyclic_read(const mhas_cyclic *a, int64_t row, int64_t rows, int64_t column, int64_t columns,
                           double *out, mhas_error *error) {
  if (row < 0 || rows < 0 || row + rows > a->rows || column < 0 || columns < 0 || column + columns > a->columns) {
    return mhas_fail(error, MHAS_INTERNAL,
                     "rows %" PRId64 " + %" PRId64 ", columns %" PRId64 " + %" PRId64
                     " are not inside a matrix of %" PRId64 " x %" PRId64,
                     row, rows, column, columns, a->rows, a->columns);
  }
  memset(out, 0, (size_t)rows * (size_t)columns * sizeof *out);
  const int64_t last_row = mhas_cyclic_rows_before(a, row + rows);
  const int64_t last_column = mhas_cyclic_columns_before(a, column + columns);
  for (int64_t r = mhas_cyclic_rows_before(a, row); r < last_row; r++) {
    for (int64_t c = mhas_cyclic_columns_before(a, column); c < last_column; c++) {
      out[(mhas_cyclic_row(a, r) - row) * columns + mhas_cyclic_column(a, c) - column] = a->local[r + c * a->stride];
    }
  }
  const int64_t most = INT_MAX / 16;
  for (int64_t at = 0; at < rows * columns; at += most) {
    if (MPI_Allreduce(MPI_IN_PLACE, out + at, (int)smaller(most, rows * columns - at), MPI_UINT64_T, MPI_BOR,
                      a->grid->comm) != MPI_SUCCESS) {
      return mhas_fail(error, MHAS_MPI, "the ranks of a team cannot talk to each other");
    }
  }
  return MHAS_OK;
}

/* ---- norms and products ------------------------------------------------------------- */

static mhas_code refuse(const mhas_cyclic *a, int64_t r, int64_t c, mhas_error *error) {
  return mhas_fail(error, MHAS_NUMERIC,
                   "the matrix has an entry that is not finite: %g in row %" PRId64 ", column %" PRId64,
                   a->local[r + c * a->stride], mhas_cyclic_row(a, r), mhas_cyclic_column(a, c));
}

/* Of local rows and columns first_row and first_column and beyond. */
static mhas_code largest_entry(const mhas_cyclic *a, int64_t first_row, int64_t first_column, double *largest,
                               mhas_error *error) {
  double most = 0.0;
  for (int64_t c = first_column; c < a->local_columns; c++) {
    const double *column = a->local + c * a->stride;
    for (int64_t r = first_row; r < a->local_rows; r++) {
      if (!isfinite(column[r])) {
        return refuse(a, r, c, error);
      }
      most = fmax(most, fabs(column[r]));
    }
  }
  *largest = most;
  return MHAS_OK;
}

/* Entries are divided by the largest one first: squares of tiny or huge ones would be lost (as they are in PDLANGE). */
mhas_code mhas_corner_norm(const mhas_cyclic *a, int64_t first, double *norm, mhas_error *error) {
  const int64_t first_row = mhas_cyclic_rows_before(a, first);
  const int64_t first_column = mhas_cyclic_columns_before(a, first);
  double mine = 0.0;
  double largest = 0.0;
  MHAS_TRY(mhas_grid_agree(a->grid, largest_entry(a, first_row, first_column, &mine, error), error));
  if (MPI_Allreduce(&mine, &largest, 1, MPI_DOUBLE, MPI_MAX, a->grid->comm) != MPI_SUCCESS) {
    return mhas_fail(error, MHAS_MPI, "the ranks of a team cannot talk to each other");
  }
  double sum = 0.0;
  for (int64_t c = first_column; largest > 0.0 && c < a->local_columns; c++) {
    double part = 0.0;
    for (int64_t r = first_row; r < a->local_rows; r++) {
      const double entry = a->local[r + c * a->stride] / largest;
      part += entry * entry;
    }
    sum += part;
  }
  Cdgsum2d(a->grid->context, "All", " ", 1, 1, &sum, 1, -1, -1);
  *norm = largest * sqrt(sum);
  return MHAS_OK;
}

mhas_code mhas_cyclic_norm(const mhas_cyclic *a, double *norm, mhas_error *error) {
  return mhas_corner_norm(a, 0, norm, error);
}

mhas_code mhas_cyclic_residual(const mhas_cyclic *z, const mhas_cyclic *x, mhas_cyclic *y, double *backward,
                               mhas_error *error) {
  if (z->columns != x->rows || z->rows != y->rows || x->columns != y->columns) {
    return mhas_fail(error, MHAS_INTERNAL,
                     "matrices of %" PRId64 " x %" PRId64 ", %" PRId64 " x %" PRId64 " and %" PRId64 " x %" PRId64
                     " make no residual",
                     z->rows, z->columns, x->rows, x->columns, y->rows, y->columns);
  }
  double norms[3];
  const mhas_cyclic *const parts[] = {z, x, y};
  for (int i = 0; i < 3; i++) {
    MHAS_TRY(mhas_cyclic_norm(parts[i], &norms[i], error));
  }
  const int m = (int)y->rows;
  const int n = (int)y->columns;
  const int k = (int)x->rows;
  const int one = 1;
  const double plus = 1.0;
  const double minus = -1.0;
  pdgemm_("N", "N", &m, &n, &k, &plus, z->local, &one, &one, z->descriptor, x->local, &one, &one, x->descriptor, &minus,
          y->local, &one, &one, y->descriptor);
  double errors = 0.0;
  MHAS_TRY(mhas_cyclic_norm(y, &errors, error));
  const double scale = norms[0] * norms[1] + norms[2];
  if (backward != NULL) {
    *backward = scale > 0.0 ? errors / scale : errors;
  }
  return MHAS_OK;
}
