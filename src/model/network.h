/*
 * The trained model up to its values in the precision of real.h, on the buffers of parts.h: layer by layer as a
 * textbook would. It is what runs where folding costs more than it saves, and what the folded order (folded.h) is
 * compared with.
 */
#ifndef MHASWEEP_MODEL_NETWORK_H
#define MHASWEEP_MODEL_NETWORK_H

#include <string.h>

#include "model/attend.h"
#include "model/attention.h"
#include "model/layers.h"
#include "model/parts.h"
#include "model/positions.h"

static inline real *slice(const mhas_model *model, mhas_buffer vector, mhas_slice which) {
  return (real *)model->buffer[vector] + model->offset[which];
}

/* Context rows that `count` samples work on. */
static inline int64_t context_rows(const mhas_model *model, int64_t count) {
  return model->shape.shared ? model->shape.context : count * model->shape.context;
}

static inline real logit_factor(const mhas_model *model) {
  return (real)(model->shape.logit_scale / sqrt((double)model->shape.dim));
}

/* POSITIONS (n + 1, d); the query is row 0. */
static void set_positions(mhas_model *model) {
  const int64_t d = model->shape.dim;
  real *positions = model->buffer[POSITIONS];
  for (int64_t i = 0; i <= model->shape.context; i++) {
    for (int64_t j = 0; j < d; j++) {
      positions[i * d + j] = (real)position_entry(model->shape.position_base, d, i, j);
    }
  }
}

/* TARGETS, or the labels. */
static void gather_labels(mhas_model *model, const mhas_samples *samples, const int64_t *picks, int64_t count) {
  real *targets = model->buffer[TARGETS];
  for (int64_t b = 0; b < count; b++) {
    const double label = samples->labels[picks[b]];
    if (model->shape.classes > 0) {
      model->classes[b] = (int64_t)label;
    } else {
      targets[b] = (real)label;
    }
  }
}

static void gather(mhas_model *model, const mhas_samples *samples, const int64_t *picks, int64_t count) {
  const int64_t d = model->shape.dim;
  const int64_t size = model->shape.context * d;
  const real *contexts = samples->contexts;
  const real *queries = samples->queries;
  real *to_contexts = model->buffer[CONTEXTS];
  real *to_queries = model->buffer[QUERIES];
  for (int64_t b = 0; b < count; b++) {
    memcpy(to_queries + b * d, queries + picks[b] * d, (size_t)d * sizeof(real));
    if (!model->shape.shared) {
      memcpy(to_contexts + b * size, contexts + picks[b] * size, (size_t)size * sizeof(real));
    }
  }
  gather_labels(model, samples, picks, count);
  if (model->shape.shared) {
    memcpy(to_contexts, contexts, (size_t)size * sizeof(real));
  }
  if (model->disturbed && model->shape.disturbance.noise > 0.0) {
    const real *noise = model->buffer[NOISE];
    for (int64_t i = 0; i < count * d; i++) {
      to_queries[i] += noise[i];
    }
  }
}

/* KEYS and X: embedding and positions. */
static void embed_forward(mhas_model *model, int64_t count) {
  const int64_t d = model->shape.dim;
  const int64_t n = model->shape.context;
  const int64_t rows = context_rows(model, count);
  const real *weight = slice(model, PARAMETERS, MHAS_EMBEDDING);
  const real *bias = slice(model, PARAMETERS, MHAS_EMBEDDING_BIAS);
  const real *positions = model->buffer[POSITIONS];
  real *keys = model->buffer[KEYS];
  real *x = model->buffer[X];
  linear_forward(rows, d, d, model->buffer[CONTEXTS], weight, bias, keys);
  linear_forward(count, d, d, model->buffer[QUERIES], weight, bias, x);
  for (int64_t i = 0; i < rows; i++) {
    const real *position = positions + (1 + i % n) * d;
    for (int64_t j = 0; j < d; j++) {
      keys[i * d + j] += position[j];
    }
  }
  for (int64_t i = 0; i < count; i++) {
    for (int64_t j = 0; j < d; j++) {
      x[i * d + j] += positions[j];
    }
  }
}

