/* Estimates of the largest and of the smallest singular value of block-cyclic matrices, by a few products or solves. */
#include <cblas.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "linalg/qr.h"
#include "linalg/scalapack.h"

/* ---- the largest: Golub and Kahan 1965 ------------------------------------------- */

enum { STEPS_MOST = 32 };

/* Vectors u (rows) and v (columns), of which each rank has the part of its rows and columns. */
typedef struct bidiagonal {
  const mhas_cyclic *a;
  double scale; /* 1 / ||a||: so that no square overflows */
  double *u, *v;
  double *next; /* scratch, as long as either */
  double diagonal[STEPS_MOST], above[STEPS_MOST];
} bidiagonal;

static double length_over(const mhas_grid *grid, const char *scope, int64_t count, const double *x) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; i++) {
    sum += x[i] * x[i];
  }
  Cdgsum2d(grid->context, scope, " ", 1, 1, &sum, 1, -1, -1);
  return sqrt(sum);
}

/* x = (x_new - factor x) / its length; returns the length. A length of zero leaves zeros. */
static double renew(const mhas_grid *grid, const char *scope, int64_t count, const double *x_new, double factor,
                    double *x) {
  for (int64_t i = 0; i < count; i++) {
    x[i] = x_new[i] - factor * x[i];
  }
  const double length = length_over(grid, scope, count, x);
  for (int64_t i = 0; length > 0.0 && i < count; i++) {
    x[i] /= length;
  }
  return length;
}

static void multiply(const bidiagonal *b, CBLAS_TRANSPOSE turn, const double *x, double *out) {
  const mhas_cyclic *a = b->a;
  const int64_t count = turn == CblasNoTrans ? a->local_rows : a->local_columns;
  memset(out, 0, (size_t)count * sizeof *out);
  if (a->local_rows > 0 && a->local_columns > 0) {
    cblas_dgemv(CblasColMajor, turn, (int)a->local_rows, (int)a->local_columns, b->scale, a->local, (int)a->stride, x,
                1, 0.0, out, 1);
  }
  Cdgsum2d(a->grid->context, turn == CblasNoTrans ? "Row" : "Column", " ", (int)count, 1, out,
           count > 0 ? (int)count : 1, -1, -1);
}

/*
 * The largest singular value of the bidiagonal matrix so far: the root of the largest eigenvalue of B^T B, tridiagonal,
 * by bisection with the signs of the pivots of B^T B - x (Sylvester). No rank needs another for that.
 */
static double largest_of(const bidiagonal *b, int steps) {
  double low = 0.0;
  double high = 0.0;
  for (int i = 0; i < steps; i++) {
    const double row = b->diagonal[i] + (i + 1 < steps ? b->above[i] : 0.0); /* row and column sums bound it */
    const double column = b->diagonal[i] + (i > 0 ? b->above[i - 1] : 0.0);
    high = fmax(high, fmax(row, column));
    low = fmax(low, b->diagonal[i]);
  }
  while (high - low > 1e-6 * high) {
    const double middle = 0.5 * (low + high);
    const double shift = middle * middle;
    double pivot = 1.0;
    bool all_negative = true;
    for (int i = 0; i < steps && all_negative; i++) {
      const double above = i > 0 ? b->above[i - 1] : 0.0;
      const double beside = i > 0 ? b->diagonal[i - 1] * above : 0.0;
      pivot = b->diagonal[i] * b->diagonal[i] + above * above - shift - beside * beside / pivot;
      all_negative = pivot < 0.0;
    }
    *(all_negative ? &high : &low) = middle;
  }
  return low;
}

static double iterate(bidiagonal *b) {
  const mhas_cyclic *a = b->a;
  double before = 0.0;
  (void)renew(a->grid, "Row", a->local_columns, b->v, 0.0, b->v);
  multiply(b, CblasNoTrans, b->v, b->next);
  b->diagonal[0] = renew(a->grid, "Column", a->local_rows, b->next, 0.0, b->u);
  for (int steps = 1;; steps++) {
    const double largest = largest_of(b, steps);
    const bool settled = steps > 2 && largest - before <= 1e-4 * largest;
    if (settled || steps == STEPS_MOST || steps >= a->rows || steps >= a->columns) {
      return largest;
    }
    before = largest;
    multiply(b, CblasTrans, b->u, b->next);
    b->above[steps - 1] = renew(a->grid, "Row", a->local_columns, b->next, b->diagonal[steps - 1], b->v);
    multiply(b, CblasNoTrans, b->v, b->next);
    b->diagonal[steps] = renew(a->grid, "Column", a->local_rows, b->next, b->above[steps - 1], b->u);
  }
}

