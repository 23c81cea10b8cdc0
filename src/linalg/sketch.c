/*
 * The sketch Y = G A of a block-cyclic matrix: a few random mixtures of its rows. Columns that are large in A and
 * differ from each other are so in Y too (Johnson and Lindenstrauss), so the pivots of a whole panel are found in a
 * matrix with hardly more rows than the panel has columns, and A itself is only touched by the block.
 *
 * Y lives on grid row 0, dealt out like the columns of A. The choice is a tournament: each grid column finds its best
 * candidates, as QR with column pivoting does, and the same among all candidates has the last word.
 */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "linalg/qr.h"
#include "linalg/scalapack.h"

/* More rows than the panel has columns make an unlucky mixture very unlikely (Duersch and Gu take 8 and the like). */
enum { SPARE_ROWS = 8 };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static bool has_sketch(const mhas_sketch *s) { return s->a->grid->row == 0; }

static mhas_code allocate(mhas_sketch *s, mhas_error *error) {
  const mhas_grid *grid = s->a->grid;
  const size_t rows = (size_t)s->rows;
  const size_t local = (size_t)s->a->local_columns;
  const size_t block = (size_t)grid->block;
  const size_t finals = block * (size_t)grid->columns;
  const size_t most = local > finals ? local : finals;
  MHAS_TRY(mhas_alloc(&s->mix, rows * block, sizeof(double), "the random numbers of a sketch", error));
  MHAS_TRY(mhas_alloc(&s->y, rows * local, sizeof(double), "the sketch of a matrix", error));
  MHAS_TRY(mhas_alloc(&s->choice, block + 1, sizeof(double), "pivots", error));
  if (!has_sketch(s)) {
    return MHAS_OK;
  }
  MHAS_TRY(mhas_alloc(&s->trial, rows * most, sizeof(double), "the sketch of a matrix", error));
  MHAS_TRY(mhas_alloc(&s->finals, (rows + 1) * finals + 1, sizeof(double), "the candidates of a sketch", error));
  MHAS_TRY(mhas_alloc(&s->factors, rows * block, sizeof(double), "the sketch of a panel", error));
  MHAS_TRY(mhas_alloc(&s->band, block * local, sizeof(double), "rows of R", error));
  MHAS_TRY(mhas_alloc(&s->chosen, block, sizeof *s->chosen, "pivots", error));
  return mhas_pivoter_create(s->rows, (int64_t)most, grid->block, &s->pivoter, error);
}

mhas_code mhas_sketch_create(const mhas_cyclic *a, double unit, mhas_random random, mhas_sketch *sketch,
                             mhas_error *error) {
  *sketch = (mhas_sketch){.a = a, .unit = unit, .random = random, .rows = a->grid->block + SPARE_ROWS};
  return mhas_grid_agree(a->grid, allocate(sketch, error), error);
}

void mhas_sketch_free(mhas_sketch *sketch) {
  mhas_free(sketch->mix);
  mhas_free(sketch->y);
  mhas_free(sketch->trial);
  mhas_free(sketch->finals);
  mhas_free(sketch->factors);
  mhas_free(sketch->band);
  mhas_free(sketch->choice);
  mhas_free(sketch->chosen);
  mhas_pivoter_free(&sketch->pivoter);
}

/* Column i of G belongs to row i of A, wherever that row lives. */
void mhas_sketch_make(mhas_sketch *s, int64_t from) {
  const mhas_cyclic *a = s->a;
  const int64_t first = mhas_cyclic_columns_before(a, from);
  const int64_t columns = a->local_columns - first;
  const int64_t block = a->grid->block;
  double *y = s->y + first * s->rows;
  memset(y, 0, (size_t)(columns * s->rows) * sizeof *y);
  for (int64_t r = mhas_cyclic_rows_before(a, from); r < a->local_rows; r += block) {
    const int64_t count = smaller(block, a->local_rows - r);
    const uint64_t row = s->used + (uint64_t)mhas_cyclic_row(a, r);
    mhas_random_normal(s->random, MHAS_STREAM_SKETCH, row * (uint64_t)s->rows, (size_t)(count * s->rows), s->mix);
    if (columns > 0) {
      cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, (int)s->rows, (int)columns, (int)count, 1.0, s->mix,
                  (int)s->rows, a->local + r + first * a->stride, (int)a->stride, 1.0, y, (int)s->rows);
    }
  }
  s->used += (uint64_t)a->rows;
  Cdgsum2d(a->grid->context, "Column", " ", (int)s->rows, (int)columns, y, (int)s->rows, 0, a->grid->column);
}

/* The square of the length of what this rank has of the sketch, in units of a number that is the same everywhere. */
static double length_square(const mhas_sketch *s, int64_t first) {
  double sum = 0.0;
  for (int64_t i = first * s->rows; i < s->a->local_columns * s->rows; i++) {
    const double part = s->y[i] / s->unit;
    sum += part * part;
  }
  return sum;
}

