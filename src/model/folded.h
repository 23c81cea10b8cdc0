/*
 * The trained model's passes over the folded maps of fold.h, in the precision of real.h.
 *
 * The queries meet the maps in few large products, for all samples at once; what belongs to one sample (its context,
 * its logits) is done sample by sample, in small products and loops over data that stay in the nearest cache.
 */
#ifndef MHASWEEP_MODEL_FOLDED_H
#define MHASWEEP_MODEL_FOLDED_H

#include "model/fold.h"
#include "model/lanes.h"

#define REAL_LANES(model) ((const REAL_NAME(lanes) *)(model)->lanes)

static void prepare_products(mhas_model *model) {
  const fold_sizes z = fold_sizes_of(model);
  product *p = model->product;
  if (!model->order.folded) {
    return;
  }
  p[TO_KEY_MAP] = product_of(false, AS_IS, z.r, z.k, z.d, z.d, z.k, z.k);
  p[TO_QUERY_MAP] = product_of(false, AS_IS, z.D, z.k, z.d, z.d, z.k, z.H * z.k);
  p[TO_D_W_KEY] = product_of(false, TURNED, z.d, z.k, z.r, z.d, z.k, z.k);
  p[TO_D_W_QUERY] = product_of(false, TURNED, z.d, z.k, z.D, z.d, z.H * z.k, z.k);
  p[TO_D_KEY_MAP] = product_of(false, AS_IS, z.r, z.k, z.D, z.D, z.H * z.k, z.k);
  p[TO_D_QUERY_MAP] = product_of(false, TURNED, z.D, z.k, z.r, z.D, z.k, z.H * z.k);
  p[ONTO_ROWS] = product_of(true, AS_IS, z.H, z.n, z.d, z.r, z.n, z.r);
  p[VALUES_OF_ROWS] = product_of(true, AS_IS, z.H, z.n, z.d, z.r, z.n, z.n);
  p[OVER_ROWS] = product_of(false, AS_IS, z.H, z.d, z.n, z.n, z.d, z.r);
  p[INTO_ROWS] = product_of(false, AS_IS, z.H, z.d, z.n, z.r, z.d, z.r);
  p[INTO_VALUE_MAP] = product_of(true, AS_IS, z.H, z.d, z.n, z.n, z.d, z.r);
}

/* E1 (B, D): queries with a one behind them; targets. The contexts stay where they are, until the backward pass. */
static void folded_gather(mhas_model *model, const mhas_samples *samples, const int64_t *picks, int64_t count) {
  const int64_t d = model->shape.dim;
  const real *queries = samples->queries;
  const real *noise = model->disturbed && model->shape.disturbance.noise > 0.0 ? model->buffer[NOISE] : NULL;
  real *to = model->buffer[E1];
  for (int64_t b = 0; b < count; b++) {
    memcpy(to + b * (d + 1), queries + picks[b] * d, (size_t)d * sizeof(real));
    to[b * (d + 1) + d] = 1;
    for (int64_t j = 0; noise != NULL && j < d; j++) {
      to[b * (d + 1) + j] += noise[b * d + j];
    }
  }
  gather_labels(model, samples, picks, count);
  const size_t size = (size_t)(model->shape.context * d) * sizeof(real);
  if (model->shape.shared && memcmp(model->buffer[CONTEXTS], samples->contexts, size) != 0) {
    memcpy(model->buffer[CONTEXTS], samples->contexts, size);
    model->folded = false;
  }
  model->contexts = samples->contexts;
  model->picked = picks;
}

static inline const real *context_of(const mhas_model *model, int64_t b) {
  return (const real *)model->contexts + model->picked[b] * model->shape.context * model->shape.dim;
}

/* Has the context of sample b fetched while others are worked on: it comes from far away, and picks are random. */
static inline void fetch_context(const mhas_model *model, int64_t b, int64_t count) {
  const int64_t size = model->shape.context * model->shape.dim;
  enum { LINE = 64 / sizeof(real) };
  for (int64_t i = 0; !model->shape.shared && b < count && i < size; i += LINE) {
    __builtin_prefetch(context_of(model, b) + i);
  }
}

