/*
 * Composing: the numbers of all heads for one query and context row are mixed by coefficients that come from the query
 * and from the row (generate.h). In the precision of real.h.
 *
 * B samples, H heads, n context rows, R rank. A sample's numbers are (H, n), so that every inner loop runs over context
 * rows.
 */
#ifndef MHASWEEP_MODEL_COMPOSE_H
#define MHASWEEP_MODEL_COMPOSE_H

#include <string.h>

#include "model/generate.h"

/* ---- mixing one sample's numbers ------------------------------------------------------- */

/* line (n) = sum_h w_h a_h, for a (H, n) and coefficients of the query: w (H). */
static inline void project_by_query(int64_t H, int64_t n, const real *w, const real *a, real *line) {
  memset(line, 0, (size_t)n * sizeof(real));
  for (int64_t h = 0; h < H; h++) {
    for (int64_t j = 0; j < n; j++) {
      line[j] += w[h] * a[h * n + j];
    }
  }
}

/* The same for coefficients of the context rows: w (H, n). */
static inline void project_by_key(int64_t H, int64_t n, const real *restrict w, const real *restrict a,
                                  real *restrict line) {
  memset(line, 0, (size_t)n * sizeof(real));
  for (int64_t h = 0; h < H; h++) {
    for (int64_t j = 0; j < n; j++) {
      line[j] += w[h * n + j] * a[h * n + j];
    }
  }
}

/* Adds the query's branch of sample b to out (H, n). */
static inline void mix_query_forward(const compose_stage *stage, int64_t b, const real *a, real *out) {
  const int64_t H = stage->H;
  const int64_t n = stage->n;
  const int64_t R = stage->R;
  const real *mix = stage->query.mix + b * 2 * R * H;
  const real *gate = stage->query.gate + b * H;
  real *line = stage->lines;
  for (int64_t r = 0; r < R; r++) {
    const real *w_2 = mix + (R + r) * H;
    project_by_query(H, n, mix + r * H, a, line);
    for (int64_t h = 0; h < H; h++) {
      for (int64_t j = 0; j < n; j++) {
        out[h * n + j] += w_2[h] * line[j];
      }
    }
  }
  for (int64_t h = 0; h < H; h++) {
    for (int64_t j = 0; j < n; j++) {
      out[h * n + j] += gate[h] * a[h * n + j];
    }
  }
}

/* From d_out (H, n): adds to d_a (H, n), sets sample b's d_mix and d_gate. */
static inline void mix_query_backward(const compose_stage *stage, int64_t b, const real *a, const real *d_out,
                                      real *d_a) {
  const int64_t H = stage->H;
  const int64_t n = stage->n;
  const int64_t R = stage->R;
  const real *mix = stage->query.mix + b * 2 * R * H;
  const real *gate = stage->query.gate + b * H;
  real *d_mix = stage->query.d_mix + b * 2 * R * H;
  real *d_gate = stage->query.d_gate + b * H;
  real *line = stage->lines;
  real *d_line = stage->lines + n;
  for (int64_t r = 0; r < R; r++) {
    project_by_query(H, n, mix + r * H, a, line);
    project_by_query(H, n, mix + (R + r) * H, d_out, d_line);
    for (int64_t h = 0; h < H; h++) {
      real first = 0;
      real second = 0;
      for (int64_t j = 0; j < n; j++) {
        first += d_line[j] * a[h * n + j];
        second += line[j] * d_out[h * n + j];
        d_a[h * n + j] += mix[r * H + h] * d_line[j];
      }
      d_mix[r * H + h] = first;
      d_mix[(R + r) * H + h] = second;
    }
  }
  for (int64_t h = 0; h < H; h++) {
    real sum = 0;
    for (int64_t j = 0; j < n; j++) {
      sum += a[h * n + j] * d_out[h * n + j];
      d_a[h * n + j] += gate[h] * d_out[h * n + j];
    }
    d_gate[h] = sum;
  }
}

/* Adds the branch of the rows of context c to out (H, n). */
static inline void mix_key_forward(const compose_stage *stage, int64_t c, const real *restrict a, real *restrict out) {
  const int64_t H = stage->H;
  const int64_t n = stage->n;
  const int64_t R = stage->R;
  const real *restrict mix = stage->key.mix + c * 2 * R * H * n;
  const real *restrict gate = stage->key.gate + c * H * n;
  real *restrict line = stage->lines;
  for (int64_t r = 0; r < R; r++) {
    const real *restrict w_2 = mix + (R + r) * H * n;
    project_by_key(H, n, mix + r * H * n, a, line);
    for (int64_t h = 0; h < H; h++) {
      for (int64_t j = 0; j < n; j++) {
        out[h * n + j] += w_2[h * n + j] * line[j];
      }
    }
  }
  for (int64_t i = 0; i < H * n; i++) {
    out[i] += gate[i] * a[i];
  }
}

