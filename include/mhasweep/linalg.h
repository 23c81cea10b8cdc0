/*
 * Dense linear algebra: the BLAS under it, matrices of one rank, and matrices spread over a team of ranks.
 *
 * The first two sections are not collective; in the others every function says what it is. LAPACK's and ScaLAPACK's
 * info is always looked at; sizes are 64-bit here and narrowed in one place.
 */
#ifndef MHASWEEP_LINALG_H
#define MHASWEEP_LINALG_H

#include <mpi.h>

#include "mhasweep/base.h"

/* ---- which BLAS kernels run ------------------------------------------------ */

/* Cores go by the names OpenBLAS uses: "Prescott", "Haswell", "SkylakeX" ... */
const char *mhas_blas_core(void);         /* in use now; "unknown" with another BLAS */
const char *mhas_blas_core_for_cpu(void); /* to be used instead; NULL if the one in use is right or nothing is known */
const char *mhas_blas_library(void);      /* version and build options in one line */
const char *mhas_blas_path(void);         /* of the library that dgemm_ really comes from */
const char *mhas_cblas_path(void);        /* of the library that cblas_dgemm comes from; the same, if all is well */
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

/* ---- grids: a team of ranks as rows and columns ------------------------------- */

/*
 * A BLACS process grid on a communicator, for matrices in square blocks that are dealt out to it like cards. Collective
 * calls are to be made by all ranks of the grid's communicator, with equal arguments unless said otherwise, and return
 * the same code and the same error on all of them. Sums run in an order that depends on nothing but the grid's shape,
 * so the same shape gives the same bits.
 */
typedef struct mhas_grid mhas_grid;

enum { MHAS_GRID_BLOCK = 64 }; /* rows and columns of a block, unless a grid is made with others */

/* The shape that `ranks` ranks get: as near to a square as uses all of them, rows <= columns. Not collective. */
void mhas_grid_shape(int ranks, int *rows, int *columns);

/* Collective over comm, which is borrowed and has to outlive the grid. block: 0 for MHAS_GRID_BLOCK. */
mhas_code mhas_grid_create(MPI_Comm comm, int block, mhas_grid **grid, mhas_error *error);
void mhas_grid_destroy(mhas_grid *grid); /* collective; NULL is fine */

/*
 * From here on long calls ask this about once a block of columns, each rank its own; what is not MHAS_OK ends the call
 * on every rank with that code. NULL: never. Not collective.
 */
void mhas_grid_watch(mhas_grid *grid, mhas_code (*proceed)(void *context, mhas_error *error), void *context);
mhas_code mhas_grid_proceed(const mhas_grid *grid, mhas_error *error); /* asks on all ranks; collective */

/* Collective: MHAS_OK if every rank says so; else the code and the error of the first rank that does not, on all. */
mhas_code mhas_grid_agree(const mhas_grid *grid, mhas_code code, mhas_error *error);

/* Collective: the sum of each of `count` integers over the ranks, in place. */
mhas_code mhas_grid_sum(const mhas_grid *grid, int64_t *values, int count, mhas_error *error);

/* ---- block-cyclic matrices ----------------------------------------------------- */

/*
 * Block (I, J) of a matrix (rows x columns) lives on grid row I mod p, grid column J mod q. A rank's blocks together
 * are one local matrix, column-major: what it has of column c starts at local + c stride.
 */
typedef struct mhas_cyclic {
  const mhas_grid *grid;
  int64_t rows, columns;
  int64_t local_rows, local_columns, stride;
  double *local;
  int descriptor[9]; /* ScaLAPACK's */
} mhas_cyclic;

/* MHAS_LIMIT, with how many ranks would do, if the local part of such a matrix on so many ranks, or the workspaces for
 * it, are beyond ScaLAPACK's 32-bit integers. block: 0 for MHAS_GRID_BLOCK. Not collective. */
mhas_code mhas_cyclic_check(int64_t rows, int64_t columns, int ranks, int block, const char *what, mhas_error *error);

/* All zero; rows, columns >= 1. To be freed also after a failure. Collective. */
mhas_code mhas_cyclic_create(const mhas_grid *grid, int64_t rows, int64_t columns, const char *what, mhas_cyclic *a,
                             mhas_error *error);
void mhas_cyclic_free(mhas_cyclic *a); /* not collective */

/* Where local row r or column c stands in the whole matrix; how many local rows or columns stand before a row or column
 * of the whole. Not collective. */
int64_t mhas_cyclic_row(const mhas_cyclic *a, int64_t local_row);
int64_t mhas_cyclic_column(const mhas_cyclic *a, int64_t local_column);
int64_t mhas_cyclic_rows_before(const mhas_cyclic *a, int64_t row);
int64_t mhas_cyclic_columns_before(const mhas_cyclic *a, int64_t column);

/*
 * Calls `fill` once for each block that this rank has: it is to set entries (row + i, column + j), i < rows, j <
 * columns, at block[i + j stride]. So no rank makes more than its own part. Collective (for the code alone).
 */
