/*
 * The numerical rank from a QR factorization with column pivoting.
 *
 * Write R = (R11 R12; 0 R22), where the smallest singular value of R11 (k x k) is far above the tolerance and R22 is
 * not. k singular values are above it then, and the others are to be found in R22; but not as its own singular values,
 * since R11 and R12 can all but cancel them (Kahan's matrix). An LQ factorization turns R from the right into
 *
 *   L = (T 0; P S).
 *
 * A row vector (x y) leaves of that x T + y P in the first columns and y S in the others. x = -y P T^-1 =: -y X takes
 * out the former, so that the length is ||y S|| of ||y||^2 + ||y X||^2 = ||y C||^2, C C^T = 1 + X X^T (Cholesky). The
 * small singular values of R are therefore those of C^-1 S, up to a factor 1 + (tolerance / sigma_min(T))^2.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "linalg/qr.h"
#include "linalg/scalapack.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* tails[i]: the Frobenius norm of rows i .. steps - 1 of R and of what was not factored; i = 0 .. steps. */
static mhas_code tail_norms(const mhas_qr *qr, double *tails, mhas_error *error) {
  const mhas_cyclic *a = qr->a;
  memset(tails, 0, (size_t)(qr->steps + 1) * sizeof *tails);
  for (int64_t c = 0; c < a->local_columns; c++) {
    const int64_t rows =
        mhas_cyclic_rows_before(a, mhas_cyclic_column(a, c) + 1 < qr->steps ? mhas_cyclic_column(a, c) + 1 : qr->steps);
    for (int64_t r = 0; r < rows; r++) {
      const double part = a->local[r + c * a->stride] / qr->largest;
      tails[mhas_cyclic_row(a, r)] += part * part;
    }
  }
  Cdgsum2d(qr->grid->context, "All", " ", (int)qr->steps, 1, tails, (int)qr->steps, -1, -1);
  const double rest = qr->rest / qr->largest;
  double sum = rest * rest;
  tails[qr->steps] = qr->rest;
  for (int64_t i = qr->steps - 1; i >= 0; i--) {
    sum += tails[i];
    tails[i] = qr->largest * sqrt(sum);
  }
  /* All ranks go on with the numbers of one. */
  if (MPI_Bcast(tails, (int)qr->steps + 1, MPI_DOUBLE, 0, qr->grid->comm) != MPI_SUCCESS) {
    return mhas_fail(error, MHAS_MPI, "the ranks of a team cannot talk to each other");
  }
  return MHAS_OK;
}

/* The largest leading triangle of at most `most` rows whose singular values are all above `bound`, by a step that
 * doubles where it fails. If it is not all of them, a multiple of the block. */
static mhas_code sure_part(const mhas_qr *qr, int64_t most, double bound, int64_t *sure, mhas_error *error) {
  const int64_t block = qr->grid->block;
  int64_t size = 0;
  while (size < most && qr->diagonal[size] > bound) {
    size++;
  }
  int64_t step = block;
  size = size < most ? size / block * block : size;
  while (size > 0) {
    double smallest = 0.0; /* by the bound */
    MHAS_TRY(mhas_triangle_smallest(qr->a, size, bound, qr->random, &smallest, error));
    if (smallest > 1.0) {
      break;
    }
    const int64_t rounded = (size - 1) / block * block;
    size = rounded > step - block ? rounded - (step - block) : 0;
    step *= 2;
  }
  *sure = size;
  return MHAS_OK;
}

/* The first `rows` rows of R, zero below the diagonal. */
static mhas_code copy_triangle(const mhas_qr *qr, int64_t rows, mhas_cyclic *copy, mhas_error *error) {
  const mhas_cyclic *a = qr->a;
  MHAS_TRY(mhas_cyclic_create(qr->grid, rows, a->columns, "a copy of R", copy, error));
  for (int64_t c = 0; c < copy->local_columns; c++) {
    const int64_t count = mhas_cyclic_rows_before(a, smaller(mhas_cyclic_column(a, c) + 1, rows));
    memcpy(copy->local + c * copy->stride, a->local + c * a->stride, (size_t)count * sizeof *copy->local);
  }
  return MHAS_OK;
}

