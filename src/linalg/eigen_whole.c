/* Eigenvalues of a small matrix that is only known by its products: made whole on every rank, and LAPACK. */
#include <string.h>

#include "linalg/dense.h"
#include "linalg/eigen_search.h"
#include "linalg/lapack.h"

/* a (total, total) from its products with the unit vectors, on every rank. */
static mhas_code make_whole(eigen_search *s, double *a, double *x) {
  const int64_t size = s->problem->size;
  for (int64_t j = 0; j < s->total; j++) {
    memset(x, 0, (size_t)size * sizeof *x);
    if (j >= s->first && j < s->first + size) {
      x[j - s->first] = 1.0;
    }
    MHAS_TRY(mhas_eigen_multiply(s, x, a + j * s->total + s->first));
  }
  int entries = 0;
  MHAS_TRY(mhas_narrow(s->total * s->total, "the entries of a small matrix", &entries, s->error));
  MHAS_TRY(mhas_eigen_sum(s, a, entries));
  for (int64_t i = 0; i < s->total; i++) {
    for (int64_t j = 0; j < i; j++) {
      a[i * s->total + j] = a[j * s->total + i] = 0.5 * (a[i * s->total + j] + a[j * s->total + i]);
    }
  }
  return MHAS_OK;
}

/* The eigenvalues of a into w, ascending, and its eigenvectors in place of it. */
static mhas_code decompose(const eigen_search *s, double *a, double *w) {
  const int n = (int)s->total;
  double asked = 0.0;
  int length = -1;
  int info = 0;
  dsyev_("V", "L", &n, a, &n, w, &asked, &length, &info, 1, 1);
  double *work = NULL;
  MHAS_TRY(mhas_lapack_workspace(asked, &length, &work, s->error));
  dsyev_("V", "L", &n, a, &n, w, work, &length, &info, 1, 1);
  mhas_free(work);
  return info == 0 ? MHAS_OK
                   : mhas_fail(s->error, MHAS_NUMERIC, "the eigenvalues did not converge (DSYEV, info %d)", info);
}

mhas_code mhas_eigen_whole(eigen_search *s) {
  const int64_t n = s->total;
  const int64_t size = s->problem->size;
  double *a = NULL; /* and the eigenvalues behind it */
  double *x = NULL;
  mhas_code code = mhas_alloc(&a, (size_t)(n * n + n), sizeof *a, "a small matrix", s->error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&x, (size_t)size, sizeof *x, "a vector", s->error);
  }
  code = mhas_eigen_agree(s, code);
  if (code == MHAS_OK) {
    code = make_whole(s, a, x);
  }
  if (code == MHAS_OK) {
    code = mhas_eigen_agree(s, decompose(s, a, a + n * n));
  }
  for (int64_t k = 0; code == MHAS_OK && k < s->count; k++) {
    const int64_t from = s->end == MHAS_SMALLEST ? k : n - 1 - k;
    memcpy(s->vectors + k * size, a + from * n + s->first, (size_t)size * sizeof *a);
  }
  mhas_free(a);
  mhas_free(x);
  return code;
}