typedef mhas_code (*mhas_cyclic_filler)(void *context, int64_t row, int64_t rows, int64_t column, int64_t columns,
                                        double *block, int64_t stride, mhas_error *error);
mhas_code mhas_cyclic_fill(mhas_cyclic *a, mhas_cyclic_filler fill, void *context, mhas_error *error);

/* Rows row .. row + rows - 1 and such columns, bit for bit, row-major, into `out` of every rank. Collective. */
mhas_code mhas_cyclic_read(const mhas_cyclic *a, int64_t row, int64_t rows, int64_t column, int64_t columns,
                           double *out, mhas_error *error);

/* The Frobenius norm. MHAS_NUMERIC if an entry is not finite. Collective. */
mhas_code mhas_cyclic_norm(const mhas_cyclic *a, double *norm, mhas_error *error);

/*
 * y becomes z x - y, for z (M x N), x (N x K), y (M x K); *backward, if not NULL, the norm of that by ||z|| ||x|| +
 * ||y||: of the order of eps if x solves z x = y as well as rounding lets it. Collective.
 */
mhas_code mhas_cyclic_residual(const mhas_cyclic *z, const mhas_cyclic *x, mhas_cyclic *y, double *backward,
                               mhas_error *error);

/*
 * The singular values of a, min(rows, columns) of them, descending, into sigma of every rank; a is destroyed. By
 * PDGESVD, or DGESDD on a grid of one rank: exact to rounding, and some ten times the work of a QR factorization.
 * Eigenvalues of the smaller Gram matrix would be cheaper, but lose half of the digits, and with them the rank.
 * Collective.
 */
mhas_code mhas_cyclic_singular_values(mhas_cyclic *a, double *sigma, mhas_error *error);

/* ---- rank and least squares of block-cyclic matrices ------------------------------ */

typedef enum mhas_qr_method {
  MHAS_QR_RANDOMIZED, /* pivots by the block from a random sketch: about as fast as QR without pivots */
  MHAS_QR_PIVOTED     /* PDGEQPF, or DGEQP3 on a grid of one rank: pivots column by column, several times slower */
} mhas_qr_method;

/* a P = Q R, where the diagonal of R falls in size (about, if randomized). */
typedef struct mhas_qr mhas_qr;

/*
 * Factors *a in its own storage, which *qr borrows until it is destroyed; neither may be written meanwhile. The
 * randomized method stops where what is left is far below tolerance times the largest singular value; `random` seeds
 * its sketch (and the start of the iterations that estimate singular values). MHAS_NUMERIC: an entry is not finite.
 * Collective.
 *
 * Source: Duersch and Gu, "Randomized QR with column pivoting", SIAM J. Sci. Comput. 39 (2017), arXiv 1509.06820.
 */
mhas_code mhas_qr_create(mhas_qr_method method, mhas_cyclic *a, double tolerance, mhas_random random, mhas_qr **qr,
                         mhas_error *error);
void mhas_qr_destroy(mhas_qr *qr); /* not collective; NULL is fine */

double mhas_qr_largest(const mhas_qr *qr);         /* the largest singular value, mostly to 0.3 %, from below */
int64_t mhas_qr_steps(const mhas_qr *qr);          /* columns that were factored */
const double *mhas_qr_diagonal(const mhas_qr *qr); /* [steps] |R_ii| */
const int64_t *mhas_qr_columns(const mhas_qr *qr); /* [columns of a] which column of a stands in each place of a P */

/*
 * ranks[i]: how many singular values of a are above tolerances[i] * mhas_qr_largest; each of the `count` tolerances at
 * least that of the factorization. The diagonal of R alone can be wrong about that (Kahan's matrix; slow decay). So
 * singular values near a tolerance are looked for: if the smallest one of the leading triangle and the norm of what
 * follows leave no doubt, that is all; else the part of R in doubt is separated from the rest, on a copy, and its
 * singular values are computed, once for all tolerances. Where a tolerance falls into a slow decay, much of R is in
 * doubt, and that takes several times as long as the factorization. Values within about 1 % of a tolerance may be
 * counted on either side. Collective.
 */
mhas_code mhas_qr_ranks(const mhas_qr *qr, const double *tolerances, int count, int64_t *ranks, mhas_error *error);

/*
 * The least-squares solution of smallest norm of a x = y, taking a to be of this rank <= steps: x (columns of a x K),
 * y (rows of a x K, destroyed). MHAS_NUMERIC if an entry of y is not finite. Collective.
 */
mhas_code mhas_qr_solve(mhas_qr *qr, int64_t rank, mhas_cyclic *y, mhas_cyclic *x, mhas_error *error);

/* For one of `ranks` ranks: floating-point operations, and the most bytes it holds at a time, of rank and least squares
 * with `outputs` right-hand sides, the matrices included. Not collective. */
double mhas_qr_flops(int64_t rows, int64_t columns, int64_t outputs, int ranks);
double mhas_qr_bytes(int64_t rows, int64_t columns, int64_t outputs, int ranks);

#endif
