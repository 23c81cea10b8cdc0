/*
 * Dense linear algebra for one rank, and the BLAS under it.
 *
 * Not collective. LAPACK's info is always looked at; sizes are 64-bit here and narrowed in one place.
 */
#ifndef MHASWEEP_LINALG_H
#define MHASWEEP_LINALG_H

#include "mhasweep/base.h"

/* ---- which BLAS kernels run ------------------------------------------------ */

/* Cores go by the names OpenBLAS uses: "Prescott", "Haswell", "SkylakeX" ... */
const char *mhas_blas_core(void);         /* in use now; "unknown" with another BLAS */
const char *mhas_blas_core_for_cpu(void); /* to be used instead; NULL if the one in use is right or nothing is known */
const char *mhas_blas_library(void);      /* version and build options in one line */
const char *mhas_blas_path(void);         /* of the library that dgemm_ really comes from */
const char *mhas_scalapack_path(void);    /* of the library that pdgemm_ comes from */
const char *mhas_scalapack_blas_path(
    void); /* of the library that this ScaLAPACK takes dgemm_ from; the same, if all is well */

/*
 * If OpenBLAS fell back to kernels far below what the CPU can do, and the user has not chosen (OPENBLAS_CORETYPE), sets
 * the variable and executes the program again with the same arguments; does not return then. To be called before
 * MPI_Init and before BLAS does work. Sets one BLAS thread unless OPENBLAS_NUM_THREADS or OMP_NUM_THREADS says
 * otherwise. `quiet`: no line on stderr about it. If the program cannot be executed again, that is an error, but
 * everything works, slowly.
 */
mhas_code mhas_blas_setup(char **argv, bool quiet, mhas_error *error);
int mhas_blas_threads(void); /* 1 if BLAS does not tell */

/* ---- dense matrices: singular values, rank, least squares ------------------- */

/*
 * Matrices are double, row-major and contiguous; none is changed. MHAS_NUMERIC: an entry is not finite, or neither
 * method of LAPACK converged. MHAS_LIMIT: a size is beyond LAPACK's 32-bit integers.
 */

/* The singular values of a (rows x columns), min(rows, columns) of them, descending. No vectors are computed. */
mhas_code mhas_singular_values(int64_t rows, int64_t columns, const double *a, double *sigma, mhas_error *error);

/* max(rows, columns) eps: what numpy and MATLAB take for the relative size of a singular value that is mere rounding.
 */
double mhas_rank_tolerance(int64_t rows, int64_t columns);

/* How many of `count` descending singular values are above tolerance * sigma[0]. */
int64_t mhas_numerical_rank(const double *sigma, int64_t count, double tolerance);

/*
 * The least-squares solution of smallest norm: b (columns x outputs) minimises ||a b - y|| and then ||b|| (Frobenius),
 * for a (rows x columns) of any rank and y (rows x outputs). Singular values at most tolerance * sigma[0] count as
 * zero. sigma gets all singular values of a, as above. The method is LAPACK's DGELSD: bidiagonal form, then divide and
 * conquer, so that singular vectors are never formed.
 */
mhas_code mhas_least_squares(int64_t rows, int64_t columns, int64_t outputs, const double *a, const double *y,
                             double tolerance, double *b, double *sigma, mhas_error *error);

/* Floating-point operations of mhas_least_squares, and the bytes it allocates meanwhile. */
double mhas_least_squares_flops(int64_t rows, int64_t columns, int64_t outputs);
double mhas_least_squares_bytes(int64_t rows, int64_t columns, int64_t outputs);

#endif
