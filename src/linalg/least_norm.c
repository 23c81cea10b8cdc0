/*
 * The point of least norm in a polytope that is known by the Gram matrix K of its corners.
 *
 * Wolfe's method: a corral is a set of corners, affinely independent, such that the point of least norm in their affine
 * hull lies inside their simplex. The corner that is furthest towards the origin joins it, and those whose weights
 * would be negative leave, until no corner is nearer to the origin than the point is. Finite, and exact to rounding
 * where Frank-Wolfe steps converge slowly.
 *
 * The weights w of the affine hull's point solve (K_S + c 1 1^T) w = 1, scaled to a sum of one; that matrix is positive
 * definite for corners that are affinely independent. Its Cholesky factor grows by a column and shrinks by plane
 * rotations.
 *
 * Source: P. Wolfe, "Finding the nearest point in a polytope", Mathematical Programming 11 (1976).
 */
#include <cblas.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "linalg/dense.h"
#include "mhasweep/eigen.h"

typedef struct polytope {
  int n;
  const double *K;
  double scale;    /* c: the largest square of a corner's norm */
  double *q, *Kq;  /* weights of the point, (n) */
  int corners;     /* in the corral */
  int64_t *corner; /* their numbers */
  double *factor;  /* R (column-major, leading dimension n): R^T R = K_S + c 1 1^T */
  double *weight;  /* scratch, (n) */
  double square;   /* q^T K q */
} polytope;

static double entry(const polytope *p, int64_t i, int64_t j) { return p->K[i * p->n + j]; }

/* What rounding of K's entries does to a product with it. */
static double rounding(const polytope *p) { return p->n * DBL_EPSILON * p->scale; }

/* Brings Kq and the square up to date; only the corral has weights. */
static void look(polytope *p) {
  memset(p->Kq, 0, (size_t)p->n * sizeof *p->Kq);
  p->square = 0.0;
  for (int k = 0; k < p->corners; k++) {
    cblas_daxpy(p->n, p->q[p->corner[k]], p->K + p->corner[k] * p->n, 1, p->Kq, 1);
  }
  for (int k = 0; k < p->corners; k++) {
    p->square += p->q[p->corner[k]] * p->Kq[p->corner[k]];
  }
  p->square = fmax(p->square, 0.0);
}

/* Corner j joins the corral, with the weight that it has; false if it is in their affine hull, to rounding. */
static bool join(polytope *p, int64_t j) {
  const int k = p->corners;
  double *column = p->factor + (int64_t)k * p->n;
  for (int i = 0; i < k; i++) {
    column[i] = entry(p, p->corner[i], j) + p->scale;
  }
  cblas_dtrsv(CblasColMajor, CblasUpper, CblasTrans, CblasNonUnit, k, p->factor, p->n, column, 1);
  const double left = entry(p, j, j) + p->scale - cblas_ddot(k, column, 1, column, 1);
  if (!(left > rounding(p))) {
    return false;
  }
  column[k] = sqrt(left);
  p->corner[k] = j;
  p->corners++;
  return true;
}

/* Corner number i of the corral leaves it. */
static void leave(polytope *p, int i) {
  p->q[p->corner[i]] = 0.0;
  p->corners--;
  memmove(p->corner + i, p->corner + i + 1, (size_t)(p->corners - i) * sizeof *p->corner);
  for (int k = i; k < p->corners; k++) {
    double *column = p->factor + (int64_t)k * p->n;
    memcpy(column, column + p->n, (size_t)(k + 2) * sizeof *column);
  }
  for (int k = i; k < p->corners; k++) {
    double *diagonal = p->factor + (int64_t)k * p->n + k;
    double c = 0.0;
    double s = 0.0;
    cblas_drotg(&diagonal[0], &diagonal[1], &c, &s);
    if (k + 1 < p->corners) {
      cblas_drot(p->corners - k - 1, diagonal + p->n, p->n, diagonal + p->n + 1, p->n, c, s);
    }
  }
}

/* The weights of the point of least norm in the corral's affine hull. */
static void solve_affine(polytope *p) {
  double sum = 0.0;
  for (int k = 0; k < p->corners; k++) {
    p->weight[k] = 1.0;
  }
  cblas_dtrsv(CblasColMajor, CblasUpper, CblasTrans, CblasNonUnit, p->corners, p->factor, p->n, p->weight, 1);
  cblas_dtrsv(CblasColMajor, CblasUpper, CblasNoTrans, CblasNonUnit, p->corners, p->factor, p->n, p->weight, 1);
  for (int k = 0; k < p->corners; k++) {
    sum += p->weight[k];
  }
  cblas_dscal(p->corners, 1.0 / sum, p->weight, 1);
}