/* LOGITS (B, H, r): the queries against A, all r columns. */
static void queries_forward(mhas_model *model, const fold_sizes *z, int64_t count) {
  const real *E = model->buffer[E1];
  real *logits = model->buffer[LOGITS];
  real *q = model->buffer[Q];
  if (model->order.joined) {
    gemm(AS_IS, TURNED, count, z->H * z->r, z->D, 1, E, z->D, model->buffer[JOINED_MAP], z->D, 0, logits, z->H * z->r);
    return;
  }
  gemm(AS_IS, AS_IS, count, z->H * z->k, z->D, 1, E, z->D, model->buffer[QUERY_MAP], z->H * z->k, 0, q, z->H * z->k);
  for (int64_t h = 0; h < z->H; h++) {
    gemm(AS_IS, TURNED, count, z->r, z->k, 1, q + h * z->k, z->H * z->k,
         (const real *)model->buffer[KEY_MAP] + h * z->r * z->k, z->k, 0, logits + h * z->r, z->H * z->r);
  }
}

/* From the gradient of LOGITS, in its place: D_KEY_MAP and D_QUERY_MAP. */
static void queries_backward(mhas_model *model, const fold_sizes *z, int64_t count) {
  const real *E = model->buffer[E1];
  const real *d_logits = model->buffer[LOGITS];
  const real *q = model->buffer[Q];
  real *d_q = model->buffer[D_Q];
  real *d_joined = model->buffer[D_JOINED_MAP];
  const int64_t wide = z->H * z->k;
  if (model->order.joined) {
    gemm(TURNED, AS_IS, z->H * z->r, z->D, count, 1, d_logits, z->H * z->r, E, z->D, 0, d_joined, z->D);
  }
  for (int64_t h = 0; h < z->H; h++) {
    const real *key = (const real *)model->buffer[KEY_MAP] + h * z->r * z->k;
    real *d_key = (real *)model->buffer[D_KEY_MAP] + h * z->r * z->k;
    if (model->order.joined) {
      const real *d_map = d_joined + h * z->r * z->D;
      multiply(&model->product[TO_D_KEY_MAP], d_map, (const real *)model->buffer[QUERY_MAP] + h * z->k, d_key);
      multiply(&model->product[TO_D_QUERY_MAP], d_map, key, (real *)model->buffer[D_QUERY_MAP] + h * z->k);
    } else {
      const real *d_head = d_logits + h * z->r;
      gemm(TURNED, AS_IS, z->r, z->k, count, 1, d_head, z->H * z->r, q + h * z->k, wide, 0, d_key, z->k);
      gemm(AS_IS, AS_IS, count, z->k, z->r, 1, d_head, z->H * z->r, key, z->k, 0, d_q + h * z->k, wide);
    }
  }
  if (!model->order.joined) {
    gemm(TURNED, AS_IS, z->D, wide, count, 1, E, z->D, d_q, wide, 0, model->buffer[D_QUERY_MAP], wide);
  }
}

/* Columns `tail` on of H rows. */
static inline void copy_tail(const fold_sizes *z, const real *from, int64_t from_stride, real *to, int64_t to_stride) {
  for (int64_t h = 0; h < z->H; h++) {
    memcpy(to + h * to_stride, from + h * from_stride, (size_t)z->n * sizeof(real));
  }
}

/* The scores of sample b's rows as values of each head (H, n), with their stride. */
static inline const real *scores_of(const mhas_model *model, const fold_sizes *z, int64_t b, int64_t *stride) {
  *stride = model->shape.shared ? z->r : z->n;
  return model->shape.shared ? model->buffer[VALUE_MAP] : (const real *)model->buffer[ROW_VALUES] + b * z->H * z->n;
}

