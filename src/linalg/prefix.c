/* Independence of every prefix of a sequence of vectors, from one QR factorization. */
#include <cblas.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "linalg/lapack.h"
#include "mhasweep/kruskal.h"

enum { INVERSE_STEPS = 6, POWER_STEPS = 6 };
static const double doubt = 30.0; /* estimates this close above the tolerance are not trusted */

struct mhas_prefix {
  int most, dim, count;
  double *R;   /* (dim, most), column-major: R above the diagonal, DGEQRF's reflectors below */
  double *tau; /* (most) */
  double *work;
  int work_length;
  double *least, *largest; /* (most): singular vectors of R^T, estimated */
  double *top;             /* (most): sigma_1 of each prefix, estimated */
  double *z;               /* (most): of inverse iteration */
};

double mhas_tolerance_float32(int64_t dim) { return (double)dim * (double)FLT_EPSILON; }
double mhas_tolerance_float64(int64_t dim) { return (double)dim * DBL_EPSILON; }

/* ---- making ---- */

static mhas_code allocate(mhas_prefix *p, mhas_error *error) {
  const size_t most = (size_t)p->most;
  const char *what = "the scratch of a factorization";
  const int ask = -1;
  int info = 0;
  double asked = 0.0;
  MHAS_TRY(mhas_alloc(&p->R, most * (size_t)p->dim, sizeof(double), what, error));
  MHAS_TRY(mhas_alloc(&p->tau, most, sizeof(double), what, error));
  MHAS_TRY(mhas_alloc(&p->least, most, sizeof(double), what, error));
  MHAS_TRY(mhas_alloc(&p->largest, most, sizeof(double), what, error));
  MHAS_TRY(mhas_alloc(&p->top, most, sizeof(double), what, error));
  MHAS_TRY(mhas_alloc(&p->z, most, sizeof(double), what, error));
  dgeqrf_(&p->dim, &p->most, p->R, &p->dim, p->tau, &asked, &ask, &info);
  if (info != 0 || !(asked < INT_MAX)) {
    return mhas_fail(error, MHAS_INTERNAL, "DGEQRF gives no size of its workspace (info %d)", info);
  }
  p->work_length = asked < (double)p->most ? p->most : (int)asked;
  return mhas_alloc(&p->work, (size_t)p->work_length, sizeof(double), what, error);
}

mhas_code mhas_prefix_create(int64_t most, int64_t dim, mhas_prefix **prefix, mhas_error *error) {
  mhas_prefix *made = NULL;
  *prefix = NULL;
  if (most < 1 || most > dim) {
    return mhas_fail(error, MHAS_INTERNAL, "a factorization of %lld vectors of dim %lld", (long long)most,
                     (long long)dim);
  }
  MHAS_TRY(mhas_alloc(&made, 1, sizeof *made, "a factorization", error));
  mhas_code code = mhas_narrow(most, "the number of vectors", &made->most, error);
  if (code == MHAS_OK) {
    code = mhas_narrow(dim, "the dim of the vectors", &made->dim, error);
  }
  if (code == MHAS_OK) {
    code = allocate(made, error);
  }
  if (code != MHAS_OK) {
    mhas_prefix_destroy(made);
    return code;
  }
  *prefix = made;
  return MHAS_OK;
}

void mhas_prefix_destroy(mhas_prefix *prefix) {
  if (prefix == NULL) {
    return;
  }
  double *const arrays[] = {prefix->R,       prefix->tau, prefix->work, prefix->least,
                            prefix->largest, prefix->top, prefix->z};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    mhas_free(arrays[i]);
  }
  mhas_free(prefix);
}

/* ---- factorizing ---- */

mhas_code mhas_prefix_factor(mhas_prefix *p, const double *X, const int64_t *order, int64_t count, mhas_error *error) {
  int info = 0;
  if (count < 1 || count > p->most) {
    return mhas_fail(error, MHAS_INTERNAL, "%lld vectors for a factorization of %d", (long long)count, p->most);
  }
  for (int64_t i = 0; i < count; i++) {
    memcpy(p->R + i * p->dim, X + (order == NULL ? i : order[i]) * p->dim, (size_t)p->dim * sizeof *X);
  }
  p->count = (int)count;
  dgeqrf_(&p->dim, &p->count, p->R, &p->dim, p->tau, p->work, &p->work_length, &info);
  return info == 0 ? MHAS_OK : mhas_fail(error, MHAS_INTERNAL, "DGEQRF refused its argument %d", -info);
}

/* ---- judging ---- */

static double diagonal(const mhas_prefix *p, int64_t k) { return p->R[k * p->dim + k]; }