/* From d_out (H, n): adds to d_a (H, n), and to d_mix and d_gate of context c. */
static inline void mix_key_backward(const compose_stage *stage, int64_t c, const real *restrict a,
                                    const real *restrict d_out, real *restrict d_a) {
  const int64_t H = stage->H;
  const int64_t n = stage->n;
  const int64_t R = stage->R;
  const real *restrict mix = stage->key.mix + c * 2 * R * H * n;
  const real *restrict gate = stage->key.gate + c * H * n;
  real *restrict d_mix = stage->key.d_mix + c * 2 * R * H * n;
  real *restrict d_gate = stage->key.d_gate + c * H * n;
  real *restrict line = stage->lines;
  real *restrict d_line = stage->lines + n;
  for (int64_t r = 0; r < R; r++) {
    const int64_t first = r * H * n;
    const int64_t second = (R + r) * H * n;
    project_by_key(H, n, mix + first, a, line);
    project_by_key(H, n, mix + second, d_out, d_line);
    for (int64_t h = 0; h < H; h++) {
      for (int64_t j = 0; j < n; j++) {
        const int64_t i = h * n + j;
        d_mix[first + i] += d_line[j] * a[i];
        d_mix[second + i] += line[j] * d_out[i];
        d_a[i] += mix[first + i] * d_line[j];
      }
    }
  }
  for (int64_t i = 0; i < H * n; i++) {
    d_gate[i] += a[i] * d_out[i];
    d_a[i] += gate[i] * d_out[i];
  }
}

/* ---- a stage ---------------------------------------------------------------------------- */

/* Coefficients for the queries x (B, d) and the context rows keys (C n, d). */
static inline void compose_prepare(const compose_stage *stage, const real *x, const real *keys) {
  if ((stage->branches & MHAS_BRANCH_QUERY) != 0) {
    generate_forward(stage, &stage->query, x);
  }
  if ((stage->branches & MHAS_BRANCH_KEY) != 0) {
    generate_forward(stage, &stage->key, keys);
  }
}

/* out (B, H, n) from a (B, H, n). All samples have context 0 if they share it. */
static inline void compose_forward(const compose_stage *stage, int64_t B, bool shared, const real *a, real *out) {
  const int64_t H = stage->H;
  const int64_t n = stage->n;
  memcpy(out, a, (size_t)(B * H * n) * sizeof(real));
  for (int64_t b = 0; b < B; b++) {
    const real *a_b = a + b * H * n;
    real *out_b = out + b * H * n;
    if ((stage->branches & MHAS_BRANCH_BASE) != 0) {
      gemm(TURNED, AS_IS, H, n, H, 1, stage->base, H, a_b, n, 1, out_b, n);
    }
    if ((stage->branches & MHAS_BRANCH_QUERY) != 0) {
      mix_query_forward(stage, b, a_b, out_b);
    }
    if ((stage->branches & MHAS_BRANCH_KEY) != 0) {
      mix_key_forward(stage, shared ? 0 : b, a_b, out_b);
    }
  }
}

/* From d_out (B, H, n): sets d_a (B, H, n) and the gradients of the coefficients, adds to d_base (H, H). */
static inline void compose_backward(const compose_stage *stage, int64_t B, bool shared, const real *a,
                                    const real *d_out, real *d_base, real *d_a) {
  const int64_t H = stage->H;
  const int64_t n = stage->n;
  memcpy(d_a, d_out, (size_t)(B * H * n) * sizeof(real));
  if ((stage->branches & MHAS_BRANCH_KEY) != 0) {
    const int64_t positions = stage->key.C * n;
    memset(stage->key.d_mix, 0, (size_t)(positions * 2 * stage->R * H) * sizeof(real));
    memset(stage->key.d_gate, 0, (size_t)(positions * H) * sizeof(real));
  }
  for (int64_t b = 0; b < B; b++) {
    const int64_t at = b * H * n;
    if ((stage->branches & MHAS_BRANCH_BASE) != 0) {
      gemm(AS_IS, TURNED, H, H, n, 1, a + at, n, d_out + at, n, 1, d_base, H);
      gemm(AS_IS, AS_IS, H, n, H, 1, stage->base, H, d_out + at, n, 1, d_a + at, n);
    }
    if ((stage->branches & MHAS_BRANCH_QUERY) != 0) {
      mix_query_backward(stage, b, a + at, d_out + at, d_a + at);
    }
    if ((stage->branches & MHAS_BRANCH_KEY) != 0) {
      mix_key_backward(stage, shared ? 0 : b, a + at, d_out + at, d_a + at);
    }
  }
}

#endif
