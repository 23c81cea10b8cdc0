/*
 * A few eigenvalues of a large symmetric matrix of which only products with vectors are known, and the point of least
 * norm in a polytope. Not reentrant: ARPACK keeps its state to itself between the products of one call.
 */
#ifndef MHASWEEP_EIGEN_H
#define MHASWEEP_EIGEN_H

#include <mpi.h>

#include "mhasweep/base.h"

/* y = A x, A symmetric. x and y hold this rank's `size` numbers; collective if the matrix is spread over ranks. */
typedef mhas_code mhas_product(void *context, const double *x, double *y, mhas_error *error);

typedef enum mhas_end { MHAS_SMALLEST, MHAS_LARGEST } mhas_end; /* algebraically */

typedef struct mhas_eigen_problem {
  int64_t size;  /* of this rank's part of a vector; all ranks' parts, in their order, make the vector */
  MPI_Comm comm; /* MPI_COMM_NULL: this rank alone, without MPI */
  mhas_product *product;
  void *context;
  mhas_random random;    /* of the first vector, see mhas_random_stream in base.h */
  double tolerance;      /* of a value, relative to the largest |eigenvalue|; > 0 */
  int64_t products_most; /* give up behind so many */
} mhas_eigen_problem;

/* What was found: value, and residual ||A v - value v|| with the unit vector v, computed anew with one more product.
 * The matrix has an eigenvalue within `residual` of `value`. */
typedef struct mhas_eigen {
  double value, residual;
} mhas_eigen;

/*
 * The `count` outermost eigenvalues at one end, outermost first; those of a multiple one may be found once only.
 * vectors (count, size), unit, may be NULL. *products: how many were made. Thick-restarted Lanczos (ARPACK's DSAUPD by
 * reverse communication, PARPACK's where comm is given); a matrix of a few rows is made whole and given to LAPACK's
 * DSYEV. MHAS_NUMERIC if products_most were not enough or a product is not finite. Collective over comm; the same bits
 * for the same number of ranks.
 */
mhas_code mhas_eigen_ends(const mhas_eigen_problem *problem, mhas_end end, int count, mhas_eigen *found,
                          double *vectors, int64_t *products, mhas_error *error);

/*
 * min sqrt(q^T K q) over q >= 0, sum q = 1, for K (n, n) symmetric and positive semi-definite: the distance of the
 * origin from the polytope whose corners have K as their Gram matrix, which is the margin of a hard support vector
 * machine without a bias whose samples y_i f_i are the corners. `upper` is what q attains, `lower` = max(0, min_i (K
 * q)_i / upper) a bound that no q can go below (weak duality); they meet to `tolerance` relative or within K's
 * rounding, or MHAS_NUMERIC. q (n) may be NULL.
 */
typedef struct mhas_margin {
  double lower, upper;
  int64_t steps;
} mhas_margin;
mhas_code mhas_least_norm(int64_t n, const double *K, double tolerance, double *q, mhas_margin *margin,
                          mhas_error *error);

#endif
