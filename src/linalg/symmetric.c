/* Eigenvalues of a symmetric matrix in memory. */
#include <string.h>

#include "linalg/dense.h"
#include "linalg/lapack.h"
#include "mhasweep/eigen.h"

mhas_code mhas_symmetric_values(int64_t n, const double *a, double *values, mhas_error *error) {
  int size = 0;
  double asked = 0.0;
  int length = -1;
  int info = 0;
  double *copy = NULL;
  double *work = NULL;
  MHAS_TRY(mhas_narrow(n, "the rows of a symmetric matrix", &size, error));
  MHAS_TRY(mhas_check_finite("the symmetric matrix", n, n, a, error));
  MHAS_TRY(mhas_alloc(&copy, (size_t)(n * n), sizeof *copy, "a copy of a symmetric matrix", error));
  memcpy(copy, a, (size_t)(n * n) * sizeof *copy);
  dsyev_("N", "U", &size, copy, &size, values, &asked, &length, &info, 1, 1); /* U of the transpose */
  mhas_code code = mhas_lapack_workspace(asked, &length, &work, error);
  if (code == MHAS_OK) {
    dsyev_("N", "U", &size, copy, &size, values, work, &length, &info, 1, 1);
    bool converged = false;
    code = mhas_lapack_info("DSYEV", info, &converged, error);
  }
  mhas_free(work);
  mhas_free(copy);
  return code;
}
