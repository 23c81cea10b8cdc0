/*
 * The trained model's passes in the precision of real.h, on the buffers of parts.h: layer by layer as a textbook would.
 * The file that includes this gets the kernels as REAL_NAME(mhas_kernels).
 */
#ifndef MHASWEEP_MODEL_NETWORK_H
#define MHASWEEP_MODEL_NETWORK_H

#include <string.h>

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

/* THETA and Z. A shared context sees the queries of all samples and heads as the rows of one matrix. */
static void attend_forward(mhas_model *model, int64_t count) {
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

static void attend_backward(mhas_model *model, int64_t count) {
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

static void forward(mhas_model *model, const mhas_samples *samples, const int64_t *picks, int64_t count) {
  const mhas_model_shape *s = &model->shape;
  gather(model, samples, picks, count);
  embed_forward(model, count);
  query_forward(count, s->heads, s->dim, s->key_dim, model->buffer[X], slice(model, PARAMETERS, MHAS_W_QUERY),
                slice(model, PARAMETERS, MHAS_W_KEY), model->buffer[Q], model->buffer[U]);
  attend_forward(model, count);
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
  attend_backward(model, count);
  query_backward(count, s->heads, s->dim, s->key_dim, model->buffer[X], slice(model, PARAMETERS, MHAS_W_QUERY),
                 slice(model, PARAMETERS, MHAS_W_KEY), model->buffer[Q], model->buffer[D_U], model->buffer[D_Q],
                 slice(model, GRADIENT, MHAS_W_QUERY), slice(model, GRADIENT, MHAS_W_KEY), model->buffer[D_X]);
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
    .forward = forward,
    .loss = loss,
    .backward = backward,
    .update = update,
    .read = read_buffer,
    .write = write_buffer,
};

#endif