/* Takes row k of the lower triangle R^T, after rows 0 .. k - 1: new estimates from the old ones. */
static double grow(const mhas_prefix *p, int job, int k, double *vector, double estimate) {
  const double gamma = diagonal(p, k);
  double grown = fabs(gamma);
  double s = 0.0;
  double c = 1.0;
  if (k > 0) {
    dlaic1_(&job, &k, vector, &estimate, p->R + (int64_t)k * p->dim, &gamma, &grown, &s, &c);
    cblas_dscal(k, s, vector, 1);
  }
  vector[k] = c;
  return grown;
}

/* No singular vector is likely to be orthogonal to this. */
static void start_iteration(double *z, int64_t k) {
  for (int64_t i = 0; i < k; i++) {
    z[i] = i + 1 == k ? 1.0 : (i % 2 == 0 ? 0.1 : -0.1);
  }
}

/* sigma_k of the first k vectors, from above: a few steps of inverse iteration with R^T R. */
static double least_singular(mhas_prefix *p, int64_t k) {
  double *z = p->z;
  double inverse = 0.0;
  start_iteration(z, k);
  for (int step = 0; step < INVERSE_STEPS; step++) {
    cblas_dscal((int)k, 1.0 / cblas_dnrm2((int)k, z, 1), z, 1);
    cblas_dtrsv(CblasColMajor, CblasUpper, CblasTrans, CblasNonUnit, (int)k, p->R, p->dim, z, 1);
    cblas_dtrsv(CblasColMajor, CblasUpper, CblasNoTrans, CblasNonUnit, (int)k, p->R, p->dim, z, 1);
    inverse = cblas_dnrm2((int)k, z, 1);
    if (!isfinite(inverse) || inverse == 0.0) {
      return 0.0;
    }
  }
  return 1.0 / sqrt(inverse);
}

/* sigma_1 of the first k vectors, from below: a few steps of the power method with R^T R. */
static double largest_singular(mhas_prefix *p, int64_t k) {
  double *z = p->z;
  double square = 0.0;
  start_iteration(z, k);
  for (int step = 0; step < POWER_STEPS; step++) {
    cblas_dscal((int)k, 1.0 / cblas_dnrm2((int)k, z, 1), z, 1);
    cblas_dtrmv(CblasColMajor, CblasUpper, CblasNoTrans, CblasNonUnit, (int)k, p->R, p->dim, z, 1);
    cblas_dtrmv(CblasColMajor, CblasUpper, CblasTrans, CblasNonUnit, (int)k, p->R, p->dim, z, 1);
    square = cblas_dnrm2((int)k, z, 1);
  }
  return fmax(sqrt(square), p->top[k - 1]);
}

/* A prefix of a prefix is at least as independent, so the last independent one is found by halving. */
static int64_t settle(mhas_prefix *p, double tolerance, int64_t sure, int64_t dependent) {
  while (dependent - sure > 1) {
    const int64_t k = sure + (dependent - sure) / 2;
    if (least_singular(p, k) > tolerance * largest_singular(p, k)) {
      sure = k;
    } else {
      dependent = k;
    }
  }
  return sure;
}

int64_t mhas_prefix_independent(mhas_prefix *p, double tolerance) {
  int64_t sure = 0; /* so many are independent without doubt */
  double least = 0.0;
  for (int k = 0; k < p->count; k++) {
    least = grow(p, 2, k, p->least, least);
    p->top[k] = grow(p, 1, k, p->largest, k == 0 ? 0.0 : p->top[k - 1]);
    if (!(least > tolerance * p->top[k])) { /* so the truth is below too */
      return settle(p, tolerance, sure, k + 1);
    }
    sure = least > doubt * tolerance * p->top[k] && sure == k ? k + 1 : sure;
  }
  return settle(p, tolerance, sure, p->count + 1);
}

void mhas_prefix_combination(const mhas_prefix *p, int64_t k, double *c) {
  memcpy(c, p->R + k * p->dim, (size_t)k * sizeof *c);
  if (k > 0) {
    cblas_dtrsv(CblasColMajor, CblasUpper, CblasNoTrans, CblasNonUnit, (int)k, p->R, p->dim, c, 1);
  }
}

/* ---- what it takes ---- */

/* Golub and Van Loan, Matrix Computations, 4th ed., 5.2.2; and the estimates. */
double mhas_prefix_flops(int64_t count, int64_t dim) {
  const double k = (double)count;
  return 2.0 * k * k * ((double)dim - k / 3.0) + 8.0 * k * k;
}

double mhas_prefix_bytes(int64_t most, int64_t dim) { return sizeof(double) * (double)most * ((double)dim + 40.0); }
