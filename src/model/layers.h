/*
 * The linear layers around the attention, in the precision of real.h. Backward passes add to the gradients of weights
 * and set those of activations. B samples; H heads, d dim, d_h key_dim, d_v value_dim.
 */
#ifndef MHASWEEP_MODEL_LAYERS_H
#define MHASWEEP_MODEL_LAYERS_H

#include "model/real.h"

/* y (B, out) = x (B, in) w (in, out) + bias (out); no bias if it is NULL. */
static inline void linear_forward(int64_t B, int64_t in, int64_t out, const real *x, const real *w, const real *bias,
                                  real *y) {
  gemm(AS_IS, AS_IS, B, out, in, 1, x, in, w, out, 0, y, out);
  for (int64_t i = 0; bias != NULL && i < B; i++) {
    for (int64_t j = 0; j < out; j++) {
      y[i * out + j] += bias[j];
    }
  }
}

/* From d_y (B, out): adds to d_w (in, out) and d_bias (out), sets d_x (B, in). d_bias and d_x may be NULL. */
static inline void linear_backward(int64_t B, int64_t in, int64_t out, const real *x, const real *w, const real *d_y,
                                   real *d_w, real *d_bias, real *d_x) {
  gemm(TURNED, AS_IS, in, out, B, 1, x, in, d_y, out, 1, d_w, out);
  for (int64_t i = 0; d_bias != NULL && i < B; i++) {
    for (int64_t j = 0; j < out; j++) {
      d_bias[j] += d_y[i * out + j];
    }
  }
  if (d_x != NULL) {
    gemm(AS_IS, TURNED, B, in, out, 1, d_y, out, w, out, 0, d_x, in);
  }
}

/* q (H, B, d_h): q_h = x W_Q,h; u (B, H, d): u_h = q_h W_K,h^T; for x (B, d), W_Q and W_K (H, d, d_h). */
static inline void query_forward(int64_t B, int64_t H, int64_t d, int64_t d_h, const real *x, const real *W_Q,
                                 const real *W_K, real *q, real *u) {
  for (int64_t h = 0; h < H; h++) {
    real *q_h = q + h * B * d_h;
    gemm(AS_IS, AS_IS, B, d_h, d, 1, x, d, W_Q + h * d * d_h, d_h, 0, q_h, d_h);
    gemm(AS_IS, TURNED, B, d, d_h, 1, q_h, d_h, W_K + h * d * d_h, d_h, 0, u + h * d, H * d);
  }
}

/* From d_u (B, H, d): adds to d_W_Q and d_W_K (H, d, d_h), sets d_x (B, d); d_q (B, d_h) is scratch. */
static inline void query_backward(int64_t B, int64_t H, int64_t d, int64_t d_h, const real *x, const real *W_Q,
                                  const real *W_K, const real *q, const real *d_u, real *d_q, real *d_W_Q, real *d_W_K,
                                  real *d_x) {
  for (int64_t h = 0; h < H; h++) {
    const real *q_h = q + h * B * d_h;
    const real *d_u_h = d_u + h * d;
    const int64_t at = h * d * d_h;
    gemm(TURNED, AS_IS, d, d_h, B, 1, d_u_h, H * d, q_h, d_h, 1, d_W_K + at, d_h);
    gemm(AS_IS, AS_IS, B, d_h, d, 1, d_u_h, H * d, W_K + at, d_h, 0, d_q, d_h);
    gemm(TURNED, AS_IS, d, d_h, B, 1, x, d, d_q, d_h, 1, d_W_Q + at, d_h);
    gemm(AS_IS, TURNED, B, d, d_h, 1, d_q, d_h, W_Q + at, d_h, h == 0 ? 0 : 1, d_x, d);
  }
}

/* v (B, H, d_v): v_h = z_h W_V,h, for z (B, H, d) and W_V (H, d, d_v). */
static inline void value_forward(int64_t B, int64_t H, int64_t d, int64_t d_v, const real *z, const real *W_V,
                                 real *v) {
  for (int64_t h = 0; h < H; h++) {
    gemm(AS_IS, AS_IS, B, d_v, d, 1, z + h * d, H * d, W_V + h * d * d_v, d_v, 0, v + h * d_v, H * d_v);
  }
}

/* From d_v_ (B, H, d_v): adds to d_W_V (H, d, d_v), sets d_z (B, H, d). */
static inline void value_backward(int64_t B, int64_t H, int64_t d, int64_t d_v, const real *z, const real *W_V,
                                  const real *d_values, real *d_W_V, real *d_z) {
  for (int64_t h = 0; h < H; h++) {
    const real *d_v_h = d_values + h * d_v;
    gemm(TURNED, AS_IS, d, d_v, B, 1, z + h * d, H * d, d_v_h, H * d_v, 1, d_W_V + h * d * d_v, d_v);
    gemm(AS_IS, TURNED, B, d, d_v, 1, d_v_h, H * d_v, W_V + h * d * d_v, d_v, 0, d_z + h * d, H * d);
  }
}

#endif
