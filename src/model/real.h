/*
 * Kernels are written once, for a number type REAL, and compiled twice: a file that wants them defines REAL_IS_FLOAT as
 * 1 (float) or 0 (double) and then includes the kernels' headers.
 */
#ifndef MHASWEEP_MODEL_REAL_H
#define MHASWEEP_MODEL_REAL_H

#include <cblas.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "model/lanes.h"

#if REAL_IS_FLOAT
typedef float real;
#define REAL_NAME(name) name##_float
#define REAL_GEMM cblas_sgemm
#define REAL_EXP expf
#define REAL_SQRT sqrtf
#define REAL_TANH tanhf
#else
typedef double real;
#define REAL_NAME(name) name##_double
#define REAL_GEMM cblas_dgemm
#define REAL_EXP exp
#define REAL_SQRT sqrt
#define REAL_TANH tanh
#endif

typedef enum turn { AS_IS = CblasNoTrans, TURNED = CblasTrans } turn;

/* Products up to so many multiplications take BLAS longer to prepare than to form. */
#define SMALL_PRODUCT 16384

/* c (m x n) = alpha op(a) op(b) + beta c, row-major with leading dimensions. Sizes are known to fit an int: the checks
 * of model.h have seen them. */
static inline void gemm(turn a_turn, turn b_turn, int64_t m, int64_t n, int64_t k, real alpha, const real *a,
                        int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc) {
  if (k <= LANES_PRODUCT_DEPTH && m * n * k <= SMALL_PRODUCT) {
    REAL_NAME(mhas_lanes_here)
    ()->product(a_turn == TURNED, b_turn == TURNED, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    return;
  }
  REAL_GEMM(CblasRowMajor, (CBLAS_TRANSPOSE)a_turn, (CBLAS_TRANSPOSE)b_turn, (int)m, (int)n, (int)k, alpha, a, (int)lda,
            b, (int)ldb, beta, c, (int)ldc);
}

#endif