/* LOGITS of sample b on its rows, all but the factor, in the tail; and, if values come first, ROW_VALUES. */
static void rows_forward(mhas_model *model, const fold_sizes *z, int64_t b) {
  if (model->shape.shared) {
    return;
  }
  real *logits = (real *)model->buffer[LOGITS] + b * z->H * z->r;
  real *turned = model->buffer[TURNED_CONTEXT];
  REAL_LANES(model)->turn(z->n, z->d, context_of(model, b), turned);
  multiply(&model->product[ONTO_ROWS], logits, turned, logits + z->tail);
  if (model->order.value_first) {
    int64_t stride = 0;
    real *scores = (real *)scores_of(model, z, b, &stride);
    copy_tail(z, (const real *)model->buffer[VALUE_MAP] + z->tail, z->r, scores, z->n);
    multiply(&model->product[VALUES_OF_ROWS], model->buffer[VALUE_MAP], turned, scores);
  }
}

/* From sample b's weights (H, n), what the order wants: MEANS (B, H) of ROW_VALUES, or Z (B, H, r), weighted sums of
 * (X_i, 1_i). */
static void weighing_forward(mhas_model *model, const fold_sizes *z, int64_t b, const real *theta) {
  if (model->order.value_first) {
    int64_t stride = 0;
    const real *scores = scores_of(model, z, b, &stride);
    REAL_LANES(model)->dots(z->H, z->n, theta, scores, stride, (real *)model->buffer[MEANS] + b * z->H);
  } else if (!model->shape.shared) {
    real *sums = (real *)model->buffer[Z] + b * z->H * z->r;
    multiply(&model->product[OVER_ROWS], theta, context_of(model, b), sums);
    copy_tail(z, theta, z->n, sums + z->tail, z->r);
  }
}

/* All of softmax attention, sample by sample. */
static void softmax_forward_pass(mhas_model *model, const fold_sizes *z, int64_t count) {
  for (int64_t b = 0; b < count; b++) {
    const real *logits = (const real *)model->buffer[LOGITS] + b * z->H * z->r + z->tail;
    real *theta = (real *)model->buffer[THETA] + b * z->H * z->n;
    fetch_context(model, b + 1, count);
    rows_forward(model, z, b);
    REAL_LANES(model)->softmax(z->H, z->n, logit_factor(model), logits, z->r, theta, NULL);
    weighing_forward(model, z, b, theta);
  }
}

/* Any attention: what variants do between logits and weights is for all samples at once (attend.h). */
static void variant_forward_pass(mhas_model *model, const fold_sizes *z, int64_t count) {
  const attend p = attention_of(model, count);
  const int64_t numbers = z->H * z->n;
  real *to = attend_logits(&p);
  for (int64_t b = 0; b < count; b++) {
    const real *logits = (const real *)model->buffer[LOGITS] + b * z->H * z->r + z->tail;
    fetch_context(model, b + 1, count);
    rows_forward(model, z, b);
    for (int64_t i = 0; i < numbers; i++) {
      to[b * numbers + i] = p.factor * logits[i / z->n * z->r + i % z->n];
    }
  }
  attend_weigh_forward(&p);
  for (int64_t b = 0; b < count; b++) {
    weighing_forward(model, z, b, attend_used(&p) + b * numbers);
  }
}

static inline const real *weighted_sums(const mhas_model *model) {
  const bool dropped = model->disturbed && model->shape.disturbance.dropout > 0.0;
  return model->shape.shared ? model->buffer[dropped ? DROPPED : THETA] : model->buffer[Z];
}

/* VALUES (B, H, d_v). */
static void values_forward(mhas_model *model, const fold_sizes *z, int64_t count) {
  const int64_t wide = z->H * z->v;
  const real *shift = model->buffer[SHIFT];
  real *values = model->buffer[VALUES];
  for (int64_t h = 0; !model->order.value_first && h < z->H; h++) {
    gemm(AS_IS, TURNED, count, z->v, z->r, 1, weighted_sums(model) + h * z->r, z->H * z->r,
         (const real *)model->buffer[VALUE_MAP] + h * z->v * z->r, z->r, 0, values + h * z->v, wide);
  }
  const real *from = model->order.value_first ? model->buffer[MEANS] : values;
  for (int64_t b = 0; b < count; b++) {
    for (int64_t i = 0; i < wide; i++) {
      values[b * wide + i] = z->plain ? from[b * wide + i] + shift[i] : from[b * wide + i];
    }
  }
}

