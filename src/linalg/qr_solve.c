/*
 * Least squares of smallest norm, from a QR factorization with column pivoting, a P = Q R with R = (R11 R12) but for
 * what counts as zero. With c the first rows of Q^T y, all solutions are P (x1; x2), R11 x1 = c - R12 x2, of which
 *
 *   x2 = (1 + W^T W)^-1 W^T b,   W = R11^-1 R12,   b = R11^-1 c
 *
 * is the shortest. 1 + W^T W is well conditioned where pivots were chosen well; its error makes the solution a little
 * too long, in second order, but no less a solution, since x1 is computed from x2 and R.
 *
 * The textbook's way is (R11 R12) = (T 0) Z (DGELSY). ScaLAPACK has it, but up to version 2.2.2 its PDORMRZ, which
 * applies Z, leaves out or repeats a block of reflections (https://github.com/Reference-ScaLAPACK/scalapack/pull/162).
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "linalg/qr.h"
#include "linalg/scalapack.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* The first `rank` rows of y go into x. Rows of both are dealt out alike. */
static void take_rows(const mhas_cyclic *y, int64_t rank, mhas_cyclic *x) {
  const int64_t count = mhas_cyclic_rows_before(x, rank);
  for (int64_t c = 0; c < x->local_columns; c++) {
    memcpy(x->local + c * x->stride, y->local + c * y->stride, (size_t)count * sizeof *x->local);
  }
}

/* Row i goes to row columns[i]: a few columns at a time, whole, on every rank of a grid column. */
static mhas_code put_rows_back(const int64_t *columns, mhas_cyclic *x, mhas_error *error) {
  const int64_t width = x->grid->block;
  const int n = (int)x->rows;
  double *whole = NULL;
  mhas_code code = mhas_alloc(&whole, (size_t)(x->rows * width), sizeof *whole, "columns of the solution", error);
  code = mhas_grid_agree(x->grid, code, error);
  for (int64_t c = 0; code == MHAS_OK && c < x->local_columns; c += width) {
    const int64_t count = smaller(width, x->local_columns - c);
    memset(whole, 0, (size_t)(x->rows * count) * sizeof *whole);
    for (int64_t j = 0; j < count; j++) {
      for (int64_t r = 0; r < x->local_rows; r++) {
        whole[columns[mhas_cyclic_row(x, r)] + j * x->rows] = x->local[r + (c + j) * x->stride];
      }
    }
    Cdgsum2d(x->grid->context, "Column", " ", n, (int)count, whole, n, -1, -1);
    for (int64_t j = 0; j < count; j++) {
      for (int64_t r = 0; r < x->local_rows; r++) {
        x->local[r + (c + j) * x->stride] = whole[mhas_cyclic_row(x, r) + j * x->rows];
      }
    }
  }
  mhas_free(whole);
  return code;
}

typedef struct solution {
  const mhas_qr *qr;
  mhas_cyclic *y, *x;
  int rank, beyond, outputs; /* beyond: columns of R12 */
  int second;                /* where R12 and x2 start, counted from 1 */
} solution;

static const int one = 1;
static const double plus = 1.0;
static const double minus = -1.0;
static const double zero = 0.0;

/* The first rows of Q^T y, in y. */
static mhas_code apply_q(const solution *s, mhas_error *error) {
  const int64_t block = s->qr->grid->block;
  double *work = NULL;
  int length = 0;
  mhas_code code = mhas_scalapack_work(mhas_qr_block_work(s->qr, s->y), 0.0, &length, &work, error);
  code = mhas_grid_agree(s->qr->grid, code, error);
  for (int64_t from = 0; code == MHAS_OK && from < s->rank; from += block) {
    mhas_qr_apply_block(s->qr, from, (int)smaller(block, s->rank - from), s->y, 0, work);
  }
  mhas_free(work);
  return code;
}

/* x1 = R11^-1 x1 */
static void divide(const solution *s, mhas_cyclic *x, int columns) {
  const mhas_cyclic *a = s->qr->a;
  pdtrsm_("L", "U", "N", "N", &s->rank, &columns, &plus, a->local, &one, &one, a->descriptor, x->local, &one, &one,
          x->descriptor);
}

/* x2 = W^T x1 */
static void by_w_turned(const solution *s, const mhas_cyclic *w) {
  pdgemm_("T", "N", &s->beyond, &s->outputs, &s->rank, &plus, w->local, &one, &one, w->descriptor, s->x->local, &one,
          &one, s->x->descriptor, &zero, s->x->local, &s->second, &one, s->x->descriptor);
}

/* Rows `row` and beyond of x, divided by what g is the Cholesky factor of. */
static void by_cholesky(const solution *s, const mhas_cyclic *g, const int *row) {
  const int n = (int)g->rows;
  static const char *const turns[] = {"N", "T"};
  for (int i = 0; i < 2; i++) {
    pdtrsm_("L", "L", turns[i], "N", &n, &s->outputs, &plus, g->local, &one, &one, g->descriptor, s->x->local, row,
            &one, s->x->descriptor);
  }
}

