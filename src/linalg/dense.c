/*
 * Singular values and least squares of one rank's dense matrices, through LAPACK.
 *
 * Each solver asks LAPACK for its workspace, allocates it, solves a copy, and looks at info. Divide and conquer is
 * tried first; QR iteration takes over if it does not converge.
 */
#include "linalg/dense.h"

#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "linalg/lapack.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- what both solvers need -------------------------------------------------- */

mhas_code mhas_check_finite(const char *what, int64_t rows, int64_t columns, const double *a, mhas_error *error) {
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < columns; j++) {
      if (!isfinite(a[i * columns + j])) {
        return mhas_fail(error, MHAS_NUMERIC,
                         "%s has an entry that is not finite: %g in row %" PRId64 ", column %" PRId64, what,
                         a[i * columns + j], i, j);
      }
    }
  }
  return MHAS_OK;
}

/* out (columns x rows, leading dimension `stride` >= rows) = the transpose of a (rows x columns): row-major becomes
 * column-major. By tiles, so that both sides stay in cache. */
static void transpose(int64_t rows, int64_t columns, const double *a, double *out, int64_t stride) {
  enum { TILE = 16 };
  for (int64_t i0 = 0; i0 < rows; i0 += TILE) {
    for (int64_t j0 = 0; j0 < columns; j0 += TILE) {
      for (int64_t j = j0; j < smaller(j0 + TILE, columns); j++) {
        for (int64_t i = i0; i < smaller(i0 + TILE, rows); i++) {
          out[j * stride + i] = a[i * columns + j];
        }
      }
    }
  }
}

mhas_code mhas_lapack_workspace(double asked, int *length, double **work, mhas_error *error) {
  const double padded = ceil(asked * (1.0 + 2.0 * DBL_EPSILON));
  if (!(padded < INT_MAX)) {
    return mhas_fail(error, MHAS_LIMIT, "LAPACK needs a workspace of %.3g numbers, beyond its 32-bit integers", asked);
  }
  *length = padded < 1.0 ? 1 : (int)padded;
  return mhas_alloc(work, (size_t)*length, sizeof(double), "the workspace of LAPACK", error);
}

mhas_code mhas_lapack_info(const char *routine, int info, bool *converged, mhas_error *error) {
  *converged = info <= 0;
  if (info < 0) {
    return mhas_fail(error, MHAS_INTERNAL, "%s refused its argument %d", routine, -info);
  }
  if (info > 0) {
    return mhas_fail(error, MHAS_NUMERIC, "singular values or eigenvalues did not converge (%s, info %d)", routine,
                     info);
  }
  return MHAS_OK;
}

/* ---- singular values ---------------------------------------------------------- */

/* One call: the workspace query with length -1, or the work itself. Row-major a is LAPACK's m x n transpose, which has
 * the same singular values. Vectors are not wanted, so u and vt are never touched. */
static int values_call(mhas_svd_method method, int m, int n, double *a, double *sigma, double *work, int length,
                       int *integers) {
  const int one = 1;
  double unused = 0.0;
  int info = 0;
  if (method == MHAS_SVD_DIVIDE) {
    dgesdd_("N", &m, &n, a, &m, sigma, &unused, &one, &unused, &one, work, &length, integers, &info, 1);
  } else {
    dgesvd_("N", "N", &m, &n, a, &m, sigma, &unused, &one, &unused, &one, work, &length, &info, 1, 1);
  }
  return info;
}