/* L in place of r (rows x columns, rows <= columns); above its diagonal is what makes Q. */
static mhas_code turn_lower(mhas_cyclic *r, mhas_error *error) {
  const int m = (int)r->rows;
  const int n = (int)r->columns;
  const int one = 1;
  const double block = r->grid->block;
  double *tau = NULL;
  double *work = NULL;
  int length = 0;
  int info = 0;
  mhas_code code = mhas_alloc(&tau, (size_t)r->local_rows + 1, sizeof *tau, "Householder factors", error);
  if (code == MHAS_OK) {
    code = mhas_scalapack_work(block * ((double)r->local_rows + (double)r->local_columns + 4.0 * block), 0.0, &length,
                               &work, error);
  }
  code = mhas_grid_agree(r->grid, code, error);
  if (code == MHAS_OK) {
    pdgelqf_(&m, &n, r->local, &one, &one, r->descriptor, tau, work, &length, &info);
    code = mhas_scalapack_info("PDGELQF", info, error);
  }
  mhas_free(work);
  mhas_free(tau);
  return code;
}

static void clear_above(mhas_cyclic *r) {
  for (int64_t c = 0; c < r->local_columns; c++) {
    const int64_t rows = mhas_cyclic_rows_before(r, smaller(mhas_cyclic_column(r, c), r->rows));
    memset(r->local + c * r->stride, 0, (size_t)rows * sizeof *r->local);
  }
}

/* C^-1 S in place of S. */
static mhas_code weigh(mhas_cyclic *r, int64_t sure, mhas_error *error) {
  const int k = (int)sure;
  const int doubtful = (int)(r->rows - sure);
  const int one = 1;
  const int below = k + 1;
  const double plus = 1.0;
  int info = 0;
  mhas_cyclic c;
  mhas_code code = mhas_cyclic_create(r->grid, doubtful, doubtful, "weights of doubtful rows", &c, error);
  if (code == MHAS_OK) {
    code = mhas_cyclic_fill(&c, mhas_fill_identity, NULL, error);
  }
  if (code == MHAS_OK) {
    pdtrsm_("R", "L", "N", "N", &doubtful, &k, &plus, r->local, &one, &one, r->descriptor, r->local, &below, &one,
            r->descriptor);
    pdsyrk_("L", "N", &doubtful, &k, &plus, r->local, &below, &one, r->descriptor, &plus, c.local, &one, &one,
            c.descriptor);
    pdpotrf_("L", &doubtful, c.local, &one, &one, c.descriptor, &info);
    code = info > 0 ? mhas_fail(error, MHAS_NUMERIC, "rows of R are too long for Cholesky (PDPOTRF, info %d)", info)
                    : mhas_scalapack_info("PDPOTRF", info, error);
    code = mhas_grid_agree(r->grid, code, error);
  }
  if (code == MHAS_OK) {
    pdtrsm_("L", "L", "N", "N", &doubtful, &doubtful, &plus, c.local, &one, &one, c.descriptor, r->local, &below,
            &below, r->descriptor);
  }
  mhas_cyclic_free(&c);
  return code;
}

/* The singular values of the last rows and columns of r. They are copied: PDGESVD of a part that does not start on the
 * first process is wrong on some grids (2.2.1, 2 x 3). */
static mhas_code corner_singular_values(const mhas_cyclic *r, int64_t size, double *sigma, mhas_error *error) {
  const int n = (int)size;
  const int from = (int)(r->rows - size) + 1;
  const int one = 1;
  const double plus = 1.0;
  const double zero = 0.0;
  mhas_cyclic corner;
  mhas_code code = mhas_cyclic_create(r->grid, size, size, "the part of R in doubt", &corner, error);
  if (code == MHAS_OK) {
    pdgeadd_("N", &n, &n, &plus, r->local, &from, &from, r->descriptor, &zero, corner.local, &one, &one,
             corner.descriptor);
    code = mhas_cyclic_singular_values(&corner, sigma, error);
  }
  mhas_cyclic_free(&corner);
  return code;
}

