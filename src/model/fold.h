/*
 * The folded maps of the trained model, from its parameters and back, in the precision of real.h.
 *
 * Embedding and projections are linear, so their products can be formed once for all samples. With the embedding W_e, b
 * and the positions p_0 (of the query), P (n, d) of the rows, a sample's context X (n, d) and query e:
 *
 *   row i as a key, seen by head h:  (X_i, 1_i) A_h,  A_h = rows W_K,h,  rows (r, d) = (W_e; P)
 *   the query of head h:             (e, 1) Q_h,      Q_h = input W_Q,h, input (D, d) = (W_e; b + p_0)
 *   row i as a value:                (X_i, 1_i) B_h^T + shift_h,  B_h^T = rows W_V,h,  shift_h = b W_V,h
 *
 * where 1_i (n) has its one at i. The bias b in keys adds the same to all logits of a query, so softmax does not see it
 * and it is left out; in values, whose weights sum to one, it is the shift. Where attention is another, or weights drop
 * out (see mhas_order_is_plain), b is added to P instead and there is no shift. A context that is shared is folded in
 * as well: rows (n, d) = X W_e + P, and (X_i, 1_i) is 1_i. Where samples are many against the sizes of heads, M_h = A_h
 * Q_h^T (r, D) is formed too (`joined`).
 *
 * H heads, d dim, d_h key_dim, d_v value_dim, n context, r rows (d + n, or n if shared), D = d + 1.
 */
#ifndef MHASWEEP_MODEL_FOLD_H
#define MHASWEEP_MODEL_FOLD_H

#include <string.h>

#include "model/network.h"
#include "model/product.h"

typedef struct fold_sizes {
  int64_t H, d, k, v, n, r, D;
  bool plain;      /* as mhas_order_is_plain */
  int64_t learned; /* rows that a parameter is behind: not the positions, unless the bias is added to them */
  int64_t tail;    /* where the n numbers of 1_i begin in a row's r */
} fold_sizes;

static inline fold_sizes fold_sizes_of(const mhas_model *model) {
  const mhas_model_shape *s = &model->shape;
  return (fold_sizes){.H = s->heads,
                      .d = s->dim,
                      .k = s->key_dim,
                      .v = s->value_dim,
                      .n = s->context,
                      .r = mhas_folded_rows(s),
                      .D = s->dim + 1,
                      .plain = mhas_order_is_plain(s),
                      .learned = s->shared                ? s->context
                                 : mhas_order_is_plain(s) ? s->dim
                                                          : s->dim + s->context,
                      .tail = s->shared ? 0 : s->dim};
}

/* ROWS and INPUT. */
static void fold_embedding(mhas_model *model, const fold_sizes *z) {
  const real *weight = slice(model, PARAMETERS, MHAS_EMBEDDING);
  const real *bias = slice(model, PARAMETERS, MHAS_EMBEDDING_BIAS);
  const real *positions = model->buffer[POSITIONS];
  real *rows = model->buffer[ROWS];
  real *input = model->buffer[INPUT];
  real *placed = rows + z->tail * z->d;
  memcpy(placed, positions + z->d, (size_t)(z->n * z->d) * sizeof(real));
  for (int64_t i = 0; !z->plain && i < z->n * z->d; i++) {
    placed[i] += bias[i % z->d];
  }
  if (model->shape.shared) {
    gemm(AS_IS, AS_IS, z->n, z->d, z->d, 1, model->buffer[CONTEXTS], z->d, weight, z->d, 1, rows, z->d);
  } else {
    memcpy(rows, weight, (size_t)(z->d * z->d) * sizeof(real));
  }
  memcpy(input, weight, (size_t)(z->d * z->d) * sizeof(real));
  for (int64_t j = 0; j < z->d; j++) {
    input[z->d * z->d + j] = bias[j] + positions[j];
  }
}

/* KEY_MAP (H, r, d_h), QUERY_MAP (D, H, d_h), JOINED_MAP (H, r, D), VALUE_MAP (H, d_v, r) and SHIFT (H, d_v). */
static void fold(mhas_model *model) {
  const fold_sizes z = fold_sizes_of(model);
  const real *bias = slice(model, PARAMETERS, MHAS_EMBEDDING_BIAS);
  const real *rows = model->buffer[ROWS];
  real *shift = model->buffer[SHIFT];
  fold_embedding(model, &z);
  for (int64_t h = 0; h < z.H; h++) {
    real *key = (real *)model->buffer[KEY_MAP] + h * z.r * z.k;
    real *query = (real *)model->buffer[QUERY_MAP] + h * z.k;
    const real *W_V = slice(model, PARAMETERS, MHAS_W_VALUE) + h * z.d * z.v;
    multiply(&model->product[TO_KEY_MAP], rows, slice(model, PARAMETERS, MHAS_W_KEY) + h * z.d * z.k, key);
    multiply(&model->product[TO_QUERY_MAP], model->buffer[INPUT],
             slice(model, PARAMETERS, MHAS_W_QUERY) + h * z.d * z.k, query);
    if (model->order.joined) {
      gemm(AS_IS, TURNED, z.r, z.D, z.k, 1, key, z.k, query, z.H * z.k, 0,
           (real *)model->buffer[JOINED_MAP] + h * z.r * z.D, z.D);
    }
    gemm(TURNED, TURNED, z.v, z.r, z.d, 1, W_V, z.v, rows, z.d, 0, (real *)model->buffer[VALUE_MAP] + h * z.v * z.r,
         z.r);
    if (z.plain) {
      gemm(AS_IS, AS_IS, 1, z.v, z.d, 1, bias, z.d, W_V, z.v, 0, shift + h * z.v, z.v);
    }
  }
  model->folded = true;
}