mhas_code mhas_singular_values_by(mhas_svd_method method, int64_t rows, int64_t columns, const double *a, double *sigma,
                                  bool *converged, mhas_error *error) {
  *converged = true;
  int m = 0;
  int n = 0;
  MHAS_TRY(mhas_narrow(columns, "the number of columns of the matrix", &m, error));
  MHAS_TRY(mhas_narrow(rows, "the number of rows of the matrix", &n, error));
  MHAS_TRY(mhas_check_finite("the matrix", rows, columns, a, error));

  const char *routine = method == MHAS_SVD_DIVIDE ? "DGESDD" : "DGESVD";
  double *copy = NULL;
  double *work = NULL;
  int *integers = NULL;
  mhas_code code = mhas_alloc(&copy, (size_t)rows * (size_t)columns, sizeof *copy, "a copy of the matrix", error);
  if (code == MHAS_OK) {
    code =
        mhas_alloc(&integers, 8 * (size_t)smaller(rows, columns), sizeof *integers, "the workspace of LAPACK", error);
  }
  if (code != MHAS_OK) {
    goto done;
  }
  memcpy(copy, a, (size_t)rows * (size_t)columns * sizeof *copy);
  double asked = 0.0;
  code = mhas_lapack_info(routine, values_call(method, m, n, copy, sigma, &asked, -1, integers), converged, error);
  if (code != MHAS_OK) {
    goto done;
  }
  int length = 0;
  code = mhas_lapack_workspace(asked, &length, &work, error);
  if (code == MHAS_OK) {
    code = mhas_lapack_info(routine, values_call(method, m, n, copy, sigma, work, length, integers), converged, error);
  }
done:
  mhas_free(integers);
  mhas_free(work);
  mhas_free(copy);
  return code;
}

mhas_code mhas_singular_values(int64_t rows, int64_t columns, const double *a, double *sigma, mhas_error *error) {
  bool converged = true;
  mhas_code code = mhas_singular_values_by(MHAS_SVD_DIVIDE, rows, columns, a, sigma, &converged, error);
  if (!converged) {
    code = mhas_singular_values_by(MHAS_SVD_ITERATE, rows, columns, a, sigma, &converged, error);
  }
  return code;
}

double mhas_rank_tolerance(int64_t rows, int64_t columns) { return (double)larger(rows, columns) * DBL_EPSILON; }

int64_t mhas_numerical_rank(const double *sigma, int64_t count, double tolerance) {
  int64_t rank = 0;
  while (rank < count && sigma[rank] > tolerance * sigma[0]) {
    rank++;
  }
  return rank;
}

/* ---- least squares ------------------------------------------------------------- */

typedef struct problem {
  int rows, columns, outputs, stride; /* stride: leading dimension of rhs, max(rows, columns) */
  double tolerance;
  double *a, *rhs; /* column-major; the solution takes the place of rhs */
  double *sigma;
} problem;

static int squares_call(mhas_svd_method method, const problem *s, double *work, int length, int *integers) {
  int info = 0;
  int rank = 0; /* counted again from sigma by whoever wants it */
  if (method == MHAS_SVD_DIVIDE) {
    dgelsd_(&s->rows, &s->columns, &s->outputs, s->a, &s->rows, s->rhs, &s->stride, s->sigma, &s->tolerance, &rank,
            work, &length, integers, &info);
  } else {
    dgelss_(&s->rows, &s->columns, &s->outputs, s->a, &s->rows, s->rhs, &s->stride, s->sigma, &s->tolerance, &rank,
            work, &length, &info);
  }
  return info;
}

/* Asks for the workspace, allocates it and solves. */
static mhas_code squares_solve(mhas_svd_method method, const problem *s, bool *converged, mhas_error *error) {
  const char *routine = method == MHAS_SVD_DIVIDE ? "DGELSD" : "DGELSS";
  double asked = 0.0;
  int asked_integers = 1; /* DGELSS needs none */
  MHAS_TRY(mhas_lapack_info(routine, squares_call(method, s, &asked, -1, &asked_integers), converged, error));
  int length = 0;
  double *work = NULL;
  int *integers = NULL;
  mhas_code code = mhas_lapack_workspace(asked, &length, &work, error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&integers, (size_t)asked_integers, sizeof *integers, "the workspace of LAPACK", error);
  }
  if (code == MHAS_OK) {
    code = mhas_lapack_info(routine, squares_call(method, s, work, length, integers), converged, error);
  }
  mhas_free(integers);
  mhas_free(work);
  return code;
}