/* The smallest last - sure singular values of R's first `last` rows, descending. */
static mhas_code doubtful_values(const mhas_qr *qr, int64_t sure, int64_t last, double *sigma, mhas_error *error) {
  mhas_cyclic r = {0};
  mhas_code code = copy_triangle(qr, last, &r, error);
  if (code == MHAS_OK) {
    code = turn_lower(&r, error);
  }
  if (code == MHAS_OK) {
    clear_above(&r);
    code = sure > 0 ? weigh(&r, sure, error) : MHAS_OK;
  }
  if (code == MHAS_OK) {
    code = corner_singular_values(&r, last - sure, sigma, error);
  }
  mhas_cyclic_free(&r);
  return code;
}

/* Singular values sure .. last - 1 may be on either side of a tolerance, those before are above, those behind below. */
typedef struct doubt {
  int64_t sure, last;
} doubt;

static mhas_code find_doubt(const mhas_qr *qr, const double *tails, double bound, doubt *found, mhas_error *error) {
  found->last = 0;
  while (found->last < qr->steps && tails[found->last] > bound / MHAS_QR_DOUBT) {
    found->last++;
  }
  return sure_part(qr, found->last, bound * MHAS_QR_DOUBT, &found->sure, error);
}

/* One look at the singular values serves all tolerances: from the first in doubt at any to the last. */
static mhas_code settle(const mhas_qr *qr, const double *tolerances, int count, const doubt *doubts, int64_t *ranks,
                        mhas_error *error) {
  int64_t sure = qr->steps;
  int64_t last = 0;
  for (int i = 0; i < count; i++) {
    ranks[i] = doubts[i].sure;
    if (doubts[i].sure < doubts[i].last) {
      sure = smaller(sure, doubts[i].sure);
      last = doubts[i].last > last ? doubts[i].last : last;
    }
  }
  if (sure >= last) {
    return MHAS_OK;
  }
  double *sigma = NULL;
  mhas_code code = mhas_alloc(&sigma, (size_t)(last - sure), sizeof *sigma, "singular values near a tolerance", error);
  code = mhas_grid_agree(qr->grid, code, error);
  if (code == MHAS_OK) {
    code = mhas_grid_agree(qr->grid, doubtful_values(qr, sure, last, sigma, error), error);
  }
  for (int i = 0; code == MHAS_OK && i < count; i++) {
    if (doubts[i].sure < doubts[i].last) {
      for (ranks[i] = sure; ranks[i] < last && sigma[ranks[i] - sure] > tolerances[i] * qr->largest;) {
        ranks[i]++;
      }
    }
  }
  mhas_free(sigma);
  return code;
}

mhas_code mhas_qr_ranks(const mhas_qr *qr, const double *tolerances, int count, int64_t *ranks, mhas_error *error) {
  memset(ranks, 0, (size_t)count * sizeof *ranks);
  if (qr->steps == 0) {
    return MHAS_OK;
  }
  for (int i = 0; i < count; i++) {
    if (qr->rest > tolerances[i] * qr->largest) {
      return mhas_fail(error, MHAS_INTERNAL, "the factorization stopped at a tolerance above %g", tolerances[i]);
    }
  }
  double *tails = NULL;
  doubt *doubts = NULL;
  mhas_code code = mhas_alloc(&tails, (size_t)qr->steps + 1, sizeof *tails, "norms of the rest", error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&doubts, (size_t)count, sizeof *doubts, "the ranks in doubt", error);
  }
  code = mhas_grid_agree(qr->grid, code, error);
  if (code == MHAS_OK) {
    code = tail_norms(qr, tails, error);
  }
  for (int i = 0; code == MHAS_OK && i < count; i++) {
    code = find_doubt(qr, tails, tolerances[i] * qr->largest, &doubts[i], error);
  }
  if (code == MHAS_OK) {
    code = settle(qr, tolerances, count, doubts, ranks, error);
  }
  mhas_free(doubts);
  mhas_free(tails);
  if (code == MHAS_OK && MPI_Bcast(ranks, count, MPI_INT64_T, 0, qr->grid->comm) != MPI_SUCCESS) {
    code = mhas_fail(error, MHAS_MPI, "the ranks of a team cannot talk to each other");
  }
  return code;
}
