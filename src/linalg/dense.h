/* The two methods behind the dense solvers, apart: the second is only reached when the first does not converge, so
 * tests call it by name. */
#ifndef MHASWEEP_LINALG_DENSE_H
#define MHASWEEP_LINALG_DENSE_H

#include "mhasweep/linalg.h"

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
