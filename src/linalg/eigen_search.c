/* What every search for eigenvalues does with vectors that are spread over ranks. */
#include "linalg/eigen_search.h"

#include <inttypes.h>
#include <math.h>

mhas_code mhas_eigen_sum(const eigen_search *s, double *values, int count) {
  if (!s->alone && MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_SUM, s->problem->comm) != MPI_SUCCESS) {
    return mhas_fail(s->error, MHAS_MPI, "the ranks of a team cannot talk to each other");
  }
  return MHAS_OK;
}

mhas_code mhas_eigen_agree(const eigen_search *s, mhas_code code) {
  if (s->problem->agree != NULL) {
    return s->problem->agree(s->problem->context, code, s->error);
  }
  int worst = (int)code;
  if (!s->alone && MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_INT, MPI_MAX, s->problem->comm) != MPI_SUCCESS) {
    return mhas_fail(s->error, MHAS_MPI, "the ranks of a team cannot talk to each other");
  }
  if (code == MHAS_OK && worst != MHAS_OK) {
    return mhas_fail(s->error, (mhas_code)worst, "another rank of the team could not go on with its eigenvectors");
  }
  return (mhas_code)worst;
}

mhas_code mhas_eigen_dot(const eigen_search *s, const double *x, const double *y, double *product) {
  *product = 0.0;
  for (int64_t i = 0; i < s->problem->size; i++) {
    *product += x[i] * y[i];
  }
  return mhas_eigen_sum(s, product, 1);
}

mhas_code mhas_eigen_multiply(eigen_search *s, const double *x, double *y) {
  const mhas_eigen_problem *p = s->problem;
  if (s->products >= p->products_most) {
    return mhas_fail(s->error, MHAS_NUMERIC,
                     "%" PRId64 " products with the matrix (%" PRId64
                     " rows) were not enough for %d eigenvalue%s to "
                     "%g of the largest",
                     s->products, s->total, s->count, s->count == 1 ? "" : "s", p->tolerance);
  }
  s->products++;
  MHAS_TRY(p->product(p->context, x, y, s->error));
  double broken = 0.0;
  for (int64_t i = 0; i < p->size; i++) {
    broken += isfinite(y[i]) ? 0.0 : 1.0;
  }
  MHAS_TRY(mhas_eigen_sum(s, &broken, 1));
  if (broken > 0.0) {
    return mhas_fail(s->error, MHAS_NUMERIC, "a product with the matrix has %.0f entries that are not finite", broken);
  }
  return MHAS_OK;
}
