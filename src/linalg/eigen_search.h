/* What the files of mhas_eigen_ends share: a search while it goes on. All calls but mhas_eigen_basis are collective. */
#ifndef MHASWEEP_LINALG_EIGEN_SEARCH_H
#define MHASWEEP_LINALG_EIGEN_SEARCH_H

#include "mhasweep/eigen.h"

typedef struct eigen_search {
  const mhas_eigen_problem *problem;
  mhas_end end;
  int count;
  bool alone;           /* one rank: ARPACK instead of PARPACK, whose sums have other bits */
  int64_t total, first; /* rows of the matrix; the first of this rank's */
  int64_t products;
  double *vectors; /* (count, size) */
  mhas_error *error;
} eigen_search;

/* The sums over all ranks, in place. */
mhas_code mhas_eigen_sum(const eigen_search *s, double *values, int count);
/* The largest of all ranks' codes, on all. A rank that had no error of its own says that another had. */
mhas_code mhas_eigen_agree(const eigen_search *s, mhas_code code);
/* The product of two spread vectors. */
mhas_code mhas_eigen_dot(const eigen_search *s, const double *x, const double *y, double *product);
/* y = A x; x (size), y (size). */
mhas_code mhas_eigen_multiply(eigen_search *s, const double *x, double *y);

/* The outermost vectors into s->vectors: from the whole matrix, if it is small, or by ARPACK. */
mhas_code mhas_eigen_whole(eigen_search *s);
mhas_code mhas_eigen_lanczos(eigen_search *s);
/* Lanczos vectors for so many eigenvalues. */
int64_t mhas_eigen_basis(int count);

#endif
