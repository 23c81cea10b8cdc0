/* A matrix as a product of two of low rank, by its singular value decomposition. */
#include <math.h>
#include <string.h>

#include "linalg/dense.h"
#include "linalg/lapack.h"

/* Row-major a (rows x columns) is LAPACK's m x n with m = columns, n = rows: a = v s u^T in its letters. */
typedef struct decomposition {
  int m, n, least;
  double *a;     /* a copy, destroyed */
  double *sigma; /* (least) */
  double *u;     /* (m, least), column-major */
  double *vt;    /* (least, n), column-major */
} decomposition;

static int call(mhas_svd_method method, const decomposition *d, double *work, int length, int *integers) {
  int info = 0;
  if (method == MHAS_SVD_DIVIDE) {
    dgesdd_("S", &d->m, &d->n, d->a, &d->m, d->sigma, d->u, &d->m, d->vt, &d->least, work, &length, integers, &info, 1);
  } else {
    dgesvd_("S", "S", &d->m, &d->n, d->a, &d->m, d->sigma, d->u, &d->m, d->vt, &d->least, work, &length, &info, 1, 1);
  }
  return info;
}

static mhas_code decompose(mhas_svd_method method, const decomposition *d, int *integers, bool *converged,
                           mhas_error *error) {
  const char *routine = method == MHAS_SVD_DIVIDE ? "DGESDD" : "DGESVD";
  double asked = 0.0;
  double *work = NULL;
  int length = 0;
  MHAS_TRY(mhas_lapack_info(routine, call(method, d, &asked, -1, integers), converged, error));
  mhas_code code = mhas_lapack_workspace(asked, &length, &work, error);
  if (code == MHAS_OK) {
    code = mhas_lapack_info(routine, call(method, d, work, length, integers), converged, error);
  }
  mhas_free(work);
  return code;
}

static mhas_code allocate(decomposition *d, int **integers, mhas_error *error) {
  const size_t m = (size_t)d->m;
  const size_t n = (size_t)d->n;
  const size_t least = (size_t)d->least;
  MHAS_TRY(mhas_alloc(&d->a, m * n, sizeof(double), "a copy of the matrix", error));
  MHAS_TRY(mhas_alloc(&d->sigma, least, sizeof(double), "the singular values", error));
  MHAS_TRY(mhas_alloc(&d->u, m * least, sizeof(double), "the singular vectors", error));
  MHAS_TRY(mhas_alloc(&d->vt, n * least, sizeof(double), "the singular vectors", error));
  return mhas_alloc(integers, 8 * least, sizeof(int), "the workspace of LAPACK", error);
}

static void fill(const decomposition *d, int64_t rank, double *left, double *right) {
  const int64_t used = rank < d->least ? rank : d->least;
  memset(left, 0, (size_t)d->n * (size_t)rank * sizeof *left);
  memset(right, 0, (size_t)d->m * (size_t)rank * sizeof *right);
  for (int64_t k = 0; k < used; k++) {
    const double share = sqrt(d->sigma[k]);
    for (int64_t i = 0; i < d->n; i++) {
      left[i * rank + k] = share * d->vt[i * d->least + k];
    }
    for (int64_t j = 0; j < d->m; j++) {
      right[j * rank + k] = share * d->u[k * d->m + j];
    }
  }
}

mhas_code mhas_low_rank(int64_t rows, int64_t columns, int64_t rank, const double *a, double *left, double *right,
                        mhas_error *error) {
  decomposition d = {.a = NULL};
  int *integers = NULL;
  bool converged = true;
  MHAS_TRY(mhas_narrow(columns, "the number of columns of the matrix", &d.m, error));
  MHAS_TRY(mhas_narrow(rows, "the number of rows of the matrix", &d.n, error));
  MHAS_TRY(mhas_check_finite("the matrix", rows, columns, a, error));
  d.least = d.m < d.n ? d.m : d.n;
  const size_t bytes = (size_t)rows * (size_t)columns * sizeof *a;
  mhas_code code = allocate(&d, &integers, error);
  if (code == MHAS_OK) {
    memcpy(d.a, a, bytes);
    code = decompose(MHAS_SVD_DIVIDE, &d, integers, &converged, error);
  }
  if (!converged) {
    memcpy(d.a, a, bytes);
    code = decompose(MHAS_SVD_ITERATE, &d, integers, &converged, error);
  }
  if (code == MHAS_OK) {
    fill(&d, rank, left, right);
  }
  mhas_free(d.a);
  mhas_free(d.sigma);
  mhas_free(d.u);
  mhas_free(d.vt);
  mhas_free(integers);
  return code;
}
