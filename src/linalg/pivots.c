/*
 * Column pivots of a small dense matrix, and nothing else of its QR factorization: so the matrix is only read, once a
 * pivot, where DGEQP3 would rewrite it.
 */
#include "linalg/pivots.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

mhas_code mhas_pivoter_create(int64_t rows, int64_t columns, int64_t count, mhas_pivoter *pivoter, mhas_error *error) {
  *pivoter = (mhas_pivoter){.rows = rows};
  MHAS_TRY(mhas_alloc(&pivoter->q, (size_t)(rows * count), sizeof(double), "pivots", error));
  MHAS_TRY(mhas_alloc(&pivoter->share, (size_t)(count * columns), sizeof(double), "pivots", error));
  return mhas_alloc(&pivoter->remaining, (size_t)columns, sizeof(double), "pivots", error);
}

void mhas_pivoter_free(mhas_pivoter *pivoter) {
  mhas_free(pivoter->q);
  mhas_free(pivoter->share);
  mhas_free(pivoter->remaining);
}

/* So that squares neither overflow nor vanish. */
static void scale(int64_t count, double *y) {
  double largest = 0.0;
  for (int64_t i = 0; i < count; i++) {
    largest = fmax(largest, fabs(y[i]));
  }
  for (int64_t i = 0; largest > 0.0 && i < count; i++) {
    y[i] /= largest;
  }
}

static double square(int64_t rows, const double *column) {
  double sum = 0.0;
  for (int64_t i = 0; i < rows; i++) {
    sum += column[i] * column[i];
  }
  return sum;
}

static void measure(const mhas_pivoter *p, int64_t columns, const double *y) {
  for (int64_t j = 0; j < columns; j++) {
    p->remaining[j] = p->remaining[j] < 0.0 ? -1.0 : square(p->rows, y + j * p->rows);
  }
}

static int64_t longest(const mhas_pivoter *p, int64_t columns) {
  int64_t best = 0;
  for (int64_t j = 1; j < columns; j++) {
    best = p->remaining[j] > p->remaining[best] ? j : best;
  }
  return best;
}

/* y -= q (q^T y) for the last `width` columns of the span, which ends before `end`. */
static void take_out(const mhas_pivoter *p, int64_t end, int64_t width, int64_t columns, double *y) {
  const int rows = (int)p->rows;
  const double *q = p->q + (end - width) * p->rows;
  if (width == 0) {
    return;
  }
  cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, (int)width, (int)columns, rows, 1.0, q, rows, y, rows, 0.0,
              p->share, (int)width);
  cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, rows, (int)columns, (int)width, -1.0, q, rows, p->share,
              (int)width, 1.0, y, rows);
}

/* Direction k of the span: what column `pivot` adds to the last `width` ones. Zero if that is nothing. */
static void add_direction(const mhas_pivoter *p, int64_t k, int64_t width, const double *pivot) {
  double *q = p->q + k * p->rows;
  memcpy(q, pivot, (size_t)p->rows * sizeof *q);
  for (int twice = 0; twice < 2; twice++) { /* once loses orthogonality (Parlett, Kahan) */
    take_out(p, k, width, 1, q);
  }
  const double length = sqrt(square(p->rows, q));
  for (int64_t i = 0; i < p->rows; i++) {
    q[i] = length > 0.0 ? q[i] / length : 0.0;
  }
}

void mhas_pivots_choose(mhas_pivoter *p, int64_t columns, int64_t count, double *y, int64_t *chosen) {
  const double trust = 1e-8; /* differences of squares below this share of the first ones are mere rounding */
  int64_t width = 0;         /* directions that y still has in it */
  scale(p->rows * columns, y);
  memset(p->remaining, 0, (size_t)columns * sizeof *p->remaining);
  measure(p, columns, y);
  double reference = p->remaining[longest(p, columns)];
  for (int64_t k = 0; k < count; k++) {
    int64_t best = longest(p, columns);
    if (p->remaining[best] <= trust * reference && width > 0) {
      take_out(p, k, width, columns, y);
      measure(p, columns, y);
      best = longest(p, columns);
      reference = p->remaining[best];
      width = 0;
    }
    add_direction(p, k, width, y + best * p->rows);
    width++;
    chosen[k] = best;
    p->remaining[best] = -1.0;
    cblas_dgemv(CblasColMajor, CblasTrans, (int)p->rows, (int)columns, 1.0, y, (int)p->rows, p->q + k * p->rows, 1, 0.0,
                p->share, 1);
    for (int64_t j = 0; j < columns; j++) {
      const double left = p->remaining[j] - p->share[j] * p->share[j];
      p->remaining[j] = p->remaining[j] < 0.0 ? -1.0 : fmax(left, 0.0);
    }
  }
}
