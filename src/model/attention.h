/*
 * Attention of queries on one context, in the precision of real.h: the plain kernels that everything faster is compared
 * with. No key is projected: the query comes as u = W_K W_Q^T x, in the space of the context's rows.
 *
 * R rows (queries: the heads of a sample, or those of all samples that share the context), n context rows, d dim.
 */
#ifndef MHASWEEP_MODEL_ATTENTION_H
#define MHASWEEP_MODEL_ATTENTION_H

#include "model/real.h"

/* theta (R, n): logits become softmax weights, row by row. */
static inline void softmax_forward(int64_t R, int64_t n, real *theta) {
  REAL_NAME(mhas_lanes_here)()->softmax(R, n, 1, theta, n, theta, NULL);
}

/* d_theta (R, n), the gradient with respect to theta, becomes that with respect to the logits:
 * theta_i (d_theta_i - sum_j theta_j d_theta_j). */
static inline void softmax_backward(int64_t R, int64_t n, const real *theta, real *d_theta) {
  REAL_NAME(mhas_lanes_here)()->softmax_back(R, n, 1, theta, d_theta, n);
}

/* theta (R, n) = softmax(scale u K^T), z (R, d) = theta K, for u (R, d) and the context K (n, d). */
static inline void attention_forward(int64_t R, int64_t n, int64_t d, real scale, const real *u, const real *K,
                                     real *theta, real *z) {
  gemm(AS_IS, TURNED, R, n, d, scale, u, d, K, d, 0, theta, n);
  softmax_forward(R, n, theta);
  gemm(AS_IS, AS_IS, R, d, n, 1, theta, n, K, d, 0, z, d);
}

/*
 * From d_z (R, d): d_u (R, d) is set, and d_K (n, d) is set too; d_theta (R, n) is scratch.
 * The context is both keys and values, so d_K is a sum of two parts.
 */
static inline void attention_backward(int64_t R, int64_t n, int64_t d, real scale, const real *u, const real *K,
                                      const real *theta, const real *d_z, real *d_theta, real *d_u, real *d_K) {
  gemm(AS_IS, TURNED, R, n, d, 1, d_z, d, K, d, 0, d_theta, n);
  softmax_backward(R, n, theta, d_theta);
  gemm(AS_IS, AS_IS, R, d, n, scale, d_theta, n, K, d, 0, d_u, d);
  gemm(TURNED, AS_IS, n, d, R, 1, theta, n, d_z, d, 0, d_K, d);
  gemm(TURNED, AS_IS, n, d, R, scale, d_theta, n, u, d, 1, d_K, d);
}

#endif