/* From D_KEY_MAP, D_QUERY_MAP, D_VALUE_MAP and D_SHIFT: the gradients of W_Q and W_K, that of W_V, D_ROWS, D_INPUT, and
 * adds to that of the bias. */
static void unfold_projections(mhas_model *model, const fold_sizes *z) {
  const real *bias = slice(model, PARAMETERS, MHAS_EMBEDDING_BIAS);
  const real *rows = model->buffer[ROWS];
  real *d_bias = slice(model, GRADIENT, MHAS_EMBEDDING_BIAS);
  real *d_rows = model->buffer[D_ROWS];
  real *d_input = model->buffer[D_INPUT];
  for (int64_t h = 0; h < z->H; h++) {
    const real keep = h == 0 ? 0 : 1;
    const int64_t at = h * z->d * z->k;
    const int64_t v_at = h * z->d * z->v;
    const real *d_key = (const real *)model->buffer[D_KEY_MAP] + h * z->r * z->k;
    const real *d_query = (const real *)model->buffer[D_QUERY_MAP] + h * z->k;
    const real *d_value = (const real *)model->buffer[D_VALUE_MAP] + h * z->v * z->r;
    const real *d_shift = (const real *)model->buffer[D_SHIFT] + h * z->v;
    const real *W_V = slice(model, PARAMETERS, MHAS_W_VALUE) + v_at;
    real *d_W_V = slice(model, GRADIENT, MHAS_W_VALUE) + v_at;
    multiply(&model->product[TO_D_W_KEY], rows, d_key, slice(model, GRADIENT, MHAS_W_KEY) + at);
    multiply(&model->product[TO_D_W_QUERY], model->buffer[INPUT], d_query, slice(model, GRADIENT, MHAS_W_QUERY) + at);
    gemm(AS_IS, TURNED, z->learned, z->d, z->k, 1, d_key, z->k, slice(model, PARAMETERS, MHAS_W_KEY) + at, z->k, keep,
         d_rows, z->d);
    gemm(AS_IS, TURNED, z->D, z->d, z->k, 1, d_query, z->H * z->k, slice(model, PARAMETERS, MHAS_W_QUERY) + at, z->k,
         keep, d_input, z->d);
    gemm(TURNED, TURNED, z->d, z->v, z->r, 1, rows, z->d, d_value, z->r, 0, d_W_V, z->v);
    gemm(TURNED, TURNED, z->learned, z->d, z->v, 1, d_value, z->r, W_V, z->v, 1, d_rows, z->d);
    if (z->plain) {
      gemm(TURNED, AS_IS, z->d, z->v, 1, 1, bias, z->d, d_shift, z->v, 1, d_W_V, z->v);
      gemm(AS_IS, TURNED, 1, z->d, z->v, 1, d_shift, z->v, W_V, z->v, 1, d_bias, z->d);
    }
  }
}

/* From the gradients of the maps: sets those of the projections, adds to that of the embedding. */
static void unfold(mhas_model *model) {
  const fold_sizes z = fold_sizes_of(model);
  real *d_weight = slice(model, GRADIENT, MHAS_EMBEDDING);
  real *d_bias = slice(model, GRADIENT, MHAS_EMBEDDING_BIAS);
  const real *d_rows = model->buffer[D_ROWS];
  const real *d_input = model->buffer[D_INPUT];
  unfold_projections(model, &z);
  if (model->shape.shared) {
    gemm(TURNED, AS_IS, z.d, z.d, z.n, 1, model->buffer[CONTEXTS], z.d, d_rows, z.d, 1, d_weight, z.d);
  }
  for (int64_t i = 0; i < z.d * z.d; i++) {
    d_weight[i] += model->shape.shared ? d_input[i] : d_rows[i] + d_input[i];
  }
  for (int64_t j = 0; j < z.d; j++) {
    d_bias[j] += d_input[z.d * z.d + j];
  }
  for (int64_t i = 0; !z.plain && i < z.n * z.d; i++) {
    d_bias[i % z.d] += d_rows[z.tail * z.d + i];
  }
}

#endif
