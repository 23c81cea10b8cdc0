/*
 * Small products of one shape, many times over: prepared once, by libxsmm where it is there and can, else left to BLAS.
 * In the precision of real.h.
 *
 * libxsmm makes its kernels for the CPU that it finds (LIBXSMM_TARGET overrides that), as OpenBLAS picks its own
 * (OPENBLAS_CORETYPE): both round in ways of their own, so bits are the same on equal CPUs with equal settings,
 * whatever the number of ranks. It keeps up to 131072 kernels, a model takes 11 and equal ones are shared: thousands of
 * shapes fit.
 */
#ifndef MHASWEEP_MODEL_PRODUCT_H
#define MHASWEEP_MODEL_PRODUCT_H

#include <stddef.h>

#include "model/real.h"
#include "model/small.h"

#if MHASWEEP_XSMM
#include <libxsmm.h>
#if REAL_IS_FLOAT
#define REAL_XSMM_DISPATCH libxsmm_smmdispatch
typedef libxsmm_smmfunction xsmm_kernel;
#else
#define REAL_XSMM_DISPATCH libxsmm_dmmdispatch
typedef libxsmm_dmmfunction xsmm_kernel;
#endif

/* libxsmm is column-major, so operands change places; it can turn our a, not our b. */
static inline void find_kernel(product *p) {
  const libxsmm_blasint lda = (libxsmm_blasint)p->ldb;
  const libxsmm_blasint ldb = (libxsmm_blasint)p->lda;
  const libxsmm_blasint ldc = (libxsmm_blasint)p->ldc;
  const real alpha = 1;
  const real beta = p->adds ? 1 : 0;
  const int flags = p->a_turned ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
  const int prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
  const double most = 128.0 * 128.0 * 128.0; /* up to here it is the faster one, as its authors say */
  if ((double)p->m * (double)p->n * (double)p->k <= most) {
    p->kernel = (void (*)(void))REAL_XSMM_DISPATCH((libxsmm_blasint)p->n, (libxsmm_blasint)p->m, (libxsmm_blasint)p->k,
                                                   &lda, &ldb, &ldc, &alpha, &beta, &flags, &prefetch);
  }
}
#else
static inline void find_kernel(product *p) { p->kernel = NULL; }
#endif

/* c (m x n) = op(a) b, or += if `adds`; row-major with leading dimensions. */
static inline product product_of(bool adds, turn a_turn, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb,
                                 int64_t ldc) {
  product p = {.a_turned = a_turn == TURNED, .adds = adds, .m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc};
  find_kernel(&p);
  return p;
}

static inline void multiply(const product *p, const real *a, const real *b, real *c) {
#if MHASWEEP_XSMM
  if (p->kernel != NULL) {
    ((xsmm_kernel)p->kernel)(b, a, c);
    return;
  }
#endif
  gemm(p->a_turned ? TURNED : AS_IS, AS_IS, p->m, p->n, p->k, 1, a, p->lda, b, p->ldb, p->adds ? 1 : 0, c, p->ldc);
}

#endif