static void embed_backward(mhas_model *model, int64_t count) {
  const int64_t d = model->shape.dim;
  const real *weight = slice(model, PARAMETERS, MHAS_EMBEDDING);
  real *d_weight = slice(model, GRADIENT, MHAS_EMBEDDING);
  real *d_bias = slice(model, GRADIENT, MHAS_EMBEDDING_BIAS);
  linear_backward(context_rows(model, count), d, d, model->buffer[CONTEXTS], weight, model->buffer[D_KEYS], d_weight,
                  d_bias, NULL);
  linear_backward(count, d, d, model->buffer[QUERIES], weight, model->buffer[D_X], d_weight, d_bias, NULL);
}

/* THETA and Z of plain softmax attention. A shared context sees the queries of all samples and heads as the rows of one
 * matrix. */
static void softmax_attend_forward(mhas_model *model, int64_t count) {
  const int64_t H = model->shape.heads;
  const int64_t n = model->shape.context;
  const int64_t d = model->shape.dim;
  const real factor = logit_factor(model);
  const real *u = model->buffer[U];
  const real *keys = model->buffer[KEYS];
  real *theta = model->buffer[THETA];
  real *z = model->buffer[Z];
  if (model->shape.shared) {
    attention_forward(count * H, n, d, factor, u, keys, theta, z);
    return;
  }
  for (int64_t b = 0; b < count; b++) {
    attention_forward(H, n, d, factor, u + b * H * d, keys + b * n * d, theta + b * H * n, z + b * H * d);
  }
}

static void softmax_attend_backward(mhas_model *model, int64_t count) {
  const int64_t H = model->shape.heads;
  const int64_t n = model->shape.context;
  const int64_t d = model->shape.dim;
  const real factor = logit_factor(model);
  const real *u = model->buffer[U];
  const real *keys = model->buffer[KEYS];
  const real *theta = model->buffer[THETA];
  const real *d_z = model->buffer[D_Z];
  real *d_theta = model->buffer[D_THETA];
  real *d_u = model->buffer[D_U];
  real *d_keys = model->buffer[D_KEYS];
  if (model->shape.shared) {
    attention_backward(count * H, n, d, factor, u, keys, theta, d_z, d_theta, d_u, d_keys);
    return;
  }
  for (int64_t b = 0; b < count; b++) {
    const int64_t at = b * H * d;
    attention_backward(H, n, d, factor, u + at, keys + b * n * d, theta + b * H * n, d_z + at, d_theta + b * H * n,
                       d_u + at, d_keys + b * n * d);
  }
}

static bool is_plain(const mhas_model *model) {
  return mhas_variant_is_softmax(&model->shape.variant) &&
         !(model->disturbed && model->shape.disturbance.dropout > 0.0);
}

static double compose_work(const mhas_model_shape *s, int64_t batch) {
  compose_stage stages[MHAS_STAGES];
  return carve_stages(stages, &s->variant, s->heads, s->context, s->dim, batch, s->shared, true, NULL);
}

static void set_weights(const mhas_model *model, compose_stage *stage, int stage_number) {
  const mhas_slice first = (mhas_slice)(MHAS_PRE_BASE + stage_number * PARTS);
  const real *part[PARTS];
  for (int i = 0; i < PARTS; i++) {
    part[i] = slice(model, PARAMETERS, (mhas_slice)(first + i));
  }
  compose_weights(stage, part);
}

/* The attention of `count` samples on the model's buffers. */
static attend attention_of(const mhas_model *model, int64_t count) {
  const mhas_model_shape *s = &model->shape;
  const bool mask = model->disturbed && s->disturbance.dropout > 0.0;
  attend p = {
      .variant = s->variant,
      .B = count,
      .H = s->heads,
      .n = s->context,
      .d = s->dim,
      .shared = s->shared,
      .factor = logit_factor(model),
      .x = model->buffer[X],
      .keys = model->buffer[KEYS],
      .u = model->buffer[U],
      .scores = s->variant.compose[MHAS_PRE] != 0 ? model->buffer[SCORES] : NULL,
      .weights = s->variant.compose[MHAS_POST] != 0 ? model->buffer[WEIGHTS] : NULL,
      .theta = model->buffer[THETA],
      .mask = mask ? model->buffer[MASK] : NULL,
      .dropped = mask ? model->buffer[DROPPED] : NULL,
  };
  (void)carve_stages(p.stages, &s->variant, p.H, p.n, p.d, count, p.shared, true, model->buffer[COMPOSE]);
  for (int i = 0; i < MHAS_STAGES; i++) {
    set_weights(model, &p.stages[i], i);
  }
  return p;
}

