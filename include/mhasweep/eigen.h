/*
 * A few eigenvalues of a large symmetric matrix of which only products with vectors are known, and the point of least
 * norm in a polytope. Not reentrant: ARPACK keeps its state to itself between the products of one call.
 */
#ifndef MHASWEEP_EIGEN_H
#define MHASWEEP_EIGEN_H

#include <mpi.h>

#include "mhasweep/base.h"

/* y = A x, A symmetric. x and y hold this rank's `size` numbers, which may be none. Collective if the matrix is spread
 * over ranks, and then with the same code on all of them. */
typedef mhas_code mhas_product(void *context, const double *x, double *y, mhas_error *error);

typedef enum mhas_end { MHAS_SMALLEST, MHAS_LARGEST } mhas_end; /* algebraically */

typedef struct mhas_eigen_problem {
  int64_t size;  /* of this rank's part of a vector; all ranks' parts, in their order, make the vector */
  MPI_Comm comm; /* MPI_COMM_NULL: this rank alone, without MPI; MPI_COMM_SELF gives the same bits */
  mhas_product *product;
  void *context;
  /*
   * NULL, but where several ranks do all this, each for itself and all alike, with a product that is collective though
   * comm is MPI_COMM_NULL: collective too, with `context` the product's; the same code on all, MHAS_OK if all say so.
   */
  mhas_code (*agree)(void *context, mhas_code code, mhas_error *error);
  mhas_random random;    /* of the first vector (MHAS_STREAM_EIGEN_START) */
  double tolerance;      /* of a value, relative to the largest |eigenvalue|; > 0 */
  int64_t products_most; /* give up behind so many; some 100 to 500 are usual, and `size` if that is less */
} mhas_eigen_problem;

/* What was found: value, and residual ||A v - value v|| with the unit vector v, computed anew with one more product.
 * The matrix has an eigenvalue within `residual` of `value`. */
typedef struct mhas_eigen {
  double value, residual;
} mhas_eigen;

/*
 * The `count` outermost eigenvalues at one end, outermost first; those of a multiple one may be found once only.
 * vectors (count, size), orthonormal, may be NULL. *products: how many were made. Thick-restarted Lanczos (ARPACK's
 * DSAUPD by reverse communication, PARPACK's where comm is given); a matrix of a few rows is made whole and given to
 * LAPACK's DSYEV. MHAS_NUMERIC if products_most were not enough or a product is not finite. Memory: max(40, 2 count +
 * 16) + 5 vectors. Collective over comm, with the same code on all ranks; the same bits for the same number of ranks,
 * whatever was computed before.
 */
mhas_code mhas_eigen_ends(const mhas_eigen_problem *problem, mhas_end end, int count, mhas_eigen *found,
                          double *vectors, int64_t *products, mhas_error *error);

/* All eigenvalues of a (n, n), symmetric and in memory, ascending, by LAPACK's DSYEV on a copy: 4/3 n^3 operations. The
 * lower triangle is read. MHAS_NUMERIC if it is not finite. Not collective. */
mhas_code mhas_symmetric_values(int64_t n, const double *a, double *values, mhas_error *error);

/*
 * min sqrt(q^T K q) over q >= 0, sum q = 1, for K (n, n) symmetric and positive semi-definite: the distance of the
 * origin from the polytope whose corners have K as their Gram matrix, which is the margin of a hard support vector
 * machine without a bias whose samples y_i f_i are the corners. `upper` is what q attains, `lower` = max(0, min_i (K
 * q)_i / upper) a bound that no q can go below (weak duality); they meet to `tolerance` relative or to sqrt(n eps max_i
 * K_ii), which rounding of K makes of a margin near 0, or MHAS_NUMERIC. q (n) may be NULL. Wolfe's method, at most
 * about as many steps as there are support vectors, n^2 operations each. Memory: n^2 numbers. MHAS_NUMERIC also where K
 * is not finite or has a negative diagonal.
 */
typedef struct mhas_margin {
  double lower, upper;
  int64_t steps;
} mhas_margin;
mhas_code mhas_least_norm(int64_t n, const double *K, double tolerance, double *q, mhas_margin *margin,
                          mhas_error *error);

#endif
