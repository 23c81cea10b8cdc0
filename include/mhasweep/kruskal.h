/*
 * Which vectors are linearly independent: of sequences, every prefix at once; of sets, an upper bound on the Kruskal
 * rank (the largest k such that any k of them are independent) with the dependent subset that proves it.
 *
 * Vectors are rows of d doubles. "Independent" is what the standard test of numerical rank says of k rows of dim d:
 * sigma_k > max(k, d) eps sigma_1, where eps is that of float32 (torch.linalg.matrix_rank on float32, as in arXiv
 * 2306.02010) or of float64. Nothing here is collective.
 */
#ifndef MHASWEEP_KRUSKAL_H
#define MHASWEEP_KRUSKAL_H

#include "mhasweep/base.h"

/* max(k, d) eps for k <= d. */
double mhas_tolerance_float32(int64_t dim);
double mhas_tolerance_float64(int64_t dim);

/* ---- one sequence: every prefix from one factorization ---- */

typedef struct mhas_prefix mhas_prefix;

/* Space for sequences of up to `most` <= d vectors. The caller destroys *prefix. MHAS_LIMIT beyond LAPACK's integers.
 */
mhas_code mhas_prefix_create(int64_t most, int64_t dim, mhas_prefix **prefix, mhas_error *error);
void mhas_prefix_destroy(mhas_prefix *prefix); /* NULL is fine */

/* Factorizes the rows order[0] .. order[count - 1] of X (., d); order NULL: rows 0, 1 ... One Householder QR without
 * pivoting: its R begins with the R of every prefix. The numbers have to be finite. */
mhas_code mhas_prefix_factor(mhas_prefix *prefix, const double *X, const int64_t *order, int64_t count,
                             mhas_error *error);

/*
 * How many of the factorized vectors, from the first on, are independent at this relative tolerance. Singular values of
 * prefixes come from incremental condition estimation (Bischof 1990, LAPACK's DLAIC1) on R, which can only call a
 * prefix independent too long; where it is within a factor of 30 of the tolerance, inverse iteration with R decides.
 */
int64_t mhas_prefix_independent(mhas_prefix *prefix, double tolerance);

/* The combination of vectors 0 .. k - 1 that comes nearest to vector k; c has k numbers. Those k are independent. */
void mhas_prefix_combination(const mhas_prefix *prefix, int64_t k, double *c);

double mhas_prefix_flops(int64_t count, int64_t dim);
double mhas_prefix_bytes(int64_t most, int64_t dim);

/* ---- sets ---- */

typedef struct mhas_vectors {
  int64_t count, dim;
  const double *X; /* (count, dim), finite */
  mhas_random random;
  /* As mhas_task's: asked between steps of some milliseconds. */
  mhas_code (*proceed)(void *context, mhas_error *error);
  void *context;
} mhas_vectors;

/* A dependent subset; `count` rows, ascending. 0: none is known. */
typedef struct mhas_dependent {
  int64_t count;
  int64_t *rows; /* [dim + 1] */
} mhas_dependent;

/* Any dim + 1 vectors are dependent: the first ones, if there are as many. To be freed also after a failure. */
mhas_code mhas_dependent_create(const mhas_vectors *vectors, mhas_dependent *dependent, mhas_error *error);
void mhas_dependent_free(mhas_dependent *dependent);

/* The bound that it proves: one less than its size; without one, the number of vectors. */
int64_t mhas_kruskal_upper(const mhas_vectors *vectors, const mhas_dependent *dependent);

/*
 * `orders` random orders: independent[i][k], k = 0 .. most <= min(count, dim), counts those whose first k vectors are
 * independent at tolerances[i]. An order begins with a uniform random sequence without repetition, so that its first k
 * are a uniform random k-subset. `smallest` (or NULL) takes smaller dependent subsets that show up at certify.
 */
mhas_code mhas_kruskal_orders(const mhas_vectors *vectors, int64_t most, int64_t orders, int tolerance_count,
                              const double *tolerances, int64_t *independent, double certify, mhas_dependent *smallest,
                              mhas_error *error);

/*
 * Looks for small dependent subsets where they hide: zero vectors; parallel ones; three in a plane, with each of the
 * first `anchors` vectors; larger ones, among the nearest neighbours of each of those (nearest by angle after
 * whitening, so that members of a common subspace stand out). What is found is reduced to its smallest part and
 * confirmed by its singular values, all vectors at length one. The first three are found for certain if the first
 * vector of each is an anchor.
 */
mhas_code mhas_kruskal_search(const mhas_vectors *vectors, int64_t anchors, double tolerance, mhas_dependent *smallest,
                              mhas_error *error);

double mhas_kruskal_search_flops(int64_t count, int64_t dim, int64_t anchors);
double mhas_kruskal_search_bytes(int64_t count, int64_t dim);

#endif