/* From D_VALUES: D_SHIFT; unless values come first, also D_VALUE_MAP and D_Z (B, H, r). */
static void values_backward(mhas_model *model, const fold_sizes *z, int64_t count) {
  const int64_t wide = z->H * z->v;
  const real *d_values = model->buffer[D_VALUES];
  real *d_shift = model->buffer[D_SHIFT];
  real *d_map = model->buffer[D_VALUE_MAP];
  memset(d_shift, 0, (size_t)wide * sizeof(real));
  for (int64_t b = 0; b < count; b++) {
    for (int64_t i = 0; i < wide; i++) {
      d_shift[i] += d_values[b * wide + i];
    }
  }
  if (model->order.value_first) {
    memset(d_map, 0, (size_t)(wide * z->r) * sizeof(real));
    return;
  }
  for (int64_t h = 0; h < z->H; h++) {
    const real *d_head = d_values + h * z->v;
    gemm(TURNED, AS_IS, z->v, z->r, count, 1, d_head, wide, weighted_sums(model) + h * z->r, z->H * z->r, 0,
         d_map + h * z->v * z->r, z->r);
    gemm(AS_IS, AS_IS, count, z->r, z->v, 1, d_head, wide, (const real *)model->buffer[VALUE_MAP] + h * z->v * z->r,
         z->r, 0, (real *)model->buffer[D_Z] + h * z->r, z->H * z->r);
  }
}

/* From D_Z: the gradient of sample b's weights, in D_Z's tail. */
static void weighing_backward(mhas_model *model, const fold_sizes *z, int64_t b) {
  real *d_sums = (real *)model->buffer[D_Z] + b * z->H * z->r;
  if (!model->shape.shared) {
    REAL_LANES(model)->turn(z->n, z->d, context_of(model, b), model->buffer[TURNED_CONTEXT]);
    multiply(&model->product[ONTO_ROWS], d_sums, model->buffer[TURNED_CONTEXT], d_sums + z->tail);
  }
}

/* With values first: adds to D_VALUE_MAP, from sample b's weights times the gradients of its values (H, n). */
static void value_rows_backward(mhas_model *model, const fold_sizes *z, int64_t b, const real *weights) {
  real *d_map = model->buffer[D_VALUE_MAP];
  REAL_LANES(model)->add(z->H, z->n, weights, d_map + z->tail, z->r);
  if (!model->shape.shared) {
    multiply(&model->product[INTO_VALUE_MAP], weights, context_of(model, b), d_map);
  }
}

/* From the tail of the gradient of LOGITS, which is that of a row's 1_i: the head, that of X_i. */
static void logits_backward(mhas_model *model, const fold_sizes *z, int64_t b) {
  real *d_logits = (real *)model->buffer[LOGITS] + b * z->H * z->r;
  if (!model->shape.shared) {
    multiply(&model->product[INTO_ROWS], d_logits + z->tail, context_of(model, b), d_logits);
  }
}

/* From D_VALUES or D_Z: the gradient of LOGITS, in their place; with values first, adds to D_VALUE_MAP. */
static void softmax_backward_pass(mhas_model *model, const fold_sizes *z, int64_t count) {
  const REAL_NAME(lanes) *lanes = REAL_LANES(model);
  const real factor = logit_factor(model);
  for (int64_t b = 0; b < count; b++) {
    real *d_tail = (real *)model->buffer[LOGITS] + b * z->H * z->r + z->tail;
    real *theta = (real *)model->buffer[THETA] + b * z->H * z->n;
    fetch_context(model, b + 1, count);
    if (model->order.value_first) {
      int64_t stride = 0;
      const real *scores = scores_of(model, z, b, &stride);
      lanes->dots_back(z->H, z->n, factor, scores, stride, (const real *)model->buffer[MEANS] + b * z->H,
                       (const real *)model->buffer[D_VALUES] + b * z->H, theta, d_tail, z->r);
      value_rows_backward(model, z, b, theta);
    } else {
      real *d_theta = (real *)model->buffer[D_Z] + b * z->H * z->r + z->tail;
      weighing_backward(model, z, b);
      lanes->softmax_back(z->H, z->n, factor, theta, d_theta, z->r);
      copy_tail(z, d_theta, z->r, d_tail, z->r);
    }
    logits_backward(model, z, b);
  }
}

