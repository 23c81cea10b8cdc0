/* Small dense matrices, row-major: what the mean-field loss and its landscape share. */
#ifndef MHASWEEP_MODEL_MEANFIELD_ALGEBRA_H
#define MHASWEEP_MODEL_MEANFIELD_ALGEBRA_H

#include <cblas.h>

#include "mhasweep/base.h"

typedef enum small_turn { AS_IS = CblasNoTrans, TURNED = CblasTrans } small_turn;

/* c (m x n) = factor op(a) op(b) + keep c; a is (m x k), or (k x m) if it is turned, b alike. */
static inline void small_multiply(small_turn a_turn, small_turn b_turn, int64_t m, int64_t n, int64_t k, double factor,
                                  const double *a, const double *b, double keep, double *c) {
  cblas_dgemm(CblasRowMajor, (CBLAS_TRANSPOSE)a_turn, (CBLAS_TRANSPOSE)b_turn, (int)m, (int)n, (int)k, factor, a,
              (int)(a_turn == TURNED ? m : k), b, (int)(b_turn == TURNED ? k : n), keep, c, (int)n);
}

static inline double small_trace(int64_t n, const double *a) {
  double sum = 0.0;
  for (int64_t i = 0; i < n; i++) {
    sum += a[i * n + i];
  }
  return sum;
}

/* sum_ij a_ij b_ij */
static inline double small_inner(int64_t count, const double *a, const double *b) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; i++) {
    sum += a[i] * b[i];
  }
  return sum;
}

/* Numbers of work that the following need. */
static inline int64_t small_eigen_work(int64_t n) { return 3 * n * n + 40 * n; }

/* Eigenvalues of the symmetric a (n x n), ascending; row i of vectors (n x n) is the eigenvector of the i-th; vectors
 * may be a. MHAS_NUMERIC, naming `what`, if an entry is not finite. */
mhas_code mhas_small_eigen(const char *what, int64_t n, const double *a, double *values, double *vectors, double *work,
                           mhas_error *error);

/*
 * inverse (n x n; not a) of the symmetric a + shift I, without the eigenvalues up to cut_off times the largest, which
 * are left out; values (n) are those of a. Returns how many are kept in *rank.
 */
mhas_code mhas_small_inverse(const char *what, int64_t n, const double *a, double shift, double cut_off,
                             double *inverse, double *values, int64_t *rank, double *work, mhas_error *error);

#endif
