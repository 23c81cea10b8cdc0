/*
 * The trained model's passes in the precision of real.h, on the buffers of parts.h: layer by layer as a textbook would.
 * The file that includes this gets the kernels as REAL_NAME(mhas_kernels).
 */
#ifndef MHASWEEP_MODEL_NETWORK_H
#define MHASWEEP_MODEL_NETWORK_H

#include <string.h>

#include "model/attend.h"
#include "model/attention.h"
#include "model/layers.h"
#include "model/loss.h"
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

static void gather(mhas_model *model, const mhas_samples *samples, const int64_t *picks, int64_t count) {
  const int64_t d = model->shape.dim;
  const int64_t size = model->shape.context * d;
  const real *contexts = samples->contexts;
  const real *queries = samples->queries;
  real *to_contexts = model->buffer[CONTEXTS];
  real *to_queries = model->buffer[QUERIES];
  real *targets = model->buffer[TARGETS];
  for (int64_t b = 0; b < count; b++) {
    const double label = samples->labels[picks[b]];
    memcpy(to_queries + b * d, queries + picks[b] * d, (size_t)d * sizeof(real));
    if (!model->shape.shared) {
      memcpy(to_contexts + b * size, contexts + picks[b] * size, (size_t)size * sizeof(real));
    }
    if (model->shape.classes > 0) {
      model->classes[b] = (int64_t)label;
    } else {
      targets[b] = (real)label;
    }
  }
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

static void forward(mhas_model *model, const mhas_samples *samples, const int64_t *picks, int64_t count) {
  const mhas_model_shape *s = &model->shape;
  gather(model, samples, picks, count);
  embed_forward(model, count);
  query_forward(count, s->heads, s->dim, s->key_dim, model->buffer[X], slice(model, PARAMETERS, MHAS_W_QUERY),
                slice(model, PARAMETERS, MHAS_W_KEY), model->buffer[Q], model->buffer[U]);
  attention_forward_pass(model, count);
  value_forward(count, s->heads, s->dim, s->value_dim, model->buffer[Z], slice(model, PARAMETERS, MHAS_W_VALUE),
                model->buffer[VALUES]);
  linear_forward(count, s->heads * s->value_dim, s->out_dim, model->buffer[VALUES],
                 slice(model, PARAMETERS, MHAS_W_OUT), NULL, model->buffer[JOINED]);
  linear_forward(count, s->out_dim, mhas_model_outputs(s), model->buffer[JOINED],
                 slice(model, PARAMETERS, MHAS_DECODER), slice(model, PARAMETERS, MHAS_DECODER_BIAS),
                 model->buffer[OUTPUTS]);
}

static double loss(mhas_model *model, int64_t count, int64_t *right) {
  *right = 0;
  if (model->shape.classes > 0) {
    return cross_entropy_forward(count, model->shape.classes, model->classes, model->buffer[OUTPUTS], right);
  }
  return squared_error_forward(count, model->buffer[TARGETS], model->buffer[OUTPUTS]);
}

static void backward(mhas_model *model, int64_t count) {
  const mhas_model_shape *s = &model->shape;
  memset(model->buffer[GRADIENT], 0, (size_t)model->length * sizeof(real));
  if (s->classes > 0) {
    cross_entropy_backward(count, s->classes, model->classes, model->buffer[OUTPUTS]);
  } else {
    squared_error_backward(count, model->buffer[OUTPUTS]);
  }
  linear_backward(count, s->out_dim, mhas_model_outputs(s), model->buffer[JOINED],
                  slice(model, PARAMETERS, MHAS_DECODER), model->buffer[OUTPUTS], slice(model, GRADIENT, MHAS_DECODER),
                  slice(model, GRADIENT, MHAS_DECODER_BIAS), model->buffer[D_JOINED]);
  linear_backward(count, s->heads * s->value_dim, s->out_dim, model->buffer[VALUES],
                  slice(model, PARAMETERS, MHAS_W_OUT), model->buffer[D_JOINED], slice(model, GRADIENT, MHAS_W_OUT),
                  NULL, model->buffer[D_VALUES]);
  value_backward(count, s->heads, s->dim, s->value_dim, model->buffer[Z], slice(model, PARAMETERS, MHAS_W_VALUE),
                 model->buffer[D_VALUES], slice(model, GRADIENT, MHAS_W_VALUE), model->buffer[D_Z]);
  attention_backward_pass(model, count);
  embed_backward(model, count);
}

/* The update is step number model->updates, counted from 1. Constants are made in double, as torch does. */
static void update(mhas_model *model, const mhas_adam *adam, double lr) {
  const double step = (double)model->updates;
  const real rate = (real)(lr / (1.0 - pow(adam->beta1, step)));
  const real root = (real)sqrt(1.0 - pow(adam->beta2, step));
  const real keep1 = (real)adam->beta1;
  const real take1 = (real)(1.0 - adam->beta1);
  const real keep2 = (real)adam->beta2;
  const real take2 = (real)(1.0 - adam->beta2);
  const real epsilon = (real)adam->epsilon;
  real *restrict parameter = model->buffer[PARAMETERS];
  const real *restrict gradient = model->buffer[GRADIENT];
  real *restrict first = model->buffer[MOMENT1];
  real *restrict second = model->buffer[MOMENT2];
  for (int64_t i = 0; i < model->length; i++) {
    first[i] = first[i] * keep1 + gradient[i] * take1;
    second[i] = second[i] * keep2 + gradient[i] * gradient[i] * take2;
    parameter[i] -= rate * (first[i] / (REAL_SQRT(second[i]) / root + epsilon));
  }
}

static void decay(mhas_model *model, double factor) {
  real *restrict parameter = model->buffer[PARAMETERS];
  for (int64_t i = 0; i < model->length; i++) {
    parameter[i] *= (real)factor;
  }
}

static void shrink(mhas_model *model, double by) {
  const real step = (real)by;
  real *restrict parameter = model->buffer[PARAMETERS];
  for (int64_t i = 0; i < model->length; i++) {
    const real w = parameter[i];
    parameter[i] = w > step ? w - step : w >= -step ? 0 : w + step; /* NaN stays */
  }
}

/* Number (step B + b) H n + h n + i of the mask's stream is that of weight i of head h of sample b; the noise goes by
 * (step B + b) d + j. B is the model's batch, whatever the samples of the step. */
static void disturb(mhas_model *model, mhas_random random, int64_t step) {
  const mhas_model_shape *s = &model->shape;
  const int64_t masks = model->batch * s->heads * s->context;
  const int64_t noises = model->batch * s->dim;
  const double drop = s->disturbance.dropout;
  enum { BLOCK = 512 };
  double block[BLOCK];
  for (int64_t at = 0; drop > 0.0 && at < masks; at += BLOCK) {
    const int64_t count = masks - at < BLOCK ? masks - at : BLOCK;
    real *mask = (real *)model->buffer[MASK] + at;
    mhas_random_uniform(random, MHAS_STREAM_DROPOUT, (uint64_t)step * (uint64_t)masks + (uint64_t)at, (size_t)count,
                        block);
    for (int64_t i = 0; i < count; i++) {
      mask[i] = block[i] < drop ? 0 : (real)(1.0 / (1.0 - drop));
    }
  }
  for (int64_t at = 0; s->disturbance.noise > 0.0 && at < noises; at += BLOCK) {
    const int64_t count = noises - at < BLOCK ? noises - at : BLOCK;
    real *noise = (real *)model->buffer[NOISE] + at;
    mhas_random_normal(random, MHAS_STREAM_QUERY_NOISE, (uint64_t)step * (uint64_t)noises + (uint64_t)at, (size_t)count,
                       block);
    for (int64_t i = 0; i < count; i++) {
      noise[i] = (real)(block[i] * s->disturbance.noise);
    }
  }
}

static void read_buffer(const void *buffer, int64_t first, int64_t count, double *out) {
  const real *from = (const real *)buffer + first;
  for (int64_t i = 0; i < count; i++) {
    out[i] = (double)from[i];
  }
}

static void write_buffer(void *buffer, int64_t first, int64_t count, const double *values) {
  real *to = (real *)buffer + first;
  for (int64_t i = 0; i < count; i++) {
    to[i] = (real)values[i];
  }
}

const mhas_kernels REAL_NAME(mhas_kernels) = {
    .set_positions = set_positions,
    .compose_work = compose_work,
    .forward = forward,
    .loss = loss,
    .backward = backward,
    .update = update,
    .decay = decay,
    .shrink = shrink,
    .disturb = disturb,
    .read = read_buffer,
    .write = write_buffer,
};

#endif