/* Each grid column's best: as they are in the sketch, and their numbers in A, counted from 1, in a row below. */
static void enter_candidates(mhas_sketch *s, int64_t from, int count) {
  const mhas_cyclic *a = s->a;
  const int64_t first = mhas_cyclic_columns_before(a, from);
  const int64_t columns = a->local_columns - first;
  const int64_t best = smaller(count, columns);
  const int64_t tall = s->rows + 1;
  double *mine = s->finals + tall * count * a->grid->column;
  memset(s->finals, 0, (size_t)(tall * count * a->grid->columns) * sizeof *s->finals);
  if (columns > 0) {
    memcpy(s->trial, s->y + first * s->rows, (size_t)(columns * s->rows) * sizeof *s->trial);
    mhas_pivots_choose(&s->pivoter, columns, best, s->trial, s->chosen);
  }
  for (int64_t k = 0; k < best; k++) {
    const int64_t local = first + s->chosen[k];
    memcpy(mine + k * tall, s->y + local * s->rows, (size_t)s->rows * sizeof *mine);
    mine[k * tall + s->rows] = (double)(mhas_cyclic_column(a, local) + 1);
  }
}

/* On one rank: the numbers of the best candidates, counted from 1. Places that no grid column filled are left out. */
static void decide(mhas_sketch *s, int count, double *choice) {
  const int64_t tall = s->rows + 1;
  int64_t present = 0;
  for (int64_t k = 0; k < (int64_t)count * s->a->grid->columns; k++) {
    double *candidate = s->finals + k * tall;
    if (candidate[s->rows] > 0.0) {
      memcpy(s->trial + present * s->rows, candidate, (size_t)s->rows * sizeof *candidate);
      s->finals[present * tall + s->rows] = candidate[s->rows];
      present++;
    }
  }
  mhas_pivots_choose(&s->pivoter, present, count, s->trial, s->chosen);
  for (int k = 0; k < count; k++) {
    choice[k] = s->finals[s->chosen[k] * tall + s->rows];
  }
}

/* E ||G A||^2 = rows ||A||^2. */
mhas_code mhas_sketch_choose(mhas_sketch *s, int64_t from, int count, int64_t *pivots, double *norm,
                             mhas_error *error) {
  const mhas_grid *grid = s->a->grid;
  const int numbers = ((int)s->rows + 1) * count * grid->columns;
  if (has_sketch(s)) {
    enter_candidates(s, from, count);
    s->finals[numbers] = length_square(s, mhas_cyclic_columns_before(s->a, from));
    Cdgsum2d(grid->context, "Row", " ", numbers + 1, 1, s->finals, numbers + 1, 0, 0);
    if (grid->column == 0) {
      s->choice[count] = s->unit * sqrt(s->finals[numbers] / (double)s->rows);
      decide(s, count, s->choice);
    }
  }
  if (MPI_Bcast(s->choice, count + 1, MPI_DOUBLE, 0, grid->comm) != MPI_SUCCESS) {
    return mhas_fail(error, MHAS_MPI, "the ranks of a team cannot talk to each other");
  }
  for (int k = 0; k < count; k++) {
    pivots[k] = (int64_t)s->choice[k] - 1;
  }
  *norm = s->choice[count];
  return MHAS_OK;
}

/*
 * With A P = Q (R11 R12; 0 A22) and G Q = (G1 G2), the sketch is Y1 = G1 R11, Y2 = G1 R12 + G2 A22. So Y2 - Y1 R11^-1
 * R12 is a sketch of A22, and no new one has to be made.
 */
void mhas_sketch_reduce(mhas_sketch *s, int64_t from, int count, const double *r) {
  const mhas_cyclic *a = s->a;
  const mhas_grid *grid = a->grid;
  const int owner_row = (int)(from / grid->block % grid->rows);
  const int owner_column = (int)(from / grid->block % grid->columns);
  const int64_t first = mhas_cyclic_columns_before(a, from + count);
  const int columns = (int)(a->local_columns - first);
  const int rows = (int)s->rows;
  if (grid->row == owner_row && columns > 0) {
    const double *band = a->local + mhas_cyclic_rows_before(a, from) + first * a->stride;
    if (has_sketch(s)) {
      for (int64_t c = 0; c < columns; c++) {
        memcpy(s->band + c * count, band + c * a->stride, (size_t)count * sizeof *band);
      }
    } else {
      Cdgesd2d(grid->context, count, columns, band, (int)a->stride, 0, grid->column);
    }
  }
  if (!has_sketch(s)) {
    return;
  }
  if (grid->row != owner_row && columns > 0) {
    Cdgerv2d(grid->context, count, columns, s->band, count, owner_row, grid->column);
  }
  if (grid->column == owner_column) {
    memcpy(s->factors, s->y + mhas_cyclic_columns_before(a, from) * s->rows,
           (size_t)(s->rows * count) * sizeof *s->factors);
    Cdgebs2d(grid->context, "Row", " ", rows, count, s->factors, rows);
  } else {
    Cdgebr2d(grid->context, "Row", " ", rows, count, s->factors, rows, 0, owner_column);
  }
  cblas_dtrsm(CblasColMajor, CblasRight, CblasUpper, CblasNoTrans, CblasNonUnit, rows, count, 1.0, r, count, s->factors,
              rows);
  if (columns > 0) {
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, rows, columns, count, -1.0, s->factors, rows, s->band, count,
                1.0, s->y + first * s->rows, rows);
  }
}
