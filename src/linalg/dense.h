/*
 * What the dense solvers share, and their two methods apart: the second is only reached when the first does not
 * converge, so tests call it by name.
 */
#ifndef MHASWEEP_LINALG_DENSE_H
#define MHASWEEP_LINALG_DENSE_H

#include "mhasweep/linalg.h"

/* ---- what all of them need: LAPACK's habits ---- */

/* LAPACK may loop for ever on NaN, or return numbers that look fine. MHAS_NUMERIC, naming the entry of `what`. */
mhas_code mhas_check_finite(const char *what, int64_t rows, int64_t columns, const double *a, mhas_error *error);

/* LAPACK answers a workspace query in a double, which may be rounded down or be too large for the int that it takes. */
mhas_code mhas_lapack_workspace(double asked, int *length, double **work, mhas_error *error);

/* info below 0 is a mistake in here; above 0 the routine did not converge. */
mhas_code mhas_lapack_info(const char *routine, int info, bool *converged, mhas_error *error);

/* ---- the two methods ---- */

typedef enum mhas_svd_method {
  MHAS_SVD_DIVIDE, /* divide and conquer: the fast one */
  MHAS_SVD_ITERATE /* QR iteration: slower, and converges where the other may not */
} mhas_svd_method;

/* As mhas_singular_values and mhas_least_squares, by one method. *converged is false if that is why it failed. */
mhas_code mhas_singular_values_by(mhas_svd_method method, int64_t rows, int64_t columns, const double *a, double *sigma,
                                  bool *converged, mhas_error *error);
mhas_code mhas_least_squares_by(mhas_svd_method method, int64_t rows, int64_t columns, int64_t outputs, const double *a,
                                const double *y, double tolerance, double *b, double *sigma, bool *converged,
                                mhas_error *error);

#endif
