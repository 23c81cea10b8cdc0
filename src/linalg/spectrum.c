/* The singular values of a block-cyclic matrix. */
#include <math.h>

#include "linalg/grid.h"
#include "linalg/lapack.h"
#include "linalg/scalapack.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/*
 * PDGESVD's own count of its workspace, in numbers that do not overflow (its query counts in 32 bits, and some versions
 * count too little): 6 max(m, n), and the blocks of rows and columns that the reduction to bidiagonal form carries.
 */
static double least_work(const mhas_cyclic *a) {
  const double block = a->grid->block;
  const double least = (double)smaller(a->rows, a->columns);
  const double size = (double)a->rows + (double)a->columns - least;
  const double reduction =
      block * ((double)a->local_rows + (double)a->local_columns + 2.0 * block + 1.0) + (double)a->local_columns + block;
  return 2.0 + 6.0 * size + fmax(reduction, fmax(size, 4.0 * least));
}

static int by_scalapack(mhas_cyclic *a, double *sigma, double *work, int length) {
  const int m = (int)a->rows;
  const int n = (int)a->columns;
  const int one = 1;
  double unused = 0.0;
  int info = 0;
  pdgesvd_("N", "N", &m, &n, a->local, &one, &one, a->descriptor, sigma, &unused, &one, &one, a->descriptor, &unused,
           &one, &one, a->descriptor, work, &length, &info);
  return info;
}

static mhas_code read_info(const mhas_cyclic *a, int info, mhas_error *error) {
  if (info > smaller(a->rows, a->columns)) {
    return mhas_fail(error, MHAS_NUMERIC,
                     "the ranks of the team computed different singular values (PDGESVD): are their CPUs or BLAS "
                     "kernels different? OPENBLAS_CORETYPE can make them the same");
  }
  if (info > 0) {
    return mhas_fail(error, MHAS_NUMERIC, "the singular values did not converge (PDGESVD, info %d)", info);
  }
  return mhas_scalapack_info("PDGESVD", info, error);
}

static mhas_code values_of_team(mhas_cyclic *a, double *sigma, mhas_error *error) {
  double asked = 0.0;
  double *work = NULL;
  int length = 0;
  mhas_code code = read_info(a, by_scalapack(a, sigma, &asked, -1), error);
  if (code == MHAS_OK) {
    code = mhas_scalapack_work(asked, least_work(a), &length, &work, error);
  }
  code = mhas_grid_agree(a->grid, code, error);
  if (code == MHAS_OK) {
    code = read_info(a, by_scalapack(a, sigma, work, length), error);
    code = mhas_grid_agree(a->grid, code, error);
  }
  mhas_free(work);
  return code;
}

/* Here the local matrix is the whole; LAPACK's divide and conquer is the faster. */
static mhas_code values_of_one(mhas_cyclic *a, double *sigma, mhas_error *error) {
  const int m = (int)a->rows;
  const int n = (int)a->columns;
  const int stride = (int)a->stride;
  const int one = 1;
  double unused = 0.0;
  double asked = 0.0;
  double *work = NULL;
  int *integers = NULL;
  int length = -1;
  int info = 0;
  mhas_code code = mhas_alloc(&integers, 8 * (size_t)smaller(m, n), sizeof *integers, "the workspace of LAPACK", error);
  if (code == MHAS_OK) {
    dgesdd_("N", &m, &n, a->local, &stride, sigma, &unused, &one, &unused, &one, &asked, &length, integers, &info, 1);
    code = mhas_scalapack_info("DGESDD", info, error);
  }
  if (code == MHAS_OK) {
    code = mhas_scalapack_work(asked, 0.0, &length, &work, error);
  }
  if (code == MHAS_OK) {
    dgesdd_("N", &m, &n, a->local, &stride, sigma, &unused, &one, &unused, &one, work, &length, integers, &info, 1);
    code = info > 0 ? mhas_fail(error, MHAS_NUMERIC, "the singular values did not converge (DGESDD, info %d)", info)
                    : mhas_scalapack_info("DGESDD", info, error);
  }
  mhas_free(work);
  mhas_free(integers);
  return code;
}

mhas_code mhas_cyclic_singular_values(mhas_cyclic *a, double *sigma, mhas_error *error) {
  double norm = 0.0; /* asked for its check of the entries: LAPACK may loop for ever on NaN */
  MHAS_TRY(mhas_cyclic_norm(a, &norm, error));
  return a->grid->rows * a->grid->columns == 1 ? values_of_one(a, sigma, error) : values_of_team(a, sigma, error);
}