mhas_code mhas_cyclic_largest(const mhas_cyclic *a, double norm, mhas_random random, double *largest,
                              mhas_error *error) {
  *largest = 0.0;
  if (!(norm > 0.0)) {
    return MHAS_OK;
  }
  bidiagonal b = {.a = a, .scale = 1.0 / norm};
  const int64_t longer = a->local_rows > a->local_columns ? a->local_rows : a->local_columns;
  mhas_code code = mhas_alloc(&b.u, (size_t)a->local_rows, sizeof *b.u, "a vector", error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&b.v, (size_t)a->local_columns, sizeof *b.v, "a vector", error);
  }
  if (code == MHAS_OK) {
    code = mhas_alloc(&b.next, (size_t)longer, sizeof *b.next, "a vector", error);
  }
  code = mhas_grid_agree(a->grid, code, error);
  if (code == MHAS_OK) {
    for (int64_t c = 0; c < a->local_columns; c++) {
      mhas_random_normal(random, MHAS_STREAM_START, (uint64_t)mhas_cyclic_column(a, c), 1, &b.v[c]);
    }
    *largest = norm * iterate(&b);
  }
  mhas_free(b.u);
  mhas_free(b.v);
  mhas_free(b.next);
  return code;
}

/* ---- the smallest of a triangle: inverse iteration ---------------------------------- */

enum { STARTS = 8, ROUNDS = 3 };

static mhas_code fill_start(void *context, int64_t row, int64_t rows, int64_t column, int64_t columns, double *block,
                            int64_t stride, mhas_error *error) {
  (void)error;
  const mhas_random *random = context;
  for (int64_t j = 0; j < columns; j++) {
    const uint64_t first = (uint64_t)((column + j) << 32) + (uint64_t)row;
    mhas_random_normal(*random, MHAS_STREAM_START, first, (size_t)rows, block + j * stride);
  }
  return MHAS_OK;
}

/* The length of each column of x, on all ranks. */
static void lengths(const mhas_cyclic *x, double *length) {
  memset(length, 0, STARTS * sizeof *length);
  for (int64_t c = 0; c < x->local_columns; c++) {
    double sum = 0.0;
    for (int64_t r = 0; r < x->local_rows; r++) {
      const double entry = x->local[r + c * x->stride];
      sum += entry * entry;
    }
    length[mhas_cyclic_column(x, c)] = sum;
  }
  Cdgsum2d(x->grid->context, "All", " ", STARTS, 1, length, STARTS, -1, -1);
  for (int i = 0; i < STARTS; i++) {
    length[i] = sqrt(length[i]);
  }
}

static void solve(const mhas_cyclic *r, int64_t size, double unit, const char *turn, mhas_cyclic *x) {
  const int m = (int)size;
  const int n = STARTS;
  const int one = 1;
  pdtrsm_("L", "U", turn, "N", &m, &n, &unit, r->local, &one, &one, r->descriptor, x->local, &one, &one, x->descriptor);
}

/* With y = R^-T x0 and x = R^-1 y: ||R x|| / ||x|| = ||y|| / ||x||, never below the smallest singular value. */
mhas_code mhas_triangle_smallest(const mhas_cyclic *r, int64_t size, double unit, mhas_random random, double *smallest,
                                 mhas_error *error) {
  mhas_cyclic x;
  double after[STARTS];
  double between[STARTS];
  *smallest = INFINITY;
  mhas_code code = mhas_cyclic_create(r->grid, size, STARTS, "starts of inverse iteration", &x, error);
  if (code == MHAS_OK) {
    code = mhas_cyclic_fill(&x, fill_start, &random, error);
  }
  for (int round = 0; code == MHAS_OK && round < ROUNDS; round++) {
    solve(r, size, unit, "T", &x);
    lengths(&x, between);
    solve(r, size, unit, "N", &x);
    lengths(&x, after);
    for (int i = 0; i < STARTS; i++) {
      *smallest = fmin(*smallest, between[i] / after[i]);
    }
    for (int64_t c = 0; c < x.local_columns; c++) {
      cblas_dscal((int)x.local_rows, 1.0 / after[mhas_cyclic_column(&x, c)], x.local + c * x.stride, 1);
    }
  }
  if (code == MHAS_OK && MPI_Bcast(smallest, 1, MPI_DOUBLE, 0, r->grid->comm) != MPI_SUCCESS) {
    code = mhas_fail(error, MHAS_MPI, "the ranks of a team cannot talk to each other");
  }
  mhas_cyclic_free(&x);
  return code;
}