mhas_code mhas_least_squares_by(mhas_svd_method method, int64_t rows, int64_t columns, int64_t outputs, const double *a,
                                const double *y, double tolerance, double *b, double *sigma, bool *converged,
                                mhas_error *error) {
  *converged = true;
  problem s = {.tolerance = tolerance, .sigma = sigma};
  MHAS_TRY(mhas_narrow(rows, "the number of rows of the matrix", &s.rows, error));
  MHAS_TRY(mhas_narrow(columns, "the number of columns of the matrix", &s.columns, error));
  MHAS_TRY(mhas_narrow(outputs, "the number of right-hand sides", &s.outputs, error));
  MHAS_TRY(mhas_check_finite("the matrix", rows, columns, a, error));
  MHAS_TRY(mhas_check_finite("the right-hand side", rows, outputs, y, error));
  s.stride = s.rows > s.columns ? s.rows : s.columns;

  mhas_code code = mhas_alloc(&s.a, (size_t)rows * (size_t)columns, sizeof(double), "a copy of the matrix", error);
  if (code == MHAS_OK) {
    code =
        mhas_alloc(&s.rhs, (size_t)s.stride * (size_t)outputs, sizeof(double), "a copy of the right-hand side", error);
  }
  if (code == MHAS_OK) {
    transpose(rows, columns, a, s.a, rows);
    transpose(rows, outputs, y, s.rhs, s.stride);
    code = squares_solve(method, &s, converged, error);
  }
  if (code == MHAS_OK) {
    for (int64_t j = 0; j < columns; j++) {
      for (int64_t k = 0; k < outputs; k++) {
        b[j * outputs + k] = s.rhs[k * s.stride + j];
      }
    }
  }
  mhas_free(s.rhs);
  mhas_free(s.a);
  return code;
}

mhas_code mhas_least_squares(int64_t rows, int64_t columns, int64_t outputs, const double *a, const double *y,
                             double tolerance, double *b, double *sigma, mhas_error *error) {
  bool converged = true;
  mhas_code code =
      mhas_least_squares_by(MHAS_SVD_DIVIDE, rows, columns, outputs, a, y, tolerance, b, sigma, &converged, error);
  if (!converged) {
    code =
        mhas_least_squares_by(MHAS_SVD_ITERATE, rows, columns, outputs, a, y, tolerance, b, sigma, &converged, error);
  }
  return code;
}

/*
 * With m >= n the longer and the shorter side. Bidiagonal form (Golub and Van Loan, Matrix Computations, 4th ed., 5.4.8
 * and 5.4.9): 4 m n^2 - 4/3 n^3 at once, 2 m n^2 + 2 n^3 after a QR factorization; DGELSD chooses about as the smaller.
 * Its two factors and the n x n singular vectors' compact form are then applied to the right-hand sides.
 */
double mhas_least_squares_flops(int64_t rows, int64_t columns, int64_t outputs) {
  const double m = (double)larger(rows, columns);
  const double n = (double)smaller(rows, columns);
  const double at_once = 4.0 * m * n * n - 4.0 / 3.0 * n * n * n;
  const double after_qr = 2.0 * m * n * n + 2.0 * n * n * n;
  return fmin(at_once, after_qr) + 8.0 * m * n * (double)outputs;
}

/* The copies, and DGELSD's workspace: some hundred numbers and one row of right-hand sides per singular value, and the
 * square factor of a wide matrix. */
double mhas_least_squares_bytes(int64_t rows, int64_t columns, int64_t outputs) {
  const double m = (double)rows;
  const double n = (double)columns;
  const double least = fmin(m, n);
  const double square = n > 1.6 * m ? m * m : 0.0;
  return sizeof(double) * (m * n + fmax(m, n) * (double)outputs + square + least * (200.0 + (double)outputs));
}
