/*
 * A whole pass of the trained model, its loss and its update, in the precision of real.h, on the buffers of parts.h.
 * The file that includes this gets the kernels as REAL_NAME(mhas_kernels).
 */
#ifndef MHASWEEP_MODEL_PASSES_H
#define MHASWEEP_MODEL_PASSES_H

#include "model/folded.h"
#include "model/loss.h"
#include "model/network.h"

/* OUTPUTS of the picked samples. */
static void forward(mhas_model *model, const mhas_samples *samples, const int64_t *picks, int64_t count) {
  const mhas_model_shape *s = &model->shape;
  if (model->order.folded) {
    folded_forward(model, samples, picks, count);
  } else {
    plain_forward(model, samples, picks, count);
  }
  linear_forward(count, s->heads * s->value_dim, s->out_dim, model->buffer[VALUES],
                 slice(model, PARAMETERS, MHAS_W_OUT), NULL, model->buffer[JOINED]);
  linear_forward(count, s->out_dim, mhas_model_outputs(s), model->buffer[JOINED],
                 slice(model, PARAMETERS, MHAS_DECODER), slice(model, PARAMETERS, MHAS_DECODER_BIAS),
                 model->buffer[OUTPUTS]);
}

static double loss(mhas_model *model, int64_t count, int64_t *right) {
  *right = 0;
  if (model->shape.classes > 0) {
    return cross_entropy_forward(REAL_LANES(model), count, model->shape.classes, model->classes, model->buffer[OUTPUTS],
                                 model->buffer[SUMS], right);
  }
  return squared_error_forward(count, model->buffer[TARGETS], model->buffer[OUTPUTS]);
}

/* All but what the folded order sets: most of the vector. */
static void clear_gradient(mhas_model *model) {
  const int64_t skip = model->order.folded ? model->offset[MHAS_W_QUERY] : model->length;
  const int64_t go_on = model->order.folded ? model->offset[MHAS_W_VALUE] : model->length;
  real *gradient = model->buffer[GRADIENT];
  memset(gradient, 0, (size_t)skip * sizeof(real));
  memset(gradient + go_on, 0, (size_t)(model->length - go_on) * sizeof(real));
}

static void backward(mhas_model *model, int64_t count) {
  const mhas_model_shape *s = &model->shape;
  clear_gradient(model);
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
  if (model->order.folded) {
    folded_backward(model, count);
  } else {
    plain_backward(model, count);
  }
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
  REAL_LANES(model)->adam(model->length, rate, root, keep1, take1, keep2, take2, epsilon, model->buffer[GRADIENT],
                          model->buffer[MOMENT1], model->buffer[MOMENT2], model->buffer[PARAMETERS]);
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

static void prepare(mhas_model *model) {
  model->lanes = REAL_NAME(mhas_lanes)(mhas_lanes_level());
  set_positions(model);
  prepare_products(model);
}

const mhas_kernels REAL_NAME(mhas_kernels) = {
    .prepare = prepare,
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
