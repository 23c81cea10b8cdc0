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

/*
 * The best approximation of a (rows x columns) by a product left right^T of a rank of at most `rank` (Eckart and Young
 * 1936): left is rows x rank, right is columns x rank, and the singular values are shared evenly between the two.
 * Columns beyond min(rows, columns) are zero.
 */
mhas_code mhas_low_rank(int64_t rows, int64_t columns, int64_t rank, const double *a, double *left, double *right,
                        mhas_error *error);

/* ---- which rows are independent ---------------------------------------------- */

/* Fills in `count` rows of a matrix from number `first` on. */
typedef mhas_code mhas_rows_source(void *context, int64_t first, int64_t count, double *rows, mhas_error *error);

/*
 * How many of the first `most` rows are linearly independent: the number of the first row that is, to rounding, a
 * combination of those before it. One Householder QR of the rows in their order, which ends at that row; rows are asked
 * for once, in order, and there are never more than `columns` of them. The distance of a row from the span of those
 * before it counts as rounding up to mhas_rank_tolerance times the Frobenius norm of all so far.
 */
mhas_code mhas_independent_rows(int64_t most, int64_t columns, mhas_rows_source *source, void *context,
                                int64_t *independent, double *flops, mhas_error *error);

/*
 * The ranks of growing leading blocks of a (rows x columns): ranks[i] is that of the first row_ends[i] rows and
 * column_ends[i] columns; both must not descend. Distances from a span of at most `rounding` count as zero. One QR for
 * all blocks: new columns are eliminated against the triangle of the rows that were found independent, and what is left
 * of the others is factored with pivoting (DTPQRT, DGEQP3).
 */
mhas_code mhas_nested_ranks(int64_t rows, int64_t columns, const double *a, int64_t blocks, const int64_t *row_ends,
                            const int64_t *column_ends, double rounding, int64_t *ranks, mhas_error *error);
double mhas_nested_ranks_bytes(int64_t rows, int64_t columns); /* that it allocates meanwhile */

#endif