/* From the point towards the affine hull's as far as weights stay positive; those that end at zero leave. True if it
 * got there. */
static bool approach(polytope *p) {
  double step = 1.0;
  int first = -1;
  for (int k = 0; k < p->corners; k++) {
    const double before = p->q[p->corner[k]];
    if (p->weight[k] <= 0.0 && before / (before - p->weight[k]) < step) {
      step = before / (before - p->weight[k]);
      first = k;
    }
  }
  for (int k = 0; k < p->corners; k++) {
    double *q = &p->q[p->corner[k]];
    *q = k == first ? 0.0 : *q + step * (p->weight[k] - *q);
  }
  for (int k = p->corners - 1; first >= 0 && k >= 0; k--) {
    if (!(p->q[p->corner[k]] > 0.0)) {
      leave(p, k);
    }
  }
  return first < 0;
}

/* The corner that is furthest towards the origin, as seen from the point. */
static int64_t nearest(const polytope *p) {
  int64_t best = 0;
  for (int64_t i = 1; i < p->n; i++) {
    if (p->Kq[i] < p->Kq[best]) {
      best = i;
    }
  }
  return best;
}

/* Until the certificate holds, or rounding allows no further step. */
static int64_t descend(polytope *p, double tolerance) {
  int64_t steps = 0;
  int64_t start = 0;
  for (int64_t i = 1; i < p->n; i++) {
    start = entry(p, i, i) < entry(p, start, start) ? i : start;
  }
  p->q[start] = 1.0;
  (void)join(p, start);
  look(p);
  for (double before = INFINITY; p->square < before && p->square > rounding(p); steps++) {
    const int64_t next = nearest(p);
    if (p->square - p->Kq[next] <= tolerance * p->square || p->q[next] > 0.0 || !join(p, next)) {
      break;
    }
    before = p->square;
    do {
      solve_affine(p);
    } while (!approach(p));
    look(p);
  }
  return steps;
}

static mhas_code find(polytope *p, double tolerance, mhas_margin *margin, mhas_error *error) {
  margin->steps = p->scale > 0.0 ? descend(p, tolerance) : 0;
  if (p->scale == 0.0) {
    p->q[0] = 1.0; /* all corners are the origin, and Kq is zero */
  }
  margin->upper = sqrt(p->square);
  margin->lower = margin->upper > 0.0 ? fmin(fmax(0.0, p->Kq[nearest(p)] / margin->upper), margin->upper) : 0.0;
  const double gap = margin->upper - margin->lower;
  if (!(gap <= tolerance * margin->upper || gap <= sqrt(rounding(p)))) {
    return mhas_fail(error, MHAS_NUMERIC,
                     "the margin is between %.6g and %.6g and comes no nearer: the Gram matrix of %d samples is not "
                     "positive semi-definite, or lost too much to rounding",
                     margin->lower, margin->upper, p->n);
  }
  return MHAS_OK;
}

static mhas_code check(int64_t n, const double *K, polytope *p, mhas_error *error) {
  if (n < 1) {
    return mhas_fail(error, MHAS_INTERNAL, "the margin of no samples was asked for");
  }
  MHAS_TRY(mhas_narrow(n, "the number of samples", &p->n, error));
  MHAS_TRY(mhas_check_finite("the Gram matrix", n, n, K, error));
  p->K = K;
  for (int64_t i = 0; i < n; i++) {
    if (entry(p, i, i) < 0.0) {
      return mhas_fail(error, MHAS_NUMERIC, "the Gram matrix has a negative square in row %" PRId64 ": %g", i,
                       entry(p, i, i));
    }
    p->scale = fmax(p->scale, entry(p, i, i));
  }
  return MHAS_OK;
}

mhas_code mhas_least_norm(int64_t n, const double *K, double tolerance, double *q, mhas_margin *margin,
                          mhas_error *error) {
  polytope p = {0};
  MHAS_TRY(check(n, K, &p, error));
  double *vectors = NULL;
  mhas_code code = mhas_alloc(&vectors, (size_t)(3 * n), sizeof *vectors, "the weights of samples", error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&p.corner, (size_t)n, sizeof *p.corner, "a list of samples", error);
  }
  if (code == MHAS_OK) {
    code = mhas_alloc(&p.factor, (size_t)(n * n), sizeof *p.factor, "the factor of the Gram matrix", error);
  }
  if (code == MHAS_OK) {
    p.q = vectors;
    p.Kq = vectors + n;
    p.weight = vectors + 2 * n;
    code = find(&p, tolerance, margin, error);
  }
  if (code == MHAS_OK && q != NULL) {
    memcpy(q, p.q, (size_t)n * sizeof *q);
  }
  mhas_free(vectors);
  mhas_free(p.corner);
  mhas_free(p.factor);
  return code;
}
