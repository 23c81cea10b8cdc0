/* A few eigenvalues at one end of the spectrum of a symmetric matrix that is only known by its products. */
#include "mhasweep/eigen.h"

#include <cblas.h>
#include <inttypes.h>
#include <math.h>

#include "linalg/eigen_search.h"

static mhas_code locate(eigen_search *s) {
  int ranks = 1;
  int64_t ends = s->problem->size;
  s->total = s->problem->size;
  s->alone =
      s->problem->comm == MPI_COMM_NULL || (MPI_Comm_size(s->problem->comm, &ranks) == MPI_SUCCESS && ranks == 1);
  if (!s->alone && (MPI_Scan(MPI_IN_PLACE, &ends, 1, MPI_INT64_T, MPI_SUM, s->problem->comm) != MPI_SUCCESS ||
                    MPI_Allreduce(MPI_IN_PLACE, &s->total, 1, MPI_INT64_T, MPI_SUM, s->problem->comm) != MPI_SUCCESS)) {
    return mhas_fail(s->error, MHAS_MPI, "the ranks of a team cannot talk to each other");
  }
  s->first = ends - s->problem->size;
  return MHAS_OK;
}

static mhas_code scale_to_unit(const eigen_search *s, double *v, double *length) {
  double square = 0.0;
  MHAS_TRY(mhas_eigen_dot(s, v, v, &square));
  *length = sqrt(square);
  for (int64_t i = 0; i < s->problem->size; i++) {
    v[i] /= *length;
  }
  return MHAS_OK;
}

/* Makes vector k a unit vector at right angles to those before it. ARPACK's nearly are, but for the last digits, or
 * more than those where rounding is all that a Lanczos step leaves (a multiple of the unit matrix). */
static mhas_code straighten(eigen_search *s, int k) {
  const int64_t size = s->problem->size;
  double *v = s->vectors + k * size;
  double length = 0.0;
  MHAS_TRY(scale_to_unit(s, v, &length));
  for (int j = 0; j < k; j++) {
    double part = 0.0;
    MHAS_TRY(mhas_eigen_dot(s, v, s->vectors + j * size, &part));
    cblas_daxpy((int)size, -part, s->vectors + j * size, 1, v, 1);
  }
  MHAS_TRY(scale_to_unit(s, v, &length));
  return length > 0.5 ? MHAS_OK : mhas_fail(s->error, MHAS_NUMERIC, "an eigenvector was found twice, lost to rounding");
}

/* value = v^T A v and ||A v - value v|| for the unit vector v. y is scratch. */
static mhas_code examine(eigen_search *s, const double *v, double *y, mhas_eigen *found) {
  double square = 0.0;
  MHAS_TRY(mhas_eigen_multiply(s, v, y));
  MHAS_TRY(mhas_eigen_dot(s, v, y, &found->value));
  for (int64_t i = 0; i < s->problem->size; i++) {
    y[i] -= found->value * v[i];
  }
  MHAS_TRY(mhas_eigen_dot(s, y, y, &square));
  found->residual = sqrt(square);
  return MHAS_OK;
}

/* Rounding may have changed the order of values that are next to each other. */
static void sort(const eigen_search *s, mhas_eigen *found) {
  const int64_t size = s->problem->size;
  const double sign = s->end == MHAS_SMALLEST ? 1.0 : -1.0;
  for (int i = 1; i < s->count; i++) {
    for (int k = i; k > 0 && sign * found[k].value < sign * found[k - 1].value; k--) {
      const mhas_eigen other = found[k];
      found[k] = found[k - 1];
      found[k - 1] = other;
      cblas_dswap((int)size, s->vectors + k * size, 1, s->vectors + (k - 1) * size, 1);
    }
  }
}

static mhas_code solve(eigen_search *s, mhas_eigen *found) {
  const int64_t size = s->problem->size;
  double *y = NULL;
  mhas_code code = mhas_eigen_agree(s, mhas_alloc(&y, (size_t)size, sizeof *y, "a vector", s->error));
  if (code == MHAS_OK) {
    code = s->total <= 2 * mhas_eigen_basis(s->count) ? mhas_eigen_whole(s) : mhas_eigen_lanczos(s);
  }
  for (int k = 0; code == MHAS_OK && k < s->count; k++) {
    code = straighten(s, k);
    if (code == MHAS_OK) {
      code = examine(s, s->vectors + k * size, y, &found[k]);
    }
  }
  if (code == MHAS_OK) {
    sort(s, found);
  }
  mhas_free(y);
  return code;
}

mhas_code mhas_eigen_ends(const mhas_eigen_problem *problem, mhas_end end, int count, mhas_eigen *found,
                          double *vectors, int64_t *products, mhas_error *error) {
  eigen_search s = {.problem = problem, .end = end, .count = count, .vectors = vectors, .error = error};
  *products = 0;
  MHAS_TRY(locate(&s));
  if (count < 1 || count > s.total || !(problem->tolerance > 0.0)) {
    return mhas_fail(error, MHAS_INTERNAL, "%d eigenvalues of %" PRId64 " to a tolerance of %g were asked for", count,
                     s.total, problem->tolerance);
  }
  double *own = NULL;
  mhas_code code = MHAS_OK;
  if (vectors == NULL) {
    const size_t numbers = (size_t)count * (size_t)problem->size;
    code = mhas_eigen_agree(&s, mhas_alloc(&own, numbers, sizeof *own, "eigenvectors", error));
    s.vectors = own;
  }
  if (code == MHAS_OK) {
    code = solve(&s, found);
  }
  *products = s.products;
  mhas_free(own);
  return code;
}