/* With W and b = x1: x2, by way of the smaller of (1 + W^T W)^-1 W^T = W^T (1 + W W^T)^-1. */
static mhas_code shorten(const solution *s, const mhas_cyclic *w, mhas_cyclic *g, mhas_error *error) {
  const bool narrow = s->beyond <= s->rank;
  const int n = (int)g->rows;
  const int k = narrow ? s->rank : s->beyond;
  int info = 0;
  pdsyrk_("L", narrow ? "T" : "N", &n, &k, &plus, w->local, &one, &one, w->descriptor, &plus, g->local, &one, &one,
          g->descriptor);
  pdpotrf_("L", &n, g->local, &one, &one, g->descriptor, &info);
  mhas_code code =
      info > 0 ? mhas_fail(error, MHAS_NUMERIC,
                           "columns beyond the rank %d are too long for Cholesky (PDPOTRF, info %d)", s->rank, info)
               : mhas_scalapack_info("PDPOTRF", info, error);
  MHAS_TRY(mhas_grid_agree(s->qr->grid, code, error));
  if (narrow) {
    by_w_turned(s, w);
    by_cholesky(s, g, &s->second);
  } else {
    by_cholesky(s, g, &one);
    by_w_turned(s, w);
  }
  return MHAS_OK;
}

/* x1 is c: finds x2, and takes what it makes out of x1. */
static mhas_code find_second(const solution *s, mhas_error *error) {
  const mhas_cyclic *a = s->qr->a;
  const int64_t small = smaller(s->rank, s->beyond);
  mhas_cyclic w = {0};
  mhas_cyclic g = {0};
  mhas_code code = mhas_cyclic_create(s->qr->grid, s->rank, s->beyond, "R11^-1 R12", &w, error);
  if (code == MHAS_OK) {
    code = mhas_cyclic_create(s->qr->grid, small, small, "1 + W^T W", &g, error);
  }
  if (code == MHAS_OK) {
    code = mhas_cyclic_fill(&g, mhas_fill_identity, NULL, error);
  }
  if (code == MHAS_OK) {
    pdgeadd_("N", &s->rank, &s->beyond, &plus, a->local, &one, &s->second, a->descriptor, &zero, w.local, &one, &one,
             w.descriptor);
    divide(s, &w, s->beyond);
    divide(s, s->x, s->outputs);
    code = shorten(s, &w, &g, error);
  }
  if (code == MHAS_OK) {
    take_rows(s->y, s->rank, s->x);
    pdgemm_("N", "N", &s->rank, &s->outputs, &s->beyond, &minus, a->local, &one, &s->second, a->descriptor, s->x->local,
            &s->second, &one, s->x->descriptor, &plus, s->x->local, &one, &one, s->x->descriptor);
  }
  mhas_cyclic_free(&g);
  mhas_cyclic_free(&w);
  return code;
}

mhas_code mhas_qr_solve(mhas_qr *qr, int64_t rank, mhas_cyclic *y, mhas_cyclic *x, mhas_error *error) {
  if (rank < 0 || rank > qr->steps || y->rows != qr->a->rows || x->rows != qr->a->columns || x->columns != y->columns) {
    return mhas_fail(error, MHAS_INTERNAL,
                     "a matrix of %" PRId64 " x %" PRId64 ", factored for %" PRId64 " steps, cannot solve rank %" PRId64
                     ", %" PRId64 " x %" PRId64 " = %" PRId64 " x %" PRId64,
                     qr->a->rows, qr->a->columns, qr->steps, rank, x->rows, x->columns, y->rows, y->columns);
  }
  double norm = 0.0; /* asked for its check of the entries */
  MHAS_TRY(mhas_cyclic_norm(y, &norm, error));
  memset(x->local, 0, (size_t)(x->stride * x->local_columns) * sizeof *x->local);
  if (rank == 0) {
    return MHAS_OK;
  }
  const int64_t beyond = qr->a->columns - rank;
  const solution s = {qr, y, x, (int)rank, (int)beyond, (int)y->columns, (int)rank + 1};
  MHAS_TRY(apply_q(&s, error));
  take_rows(y, rank, x);
  if (beyond > 0) {
    MHAS_TRY(find_second(&s, error));
  }
  divide(&s, x, s.outputs);
  return put_rows_back(qr->columns, x, error);
}

/*
 * A QR factorization (Golub and Van Loan, 4th ed., 5.2.1), half as much again for sketches and for W, and the
 * right-hand sides.
 */
double mhas_qr_flops(int64_t rows, int64_t columns, int64_t outputs, int ranks) {
  const double m = (double)rows;
  const double n = (double)columns;
  const double k = fmin(m, n);
  const double factorization = 4.0 * m * n * k - 2.0 * (m + n) * k * k + 4.0 / 3.0 * k * k * k;
  return (1.5 * factorization + 8.0 * m * n * (double)outputs) / ranks;
}

/* The matrix; a copy of R, or W and what goes with it; the right-hand sides and solutions, the sketch, the exchange,
 * and panels. */
double mhas_qr_bytes(int64_t rows, int64_t columns, int64_t outputs, int ranks) {
  int p = 1;
  int q = 1;
  mhas_grid_shape(ranks, &p, &q);
  const double block = MHAS_GRID_BLOCK;
  const double r = (double)mhas_dealt(rows, MHAS_GRID_BLOCK, 0, p);
  const double c = (double)mhas_dealt(columns, MHAS_GRID_BLOCK, 0, q);
  const double x = (double)mhas_dealt(columns, MHAS_GRID_BLOCK, 0, p);
  const double k = (double)mhas_dealt(outputs, MHAS_GRID_BLOCK, 0, q);
  const double panels = block * (10.0 * r + 8.0 * c + 8.0 * block) + block * (double)columns;
  return sizeof(double) * (2.0 * r * c + (r + x) * k + panels);
}
