#include "model/meanfield_algebra.h"

#include <math.h>
#include <string.h>

#include "linalg/lapack.h"

mhas_code mhas_small_eigen(const char *what, int64_t n, const double *a, double *values, double *vectors, double *work,
                           mhas_error *error) {
  const int order = (int)n;
  const int lwork = 40 * order;
  int info = 0;
  for (int64_t i = 0; i < n * n; i++) {
    if (!isfinite(a[i])) {
      return mhas_fail(error, MHAS_NUMERIC, "%s is not finite", what);
    }
  }
  memmove(vectors, a, (size_t)(n * n) * sizeof *a);
  dsyev_("V", "U", &order, vectors, &order, values, work, &lwork, &info, 1, 1);
  if (info != 0) {
    return mhas_fail(error, MHAS_NUMERIC, "the eigenvalues of %s were not found (DSYEV: %d)", what, info);
  }
  return MHAS_OK;
}

mhas_code mhas_small_inverse(const char *what, int64_t n, const double *a, double shift, double cut_off,
                             double *inverse, double *values, int64_t *rank, double *work, mhas_error *error) {
  double *vectors = work;
  double *scaled = work + n * n;
  MHAS_TRY(mhas_small_eigen(what, n, a, values, vectors, work + 2 * n * n, error));
  const double least = cut_off * (values[n - 1] + shift);
  *rank = 0;
  for (int64_t i = 0; i < n; i++) {
    const double value = values[i] + shift;
    const bool kept = value > least && value > 0.0;
    *rank += kept;
    for (int64_t j = 0; j < n; j++) {
      scaled[i * n + j] = kept ? vectors[i * n + j] / value : 0.0;
    }
  }
  small_multiply(TURNED, AS_IS, n, n, n, 1.0, vectors, scaled, 0.0, inverse);
  return MHAS_OK;
}