static void set_gradients(const mhas_model *model, stage_gradient gradient[MHAS_STAGES]) {
  for (int i = 0; i < MHAS_STAGES; i++) {
    real *part[PARTS];
    for (int k = 0; k < PARTS; k++) {
      part[k] = slice(model, GRADIENT, (mhas_slice)(MHAS_PRE_BASE + i * PARTS + k));
    }
    gradient[i] = (stage_gradient){.base = part[PART_BASE],
                                   .query = {part[PART_QUERY_IN], part[PART_QUERY_OUT], part[PART_QUERY_GATE]},
                                   .key = {part[PART_KEY_IN], part[PART_KEY_OUT], part[PART_KEY_GATE]}};
  }
}

static void attention_forward_pass(mhas_model *model, int64_t count) {
  if (is_plain(model)) {
    softmax_attend_forward(model, count);
    return;
  }
  const attend p = attention_of(model, count);
  attend_forward(&p, model->buffer[Z]);
}

/* D_U and D_KEYS from D_Z; then, through the queries, D_X. */
static void attention_backward_pass(mhas_model *model, int64_t count) {
  const mhas_model_shape *s = &model->shape;
  const bool plain = is_plain(model);
  attend p;
  stage_gradient gradient[MHAS_STAGES];
  if (plain) {
    softmax_attend_backward(model, count);
  } else {
    p = attention_of(model, count);
    set_gradients(model, gradient);
    attend_backward(&p, gradient, model->buffer[D_Z], model->buffer[D_THETA], model->buffer[D_SCORES],
                    model->buffer[D_U], model->buffer[D_KEYS]);
  }
  query_backward(count, s->heads, s->dim, s->key_dim, model->buffer[X], slice(model, PARAMETERS, MHAS_W_QUERY),
                 slice(model, PARAMETERS, MHAS_W_KEY), model->buffer[Q], model->buffer[D_U], model->buffer[D_Q],
                 slice(model, GRADIENT, MHAS_W_QUERY), slice(model, GRADIENT, MHAS_W_KEY), model->buffer[D_X]);
  if (!plain) {
    attend_backward_queries(&p, gradient, model->buffer[D_X]);
  }
}

/* VALUES of the picked samples. */
static void plain_forward(mhas_model *model, const mhas_samples *samples, const int64_t *picks, int64_t count) {
  const mhas_model_shape *s = &model->shape;
  gather(model, samples, picks, count);
  embed_forward(model, count);
  query_forward(count, s->heads, s->dim, s->key_dim, model->buffer[X], slice(model, PARAMETERS, MHAS_W_QUERY),
                slice(model, PARAMETERS, MHAS_W_KEY), model->buffer[Q], model->buffer[U]);
  attention_forward_pass(model, count);
  value_forward(count, s->heads, s->dim, s->value_dim, model->buffer[Z], slice(model, PARAMETERS, MHAS_W_VALUE),
                model->buffer[VALUES]);
}

/* From D_VALUES: adds to the gradients of everything before. */
static void plain_backward(mhas_model *model, int64_t count) {
  const mhas_model_shape *s = &model->shape;
  value_backward(count, s->heads, s->dim, s->value_dim, model->buffer[Z], slice(model, PARAMETERS, MHAS_W_VALUE),
                 model->buffer[D_VALUES], slice(model, GRADIENT, MHAS_W_VALUE), model->buffer[D_Z]);
  attention_backward_pass(model, count);
  embed_backward(model, count);
}

#endif