/* D_THETA (B, H, n), of the weights that count. */
static void variant_d_theta(mhas_model *model, const fold_sizes *z, int64_t b) {
  real *d_theta = (real *)model->buffer[D_THETA] + b * z->H * z->n;
  if (!model->order.value_first) {
    weighing_backward(model, z, b);
    copy_tail(z, (const real *)model->buffer[D_Z] + b * z->H * z->r + z->tail, z->r, d_theta, z->n);
    return;
  }
  const real *d_values = (const real *)model->buffer[D_VALUES] + b * z->H;
  int64_t stride = 0;
  const real *scores = scores_of(model, z, b, &stride);
  for (int64_t h = 0; h < z->H; h++) {
    for (int64_t i = 0; i < z->n; i++) {
      d_theta[h * z->n + i] = d_values[h] * scores[h * stride + i];
    }
  }
}

/* The weights that count, times the gradients of their values, in their place. */
static void weights_by_d_values(const mhas_model *model, const fold_sizes *z, int64_t b, real *weights) {
  const real *d_values = (const real *)model->buffer[D_VALUES] + b * z->H;
  for (int64_t i = 0; i < z->H * z->n; i++) {
    weights[i] *= d_values[i / z->n];
  }
}

/* As softmax_backward_pass for any attention; also the gradients of composing. */
static void variant_backward_pass(mhas_model *model, const fold_sizes *z, int64_t count) {
  const attend p = attention_of(model, count);
  const int64_t numbers = z->H * z->n;
  stage_gradient gradient[MHAS_STAGES];
  set_gradients(model, gradient);
  for (int64_t b = 0; b < count; b++) {
    fetch_context(model, b + 1, count);
    variant_d_theta(model, z, b);
  }
  const real *d_logits = attend_weigh_backward(&p, gradient, model->buffer[D_THETA], model->buffer[D_SCORES]);
  for (int64_t b = 0; b < count; b++) {
    real *d_tail = (real *)model->buffer[LOGITS] + b * z->H * z->r + z->tail;
    fetch_context(model, b + 1, count);
    for (int64_t i = 0; i < numbers; i++) {
      d_tail[i / z->n * z->r + i % z->n] = p.factor * d_logits[b * numbers + i];
    }
    if (model->order.value_first) {
      real *weights = attend_used(&p) + b * numbers;
      weights_by_d_values(model, z, b, weights);
      value_rows_backward(model, z, b, weights);
    }
    logits_backward(model, z, b);
  }
  if (generates(&model->shape.variant)) {
    const int64_t d = model->shape.dim;
    memset(model->buffer[D_KEYS], 0, (size_t)(context_rows(model, count) * d) * sizeof(real));
    memset(model->buffer[D_X], 0, (size_t)(count * d) * sizeof(real));
    attend_backward_keys(&p, gradient, model->buffer[D_KEYS]);
    attend_backward_queries(&p, gradient, model->buffer[D_X]);
    embed_backward(model, count);
  }
}

/* VALUES of the picked samples. Coefficients of composing are made from embedded queries and rows, as layer by layer.
 */
static void folded_forward(mhas_model *model, const mhas_samples *samples, const int64_t *picks, int64_t count) {
  const fold_sizes z = fold_sizes_of(model);
  folded_gather(model, samples, picks, count);
  if (!model->folded) {
    fold(model);
  }
  queries_forward(model, &z, count);
  if (z.plain) {
    softmax_forward_pass(model, &z, count);
  } else {
    if (generates(&model->shape.variant)) {
      gather(model, samples, picks, count);
      embed_forward(model, count);
    }
    variant_forward_pass(model, &z, count);
  }
  values_forward(model, &z, count);
}

/* From D_VALUES: adds to the gradients of embedding, values and composing, sets those of W_Q and W_K. */
static void folded_backward(mhas_model *model, int64_t count) {
  const fold_sizes z = fold_sizes_of(model);
  values_backward(model, &z, count);
  if (z.plain) {
    softmax_backward_pass(model, &z, count);
  } else {
    variant_backward_pass(model, &z, count);
  }
  queries_backward(model, &z, count);
  unfold(model);
}

#endif
